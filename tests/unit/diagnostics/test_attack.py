"""The attack: nothing that it finds exceeds the certificate; robust methods bound it, the Kalman filter does not."""

import jax.numpy as jnp
import numpy as np
import pytest

import wolf
from wolf.diagnostics.attack import SoftGate, soften

STEPS = 40


@pytest.fixture(scope="module")
def model():
    prior = wolf.Gaussian(np.zeros(2), np.eye(2))
    return wolf.models.constant_velocity(dims=1, dt=0.5, dynamics_var=0.1, obs_var=2.0, prior=prior)


@pytest.fixture(scope="module")
def ys(model):
    return wolf.simulate.trajectory(model, STEPS, key=4).measurements


@pytest.fixture(scope="module")
def kalman(model, ys):
    return [wolf.attack(model, "KF", ys, 2, size=size, restarts=4) for size in (10.0, 1000.0)]


@pytest.fixture(scope="module")
def robust(model, ys):
    return [wolf.attack(model, "WoLF", ys, 2, size=size, restarts=4) for size in (10.0, 1000.0)]


def test_damage_to_the_kalman_filter_grows_with_the_size(kalman):
    """It is linear: a hundred times the error, a hundred times the damage, at the same steps."""
    small, large = kalman
    np.testing.assert_allclose(large.total / small.total, 100.0, rtol=0.02)
    np.testing.assert_allclose(large.sizes, 1000.0, rtol=1e-6)


def test_damage_to_the_kalman_filter_is_the_largest_singular_value(model, ys, kalman):
    """Two errors of one size: the exact optimum is over all pairs of steps and signs, by superposition."""
    clean = wolf.filter(model, ys, method="KF")
    deviations = np.sqrt(clean.innovation_covs[:, 0, 0])
    shifted = wolf.filter_many(model, ys[None] + 10.0 * np.diag(deviations)[..., None], method="KF").means
    white = np.linalg.solve(np.linalg.cholesky(clean.covs), (shifted - clean.means)[..., None])[..., 0]
    gram = np.einsum("atd,btd->ab", white, white) / STEPS
    both = np.diagonal(gram)[:, None] + np.diagonal(gram)[None] + 2 * np.abs(gram)
    np.fill_diagonal(both, 0.0)
    best = np.sqrt(both.max())
    assert kalman[0].total <= best * (1 + 1e-9)
    assert kalman[0].total >= 0.99 * best


def test_damage_to_a_robust_filter_does_not_grow(robust):
    """A hundred times the room for errors, and the worst is found inside it."""
    small, large = robust
    assert large.total <= 1.2 * small.total
    assert large.sizes.max() < 100.0


def test_reported_damage_is_that_of_the_real_filter(model, ys, robust):
    for found in robust:
        clean = wolf.filter(model, ys, method="WoLF")
        dirty = wolf.filter(model, found.ys, method="WoLF")
        white = np.linalg.solve(np.linalg.cholesky(clean.covs), (dirty.means - clean.means)[..., None])[..., 0]
        np.testing.assert_allclose(found.damage, np.linalg.norm(white, axis=1), rtol=1e-8, atol=1e-10)
        assert np.count_nonzero((found.ys != ys).any(1)) == 2
        assert found.damage[: found.times[0]].max(initial=0.0) < 1e-10


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["WoLF", wolf.methods.make("WoLF-TMD", c=6.0, metric="S")], ids=["soft", "hard"])
def test_one_error_stays_below_the_certificate_and_comes_near_it(method, model, ys):
    """In the step of the error nothing can be worse than the certified shift, and the last step comes near it."""
    found = wolf.attack(model, method, ys, 1, restarts=4)
    bound = wolf.certify(model, method, ys=ys, trials=0)["mean shift"].value
    assert found.damage[found.times[0]] <= bound * (1 + 1e-9)
    alone = np.where(np.arange(STEPS)[:, None] < STEPS - 1, np.nan, ys)
    last = wolf.attack(model, method, alone, 1, restarts=4).damage[-1]
    exact = wolf.certify(model, method, ys=alone, trials=0)["mean shift"].value
    assert 0.98 * exact <= last <= exact * (1 + 1e-9)


@pytest.mark.slow
def test_attack_finds_the_lock_out_of_a_hard_gate(tracking):
    """A few errors inside the gate carry it off, and it rejects the truth from then on: damage without an end."""
    ys = wolf.simulate.trajectory(tracking, 120, key=3).measurements
    found = wolf.attack(tracking, "WoLF-TMD", ys, 4)
    assert found.damage[-1] > 20.0
    assert found.sizes.max() < 20.0


def test_soft_gates_become_the_hard_one():
    gate = wolf.methods.make("WoLF-TMD", c=9.0).noise.weight
    one = jnp.eye(1)
    for distance in (0.0, 2.5, 3.5, 30.0):
        residual = jnp.array([distance])
        soft = SoftGate(9.0, 1e-3)(residual, one, one)
        np.testing.assert_allclose(soft, gate(residual, one, one), atol=1e-6)
    per = wolf.WoLF(wolf.PerCoordinate(wolf.MahalanobisThreshold(c=9.0, metric="S")))
    assert soften(per, 0.1).noise.weight.weight == SoftGate(9.0, 0.1, "S")
    assert soften(wolf.WoLF(), 0.1) == wolf.WoLF()


@pytest.mark.slow
def test_same_seed_same_attack(model, ys, robust):
    again = wolf.attack(model, "WoLF", ys, 2, size=10.0, restarts=4)
    np.testing.assert_array_equal(again.ys, robust[0].ys)
    assert "2 errors in 40 steps" in repr(again)


def test_steps_without_measurements_are_not_attacked(model, ys):
    holes = ys.copy()
    holes[5:] = np.nan
    found = wolf.attack(model, "WoLF", holes, 2, size=10.0, restarts=4)
    assert found.times.max() < 5
    assert np.isnan(found.ys[5:]).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_outliers": 0}, "num_outliers"),
        ({"num_outliers": STEPS + 1}, f"at most {STEPS}"),
        ({"size": -1.0}, "size must be"),
        ({"size": np.inf}, "size must be"),
        ({"restarts": 0}, "restarts"),
        ({"method": "EnKF"}, "draws random numbers"),
        ({"method": "OGD"}, "mean and a covariance"),
        ({"ys": np.zeros((4, 2))}, "ys must have shape"),
    ],
)
def test_invalid_arguments_raise(arguments, words, model, ys):
    with pytest.raises(ValueError, match=words):
        wolf.attack(**({"model": model, "method": "WoLF", "ys": ys} | arguments))
