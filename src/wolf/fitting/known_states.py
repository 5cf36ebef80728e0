"""Parameters from known states: the noise that makes the errors of a filter smallest.

Where the true states are known (a reference receiver, a simulation), estimating Q and R from the noise that was seen is
not optimal as soon as an assumption of the filter is violated: linear dynamics, white noise, independence. Minimising
the mean squared error of the filter itself is, under the model as it is (Greenberg, Yannay & Mannor 2023, "Optimization
or architecture: how to hack Kalman filtering", arXiv 2310.00675). The estimates do not depend on a common factor of Q
and R; it is set such that the errors have the covariance that the filter states.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wolf import api, validation
from wolf.fitting.finite_differences import FAILED_LOSS, differentiate, stencil
from wolf.fitting.fit_inputs import as_series
from wolf.fitting.initial_values import first_guesses, is_many
from wolf.fitting.local_search import Minimum
from wolf.fitting.optimizer import Query, Response, run_search, search
from wolf.fitting.result import Fit, FitData, Start
from wolf.fitting.transforms import Bounds, ParameterTransform
from wolf.interfaces import Filter
from wolf.results import Filtered
from wolf.statespace import LinearModel, Model

NUM_RANDOM_STARTS = 10  # that are evaluated before the best are followed
GAIN_TOLERANCE = 1e-5  # of the log of the mean squared error: a hundredth of a per mille
SAME_MATRIX = 1e-6  # relative difference up to which a scaled model has scaled noise


class StateObjective:
    """Mean squared error of the filtered states as a function of free parameters.

    Args:
        builder: as in `wolf.fit`, with its held parameters bound.
        transform: of the parameters.
        ys: measurements, (series, T, M).
        states: true states, (series, T, D), NaN where unknown.
        options: of `wolf.filter`.
    """

    def __init__(
        self,
        builder: Callable[..., Model],
        transform: ParameterTransform,
        ys: np.ndarray,
        states: np.ndarray,
        options: dict[str, Any],
    ):
        self.builder, self.transform, self.ys, self.states, self.options = builder, transform, ys, states, options
        self.known = np.isfinite(states)
        first = self._squared_errors([transform.start])[0]
        if not np.all(np.isfinite(first)):
            raise ValueError("the filter is not finite at the first guess; pass another one, start=")
        self.reference = np.where(first > 0, first, 1.0)  # makes the units of the states irrelevant

    def losses(self, frees: np.ndarray) -> np.ndarray:
        """Compute the log of the mean squared error, relative to the first guess, at some points (P, K)."""
        relative = np.array(self._squared_errors(list(frees))) / self.reference
        total = relative.mean(axis=1)
        good = np.isfinite(total) & (total > 0)
        return np.where(good, np.log(np.where(good, total, 1.0)), FAILED_LOSS)

    def evaluate(self, query: Query) -> Response:
        """Compute losses with derivatives by finite differences."""
        points, order = query
        return differentiate(self.losses(stencil(points, order)), points, order)

    def search(self, count: int, seed: int) -> Generator[Query, Response, list[Minimum]]:
        """Evaluate random starts, then minimise from the best `count` of them."""
        points = self.transform.random_starts(NUM_RANDOM_STARTS, np.random.default_rng(seed))
        losses = (yield np.array(points), 0)[0]
        starts = [points[i] for i in np.argsort(losses, kind="stable")[:count]]
        found: list[Minimum] = yield from search(starts, self.transform.limits, GAIN_TOLERANCE)
        return sorted(found, key=lambda each: each.fun)

    def filter(self, values: dict[str, float], series: int = 0) -> Filtered:
        """Filter a series with given parameters."""
        inputs = self.options["inputs"]
        options = self.options | {"inputs": None if inputs is None else np.asarray(inputs)}
        return api.filter(self.builder(**values), self.ys[series], **options)

    def rmse(self, values: dict[str, float]) -> float:
        """Compute the root mean squared error over all known states."""
        errors = [(self.filter(values, i).means - x)[np.isfinite(x)] for i, x in enumerate(self.states)]
        return float(np.sqrt(np.mean(np.concatenate(errors) ** 2)))

    def _squared_errors(self, frees: list[np.ndarray]) -> list[np.ndarray]:
        """Compute the mean squared error of each known state at some points, (D',) each."""
        models = [self.builder(**self.transform.natural(free)) for free in frees]
        columns = np.flatnonzero(self.known.any(axis=(0, 1)))
        sums = np.zeros((len(models), len(columns)))
        for ys, states in zip(self.ys, self.states, strict=True):
            with np.errstate(over="ignore", invalid="ignore"):
                errors = self._means(models, ys)[..., columns] - states[:, columns]
                sums += np.where(np.isfinite(states[:, columns]), errors**2, 0.0).sum(axis=1)
        counts = self.known[..., columns].sum(axis=(0, 1))
        return list(sums / counts)

    def _means(self, models: list[Model], ys: np.ndarray) -> np.ndarray:
        """Filter one series with many models; (P, T, D)."""
        if len(models) > 1 and all(isinstance(model, LinearModel) for model in models):
            stacked = np.broadcast_to(ys, (len(models), *ys.shape))
            return np.asarray(api.filter_many(models, stacked, save="means", **self.options).means)
        return np.stack([api.filter(model, ys, save="means", **self.options).means for model in models])


def fit_to_states(
    builder: Callable[..., Model],
    ys: ArrayLike,
    states: ArrayLike,
    *,
    start: dict[str, float],
    bounds: Mapping[str, Bounds],
    method: str | Filter | None,
    inputs: ArrayLike | None,
    restarts: int,
    seed: int,
    update_first: bool,
) -> Fit:
    """Fit parameters to known states; arguments as in `wolf.fit`.

    Returns:
        A `Fit` without standard errors, whose `states_rmse` is the root mean squared error that was reached.
    """
    guesses = first_guesses(builder, ys, start)
    transform = ParameterTransform(guesses, bounds)
    model = builder(**guesses)
    series = as_series(ys, model.obs_dim)
    truth = _known_states(states, series, model.state_dim, is_many(ys) or np.ndim(ys) == 3)
    method = ("KF" if model.linear else "EKF") if method is None else method
    options = {"method": method, "inputs": inputs, "update_first": update_first}
    objective = StateObjective(builder, transform, series, truth, options)
    results = run_search(objective.search(1 + restarts, seed), objective.evaluate)
    if not results[0].fun < FAILED_LOSS:
        raise ValueError("the errors of the filter are not finite at any start; pass other first guesses, start=")
    values = _calibrated(objective, transform.natural(results[0].x))
    likelihood = [float(objective.filter(values, i).log_likelihood) for i in range(len(series))]
    count = int(np.isfinite(series).any(-1).sum())
    starts = tuple(
        Start(-each.fun * count, each.success, each.nfev, each.message, transform.natural(each.x)) for each in results
    )
    return Fit(
        parameters=values,
        errors=dict.fromkeys(values, float("nan")),
        model=builder(**values),
        outlier_share=None,
        outlier_widen=None,
        score=sum(likelihood),
        count=count,
        starts=starts,
        states_rmse=objective.rmse(values),
        data=FitData(
            series, objective.filter(values).method, None if inputs is None else np.asarray(inputs), update_first
        ),
    )


def _known_states(states: ArrayLike, series: np.ndarray, size: int, many: bool) -> np.ndarray:
    """Validate the true states, and give them the shape (series, T, D)."""
    truth = validation.data_array("states", states)
    truth = truth[..., None] if size == 1 and truth.ndim == (2 if many else 1) else truth
    truth = truth if many else truth[None]
    expected = (*series.shape[:2], size)
    if truth.shape != expected:
        raise ValueError(f"states must have shape {expected[0 if many else 1:]}, one row for each measurement, NaN "
                         f"where unknown; got {np.shape(states)}")  # fmt: skip
    if not np.isfinite(truth).any():
        raise ValueError("states must have at least one known entry; all are missing")
    return np.where(np.isfinite(truth), truth, np.nan)


def _calibrated(objective: StateObjective, values: dict[str, float]) -> dict[str, float]:
    """Scale all variances such that the errors have the covariance that the filter states.

    Parameters of which Q and R are not multiples, as where one of them is held, are returned unchanged.
    """
    if any(kind != "positive" for kind in objective.transform.bounds.values()):
        return values
    try:
        model, double = objective.builder(**values), objective.builder(**{name: 2 * x for name, x in values.items()})
    except ValueError:  # a parameter that is no variance, out of its range
        return values
    for one, two in ((model.dynamics_cov, double.dynamics_cov), (model.obs_cov, double.obs_cov)):
        one, two = np.asarray(one, float), np.asarray(two, float)
        if not np.allclose(2 * one, two, rtol=SAME_MATRIX, atol=0.0):
            return values
    squares, number = 0.0, 0
    for i, truth in enumerate(objective.states):
        out = objective.filter(values, i)
        columns = np.flatnonzero(np.isfinite(truth).any(axis=0))
        rows = np.isfinite(truth[:, columns]).all(axis=1)
        errors = (out.means - truth)[rows][:, columns]
        covs = out.covs[rows][:, columns][:, :, columns]
        squares += float(np.sum(errors * np.linalg.solve(covs, errors[..., None])[..., 0]))
        number += errors.size
    scale = squares / number if number else 1.0
    return {name: scale * value for name, value in values.items()} if scale > 0 else values
