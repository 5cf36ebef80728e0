"""What the experiments with networks share: the methods and their bounds, streams of trials, errors and times.

The methods are those of the paper's section 4.2, with its bounds; beside them stand three that it lacks: a calibrated
weight and learned noise, which nobody tuned, and an EKF that is given the targets before they are corrupted. As run,
EKF-B and EKF-IW are those of the published code, and the library's EKF-IW, linearised once, is one more method.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from wolf.api import filter_many
from wolf.engine import scan
from wolf.inference import registry
from wolf.inference.filters import GaussianFilter
from wolf.numerics.precision import precision
from wolf.numerics.pytree import cast
from wolf_paper import search
from wolf_paper.as_run import CarriedBernoulli
from wolf_paper.protocol import Row, Rows
from wolf_paper.published_ekf_iw import PublishedWishart

Bounds = dict[str, tuple[float, float]]
Tell = Callable[[int, int], None]

SMALLEST = 1e-6  # of counts and scalings that must be above 0
PRIOR: Bounds = {"log_lr": (-5.0, 0.0)}  # log of the prior variance of the weights, or of Adam's learning rate
INNER: Bounds = {"iterations": (1.0, 10.0)}  # cut to a whole number
BOUNDS: dict[str, Bounds] = {
    "EKF": PRIOR,
    "EKF-B": PRIOR | INNER | {"alpha": (SMALLEST, 5.0), "beta": (SMALLEST, 5.0)},
    "EKF-IW": PRIOR | INNER | {"scaling": (SMALLEST, 5.0)},
    "OGD": PRIOR | INNER,
    "WoLF-IMQ": PRIOR | {"c": (SMALLEST, 20.0)},
    "WoLF-TMD": PRIOR | {"c": (SMALLEST, 20.0)},
}
CORRECTED = "EKF-IW (corrected)"
BOUNDS_AS_RUN = BOUNDS | {CORRECTED: BOUNDS["EKF-IW"]}
CALIBRATED = "WoLF (calibrated)"
LEARNED = "Learned"
CLEAN = "EKF (clean targets)"
UNTUNED = (CALIBRATED, LEARNED, CLEAN)
METHODS = ("EKF", "EKF-B", "EKF-IW", CORRECTED, "OGD", "WoLF-IMQ", "WoLF-TMD", *UNTUNED)  # in the order of tables
RIVALS = ("EKF", "EKF-B", "EKF-IW", "OGD")
ROBUST = ("EKF-B", "EKF-IW", "WoLF-IMQ", "WoLF-TMD", CALIBRATED, LEARNED)
CHUNK = 10  # trials in one compiled call: a protein stream is 3 MB, and its progress should be seen
PATIENCE = 12  # with 5, targets that are +50 or -50 in 45 % of the rows are soon believed
VALUES = ("log_lr", "iterations", "alpha", "beta", "scaling", "c")


@dataclass(frozen=True)
class Trials:
    """Streams of equal length.

    Attributes:
        features: (B, T, K).
        targets: with outliers, (B, T).
        clean: before they came.
    """

    features: np.ndarray
    targets: np.ndarray
    clean: np.ndarray

    def __len__(self) -> int:
        """Count the trials."""
        return len(self.targets)

    def __getitem__(self, rows: slice) -> "Trials":
        """Take some of the trials."""
        return Trials(self.features[rows], self.targets[rows], self.clean[rows])


ModelOf = Callable[[float, int], Any]  # the model of a prior variance and the number of a trial


def method_of(name: str, values: Mapping[str, Any], as_run: bool = False) -> Any:
    """Build a method from its hyper-parameters; `c` of the TMD is a distance, which the filter squares.

    Args:
        name: one of `METHODS`.
        values: by name; what a method does not take is not looked at.
        as_run: whether EKF-B and EKF-IW are those of the published runs.
    """
    inner = int(values.get("iterations", 1))
    if name == CALIBRATED:
        return registry.make("WoLF")
    if name == LEARNED:
        return registry.make("Learned", patience=PATIENCE)
    if name in ("EKF", CLEAN):
        return registry.make("EKF")
    if name == "EKF-B":
        counts = {"alpha": float(values["alpha"]), "beta": float(values["beta"])}
        if as_run:
            return GaussianFilter(noise=CarriedBernoulli(**counts, iterations=inner))
        return registry.make("EKF-B", **counts, iterations=inner)
    if name == "EKF-IW" and as_run:
        return PublishedWishart(scaling=float(values["scaling"]), iterations=inner)
    if name in ("EKF-IW", CORRECTED):
        return registry.make("EKF-IW", scaling=float(values["scaling"]), iterations=inner)
    if name == "OGD":
        return registry.make("OGD", learning_rate=float(np.exp(values["log_lr"])), iterations=inner)
    c = float(values["c"])
    return registry.make(name, c=c if name == "WoLF-IMQ" else c**2)


def prior_variance(name: str, values: Mapping[str, Any]) -> float:
    """Give the prior variance of the weights: 1 where it is not tuned."""
    return 1.0 if name == "OGD" else float(np.exp(values.get("log_lr", 0.0)))


def residual(state: Any, info: Any) -> Any:
    """Keep the prior-predictive error of each step."""
    return info.residual


def predictions(
    name: str, values: Mapping[str, Any], model_of: ModelOf, trials: Trials, first: int = 0, as_run: bool = False
) -> np.ndarray:
    """Run trials in one compiled call, and give what was predicted before each target came, (B, T).

    Args:
        name: of the method.
        values: its hyper-parameters.
        model_of: the model; one for all trials if it starts alike in all.
        trials: the data.
        first: number of the first of them.
        as_run: see `method_of`; in float32, as it was.
    """
    variance = prior_variance(name, values)
    models = [model_of(variance, first + i) for i in range(len(trials))]
    shared = all(np.array_equal(models[0].mean, each.mean) for each in models)
    shown = trials.clean if name == CLEAN else trials.targets
    out = filter_many(
        models[0] if shared else models,
        shown[..., None],
        inputs=trials.features,
        method=method_of(name, values, as_run),
        save=residual,
        dtype="float32" if as_run else "float64",
    )
    return shown - np.asarray(out.saved[..., 0], np.float64)


def errors(
    name: str, values: Mapping[str, Any], model_of: ModelOf, trials: Trials, first: int = 0, as_run: bool = False
) -> np.ndarray:
    """Run trials and compute their RMedSE, `sqrt(median over t of (y_t - h(mean before y_t))²)`, outliers included.

    Arguments are those of `predictions`; returns (B,).
    """
    return root_median_square(trials.targets - predictions(name, values, model_of, trials, first, as_run))


def root_median_square(values: np.ndarray) -> np.ndarray:
    """Take the root of the median of the squares over the last axis; not a number where one of them is not.

    Example:
        >>> float(root_median_square(np.array([-3.0, 0.0, 100.0])))
        3.0
    """
    return np.sqrt(np.median(np.asarray(values) ** 2, axis=-1))


def run_trials(
    chosen: Mapping[str, Mapping[str, Any]],
    model_of: ModelOf,
    make: Callable[[range], Trials],
    count: int,
    tell: Tell,
    as_run: bool = False,
) -> Rows:
    """Run every method on the same trials, some at a time.

    Args:
        chosen: hyper-parameters by method.
        model_of: as in `errors`.
        make: streams of these trials.
        count: number of trials.
        tell: told the progress.
        as_run: see `method_of`.
    """
    rows: Rows = []
    for start in range(0, count, CHUNK):
        which = range(start, min(start + CHUNK, count))
        trials = make(which)
        for place, (name, values) in enumerate(chosen.items()):
            found = errors(name, values, model_of, trials, start, as_run)
            rows += [
                {"method": name, "trial": trial, "rmedse": float(error)}
                for trial, error in zip(which, found, strict=True)
            ]
            tell(start * len(chosen) + (place + 1) * len(which), count * len(chosen))
    return rows


def tune(
    model_of: ModelOf,
    trial: Trials,
    *,
    initial: int,
    iterations: int,
    seed: int,
    tell: Tell,
    number: int = 0,
    bounds: Mapping[str, Bounds] | None = None,
    fixed: Mapping[str, Any] | None = None,
    as_run: bool = False,
) -> Rows:
    """Choose the hyper-parameters of methods on one trial, as the paper does; a row for each method.

    Args:
        model_of: as in `errors`.
        trial: one trial.
        initial: random points.
        iterations: points of the surrogate.
        seed: of the search.
        tell: told the progress.
        number: of the trial.
        bounds: boxes by method; default: the paper's.
        fixed: hyper-parameters that are not searched.
        as_run: see `method_of`.
    """
    rows: Rows = []
    searched = (BOUNDS_AS_RUN if as_run else BOUNDS) if bounds is None else bounds
    for place, name in enumerate(searched):

        def score(name: str = name, **values: float) -> float:
            found = errors(name, dict(fixed or {}) | values, model_of, trial, number, as_run)
            return -(float(found[0]) ** 2)

        def part(done: int, of: int, place: int = place) -> None:
            tell(place * of + done, len(searched) * of)

        found = search.maximise(score, searched[name], initial=initial, iterations=iterations, seed=seed, tell=part)
        row: Row = {"method": name, "evaluations": found.evaluations, "rmedse": float(np.sqrt(-found.score))}
        rows.append(row | dict(fixed or {}) | found.values)
    return rows


def values_of(rows: Rows, untuned: tuple[str, ...] = UNTUNED) -> dict[str, dict[str, float]]:
    """Read hyper-parameters back from the rows of a tuning part; methods that have none get an empty set."""
    tuned = {row["method"]: {name: row[name] for name in VALUES if row.get(name) is not None} for row in rows}
    return {name: tuned.get(name, {}) for name in METHODS if name in tuned or name in untuned}


def time_trials(
    chosen: Mapping[str, Mapping[str, Any]],
    model_of: ModelOf,
    make: Callable[[range], Trials],
    count: int,
    repeats: int,
    tell: Tell,
    as_run: bool = False,
) -> Rows:
    """Run trials one by one and time them: all methods in turn, warm, the best of some repeats, in processor time.

    Args:
        chosen: hyper-parameters by method.
        model_of: as in `errors`.
        make: streams of these trials.
        count: number of trials.
        repeats: of each run.
        tell: told the progress.
        as_run: see `method_of`.
    """
    rows: Rows = []
    with precision("float64"):
        engines = {
            name: cast((model_of(prior_variance(name, values), 0), method_of(name, values, as_run)), "float64")
            for name, values in chosen.items()
        }
        for number in range(count):
            trial = make(range(number, number + 1))
            best = dict.fromkeys(engines, np.inf)
            found: dict[str, float] = {}
            for turn in range(repeats + (number == 0)):
                for name, engine in engines.items():
                    shown = (trial.clean if name == CLEAN else trial.targets)[0]
                    start = time.process_time()
                    _, kept = jax.block_until_ready(
                        scan.run_filter(engine[0], shown[:, None], engine[1], trial.features[0], save=residual)
                    )
                    if turn or number:  # the very first turn compiles
                        best[name] = min(best[name], (time.process_time() - start) / len(shown))
                    found[name] = float(root_median_square(trial.targets[0] - shown + np.asarray(kept)[:, 0]))
            rows += [
                {"method": name, "trial": number, "rmedse": found[name], "seconds_per_step": best[name]}
                for name in engines
            ]
            tell(number + 1, count)
    return rows
