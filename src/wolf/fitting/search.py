"""The search: first guesses from the data, the way down from several starts, standard errors from the curvature."""

import dataclasses
from collections.abc import Callable, Generator, Mapping
from functools import lru_cache
from typing import Any, Literal, get_args

import jax
import numpy as np
from numpy.typing import ArrayLike

from wolf import checks, entry, native
from wolf.engine.parallel import bound_programs
from wolf.filters import GaussianFilter
from wolf.fitting.affine import AffineArrays
from wolf.fitting.batches import Batch
from wolf.fitting.descent import Asked, Told, asking, drive
from wolf.fitting.guesses import guesses, is_many, largest_step
from wolf.fitting.result import SHARE, Fit, Start
from wolf.fitting.slopes import score_and_slope
from wolf.fitting.transforms import Bounds, Transform, sigmoid
from wolf.fitting.vague import VaguePrior, prior_variances
from wolf.noise import TwoPart
from wolf.numerics.linalg import SMALL
from wolf.numerics.precision import precision
from wolf.numerics.pytree import cast
from wolf.numerics.xla import refused
from wolf.protocols import Filter
from wolf.statespace import Model

Score = Literal["two-part", "gaussian"]
SCORES = get_args(Score)
WIDEN = (9.0, 1e12)  # an outlier's residual is at least three times as wide as a good one
SHARE_START, WIDEN_START = 0.03, (20.0, 1e4)  # where a search begins; up to the largest step where that is larger
SCOUTS = 20  # random starts that are tried before the best are followed
STEP = 1e-5  # in a free number, for derivatives of the builder: their error is about the square of it
DIFFERENCE = 1e-5  # in a free number, for slopes from scores: these are good to 15 digits, slopes then to ten
CURVED_STEP = 3e-4  # for slopes and curvatures from scores: to seven digits, and to four
HESSIAN_STEP = 1e-3  # for differences of slopes, which are good to ten digits
LITTLE = 1e-4  # of a log density: it falls by a half where the errors of estimates are
LARGEST = 1e140  # of a usual measurement; its square times a thousand steps is still a number
FAILED = 1e12  # what the search is told where the score is not a number


def fit(
    builder: Callable[..., Model],
    ys: ArrayLike,
    *,
    start: Mapping[str, float] | None = None,
    bounds: Mapping[str, Bounds] | None = None,
    score: Score = "two-part",
    inputs: ArrayLike | None = None,
    method: str | Filter | None = None,
    restarts: int = 2,
    seed: int = 0,
    update_first: bool = False,
    affine: bool = False,
) -> Fit:
    """Find the parameters under which the data are most likely, outliers aside.

    Args:
        builder: function of named numbers that returns a model, such as `wolf.models.local_level`. It may use NumPy;
            functions inside the model must be defined outside of it (see `wolf.statespace`).
        ys: measurements as in `wolf.filter`, (T, M) or (T,); or many series with the same parameters, (series, T, M),
            or a list of arrays.
        start: first guesses by name. Arguments that have a number as default start there, variances (`..._var`,
            `..._rate`) are guessed from the data; other arguments with a default are left alone.
        bounds: by name; default: "positive". A pair such as (-1.0, 1.0), "positive" or "real".
        score: "two-part" (robust), or "gaussian", the likelihood of a Kalman filter.
        inputs: (T, U), for models that take them.
        method: how functions are seen by a belief, for nonlinear models, as in `wolf.filter`; its noise rule is
            replaced by that of the score. Default: the extended Kalman filter.
        restarts: further searches, from the next best of the random starts that are tried.
        seed: of the random starts.
        update_first: as in `wolf.filter`.
        affine: the model's arrays are sums of the parameters times fixed arrays, as they are if all parameters are
            variances. That is found out, and then a search is many times faster; `affine=True` insists on it.

    Returns:
        A `Fit`; its `model` is ready for `wolf.filter`.

    Example:
        >>> import wolf
        >>> truth = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> outliers = wolf.simulate.Additive(0.1, -50.0, 50.0)
        >>> ys = wolf.simulate.trajectory(truth, 10_000, key=1, outliers=outliers).measurements
        >>> found = wolf.fit(wolf.models.local_level, ys)
        >>> {name: round(value, 1) for name, value in found.parameters.items()}
        {'level_var': 0.1, 'obs_var': 1.0}
    """
    first_guesses, limits = check_options(builder, start, bounds, score, restarts, seed, update_first, affine)
    if not is_many(ys) and not (checks.number_array("ys", ys).size and 1 <= np.ndim(ys) <= 3):
        raise ValueError(f"ys must be a series (T, M) or (T,), or many (series, T, M); got shape {np.shape(ys)}")
    transform = Transform(guesses(builder, ys, first_guesses), limits)
    bound_programs()
    problem = Problem(builder, transform, ys, inputs, method, score == "two-part", update_first, affine)
    return drive(problem.questions(1 + restarts, seed), problem.answer)  # type: ignore[no-any-return]


def check_options(
    builder: Any, start: Any, bounds: Any, score: Any, restarts: Any, seed: Any, update_first: Any, affine: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Check what does not depend on the data, and give first guesses and bounds by name."""
    checks.choice("score", score, SCORES)
    checks.function("builder", builder, "wolf.models.local_level")
    checks.whole("restarts", restarts)
    checks.whole("seed", seed)
    checks.flag("update_first", update_first)
    checks.flag("affine", affine)
    guesses = checks.mapping("start", start, "{'obs_var': 1.0}")
    return guesses, checks.mapping("bounds", bounds, "{'slope': 'real'}")


class Problem:
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
        like: "Problem | None" = None,
    ):
        self.builder, self.transform, self.two_part, self.update_first = builder, transform, two_part, update_first
        self.size = len(transform.names)
        begun = transform.natural(transform.start)
        first = _build(builder, begun)
        self.method = _base(method, first)
        self.last = begun, first, cast(first, "float64")
        self.structure = jax.tree.structure(self.last[2])
        self.ys = _series(ys, first.obs_dim)
        sizes = np.abs(self.ys[np.isfinite(self.ys)])
        if sizes.size and np.median(sizes) > LARGEST:  # a few that large are outliers like any other
            raise ValueError(f"ys holds numbers above {LARGEST:g}, whose squares overflow; divide them first")
        self.inputs = checks.inputs(inputs, self.ys.shape[1], first)
        entry.check_functions(first, self.inputs)
        entry.check_time_axes(first, self.ys.shape[1], update_first, "fit")
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
        self.vague = VaguePrior(first, self.ys)
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
        except native.UNSUITED:
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

    def questions(self, count: int, seed: int) -> Generator[Asked, Told, Fit]:
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

    def answer(self, asked: Asked) -> Told:
        """Evaluate minus the score of a row at some points, and its derivatives if they are wanted."""
        points, order = asked
        if self.batch is not None:
            return differences(self._losses(around(points, order)), points, order)
        return (*self._slopes(points), None) if order else (self._losses(points), None, None)

    def _solve(self, starts: list[np.ndarray]) -> Generator[Asked, Told, Fit]:
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
        """Call the builder, unless these were its last numbers; give its model, and that in double precision."""
        if self.last[0] == named:
            return self.last[1:]
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
        rule = TwoPart(*numbers[-2:].tolist()) if self.two_part else self.method.noise
        return cast(dataclasses.replace(self.method, noise=rule), "float64")

    def _run(self, point: tuple[Any, Any], directions: tuple[Any, Any]) -> tuple[float, np.ndarray]:
        options = {"two_part": self.two_part, "update_first": self.update_first, "fused": self.fused}
        try:
            with precision("float64"):
                value, slope = score_and_slope(point, directions, self.ys, self.inputs, **options)
                return float(value), np.asarray(slope)
        except jax.errors.JaxRuntimeError as error:
            if not (self.fused and refused(error)):
                raise
        self.fused = False
        return self._run(point, directions)

    def _errors(self, free: np.ndarray) -> Generator[Asked, Told, dict[str, float]]:
        """Turn the curvature of the score into standard errors; a number at its limit has none."""
        lows, highs = (np.array([np.nan if x is None else x for x in ends]) for ends in zip(*self.limits, strict=True))
        outside = (free < lows + HESSIAN_STEP) | (free > highs - HESSIAN_STEP)
        inside = np.flatnonzero(~outside)
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
        return -float(result.fun) * self.count - float(self.vague.cost(prior_variances(self._at(result.x)[0])))

    def _describe(self, result: Any) -> Start:
        values = self.transform.natural(result.x[: self.size])
        return Start(self._total(result), bool(result.success), int(result.nfev), str(result.message), values)


def around(frees: np.ndarray, order: int) -> np.ndarray:
    """Give the points at which derivatives at some, (P, K), are found.

    These are themselves; a little up and down by each number; and, for curvatures, up by two numbers at once.

    Args:
        frees: the points.
        order: of the derivatives, 0 for none.
    """
    if order == 0:
        return frees
    return np.asarray(frees[:, None] + _steps(frees.shape[1], order)).reshape(-1, frees.shape[1])


@lru_cache(maxsize=64)
def _steps(size: int, order: int) -> np.ndarray:
    one, still = np.eye(size), np.zeros((1, size))
    i, j = _pairs(size)
    return _step(order) * np.concatenate([still, one, -one, *([one[i] + one[j]] if order == 2 else [])])


def differences(losses: np.ndarray, frees: np.ndarray, order: int) -> Told:
    """Turn the losses `around` points into those of the points, (P,), their slopes and curvatures."""
    if order == 0:
        return losses, None, None
    count, size = frees.shape
    whole, step = losses.reshape(count, -1), _step(order)
    here, up, down = whole[:, :1], whole[:, 1 : 1 + size], whole[:, 1 + size : 1 + 2 * size]
    sound = whole.max(1) < FAILED
    values, slopes = np.where(sound, whole[:, 0], FAILED), np.where(sound[:, None], (up - down) / (2 * step), 0.0)
    if order == 1:
        return values, slopes, None
    curvatures = np.empty((count, size, size))
    i, j = _pairs(size)
    both = whole[:, 1 + 2 * size :]
    curvatures[:, i, j] = curvatures[:, j, i] = (both - up[:, i] - up[:, j] + here) / step**2
    curvatures[:, range(size), range(size)] = (up + down - 2 * here) / step**2
    return values, slopes, curvatures


@lru_cache(maxsize=64)
def _pairs(size: int) -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(size, 1)


def _step(order: int) -> float:
    return CURVED_STEP if order == 2 else DIFFERENCE


def _build(builder: Callable[..., Any], values: dict[str, float]) -> Any:
    """Build the first model, and say so where the builder is at fault."""
    try:
        model = builder(**values)
    except ValueError:
        raise
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        raise ValueError(f"the builder failed at {values}; call it like this to see why. It says {words}") from error
    if not isinstance(model, Model):
        kind = type(model).__name__
        raise ValueError(f"builder must return a model, as wolf.models.local_level does; it returned {kind}")
    return model


def _base(method: Any, model: Any) -> GaussianFilter:
    """Find the filter whose noise rule the score replaces."""
    method = GaussianFilter() if method is None else entry.resolve_method(method, model)
    if not isinstance(method, GaussianFilter):
        raise ValueError(f"fit runs on Gaussian filters, such as EKF or UKF; got {type(method).__name__}")
    return dataclasses.replace(method, noise=GaussianFilter().noise)


def _series(ys: Any, size: int) -> np.ndarray:
    """Turn one series or many into (B, T, M)."""
    if is_many(ys):
        return checks.many_measurements(ys, size)[0]
    array = checks.number_array("ys", ys)
    return checks.measurements(array, size, dims=3) if array.ndim == 3 else checks.measurements(array, size)[None]


def _logit(probability: float) -> float:
    return float(np.log(probability) - np.log1p(-probability))
