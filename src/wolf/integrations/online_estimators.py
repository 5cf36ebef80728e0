"""Neural networks trained online by a robust filter, as estimators of scikit-learn and models of river.

    from wolf import OnlineRegressor
    learner = OnlineRegressor().partial_fit(X, y)
    mean, std = learner.predict(X, return_std=True)

Training is one pass over the data, without a learning rate, and wrong targets have little influence. It needs
scikit-learn: `pip install scikit-learn`.
"""

from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf.engine import scan
from wolf.execution import validate
from wolf.inference.filters.gaussian import GaussianState
from wolf.inference.filters.low_rank import LowRankState
from wolf.interfaces import Filter, State, StepInfo
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
    raise ImportError("wolf.OnlineRegressor needs scikit-learn: pip install scikit-learn") from error

BLOCK_ROWS = 64  # filtered by one program; the rest goes row by row through a second one, so two are compiled
NORMAL_IQR = 1.349  # interquartile range of a standard normal
NORMAL_MEDIAN = 0.6745  # median of its absolute value
# Minimises the worst ratio to the best drift variance, over stationary and changing streams: benchmarks/drift.py.
DRIFT_VAR = 3e-5
MIN_SCALE_GAIN = 0.02  # of the stochastic approximation of the residual scale

RandomState = int | np.random.RandomState | None  # as in scikit-learn


class _OnlineNetwork(BaseEstimator):
    """Base of both estimators: scaling, the filter and its blocks of rows.

    The first `warmup` rows determine robust scales of the features (and of the targets of a regression); until then
    every call filters all rows again. From then on each row is filtered once, so training in pieces gives
    what training on the whole gives.
    """

    hidden: Sequence[int]
    activation: str | Callable
    prior_var: float
    drift_var: float
    method: str | Filter | None
    warmup: int
    random_state: RandomState
    seen_: int

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train from the start on rows, in their order.

        Args:
            X: features, (n, K).
            y: targets, (n,).
        """
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("__")]:
            delattr(self, name)
        return self.partial_fit(X, y)

    @property
    def _is_started(self) -> bool:
        """Whether rows were learned; scikit-learn: an attribute that ends in "_" exists only after the first fit."""
        return "seen_" in vars(self)

    def _learn(self, rows: np.ndarray, targets: np.ndarray) -> None:
        """Train on rows (n, K) with their statistics (n, M)."""
        count, seen = len(rows), self.seen_ if self._is_started else 0
        if seen == 0:
            self._early_: tuple[np.ndarray, np.ndarray] | None = (rows[:0], targets[:0])
            self._seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        state, early = self.state_ if self._is_started else None, self._early_
        if early is not None:
            rows, targets = (np.concatenate(pair) for pair in zip(early, (rows, targets), strict=True))
            early = (rows, targets) if len(rows) < self.warmup else None
            self._set_scales(rows[: self.warmup], targets[: self.warmup])
            state, self.residual_scale_ = None, 1.0
        saved = self._run(state, (rows - self._shift_) / self._spread_, self._scale_targets(targets))
        # Counted last, so that after an error above the call can be repeated.
        self.seen_, self._early_ = seen + count, early
        self.weights_ = saved["weight"][-count:] if "weight" in saved else np.ones(count)
        self._calibrate(saved)

    def _set_scales(self, rows: np.ndarray, targets: np.ndarray) -> None:
        self._shift_, self._spread_ = _robust_scale(rows)

    def _scale_targets(self, targets: np.ndarray) -> np.ndarray:
        return targets

    def _calibrate(self, saved: dict[str, np.ndarray]) -> None:
        pass

    def _family(self) -> families.Family:
        raise NotImplementedError

    def _build(self) -> tuple[ParameterModel, Filter]:
        """Build model and method for each call, so that a pickle holds no functions."""
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

    def _run(self, state: State | None, rows: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
        """Filter in blocks of one length, then row by row."""
        model, method = (cast(part, "float64") for part in self._build())
        cuts = [*range(0, len(rows) - BLOCK_ROWS + 1, BLOCK_ROWS), len(rows) - len(rows) % BLOCK_ROWS]
        edges = [*dict.fromkeys(cuts), *range(cuts[-1] + 1, len(rows) + 1)]
        parts = []
        with precision("float64"):
            state = scan.init(model, method) if state is None else state
            for start, end in pairwise(edges):
                block = slice(start, end)
                state, saved = scan.run_filter(model, targets[block], method, rows[block], state=state, save=_record)
                parts.append(saved)
            self.state_ = to_numpy(state)
            return {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in parts[0]}

    def _predict_eta(self, X: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Predict the network output η and its covariance for rows, in blocks of one length."""
        check_is_fitted(self, "state_")
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        model = cast(self._build()[0], "float64")
        scaled = (rows - self._shift_) / self._spread_
        padded = np.concatenate([scaled, np.zeros((-len(rows) % BLOCK_ROWS, rows.shape[1]))])
        with precision("float64"):
            starts = range(0, len(padded), BLOCK_ROWS)
            blocks = [_eta_moments(model, self.state_, padded[i : i + BLOCK_ROWS]) for i in starts]
            means, covs = (np.concatenate([np.asarray(block[part]) for block in blocks]) for part in (0, 1))
        return means[: len(rows)], covs[: len(rows)]

    def _row_from_dict(self, x: dict[Hashable, float]) -> np.ndarray:
        """Order the features of a dict as in the first one."""
        if "features_" not in vars(self):
            self.features_ = list(x)
        if set(x) != set(self.features_):
            raise ValueError(f"x must have the features {self.features_}, as the first one had; got {list(x)}")
        return np.array([[x[name] for name in self.features_]], dtype=np.float64)


class OnlineRegressor(RegressorMixin, _OnlineNetwork):
    """Regression by a neural network trained with a robust filter, one row at a time.

    Args:
        hidden: sizes of the hidden layers; () is linear regression.
        activation: a name from `wolf.models.network.ACTIVATIONS`, or a function.
        noise: variance of the target's noise, as a share of the target's own variance.
        prior_var: variance of the weights around their initial values.
        drift_var: variance of the weights added at every row, for relations that change. The default tracks slow
            changes at a small loss on stationary data; 0 is for relations known to be constant.
        method: as in `wolf.filter`; the default is robust.
        warmup: number of rows that determine the scales.
        random_state: of the initial weights.

    Attributes:
        weights_: weight of each row of the last call, from 0 to 1.
        residual_scale_: factor on the predicted standard deviations, by which the median of the absolute standardised
            residuals becomes that of a normal distribution. Wrong targets hardly move the median.

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
        method: str | Filter | None = None,
        warmup: int = 50,
        random_state: RandomState = 0,
    ):
        self.hidden = hidden
        self.activation = activation
        self.noise = noise
        self.prior_var = prior_var
        self.drift_var = drift_var
        self.method = method
        self.warmup = warmup
        self.random_state = random_state

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> "OnlineRegressor":
        """Train on more rows, in their order.

        Args:
            X: features, (n, K).
            y: targets, (n,).
        """
        first = not self._is_started
        rows, targets = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=first)
        self._learn(rows, targets.astype(np.float64)[:, None])
        return self

    def predict(self, X: ArrayLike, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict targets.

        Args:
            X: features, (n, K).
            return_std: whether to return the standard deviation of a new target as well, noise included.
        """
        means, covs = self._predict_eta(X)
        centre = means[:, 0] * self._y_spread_ + self._y_shift_
        if not return_std:
            return centre
        return centre, self.residual_scale_ * np.sqrt(covs[:, 0, 0] + self.noise) * self._y_spread_

    def predict_interval(self, X: ArrayLike, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Compute the bounds of a prediction interval for a new target, with nominal coverage `level`."""
        from scipy.special import ndtri

        if not 0 < level < 1:
            raise ValueError(f"level must be a probability between 0 and 1; got {level!r}")
        centre, std = self.predict(X, return_std=True)
        half = ndtri(0.5 + 0.5 * level) * std
        return centre - half, centre + half

    def learn_one(self, x: dict[Hashable, float], y: float) -> None:
        """Train on one row, a dict of features, as river does."""
        self.partial_fit(self._row_from_dict(x), [y])

    def predict_one(self, x: dict[Hashable, float]) -> float:
        """Predict one target; 0 before the first row was learned."""
        return float(self.predict(self._row_from_dict(x))[0]) if self._is_started else 0.0

    def _family(self) -> families.Family:
        return families.Normal(self.noise)

    def _set_scales(self, rows: np.ndarray, targets: np.ndarray) -> None:
        super()._set_scales(rows, targets)
        (self._y_shift_,), (self._y_spread_,) = _robust_scale(targets)

    def _scale_targets(self, targets: np.ndarray) -> np.ndarray:
        return (targets - self._y_shift_) / self._y_spread_

    def _calibrate(self, saved: dict[str, np.ndarray]) -> None:
        """Track the scale of the residuals by stochastic approximation of their median (Robbins & Monro 1951)."""
        if "variance" not in saved:
            return
        ratios = np.abs(saved["residual"][:, 0]) / np.sqrt(saved["variance"][:, 0, 0])
        start = self.seen_ - len(ratios)
        log_scale = np.log(self.residual_scale_)
        for step, ratio in enumerate(ratios, start=start + 1):
            gain = max(MIN_SCALE_GAIN, step**-0.5)
            log_scale += gain * (0.5 if ratio > NORMAL_MEDIAN * np.exp(log_scale) else -0.5)
        self.residual_scale_ = float(np.exp(log_scale))


class OnlineClassifier(ClassifierMixin, _OnlineNetwork):
    """Classification by a neural network trained with a robust filter, one row at a time.

    Args:
        hidden: sizes of the hidden layers; () is logistic regression.
        activation: a name from `wolf.models.network.ACTIVATIONS`, or a function.
        prior_var: variance of the weights around their initial values.
        drift_var: variance of the weights added at every row, for relations that change.
        method: as in `wolf.filter`; the default weights by the Pearson residual.
        warmup: number of rows that determine the scales of the features.
        random_state: of the initial weights.

    Attributes:
        classes_: the labels.
        weights_: weight of each row of the last call, from 0 to 1.
    """

    def __init__(
        self,
        hidden: Sequence[int] = (20,),
        activation: str | Callable = "tanh",
        *,
        prior_var: float = 1.0,
        drift_var: float = 0.0,
        method: str | Filter | None = None,
        warmup: int = 50,
        random_state: RandomState = 0,
    ):
        self.hidden = hidden
        self.activation = activation
        self.prior_var = prior_var
        self.drift_var = drift_var
        self.method = method
        self.warmup = warmup
        self.random_state = random_state

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: Any = None) -> "OnlineClassifier":
        """Train on more rows, in their order.

        Args:
            X: features, (n, K).
            y: labels, (n,).
            classes: all labels, for the first call; default: those of its y.
        """
        first = not self._is_started
        rows, labels = validate_data(self, X, y, dtype=np.float64, reset=first)
        check_classification_targets(labels)
        if first:
            self.classes_ = np.unique(labels if classes is None else classes)
        if len(self.classes_) < 2:
            raise ValueError(f"a classifier needs at least 2 classes; got 1 class, {self.classes_[0]!r}")
        known = np.isin(labels, self.classes_)
        if not known.all():
            raise ValueError(
                f"y has an unknown label, {labels[~known][0]!r}; pass all labels as classes= to the first partial_fit"
            )
        codes = np.searchsorted(self.classes_, labels)
        self._learn(rows, self._family().statistic(codes))
        return self

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Predict the probability of each class, with the uncertainty of the weights (MacKay 1992).

        Args:
            X: features, (n, K).
        """
        means, covs = self._predict_eta(X)
        variances = np.maximum(np.diagonal(covs, axis1=1, axis2=2), 0.0)
        moderated = means / np.sqrt(1 + np.pi * variances / 8)
        if moderated.shape[1] == 1:
            moderated = np.hstack([np.zeros_like(moderated), moderated])
        odds = np.exp(moderated - moderated.max(1, keepdims=True))
        return odds / odds.sum(1, keepdims=True)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict labels.

        Args:
            X: features, (n, K).
        """
        check_is_fitted(self, "state_")
        return self.classes_[self.predict_proba(X).argmax(1)]

    def learn_one(self, x: dict[Hashable, float], y: Any, classes: Sequence[Hashable] = (False, True)) -> None:
        """Train on one row, a dict of features, as river does; `classes` is used by the first call."""
        row = self._row_from_dict(x)
        self.partial_fit(row, [y], classes=None if self._is_started else classes)

    def predict_proba_one(self, x: dict[Hashable, float]) -> dict[Hashable, float]:
        """Predict the probability of each class for one row; an empty dict before the first row was learned."""
        if not self._is_started:
            return {}
        return dict(zip(self.classes_.tolist(), self.predict_proba(self._row_from_dict(x))[0].tolist(), strict=True))

    def predict_one(self, x: dict[Hashable, float]) -> Hashable:
        """Predict one label; None before the first row was learned."""
        probabilities = self.predict_proba_one(x)
        return max(probabilities, key=probabilities.__getitem__) if probabilities else None

    def _family(self) -> families.Family:
        return families.Bernoulli() if len(self.classes_) == 2 else families.Categorical(len(self.classes_))


def _record(state: State, info: StepInfo) -> dict[str, Array]:
    fields = {"residual": info.residual, "variance": info.innovation_cov, "weight": info.weight}
    return {name: value for name, value in fields.items() if value is not None}


@jax.jit
def _eta_moments(model: ParameterModel, state: State, rows: Array) -> tuple[Array, Array]:
    """Compute means (n, outputs) and covariances (n, outputs, outputs) of the linearised network, row by row."""

    def one(row: Array) -> tuple[Array, Array]:
        jac = jax.jacrev(model.observe)(state.mean, row)
        return model.observe(state.mean, row), _eta_cov(state, jac)

    return jax.vmap(one)(rows)


def _eta_cov(state: State, jac: Array) -> Array:
    """Compute the covariance of η; zero if the filter has no covariance."""
    if isinstance(state, GaussianState | LowRankState):
        return state.project(jac)
    return jnp.zeros((len(jac), len(jac)), jac.dtype) if state.cov is None else jac @ state.cov @ jac.T


def _robust_scale(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the median and the normalised interquartile range of each column; its deviation where that is 0."""
    low, middle, high = np.quantile(columns, (0.25, 0.5, 0.75), axis=0)
    spread, deviation = (high - low) / NORMAL_IQR, columns.std(axis=0)
    spread = np.where(spread > 0, spread, deviation)
    return middle, np.where(spread > 0, spread, 1.0)
