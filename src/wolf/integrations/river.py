"""Models of river: `from wolf.integrations.river import RiverRegressor`.

river distinguishes kinds of models by their base classes, so these wrap `OnlineRegressor` and `OnlineClassifier` in
classes of river, which is not part of any extra.
"""

from collections.abc import Hashable

from sklearn.base import clone

from wolf.integrations.online_estimators import OnlineClassifier, OnlineRegressor

try:
    from river.base import Classifier, Regressor
except ImportError as missing:
    raise ModuleNotFoundError(
        "RiverRegressor and RiverClassifier need river: pip install river", name="river"
    ) from missing


class RiverRegressor(Regressor):
    """Regression by a neural network trained online with a robust filter, as a model of river.

    Args:
        learner: an `OnlineRegressor` with the settings to use; it is copied and not changed.

    Example:
        >>> from river import evaluate, metrics
        >>> rows = [({"x": float(i % 7)}, 2.0 * (i % 7)) for i in range(300)]
        >>> metric = evaluate.progressive_val_score(rows, RiverRegressor(), metrics.MAE())
        >>> metric.get() < 1.0
        True
    """

    def __init__(self, learner: OnlineRegressor | None = None):
        self.learner = learner
        self._learner = OnlineRegressor() if learner is None else clone(learner)

    def learn_one(self, x: dict[Hashable, float], y: float) -> None:
        """Train on one row."""
        self._learner.learn_one(x, y)

    def predict_one(self, x: dict[Hashable, float]) -> float:
        """Predict one target; 0 before the first row was learned."""
        return self._learner.predict_one(x)


class RiverClassifier(Classifier):
    """Classification by a neural network trained online with a robust filter, as a model of river.

    Args:
        learner: an `OnlineClassifier` with the settings to use; it is copied and not changed.
        classes: all labels.
    """

    def __init__(self, learner: OnlineClassifier | None = None, classes: tuple[Hashable, ...] = (False, True)):
        self.learner = learner
        self.classes = classes
        self._learner = OnlineClassifier() if learner is None else clone(learner)

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Hashable, float], y: Hashable) -> None:
        """Train on one row."""
        self._learner.learn_one(x, y, self.classes)

    def predict_proba_one(self, x: dict[Hashable, float]) -> dict[Hashable, float]:
        """Predict the probability of each class; an empty dict before the first row was learned."""
        return self._learner.predict_proba_one(x)
