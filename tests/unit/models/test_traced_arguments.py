"""Builders of models inside `jax.grad`, `jit` and `vmap`: traced arguments give the arrays that plain numbers give."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wolf
from wolf import models

TIMES = np.array([0.0, 1.0, 2.5, 2.75])
FIVE, FOUR, THREE, SIX = (wolf.Gaussian(np.ones(size), np.eye(size)) for size in (5, 4, 3, 6))
EIGHT = np.eye(8)
LEVEL = models.local_level(level_var=0.1, obs_var=1.0)


def summed(*parts, obs_var=1.0, times=None):
    return models.structural(*parts, obs_var=obs_var, times=times)


# Builders as functions of all numbers that may be traced, and their values.
BUILDERS = {
    "local_level": (models.local_level, (0.1, 1.0)),
    "local_trend": (models.local_trend, (0.1, 0.01, 1.0)),
    "damped_trend": (lambda d, a, b: summed(models.damped_trend(d, a, b)), (0.8, 0.1, 0.01)),
    "damped_trend at times": (lambda d, a, b: summed(models.damped_trend(d, a, b), times=TIMES), (0.8, 0.1, 0.01)),
    "trend at times": (lambda a, b, r: summed(models.trend(a, b), obs_var=r, times=TIMES), (0.1, 0.01, 1.0)),
    "ar_noise": (lambda d, v: summed(models.level(0.1), models.ar_noise(d, v)), (0.5, 0.3)),
    "ar_noise at times": (lambda d, v: summed(models.ar_noise(d, v), times=TIMES), (0.5, 0.3)),
    "seasonal": (lambda v, r: summed(models.seasonal(4, v), obs_var=r), (0.1, 1.0)),
    "harmonics": (lambda v, r: summed(models.seasonal(12, v, harmonics=2), obs_var=r), (0.1, 1.0)),
    "cycle": (lambda p, v, d: summed(models.cycle(p, v, d)), (12.5, 0.1, 0.9)),
    "ar": (lambda a, b, v: summed(models.ar(jnp.stack([a, b]), v)), (0.5, 0.2, 1.0)),
    "arma": (lambda v: summed(models.arma([0.5], [0.3], v)), (1.0,)),
    "regression": (lambda v, r: summed(models.regression(np.ones((4, 2)), v), obs_var=r), (0.1, 1.0)),
    "constant_velocity": (lambda dt, q, r: models.constant_velocity(2, dt, q, r), (0.1, 0.1, 10.0)),
    "constant_acceleration": (lambda dt, q, r: models.constant_acceleration(2, dt, q, r), (0.1, 0.1, 10.0)),
    "singer": (lambda dt, m, q, r: models.singer(1, dt, m, q, r), (0.1, 2.0, 0.1, 10.0)),
    "coordinated_turn": (lambda dt, s, q, r: models.coordinated_turn(dt, s, q, r, FIVE), (0.1, 0.1, 0.01, 1.0)),
    "range_bearing": (lambda dt, q, a, b: models.range_bearing(dt, q, a, b, FOUR), (0.1, 0.1, 1.0, 0.01)),
    "gps_odometry": (lambda dt, q, a, b: models.gps_odometry(dt, q, a, b, THREE), (0.1, 0.1, 0.01, 1.0)),
    "attitude": (
        lambda dt, g, b, a, m, f: models.attitude(dt, g, b, a, m, jnp.stack([f, 0.0 * f, -f]), SIX),
        (0.01, 1e-4, 1e-10, 0.01, 1e-3, 0.4),
    ),
    "lorenz63": (lambda *values: models.lorenz63(values[0], 2, *values[1:]), (0.01, 2.0, 0.1, 10.0, 28.0, 2.5)),
    "lorenz96": (lambda f, dt, r, s: models.lorenz96(5, f, dt, r, noise_std=s), (8.0, 0.05, 1.0, 0.5)),
    "linear_advection": (lambda d, r, q: models.linear_advection(8, 1, d, 2, r, q, 2), (0.9, 0.01, 0.1)),
    "kuramoto_sivashinsky": (
        lambda r, q: models.kuramoto_sivashinsky(8, obs_var=r, dynamics_var=q, prior=wolf.Gaussian(np.ones(8), EIGHT)),
        (1.0, 0.1),
    ),
    "wiener_level": (lambda q, r: models.wiener_level(TIMES, q, r, wolf.Gaussian(np.zeros(1), np.eye(1))), (0.1, 1.0)),
    "wiener_velocity": (lambda q, r: models.wiener_velocity(TIMES, 2, q, r, FOUR), (0.1, 1.0)),
    "ornstein_uhlenbeck": (lambda k, v, r: models.ornstein_uhlenbeck(TIMES, k, v, r), (0.5, 2.0, 1.0)),
    "matern 1/2": (lambda s, v, r: models.matern(TIMES, 0.5, s, v, r), (1.0, 2.0, 0.1)),
    "matern 3/2": (lambda s, v, r: models.matern(TIMES, 1.5, s, v, r), (1.0, 2.0, 0.1)),
    "matern 5/2": (lambda s, v, r: models.matern(TIMES, 2.5, s, v, r), (1.0, 2.0, 0.1)),
    "with_ar1_noise": (lambda phi, share: models.with_ar1_noise(LEVEL, phi, share), (0.8, 0.7)),
    "mlp": (lambda r, p, q: models.mlp(2, (3,), obs_var=r, prior_var=p, drift_var=q), (0.1, 0.5, 0.01)),
    "from_function": (lambda a, r: models.from_function(lambda p, x: p["a"] * x, {"a": a}, obs_var=r), (2.0, 0.1)),
    "StateSpaceModel": (
        lambda q, r: wolf.StateSpaceModel(None, jnp.sin, q * np.eye(1), r * np.eye(1), wolf.Gaussian([0.0], [[1.0]])),
        (0.1, 1.0),
    ),
}


COSTLY = {"wiener_velocity", "ornstein_uhlenbeck", "matern 1/2", "matern 3/2", "singer", "mlp", "seasonal", "lorenz63"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in COSTLY else []) for name in BUILDERS]
)
def test_traced_arguments_give_the_arrays_of_plain_numbers(name, x64):
    build, values = BUILDERS[name]
    plain, traced = jax.tree.leaves(build(*values)), jax.tree.leaves(jax.jit(build)(*values))
    assert len(plain) == len(traced)
    for expected, found in zip(plain, traced, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(
    ("name", "method"), [("local_level", "KF"), pytest.param("constant_velocity", "WoLF", marks=pytest.mark.slow)]
)
def test_gradient_of_the_log_likelihood_by_a_builder_is_that_of_finite_differences(name, method, x64, rng):
    build, values = BUILDERS[name]
    ys = rng.normal(size=(4, build(*values).obs_dim))

    def log_likelihood(*values):
        return wolf.run_filter(build(*values), ys, method)[1]["log_liks"].sum()

    def by_filter(*values):
        return wolf.filter(build(*values), ys, method=method).log_likelihood

    found = jax.grad(log_likelihood, argnums=tuple(range(len(values))))(*values)
    for i, value in enumerate(values):
        step = 1e-5 * value
        ends = [by_filter(*values[:i], value + sign * step, *values[i + 1 :]) for sign in (1, -1)]
        np.testing.assert_allclose(found[i], (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda n: summed(models.seasonal(n, 0.1)), "period"),
        (lambda n: models.constant_velocity(n, 0.1, 0.1, 1.0), "dims"),
        (lambda n: models.lorenz96(n), "dim"),
        (lambda n: models.matern(TIMES, n, 1.0, 1.0, 1.0), "smoothness"),
        (lambda n: models.kuramoto_sivashinsky(8, length=n), "length"),
    ],
    ids=["period", "dims", "dim", "smoothness", "length"],
)
def test_number_that_determines_the_form_of_a_model_must_be_plain(build, name):
    with pytest.raises(ValueError, match=f"{name} must be .*: give a plain number, outside of jax.grad") as raised:
        jax.jit(build)(2.5)
    assert "Tracer" not in str(raised.value)
