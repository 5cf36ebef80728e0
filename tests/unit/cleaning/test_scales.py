"""Measurements with bounds, angles, and readings with their own accuracy, in frames and in models."""

import pickle

import numpy as np
import pandas as pd
import pytest

import wolf
from wolf.cleaning.scales import unwrap
from wolf.numerics.measurement_transforms import read_transform

N = 240


@pytest.fixture(scope="module")
def positive():
    rng = np.random.default_rng(0)
    truth = np.exp(2.0 + np.cumsum(rng.normal(0, 0.05, N)))
    ys = truth * np.exp(rng.normal(0, 0.3, N))
    ys[100], ys[200] = -5.0, 900.0
    return truth, ys


@pytest.mark.parametrize("how", [{}, {"forecast": 3}])
def test_limits_of_positive_values_are_positive_and_hold(positive, how):
    truth, ys = positive
    known = {"level_var": 0.0025, "obs_var": 0.09}
    out = wolf.filter_frame(pd.DataFrame({"y": ys}), transform="log", model="local-level", parameters=known, **how)
    assert out[["mean", "lower", "prediction_lower"]].to_numpy().min() > 0.0
    rows = out[:N]
    assert rows.outlier[[100, 200]].all()
    assert np.mean((rows.lower < truth) & (truth < rows.upper)) > 0.85
    assert np.mean((rows.prediction_lower < ys) & (ys < rows.prediction_upper)) > 0.9
    assert rows.cleaned.min() > 0.0


def test_angles_are_filtered_across_the_turn():
    rng = np.random.default_rng(1)
    truth = (np.cumsum(rng.normal(2.0, 3.0, N)) + 300.0) % 360.0
    wind = (truth + rng.normal(0, 8.0, N)) % 360.0
    wind[50], wind[150] = (truth[50] + 170.0) % 360.0, -999.0
    known = {"level_var": 13.0, "obs_var": 64.0}
    frame = pd.DataFrame({"wind": wind})
    out = wolf.filter_frame(frame, angle="degrees", model="local-level", parameters=known)
    error = (out["mean"] - truth + 180.0) % 360.0 - 180.0
    assert np.sqrt(np.mean(error**2)) < 6.0
    assert out.outlier[[50, 150]].all()
    assert ((out["mean"] >= 0.0) & (out["mean"] < 360.0)).all()
    assert (out.lower < out["mean"]).all()
    assert (out["mean"] < out.upper).all()


def test_unwrapping_is_that_of_numpy_and_one_false_reading_moves_no_other():
    path = np.linspace(0.0, 900.0, 91)
    unwrapped = unwrap(path % 360.0, 360.0)
    np.testing.assert_allclose(unwrapped, path, atol=1e-9)
    false = path % 360.0
    false[40] = (false[40] + 179.0) % 360.0
    np.testing.assert_allclose(np.delete(unwrap(false, 360.0) - path, 40), 0.0, atol=1e-9)


@pytest.mark.parametrize("how", [{}, pytest.param({"causal": True}, marks=pytest.mark.slow)])
def test_accurate_readings_count_more(how):
    rng = np.random.default_rng(2)
    sd = np.where(rng.random(N) < 0.5, 5.0, 0.5)
    truth = np.cumsum(rng.normal(0, 0.3, N))
    frame = pd.DataFrame({"y": truth + sd * rng.normal(size=N), "accuracy": sd})
    known = {"level_var": 0.09, "obs_var": float(np.median(sd)) ** 2}
    with_sd = wolf.filter_frame(frame, sd="accuracy", model="local-level", parameters=known, **how)
    without = wolf.filter_frame(frame, values="y", model="local-level", parameters=known, **how)
    errors = [np.sqrt(np.mean((out["mean"] - truth) ** 2)) for out in (with_sd, without)]
    assert errors[0] < errors[1]


def test_models_with_a_transform_predict_and_forecast_on_the_scale_of_the_measurements(positive):
    truth, ys = positive
    choice = wolf.choose(ys, candidates=["local-level"], transform="log")
    out = wolf.filter(choice.model, ys, transform="log")
    ahead = wolf.forecast(out, 10)
    assert ahead.lower.min() > 0.0
    assert 2.0 < ahead.obs_means[0, 0] < 60.0
    signal = wolf.smooth(out).signal()
    assert signal.lower.min() > 0.0
    assert np.mean((signal.lower < truth) & (truth < signal.upper)) > 0.85
    assert out.outliers[100]
    assert pickle.loads(pickle.dumps(out)).transform.name == "log"
    np.testing.assert_allclose(ahead.to_frame()["mean"], ahead.obs_means[:, 0])
    assert ahead.plot().axes[0].get_ylim()[0] > -5.0


def test_values_on_a_bound_stay_finite_and_quantiles_map_back():
    logit = read_transform("logit:0:100")
    there = logit.apply(np.array([0.0, 1.0, 50.0, 100.0, 101.0, np.nan]))
    assert np.isfinite(there[:4]).all()
    assert there[4] == np.inf
    assert np.isnan(there[5])
    np.testing.assert_allclose(logit.undo(there[1:3]), [1.0, 50.0])
    assert logit.undo(np.array([-1e4, 1e4])).tolist() == [0.0, 100.0]


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ("loq", "transform must be"),
        ((np.exp, np.exp), "must be the inverse"),
        ((np.negative, np.negative), "must increase"),
        ("logit", "needs values from 0 to 1"),
    ],
)
def test_errors_name_the_transform(transform, message):
    with pytest.raises(ValueError, match=message):
        wolf.filter_frame(pd.DataFrame({"y": np.arange(40.0)}), transform=transform)


def test_options_that_exclude_each_other():
    frame = pd.DataFrame({"y": np.arange(40.0), "text": ["a"] * 40})
    with pytest.raises(ValueError, match="exclude each other"):
        wolf.filter_frame(frame, values="y", transform="log", angle="degrees")
    with pytest.raises(ValueError, match="given as sd, must hold numbers"):
        wolf.filter_frame(frame, values="y", sd="text")
