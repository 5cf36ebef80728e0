"""Backtests (time-series cross-validation): `wolf.backtest(model, ys, horizon=)`.

From every origin the future is forecast from the measurements before it alone, and compared with what was measured
(rolling origin with an expanding window; Hyndman & Athanasopoulos 2021, section 5.10).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from wolf import api, validation
from wolf.beliefs.density import deviations
from wolf.execution.forecasting import forecast_state
from wolf.fitting.backtest_result import Backtest
from wolf.fitting.result import Fit
from wolf.fitting.select import Choice
from wolf.interfaces import Filter, State, StepInfo
from wolf.models.exogenous import Exogenous, read_exogenous, with_future
from wolf.numerics.frame_labels import columns_of, index_of
from wolf.numerics.pytree import PyTree
from wolf.statespace import LinearModel, Model, is_model, with_matrices
from wolf.statespace.names import obs_names

ORIGINS_PER_CALL = 256  # forecasts that are computed together
MIN_START_SHARE = 0.5  # share of a series before the first origin, by default
Fitter = Callable[..., Model | Choice | Fit]


class _Task(NamedTuple):
    """One series with its origins.

    Attributes:
        ys: (T, M).
        origins: (n,).
        exog: exogenous variables of all T steps; None without.
    """

    ys: np.ndarray
    origins: np.ndarray
    exog: Exogenous | None


def backtest(
    model: Model | Fitter,
    ys: ArrayLike | Sequence[ArrayLike] | Mapping[str, ArrayLike],
    *,
    horizon: int = 1,
    step: int = 1,
    start: int | None = None,
    refit: int = 10,
    method: str | Filter | None = None,
    level: float = 0.95,
    exog: object = None,
    update_first: bool = False,
    progress: bool | Callable[[int, int], object] = False,
) -> Backtest:
    """Forecast from past origins, and score the forecasts by what was measured.

    Args:
        model: a model, which is used as it is; or a function of the measurements so far that returns one, or a `Choice`
            or `Fit`: `wolf.choose`, or `lambda ys: wolf.fit(wolf.models.local_trend, ys)`.
        ys: one series, (T, M) or (T,); or many: (series, T, M), a list of arrays, or a mapping from names to arrays.
        horizon: number of steps ahead.
        step: number of steps between two origins.
        start: number of steps before the first origin. Default: half of the series.
        refit: number of origins after which a function is called again; 1 for every origin.
        method: as in `wolf.filter`.
        level: probability of the intervals.
        exog: exogenous variables, (T, K), known for the future too, as holidays are. A function is then called with
            `exog=` of the steps so far.
        update_first: as in `wolf.filter`.
        progress: whether to show a progress bar; or a function of the origins done and their number.

    Example:
        >>> import wolf
        >>> truth = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> ys = wolf.simulate.trajectory(truth, 300, key=1).measurements
        >>> found = wolf.backtest(truth, ys, horizon=3, step=5)
        >>> len(found.origins), found.horizon, bool(found.mae < found.scores.naive_mae)
        (30, 3, True)
    """
    ahead, every = validation.count("horizon", horizon), validation.count("step", step)
    validation.count("refit", refit)
    validation.confidence_level(level)
    if not is_model(model) and not callable(model):
        raise ValueError(f"model must be a model, or a function such as wolf.choose; got {type(model).__name__}")
    given = None if exog is None else read_exogenous(exog)
    labels, series = _series(ys)
    tasks = [_task(model, each, ahead, every, start, given) for each in series]
    report = _reporter(progress, sum(len(task.origins) for task in tasks))
    options = {"method": method, "update_first": update_first}
    parts: list[list[np.ndarray]] = []
    fits = done = 0
    for task in tasks:
        found = []
        for block, fitted, used in _blocks(model, task, ahead, refit):
            fits += used
            for few in np.array_split(block, max(1, -(-len(block) // ORIGINS_PER_CALL))):
                found.append(_forecasts(fitted, task.ys, few, ahead, options))
                done += len(few)
                report(done)
        parts.append([np.concatenate(each) for each in zip(*found, strict=True)])
    means, variances = (np.concatenate([part[k] for part in parts]) for k in range(2))
    half = deviations(level) * np.sqrt(variances)
    return Backtest(
        series=np.concatenate([np.full(len(task.origins), i) for i, task in enumerate(tasks)]),
        origins=np.concatenate([task.origins for task in tasks]),
        actual=np.concatenate([_windows(task, ahead) for task in tasks]),
        mean=means,
        lower=means - half,
        upper=means + half,
        last=np.concatenate([_last_values(task) for task in tasks]),
        level=level,
        fits=fits,
        labels=labels,
        names=columns_of(series[0]) or (obs_names(model) if is_model(model) else None),
        indices=tuple(index_of(each) for each in series),
    )


def _series(ys: Any) -> tuple[tuple[str, ...], list[Any]]:
    """Return the names of the series, and the series."""
    if isinstance(ys, Mapping):
        found, names = list(ys.values()), tuple(map(str, ys))
    else:
        many = np.ndim(ys[0]) > 0 if isinstance(ys, list | tuple) and len(ys) else np.ndim(ys) == 3
        found = list(ys) if many else [ys]
        names = tuple(f"series {i}" for i in range(len(found)))
    if not found:
        raise ValueError("ys must have at least one series; got none")
    return names, found


def _task(
    model: Model | Fitter, given: Any, horizon: int, step: int, start: int | None, exog: Exogenous | None
) -> _Task:
    """Validate one series, and choose its origins."""
    values = validation.data_array("ys", given)
    values = values[:, None] if values.ndim == 1 else values
    if is_model(model):
        values = validation.measurements(values, model.obs_dim)
    steps = len(values)
    first = int(MIN_START_SHARE * steps) if start is None else validation.count("start", start)
    origins = np.arange(first, steps - horizon + 1, step)
    if not len(origins) or first < 1:
        raise ValueError(
            f"a series of {steps} steps has no origin after step {first} with {horizon} steps ahead: use a longer "
            "series, a smaller start or a shorter horizon"
        )
    if exog is not None and len(exog.values) < steps:
        raise ValueError(f"exog must have {steps} rows, one for each step; got {len(exog.values)}")
    return _Task(values, origins, exog)


def _blocks(model: Model | Fitter, task: _Task, horizon: int, refit: int) -> Iterator[tuple[np.ndarray, Model, int]]:
    """Yield origins that share a model, the model, and the number of fits that it took."""
    if is_model(model):
        yield task.origins, model, 0
        return
    assert callable(model)
    for k in range(0, len(task.origins), refit):
        block = task.origins[k : k + refit]
        first, stop = int(block[0]), int(block[-1]) + horizon
        past = task.ys[:first, 0] if task.ys.shape[1] == 1 else task.ys[:first]
        if task.exog is None:
            yield block, _model_of(model(past)), 1
            continue
        names, values = task.exog.names, task.exog.values
        known = Exogenous(values[:first], names)
        fitted = _model_of(model(past, exog=known.values))
        if not isinstance(fitted, LinearModel):
            raise ValueError(f"exog needs linear models; the function returned {fitted!r}")
        yield block, with_future(fitted, values[first:stop], stop - first, first), 1


def _model_of(found: Any) -> Model:
    """Return the model of what a function returned."""
    fitted = found.model if isinstance(found, Choice | Fit) else found
    if not is_model(fitted):
        raise ValueError(f"the function must return a model, a Choice or a Fit; got {type(fitted).__name__}")
    return fitted


def _forecasts(
    model: Model, ys: np.ndarray, origins: np.ndarray, horizon: int, options: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Forecast from some origins: means and variances of the measurements, (n, horizon, M)."""
    out = api.filter(model, ys[: int(origins[-1])], save=_keep_state, **options)
    if out.method.linearization is None:
        raise ValueError(f"backtests need a Gaussian filter; got {type(out.method).__name__}")
    states = jax.tree.map(lambda leaf: np.asarray(leaf)[origins - 1], out.saved)
    how: dict[str, Any] = {"dtype": out.settings["dtype"], "update_first": out.update_first, "many": True}
    _, measured = forecast_state(with_matrices(model), out.method, states, horizon, **how)
    return np.asarray(measured.mean), np.diagonal(measured.cov, axis1=-2, axis2=-1)


def _keep_state(state: State, info: StepInfo) -> PyTree:
    return state


def _windows(task: _Task, horizon: int) -> np.ndarray:
    """Return the measurements after each origin, (n, horizon, M), NaN where missing or infinite."""
    found = task.ys[task.origins[:, None] + np.arange(horizon)]
    return np.asarray(np.where(np.isfinite(found), found, np.nan))


def _last_values(task: _Task) -> np.ndarray:
    """Return the last finite value of each coordinate before each origin, (n, M); NaN where there is none."""
    rows = np.where(np.isfinite(task.ys), np.arange(len(task.ys))[:, None], -1)
    latest = np.maximum.accumulate(rows, axis=0)[task.origins - 1]
    return np.where(latest >= 0, np.take_along_axis(task.ys, np.maximum(latest, 0), axis=0), np.nan)


def _reporter(progress: bool | Callable[[int, int], object], total: int) -> Callable[[int], object]:
    if callable(progress):
        return lambda done: progress(done, total)
    validation.boolean("progress", progress)
    if not progress:
        return lambda done: None
    from tqdm import tqdm

    bar = tqdm(total=total, desc="Backtest", leave=False)

    def show(done: int) -> None:
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return show
