"""Names of states and measurements, and components: they reach frames, texts and figures, and add up to the signal."""

import numpy as np
import pandas
import pytest

import wolf

STEPS = 36
PARTS = (wolf.models.trend(0.1, 0.01), wolf.models.seasonal(4, 0.05), wolf.models.regression(np.arange(STEPS) % 5.0))
MODEL = wolf.models.structural(*PARTS, obs_var=1.0)
TRACK = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
DATES = pandas.date_range("2024-03-01", periods=STEPS, freq="D")
YS = pandas.Series(np.random.default_rng(1).normal(size=STEPS).cumsum(), DATES, name="demand")
YS.iloc[20] = 80.0


@pytest.fixture(scope="module")
def out():
    return wolf.filter(MODEL, YS)


def test_components_have_names_and_add_up_to_the_signal(out):
    found = out.components()
    assert list(found) == ["level", "seasonal_4", "regression[0]"]
    signal = np.sum(out.means * MODEL.H[:, 0], axis=1)
    np.testing.assert_allclose(sum(part.mean for part in found.values()), signal, rtol=0, atol=1e-12)


def test_variance_of_a_component_is_that_of_its_states(out):
    rows, states = np.zeros((STEPS, 6)), [2, 3, 4]
    rows[:, states] = MODEL.H[:, 0, states]
    variance = np.einsum("ti,tij,tj->t", rows, out.covs, rows)
    np.testing.assert_allclose(out.component("seasonal").sd, np.sqrt(variance))


def test_a_component_is_found_by_its_name_its_start_or_a_state(out):
    names = [out.component(name).name for name in ("seasonal_4", "seasonal", "seasonal_4[1]", "slope")]
    assert names == ["seasonal_4", "seasonal_4", "seasonal_4[1]", "slope"]
    np.testing.assert_array_equal(out.component("slope").mean, out.means[:, 1])
    with pytest.raises(
        ValueError, match="no component or state is called 'sesonal'; there are level, slope, seasonal_4"
    ):
        out.component("sesonal")


def test_smoothed_components_are_those_of_the_smoothed_means(out):
    smoothed = wolf.smooth(out)
    np.testing.assert_array_equal(smoothed.component("level").mean, smoothed.means[:, 0])
    assert smoothed.components().to_frame().index.equals(DATES)


def test_names_and_dates_reach_frames_texts_figures_and_datasets(out):
    assert {"mean_slope", "upper_seasonal_4[2]", "residual"} <= set(out.to_frame())
    assert "final state: level " in str(out)
    assert out.to_xarray().means.sel(state="slope").shape == (STEPS,)
    assert out.plot("slope").axes[0].get_ylabel() == "slope"
    labels = [ax.get_ylabel() for ax in out.plot_components().axes]
    assert labels == ["demand", "level", "seasonal_4", "regression[0]"]
    assert "2024-03-21 " in str(wolf.explain(out))
    assert wolf.explain(out).to_frame()["time"].tolist() == [DATES[20]]


def test_columns_of_a_frame_name_the_measurements():
    frame = pandas.DataFrame(np.random.default_rng(2).normal(size=(STEPS, 2)), DATES, ["east", "north"])
    out = wolf.filter(TRACK, frame)
    assert out.obs_names == ("east", "north")
    assert {"mean_px", "sd_vy", "residual_north"} <= set(out.to_frame())
    assert out.component("px").mean.shape == (STEPS,)
    assert wolf.forecast(out, 2).to_frame().columns[1] == "mean_east"


def test_names_of_your_own_and_names_that_do_not_fit():
    model = wolf.LinearModel(
        np.eye(2), np.ones((1, 2)), np.eye(2), np.eye(1), [0, 0], np.eye(2), state_names=["a", "b"]
    )
    assert "mean_b" in wolf.filter(model, YS).to_frame()
    with pytest.raises(ValueError, match="state_names must be 2 texts"):
        wolf.LinearModel(None, np.ones((1, 2)), np.eye(2), np.eye(1), [0, 0], np.eye(2), state_names=["a"])
    with pytest.raises(ValueError, match="different from each other"):
        wolf.LinearModel(None, np.ones((1, 2)), np.eye(2), np.eye(1), [0, 0], np.eye(2), state_names=["a", "a"])


def test_names_are_no_part_of_the_compiled_program():
    import dataclasses

    import jax

    other = dataclasses.replace(TRACK, state_names=["a", "b", "c", "d"])
    assert jax.tree.structure(other) == jax.tree.structure(TRACK)
    assert other == TRACK
