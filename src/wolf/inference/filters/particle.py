"""Particle filters: samples of the state, or of what is measured of it, weighted by any law of the noise.

Gordon, Salmond & Smith (1993) for the bootstrap filter; Boustati et al. (2020) for the generalised Bayesian weights of
`wolf.noise.BetaLikelihood`; Doucet et al. (2000) for Rao-Blackwellisation; Kitagawa (1996) for systematic resampling.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.beliefs.affine import hide_noise
from wolf.beliefs.density import log_density
from wolf.inference.filters.gaussian import OUTLIER_POWER
from wolf.inference.noise.particle_likelihoods import BetaLikelihood
from wolf.interfaces import Filter, Measurement, Requirements, StepInfo
from wolf.numerics import linalg
from wolf.numerics.pytree import pytree, static
from wolf.statespace import LinearModel, Model

NOBODY = 2**32 - 1  # the key of step t is folded from the run's with t; the first draw has this one


class ParticleState(NamedTuple):
    """Weighted samples of the state, (N, D); each stands for a Gaussian with covariance `within` around it."""

    particles: Array
    log_weights: Array
    within: Array
    t: Array

    @property
    def mean(self) -> Array:
        """Mean of the particles."""
        return linalg.array_namespace(self.log_weights).exp(self.log_weights) @ self.particles

    @property
    def cov(self) -> Array:
        """Covariance of the particles."""
        around = self.particles - self.mean[None]
        return (
            linalg.array_namespace(self.log_weights).exp(self.log_weights)[:, None] * around
        ).T @ around + self.within

    @property
    def variances(self) -> Array:
        """Variances."""
        return linalg.diagonal(self.cov)

    @property
    def effective_size(self) -> Array:
        """Number of particles that matter, `1 / Σ w²`."""
        return jnp.exp(-logsumexp(2.0 * self.log_weights))


@pytree
class ParticleFilter(Filter):
    """Carry samples of the whole state, moved by the dynamics and weighted by each measurement.

    Args:
        likelihood: of a measurement, from `wolf.inference.noise.particle_likelihoods`.
        num_particles: N.
        resample_below: draw the particles anew when fewer than this share of them matter.
    """

    likelihood: Any = BetaLikelihood()
    num_particles: int = static(default=1000)
    resample_below: Any = 0.5

    def __post_init__(self) -> None:
        """Check the choices."""
        validation.count("num_particles", self.num_particles)
        validation.probability("resample_below", self.resample_below)

    @property
    def requirements(self) -> Requirements:
        """Random numbers."""
        return Requirements(key=True)

    def init(self, model: Model, key: Array | None = None) -> ParticleState:
        """Draw from the model's prior."""
        mean, cov = jnp.asarray(model.prior.mean), jnp.asarray(model.prior.cov)
        drawn = _draws(jax.random.fold_in(_given(key), NOBODY), linalg.psd_root(cov), self.num_particles)
        even = jnp.full(self.num_particles, -jnp.log(self.num_particles), mean.dtype)
        return ParticleState(mean[None] + drawn, even, jnp.zeros_like(cov), jnp.zeros((), jnp.int32))

    def predict(self, now: Model, state: ParticleState, u: Array | None, key: Array | None = None) -> ParticleState:
        """Draw anew if few particles matter, then move each."""
        pick_key, move_key = jax.random.split(_given(key))
        state = resample(state, pick_key, self.resample_below)
        moved = jax.vmap(now.transition(u))(state.particles)
        return state._replace(particles=moved + _draws(move_key, linalg.psd_root(now.dynamics_cov), len(moved)))

    def update(
        self, now: Model, state: ParticleState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[ParticleState, StepInfo]:
        """Weigh the particles."""
        predictions = jax.vmap(now.projection(u))(state.particles)
        return weigh(self.likelihood, now, state, predictions, y)


@pytree
class RaoBlackwellFilter(Filter):
    """Carry samples of what is measured, Hx, and the rest of the state exactly: fewer dimensions to sample.

    Given a path of Hx the state of a linear model is Gaussian, with a covariance that all particles share.

    Args:
        likelihood: of a measurement. With the true law and many particles this is the best that any filter can do.
        num_particles: N.
        resample_below: draw the particles anew when fewer than this share of them matter.
    """

    likelihood: Any = BetaLikelihood()
    num_particles: int = static(default=1000)
    resample_below: Any = 0.5

    def __post_init__(self) -> None:
        """Check the choices."""
        validation.count("num_particles", self.num_particles)
        validation.probability("resample_below", self.resample_below)

    @property
    def requirements(self) -> Requirements:
        """Random numbers, and a model of matrices."""
        return Requirements(linear=True, key=True)

    def init(self, model: Model, key: Array | None = None) -> ParticleState:
        """Start all particles at the prior, which they share."""
        mean, cov = jnp.asarray(model.prior.mean), jnp.asarray(model.prior.cov)
        even = jnp.full(self.num_particles, -jnp.log(self.num_particles), mean.dtype)
        particles = jnp.broadcast_to(mean, (self.num_particles, *mean.shape))
        return ParticleState(particles, even, cov, jnp.zeros((), jnp.int32))

    def predict(
        self, now: LinearModel, state: ParticleState, u: Array | None, key: Array | None = None
    ) -> ParticleState:
        """Draw anew if few particles matter, then move each; the covariance moves once for all."""
        state = resample(state, jax.random.fold_in(_given(key), 0), self.resample_below)
        move = now.transition(u)
        within = state.within if move.matrix is None else linalg.sandwich(move.matrix, state.within)
        return state._replace(particles=jax.vmap(move)(state.particles), within=within + now.dynamics_cov)

    def update(
        self, now: LinearModel, state: ParticleState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[ParticleState, StepInfo]:
        """Draw Hx for each particle, learn the rest from it, and weigh it by the measurement."""
        matrix = now.projection(u).matrix
        cross = linalg.matmul(matrix, state.within)
        spread = linalg.matmul_symmetric(cross, linalg.transpose(matrix))
        drawn = _draws(jax.random.fold_in(_given(key), 1), linalg.psd_root(spread), len(state.particles))
        gain_t = linalg.psd_solve(spread, cross)
        fixed = state._replace(
            particles=state.particles + drawn @ gain_t,
            within=linalg.symmetrise(state.within - linalg.matmul(linalg.transpose(cross), gain_t)),
        )
        new, info = weigh(self.likelihood, now, fixed, fixed.particles @ matrix.T, y)
        # Without a measurement there is nothing to sample for.
        kept = jax.tree.map(lambda new, old: jnp.where(y.num_observed > 0, new, old), new, state)
        return kept._replace(t=new.t), info._replace(predicted=Gaussian(state.mean, state.cov))


def weigh(
    likelihood: Any, now: Model, state: ParticleState, predictions: Array, y: Measurement
) -> tuple[ParticleState, StepInfo]:
    """Weigh the particles by how well they foresaw a measurement.

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
        usual = log_density(residual, noise, y.num_observed)
        return likelihood.log_weight(residual, y.observed * prediction, noise, y.num_observed), usual

    scores, usual = jax.vmap(score)(residuals, predictions)
    used = (y.num_observed > 0) & ~y.wild & jnp.isfinite(logsumexp(scores))
    weighed = state.log_weights + jnp.where(used, scores, 0.0)
    new = state._replace(log_weights=weighed - logsumexp(weighed), t=state.t + 1)
    before = jnp.exp(state.log_weights)
    residual = before @ residuals
    around = (residuals - residual[None]) * y.observed[None]
    innovation_cov = (before[:, None] * around).T @ around + obs_cov
    nis = linalg.sum_leading(linalg.cholesky(innovation_cov).half(residual) ** 2)
    weight = jnp.where(used, _kept_slope(likelihood, new, residuals, predictions, noise, y), 0.0)
    info = StepInfo(
        predicted=Gaussian(state.mean, state.cov),
        residual=residual,
        innovation_cov=innovation_cov,
        weight=weight,
        outlier=y.came & (weight**2 < OUTLIER_POWER),
        nis=nis,
        log_likelihood=jnp.where(used, logsumexp(state.log_weights + usual), 0.0),
    )
    return new, info


def _kept_slope(
    likelihood: Any, state: ParticleState, residuals: Array, predictions: Array, noise: Any, y: Measurement
) -> Array:
    """Say how far a law believes a measurement: its pull on the particles over that of Gaussian noise, as w².

    For a weight it is w² itself, since a measurement believed to that power pulls w² times as much.
    """

    def pull(residual: Array, prediction: Array) -> Array:
        def along(scale: Array) -> Array:
            return likelihood.log_weight(scale * residual, y.observed * prediction, noise, y.num_observed)

        return -jax.grad(along)(jnp.ones_like(y.num_observed))

    usual = jax.vmap(lambda residual: linalg.sum_leading(noise.half(residual) ** 2))(residuals)
    weights = jnp.exp(state.log_weights)
    total = weights @ usual
    share = (weights @ jax.vmap(pull)(residuals, predictions)) / jnp.where(total > 0, total, 1.0)
    return linalg.safe_sqrt(jnp.clip(share, 0.0, 1.0))


def resample(state: ParticleState, key: Array, below: Any) -> ParticleState:
    """Draw the particles anew, systematically, if fewer than a share of them matter."""
    num = len(state.particles)
    dtype = state.log_weights.dtype
    places = (jnp.arange(num, dtype=dtype) + jax.random.uniform(key, (), dtype)) / num
    chosen = jnp.searchsorted(jnp.cumsum(jnp.exp(state.log_weights)), places)
    fresh = state._replace(
        particles=state.particles[jnp.minimum(chosen, num - 1)],
        log_weights=jnp.full_like(state.log_weights, -jnp.log(num)),
    )
    few = state.effective_size < below * num
    return jax.tree.map(lambda new, old: jnp.where(few, new, old), fresh, state)


def _draws(key: Array, root: Array, num: int) -> Array:
    return jax.random.normal(key, (num, root.shape[1]), root.dtype) @ root.T


def _given(key: Array | None) -> Array:
    """Stand in for a key where only shapes matter; the door asks for a real one."""
    return jax.random.key(0) if key is None else key
