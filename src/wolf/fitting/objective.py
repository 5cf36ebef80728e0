"""Objective of a fit: the score as a function of free parameters, and the result at its best point."""

import dataclasses
from collections.abc import Callable, Generator

import jax
import numpy as np
from numpy.typing import ArrayLike

from wolf import native, validation
from wolf.beliefs.density import LOG_2PI
from wolf.execution import validate
from wolf.fitting import fit_inputs
from wolf.fitting.affine_in_parameters import AffineArrays
from wolf.fitting.batched_objective import BatchedScore
from wolf.fitting.boundary import at_boundary, near_zero, prefer_interior
from wolf.fitting.diffuse_prior import DiffusePrior, prior_variances, unscored_rows
from wolf.fitting.finite_differences import FAILED_LOSS, differentiate, stencil
from wolf.fitting.gradients import score_and_gradient
from wolf.fitting.initial_values import largest_step
from wolf.fitting.local_search import ABANDONED, Minimum
from wolf.fitting.noise_shape import shape_uncertainty
from wolf.fitting.optimizer import Query, Response, search
from wolf.fitting.result import OUTLIER_SHARE_RANGE, Fit, FitData, Start
from wolf.fitting.robust_start import without_start_outliers
from wolf.fitting.transforms import ParameterTransform, sigmoid
from wolf.inference.noise import ContaminatedGaussian
from wolf.interfaces import Filter
from wolf.numerics.linalg import SMALL
from wolf.numerics.precision import precision
from wolf.numerics.pytree import PyTree, cast
from wolf.numerics.xla_fusion import is_emission_failure
from wolf.statespace import Model

OUTLIER_WIDEN_RANGE = (9.0, 1e12)  # variance ratio of outliers: residuals at least three times as large as good ones
SHARE_START = 0.03  # starting value of the share of outliers
WIDEN_START = (20.0, 1e4)  # range of starting values of their widening, extended up to the largest step
NUM_RANDOM_STARTS = 20  # random starts that are evaluated before the best are followed
BUILDER_STEP = 1e-5  # step of a free parameter for derivatives of the builder, whose error is about its square
HESSIAN_STEP = 1e-3  # step for differences of gradients, which are accurate to ten digits
GAIN_TOLERANCE = 1e-4  # tolerance of the log density, which decreases by 1/2 at one standard error
MIN_CURVATURE = (
    1e-3  # of the log density in a free parameter: a standard error of 30, such as that of a variance near 0
)
TINY = float(np.finfo(float).tiny)
MAX_MEASUREMENT = 1e140  # largest typical measurement: its square times a thousand steps is finite


class Objective:
    """Score as a function of free parameters: those of the builder, then the share and width of outliers.

    Args:
        builder: as in `fit`.
        transform: transform of the parameters.
        ys: as in `fit`.
        inputs: as in `fit`.
        method: as in `fit`.
        two_part: whether the share and width of outliers are fitted.
        update_first: as in `fit`.
        affine: as in `fit`.
        template: objective with the same builder, whose affine form is reused.
    """

    def __init__(
        self,
        builder: Callable[..., Model],
        transform: ParameterTransform,
        ys: ArrayLike,
        inputs: ArrayLike | None,
        method: str | Filter | None,
        two_part: bool,
        update_first: bool,
        affine: bool = False,
        template: "Objective | None" = None,
    ):
        self.builder, self.transform, self.two_part, self.update_first = builder, transform, two_part, update_first
        self.size = len(transform.names)
        start_values = transform.natural(transform.start)
        first = fit_inputs.build(builder, start_values)
        self.method = fit_inputs.base_filter(method, first)
        self.last = self.first = start_values, first, cast(first, "float64")
        self.structure = jax.tree.structure(self.last[2])
        self.ys = fit_inputs.as_series(ys, first.obs_dim)
        magnitudes = np.abs(self.ys[np.isfinite(self.ys)])
        if magnitudes.size and np.median(magnitudes) > MAX_MEASUREMENT:  # single ones are outliers like any other
            raise ValueError(f"ys has values above {MAX_MEASUREMENT:g}, whose squares overflow; rescale them")
        self.inputs = validation.inputs(inputs, self.ys.shape[1], first)
        validate.check_functions(first, self.inputs)
        validate.check_time_axes(first, self.ys.shape[1], update_first, "fit")
        measured = np.isfinite(self.ys).any(-1)
        if measured.sum() < self.size + 2:
            need = f"{self.size} parameters need at least {self.size + 2} values"
            raise ValueError(f"ys is too short: {need}; got {measured.sum()}")
        num_diffuse = len(DiffusePrior(first, self.ys).diffuse_states)
        self.unscored = unscored_rows(self.ys, num_diffuse if two_part else 0)
        self.scored = np.arange(self.ys.shape[1]) >= self.unscored[:, None]
        self.diffuse = DiffusePrior(first, self.ys, self.unscored)
        self.fitted_ys = without_start_outliers(self.ys, first, self.unscored)
        self.count = int((measured & self.scored).sum())
        self.fused = max(first.state_dim, first.obs_dim) <= SMALL and len(self.ys) == 1 and self.ys.shape[1] > 1
        outlier_limits: list[tuple[float | None, float | None]] = [
            (_logit(OUTLIER_SHARE_RANGE[0]), _logit(OUTLIER_SHARE_RANGE[1]))
        ]
        outlier_limits.append((np.log(OUTLIER_WIDEN_RANGE[0]), np.log(OUTLIER_WIDEN_RANGE[1])))
        self.limits = transform.limits + (outlier_limits if two_part else [])
        start_numbers = np.array([*transform.natural(transform.start).values(), SHARE_START, WIDEN_START[0]])
        self.affine: AffineArrays | None = (
            self._find_affine(start_numbers if two_part else start_numbers[: self.size], affine)
            if template is None
            else template.affine
        )
        self.batch: BatchedScore | None = None
        self.series = slice(None)  # of those that the batch scores
        if self.affine is not None:
            size = len(self.limits)
            variances = prior_variances(self.affine.at(np.zeros(size))[0])
            self.prior_variance_terms = variances, prior_variances(self.affine.directional(np.ones(size))[0])

    def _find_affine(self, start_numbers: np.ndarray, affine: bool) -> AffineArrays | None:
        """Determine whether the model's arrays are affine in the parameters; raise an error if that was requested."""
        if affine:
            return AffineArrays(self._point, start_numbers)
        if any(kind != "positive" for kind in self.transform.bounds.values()):
            return None
        try:
            return AffineArrays(self._point, start_numbers)
        except Exception:  # also if the builder rejects the values that are tried here
            return None

    def _prepare_batch(self, candidates: list[np.ndarray]) -> None:
        """Prepare native code for many points at once, if it supports the model; XLA is used otherwise."""
        if self.affine is None:
            return
        try:
            options = (self.fitted_ys, self.inputs, self.two_part, self.update_first, self.unscored)
            self.batch = BatchedScore(self.affine, self.all_numbers(np.array(candidates)), *options)
        except native.UNSUPPORTED:
            self.batch = None

    def initial_points(self, seed: int) -> list[np.ndarray]:
        """Return the first guess and random points around it, since there are local optima."""
        rng = np.random.default_rng(seed)
        candidates = self.transform.random_starts(NUM_RANDOM_STARTS, rng)
        if self.two_part:
            max_widen = np.clip(largest_step(self.ys), WIDEN_START[1], OUTLIER_WIDEN_RANGE[1])
            log_widen = rng.uniform(np.log(WIDEN_START[0]), np.log(max_widen), len(candidates))
            candidates = [
                np.concatenate([x, [_logit(SHARE_START), w]]) for x, w in zip(candidates, log_widen, strict=True)
            ]
        return candidates

    def search(self, count: int, seed: int) -> Generator[Query, Response, Fit]:
        """Evaluate random starts once each, then minimise from the best of them; yields queries for the caller.

        Args:
            count: number of starts that are followed.
            seed: seed of the random starts.
        """
        candidates = self.initial_points(seed)
        if self.batch is None:
            self._prepare_batch(candidates)
        losses = (yield np.array(candidates), 0)[0]
        starts = [candidates[i] for i in np.argsort(losses, kind="stable")[:count]]
        return (yield from self._solve(starts))

    def evaluate(self, query: Query) -> Response:
        """Compute minus the score per row at some points, with derivatives up to the requested order."""
        points, order = query
        if self.batch is not None:
            return differentiate(self._evaluate_losses(stencil(points, order)), points, order)
        return (*self._evaluate_gradients(points), None) if order else (self._evaluate_losses(points), None, None)

    def _solve(self, starts: list[np.ndarray]) -> Generator[Query, Response, Fit]:
        """Minimise from every start, and return the best result as a fit.

        If the arrays were found to be affine, they are compared with what the builder returns at the result.
        """
        tolerance = GAIN_TOLERANCE / self.count
        results = yield from search(starts, self.limits, tolerance)
        results.sort(key=lambda result: result.fun)
        if not results[0].fun < FAILED_LOSS:
            raise ValueError("the score is not finite at any start; pass other first guesses, start=")
        zeros = yield from self._find_zeros(results)
        abandoned = [result.x for result in results if result.message == ABANDONED]
        if zeros[0] and abandoned:  # they were abandoned for a degenerate optimum
            results = [each for each in results if each.message != ABANDONED]
            results += yield from search(abandoned, self.limits, tolerance)
            results.sort(key=lambda result: result.fun)
            zeros = yield from self._find_zeros(results)
        order = prefer_interior([result.fun for result in results], zeros, self._measurement_names(), self.count)
        results, zeros = [results[i] for i in order], [zeros[i] for i in order]
        best = results[0]
        values = self.transform.natural(best.x[: self.size])
        if self.affine is not None and not self.affine.holds(self.numbers(best.x)):
            self.affine = self.batch = None
            return (yield from self._solve(starts))
        return Fit(
            parameters=values,
            errors=self._admit_heavy_tails(best.x, (yield from self._errors(best.x))),
            model=self._build(values)[0],
            outlier_share=sigmoid(best.x[-2]) if self.two_part else None,
            outlier_widen=float(np.exp(best.x[-1])) if self.two_part else None,
            score=self._total_score(best),
            count=self.count,
            starts=tuple(self._describe(*pair) for pair in zip(results, zeros, strict=True)),
            data=FitData(self.ys, self.method, self.inputs, self.update_first),
        )

    def _find_zeros(self, results: list[Minimum]) -> Generator[Query, Response, list[tuple[str, ...]]]:
        """Find the positive parameters of each result that are at a boundary: 0 is as likely, or the upper limit."""
        points = [near_zero(result.x, self.transform) for result in results]
        losses = (yield np.concatenate(points), 0)[0].reshape(len(points), -1)
        found = zip(results, losses, strict=True)
        return [at_boundary(each.x, self.count * (own - each.fun), self.transform, self.count) for each, own in found]

    def _measurement_names(self) -> tuple[str, ...]:
        """Name the positive parameters on which the measurement covariance depends."""
        usual, numbers = np.asarray(self.first[2].obs_cov), np.array([*self.first[0].values()])
        steps = zip(self.transform.names, np.diag(numbers), strict=True)
        doubled = {name: numbers + step for name, step in steps if self.transform.bounds[name] == "positive"}
        return tuple(name for name, each in doubled.items() if np.any(np.asarray(self._model(each).obs_cov) != usual))

    def loss(self, free: np.ndarray) -> tuple[float, np.ndarray]:
        """Compute minus the score per row, and its gradient."""
        values, gradients = self._evaluate_gradients(free[None])
        return float(values[0]), gradients[0]

    def _evaluate_gradients(self, frees: np.ndarray) -> tuple[np.ndarray, PyTree]:
        """Compute minus the score per row at some points, (P, K), and its gradients."""
        if self.batch is None:
            pairs = [self._differentiate(free) for free in frees]
            return np.array([value for value, _ in pairs]), np.array([gradient for _, gradient in pairs])
        return differentiate(self._evaluate_losses(stencil(frees, 1)), frees, 1)[:2]

    def _evaluate_losses(self, frees: np.ndarray) -> np.ndarray:
        """Compute minus the score per row at some points, (P, K)."""
        if self.batch is None:
            return np.array([self._evaluate_loss(free) for free in frees])
        numbers = self.all_numbers(frees)
        return self.as_losses(self.batch.scores(numbers), numbers)

    def as_losses(self, scores: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Convert scores to minus the score per row; non-finite scores to a large loss."""
        fixed, gradients = self.prior_variance_terms
        scores = scores + self.diffuse.cost(fixed + numbers @ gradients)
        return np.where(np.isfinite(scores), -scores / self.count, FAILED_LOSS)

    def _differentiate(self, free: np.ndarray) -> tuple[float, np.ndarray]:
        """Compute minus the score per row and its gradient by differentiating the filter."""
        point = self._point_at(free)
        directions = self._directions(free, point)
        value, gradient = self._run(point, directions)
        variances = prior_variances(point[0])
        value += float(self.diffuse.cost(variances))
        gradient = gradient + self.diffuse.gradient(variances, prior_variances(directions[0]))
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return FAILED_LOSS, np.zeros(len(free))
        return -float(value) / self.count, -gradient / self.count

    def _evaluate_loss(self, free: np.ndarray) -> float:
        """Compute minus the score per row without a gradient, by the same program with zero directions."""
        point = self._point_at(free)
        no_directions = jax.tree.map(lambda leaf: np.zeros((len(free), *leaf.shape)), point)
        value = self._run(point, no_directions)[0] + float(self.diffuse.cost(prior_variances(point[0])))
        return -value / self.count if np.isfinite(value) else FAILED_LOSS

    def _point_at(self, free: np.ndarray) -> tuple[PyTree, PyTree]:
        """Return the model and method at free parameters."""
        numbers = self.numbers(free)
        return self._point(numbers) if self.affine is None else self.affine.at(numbers)

    def _directions(self, free: np.ndarray, point: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        """Compute the derivatives of model and method by each free parameter."""
        if self.affine is not None:
            parts = [sigmoid(free[-2]) * sigmoid(-free[-2]), np.exp(free[-1])] if self.two_part else []
            return self.affine.directional(np.concatenate([self.transform.derivatives(free[: self.size]), parts]))
        model, method = point
        gradients = []
        for k, step in enumerate(BUILDER_STEP * np.eye(len(free))):
            ends = [
                (self._model(numbers) if k < self.size else model, method if k < self.size else self._method(numbers))
                for numbers in (self.numbers(free + step), self.numbers(free - step))
            ]
            gradients.append(jax.tree.map(lambda up, down: (up - down) / (2 * BUILDER_STEP), *ends))
        return jax.tree.map(lambda *leaves: np.stack(leaves), *gradients)

    def numbers(self, free: np.ndarray) -> np.ndarray:
        """Convert free parameters to natural ones: the builder's, then share and width of outliers."""
        parts = [sigmoid(free[-2]), np.exp(free[-1])] if self.two_part else []
        return np.array([*self.transform.natural(free[: self.size]).values(), *parts])

    def all_numbers(self, frees: np.ndarray) -> np.ndarray:
        """Convert the free parameters of many points, (P, K), to natural ones."""
        natural = self.transform.natural_all(frees[:, : self.size])
        if not self.two_part:
            return natural
        share, widen = frees[:, -2:].T
        return np.column_stack([natural, 1.0 / (1.0 + np.exp(-share)), np.exp(widen)])

    def _point(self, numbers: np.ndarray) -> tuple[PyTree, PyTree]:
        return self._model(numbers), self._method(numbers)

    def _model(self, numbers: np.ndarray) -> PyTree:
        return self._build(dict(zip(self.transform.names, numbers[: self.size].tolist(), strict=True)))[1]

    def _build(self, values: dict[str, float]) -> tuple[PyTree, PyTree]:
        """Call the builder, unless the values are its first or last; return its model, also in double precision."""
        for cached in (self.last, self.first):
            if cached[0] == values:
                return cached[1:]
        built = self.builder(**values)
        model = cast(built, "float64")
        if not jax.tree.structure(model) == self.structure:  # type: ignore[operator]
            raise ValueError(
                "the builder returned a different pytree structure when it was called again. Define the functions of a "
                "nonlinear model once, outside the builder, and bind parameters by jax.tree_util.Partial(f, value)"
            )
        self.last = values, built, model
        return built, model

    def _method(self, numbers: np.ndarray) -> PyTree:
        rule = ContaminatedGaussian(*numbers[-2:].tolist()) if self.two_part else self.method.noise
        return cast(dataclasses.replace(self.method, noise=rule), "float64")

    def _run(self, point: tuple[PyTree, PyTree], directions: tuple[PyTree, PyTree]) -> tuple[float, np.ndarray]:
        options = {"two_part": self.two_part, "update_first": self.update_first, "fused": self.fused}
        try:
            with precision("float64"):
                rows = self.fitted_ys, self.inputs, self.scored
                value, gradient = score_and_gradient(point, directions, *rows, **options)
                return float(value), np.asarray(gradient)
        except jax.errors.JaxRuntimeError as error:
            if not (self.fused and is_emission_failure(error)):
                raise
        self.fused = False
        return self._run(point, directions)

    def _errors(self, free: np.ndarray) -> Generator[Query, Response, dict[str, float]]:
        """Compute standard errors from the curvature of the score; NaN for a parameter at its limit."""
        lows, highs = (np.array([np.nan if x is None else x for x in ends]) for ends in zip(*self.limits, strict=True))
        outside = (free < lows + HESSIAN_STEP) | (free > highs - HESSIAN_STEP)
        free_indices = np.flatnonzero(~outside)
        if not len(free_indices):  # as on a constant series, whose variances go to zero
            return dict.fromkeys(self.transform.names, float("nan"))
        steps = HESSIAN_STEP * np.eye(len(free))[free_indices]
        gradients = np.asarray((yield np.concatenate([free + steps, free - steps]), 1)[1])[:, free_indices]
        curvature = self.count * (gradients[: len(free_indices)] - gradients[len(free_indices) :]) / (2 * HESSIAN_STEP)
        deviations = np.full(len(free), np.nan)
        identified = np.diagonal(curvature) > MIN_CURVATURE
        free_indices, curvature = free_indices[identified], curvature[np.ix_(identified, identified)]
        try:
            variances = np.diagonal(np.linalg.inv(0.5 * (curvature + curvature.T)))
        except np.linalg.LinAlgError:  # singular: not identified by the data
            variances = np.full(len(free_indices), np.nan)
        deviations[free_indices] = np.sqrt(np.where(variances > 0, variances, np.nan))
        errors = self.transform.derivatives(free[: self.size]) * deviations[: self.size]
        return dict(zip(self.transform.names, errors.tolist(), strict=True))

    def _admit_heavy_tails(self, free: np.ndarray, errors: dict[str, float]) -> dict[str, float]:
        """Add the uncertainty about the shape of the noise to the errors of measurement variances."""
        if not self.two_part or self.batch is None:
            return errors
        numbers = self.numbers(free)
        nis, log_density, count = self.batch.residuals(numbers, self.series)
        innovation_var = np.median(np.exp((-2.0 * log_density - nis) / count - LOG_2PI))  # a geometric mean of S
        obs_cov = np.asarray(self._model(numbers).obs_cov)
        obs_var = np.median(np.diagonal(obs_cov, axis1=-2, axis2=-1))
        shift = shape_uncertainty(nis, count, *numbers[-2:]) * max(1.0, innovation_var / max(obs_var, TINY))
        added = {
            name: shift * value
            for name, value in zip(self.transform.names, numbers, strict=False)
            if name in self._measurement_names()
        }
        return {name: float(np.hypot(error, added.get(name, 0.0))) for name, error in errors.items()}

    def _total_score(self, result: Minimum) -> float:
        """Return the score of the scored rows without the correction for a diffuse prior, as of the returned model."""
        if self.affine is None:
            variances = prior_variances(self._point_at(result.x)[0])
        else:
            variances = self.prior_variance_terms[0] + self.numbers(result.x) @ self.prior_variance_terms[1]
        return -float(result.fun) * self.count - float(self.diffuse.cost(variances))

    def _describe(self, result: Minimum, zeros: tuple[str, ...]) -> Start:
        values = self.transform.natural(result.x[: self.size])
        score, evaluations = self._total_score(result), int(result.nfev)
        return Start(score, bool(result.success) and not zeros, evaluations, str(result.message), values, zeros)


def _logit(probability: float) -> float:
    return float(np.log(probability) - np.log1p(-probability))
