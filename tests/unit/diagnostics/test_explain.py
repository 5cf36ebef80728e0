"""Explanations: series with one known cause each, how often it is found, its evidence, and invalid arguments."""

from collections import Counter

import numpy as np
import pytest

import wolf
from wolf.diagnostics.faults.result import KINDS

pytestmark = pytest.mark.thorough  # a part that the quick tests touch elsewhere

STEPS = 160
SIZE = 10.0  # of a fault, in deviations of the noise
SEEDS = range(12)


def level_model():
    return wolf.models.local_level(0.05, 1.0, prior=wolf.Gaussian(np.zeros(1), np.eye(1)))


def track_model():
    return wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)


def faulty(model, cause, seed):
    """A simulated series with one kind of fault, and where it is."""
    rng = np.random.default_rng(seed)
    ys = wolf.simulate.trajectory(model, STEPS, key=seed).measurements.copy()
    deviation = np.sqrt(model.R[0, 0])
    where = np.zeros(STEPS, bool)
    if cause == "outlier":
        for t in (40, 43, 80, 81):
            ys[t] += SIZE * deviation * rng.choice([-1, 1], ys.shape[1]) * (1 + rng.random())
            where[t] = True
    elif cause == "jump":
        ys[80:] += SIZE * deviation
        where[80:] = True
    elif cause == "stuck":
        ys[80:96] = ys[80] + 0.8 * SIZE * deviation
        where[80:96] = True
    elif cause == "biased":
        ys[80:95] += SIZE * deviation
        where[80:95] = True
    return ys, where


@pytest.mark.thorough
@pytest.mark.parametrize("make", [level_model, track_model], ids=["level", "track"])
@pytest.mark.parametrize("method", ["WoLF", "WoLF-TMD"])
@pytest.mark.parametrize("cause", ["outlier", "jump", "stuck", "biased"])
def test_known_causes_are_found(cause, method, make):
    """Of what was refused within a fault at least nine in ten are named rightly, and every fault is found.

    A soft filter follows a long fault, so not every measurement of it is refused; and what it refuses after the
    fault, while it is astray, must not be called a jump, save once in a while.
    """
    model, named, others = make(), Counter(), Counter()
    for seed in SEEDS:
        ys, where = faulty(model, cause, seed)
        found = wolf.explain(wolf.filter(model, ys, method=method))
        kinds = [finding.kind for finding in found if where[finding.step]]
        assert cause in kinds
        named.update(kinds)
        others.update(finding.kind for finding in found if not where[finding.step])
    assert named[cause] >= 0.9 * named.total()
    assert others["jump"] <= 0.05 * (named.total() + others.total())


def test_clean_data_have_nothing_but_false_alarms():
    model, found = level_model(), Counter()
    for seed in range(30):
        ys = wolf.simulate.trajectory(model, STEPS, key=100 + seed).measurements
        found.update(finding.kind for finding in wolf.explain(wolf.filter(model, ys, method="WoLF-TMD")))
    assert found["false alarm"] > 10  # a gate that keeps 95 % refuses about one clean measurement in a hundred
    assert found["jump"] == found["stuck"] == found["biased"] == 0
    assert found["outlier"] <= 0.2 * found.total()


def test_one_faulty_sensor_of_three_is_named():
    """Weighed one by one, the other two tell that it is biased, while it lasts and to the end of the series."""
    model = wolf.LinearModel(None, np.ones((3, 1)), [[0.05]], np.eye(3), [0.0], [[1.0]])
    ys = wolf.simulate.trajectory(model, STEPS, key=1).measurements.copy()
    ys[60:90, 1] += 20.0
    found = wolf.explain(wolf.filter(model, ys, method="WoLF-PerCoordinate"))
    kinds = Counter((finding.sensor, finding.kind) for finding in found)
    assert kinds[1, "biased"] == 30
    assert not any(kind == "jump" for _, kind in kinds)


def test_jump_reports_the_shift_of_the_state():
    model = level_model()
    ys, _ = faulty(model, "jump", 3)
    first = next(finding for finding in wolf.explain(wolf.filter(model, ys)) if finding.kind == "jump")
    assert first.step == 80
    moved = float(first.sentence.split("(")[1].rstrip(")"))
    assert abs(moved - SIZE) < 3.0
    assert first.evidence["inflation"] > 10.0


def test_missing_and_infinite_values_are_named():
    model = track_model()
    ys = wolf.simulate.trajectory(model, 60, key=0).measurements.copy()
    ys[10:13] = np.nan
    ys[20, 1] = np.nan
    ys[30] = np.inf
    ys[31] = -np.inf
    ys[40] = 1e150
    ys[41] = 1e200
    found = wolf.explain(wolf.filter(model, ys))
    kinds = {(finding.step, finding.sensor): finding.kind for finding in found}
    assert kinds[10, None] == kinds[11, None] == kinds[12, None] == kinds[20, 1] == "missing"
    assert kinds[30, None] == kinds[31, None] == kinds[40, None] == kinds[41, None] == "outlier"
    assert "10-12" in repr(found)


def test_rounded_values_are_not_called_stuck():
    """Where neighbours are often equal, a run of equal values is no evidence; a long one is."""
    model = level_model()
    ys = np.round(wolf.simulate.trajectory(model, STEPS, key=2).measurements)
    ys[50:53] += 15.0
    ys[50:53] = ys[50]
    kinds = {finding.step: finding.kind for finding in wolf.explain(wolf.filter(model, ys))}
    assert kinds[50] != "stuck"
    ys[100:130] = ys[99] + 15.0
    kinds = {finding.step: finding.kind for finding in wolf.explain(wolf.filter(model, ys))}
    assert kinds[100] == "stuck"


def test_single_precision_finds_the_same():
    model = level_model()
    ys, _ = faulty(model, "stuck", 1)
    found = [wolf.explain(wolf.filter(model, 1000.0 + ys, dtype=dtype)) for dtype in ("float64", "float32")]
    assert [f.kind for f in found[0]].count("stuck") == [f.kind for f in found[1]].count("stuck") > 0


def test_end_of_the_series_is_unclear_until_more_is_known():
    model = track_model()
    ys = wolf.simulate.trajectory(model, 60, key=4).measurements.copy()
    ys[-1] += 100.0
    assert [finding.kind for finding in wolf.explain(wolf.filter(model, ys))][-1] == "unclear"


def test_explanation_does_not_depend_on_units():
    model = level_model()
    ys, _ = faulty(model, "biased", 5)
    other = wolf.models.local_level(
        0.05 * 1024.0**2, 1024.0**2, prior=wolf.Gaussian(np.zeros(1), 1024.0**2 * np.eye(1))
    )
    mine, theirs = wolf.explain(wolf.filter(model, ys)), wolf.explain(wolf.filter(other, 1024.0 * ys))
    assert [(f.step, f.kind) for f in mine] == [(f.step, f.kind) for f in theirs]


def test_inputs_and_either_order_of_steps_are_followed():
    """A level that is pushed: without its input the push would look like a jump."""
    model = wolf.LinearModel([[1.0]], [[1.0]], [[0.05]], [[1.0]], [0.0], [[1.0]], B=[[1.0]])
    us = np.zeros((STEPS, 1))
    us[80] = 40.0
    truth = wolf.simulate.trajectory(model, STEPS, key=6, inputs=us).measurements
    for update_first, inputs in ((False, us), (True, np.roll(us, -1, axis=0))):
        ys = truth.copy()
        ys[79] += 30.0
        found = wolf.explain(wolf.filter(model, ys, inputs=inputs, update_first=update_first))
        assert [finding.kind for finding in found if finding.step in (79, 80, 81)] == ["outlier"]


def test_table_and_frame():
    model = level_model()
    ys, _ = faulty(model, "outlier", 0)
    found = wolf.explain(wolf.filter(model, ys))
    assert found.counts["outlier"] == 4
    assert "outlier" in repr(found)
    assert len(found.to_frame()) == len(found)
    assert set(found.counts) <= set(KINDS)
    clean = wolf.explain(wolf.filter(model, 0.1 * np.arange(20) % 1.0))
    assert "nothing to explain" in repr(clean)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda model, ys: [1.0], "result of wolf.filter"),
        (lambda model, ys: wolf.filter(model, ys, save="means"), "save="),
        (lambda model, ys: wolf.filter(model, ys)[10:20], "slice"),
        (lambda model, ys: wolf.filter_many(model, ys[None]), "one series"),
        (lambda model, ys: wolf.filter(model, ys, method="ETKF", key=0), "Gaussian filter"),
        (lambda model, ys: list(wolf.filter_chunks(model, [ys[:20], ys[20:40]], save="all"))[1], "later chunk"),
    ],
)
def test_invalid_arguments_raise(make, words):
    model = level_model()
    ys, _ = faulty(model, "outlier", 0)
    with pytest.raises(ValueError, match=words):
        wolf.explain(make(model, ys))


@pytest.mark.parametrize("method", ["Learned", "Adaptive"])
@pytest.mark.parametrize("cause", ["outlier", "jump", "frozen", "biased"])
def test_causes_are_found_by_methods_with_a_jump_test(cause, method):
    """A jump is reported at its first step, a burst that returns is not a jump, a stuck value may be accepted."""
    model, right = track_model(), 0
    for seed in range(20, 26):
        ys, where = faulty(model, "stuck" if cause == "frozen" else cause, seed)
        if cause == "frozen":
            ys[80:96] = ys[80] - 0.8 * SIZE * np.sqrt(10.0)  # undo the offset
        found = wolf.explain(wolf.filter(model, ys, method=method))
        kinds = Counter(finding.kind for finding in found if where[finding.step])
        right += kinds.most_common(1)[0][0] == ("stuck" if cause == "frozen" else cause)
        assert cause != "jump" or any(f.kind == "jump" and f.step == 80 for f in found)
    assert right >= 5
