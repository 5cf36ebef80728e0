"""Networks that learn online, for users of scikit-learn and river: `fit`, `partial_fit`, `predict`, `learn_one`.

    from wolf import OnlineRegressor
    learner = OnlineRegressor().partial_fit(X, y)
    mean, std = learner.predict(X, return_std=True)

One pass over the data, each row seen once, no learning rate; a wrong target costs little. Needs scikit-learn:
`pip install "wolf-filter[learn]"`.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.engine import scan
from wolf.execution import validate
from wolf.inference.filters.gaussian import GaussianState
from wolf.inference.filters.low_rank import LowRankState
from wolf.models import mlp
from wolf.numerics.precision import precision, to_numpy
from wolf.numerics.pytree import cast
from wolf.statespace import ParameterModel, families

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError('wolf.OnlineRegressor needs scikit-learn: pip install "wolf-filter[learn]"') from error

BLOCK = 64  # rows that are compiled together; what is left over goes one by one, and nothing compiles twice
NORMAL_IQR = 1.349  # interquartile range of a standard normal
NORMAL_MEDIAN = 0.6745  # median of its absolute value
DRIFT_VAR = 3e-5  # smallest worst ratio to the best drift over still and moving streams: benchmarks/drift.py
SCALE_GAIN = 0.02  # least step of the running scale of the residuals


class _OnlineNetwork(BaseEstimator):
    """What both estimators share: scaling, the filter and its blocks.

    The first `warmup` rows set the scale of the features (and of a regression's targets), robustly; until they are
    together every call starts again from them. From then on rows come and go, so pieces and the whole agree.
    """

    hidden: Sequence[int]
    activation: str | Callable
    prior_var: float
    drift_var: float
    method: Any
    warmup: int
    random_state: Any

    def fit(self, X: Any, y: Any) -> Any:
        """Learn from rows, in their order, and forget what was learned before.

        Args:
            X: features, (n, K).
            y: targets, (n,).
        """
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("__")]:
            delattr(self, name)
        return self.partial_fit(X, y)

    def _learn(self, rows: np.ndarray, targets: np.ndarray) -> None:
        """Take in rows (n, K) with their statistics (n, M)."""
        count, seen = len(rows), getattr(self, "seen_", 0)
        if seen == 0:
            self._early_: tuple[np.ndarray, np.ndarray] | None = (rows[:0], targets[:0])
            self._seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        state, early = getattr(self, "state_", None), self._early_
        if early is not None:
            rows, targets = (np.concatenate(pair) for pair in zip(early, (rows, targets), strict=True))
            early = (rows, targets) if len(rows) < self.warmup else None
            self._set_scales(rows[: self.warmup], targets[: self.warmup])
            state, self.residual_scale_ = None, 1.0
        told = self._run(state, (rows - self._shift_) / self._spread_, self._scale_targets(targets))
        # Counted last: what went wrong above can be mended and tried again.
        self.seen_, self._early_ = seen + count, early
        self.weights_ = told["weight"][-count:] if "weight" in told else np.ones(count)
        self._calibrate(told)

    def _set_scales(self, rows: np.ndarray, targets: np.ndarray) -> None:
        self._shift_, self._spread_ = _robust_scale(rows)

    def _scale_targets(self, targets: np.ndarray) -> np.ndarray:
        return targets

    def _calibrate(self, told: dict[str, np.ndarray]) -> None:
        pass

    def _family(self) -> families.Family:
        raise NotImplementedError

    def _engine(self) -> tuple[ParameterModel, Any]:
        """Build model and method; both are small, and a pickle need not carry functions."""
        model = mlp(
            self.n_features_in_,
            self.hidden,
            activation=self.activation,
            key=self._seed_,
            prior_var=self.prior_var,
            drift_var=self.drift_var,
            family=self._family(),
        )
        return model, validate.resolve_method(self.method, model)

    def _run(self, state: Any, rows: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
        """Filter in blocks of one length, then row by row."""
        model, method = (cast(part, "float64") for part in self._engine())
        cuts = [*range(0, len(rows) - BLOCK + 1, BLOCK), len(rows) - len(rows) % BLOCK]
        edges = [*dict.fromkeys(cuts), *range(cuts[-1] + 1, len(rows) + 1)]
        parts = []
        with precision("float64"):
            state = scan.init(model, method) if state is None else state
            for start, end in pairwise(edges):
                block = slice(start, end)
                state, told = scan.run_filter(model, method, targets[block], rows[block], state=state, save=_tell)
                parts.append(told)
            self.state_ = to_numpy(state)
            return {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in parts[0]}

    def _look(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Predict η and its covariance for rows, in blocks of one length."""
        check_is_fitted(self, "state_")
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        model = cast(self._engine()[0], "float64")
        scaled = (rows - self._shift_) / self._spread_
        padded = np.concatenate([scaled, np.zeros((-len(rows) % BLOCK, rows.shape[1]))])
        with precision("float64"):
            blocks = [_predictors(model, self.state_, padded[i : i + BLOCK]) for i in range(0, len(padded), BLOCK)]
            means, covs = (np.concatenate([np.asarray(block[part]) for block in blocks]) for part in (0, 1))
        return means[: len(rows)], covs[: len(rows)]

    def _row_of(self, x: dict[Any, float]) -> np.ndarray:
        """Put the features of a dict in order; the first dict says which there are."""
        if not hasattr(self, "features_"):
            self.features_ = list(x)
        if set(x) != set(self.features_):
            raise ValueError(f"x must have the features {self.features_}, as the first one had; got {list(x)}")
        return np.array([[x[name] for name in self.features_]], dtype=np.float64)


class OnlineRegressor(RegressorMixin, _OnlineNetwork):
    """Regression by a network that a robust filter trains, one row at a time.

    Args:
        hidden: sizes of the hidden layers; () is linear regression.
        activation: a name from `wolf.models.network.ACTIVATIONS`, or a function.
        noise: variance of the target's noise, as a share of the target's own variance.
        prior_var: variance of the weights around their initial values.
        drift_var: variance that the weights gain with every row, for relations that change. The default follows slow
            changes at little price where nothing changes; 0 is for relations that are known to stand still.
        method: as in `wolf.filter`; the default is robust.
        warmup: rows that set the scales.
        random_state: of the initial weights.

    Attributes:
        weights_: how far each row of the last call was believed, from 0 to 1.
        residual_scale_: what predicted deviations are multiplied by, so that half of the targets came as close as
            half of them should. It follows the median, which wrong targets hardly move.

    Example:
        >>> X = np.random.default_rng(0).uniform(-2, 2, (500, 1))
        >>> y = np.sin(X[:, 0])
        >>> y[::10] = 100.0
        >>> bool(abs(OnlineRegressor().fit(X, y).predict([[0.5]])[0] - np.sin(0.5)) < 0.1)
        True
    """

    def __init__(
        self,
        hidden: Sequence[int] = (20,),
        activation: str | Callable = "tanh",
        *,
        noise: float = 0.1,
        prior_var: float = 0.1,
        drift_var: float = DRIFT_VAR,
        method: Any = None,
        warmup: int = 50,
        random_state: Any = 0,
    ):
        self.hidden = hidden
        self.activation = activation
        self.noise = noise
        self.prior_var = prior_var
        self.drift_var = drift_var
        self.method = method
        self.warmup = warmup
        self.random_state = random_state

    def partial_fit(self, X: Any, y: Any) -> "OnlineRegressor":
        """Learn from more rows, in their order.

        Args:
            X: features, (n, K).
            y: targets, (n,).
        """
        first = not hasattr(self, "seen_")
        rows, targets = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=first)
        self._learn(rows, targets.astype(np.float64)[:, None])
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict targets.

        Args:
            X: features, (n, K).
            return_std: whether to give the standard deviation of a new target as well, noise included.
        """
        means, covs = self._look(X)
        centre = means[:, 0] * self._y_spread_ + self._y_shift_
        if not return_std:
            return centre
        return centre, self.residual_scale_ * np.sqrt(covs[:, 0, 0] + self.noise) * self._y_spread_

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Give the ends of an interval that holds a new target with this probability."""
        from scipy.special import ndtri

        if not 0 < level < 1:
            raise ValueError(f"level must be a probability between 0 and 1; got {level!r}")
        centre, std = self.predict(X, return_std=True)
        half = ndtri(0.5 + 0.5 * level) * std
        return centre - half, centre + half

    def learn_one(self, x: dict[Any, float], y: float) -> None:
        """Learn from one row, a dict of features: river's way."""
        self.partial_fit(self._row_of(x), [y])

    def predict_one(self, x: dict[Any, float]) -> float:
        """Predict one target; 0 before anything was learned."""
        return float(self.predict(self._row_of(x))[0]) if hasattr(self, "state_") else 0.0

    def _family(self) -> families.Family:
        return families.Normal(self.noise)

    def _set_scales(self, rows: np.ndarray, targets: np.ndarray) -> None:
        super()._set_scales(rows, targets)
        (self._y_shift_,), (self._y_spread_,) = _robust_scale(targets)

    def _scale_targets(self, targets: np.ndarray) -> np.ndarray:
        return (targets - self._y_shift_) / self._y_spread_

    def _calibrate(self, told: dict[str, np.ndarray]) -> None:
        """Follow the scale of the residuals by stochastic approximation of their median (Robbins & Monro 1951)."""
        if "variance" not in told:
            return
        ratios = np.abs(told["residual"][:, 0]) / np.sqrt(told["variance"][:, 0, 0])
        start = self.seen_ - len(ratios)
        log_scale = np.log(self.residual_scale_)
        for step, ratio in enumerate(ratios, start=start + 1):
            gain = max(SCALE_GAIN, step**-0.5)
            log_scale += gain * (0.5 if ratio > NORMAL_MEDIAN * np.exp(log_scale) else -0.5)
        self.residual_scale_ = float(np.exp(log_scale))


class OnlineClassifier(ClassifierMixin, _OnlineNetwork):
    """Classification by a network that a robust filter trains, one row at a time: wrong labels cost little.

    Args:
        hidden: sizes of the hidden layers; () is logistic regression.
        activation: a name from `wolf.models.network.ACTIVATIONS`, or a function.
        prior_var: variance of the weights around their initial values.
        drift_var: variance that the weights gain with every row, for relations that change.
        method: as in `wolf.filter`; the default weighs the Pearson residual.
        warmup: rows that set the scales of the features.
        random_state: of the initial weights.

    Attributes:
        classes_: the labels.
        weights_: how far each row of the last call was believed, from 0 to 1.
    """

    def __init__(
        self,
        hidden: Sequence[int] = (20,),
        activation: str | Callable = "tanh",
        *,
        prior_var: float = 1.0,
        drift_var: float = 0.0,
        method: Any = None,
        warmup: int = 50,
        random_state: Any = 0,
    ):
        self.hidden = hidden
        self.activation = activation
        self.prior_var = prior_var
        self.drift_var = drift_var
        self.method = method
        self.warmup = warmup
        self.random_state = random_state

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> "OnlineClassifier":
        """Learn from more rows, in their order.

        Args:
            X: features, (n, K).
            y: labels, (n,).
            classes: all labels that will ever come, for the first call; default: those of its y.
        """
        first = not hasattr(self, "seen_")
        rows, labels = validate_data(self, X, y, dtype=np.float64, reset=first)
        check_classification_targets(labels)
        if first:
            self.classes_ = np.unique(labels if classes is None else classes)
        if len(self.classes_) < 2:
            raise ValueError(f"a classifier needs at least 2 classes; got 1 class, {self.classes_[0]!r}")
        known = np.isin(labels, self.classes_)
        if not known.all():
            raise ValueError(
                f"y has a label that was not announced, {labels[~known][0]!r}; pass all of them as classes= to the "
                "first partial_fit"
            )
        codes = np.searchsorted(self.classes_, labels)
        self._learn(rows, self._family().statistic(codes))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Give the probability of each class, what is not known of the weights included (MacKay 1992).

        Args:
            X: features, (n, K).
        """
        means, covs = self._look(X)
        variances = np.maximum(np.diagonal(covs, axis1=1, axis2=2), 0.0)
        modest = means / np.sqrt(1 + np.pi * variances / 8)
        if modest.shape[1] == 1:
            modest = np.hstack([np.zeros_like(modest), modest])
        odds = np.exp(modest - modest.max(1, keepdims=True))
        return odds / odds.sum(1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """Predict labels.

        Args:
            X: features, (n, K).
        """
        check_is_fitted(self, "state_")
        return self.classes_[self.predict_proba(X).argmax(1)]

    def learn_one(self, x: dict[Any, float], y: Any, classes: Any = (False, True)) -> None:
        """Learn from one row, a dict of features: river's way. The first call may announce other classes."""
        row = self._row_of(x)
        self.partial_fit(row, [y], classes=None if hasattr(self, "seen_") else classes)

    def predict_proba_one(self, x: dict[Any, float]) -> dict[Any, float]:
        """Give the probability of each class for one row; nothing before anything was learned."""
        if not hasattr(self, "state_"):
            return {}
        return dict(zip(self.classes_.tolist(), self.predict_proba(self._row_of(x))[0].tolist(), strict=True))

    def predict_one(self, x: dict[Any, float]) -> Any:
        """Predict one label; None before anything was learned."""
        chances = self.predict_proba_one(x)
        return max(chances, key=chances.__getitem__) if chances else None

    def _family(self) -> families.Family:
        return families.Bernoulli() if len(self.classes_) == 2 else families.Categorical(len(self.classes_))


def _tell(state: Any, info: Any) -> dict[str, Array]:
    told = {"residual": info.residual, "variance": info.innovation_cov, "weight": info.weight}
    return {name: value for name, value in told.items() if value is not None}


@jax.jit
def _predictors(model: ParameterModel, state: Any, rows: Array) -> tuple[Array, Array]:
    """See η through the belief, row by row: means (n, outputs) and covariances (n, outputs, outputs)."""

    def one(row: Array) -> tuple[Array, Array]:
        jac = jax.jacrev(model.observe)(state.mean, row)
        return model.observe(state.mean, row), _spread(state, jac)

    return jax.vmap(one)(rows)


def _spread(state: Any, jac: Array) -> Array:
    """Give the covariance of η, as far as the filter knows one."""
    if isinstance(state, GaussianState | LowRankState):
        return state.project(jac)
    return jnp.zeros((len(jac), len(jac)), jac.dtype) if state.cov is None else jac @ state.cov @ jac.T


def _robust_scale(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the middle and the spread of each column by quantiles; by its deviation where they do not move."""
    low, middle, high = np.quantile(columns, (0.25, 0.5, 0.75), axis=0)
    spread, deviation = (high - low) / NORMAL_IQR, columns.std(axis=0)
    spread = np.where(spread > 0, spread, deviation)
    return middle, np.where(spread > 0, spread, 1.0)
