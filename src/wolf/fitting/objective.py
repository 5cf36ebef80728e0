"""What a search asks about: the score as a function of free numbers, and what becomes of its best point."""

import dataclasses
from collections.abc import Callable, Generator
from typing import Any

import jax
import numpy as np

from wolf import native, validation
from wolf.execution import validate
from wolf.fitting import fit_inputs
from wolf.fitting.affine_in_parameters import AffineArrays
from wolf.fitting.batched_objective import Batch
from wolf.fitting.diffuse_prior import DiffusePrior, prior_variances
from wolf.fitting.finite_differences import FAILED, around, differences
from wolf.fitting.gradients import score_and_slope
from wolf.fitting.initial_values import largest_step
from wolf.fitting.optimizer import Told, TwoSidedTest, asking
from wolf.fitting.result import SHARE, Fit, Start
from wolf.fitting.transforms import Transform, sigmoid
from wolf.inference.noise import ContaminatedGaussian
from wolf.numerics.linalg import SMALL
from wolf.numerics.precision import precision
from wolf.numerics.pytree import cast
from wolf.numerics.xla_fusion import is_emission_failure

WIDEN = (9.0, 1e12)  # an outlier's residual is at least three times as wide as a good one
SHARE_START, WIDEN_START = 0.03, (20.0, 1e4)  # where a search begins; up to the largest step where that is larger
SCOUTS = 20  # random starts that are tried before the best are followed
STEP = 1e-5  # in a free number, for derivatives of the builder: their error is about the square of it
HESSIAN_STEP = 1e-3  # for differences of slopes, which are good to ten digits
LITTLE = 1e-4  # of a log density: it falls by a half where the errors of estimates are
LARGEST = 1e140  # of a usual measurement; its square times a thousand steps is still a number


class Objective:
    """The score as a function of free numbers: those of the parameters, then of the share and width of outliers.

    Args:
        builder: as in `fit`.
        transform: of the parameters.
        ys: as in `fit`.
        inputs: as in `fit`.
        method: as in `fit`.
        two_part: whether the share and the width of outliers are fitted.
        update_first: as in `fit`.
        affine: as in `fit`.
        like: another problem of the same builder, whose sums are taken over.
    """

    def __init__(
        self,
        builder: Callable[..., Any],
        transform: Transform,
        ys: Any,
        inputs: Any,
        method: Any,
        two_part: bool,
        update_first: bool,
        affine: bool = False,
        like: "Objective | None" = None,
    ):
        self.builder, self.transform, self.two_part, self.update_first = builder, transform, two_part, update_first
        self.size = len(transform.names)
        begun = transform.natural(transform.start)
        first = fit_inputs.build(builder, begun)
        self.method = fit_inputs.base(method, first)
        self.last = self.first = begun, first, cast(first, "float64")
        self.structure = jax.tree.structure(self.last[2])
        self.ys = fit_inputs.series(ys, first.obs_dim)
        sizes = np.abs(self.ys[np.isfinite(self.ys)])
        if sizes.size and np.median(sizes) > LARGEST:  # a few that large are outliers like any other
            raise ValueError(f"ys holds numbers above {LARGEST:g}, whose squares overflow; divide them first")
        self.inputs = validation.inputs(inputs, self.ys.shape[1], first)
        validate.check_functions(first, self.inputs)
        validate.check_time_axes(first, self.ys.shape[1], update_first, "fit")
        self.count = int(np.isfinite(self.ys).any(-1).sum())
        if self.count < self.size + 2:
            need = f"{self.size} parameters take at least {self.size + 2} values to fit"
            raise ValueError(f"ys is too short: {need}; got {self.count}")
        self.fused = max(first.state_dim, first.obs_dim) <= SMALL and len(self.ys) == 1 and self.ys.shape[1] > 1
        edges: list[tuple[float | None, float | None]] = [(_logit(SHARE[0]), _logit(SHARE[1]))]
        edges.append((np.log(WIDEN[0]), np.log(WIDEN[1])))
        self.limits = transform.limits + (edges if two_part else [])
        begin = np.array([*transform.natural(transform.start).values(), SHARE_START, WIDEN_START[0]])
        self.affine: AffineArrays | None = (
            self._sums(begin if two_part else begin[: self.size], affine) if like is None else like.affine
        )
        self.batch: Batch | None = None
        self.vague = DiffusePrior(first, self.ys)
        if self.affine is not None:
            size = len(self.limits)
            widths = prior_variances(self.affine.at(np.zeros(size))[0])
            self.widths = widths, prior_variances(self.affine.along(np.ones(size))[0])

    def _sums(self, begin: np.ndarray, affine: bool) -> AffineArrays | None:
        """Find out whether the model's arrays are sums of the parameters times fixed arrays, or be told so."""
        if affine:
            return AffineArrays(self._point, begin)
        if any(kind != "positive" for kind in self.transform.bounds.values()):
            return None
        try:
            return AffineArrays(self._point, begin)
        except Exception:  # also where the builder does not take a number that nobody asked for
            return None

    def _make_batch(self, tried: list[np.ndarray]) -> None:
        """Get ready to score many points at once, if native code can: XLA is for all else."""
        if self.affine is None:
            return
        try:
            options = (self.ys, self.inputs, self.two_part, self.update_first)
            self.batch = Batch(self.affine, self.all_numbers(np.array(tried)), *options)
        except native.UNSUPPORTED:
            self.batch = None

    def tries(self, seed: int) -> list[np.ndarray]:
        """Give the first guess and others around it: there are local optima."""
        rng = np.random.default_rng(seed)
        tried = self.transform.random_starts(SCOUTS, rng)
        if self.two_part:
            top = np.clip(largest_step(self.ys), WIDEN_START[1], WIDEN[1])
            wide = rng.uniform(np.log(WIDEN_START[0]), np.log(top), len(tried))
            tried = [np.concatenate([x, [_logit(SHARE_START), w]]) for x, w in zip(tried, wide, strict=True)]
        return tried

    def questions(self, count: int, seed: int) -> Generator[TwoSidedTest, Told, Fit]:
        """Ask for the score at random starts once each, and then all the way down from the best of them.

        Args:
            count: how many starts are followed.
            seed: of the random starts.
        """
        tried = self.tries(seed)
        if self.batch is None:
            self._make_batch(tried)
        losses = (yield np.array(tried), 0)[0]
        starts = [tried[i] for i in np.argsort(losses, kind="stable")[:count]]
        return (yield from self._solve(starts))

    def answer(self, asked: TwoSidedTest) -> Told:
        """Evaluate minus the score of a row at some points, and its derivatives if they are wanted."""
        points, order = asked
        if self.batch is not None:
            return differences(self._losses(around(points, order)), points, order)
        return (*self._slopes(points), None) if order else (self._losses(points), None, None)

    def _solve(self, starts: list[np.ndarray]) -> Generator[TwoSidedTest, Told, Fit]:
        """Search from every start, and take the best.

        Where arrays were found to be sums they are compared with what the builder makes of the result.
        """
        found = yield from asking(starts, self.limits, LITTLE / self.count)
        found.sort(key=lambda result: result.fun)
        best = found[0]
        if not best.fun < FAILED:
            raise ValueError("the score is not finite at any start; give other first guesses, as start=")
        values = self.transform.natural(best.x[: self.size])
        if self.affine is not None and not self.affine.holds(self.numbers(best.x)):
            self.affine = self.batch = None
            return (yield from self._solve(starts))
        return Fit(
            parameters=values,
            errors=(yield from self._errors(best.x)),
            model=self._built(values)[0],
            outlier_share=sigmoid(best.x[-2]) if self.two_part else None,
            outlier_widen=float(np.exp(best.x[-1])) if self.two_part else None,
            score=self._total(best),
            count=self.count,
            starts=tuple(self._describe(result) for result in found),
        )

    def loss(self, free: np.ndarray) -> tuple[float, np.ndarray]:
        """Evaluate minus the score of a row, and its slope."""
        values, slopes = self._slopes(free[None])
        return float(values[0]), slopes[0]

    def _slopes(self, frees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Evaluate minus the score of a row at some points, (P, K), and its slopes there."""
        if self.batch is None:
            pairs = [self._differentiate(free) for free in frees]
            return np.array([value for value, _ in pairs]), np.array([slope for _, slope in pairs])
        return differences(self._losses(around(frees, 1)), frees, 1)[:2]

    def _losses(self, frees: np.ndarray) -> np.ndarray:
        """Evaluate minus the score of a row at some points, (P, K)."""
        if self.batch is None:
            return np.array([self._score(free) for free in frees])
        numbers = self.all_numbers(frees)
        return self.as_losses(self.batch.scores(numbers), numbers)

    def as_losses(self, scores: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Turn scores into minus that of a row, and what is no number into something to turn back from."""
        fixed, slopes = self.widths
        scores = scores + self.vague.cost(fixed + numbers @ slopes)
        return np.where(np.isfinite(scores), -scores / self.count, FAILED)

    def _differentiate(self, free: np.ndarray) -> tuple[float, np.ndarray]:
        """Evaluate minus the score of a row and its slope by differentiating the filter."""
        point = self._at(free)
        directions = self._directions(free, point)
        value, slope = self._run(point, directions)
        widths = prior_variances(point[0])
        value += float(self.vague.cost(widths))
        slope = slope + self.vague.slope(widths, prior_variances(directions[0]))
        if not (np.isfinite(value) and np.all(np.isfinite(slope))):
            return FAILED, np.zeros(len(free))
        return -float(value) / self.count, -slope / self.count

    def _score(self, free: np.ndarray) -> float:
        """Evaluate minus the score of a row alone, by the same program with no directions to go in."""
        point = self._at(free)
        still = jax.tree.map(lambda leaf: np.zeros((len(free), *leaf.shape)), point)
        value = self._run(point, still)[0] + float(self.vague.cost(prior_variances(point[0])))
        return -value / self.count if np.isfinite(value) else FAILED

    def _at(self, free: np.ndarray) -> tuple[Any, Any]:
        """Turn free numbers into model and method."""
        numbers = self.numbers(free)
        return self._point(numbers) if self.affine is None else self.affine.at(numbers)

    def _directions(self, free: np.ndarray, point: tuple[Any, Any]) -> tuple[Any, Any]:
        """Say how model and method move with each free number."""
        if self.affine is not None:
            parts = [sigmoid(free[-2]) * sigmoid(-free[-2]), np.exp(free[-1])] if self.two_part else []
            return self.affine.along(np.concatenate([self.transform.slopes(free[: self.size]), parts]))
        model, method = point
        slopes = []
        for k, step in enumerate(STEP * np.eye(len(free))):
            ends = [
                (self._model(numbers) if k < self.size else model, method if k < self.size else self._method(numbers))
                for numbers in (self.numbers(free + step), self.numbers(free - step))
            ]
            slopes.append(jax.tree.map(lambda up, down: (up - down) / (2 * STEP), *ends))
        return jax.tree.map(lambda *leaves: np.stack(leaves), *slopes)

    def numbers(self, free: np.ndarray) -> np.ndarray:
        """Turn free numbers into natural ones: the parameters, then share and width of outliers."""
        parts = [sigmoid(free[-2]), np.exp(free[-1])] if self.two_part else []
        return np.array([*self.transform.natural(free[: self.size]).values(), *parts])

    def all_numbers(self, frees: np.ndarray) -> np.ndarray:
        """Turn the free numbers of many points, (P, K), into natural ones."""
        natural = self.transform.natural_all(frees[:, : self.size])
        if not self.two_part:
            return natural
        share, widen = frees[:, -2:].T
        return np.column_stack([natural, 1.0 / (1.0 + np.exp(-share)), np.exp(widen)])

    def _point(self, numbers: np.ndarray) -> tuple[Any, Any]:
        return self._model(numbers), self._method(numbers)

    def _model(self, numbers: np.ndarray) -> Any:
        return self._built(dict(zip(self.transform.names, numbers[: self.size].tolist(), strict=True)))[1]

    def _built(self, named: dict[str, float]) -> tuple[Any, Any]:
        """Call the builder, unless these were its first or last numbers; give its model, also in double precision."""
        for known in (self.last, self.first):
            if known[0] == named:
                return known[1:]
        built = self.builder(**named)
        model = cast(built, "float64")
        if not jax.tree.structure(model) == self.structure:  # type: ignore[operator]
            raise ValueError(
                "the builder returned another structure when it was called again. Define the functions of a nonlinear "
                "model once, outside the builder, and give them their parameters by jax.tree_util.Partial(f, value)"
            )
        self.last = named, built, model
        return built, model

    def _method(self, numbers: np.ndarray) -> Any:
        rule = ContaminatedGaussian(*numbers[-2:].tolist()) if self.two_part else self.method.noise
        return cast(dataclasses.replace(self.method, noise=rule), "float64")

    def _run(self, point: tuple[Any, Any], directions: tuple[Any, Any]) -> tuple[float, np.ndarray]:
        options = {"two_part": self.two_part, "update_first": self.update_first, "fused": self.fused}
        try:
            with precision("float64"):
                value, slope = score_and_slope(point, directions, self.ys, self.inputs, **options)
                return float(value), np.asarray(slope)
        except jax.errors.JaxRuntimeError as error:
            if not (self.fused and is_emission_failure(error)):
                raise
        self.fused = False
        return self._run(point, directions)

    def _errors(self, free: np.ndarray) -> Generator[TwoSidedTest, Told, dict[str, float]]:
        """Turn the curvature of the score into standard errors; a number at its limit has none."""
        lows, highs = (np.array([np.nan if x is None else x for x in ends]) for ends in zip(*self.limits, strict=True))
        outside = (free < lows + HESSIAN_STEP) | (free > highs - HESSIAN_STEP)
        inside = np.flatnonzero(~outside)
        if not len(inside):  # as on a constant series, whose variances go to zero
            return dict.fromkeys(self.transform.names, float("nan"))
        steps = HESSIAN_STEP * np.eye(len(free))[inside]
        slopes = np.asarray((yield np.concatenate([free + steps, free - steps]), 1)[1])[:, inside]
        curvature = self.count * (slopes[: len(inside)] - slopes[len(inside) :]) / (2 * HESSIAN_STEP)
        deviations = np.full(len(free), np.nan)
        try:
            variances = np.diagonal(np.linalg.inv(0.5 * (curvature + curvature.T)))
        except np.linalg.LinAlgError:  # flat: the data do not tell
            variances = np.full(len(inside), np.nan)
        deviations[inside] = np.sqrt(np.where(variances > 0, variances, np.nan))
        errors = self.transform.slopes(free[: self.size]) * deviations[: self.size]
        return dict(zip(self.transform.names, errors.tolist(), strict=True))

    def _total(self, result: Any) -> float:
        """Give the score of all rows: what a vague prior costs is a part of it, for the model that is handed out."""
        if self.affine is None:
            widths = prior_variances(self._at(result.x)[0])
        else:
            widths = self.widths[0] + self.numbers(result.x) @ self.widths[1]
        return -float(result.fun) * self.count - float(self.vague.cost(widths))

    def _describe(self, result: Any) -> Start:
        values = self.transform.natural(result.x[: self.size])
        return Start(self._total(result), bool(result.success), int(result.nfev), str(result.message), values)


def _logit(probability: float) -> float:
    return float(np.log(probability) - np.log1p(-probability))
