"""Results: what a person can read, slice and pick."""

import copy
import dataclasses
import pickle
from html.parser import HTMLParser

import jax
import numpy as np
import pandas
import pytest

import wolf
from wolf.diagnostics.certificate.certificate import CertificateEntry
from wolf.results import ARRAYS

YS = 10 * np.random.default_rng(1).standard_t(2, (3, 30, 2))
YS[:, 4], YS[0, 6, 1], YS[1, 8] = np.nan, np.nan, 1e6
TRACK = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
LEVEL = wolf.models.local_level(0.1, 1.0)


@pytest.fixture(scope="module")
def one():
    return wolf.filter(TRACK, YS[0])


@pytest.fixture(scope="module")
def many():
    return wolf.filter_many(TRACK, YS)


def test_arrays_have_the_stated_shapes():
    every = wolf.filter(TRACK, YS[0], method="Adaptive")
    d, m = (4,), (2,)
    shapes = [d, d * 2, d, d, d * 2, m, m * 2, *[()] * 9, m]
    assert [getattr(every, name).shape[1:] for name in ARRAYS] == shapes
    assert {len(getattr(every, name)) for name in ARRAYS} == {len(every)} == {30}


def test_what_a_method_does_not_tell_is_said_by_name():
    weighted = wolf.filter(TRACK, YS[0], method="WoLF")
    with pytest.raises(AttributeError, match="has no outlier_probabilities; it keeps"):
        _ = weighted.outlier_probabilities
    with pytest.raises(ValueError, match="learns nothing about the noise"):
        _ = weighted.learned_noise


def test_weights_of_coordinates_have_their_own_column():
    out = wolf.filter(TRACK, YS[0], method="WoLF-PerCoordinate")
    assert out.weights.shape == out.outliers.shape == (30, 2)


@pytest.mark.parametrize(("distance", "flagged"), [(0.97, False), (1.03, True)])
def test_an_outlier_is_what_is_believed_to_less_than_half(distance, flagged):
    """An IMQ believes a measurement at the distance c to the power one half."""
    level = wolf.models.local_level(level_var=0.1, obs_var=4.0)
    weight = wolf.MahalanobisIMQ(c=3.0, metric="R")
    out = wolf.filter(level, [[level.mean[0] + 2.0 * 3.0 * distance]], method=wolf.WoLF(weight))
    assert out.outliers[0] == flagged
    assert out.weights[0] ** 2 == pytest.approx(1 / (1 + distance**2))


def test_missing_values_show_as_nan_and_wild_ones_as_outliers(one):
    assert np.isnan(one.residuals[4]).all()
    assert np.isnan(one.nis[4])
    np.testing.assert_array_equal(np.isnan(one.residuals[6]), [False, True])
    assert one.missing == 3
    assert one.weights[4] == 0
    assert not one.outliers[4]
    wild = YS[0].copy()
    wild[2] = np.inf
    out = wolf.filter(TRACK, wild)
    assert out.outliers[2]
    assert out.nis[2] == np.inf


def test_log_likelihoods_add_up(one, many):
    assert isinstance(one.log_likelihood, float)
    assert one.log_likelihood == pytest.approx(one.log_liks.sum())
    assert one.weighted_log_likelihood == pytest.approx(one.weighted_log_liks.sum())
    assert many.log_likelihood.shape == (3,)
    assert many.log_likelihood[0] == pytest.approx(one.log_likelihood)
    np.testing.assert_allclose(many.weighted_log_likelihood, many.weighted_log_liks.sum(1))


def test_slices_cut_every_array(one):
    part = one[10:20]
    assert len(part) == 10
    for name in one.saved:
        np.testing.assert_array_equal(getattr(part, name), getattr(one, name)[10:20])
    assert "10 steps" in repr(part)
    assert len(one[::3]) == 10
    assert one[2:8].missing == 3


def test_picking_one_of_many_series_is_that_series(many, one):
    picked = many[0]
    assert len(many) == 3
    assert len(picked) == 30
    for name in one.saved:
        np.testing.assert_allclose(getattr(picked, name), getattr(one, name), rtol=1e-9, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(picked.final.mean, one.final.mean, rtol=1e-9)
    assert picked.missing == one.missing
    assert [series.missing for series in many] == [3, 2, 2]
    np.testing.assert_array_equal(many[-1].means, many[2].means)


def test_picked_series_smooths_and_forecasts_like_one(many, one):
    np.testing.assert_allclose(wolf.smooth(TRACK, many[0]).means, wolf.smooth(TRACK, one).means, rtol=1e-8, atol=1e-8)
    ahead, expected = (wolf.forecast(TRACK, out, 4) for out in (many[0], one))
    np.testing.assert_allclose(ahead.obs_means, expected.obs_means, rtol=1e-8, atol=1e-8)


def test_picking_past_the_end_is_an_index_error(many):
    with pytest.raises(IndexError):
        many[3]


@pytest.mark.parametrize("index", [3, "means", (1, 2)])
def test_one_series_is_sliced_not_indexed(index, one):
    with pytest.raises(TypeError, match=r"slice in time, as out\[100:200\]; got"):
        one[index]


@pytest.mark.parametrize("index", [slice(0, 2), "a"])
def test_many_series_are_picked_by_number(index, many):
    with pytest.raises(TypeError, match=r"pick one series by its number, as out\[0\]; got"):
        many[index]


def test_one_series_is_not_a_sequence(one):
    with pytest.raises(TypeError, match=r"one series is not a sequence; its arrays are, as out\.means"):
        list(one)


def test_repr_tells_outliers_missing_numbers_and_the_end(one, many):
    text = repr(one)
    assert "30 steps" in text
    assert f"{one.outliers.sum()} outlier" in text
    assert " of 30, 3 missing numbers" in text
    assert "method Adaptive" in text
    assert f"{one.log_likelihood:.6g}" in text
    assert f"final state: px {one.means[-1, 0]:.4g} ±" in text
    assert "3 series x 30 steps" in repr(many)
    assert "7 missing numbers" in repr(many)


@pytest.mark.parametrize("name", ["Adaptive", "Learned", "KF", "WoLF", "RSTKF", "IMM"])
def test_a_method_keeps_its_name_where_it_takes_roots_by_itself(name):
    vague = wolf.LinearModel(TRACK.F, TRACK.H, TRACK.Q, TRACK.R, np.zeros(4), 1e11 * np.eye(4))
    assert repr(wolf.filter(vague, YS[0], method=name)).splitlines()[0].endswith(f", method {name}")


@pytest.mark.parametrize(
    ("method", "written"),
    [
        (wolf.Adaptive(patience=8), "Adaptive(patience=8)"),
        (wolf.Adaptive(q_uncertainty=0, sensors=(0, 1)), "Adaptive(q_uncertainty=0, sensors=(0, 1))"),
        (wolf.Adaptive(form="symmetric", iterations=2), "Adaptive(form='symmetric', iterations=2)"),
        (wolf.methods.Learned("factor 10", sensors="each"), "Learned(r_uncertainty=1, sensors='each')"),
        (wolf.TruncatedFilter(wolf.Adaptive(patience=8), lower=-1e6), "TruncatedFilter with Adaptive(patience=8)"),
        (wolf.WoLF(wolf.IMQ(c=3.0)), "GaussianFilter with IMQ(c=3.0)"),
    ],
)
def test_options_of_a_method_are_written_with_its_name(method, written):
    assert repr(wolf.filter(TRACK, YS[0], method=method)).splitlines()[0].endswith(f", method {written}")


def test_a_rule_that_no_maker_makes_is_written_out():
    rule = dataclasses.replace(wolf.Adaptive().noise.base, forgetting=0.9)
    method = dataclasses.replace(wolf.Adaptive(), noise=dataclasses.replace(wolf.Adaptive().noise, base=rule))
    assert "forgetting=0.9" in repr(wolf.filter(TRACK, YS[0], method=method)).splitlines()[0]


def test_repr_of_one_thing_is_singular():
    level = wolf.models.local_level(level_var=0.1, obs_var=1.0)
    out = wolf.filter(level, [1e9], method="WoLF")
    assert "Filtered: 1 step, " in repr(out)
    assert "1 outlier of 1, 0 missing numbers" in repr(out)
    assert "0 outliers of 1, 1 missing number" in repr(wolf.filter(level, [np.nan], method="WoLF")).replace("\n", " ")
    assert repr(wolf.forecast(out, 1)).startswith("Forecast: 1 step, ")
    online = wolf.Online(level)
    online.step(1.0)
    assert "1 measurement, " in repr(online)


@pytest.mark.parametrize("save", ["means", "final"])
def test_what_was_not_kept_is_named_with_the_way_to_keep_it(save):
    out = wolf.filter(TRACK, YS[0], save=save)
    with pytest.raises(AttributeError, match=f"covs was not kept: the run had save='{save}'; use save=\"all\""):
        out.covs
    assert f"saved: {', '.join(out.saved)}" in repr(out)
    assert np.isfinite(out.log_likelihood)


def test_arrays_are_declared_and_known_to_hasattr(one):
    assert set(ARRAYS) <= set(dir(one))
    assert all(isinstance(vars(wolf.Filtered)[name], property) for name in ARRAYS)
    short = wolf.filter(TRACK, YS[0], save="means")
    assert hasattr(short, "means")
    assert not hasattr(short, "covs")
    assert not hasattr(one, "mean")
    with pytest.raises(AttributeError):
        one.means = one.covs


def test_measurements_are_kept_sliced_and_picked(one, many):
    assert one.ys is YS[0] or np.shares_memory(one.ys, YS)
    np.testing.assert_array_equal(one[10:20].ys, YS[0, 10:20])
    np.testing.assert_array_equal(one[::3].ys, YS[0, ::3])
    np.testing.assert_array_equal(many[2].ys, YS[2])
    ragged = wolf.filter_many(TRACK, [YS[0], YS[1, :20]])
    np.testing.assert_array_equal(ragged[1].ys, YS[1, :20])
    level = wolf.models.local_level(level_var=0.1, obs_var=1.0)
    masked = np.ma.masked_greater(np.float32([1.0, 2.0, 9.0]), 5.0)
    ys = wolf.filter(level, masked, dtype="float32").ys
    assert ys.dtype == np.float64
    np.testing.assert_array_equal(ys, [[1.0], [2.0], [np.nan]])
    parts = [part.ys for part in wolf.filter_chunks(TRACK, np.split(YS[0], 3), save="final")]
    np.testing.assert_array_equal(np.concatenate(parts), YS[0])


@pytest.mark.parametrize("save", ["means", "final"])
def test_slices_count_their_own_missing_numbers_whatever_was_kept(save):
    assert wolf.filter(TRACK, YS[0], save=save)[5:8].missing == 1


def test_looking_back_and_ahead_needs_no_model(one, many):
    other = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.2, obs_var=10.0)
    each = wolf.filter_many([TRACK, other], YS[:2])
    for out, model in ((one, TRACK), (many, TRACK), (each, [TRACK, other])):
        np.testing.assert_array_equal(wolf.smooth(out).means, wolf.smooth(model, out).means)
        expected = wolf.forecast(model, out, 3).upper
        for ahead in (wolf.forecast(out, 3), wolf.forecast(out, steps=3), wolf.forecast(out=out, steps=3)):
            np.testing.assert_array_equal(ahead.upper, expected)
    expected = wolf.sample_paths(TRACK, one, 2, 0)
    np.testing.assert_array_equal(wolf.sample_paths(one, 2, 0), expected)
    np.testing.assert_array_equal(wolf.sample_paths(model=TRACK, out=one, num=2, key=0), expected)
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1; got 'ten'"):
        wolf.forecast(one, steps="ten")
    with pytest.raises(ValueError, match=r"smooth takes what wolf\.filter returned; got int"):
        wolf.smooth(TRACK, 3)


def test_results_can_be_copied_and_pickled(one):
    info = wolf.Online(TRACK).step(YS[0, 0])
    for again in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one), copy.copy(one)):
        np.testing.assert_array_equal(again.covs, one.covs)
        np.testing.assert_array_equal(again.ys, one.ys)
    for again in (pickle.loads(pickle.dumps(info)), copy.deepcopy(info), copy.copy(info)):
        assert again == info
    assert repr(pickle.loads(pickle.dumps(wolf.forecast(one, 2)))).startswith("Forecast: 2 steps")


def test_own_save_function_decides_what_is_kept():
    def save(state, info):
        return {"level": state.mean[0], "trace": state.cov.trace()}

    out = wolf.filter(TRACK, YS[0], save=save)
    assert out.saved["level"].shape == (30,)
    assert out[5:10].saved["trace"].shape == (5,)
    assert len(out) == 30
    assert "saved: the values of your save function, in .saved" in repr(out)
    with pytest.raises(AttributeError, match="means was not kept: the run had save='save'"):
        out.means


def test_settings_say_how_the_run_was_made(one):
    assert one.settings["steps"] == 30
    assert one.settings["dtype"] == "float64"
    assert one.settings["save"] == "all"
    assert one.settings["jax"] == jax.__version__
    assert one.settings["wolf"] == wolf.__version__
    assert one.settings["python"].count(".") == 2
    assert "AdaptiveNoiseScales" in one.settings["method"]


def test_final_state_is_the_last_row(one, many):
    np.testing.assert_array_equal(one.final.mean, one.means[-1])
    np.testing.assert_array_equal(one.final.cov, one.covs[-1])
    assert one.final.t == 30
    np.testing.assert_array_equal(many.final.mean, many.means[:, -1])


def test_results_are_values_that_nobody_changes(one):
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.saved = {}


def test_smoothed_and_forecast_tell_their_size(one):
    assert repr(wolf.smooth(TRACK, one)) == "Smoothed: means (30, 4), covs (30, 4, 4)"
    assert repr(wolf.forecast(TRACK, one, 5, level=0.8)) == "Forecast: 5 steps, 80% intervals in .lower and .upper"


def test_forecast_intervals_are_gaussian_and_widen(one):
    ahead = wolf.forecast(TRACK, one, 10, level=0.95)
    deviations = np.sqrt(np.einsum("tii->ti", ahead.obs_covs))
    np.testing.assert_allclose(ahead.upper - ahead.obs_means, 1.959963984540054 * deviations, rtol=1e-12)
    np.testing.assert_allclose(ahead.obs_means - ahead.lower, ahead.upper - ahead.obs_means, rtol=1e-9)
    assert (np.diff(deviations, axis=0) > 0).all()


MODELS = {
    "level": wolf.models.local_level(0.1, 1.0),
    "velocity": TRACK,
    "season": wolf.models.make("seasonal:4", level_var=0.1, seasonal_var=0.1, obs_var=1.0),
    "waves": wolf.models.make("trend+seasonal:8:2", level_var=0.1, slope_var=0.0, seasonal_var=0.1, obs_var=1.0),
    "cycle": wolf.models.make("cycle:9", level_var=0.1, cycle_var=0.1, obs_var=1.0),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_are_pickled_with_how_they_move(name):
    model = MODELS[name]
    again = pickle.loads(pickle.dumps(model))
    for mine, theirs in zip(model.over([1.0, 3.0]), again.over([1.0, 3.0]), strict=True):
        np.testing.assert_array_equal(mine, theirs)


class Loads(HTMLParser):
    """Collects the tags of a page, and what would be fetched."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.fetched = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.open.append(tag)
        self.fetched += [value for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_notebooks_show_a_table_and_a_picture_that_load_nothing(one, many):
    shown = Loads(one._repr_html_())
    assert {"svg", "table"} <= shown.tags
    assert shown.fetched == []
    assert shown.open == []
    assert "svg" not in Loads(many._repr_html_()).tags
    assert f"{one.outliers.sum()} outlier" in one._repr_html_()
    assert "svg" not in Loads(wolf.filter(TRACK, YS[0], save="final")._repr_html_()).tags
    assert Loads(wolf.filter(TRACK, YS[0][:1])._repr_html_()).open == []


def test_notebooks_show_what_was_smoothed_and_what_is_ahead(one, many):
    ahead = wolf.forecast(one, steps=3)
    for result in (wolf.smooth(one), ahead):
        shown = Loads(result._repr_html_())
        assert {"svg", "table"} <= shown.tags
        assert shown.open == shown.fetched == []
    assert f"{ahead.lower[2, 0]:.4g} to {ahead.upper[2, 0]:.4g}" in ahead._repr_html_()
    for result in (wolf.smooth(many), wolf.forecast(many, steps=3)):
        assert "svg" not in Loads(result._repr_html_()).tags


def test_notebooks_show_fits_and_certificates_escaped():
    level = wolf.models.local_level(0.1, 1.0)
    entry = CertificateEntry("influence", 1.5, "sd", "exact", "worst < 2 & bounded")
    certificate = wolf.Certificate({"influence": entry}, level, wolf.KF(), ("About <it>", "more"), ("left out",), {})
    text = certificate._repr_html_()
    assert "worst &lt; 2 &amp; bounded" in text
    assert "About &lt;it&gt;" in text
    assert Loads(text).open == []
    fit = wolf.Fit({"obs_var": 2.0}, {"obs_var": 0.5}, level, None, None, -10.0, 5, ())
    fit = dataclasses.replace(fit, starts=(wolf.fitting.result.Start(-10.0, True, 3, "", {}),))
    assert "<td style='text-align:left'>2 ± 0.5</td>" in fit._repr_html_()
    assert "obs_var   2 ± 0.5" in repr(fit)
    (ax,) = fit.plot().axes
    assert ax.get_lines()[0].get_xdata().tolist() == [1.0, 3.0]


def test_results_draw_themselves(one):
    pytest.importorskip("matplotlib")
    dated = wolf.filter(LEVEL, pandas.Series(YS[0][:, 0], index=pandas.date_range("2024", periods=30)))
    for out in (dated, wolf.smooth(dated)):
        ax = out.plot().axes[0]
        assert len(ax.collections[1].get_offsets()) > 5  # dots, at their dates
        assert ax.get_lines()[0].get_xdata()[0] == np.datetime64("2024-01-01")
    assert len(one.plot(coordinate=2).axes[0].collections) == 1  # nothing measures a velocity
    with pytest.raises(ValueError, match="coordinate"):
        one.plot(coordinate=9)


def test_a_forecast_is_drawn_after_the_last_measurements(one, many):
    pytest.importorskip("matplotlib")
    ahead = wolf.forecast(many, steps=3)
    with pytest.raises(ValueError, match=r"result\[0\]"):
        ahead.plot()
    (ax,) = ahead[1].plot(coordinate=1, past=10).axes
    past, future = ax.get_lines()
    np.testing.assert_allclose(future.get_ydata(), ahead.obs_means[1, :, 1])
    np.testing.assert_allclose(past.get_ydata(), many.means[1, -10:, 1])  # state 1 is what coordinate 1 measures
    assert future.get_xdata().tolist() == [30, 31, 32]
    with pytest.raises(ValueError, match="measurement must be a number between 0 and 1, or a name; got 2"):
        ahead[1].plot(coordinate=2)
    dated = wolf.filter(LEVEL, pandas.Series(YS[0][:, 0], index=pandas.date_range("2024", periods=30)), save="final")
    (ax,) = wolf.forecast(dated, steps=3).plot().axes
    assert ax.get_lines()[0].get_xdata()[0] == np.datetime64("2024-01-31")
    assert ax.get_xlabel() == "time"


def test_one_series_is_picked_of_many_that_were_smoothed_or_forecast(one, many):
    smoothed, ahead = wolf.smooth(many), wolf.forecast(many, steps=3)
    np.testing.assert_array_equal(smoothed[1].means, smoothed.means[1])
    assert smoothed[1].plot().axes
    np.testing.assert_array_equal(ahead[1].lower, ahead.lower[1])
    for result in (wolf.smooth(one), wolf.forecast(one, steps=3)):
        with pytest.raises(TypeError, match="one series"):
            result[0]
    with pytest.raises(TypeError, match="by its number"):
        ahead["a"]
