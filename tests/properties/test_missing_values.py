"""A missing coordinate changes nothing else; infinite and huge values are rejected, and reported."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests import oracle
from tests.oracle import assert_close
from tests.rows import rows

import wolf
from wolf.interfaces import NoiseModel
from wolf.numerics.pytree import cast

STEPS = 20
METHODS = {
    "KF": wolf.methods.KF(),
    "EKF": wolf.methods.EKF(),
    "IMQ": wolf.WoLF(wolf.IMQ(c=2.0)),
    "S metric": wolf.WoLF(),
    "symmetric": wolf.WoLF(form="symmetric"),
    "sqrt": wolf.WoLF(form="sqrt"),
    "Student-t": wolf.WoLF(wolf.StudentWeight(dof=3.0)),
    "per coordinate": wolf.WoLF(wolf.PerCoordinate(wolf.MahalanobisIMQ(c=2.0))),
}
BELIEFS = ("means", "covs", "predicted_means", "predicted_covs", "log_liks", "weighted_log_liks", "nis")


def same(got, expected, names=BELIEFS, tolerance=1e-12):
    assert_close(tolerance, **{name: (getattr(got, name), getattr(expected, name)) for name in names})


@pytest.mark.parametrize("method", METHODS)
def test_nan_removes_only_that_coordinate(method):
    """With correlated noise the other coordinates keep their marginal noise, as in a model without the missing one."""
    system = oracle.random_system(1, states=2, measured=3)
    data = oracle.random_data(2, STEPS, 3, outliers=0.2)
    for dead, kept in ((0, [1, 2]), (1, [0, 2]), (2, [0, 1])):
        ys = data.copy()
        ys[:, dead] = np.nan
        reduced = system | {"H": system["H"][kept], "R": system["R"][np.ix_(kept, kept)]}
        with_hole = wolf.filter(wolf.LinearModel(**system), ys, method=METHODS[method])
        without = wolf.filter(wolf.LinearModel(**reduced), ys[:, kept], method=METHODS[method])
        same(with_hole, without)
        weights = with_hole.weights if with_hole.weights.ndim == 1 else with_hole.weights[:, kept]
        assert_close(1e-12, weights=(weights, without.weights))
        assert_close(1e-12, residuals=(with_hole.residuals[:, kept], without.residuals))
        assert np.isnan(with_hole.residuals[:, dead]).all()


@pytest.mark.parametrize("method", ["KF", "S metric"])
def test_any_coordinates_may_be_missing(method):
    system = oracle.random_system(1, states=2, measured=3)
    ys = oracle.random_data(3, STEPS, 3, missing=0.4)
    out = wolf.filter(wolf.LinearModel(**system), ys, method=METHODS[method])
    weights = np.where(out.weights == 0, 1.0, out.weights)
    expected = oracle.kalman(system, ys, weights=weights)
    same(out, expected, expected._fields, tolerance=1e-10)
    assert out.missing == np.isnan(ys).sum()
    np.testing.assert_array_equal(np.isnan(out.residuals), np.isnan(ys))
    np.testing.assert_array_equal(np.isnan(out.nis), np.isnan(ys).all(1))


def test_masked_arrays_equal_nan():
    model = wolf.LinearModel(**oracle.random_system(1))
    ys = oracle.random_data(4, STEPS, missing=0.3)
    masked = np.ma.masked_array(np.nan_to_num(ys, nan=1e6), mask=np.isnan(ys))
    same(wolf.filter(model, masked), wolf.filter(model, ys), tolerance=0)
    many = wolf.filter_many(model, np.ma.stack([masked, masked]))
    same(many, wolf.filter_many(model, np.stack([ys, ys])), tolerance=0)


def test_masked_measurements_equal_nan_online():
    model = wolf.LinearModel(**oracle.random_system(1))
    masked, plain = wolf.Online(model), wolf.Online(model)
    for y in oracle.random_data(4, 5, missing=0.3):
        masked.step(np.ma.masked_invalid(y))
        plain.step(y)
    np.testing.assert_array_equal(masked.mean, plain.mean)


@pytest.mark.bits
@pytest.mark.parametrize("update_first", [False, True], ids=["predict first", "update first"])
@pytest.mark.parametrize("method", ["KF", "S metric", "symmetric", "sqrt", "per coordinate"])
def test_a_missing_row_is_the_prediction_bit_for_bit(method, update_first):
    system = oracle.random_system(5)
    ys = oracle.random_data(6, STEPS)
    ys[[0, 5, 6, 13]] = np.nan
    out = wolf.filter(wolf.LinearModel(**system), ys, method=METHODS[method], update_first=update_first)
    for t in (0, 5, 6, 13):
        np.testing.assert_array_equal(out.means[t], out.predicted_means[t])
        np.testing.assert_array_equal(out.covs[t], out.predicted_covs[t])
        assert not out.weights[t].any()
        assert not out.outliers[t].any()
        assert out.log_liks[t] == out.weighted_log_liks[t] == 0.0
    assert not np.array_equal(out.means[1], out.predicted_means[1])


def test_a_series_of_missing_rows_is_the_predicted_prior():
    system = oracle.random_system(5)
    ys = np.full((STEPS, 2), np.nan)
    for method in ("KF", "WoLF", "Learned"):
        out = wolf.filter(wolf.LinearModel(**system), ys, method=method)
        same(out, oracle.kalman(system, ys), ("means", "covs", "log_liks"))
        assert out.log_likelihood == 0.0
    out = wolf.filter(wolf.LinearModel(**system), ys)  # it treats Q as uncertain, with an expectation above it
    expected = oracle.kalman(system | {"Q": out.dynamics_scales[0] * np.asarray(system["Q"])}, ys)
    same(out, expected, ("means", "covs", "log_liks"))
    assert 1.5 < out.dynamics_scales[0] < 3.5


def quadratic(x):
    return x + 0.1 * x**2


def data_with(extreme):
    """Ordinary rows, then a row with one extreme coordinate, one with two, one with an extreme and a missing one."""
    ys = oracle.random_data(7, 12) / 2
    ys[4, 0], ys[6], ys[8] = extreme, (-extreme, extreme), (np.nan, extreme)
    return ys, [(4, 0), (6, 0), (6, 1), (8, 1)]


def check_rejected(model, method, dtype, extreme):
    ys, positions = data_with(extreme)
    out = wolf.filter(model, ys, method=method, dtype=dtype)
    for name in ("means", "covs", "predicted_means", "predicted_covs", "innovation_covs", "weights"):
        assert np.isfinite(getattr(out, name)).all(), name
    assert np.isfinite(out.log_liks).all()
    assert np.isfinite(out.weighted_log_liks).all()
    for t, i in positions:
        index = (t, i) if out.weights.ndim == 2 else t
        assert out.weights[index] == 0
        assert out.outliers[index]
        assert out.residuals[t, i] == ys[t, i]
        assert out.nis[t] == np.inf
    return ys, out


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@rows([name for name in wolf.methods.names() if wolf.methods.make(name).noise is not None])
def test_infinite_and_huge_values_are_rejected(name, dtype):
    model = wolf.LinearModel(**oracle.random_system(8))
    method = wolf.methods.make(name)
    for extreme in (np.inf, 1e300):
        ys, out = check_rejected(model, method, dtype, extreme)
        without = np.where(np.abs(ys) > 1e200, np.nan, ys)
        if out.weights.ndim == 1:  # one weight for the row: the whole row is rejected
            without[[4, 6, 8]] = np.nan
        expected = wolf.filter(model, without, method=method, dtype=dtype)
        counts = type(method.noise.innermost).after_unusable is not NoiseModel.after_unusable
        same = slice(5 if counts else None)  # the first is at step 4; it is counted as an outlier from then on
        np.testing.assert_array_equal(out.means[same], expected.means[same])
        np.testing.assert_array_equal(out.covs[same], expected.covs[same])
    if name.startswith("WoLF"):
        check_large(model, method, dtype)


def check_large(model, method, dtype):
    """Check the largest values that can be squared, which get an ordinary weight."""
    ys, positions = data_with({"float64": 1e150, "float32": 1e18}[dtype])
    out = wolf.filter(model, ys, method=method, dtype=dtype)
    for array in (out.means, out.covs, out.weights, out.predicted_covs):
        assert np.isfinite(array).all()
    for t, i in positions:
        assert out.outliers[(t, i) if out.weights.ndim == 2 else t]
    without = wolf.filter(model, np.where(np.abs(ys) > 1e10, np.nan, ys), method=method, dtype=dtype)
    assert np.abs(out.means - without.means).max() < 10


@pytest.mark.parametrize("name", ["EKF", "IEKF", "WoLF", "WoLF-PerCoordinate", "WoLF-IEKF"])
def test_infinite_and_huge_values_are_rejected_by_nonlinear_models(name):
    prior = wolf.Gaussian(np.zeros(2), np.eye(2))
    model = wolf.StateSpaceModel(None, quadratic, 0.1 * np.eye(2), oracle.random_system(8)["R"], prior)
    for extreme in (np.inf, 1e300):
        check_rejected(model, wolf.methods.make(name), "float64", extreme)


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["symmetric", "sqrt"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_infinite_and_huge_values_are_rejected_in_every_form(method, dtype):
    model = wolf.LinearModel(**oracle.random_system(8))
    for extreme in (np.inf, 1e300):
        check_rejected(model, METHODS[method], dtype, extreme)


def test_infinite_and_huge_values_are_rejected_in_many_series():
    model = wolf.LinearModel(**oracle.random_system(8))
    ys = np.stack([data_with(extreme)[0] for extreme in (np.inf, 1e300, 1e150, np.nan)])
    many = wolf.filter_many(model, ys)
    for i, one in enumerate(many):
        same(one, wolf.filter(model, ys[i]), ("means", "covs", "weights"), tolerance=1e-10)
        np.testing.assert_array_equal(one.outliers, wolf.filter(model, ys[i]).outliers)


def test_missing_coordinates_have_no_gradient(x64):
    model, method = cast(wolf.LinearModel(**oracle.random_system(9)), float), wolf.WoLF()
    ys = oracle.random_data(10, 6, missing=0.3)

    def total(ys):
        return wolf.run_filter(model, ys, method)[1]["means"].sum()

    gradient = np.asarray(jax.grad(total)(jnp.asarray(ys)))
    np.testing.assert_array_equal(gradient[np.isnan(ys)], 0.0)
    assert np.isfinite(gradient).all()
    assert np.abs(gradient[~np.isnan(ys)]).min() > 0
