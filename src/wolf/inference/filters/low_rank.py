"""Low-rank filter for many parameters: the precision matrix is a diagonal plus a low-rank term.

    P⁻¹ = diag(Υ) + W Wᵀ,  W of shape (D, L)

This is LoFi, the low-rank filter of Chang et al. (2023, "Low-rank extended Kalman filtering for online learning of
neural networks from streaming data"), with the weights of WoLF: a measurement appends `w Hᵀ R^(-½)` to W, exactly; then
the L leading directions are kept and the diagonal of the others is added to Υ. Rank 0 is the variational diagonal
filter. A step costs O(D L²), and no matrix of size D² is formed; with L = D the filter is exact.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.beliefs.affine import hide_noise
from wolf.beliefs.density import log_density
from wolf.inference.filters.gaussian import OUTLIER_POWER
from wolf.inference.linearization import Taylor
from wolf.inference.noise import Weighted
from wolf.inference.weights import Unweighted
from wolf.interfaces import Filter, Measurement, NoiseModel, Requirements, StepInfo, UpdateContext
from wolf.numerics import linalg
from wolf.numerics.linalg import Cholesky
from wolf.numerics.pytree import pytree, static
from wolf.statespace import Model, ParameterModel


class LowRankState(NamedTuple):
    """Belief by its precision, and number of measurements processed.

    Attributes:
        mean: (D,).
        diagonal: Υ, (D,).
        directions: W, (D, L).
        t: number of measurements.
    """

    mean: Array
    diagonal: Array
    directions: Array
    t: Array

    @property
    def cov(self) -> None:
        """None: a D x D matrix is never formed."""
        return None

    @property
    def variances(self) -> Array:
        """Diagonal of the covariance, (D,)."""
        if self.directions.shape[1] == 0:
            return 1.0 / self.diagonal
        xp = linalg.array_namespace(self.diagonal)
        scaled = self.directions / self.diagonal[:, None]
        inner = xp.eye(self.directions.shape[1], dtype=scaled.dtype) + self.directions.T @ scaled
        return 1.0 / self.diagonal - (scaled.T * xp.linalg.solve(inner, scaled.T)).sum(0)

    def project(self, jac: Array) -> Array:
        """Compute the covariance of `jac θ`, (M, M)."""
        return linalg.symmetrise(jac @ _solve(self.diagonal, self.directions, jac.T))


@pytree
class LowRankFilter(Filter):
    """Low-rank extended Kalman filter for many parameters; built by `wolf.LowRank`.

    Args:
        noise: a `wolf.noise.Weighted`, which determines the weight of a measurement.
        rank: number of directions L in addition to the diagonal.
    """

    noise: NoiseModel = Weighted(Unweighted())
    rank: int = static(default=10)

    def __post_init__(self) -> None:
        """Validate the rank and the noise model."""
        validation.integer("rank", self.rank)

        if not isinstance(self.noise, Weighted):
            raise ValueError(f"LowRank takes a weight, as wolf.noise.Weighted(wolf.IMQ(c=4.0)); got {self.noise!r}")

    @property
    def requirements(self) -> Requirements:
        """No covariances in the results."""
        return Requirements(covariances=False)

    def check(self, model: Model) -> None:
        """Validate that the model has parameters with independent priors."""
        self.noise.check(model)
        if not isinstance(model, ParameterModel) or model.cov.ndim == 2:
            raise ValueError(
                "LowRank takes models of parameters with independent priors, as wolf.models.mlp(...) or "
                f"from_function(...) with prior_var a number or (D,); got {model!r}"
            )
        if not (model.cov > 0).all():
            raise ValueError("LowRank needs positive prior variances; leave out parameters that are known")

    def init(self, model: ParameterModel, key: Array | None = None) -> LowRankState:
        """Return the initial state from the model's prior."""
        mean = jnp.asarray(model.mean)
        diagonal = jnp.broadcast_to(1.0 / jnp.asarray(model.cov), mean.shape)
        blank = jnp.zeros((len(mean), min(self.rank, len(mean))), mean.dtype)
        return LowRankState(mean, diagonal, blank, jnp.zeros((), jnp.int32))

    def predict(
        self, now: ParameterModel, state: LowRankState, u: Array | None, key: Array | None = None
    ) -> LowRankState:
        """Add the drift of the parameters: (Υ + W Wᵀ)⁻¹ + Q in the same form, exactly, by Woodbury."""
        if now.step_cov is None:
            return state
        shrunk = 1.0 / (1.0 + now.step_cov * state.diagonal)
        if state.directions.shape[1] == 0:
            return state._replace(diagonal=shrunk * state.diagonal)
        scaled = jnp.broadcast_to(now.step_cov * shrunk, state.mean.shape)[:, None] * state.directions
        inner = linalg.eye(state.directions.shape[1], scaled) + state.directions.T @ scaled
        directions = linalg.cholesky(inner).half((shrunk[:, None] * state.directions).T).T
        return LowRankState(state.mean, shrunk * state.diagonal, directions, state.t)

    def update(
        self, now: ParameterModel, state: LowRankState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[LowRankState, StepInfo]:
        """Update with one measurement."""
        view = Taylor()(now.projection(u), Gaussian(state.mean, None)).with_jac()
        obs_cov = hide_noise(now.obs_cov_at(state.mean, u), y.observed)
        residual = y.observed * (y.value - view.mean)
        jac = y.observed[:, None] * view.jac
        factor = linalg.cholesky(state.project(jac) + obs_cov)
        context: UpdateContext = UpdateContext(residual, view._replace(jac=jac), state, obs_cov, y.observed, factor)
        readable = self.noise(context).update.readable(obs_cov, y.observed)
        weight = jnp.broadcast_to(readable, residual.shape) * y.observed
        noise_factor = linalg.cholesky(obs_cov)
        white = noise_factor.half(weight[:, None] * jac)  # (M, D): precision gains whiteᵀ white
        wide = jnp.concatenate([state.directions, white.T], axis=1)
        step = _solve(state.diagonal, wide, white.T @ noise_factor.half(weight * residual))
        diagonal, directions = _truncate(state.diagonal, wide, state.directions.shape[1])
        joint = readable.ndim == 0
        used = (y.num_observed > 0) & jnp.isfinite(step).all() & ~(y.non_finite & joint)
        new = LowRankState(
            jnp.where(used, state.mean + step, state.mean),
            jnp.where(used, diagonal, state.diagonal),
            jnp.where(used, directions, state.directions),
            state.t + 1,
        )
        reported = jnp.where(used, readable, 0.0)
        info = StepInfo(
            residual=residual,
            innovation_cov=factor.product(),
            weight=jnp.minimum(reported, 1.0),
            outlier=(y.any_present if joint else y.present) & (reported**2 < OUTLIER_POWER),
            nis=linalg.sum_leading(factor.half(residual) ** 2),
            log_likelihood=log_density(residual, factor, y.num_observed),
        )
        return new, info


def _inner(diagonal: Array, directions: Array) -> Cholesky:
    """Factorise I + Wᵀ Υ⁻¹ W, (L, L)."""
    eye = jnp.eye(directions.shape[1], dtype=directions.dtype)
    return linalg.cholesky(eye + directions.T @ (directions / diagonal[:, None]))


def _solve(diagonal: Array, directions: Array, b: Array) -> Array:
    """Compute (Υ + W Wᵀ)⁻¹ b for a vector or a matrix b, by Woodbury."""
    scaled = b / (diagonal if b.ndim == 1 else diagonal[:, None])
    if directions.shape[1] == 0:
        return scaled
    inside = _inner(diagonal, directions).solve(directions.T @ scaled)
    correction = directions @ inside
    return scaled - correction / (diagonal if b.ndim == 1 else diagonal[:, None])


def _truncate(diagonal: Array, wide: Array, rank: int) -> tuple[Array, Array]:
    """Truncate W to its leading directions, and add the diagonal of the others to Υ.

    The directions are the left singular vectors of W, computed from its small Gram matrix; eigh sorts in ascending
    order.
    """
    num_dropped = wide.shape[1] - rank
    if rank == 0:
        return diagonal + (wide**2).sum(1), wide[:, :0]
    _, rotation = jnp.linalg.eigh(wide.T @ wide)
    rotated = wide @ rotation
    return diagonal + (rotated[:, :num_dropped] ** 2).sum(1), rotated[:, num_dropped:]
