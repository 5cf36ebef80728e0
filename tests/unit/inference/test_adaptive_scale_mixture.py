"""Scale mixtures: exact moments by quadrature, counts, bounded influence, reports, per-sensor noise."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import chi2
from tests import oracle

import wolf
from wolf.inference.filters import GaussianFilter
from wolf.inference.noise import AdaptiveScaleMixture, PerSensorNoise
from wolf.inference.noise.adaptive_scale_mixture import FLOOR, SCALES
from wolf.inference.noise.scale_mixture_moments import (
    Responsibilities,
    by_eigenvectors,
    by_factors,
    by_reduction,
    closed_form,
)
from wolf.inference.noise.whitened import Whitened, far_distance

ALONE = GaussianFilter(noise=AdaptiveScaleMixture())  # without the jump test
PLANE = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)


@pytest.mark.thorough
def test_first_update_equals_quadrature_with_the_far_component():
    """p(y|x) is the mixture of the prior; the improper component is constant, at the widest one's 99 % distance."""
    h, r, p = 1.7, 2.0, 3.0
    model = wolf.LinearModel([[1.0]], [[h]], [[0.0]], [[r]], [0.5], [[p]])
    shares = np.exp(-0.5 * (np.log(SCALES) / 0.5) ** 2) + FLOOR
    shares /= shares.sum()
    widest = h * h * p + SCALES[-1] * r
    limit = float(far_distance(np.asarray(1.0)))
    far = shares[-1] / np.sqrt(2 * np.pi * widest) * np.exp(-0.5 * limit)

    def normal(error, var):
        return np.exp(-0.5 * error**2 / var) / np.sqrt(2 * np.pi * var)

    for y in (-700.0, -9.0, 0.4, 2.5, 12.0, 3000.0):
        out = wolf.filter(model, [y], method=ALONE)

        def density(x, y=y):
            return (shares @ normal(y - h * x, SCALES * r) + far) * normal(x - 0.5, p)

        limits = {"points": [0.5, y / h] if abs(y / h) < 40 else [0.5], "epsabs": 1e-18, "epsrel": 1e-13, "limit": 500}
        mass = quad(density, -40, 40, **limits)[0]
        mean = quad(lambda x: x * density(x), -40, 40, **limits)[0] / mass
        second = quad(lambda x, mean=mean: (x - mean) ** 2 * density(x), -40, 40, **limits)[0] / mass
        np.testing.assert_allclose([out.means[0, 0], out.covs[0, 0, 0]], [mean, second], rtol=1e-8)


@pytest.mark.parametrize("size", [1, 2])
def test_closed_form_equals_the_general_methods(size, rng, x64):
    signal, residual = oracle.random_cov(rng, size), 3 * rng.normal(size=size)
    white = Whitened(residual, signal, None, np.asarray(float(size)))
    shares = responsibilities_of(rng.dirichlet(np.ones(len(SCALES))), 0.1)
    ways = [way(white, SCALES) for way in (closed_form, by_factors, by_eigenvectors)]
    for one in ways[1:]:
        np.testing.assert_allclose(ways[0].half_distances, one.half_distances, rtol=1e-10)
        np.testing.assert_allclose(
            ways[0].normalizations / ways[0].normalizations[-1], one.normalizations / one.normalizations[-1], rtol=1e-10
        )
        for closed, general in zip(ways[0].average(shares)[:3], one.average(shares)[:3], strict=True):
            np.testing.assert_allclose(closed, general, rtol=1e-8, atol=1e-12)


def responsibilities_of(known, outside):
    return Responsibilities(4.0 * known, np.asarray(0.25), known, np.asarray(outside))


def test_roots_of_a_mixture_square_to_its_information_and_spread(rng, x64):
    """Ω = (I - A G)⁻¹ A, also where most measurements belong to no component and where G is singular."""
    size, outside = 10, 0.6
    half = rng.normal(size=(size, 4))
    white = Whitened(3 * rng.normal(size=size), 100 * half @ half.T, None, np.asarray(float(size)))
    share = (1 - outside) * rng.dirichlet(np.ones(len(SCALES)))
    sizes = by_eigenvectors(white, SCALES)
    gain, _, spread = map(np.asarray, sizes.average(responsibilities_of(share, outside))[:3])
    information = np.linalg.solve(np.eye(size) - gain @ white.signal, gain)
    root, doubt = map(np.asarray, sizes.roots(share, outside))
    np.testing.assert_allclose(root.T @ root, information, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(doubt @ doubt.T, spread, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("measured", [20, 13])
def test_reduction_equals_eigenvectors(measured, rng, x64):
    """Also |C| and tr Ω, which both compute in their own coordinates, over the measured coordinates only."""
    size, outside = 20, 0.3
    half = rng.normal(size=(size, 25)) * (np.arange(size) < measured)[:, None]
    residual = 3 * rng.normal(size=size) * (np.arange(size) < measured)
    white = Whitened(residual, half @ half.T, None, np.asarray(float(measured)))
    shares = responsibilities_of((1 - outside) * rng.dirichlet(np.ones(len(SCALES))), outside)
    one, other = by_eigenvectors(white, SCALES), by_reduction(white, jnp.asarray(SCALES))
    np.testing.assert_allclose(other.half_distances, one.half_distances, rtol=1e-12)
    np.testing.assert_allclose(other.normalizations, one.normalizations, rtol=1e-11)
    one, other = one.average(shares), other.average(shares)
    for mine, theirs in zip(other[:3], one[:3], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12 * np.abs(theirs).max())
    gain, rest = np.asarray(one.gain), np.asarray(one.rest) + outside * np.eye(size)
    kept = np.diagonal(np.linalg.solve(rest, gain))[:measured].sum()
    for found in (one, other):
        np.testing.assert_allclose(found.known_terms, [np.linalg.slogdet(rest)[1], kept], rtol=1e-11)


def test_counts_add_up_to_the_number_of_measurements(rng):
    """Σα = Σα⁰ + (1 - ρᵗ) / (1 - ρ): each measurement adds one in total, and a missing one changes no count."""
    rule = AdaptiveScaleMixture(forgetting=0.9)
    ys = 3 * rng.normal(size=(30, 2))
    final = wolf.filter(PLANE, ys, method=GaussianFilter(noise=rule)).final
    # Except for the probability of 1e-9 of no component, which adds to no count.
    np.testing.assert_allclose(final.memory.now.sum(), 10.0 + (1 - 0.9**30) / (1 - 0.9), rtol=1e-7)
    ys[10:20] = np.nan
    gone = wolf.filter(PLANE, ys, method=GaussianFilter(noise=rule)).final
    np.testing.assert_allclose(gone.memory.now.sum(), 10.0 + (1 - 0.9**20) / (1 - 0.9), rtol=1e-7)


@pytest.mark.parametrize("name", ["Learned", "Adaptive", "alone"])
def test_influence_of_one_outlier_is_bounded_and_redescends(name, rng):
    method = ALONE if name == "alone" else wolf.methods.make(name)
    ys = np.sqrt(10.0) * rng.normal(size=(60, 2))
    blank = ys.copy()
    blank[40] = np.nan
    missed = wolf.filter(PLANE, blank, method=method)
    deviation = np.sqrt(missed.covs[40, 0, 0])
    for size in (10.0, 30.0, 1e3, 1e5, 1e12, 1e50, 1e150, 1e300):
        dirty = ys.copy()
        dirty[40] = size
        hit = wolf.filter(PLANE, dirty, method=method)
        assert np.isfinite(hit.means).all()
        assert np.isfinite(hit.covs).all()
        assert np.abs(hit.means[40] - missed.means[40])[0] < 1.5 * deviation
        assert hit.covs[40, 0, 0] < 2.5 * missed.covs[40, 0, 0]
        if size >= 1e5:
            np.testing.assert_allclose(hit.means[40], missed.means[40], rtol=1e-9)
            np.testing.assert_allclose(hit.covs[40], missed.covs[40], rtol=1e-9)
            assert hit.outliers[40]
            assert hit.outlier_probabilities[40] > 0.999


@given(st.floats(-3, 3), st.floats(-3, 3))
def test_units_do_not_matter(first, second):
    ys = oracle.random_data(3, 25, outliers=0.1)
    units = np.diag([10.0**first, 10.0**second])
    other = wolf.LinearModel(PLANE.F, units @ PLANE.H, PLANE.Q, units @ PLANE.R @ units, *PLANE.prior)
    a = wolf.filter(PLANE, ys, method="Learned")
    b = wolf.filter(other, ys @ units, method="Learned")
    np.testing.assert_allclose(a.means, b.means, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(a.outlier_probabilities, b.outlier_probabilities, rtol=1e-6, atol=1e-9)


@pytest.mark.bits
def test_chunks_are_the_whole(rng):
    ys = 3 * rng.normal(size=(40, 2))
    ys[25:] += 90.0  # a jump, and a run of rejections across the cut
    whole = wolf.filter(PLANE, ys, method="Learned")
    parts = list(wolf.filter_chunks(PLANE, [ys[:28], ys[28:]], method="Learned", save="all"))
    np.testing.assert_array_equal(np.concatenate([part.means for part in parts]), whole.means)


def test_tenfold_noise_is_estimated_and_reported(rng):
    truth = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=100.0)
    run = wolf.simulate.trajectory(truth, 1500, 5, wolf.simulate.Additive(0.1, -300.0, 300.0))
    out = wolf.filter(PLANE, run.measurements, method=wolf.methods.make("Learned", r_uncertainty="factor 10"))
    estimate = out.learned_noise
    assert 6 < estimate.typical < 14
    assert 0.05 < estimate.outlier_share < 0.15
    assert "times R" in repr(estimate)
    flagged, hit = out.outliers, np.asarray(run.outliers)
    assert (flagged & hit).sum() > 0.85 * hit.sum()
    assert (flagged & ~hit).sum() < 0.02 * len(hit)


def test_wider_priors_adapt_faster(rng):
    truth = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=70.0)
    ys = wolf.simulate.trajectory(truth, 60, 5).measurements
    sizes = [
        wolf.filter(PLANE, ys, method=wolf.methods.make("Learned", r_uncertainty=word)).learned_noise.typical
        for word in ("factor 2", "factor 10")
    ]
    assert sizes[0] < sizes[1] < 14


@pytest.mark.parametrize("form", ["joseph", "symmetric", "sqrt"])
def test_forms_agree(form, rng):
    ys = oracle.random_data(4, 40, missing=0.1, outliers=0.1)
    a, b = (wolf.filter(PLANE, ys, method=wolf.methods.make("Learned", form=f)) for f in ("auto", form))
    np.testing.assert_allclose(a.means, b.means, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(a.covs, b.covs, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(a.weights, b.weights, rtol=1e-7)


@pytest.fixture(scope="module")
def six():
    rows = np.repeat(np.asarray(PLANE.H), 3, axis=0)
    model = wolf.LinearModel(PLANE.F, rows, PLANE.Q, 10 * np.eye(6), *PLANE.prior)
    run = wolf.simulate.trajectory(model, 300, 8)
    return model, run


def test_sequential_sensors_with_gaussian_noise_equal_the_joint_update(six):
    model, run = six
    plain = wolf.noise.Weighted(wolf.weights.Unweighted())
    joint = wolf.filter(model, run.measurements, method="KF")
    each = wolf.filter(model, run.measurements, method=GaussianFilter(noise=PerSensorNoise(plain)))
    np.testing.assert_allclose(each.means, joint.means, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(each.covs, joint.covs, rtol=1e-9)


def test_only_the_faulty_sensor_is_rejected(six, rng):
    model, run = six
    ys = run.measurements + np.where(
        np.arange(6) == rng.integers(0, 6, (300, 1)), rng.uniform(-100, 100, (300, 6)), 0.0
    )
    bad = ys != run.measurements
    rmse = {}
    for name, method, data in (
        ("each", wolf.methods.make("Learned", sensors="each"), ys),
        ("one", wolf.methods.make("Learned"), ys),
        ("oracle", "KF", np.where(bad, np.nan, ys)),
    ):
        out = wolf.filter(model, data, method=method)
        rmse[name] = np.sqrt(((out.means - run.states)[:, :2] ** 2).mean())
    assert rmse["each"] < 1.1 * rmse["oracle"]
    assert rmse["one"] > 1.5 * rmse["oracle"]


def test_one_stuck_sensor_is_no_jump(six):
    model, run = six
    ys = run.measurements.copy()
    ys[100:200, 0] += 60.0
    out = wolf.filter(model, ys, method=wolf.methods.make("Learned", sensors="each"))
    assert (out.inflations == 1.0).all()
    assert out.outliers[110:200, 0].mean() > 0.95
    assert out.outliers[:, 1:].mean() < 0.03
    assert [estimate.ordinary < 3 for estimate in out.learned_noise] == [True] * 6


@pytest.mark.thorough
@pytest.mark.parametrize("sensors", [(0, 0, 0, 1, 1, 1), pytest.param((0, 0, 0, 0, 0, 0), marks=pytest.mark.slow)])
def test_a_jump_of_all_sensors_is_accepted(six, sensors):
    model, run = six
    ys = run.measurements + np.where(np.arange(300)[:, None] >= 150, 80.0, 0.0)
    ys[151::3, 0] = np.nan
    out = wolf.filter(model, ys, method=wolf.methods.make("Learned", sensors=sensors))
    fired = np.flatnonzero(out.inflations > 1)
    assert len(fired) == 1
    assert 153 <= fired[0] < 165
    error = np.abs(out.means[fired[0] + 3 :, :2] - run.states[fired[0] + 3 :, :2] - 80.0)
    assert np.median(error) < 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"r_uncertainty": "factor 3"}, "r_uncertainty must be 'factor 2' or 'factor 10'"),
        ({"r_uncertainty": None}, "r_uncertainty must be 'factor 2' or 'factor 10'"),
        ({"patience": 1}, "patience must be at least 2"),
        *(({"patience": odd}, "patience must be one number of at least 2; got") for odd in ("x", [5], None, {}, True)),
        ({"patience": np.array([5.0, 6.0])}, "patience must be one number of at least 2; got"),
        ({"sensors": 5}, "sensors must be one whole number"),
        ({"sensors": (0, 1, 2)}, "sensors must name the sensor of each of the 2 coordinates"),
        ({"sensors": "all"}, "sensors must be one whole number"),
        ({"strength": -1.0}, "strength"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        wolf.filter(PLANE, np.zeros((3, 2)), method=wolf.methods.make("Learned", **options))


def test_count_models_have_no_noise_scale():
    model = wolf.models.glm(2, family=wolf.families.Poisson())
    with pytest.raises(ValueError, match="no noise scale to estimate"):
        wolf.filter(model, np.zeros(3), inputs=np.zeros((3, 2)), method="Learned")


def test_a_network_estimates_a_noise_scale_that_is_far_off(rng):
    """R is 100 times too large and 10 times too small; a tenth of the targets is off by 50."""
    features = rng.uniform(-1, 1, (800, 2))
    curve = 0.5 + 0.3 * features[:, 0] - 0.2 * np.abs(features[:, 1])
    targets = curve + 0.1 * rng.normal(size=800) + np.where(rng.random(800) < 0.1, 50.0, 0.0)
    for guess in (1.0, 0.001):
        model = wolf.models.mlp(2, (8,), obs_var=guess)
        out = wolf.filter(model, targets, inputs=features, method="Learned", save=lambda state, info: info.residual)
        assert np.median(np.abs((targets - curve - out.saved[:, 0])[400:])) < 0.05


def test_sensors_with_correlated_noise_raise():
    model = wolf.LinearModel(PLANE.F, PLANE.H, PLANE.Q, [[10.0, 1.0], [1.0, 10.0]], *PLANE.prior)
    with pytest.raises(ValueError, match="sensors must be independent"):
        wolf.filter(model, np.zeros((3, 2)), method=wolf.methods.make("Learned", sensors="each"))


def test_far_distance_is_close_to_the_quantile():
    for d in (1, 2, 3, 6, 20):
        assert abs(float(far_distance(np.asarray(float(d)))) / chi2.ppf(0.99, d) - 1) < 0.01
