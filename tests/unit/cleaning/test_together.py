"""Columns that are cleaned together: gaps are filled, and values judged, by the other columns."""

import numpy as np
import pandas as pd
import pytest

import wolf
from wolf.fitting.joint_correlation import estimate_correlation

N = 300
KNOWN = {"level_var": 1.0, "obs_var": 0.25}


@pytest.fixture(scope="module")
def pair():
    rng = np.random.default_rng(3)
    common = np.cumsum(rng.normal(size=N))
    truth = np.stack([common + np.cumsum(0.2 * rng.normal(size=N)) for _ in range(2)], axis=1)
    return truth, pd.DataFrame(truth + 0.5 * rng.normal(size=(N, 2)), columns=["a", "b"])


def test_gaps_and_jumps_are_judged_by_the_other_column(pair):
    truth, frame = pair
    frame = frame.copy()
    frame.loc[100:119, "a"] = np.nan
    frame.loc[200, "a"] += 4.0  # hidden in the changes of a alone, and not beside b
    options = {"values": ["a", "b"], "model": "local-level", "parameters": KNOWN}
    alone, both = (wolf.filter_frame(frame, together=together, **options) for together in (False, True))
    errors = [np.sqrt(np.mean((out.a_mean - truth[:, 0])[100:120] ** 2)) for out in (alone, both)]
    assert errors[1] < 0.7 * errors[0]
    inside = (both.a_prediction_lower < truth[:, 0]) & (truth[:, 0] < both.a_prediction_upper)
    assert inside.mean() > 0.9
    assert (both.b_fault[90:130] == "").all()  # nothing is explained of b while a is missing, which is no fault of b
    assert abs(both.a_mean[200] - truth[200, 0]) < abs(alone.a_mean[200] - truth[200, 0])


@pytest.mark.slow
def test_causal_results_do_not_depend_on_the_future(pair):
    _, frame = pair
    options = {"values": ["a", "b"], "model": "local-level", "parameters": KNOWN, "causal": True, "together": True}
    whole, part = wolf.filter_frame(frame, **options), wolf.filter_frame(frame[:200], **options)
    assert np.isfinite(whole[["a_mean", "b_mean"]].to_numpy()).all()
    late = slice(150, 200)  # the fit differs a little; what is estimated from the other column does not move ahead
    np.testing.assert_allclose(part["a_mean"][late], whole["a_mean"][late], atol=0.5)


def test_correlation_is_estimated_and_none_is_zero():
    rng = np.random.default_rng(4)
    correlated = np.linalg.cholesky([[1.0, 0.8, 0.0], [0.8, 1.0, 0.0], [0.0, 0.0, 1.0]])
    values = np.cumsum(rng.normal(size=(2000, 3)) @ correlated.T, axis=0) + rng.normal(size=(2000, 3))
    values[::50, 0] += 30.0
    models = [wolf.models.local_level(level_var=1.0, obs_var=1.0)] * 3
    found = estimate_correlation(models, values)
    assert 0.65 < found[0, 1] < 0.95
    assert found[0, 2] == found[1, 2] == 0.0


def test_a_joint_model_without_correlation_is_its_models(pair):
    _, frame = pair
    level = wolf.models.local_level(level_var=1.0, obs_var=0.25)
    both = wolf.filter(wolf.models.joint([level, level], np.eye(2)), frame, method="KF")
    one = wolf.filter(level, frame["b"], method="KF")
    np.testing.assert_allclose(both.means[:, 1], one.means[:, 0], atol=1e-12)
    assert both.state_names == ("y0_level", "y1_level")


@pytest.mark.slow
def test_a_choice_of_several_columns_fills_one_from_the_other(pair):
    truth, frame = pair
    holes = frame.copy()
    holes.loc[100:119, "a"] = np.nan
    choice = wolf.choose(holes, candidates=["local-level"], together=True)
    assert choice.correlation[0, 1] > 0.8
    assert choice.model.obs_names == ("a", "b")
    assert "a: local-level" in repr(choice)
    smoothed = wolf.smooth(wolf.filter(choice.model, holes, method=wolf.Learned(sensors="each")))
    gap = slice(100, 120)
    line = np.interp(np.arange(100, 120), [99, 120], truth[[99, 120], 0])
    assert np.std(smoothed.means[gap, 0] - truth[gap, 0]) < 0.7 * np.std(line - truth[gap, 0])


def test_columns_that_are_not_there_are_named(pair):
    _, frame = pair
    with pytest.raises(ValueError, match="together names 'c'"):
        wolf.filter_frame(frame, values=["a", "b"], together=["a", "c"])
    with pytest.raises(ValueError, match="at least two"):
        wolf.filter_frame(frame, values=["a", "b"], together=["a"])
    with pytest.raises(ValueError, match="correlation must"):
        wolf.models.joint([wolf.models.local_level(1.0, 1.0)] * 2, np.ones((3, 3)))
