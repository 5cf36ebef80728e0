"""Test models of data assimilation: chaotic flows and linear advection. Covariances are vectors of variances.

The dynamics are callable pytrees, so a new forcing or time step never recompiles.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.interfaces import Number
from wolf.numerics.jax_compat import enable_x64
from wolf.numerics.pytree import function, pytree, static
from wolf.statespace import StateSpaceModel

INITIAL_VARIANCE = 1e-3  # at time 0 in the tests of Sakov & Oke (2008); truth and members diverge from there
SPIN_UP_TIME = 150.0  # in which a long wave breaks up; short enough for all machines to agree to nine digits
NOISES = ("forcing", "sde")


def lorenz63(
    dt: float = 0.01,
    steps: int = 25,
    obs_var: float = 2.0,
    dynamics_var: float = 0.0,
    sigma: float = 10.0,
    rho: float = 28.0,
    beta: float = 8.0 / 3.0,
    prior: Gaussian | None = None,
) -> StateSpaceModel:
    """Build the three-variable convection model of Lorenz (1963), with all states measured.

    The defaults are the test of Sakov, Oliver & Bertino (2012): dt 0.01, a measurement every 25 steps, variance 2.

    Args:
        dt: time step of the integration (Runge-Kutta of fourth order).
        steps: of the integration between measurements.
        obs_var: variance of the noise on every measurement.
        dynamics_var: variance of the noise on every state, at each measurement.
        sigma: Prandtl number.
        rho: Rayleigh number over its critical value.
        beta: geometric factor.
        prior: belief about the state at time 0; default: N((1.509, -1.531, 25.46), 2 I), on the attractor.
    """
    validation.positive_number("dt", dt)
    validation.count("steps", steps)
    for name, value in (("sigma", sigma), ("rho", rho), ("beta", beta)):
        validation.number(name, value)
    step = RungeKutta(Lorenz63(sigma, rho, beta), dt, int(steps))
    prior = Gaussian(np.array([1.509, -1.531, 25.46]), np.full(3, 2.0)) if prior is None else prior
    return _fully_measured(step, 3, dynamics_var, obs_var, prior)


def lorenz96(
    dim: int = 40,
    forcing: float = 8.0,
    dt: float = 0.05,
    obs_var: float = 1.0,
    noise: str = "forcing",
    noise_std: float = 0.0,
    prior: Gaussian | None = None,
) -> StateSpaceModel:
    """Build the model of Lorenz (1996): `x_i' = (x_{i+1} - x_{i-2}) x_{i-1} - x_i + F`, with all states measured.

    With `noise="forcing"` each step draws one forcing `N(F, noise_std²)` per state, constant over the step, as in
    Duran-Martin et al. (2024, section 4.3): `lorenz96(dim=100, noise_std=1.0)`. That adds a variance of about
    `(dt noise_std)²` per step. With `noise="sde"` it is white in time, and adds `dt noise_std²`: 20 times as much.

    Args:
        dim: number of states, at least 4.
        forcing: F; chaotic at 8.
        dt: time between measurements, one step of the integration (Runge-Kutta of fourth order).
        obs_var: variance of the noise on every measurement.
        noise: "forcing" or "sde", see above.
        noise_std: of the forcing; 0 for none.
        prior: belief about the state at time 0; default: N(F, 0.001 I) with 0.01 added to the first mean.
    """
    validation.positive_number("dt", dt)
    validation.integer("dim", dim, least=4)
    validation.number("forcing", forcing)
    validation.choice("noise", noise, NOISES)
    validation.variances(noise_std=noise_std)
    flow = Lorenz96(forcing)
    step = (
        NoisyForcing(flow, dt, noise_std)
        if noise == "forcing" and (validation.is_traced(noise_std) or noise_std > 0)
        else RungeKutta(flow, dt, 1)
    )
    if prior is None:
        prior = Gaussian(forcing * np.ones(dim) + 0.01 * np.eye(1, dim)[0], np.full(dim, INITIAL_VARIANCE))
    added = (dt * noise_std) ** 2 if noise == "forcing" else dt * noise_std**2
    return _fully_measured(step, dim, added, obs_var, prior)


def kuramoto_sivashinsky(
    dim: int = 128,
    length: float = 32.0 * np.pi,
    dt: float = 0.5,
    steps: int = 2,
    obs_var: float = 1.0,
    dynamics_var: float = 0.0,
    prior: Gaussian | None = None,
) -> StateSpaceModel:
    """Build the Kuramoto-Sivashinsky model `u' = -u u_x - u_xx - u_xxxx` on a ring, with all points measured.

    Fourier in space, exponential time differencing of fourth order in time (Kassam & Trefethen 2005). The defaults are
    the test of Bocquet (2019): 128 points on 32 π, a measurement at each unit of time.

    Args:
        dim: number of grid points, even.
        length: of the ring.
        dt: time step of the integration.
        steps: of the integration between measurements.
        obs_var: variance of the noise on every measurement.
        dynamics_var: variance of the noise on every state, at each measurement.
        prior: belief about the state at time 0; default: a state on the attractor, with variance 0.001.
    """
    for name, value in (("dt", dt), ("length", length)):
        validation.positive_number(name, validation.known_number(name, value))
    validation.count("steps", steps)
    if validation.integer("dim", dim, least=8) % 2:
        raise ValueError(f"dim must be an even whole number of at least 8; got {dim!r}")
    step = ExponentialStep(steps=int(steps), **_etdrk4(dim, length, dt))
    if prior is None:
        angle = 2 * np.pi * np.arange(dim) / dim
        start = _spin_up(step, np.cos(angle) * (1 + np.sin(angle)), math.ceil(SPIN_UP_TIME / (dt * steps)))
        prior = Gaussian(start, np.full(dim, INITIAL_VARIANCE))
    return _fully_measured(step, dim, dynamics_var, obs_var, prior)


def linear_advection(
    dim: int = 1000,
    shift: int = 1,
    damping: float = 1.0,
    num_observed: int = 4,
    obs_var: float = 0.01,
    dynamics_var: float = 0.0,
    waves: int = 25,
    prior: Gaussian | None = None,
) -> StateSpaceModel:
    """Build a wave advected round a ring at constant speed (Sakov & Oke 2008), measured at a few points.

    Args:
        dim: number of grid points.
        shift: grid points that it moves per step.
        damping: factor on the wave per step; 1 for none.
        num_observed: number of measured points, evenly spaced.
        obs_var: variance of the noise on every measurement.
        dynamics_var: variance of the noise on every state at each step.
        waves: largest wave number in the default prior.
        prior: belief about the state at time 0; default: sums of `waves` sines with unit total variance, a dense
            covariance (dim, dim).
    """
    validation.count("dim", dim)
    validation.count("num_observed", num_observed)
    validation.count("waves", waves)
    validation.integer("shift", shift, least=-validation.MAX_COUNT)
    validation.number("damping", damping)
    if num_observed > dim:
        raise ValueError(f"num_observed must be at most {dim}, the grid points; got {num_observed!r}")
    if prior is None:
        phase = 2 * np.pi * np.outer(np.arange(dim), np.arange(1, waves + 1)) / dim
        root = np.hstack([np.cos(phase), np.sin(phase)]) / np.sqrt(waves)
        prior = Gaussian(np.zeros(dim), root @ root.T)
    prior = Gaussian(*validation.prior(prior, dim, variances=True))
    indices = tuple(int(index) for index in np.arange(num_observed) * dim // num_observed)
    validation.variances(dynamics_var=dynamics_var, obs_var=obs_var)
    step = Shift(damping, shift)
    variances = dynamics_var * np.ones(dim), obs_var * np.ones(num_observed)
    return StateSpaceModel(step, Selection(indices), *variances, prior)


@pytree
class Lorenz63:
    """Vector field of Lorenz (1963)."""

    sigma: Number
    rho: Number
    beta: Number

    def __call__(self, x: Array, perturbation: Array | float = 0.0) -> Array:
        """Compute the time derivative, plus a perturbation."""
        a, b, c = x[0], x[1], x[2]
        return jnp.stack([self.sigma * (b - a), a * (self.rho - c) - b, a * b - self.beta * c]) + perturbation


@pytree
class Lorenz96:
    """Vector field of Lorenz (1996)."""

    forcing: Number

    def __call__(self, x: Array, perturbation: Array | float = 0.0) -> Array:
        """Compute the time derivative, with a perturbation of the forcing."""
        # By slices, which compile to one loop; a roll per neighbour would copy the state three times.
        ring = jnp.concatenate([x[-2:], x, x[:1]])
        return (ring[3:] - ring[:-3]) * ring[1:-2] - x + (self.forcing + perturbation)


@pytree
class RungeKutta:
    """Several steps of the classical Runge-Kutta method of fourth order."""

    flow: Callable = function()
    dt: Number
    steps: int = static()

    def __call__(self, x: Array) -> Array:
        """Integrate over all steps."""
        if self.steps == 1:
            return runge_kutta(self.flow, x, self.dt)
        return jax.lax.fori_loop(0, self.steps, lambda _, x: runge_kutta(self.flow, x, self.dt), x)


@pytree
class NoisyForcing:
    """Runge-Kutta step of a flow whose forcing is drawn at each step and constant over it."""

    flow: Callable = function()
    dt: Number
    noise_std: float | Array

    def __call__(self, x: Array) -> Array:
        """Integrate over a step without noise."""
        return runge_kutta(self.flow, x, self.dt)

    def draw(self, x: Array, key: Array) -> Array:
        """Integrate over a step with a random forcing."""
        return runge_kutta(self.flow, x, self.dt, self.noise_std * jax.random.normal(key, x.shape, x.dtype))


@pytree
class ExponentialStep:
    """Exponential time differencing in Fourier space; coefficients from `_etdrk4`, for K wave numbers."""

    decay: Array
    half_decay: Array
    inner: Array
    first: Array
    middle: Array
    last: Array
    slope: Array
    steps: int = static()

    def __call__(self, x: Array) -> Array:
        """Integrate over all steps."""
        size = x.shape[0]

        def nonlinear(v: Array) -> Array:
            return 1j * self.slope * jnp.fft.rfft(jnp.fft.irfft(v, size) ** 2)

        def step(_: int, v: Array) -> Array:
            now = nonlinear(v)
            a = self.half_decay * v + self.inner * now
            at_a = nonlinear(a)
            b = self.half_decay * v + self.inner * at_a
            at_b = nonlinear(b)
            c = self.half_decay * a + self.inner * (2.0 * at_b - now)
            return self.decay * v + self.first * now + 2.0 * self.middle * (at_a + at_b) + self.last * nonlinear(c)

        return jnp.fft.irfft(jax.lax.fori_loop(0, self.steps, step, jnp.fft.rfft(x)), size).astype(x.dtype)


@pytree
class Shift:
    """Shift of a wave round a ring."""

    damping: float | Array
    cells: int = static()

    def __call__(self, x: Array) -> Array:
        """Shift the wave by one step."""
        return self.damping * jnp.roll(x, self.cells)


@pytree
class Selection:
    """Measurement of some of the states."""

    indices: tuple[int, ...] = static()

    def __call__(self, x: Array) -> Array:
        """Return the measured states."""
        return x[jnp.asarray(self.indices)]


def all_states(x: Array) -> Array:
    """Return all states."""
    return x


def runge_kutta(flow: Callable, x: Array, dt: Number, perturbation: Array | float = 0.0) -> Array:
    """Integrate over one step of the classical Runge-Kutta method of fourth order."""
    a = flow(x, perturbation)
    b = flow(x + 0.5 * dt * a, perturbation)
    c = flow(x + 0.5 * dt * b, perturbation)
    d = flow(x + dt * c, perturbation)
    return x + dt / 6.0 * (a + 2.0 * b + 2.0 * c + d)


def _fully_measured(step: Callable, size: int, dynamics_var: float, obs_var: float, prior: Gaussian) -> StateSpaceModel:
    validation.variances(dynamics_var=dynamics_var, obs_var=obs_var)
    prior = Gaussian(*validation.prior(prior, size, variances=True))
    ones = np.ones(size)
    return StateSpaceModel(step, all_states, dynamics_var * ones, obs_var * ones, prior)


def _spin_up(step: Callable, x: np.ndarray, count: int) -> np.ndarray:
    """Integrate an initial state onto the attractor."""
    with enable_x64(True), jax.ensure_compile_time_eval():
        return np.asarray(jax.jit(lambda x: jax.lax.fori_loop(0, count, lambda _, x: step(x), x))(x))


def _etdrk4(dim: int, length: float, dt: float, points: int = 32) -> dict[str, Any]:
    """Compute the coefficients by means over a circle in the complex plane, which avoids cancellation."""
    wave = 2 * np.pi / length * np.arange(dim // 2 + 1)
    linear = wave**2 - wave**4
    circle = np.exp(1j * np.pi * (np.arange(points) + 0.5) / points)
    z = dt * linear[:, None] + circle[None]
    growth = np.exp(z)
    functions = {
        "inner": (np.exp(0.5 * z) - 1) / z,
        "first": (-4 - z + growth * (4 - 3 * z + z**2)) / z**3,
        "middle": (2 + z + growth * (z - 2)) / z**3,
        "last": (-4 - 3 * z - z**2 + growth * (4 - z)) / z**3,
    }
    slope = -0.5 * wave
    slope[-1] = 0.0  # the derivative of the shortest wave is not a wave on this grid
    means = {name: dt * np.real(values.mean(1)) for name, values in functions.items()}
    return means | {"decay": np.exp(dt * linear), "half_decay": np.exp(0.5 * dt * linear), "slope": slope}
