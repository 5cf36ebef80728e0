"""Particle filters: right in the limit of many particles, alive under outliers, reproducible by their key."""

import jax
import numpy as np
import pytest
from scipy.stats import multivariate_t

import wolf
from wolf.inference.filters import ParticleFilter, RaoBlackwellFilter
from wolf.inference.filters.particle import ParticleState, resample
from wolf.inference.noise import BetaLikelihood, GaussianLikelihood, MixtureLikelihood, StudentLikelihood

pytestmark = pytest.mark.thorough  # a part that the quick tests touch elsewhere

LEVEL = wolf.models.local_level(level_var=0.5, obs_var=1.0, prior=wolf.Gaussian(np.zeros(1), np.eye(1)))
both = pytest.mark.parametrize("kind", [ParticleFilter, RaoBlackwellFilter])


@pytest.fixture
def ys(rng):
    return np.cumsum(rng.normal(size=(30, 1)), 0)


@both
def test_many_particles_come_to_the_kalman_filter(kind, ys):
    exact = wolf.filter(LEVEL, ys, method="KF")
    errors = []
    for num in (400, 40_000):
        out = wolf.filter(LEVEL, ys, method=kind(GaussianLikelihood(), num_particles=num), key=1)
        errors.append(np.sqrt(np.mean((out.means - exact.means) ** 2 / exact.covs[..., 0])))
    assert errors[1] < 0.02
    assert 3 < errors[0] / errors[1] < 40  # a hundred times the particles, a tenth of the error
    np.testing.assert_allclose(out.covs, exact.covs, rtol=0.1)
    np.testing.assert_allclose(out.log_likelihood, exact.log_likelihood, rtol=0.01)


@both
def test_beta_of_zero_is_the_ordinary_particle_filter_and_small_ones_come_to_it(kind, ys):
    plain, zero, small, large = (
        wolf.filter(LEVEL, ys, method=kind(law, num_particles=500), key=1).means
        for law in (GaussianLikelihood(), BetaLikelihood(0.0), BetaLikelihood(1e-9), BetaLikelihood(0.5))
    )
    np.testing.assert_array_equal(zero, plain)
    np.testing.assert_allclose(small, plain, rtol=1e-6, atol=1e-6)
    assert np.abs(large - plain).max() > 1e-2


@both
def test_steps_with_a_key_are_the_filter(kind, ys):
    method = kind(num_particles=200)
    out = wolf.filter(LEVEL, ys, method=method, key=7)
    online = wolf.Online(LEVEL, method, key=7)
    for y in ys:
        info = online.step(y)
    np.testing.assert_allclose(online.mean, out.final.mean, rtol=1e-10)
    assert info.weighted_log_likelihood is None
    again, other = (wolf.filter(LEVEL, ys, method=method, key=key) for key in (7, 8))
    np.testing.assert_array_equal(again.means, out.means)
    assert (other.means != out.means).any()


@both
def test_a_missing_key_raises(kind, ys):
    for attempt in (
        lambda: wolf.filter(LEVEL, ys, method=kind()),
        lambda: wolf.filter_many(LEVEL, ys[None], method=kind()),
        lambda: wolf.Online(LEVEL, kind()),
    ):
        with pytest.raises(ValueError, match=r"draws random numbers: pass key=, a seed such as key=0"):
            attempt()


@both
def test_a_missing_row_is_a_prediction(kind, ys):
    ys[10] = np.nan
    out = wolf.filter(LEVEL, ys, method=kind(GaussianLikelihood(), num_particles=300), key=0)
    np.testing.assert_allclose(out.means[10], out.predicted_means[10], rtol=1e-12)
    np.testing.assert_allclose(out.covs[10], out.predicted_covs[10], rtol=1e-12)
    assert out.weights[10] == 0.0


@both
def test_beta_weights_survive_a_gross_error_that_drags_the_ordinary_filter(kind, ys):
    ys[15] += 60.0
    robust, plain = (
        wolf.filter(LEVEL, ys, method=kind(law), key=0) for law in (BetaLikelihood(0.2), GaussianLikelihood())
    )
    clean = wolf.filter(LEVEL, np.where(np.arange(30)[:, None] == 15, np.nan, ys), method="KF")
    assert np.abs(robust.means[15:] - clean.means[15:]).max() < 1.5
    assert np.abs(plain.means[15:] - clean.means[15:]).max() > 2.0
    assert robust.outliers[15]
    assert not plain.outliers[15]


def test_resampling_is_systematic_and_only_where_few_matter(x64):
    shares = np.array([0.7, 0.1, 0.1, 0.1])
    state = ParticleState(np.arange(4.0)[:, None], np.log(shares), np.zeros((1, 1)), np.zeros((), int))
    for seed in range(20):
        counts = np.bincount(resample(state, jax.random.key(seed), 0.9).particles[:, 0].astype(int), minlength=4)
        assert (counts >= np.floor(4 * shares)).all()
        assert (counts <= np.ceil(4 * shares)).all()
    kept = resample(state, jax.random.key(0), 0.1)
    np.testing.assert_array_equal(kept.log_weights, state.log_weights)


def test_student_law_is_scipys(rng, x64):
    from wolf.numerics.linalg import cholesky

    cov, e = np.array([[2.0, 0.5], [0.5, 1.0]]), rng.normal(size=2)
    mine = StudentLikelihood(3.5).log_weight(e, e, cholesky(jax.numpy.asarray(cov)), 2.0)
    np.testing.assert_allclose(mine, multivariate_t(np.zeros(2), cov, df=3.5).logpdf(e), rtol=1e-12)


@pytest.mark.slow
def test_true_law_beats_every_other_filter_on_its_own_noise():
    """The ceiling: Rao-Blackwellised, with the law that made the data."""
    model = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
    for law, process in (
        (StudentLikelihood(2.01), wolf.simulate.StudentT(2.01)),
        (MixtureLikelihood(0.05), wolf.simulate.Mixture(0.05)),
    ):
        runs = [wolf.simulate.trajectory(model, 400, key=i, outliers=process) for i in range(8)]
        ys, truth = np.stack([run.measurements for run in runs]), np.stack([run.states for run in runs])

        def error(method, ys=ys, truth=truth):
            means = wolf.filter_many(model, ys, method=method, key=0, save="means").means
            return np.sqrt(np.mean((means - truth)[..., :2] ** 2))

        ceiling = error(RaoBlackwellFilter(law, num_particles=500))
        assert ceiling < error("KF")
        assert all(ceiling < 1.02 * error(name) for name in ("WoLF", "KF-B", "KF-Student"))
