"""Particle filters: samples of the state, or of its measured part, weighted by any likelihood.

Gordon, Salmond & Smith (1993) for the bootstrap filter; Boustati et al. (2020) for the generalised Bayesian weights of
`wolf.noise.BetaLikelihood`; Doucet et al. (2000) for Rao-Blackwellisation; Kitagawa (1996) for systematic resampling.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.beliefs.affine import hide_noise
from wolf.beliefs.density import log_density
from wolf.inference.filters.gaussian import OUTLIER_POWER
from wolf.inference.noise.particle_likelihoods import BetaLikelihood, ParticleLikelihood
from wolf.interfaces import Filter, Measurement, Number, Requirements, StepInfo
from wolf.numerics import linalg
from wolf.numerics.linalg import Cholesky
from wolf.numerics.pytree import pytree, static
from wolf.statespace import LinearModel, Model

PRIOR_KEY_INDEX = 2**32 - 1  # the key of step t is derived from that of the run with t; the prior draw uses this index


class ParticleState(NamedTuple):
    """Weighted samples of the state, (N, D); each is the mean of a Gaussian with covariance `within`."""

    particles: Array
    log_weights: Array
    within: Array
    t: Array

    @property
    def mean(self) -> Array:
        """Weighted mean of the particles, (D,)."""
        return linalg.array_namespace(self.log_weights).exp(self.log_weights) @ self.particles

    @property
    def cov(self) -> Array:
        """Weighted covariance of the particles plus `within`, (D, D)."""
        around = self.particles - self.mean[None]
        return (
            linalg.array_namespace(self.log_weights).exp(self.log_weights)[:, None] * around
        ).T @ around + self.within

    @property
    def variances(self) -> Array:
        """Variances of the state, (D,)."""
        return linalg.diagonal(self.cov)

    @property
    def effective_size(self) -> Array:
        """Effective sample size, `1 / Σ w²`."""
        return jnp.exp(-logsumexp(2.0 * self.log_weights))


@pytree
class ParticleFilter(Filter):
    """Bootstrap particle filter: samples of the state, propagated by the dynamics, weighted by each measurement.

    Args:
        likelihood: of a measurement, from `wolf.inference.noise.particle_likelihoods`.
        num_particles: N.
        resample_below: resample when the effective sample size is below this share of N.
    """

    likelihood: ParticleLikelihood = BetaLikelihood()
    num_particles: int = static(default=1000)
    resample_below: Number = 0.5

    def __post_init__(self) -> None:
        """Validate the options."""
        validation.count("num_particles", self.num_particles)
        validation.probability("resample_below", self.resample_below)

    @property
    def requirements(self) -> Requirements:
        """Random numbers."""
        return Requirements(key=True)

    def init(self, model: Model, key: Array | None = None) -> ParticleState:
        """Draw the particles from the model's prior."""
        mean, cov = jnp.asarray(model.prior.mean), jnp.asarray(model.prior.cov)
        noise = _draws(
            jax.random.fold_in(_key_or_dummy(key), PRIOR_KEY_INDEX), linalg.psd_root(cov), self.num_particles
        )
        uniform = jnp.full(self.num_particles, -jnp.log(self.num_particles), mean.dtype)
        return ParticleState(mean[None] + noise, uniform, jnp.zeros_like(cov), jnp.zeros((), jnp.int32))

    def predict(self, now: Model, state: ParticleState, u: Array | None, key: Array | None = None) -> ParticleState:
        """Resample if the effective sample size is small, then propagate each particle."""
        resample_key, move_key = jax.random.split(_key_or_dummy(key))
        state = resample(state, resample_key, self.resample_below)
        moved = jax.vmap(now.transition(u))(state.particles)
        return state._replace(particles=moved + _draws(move_key, linalg.psd_root(now.dynamics_cov), len(moved)))

    def update(
        self, now: Model, state: ParticleState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[ParticleState, StepInfo]:
        """Update the weights of the particles."""
        predictions = jax.vmap(now.projection(u))(state.particles)
        return weigh(self.likelihood, now, state, predictions, y)


@pytree
class RaoBlackwellFilter(Filter):
    """Rao-Blackwellised particle filter: samples of the signal Hx, with the rest of the state exact.

    Given a path of Hx the state of a linear model is Gaussian, with a covariance that is common to all particles, so
    fewer dimensions are sampled.

    Args:
        likelihood: of a measurement. With the true likelihood and many particles the filter is optimal.
        num_particles: N.
        resample_below: resample when the effective sample size is below this share of N.
    """

    likelihood: ParticleLikelihood = BetaLikelihood()
    num_particles: int = static(default=1000)
    resample_below: Number = 0.5

    def __post_init__(self) -> None:
        """Validate the options."""
        validation.count("num_particles", self.num_particles)
        validation.probability("resample_below", self.resample_below)

    @property
    def requirements(self) -> Requirements:
        """Random numbers, and a linear model."""
        return Requirements(linear=True, key=True)

    def init(self, model: Model, key: Array | None = None) -> ParticleState:
        """Return the initial state, in which all particles have the prior."""
        mean, cov = jnp.asarray(model.prior.mean), jnp.asarray(model.prior.cov)
        uniform = jnp.full(self.num_particles, -jnp.log(self.num_particles), mean.dtype)
        particles = jnp.broadcast_to(mean, (self.num_particles, *mean.shape))
        return ParticleState(particles, uniform, cov, jnp.zeros((), jnp.int32))

    def predict(
        self, now: LinearModel, state: ParticleState, u: Array | None, key: Array | None = None
    ) -> ParticleState:
        """Resample if the effective sample size is small, then propagate each particle and the common covariance."""
        state = resample(state, jax.random.fold_in(_key_or_dummy(key), 0), self.resample_below)
        transition = now.transition(u)
        within = state.within if transition.matrix is None else linalg.sandwich(transition.matrix, state.within)
        return state._replace(particles=jax.vmap(transition)(state.particles), within=within + now.dynamics_cov)

    def update(
        self, now: LinearModel, state: ParticleState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[ParticleState, StepInfo]:
        """Draw Hx for each particle, condition the rest of its state on it, and update the weights."""
        matrix = now.H
        cross = linalg.matmul(matrix, state.within)
        spread = linalg.matmul_symmetric(cross, linalg.transpose(matrix))
        noise = _draws(jax.random.fold_in(_key_or_dummy(key), 1), linalg.psd_root(spread), len(state.particles))
        gain_t = linalg.psd_solve(spread, cross)
        conditioned = state._replace(
            particles=state.particles + noise @ gain_t,
            within=linalg.symmetrise(state.within - linalg.matmul(linalg.transpose(cross), gain_t)),
        )
        new, info = weigh(self.likelihood, now, conditioned, conditioned.particles @ matrix.T, y)
        # Without a measurement Hx need not be sampled.
        kept = jax.tree.map(lambda new, old: jnp.where(y.num_observed > 0, new, old), new, state)
        return kept._replace(t=new.t), info._replace(predicted=Gaussian(state.mean, state.cov))


def weigh(
    likelihood: ParticleLikelihood, now: Model, state: ParticleState, predictions: Array, y: Measurement
) -> tuple[ParticleState, StepInfo]:
    """Update the weights of the particles by the likelihood of a measurement.

    Args:
        likelihood: of a measurement.
        now: the model at this step.
        state: predicted.
        predictions: h(x) of each particle, (N, M).
        y: cleaned measurement.
    """
    obs_cov = hide_noise(now.obs_cov, y.observed)
    noise = linalg.cholesky(obs_cov)
    residuals = jax.vmap(lambda prediction: y.observed * now.subtract(y.value, prediction))(predictions)

    def score(residual: Array, prediction: Array) -> tuple[Array, Array]:
        gaussian = log_density(residual, noise, y.num_observed)
        return likelihood.log_weight(residual, y.observed * prediction, noise, y.num_observed), gaussian

    scores, gaussian = jax.vmap(score)(residuals, predictions)
    used = (y.num_observed > 0) & ~y.non_finite & jnp.isfinite(logsumexp(scores))
    unnormalised = state.log_weights + jnp.where(used, scores, 0.0)
    new = state._replace(log_weights=unnormalised - logsumexp(unnormalised), t=state.t + 1)
    before = jnp.exp(state.log_weights)
    residual = before @ residuals
    around = (residuals - residual[None]) * y.observed[None]
    innovation_cov = (before[:, None] * around).T @ around + obs_cov
    nis = linalg.sum_leading(linalg.cholesky(innovation_cov).half(residual) ** 2)
    weight = jnp.where(used, _equivalent_weight(likelihood, new, residuals, predictions, noise, y), 0.0)
    info = StepInfo(
        predicted=Gaussian(state.mean, state.cov),
        residual=residual,
        innovation_cov=innovation_cov,
        weight=weight,
        outlier=y.any_present & (weight**2 < OUTLIER_POWER),
        nis=nis,
        log_likelihood=jnp.where(used, logsumexp(state.log_weights + gaussian), 0.0),
    )
    return new, info


def _equivalent_weight(
    likelihood: ParticleLikelihood,
    state: ParticleState,
    residuals: Array,
    predictions: Array,
    noise: Cholesky,
    y: Measurement,
) -> Array:
    """Compute the weight equivalent to a likelihood: w² is its score along the residual over the Gaussian one.

    A Gaussian likelihood raised to the power w² has a score of w² times the Gaussian one.
    """

    def score(residual: Array, prediction: Array) -> Array:
        def along(scale: Array) -> Array:
            return likelihood.log_weight(scale * residual, y.observed * prediction, noise, y.num_observed)

        return -jax.grad(along)(jnp.ones_like(y.num_observed))

    gaussian = jax.vmap(lambda residual: linalg.sum_leading(noise.half(residual) ** 2))(residuals)
    weights = jnp.exp(state.log_weights)
    total = weights @ gaussian
    share = (weights @ jax.vmap(score)(residuals, predictions)) / jnp.where(total > 0, total, 1.0)
    return linalg.safe_sqrt(jnp.clip(share, 0.0, 1.0))


def resample(state: ParticleState, key: Array, below: Number) -> ParticleState:
    """Resample systematically if the effective sample size is below a share of the particles."""
    num = len(state.particles)
    dtype = state.log_weights.dtype
    positions = (jnp.arange(num, dtype=dtype) + jax.random.uniform(key, (), dtype)) / num
    chosen = jnp.searchsorted(jnp.cumsum(jnp.exp(state.log_weights)), positions)
    resampled = state._replace(
        particles=state.particles[jnp.minimum(chosen, num - 1)],
        log_weights=jnp.full_like(state.log_weights, -jnp.log(num)),
    )
    needed = state.effective_size < below * num
    return jax.tree.map(lambda new, old: jnp.where(needed, new, old), resampled, state)


def _draws(key: Array, root: Array, num: int) -> Array:
    return jax.random.normal(key, (num, root.shape[1]), root.dtype) @ root.T


def _key_or_dummy(key: Array | None) -> Array:
    """Return the key, or a dummy where only shapes matter; the public API requires a key."""
    return jax.random.key(0) if key is None else key
