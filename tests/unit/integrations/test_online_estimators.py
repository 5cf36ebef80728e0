"""OnlineRegressor and OnlineClassifier: checks of scikit-learn, training in pieces, wrong targets."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")
from sklearn.base import clone  # noqa: E402
from sklearn.datasets import make_blobs, make_moons  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

import wolf  # noqa: E402

pytestmark = pytest.mark.thorough  # quick tests elsewhere cover this part


@pytest.fixture
def waves(rng):
    """Rows, targets of which one in ten is wrong, and the noise-free targets."""
    X = rng.uniform(-2, 2, (700, 2))
    clean = 30 + 10 * np.sin(2 * X[:, 0]) + 5 * X[:, 1]
    y = clean + rng.normal(size=700)
    y[rng.random(700) < 0.1] = 1e4
    return X, y, clean


@pytest.mark.slow
def test_regressor_passes_the_checks_of_scikit_learn():
    check_estimator(wolf.OnlineRegressor(), on_skip=None)


@pytest.mark.slow
def test_classifier_passes_the_checks_of_scikit_learn():
    check_estimator(wolf.OnlineClassifier(), on_skip=None)


def test_wrong_targets_have_little_influence(waves):
    X, y, clean = waves
    robust = wolf.OnlineRegressor().fit(X[:500], y[:500])
    plain = wolf.OnlineRegressor(method="EKF").fit(X[:500], y[:500])
    errors = [np.sqrt(np.mean((each.predict(X[500:]) - clean[500:]) ** 2)) for each in (robust, plain)]
    assert errors[0] < 2.0 < 100.0 < errors[1]
    assert (robust.weights_[y[:500] > 1e3] < 0.1).all()
    assert np.median(robust.weights_) > 0.8


def test_training_in_pieces_equals_training_on_the_whole(waves):
    X, y, _ = waves
    whole = wolf.OnlineRegressor().fit(X, y)
    pieces = wolf.OnlineRegressor()
    for part in np.split(np.arange(700), (7, 20, 100, 101, 400)):
        pieces.partial_fit(X[part], y[part])
    np.testing.assert_allclose(pieces.predict(X), whole.predict(X), rtol=1e-8)
    np.testing.assert_allclose(pieces.residual_scale_, whole.residual_scale_, rtol=1e-8)
    again = whole.fit(X, y)
    np.testing.assert_array_equal(again.predict(X), whole.predict(X))


@pytest.mark.parametrize("noise", [0.001, 0.5])
def test_intervals_are_calibrated_for_any_assumed_noise(noise, rng):
    X = rng.uniform(-2, 2, (3000, 1))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=3000)
    learner = wolf.OnlineRegressor(noise=noise).fit(X[:2000], np.where(rng.random(2000) < 0.05, 50.0, y[:2000]))
    lower, upper = learner.predict_interval(X[2000:], level=0.9)
    assert 0.84 < np.mean((lower < y[2000:]) & (y[2000:] < upper)) < 0.96
    with pytest.raises(ValueError, match="level must be a probability"):
        learner.predict_interval(X, level=95)


def test_wrong_labels_have_little_influence():
    X, y = make_moons(1500, noise=0.15, random_state=0)
    rng = np.random.default_rng(1)
    flipped = np.where(rng.random(1000) < 0.2, 1 - y[:1000], y[:1000])
    learner = wolf.OnlineClassifier().fit(X[:1000], flipped)
    assert learner.score(X[1000:], y[1000:]) > 0.93
    np.testing.assert_allclose(learner.predict_proba(X).sum(1), 1.0)


def test_many_classes_with_names():
    X, codes = make_blobs(400, centers=4, cluster_std=0.8, random_state=3)
    labels = np.array(["north", "south", "east", "west"])[codes]
    learner = wolf.OnlineClassifier(hidden=()).partial_fit(X[:30], labels[:30], classes=np.unique(labels))
    learner.partial_fit(X[30:300], labels[30:300])
    assert learner.score(X[300:], labels[300:]) > 0.9
    with pytest.raises(ValueError, match="y has an unknown label"):
        learner.partial_fit(X[:1], ["up"])


def test_learn_one_equals_fit(waves):
    X, y, _ = waves
    rows = [dict(zip("ab", row, strict=True)) for row in X[:120]]
    online, whole = wolf.OnlineRegressor(), wolf.OnlineRegressor().fit(X[:120], y[:120])
    assert online.predict_one(rows[0]) == 0.0
    for row, target in zip(rows, y, strict=False):
        online.learn_one(row, target)
    reordered = {"b": rows[5]["b"], "a": rows[5]["a"]}
    np.testing.assert_allclose(online.predict_one(reordered), whole.predict(X[5:6])[0], rtol=1e-6)
    with pytest.raises(ValueError, match="x must have the features"):
        online.learn_one({"c": 1.0}, 2.0)
    label = wolf.OnlineClassifier()
    assert label.predict_one({"x": 1.0}) is None
    for value in np.linspace(-1, 1, 40):
        label.learn_one({"x": value}, value > 0)
    assert label.predict_one({"x": 0.9}) is True
    assert label.predict_proba_one({"x": -0.9})[False] > 0.7


def test_estimators_can_be_cloned_pickled_and_take_other_methods(waves):
    X, y, _ = waves
    learner = wolf.OnlineRegressor(hidden=(8,), method=wolf.LowRank(rank=5), activation="relu").fit(X[:200], y[:200])
    again = pickle.loads(pickle.dumps(learner))
    np.testing.assert_array_equal(again.predict(X[:9]), learner.predict(X[:9]))
    assert clone(learner).get_params()["hidden"] == (8,)
    mean, std = learner.predict(X[:9], return_std=True)
    assert (std > 0).all()
    assert mean.shape == std.shape == (9,)


def test_a_call_can_be_repeated_after_an_error(waves):
    X, y, _ = waves
    learner = wolf.OnlineRegressor(activation="step")
    with pytest.raises(ValueError, match="activation must be a function or one of"):
        learner.partial_fit(X, y)
    corrected = learner.set_params(activation="tanh").partial_fit(X[:100], y[:100])
    np.testing.assert_array_equal(corrected.predict(X[:5]), wolf.OnlineRegressor().fit(X[:100], y[:100]).predict(X[:5]))


def test_without_scikit_learn_the_error_names_the_extra():
    code = "import sys; sys.modules['sklearn'] = None\nimport wolf\ntry: wolf.OnlineRegressor\n"
    code += "except ImportError as error: print(error)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install scikit-learn" in run.stdout
