"""Models of river: they learn and predict row by row, and river's own evaluation takes them where it is installed."""

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("sklearn")
import wolf

LINEAR = wolf.OnlineRegressor(hidden=())


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(150, 2))
    y = X @ [1.0, -2.0] + 0.1 * rng.normal(size=150)
    return [
        ({"a": a, "b": b}, float(target))
        for (a, b), target in zip(X, np.where(np.arange(150) % 10, y, 1e3), strict=True)
    ]


@pytest.fixture
def river(monkeypatch):
    """The adapters: on river's own classes, or on empty ones where it is not installed."""
    absent = not find_spec("river")
    if absent:
        base = ModuleType("river.base")
        base.Regressor, base.Classifier = type("Regressor", (), {}), type("Classifier", (), {})
        monkeypatch.setitem(sys.modules, "river", ModuleType("river"))
        monkeypatch.setitem(sys.modules, "river.base", base)
    module = importlib.import_module("wolf.integrations.river")
    yield module
    if absent:
        sys.modules.pop("wolf.integrations.river")


def test_a_regressor_predicts_then_learns_each_row(river, rows):
    model = river.RiverRegressor(LINEAR)
    errors = []
    for x, y in rows:
        errors.append(abs(model.predict_one(x) - y))
        model.learn_one(x, y)
    good = np.arange(150) % 10 > 0
    assert np.mean(np.array(errors)[good][80:]) < 0.3
    assert not hasattr(LINEAR, "state_")  # settings are copied, not used up


def test_a_classifier_gives_probabilities_of_the_classes_it_was_told(river, rows):
    model = river.RiverClassifier(wolf.OnlineClassifier(hidden=()), classes=("down", "up"))
    x, _ = rows[0]
    assert model.predict_proba_one(x) == {}
    for x, y in rows[:100]:
        model.learn_one(x, "up" if y > 0 else "down")
    chances = model.predict_proba_one({"a": 3.0, "b": -3.0})
    assert sum(chances.values()) == pytest.approx(1.0)
    assert chances["up"] > 0.9


def test_rivers_own_evaluation_takes_them(rows):
    evaluate = pytest.importorskip("river.evaluate", reason="river is not installed: its evaluation runs where it is")
    from river import metrics, preprocessing

    from wolf.integrations.river import RiverClassifier, RiverRegressor

    steps = list(evaluate.iter_progressive_val_score(rows, RiverRegressor(LINEAR), metrics.MAE(), step=50))
    assert [step["Step"] for step in steps] == [50, 100, 150]
    piped = preprocessing.StandardScaler() | RiverRegressor(LINEAR)
    assert evaluate.progressive_val_score(rows, piped, metrics.MAE()).get() < 200.0
    labels = [(x, y > 0) for x, y in rows]
    assert evaluate.progressive_val_score(labels, RiverClassifier(), metrics.ROCAUC()).get() > 0.8


def test_without_river_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "river.base", None)
    monkeypatch.delitem(sys.modules, "wolf.integrations.river", raising=False)
    with pytest.raises(ModuleNotFoundError, match="pip install river"):
        importlib.import_module("wolf.integrations.river")
