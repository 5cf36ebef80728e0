"""Backtests: forecasts from past origins are those of separate runs, and scores have their definitions."""

import numpy as np
import pandas
import pytest

import wolf

MODEL = wolf.models.local_level(level_var=0.1, obs_var=1.0)
YS = wolf.simulate.trajectory(MODEL, 120, key=1).measurements[:, 0]


@pytest.fixture(scope="module")
def found():
    return wolf.backtest(MODEL, YS, horizon=3, step=20)


@pytest.mark.parametrize("row", [0, -1])
def test_forecasts_are_those_of_separate_runs(found, row):
    ahead = wolf.forecast(wolf.filter(MODEL, YS[: found.origins[row]]), 3)
    np.testing.assert_array_equal(found.mean[row], ahead.obs_means)
    np.testing.assert_allclose(found.upper[row], ahead.upper, rtol=1e-14)


def test_scores_have_their_definitions(found):
    actual = np.stack([YS[origin : origin + 3] for origin in found.origins])[..., None]
    np.testing.assert_array_equal(found.actual, actual)
    errors = actual - found.mean
    assert found.mae == pytest.approx(np.abs(errors).mean())
    assert found.rmse == pytest.approx(np.sqrt((errors**2).mean()))
    below, above = np.maximum(found.lower - actual, 0), np.maximum(actual - found.upper, 0)
    assert found.interval_score == pytest.approx((found.upper - found.lower + 40 * (below + above)).mean())
    assert found.coverage == pytest.approx(((found.lower <= actual) & (actual <= found.upper)).mean())
    assert found.by_horizon()[2].mae == pytest.approx(np.abs(errors[:, 1]).mean())
    assert found.scores.naive_mae == pytest.approx(np.mean([np.abs(YS[o : o + 3] - YS[o - 1]) for o in found.origins]))


def test_the_future_is_not_used(found):
    changed = YS.copy()
    changed[found.origins[0] :] += 100.0
    assert wolf.backtest(MODEL, changed, horizon=3, step=60).mean[0] == pytest.approx(found.mean[0])


def test_functions_are_called_again_and_reported():
    sizes, reports = [], []

    def fit(ys):
        sizes.append(len(ys))
        return MODEL

    found = wolf.backtest(
        fit, YS, horizon=2, step=10, refit=4, progress=lambda done, total: reports.append((done, total))
    )
    assert sizes == [60, 100]
    assert reports[-1] == (len(found.origins), len(found.origins))
    assert found.fits == 2


def test_many_series_dates_and_missing_values_have_their_rows():
    dated = pandas.Series(YS, pandas.date_range("2024-01-01", periods=120, freq="h"))
    dated.iloc[80] = np.nan
    found = wolf.backtest(MODEL, {"a": dated, "b": dated[:90]}, horizon=3, step=20)
    frame = found.to_frame()
    assert frame["series"].value_counts().to_dict() == {"a": 9, "b": 9}
    assert frame["time"].iloc[0] == dated.index[60]
    assert found.scores.count == 18 - frame["actual"].isna().sum()
    assert set(found.by_series()) == {"a", "b"}
    assert "coverage" in str(found)


def test_exogenous_variables_are_those_of_the_future():
    x = np.random.default_rng(0).normal(size=120)
    ys = YS + 5 * x
    plain = wolf.backtest(MODEL, ys, horizon=3, step=20)

    def fit(ys, exog):
        return wolf.models.with_exogenous(MODEL, exog)

    found = wolf.backtest(fit, ys, horizon=3, step=20, exog=x)
    assert found.rmse < 0.5 * plain.rmse


def test_arguments_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="has no origin after step 118"):
        wolf.backtest(MODEL, YS, horizon=3, start=118)
    with pytest.raises(ValueError, match="model must be a model, or a function such as"):
        wolf.backtest("local-level", YS)
    with pytest.raises(ValueError, match="must return a model, a Choice or a Fit"):
        wolf.backtest(lambda ys: 3.0, YS)
