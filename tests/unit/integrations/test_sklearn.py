"""The transformers pass the conformance suites of the libraries that they are for."""

import numpy as np
import pandas as pd
import pytest

import wolf

pytest.importorskip("sklearn", reason="RobustLevel needs scikit-learn")
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from wolf.integrations.sklearn import RobustLevel, RobustOutlierDetector

IN_TIME = "rows are steps in time: what a row becomes depends on those before it"
NONE = "blobs in random order are noise in time: as a series they hold no outlier to find"
EXPECTED = {"check_methods_sample_order_invariance": IN_TIME, "check_methods_subset_invariance": IN_TIME}
EXPECTED |= {"check_outliers_fit_predict": NONE, "check_outliers_train": NONE}


@pytest.mark.slow
@parametrize_with_checks([RobustLevel(), RobustOutlierDetector()], expected_failed_checks=lambda estimator: EXPECTED)
def test_scikit_learn_conformance(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def readings():
    rng = np.random.default_rng(1)
    ys = np.cumsum(0.2 * rng.normal(size=(200, 2)), axis=0) + rng.normal(size=(200, 2))
    ys[[40, 90], 0] = [70.0, -80.0]
    ys[10, 1] = np.nan
    return ys


def test_level_is_what_filter_frame_gives(readings):
    fitted = RobustLevel().fit(readings[:, :1])
    known = {"model": fitted.models_[0], "parameters": fitted.parameters_[0]}
    frame = wolf.filter_frame(pd.DataFrame({"a": readings[:, 0]}), causal=True, **known)
    np.testing.assert_allclose(fitted.transform(readings[:, :1])[:, 0], frame["mean"], rtol=1e-9)


def test_times_come_from_the_index(readings):
    hours = np.cumsum(np.random.default_rng(2).choice([1, 1, 1, 6], 200))
    stamped = pd.DataFrame({"a": readings[:, 0]}, index=pd.Timestamp("2026-01-01") + pd.to_timedelta(hours, "h"))
    fitted = RobustLevel("local-level", times="index").fit(stamped)
    frame = wolf.filter_frame(
        stamped.rename_axis("t").reset_index(),
        values="a",
        time="t",
        model="local-level",
        causal=True,
        parameters=fitted.parameters_[0],
    )
    found = fitted.transform(stamped)[:, 0]
    np.testing.assert_allclose(found, frame["mean"], rtol=1e-9)
    even = RobustLevel("local-level").fit(stamped).transform(stamped)[:, 0]
    assert np.abs(found - even).max() > 0.01
    with pytest.raises(ValueError, match="nondecreasing times"):
        fitted.transform(stamped[::-1])
    with pytest.raises(ValueError, match="needs a pandas frame"):
        RobustLevel(times="index").fit(stamped.to_numpy())
    with pytest.raises(ValueError, match="times must be 'index'"):
        RobustLevel(times="a").fit(stamped)


def test_repaired_readings_differ_only_where_they_were_refused_or_missing(readings):
    cleaned = RobustLevel(output="cleaned", smooth=True).fit_transform(readings)
    changed = cleaned != readings
    assert changed[[40, 90], 0].all()
    assert changed[10, 1]
    assert changed.sum() < 20
    assert np.isfinite(cleaned).all()


def test_noise_comes_from_fit_and_is_used_in_transform(readings):
    fitted = RobustLevel().fit(readings)
    again = fitted.transform(readings[:100])
    np.testing.assert_allclose(again, fitted.transform(readings)[:100], rtol=0.2, atol=0.3)
    assert fitted.parameters_[0]["obs_var"] == pytest.approx(1.0, rel=0.5)


def test_it_works_in_a_pipeline_and_keeps_names(readings):
    frame = pd.DataFrame(readings, columns=["a", "b"])
    pipeline = make_pipeline(RobustLevel(), StandardScaler()).set_output(transform="pandas")
    assert list(pipeline.fit_transform(frame)) == ["a", "b"]


def test_wrong_output_raises(readings):
    with pytest.raises(ValueError, match="level"):
        RobustLevel(output="x").fit(readings)


def test_the_detector_finds_what_filter_frame_flags(readings):
    found = RobustOutlierDetector().fit(readings)
    verdict = found.fit_predict(readings)
    assert set(verdict) == {-1, 1}
    flags = [
        wolf.filter_frame(pd.Series(column), parameters=parameters)["outlier"]
        for column, parameters in zip(readings.T, found.parameters_, strict=True)
    ]
    np.testing.assert_array_equal(verdict == -1, np.any(flags, axis=0))
    assert (verdict[[40, 90]] == -1).all()
    assert verdict[10] == 1  # missing in one column, good in the other
    scores, margin = found.score_samples(readings), found.decision_function(readings)
    np.testing.assert_array_equal(verdict == -1, margin < 0)
    assert set(np.argsort(scores)[:2]) == {40, 90}


def test_the_share_of_outliers_can_be_asked_for(readings):
    half = RobustOutlierDetector(contamination=0.1).fit(readings)
    assert (half.predict(readings) == -1).sum() == 20
    for share in (0.0, 0.6, "some"):
        with pytest.raises(ValueError, match="contamination must be 'auto' or a share"):
            RobustOutlierDetector(contamination=share).fit(readings)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # sktime's own, about its next version
@pytest.mark.parametrize("name", ["RobustLevelTransformer", "RobustForecaster", "RobustDetector"])
def test_sktime_conformance(name):
    pytest.importorskip("sktime", reason="sktime is not installed: its conformance suite runs where it is")
    from sktime.utils.estimator_checks import check_estimator

    import wolf.integrations.sktime as ours

    results = check_estimator(getattr(ours, name), raise_exceptions=False)
    failed = {test: result for test, result in results.items() if result != "PASSED"}
    assert failed == {}
