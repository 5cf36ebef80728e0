"""Figures contain the given data, and have no side effects."""

import io
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

import wolf
import wolf.plots
from wolf.plots import style
from wolf.plots.tracking import Track, busiest, comparison


@pytest.fixture(scope="module")
def level():
    """A level with a spike far above, one far below, an infinite value, a mild outlier and a gap."""
    model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
    data = wolf.simulate.trajectory(model, 60, key=0, initial=np.zeros(1))
    ys = data.measurements[:, 0].copy()
    ys[[10, 20, 25]] = 1e3, -1e6, np.inf
    ys[40:45] = np.nan
    return model, data.states, ys, wolf.filter(model, ys)


@pytest.fixture(scope="module")
def tracks():
    model = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
    data = wolf.simulate.trajectory(model, 300, key=2, outliers=wolf.simulate.StudentT(dof=2.01))
    ys = data.measurements.copy()
    ys[100] = 1e5
    return data.states, ys, wolf.filter(model, ys, method="KF"), wolf.filter(model, ys)


def points(ax, label):
    return next(c for c in ax.collections if c.get_label() == label).get_offsets()


def line(ax, label):
    return next(artist for artist in ax.lines if artist.get_label() == label)


def test_series_draws_the_estimate_and_its_band(level):
    out = level[3]
    figure = wolf.plots.series(out)
    assert isinstance(figure, Figure)
    (ax,) = figure.axes
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), out.means[:, 0])
    corners = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert corners.max() == pytest.approx((out.means[:, 0] + 2 * np.sqrt(out.covs[:, 0, 0])).max())


def test_series_marks_measurements_outliers_and_missing(level):
    _, truth, ys, out = level
    (ax,) = wolf.plots.series(out, ys, truth).axes
    np.testing.assert_array_equal(line(ax, "truth").get_ydata(), truth[:, 0])
    assert len(points(ax, "missing")) == 5
    assert len(points(ax, "measurement")) == (~out.outliers & ~np.isnan(ys)).sum()


def test_one_wild_value_does_not_set_the_scale(level):
    _, truth, ys, out = level
    (ax,) = wolf.plots.series(out, ys, truth).axes
    assert max(np.abs(ax.get_ylim())) < 20
    assert ax.get_title(loc="right") == "3 measurements beyond the axes"


def test_series_of_a_slice_takes_its_own_times(level):
    _, truth, ys, out = level
    (ax,) = wolf.plots.series(out[5:15], ys[5:15], truth[5:15], times=np.arange(5, 15)).axes
    np.testing.assert_array_equal(ax.lines[-1].get_xdata(), np.arange(5, 15))


def test_series_draws_a_smoothed_result_and_a_masked_array(level):
    model, _, ys, out = level
    (ax,) = wolf.plots.series(wolf.smooth(model, out), np.ma.masked_invalid(ys)).axes
    assert len(points(ax, "missing")) == 6  # the infinite value is masked as well


def test_series_draws_on_given_axes_and_leaves_their_style(level):
    figure = Figure()
    ax = figure.add_subplot()
    assert wolf.plots.series(level[3], level[2], ax=ax) is figure
    assert ax.spines["top"].get_visible()


def test_series_finds_the_measurement_of_a_state(tracks):
    _, ys, kalman, _ = tracks
    (ax,) = wolf.plots.series(kalman, ys, coordinate=1).axes
    np.testing.assert_array_equal(points(ax, "measurement")[:, 1], ys[:, 1])


def test_series_shows_outliers_coordinate_by_coordinate():
    model = wolf.LinearModel(F=[[1]], H=[[1], [1]], Q=[[0.1]], R=np.eye(2), mean=[0], cov=[[1]])
    ys = np.zeros((20, 2))
    ys[5, 1] = 100.0
    out = wolf.filter(model, ys, method="WoLF-PerCoordinate")
    (ax,) = wolf.plots.series(out, ys).axes
    assert len(points(ax, "measurement")) == 20


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"coordinate": 1}, "between 0 and 0"),
        ({"ys": np.zeros(3)}, "ys must have 60 rows"),
        ({"truth": np.zeros(3)}, "truth must have 60 rows"),
        ({"out": np.zeros(3)}, "wolf.filter"),
    ],
)
def test_invalid_series_arguments_raise(level, change, words):
    with pytest.raises(ValueError, match=words):
        wolf.plots.series(**({"out": level[3]} | change))


def test_series_of_a_state_that_nothing_reads_asks_for_its_values(tracks):
    _, ys, kalman, _ = tracks
    with pytest.raises(ValueError, match="no measurement reads state 2"):
        wolf.plots.series(kalman, ys, coordinate=2)
    assert wolf.plots.series(kalman, ys[:, 0], coordinate=2)


def test_many_series_must_be_picked_first(level):
    model, _, ys, _ = level
    many = wolf.filter_many(model, np.stack([ys, ys]))
    with pytest.raises(ValueError, match="pick one"):
        wolf.plots.series(many)
    assert wolf.plots.series(many[1])


def test_paths_draws_truth_estimates_and_crosses(tracks):
    truth, ys, kalman, robust = tracks
    (ax,) = wolf.plots.paths({"KF": kalman, "WoLF": robust}, ys, truth).axes
    np.testing.assert_array_equal(line(ax, "WoLF").get_xydata(), robust.means[:, :2])
    np.testing.assert_array_equal(line(ax, "truth").get_xydata(), truth[:, :2])
    assert len(points(ax, "outlier")) == robust.outliers.sum() - 1  # one is far beyond any map
    assert line(ax, "KF").get_color() == style.KALMAN
    assert line(ax, "WoLF").get_color() == style.ROBUST


def test_paths_frames_the_truth_at_equal_scales_and_counts_the_rest(tracks):
    truth, ys, _, robust = tracks
    figure = wolf.plots.paths(robust, ys, truth)
    (ax,) = figure.axes
    figure.draw_without_rendering()
    box = ax.get_window_extent()
    assert np.ptp(ax.get_xlim()) / box.width == pytest.approx(np.ptp(ax.get_ylim()) / box.height, rel=0.02)
    low, high = np.transpose([ax.get_xlim(), ax.get_ylim()])
    assert ((truth[:, :2] > low) & (truth[:, :2] < high)).all()
    outside = ((ys < low) | (ys > high)).any(axis=1).sum()
    assert ax.get_title(loc="right").startswith(f"{outside} measurement")


def test_absurd_values_draw_without_a_warning(tracks):
    truth, ys, kalman, robust = tracks
    absurd = ys.copy()
    absurd[[3, 5, 7]] = [[1e300, 0.0], [np.inf, -np.inf], [np.nan, np.nan]]
    for figure in (wolf.plots.paths(robust, absurd, truth), wolf.plots.series(kalman, absurd, truth)):
        figure.savefig(io.BytesIO())


def test_paths_wants_two_measured_coordinates(tracks):
    with pytest.raises(ValueError, match=r"\(300, 2\)"):
        wolf.plots.paths(tracks[3], tracks[1][:, 0])


def test_comparison_has_a_map_errors_and_weights_for_each_run(tracks):
    truth, ys, kalman, robust = tracks
    track = Track("heavy tails", truth, ys, robust.outliers, kalman, robust)
    figure = comparison([track, track], "heading", "remark", noise_sd=3.0)
    (*_, body) = figure.subfigs
    assert len(body.axes) == 6
    weights = body.axes[-1]
    shown = np.concatenate([c.get_offsets() for c in weights.collections[1:]])
    assert set(shown[:, 1]) <= set(robust.weights)


def test_busiest_stretch_of_a_short_run_is_all_of_it():
    assert busiest(np.zeros(4, bool), 10) == slice(0, 4)


def test_limits_of_nothing_finite_are_a_plain_range():
    assert style.limits([np.nan, np.inf]) == (-1.0, 1.0)
    low, high = style.limits([5.0, 5.0])
    assert low < 5.0 < high


def test_settings_of_matplotlib_are_left_alone(level, tracks):
    before = dict(matplotlib.rcParams)
    wolf.plots.series(level[3], level[2])
    wolf.plots.paths(tracks[3])
    assert dict(matplotlib.rcParams) == before


def test_importing_plots_does_not_import_matplotlib():
    code = "import sys, wolf.plots, wolf.cli; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_matplotlib_the_error_names_the_extra(level, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError, match="Figures need matplotlib: pip install matplotlib"):
        wolf.plots.series(level[3])
