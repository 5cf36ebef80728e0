"""Twin experiments: simulation of a truth and its measurements, assimilation, and scores against the truth.

Long runs are processed in chunks, so that members need not be stored and progress can be reported.
"""

import dataclasses
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf import api, simulate, validation
from wolf.diagnostics import metrics
from wolf.engine.recorders import save_means
from wolf.execution import validate
from wolf.inference.filters import EnsembleFilter, EnsembleState
from wolf.interfaces import Filter, Key, StepInfo
from wolf.numerics.precision import as_key
from wolf.results import count
from wolf.simulate.processes import OutlierProcess, check_process
from wolf.statespace import Model

MAX_CHUNK_ENTRIES = 4_000_000  # numbers in the members of one chunk of a run: 32 MB
PROGRESS_DELAY = 2.0  # seconds before progress is shown on a terminal
BURN_IN_SHARE = 0.1  # of the steps, left out of scores by default


@dataclasses.dataclass(frozen=True, repr=False)
class Twin:
    """Result of a twin experiment.

    Attributes:
        truth: (T, D).
        measurements: (T, M).
        outliers: (T,) bool, True where the outlier process generated an outlier.
        means: of the analysis, (T, D).
        rmse: root mean square error over the states at each step, (T,).
        spread: root mean variance over the states at each step, (T,); close to the error if the filter is calibrated.
        crps: mean over the states at each step, (T,).
        ranks: counts of the truth among the members after the burn-in, (N + 1,); None for filters without members.
        weights: (T, M), or (T,) for a joint weight.
        burn_in: number of steps left out of the scores.
        method: as run.
        seconds: duration of the assimilation.
    """

    truth: np.ndarray
    measurements: np.ndarray
    outliers: np.ndarray
    means: np.ndarray
    rmse: np.ndarray
    spread: np.ndarray
    crps: np.ndarray
    ranks: np.ndarray | None
    weights: np.ndarray
    burn_in: int
    method: Any
    seconds: float

    @property
    def scores(self) -> dict[str, float]:
        """Means over time of error, spread and CRPS, after the burn-in."""
        scores = {"rmse": self.rmse, "spread": self.spread, "crps": self.crps}
        return {name: float(values[self.burn_in :].mean()) for name, values in scores.items()}

    def __repr__(self) -> str:
        """Format the scores."""
        shown = ", ".join(f"{name} {value:.4g}" for name, value in self.scores.items())
        steps = count(len(self.truth), "step")
        return f"Twin: {steps}, {self.outliers.sum()} with outliers; after {self.burn_in}: {shown}"


def run(
    model: Model,
    method: str | Filter | None = None,
    steps: int = 1000,
    *,
    key: Key,
    outliers: OutlierProcess | None = None,
    data: simulate.Simulation | None = None,
    initial: ArrayLike | None = None,
    burn_in: int | None = None,
    progress: bool | Callable[[int, int], None] | None = None,
) -> Twin:
    """Run a twin experiment.

    Args:
        model: of the simulation and of the filter.
        method: as in `wolf.filter`.
        steps: T.
        key: seed or JAX key; split for the simulation and the filter.
        outliers: a process from `wolf.simulate`; default: none.
        data: truth and measurements from `wolf.simulate.trajectory`, to compare methods on the same data.
        initial: true state at time 0; default: drawn from the prior.
        burn_in: number of steps left out of the scores; default: a tenth.
        progress: True or False to show progress, or a function of (done, steps); by default progress is shown on a
            terminal after two seconds.

    Example:
        >>> import wolf
        >>> model = wolf.models.lorenz96(8)
        >>> result = run(model, wolf.methods.make("WoLF-ETKF", num_members=12), steps=40, key=0)
        >>> result.ranks.sum() == 36 * 8
        np.True_
    """
    import jax

    validate.check_model(model)
    validation.count("steps", steps)
    validation.key(key, needed=True)
    method = validate.resolve_method(method, model)
    _check(model, data, progress, outliers, initial)
    steps = steps if data is None else len(data.measurements)
    burn_in = int(BURN_IN_SHARE * steps) if burn_in is None else validation.integer("burn_in", burn_in)
    if burn_in >= steps:
        raise ValueError(f"burn_in must be less than {steps}, the number of steps; got {burn_in}")
    data_key, filter_key = jax.random.split(as_key(key))
    if data is None:
        data = simulate.trajectory(model, steps, data_key, outliers, initial=initial)
    report_progress, start, rows = _progress_reporter(progress), time.perf_counter(), []
    ranks: Any = 0
    chunks = _chunks(data.measurements, model, method)
    length = len(chunks[0])
    results = api.filter_chunks(model, chunks, method=method, key=filter_key, save=_save_members)
    for number, result in enumerate(results):
        window = slice(number * length, min((number + 1) * length, steps))
        truth = data.states[window]
        saved = {name: values[: len(truth)] for name, values in result.saved.items()}
        scored = np.arange(steps)[window] >= burn_in
        rows.append(_score(saved, truth))
        if "members" in saved:
            ranks = ranks + metrics.rank_histogram(saved["members"][scored], truth[scored])
        report_progress(window.stop, steps)
    joined = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    return Twin(
        data.states,
        data.measurements,
        data.outliers,
        ranks=ranks if "members" in saved else None,
        burn_in=burn_in,
        method=method,
        seconds=time.perf_counter() - start,
        **joined,
    )


def _check(model: Model, data: object, progress: object, outliers: object, initial: object) -> None:
    if data is not None and not isinstance(data, simulate.Simulation):
        raise ValueError(f"data must be what wolf.simulate.trajectory returned; got {validation.short_repr(data)}")
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise ValueError(
            f"progress must be True, False or a function of (done, steps); got {validation.short_repr(progress)}"
        )
    if outliers is not None:
        check_process("outliers", outliers)
    if initial is not None and validation.number_array("initial", initial).shape != (model.state_dim,):
        raise ValueError(f"initial must have shape ({model.state_dim},); got {validation.short_repr(initial)}")


def _chunks(ys: np.ndarray, model: Model, method: object) -> list[np.ndarray]:
    """Split measurements into chunks of equal length, compiled once, whose members fit in memory."""
    size = (method.num_members if isinstance(method, EnsembleFilter) else 1) * model.state_dim
    num_chunks = -(-len(ys) // max(1, MAX_CHUNK_ENTRIES // size))
    length = -(-len(ys) // num_chunks)
    padded = np.full((num_chunks * length, model.obs_dim), np.nan)
    padded[: len(ys)] = ys
    return np.split(padded, num_chunks)


def _save_members(state: Any, info: StepInfo) -> dict[str, Array]:
    members = isinstance(state, EnsembleState)
    return save_means(state, info) | ({"members": state.members} if members else {"variances": state.variances})


def _score(saved: dict[str, np.ndarray], truth: np.ndarray) -> dict[str, np.ndarray]:
    means, weights = saved["means"], saved["weights"]
    if "members" in saved:
        variances, crps = saved["members"].var(1, ddof=1), metrics.ensemble_crps(saved["members"], truth)
    else:
        variances = saved["variances"]
        crps = metrics.crps(means[:, None], (variances[..., None] * np.eye(truth.shape[1]))[:, None], truth[:, None])
    return {
        "means": means,
        "rmse": np.sqrt(((means - truth) ** 2).mean(1)),
        "spread": np.sqrt(variances.mean(1)),
        "crps": crps.mean(1),
        "weights": weights,
    }


def _progress_reporter(progress: bool | Callable[[int, int], None] | None) -> Callable[[int, int], None]:
    """Return the function that reports the progress of a run."""
    if callable(progress):
        return progress
    start = time.perf_counter()
    on_terminal = sys.stderr.isatty()

    def report(done: int, steps: int) -> None:
        elapsed = time.perf_counter() - start
        if progress or (progress is None and on_terminal and elapsed > PROGRESS_DELAY):
            left = elapsed * (steps - done) / done
            end = "\n" if done == steps or not on_terminal else ""
            print(f"\r{done}/{steps} steps, {elapsed:.0f} s, about {left:.0f} s left ", end=end, file=sys.stderr)

    return report
