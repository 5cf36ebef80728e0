"""Results with named axes, for xarray."""

import numpy as np
import pandas
import pytest

import wolf

xarray = pytest.importorskip("xarray")
TRACK = wolf.models.constant_velocity(dims=2, dt=1.0, dynamics_var=0.1, obs_var=10.0)
YS = np.random.default_rng(0).normal(size=(3, 12, 2))


def test_axes_have_names_and_numbers_are_those_of_the_result():
    stamps = pandas.date_range("2024-05-01", periods=12, freq="min")
    out = wolf.filter(TRACK, pandas.DataFrame(YS[0], index=stamps))
    data = out.to_xarray()
    assert isinstance(data, xarray.Dataset)
    assert data["means"].dims == ("step", "state")
    assert data["covs"].dims == ("step", "state", "other_state")
    assert data["innovation_covs"].dims == ("step", "coordinate", "other_coordinate")
    assert data["weights"].dims == ("step",)
    for name, array in (out.saved | {"ys": out.ys}).items():
        np.testing.assert_array_equal(data[name], array)
    late = data.sel(step=slice("2024-05-01T00:10", None))
    np.testing.assert_array_equal(late["means"], out.means[10:])
    smoothed = wolf.smooth(out).to_xarray()
    np.testing.assert_array_equal(smoothed["covs"].sel(step=stamps[3]), wolf.smooth(out).covs[3])


def test_many_series_have_an_axis_and_their_lengths():
    out = wolf.filter_many(TRACK, [YS[0], YS[1][:5]])
    data = out.to_xarray()
    assert data["means"].dims == ("series", "step", "state")
    assert data["length"].values.tolist() == [12, 5]
    assert wolf.smooth(out).to_xarray()["means"].dims == ("series", "step", "state")


def test_what_has_no_arrays_is_refused():
    out = wolf.filter(TRACK, YS[0], save=lambda state, info: state.mean)
    with pytest.raises(ValueError, match=r"to_xarray needs arrays by name: filter with save=\"all\""):
        out.to_xarray()
