"""Neural networks trained online by a robust filter, as estimators of scikit-learn and models of river.

    from wolf import OnlineRegressor
    learner = OnlineRegressor().partial_fit(X, y)
    mean, std = learner.predict(X, return_std=True)

Training is one pass over the data, without a learning rate, and wrong targets have little influence. It needs
scikit-learn: `pip install scikit-learn`.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wolf.integrations.online_network import OnlineNetwork, RandomState, robust_scale
from wolf.interfaces import Filter
from wolf.statespace import families

try:
    from sklearn.base import ClassifierMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("wolf.OnlineRegressor needs scikit-learn: pip install scikit-learn") from error

NORMAL_MEDIAN = 0.6745  # median of the absolute value of a standard normal
# Minimises the worst ratio to the best drift variance, over stationary and changing streams: benchmarks/drift.py.
DRIFT_VAR = 3e-5
MIN_SCALE_GAIN = 0.02  # of the stochastic approximation of the residual scale


class OnlineRegressor(RegressorMixin, OnlineNetwork):
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
        (self._y_shift_,), (self._y_spread_,) = robust_scale(targets)

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


class OnlineClassifier(ClassifierMixin, OnlineNetwork):
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
