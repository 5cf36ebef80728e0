"""Leave-one-out reweighting: weight each measurement given all others, before *and after* it, and smooth once more.

A filter cannot distinguish an outlier from a turn of the target; given the later measurements a smoother can. Leaving a
measurement out of the smoothed belief gives the cavity; with S_p, S_f, S_s the predicted, filtered and smoothed
covariances of H x, the information that the filter took from the measurement is

    Γ = S_p⁻¹ (S_p - S_f) S_p⁻¹,   Ω = Γ (I - S_p Γ)⁻¹,   cavity covariance C = (I - S_s Ω)⁻¹ S_s

for any noise model. The same noise model, applied to the cavity's residual, gives the new weights, with which the
series is filtered and smoothed once more.
"""

import dataclasses
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.beliefs import Affine, Gaussian
from wolf.beliefs.affine import hide_noise
from wolf.beliefs.updates import WeightedUpdate
from wolf.engine.measurements import preprocess
from wolf.interfaces import Linearization, MemoryT, NoiseModel, UpdateContext, UpdateDecision, at_step
from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, matvec, transpose
from wolf.numerics.pytree import pytree
from wolf.statespace import Model

ArrayT = TypeVar("ArrayT", np.ndarray, Array)


class Cavity(NamedTuple):
    """Prediction of one measurement from all others.

    Attributes:
        residual: measurement minus prediction, (M,).
        cov: of the prediction without the noise, (M, M).
    """

    residual: Array
    cov: Array


@pytree
class FixedWeights(NoiseModel[tuple]):
    """Noise model with weights, inflations and factors on Q that were computed before.

    Args:
        weights: W with information Wᵀ W, (T, M, M).
        inflations: of the predicted covariance, (T,).
        scales: factors on Q, (T,).
    """

    weights: Array = dataclasses.field(repr=False)
    inflations: Array = dataclasses.field(repr=False)
    scales: Array = dataclasses.field(repr=False)

    @property
    def time_varying_fields(self) -> tuple[str, ...]:
        """All fields have a row for each step."""
        return ("weights", "inflations", "scales")

    def predict(self, memory: tuple, view: Affine, noise_cov: Array | None, t: Array) -> tuple[Array | None, tuple]:
        """Scale Q by the factor of the step."""
        return None if noise_cov is None else at_step(self.scales, t, 0) * noise_cov, memory

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Return the weight and the inflation of the step."""
        scale, inflation = (at_step(rows, context.t, 0) for rows in (self.scales, self.inflations))
        weight = at_step(self.weights, context.t, 2)
        return UpdateDecision(WeightedUpdate(weight), inflation=inflation, scales=(jnp.ones_like(scale), scale))


@jax.jit
def reweight_leave_one_out(
    model: Model,
    linearization: Linearization,
    noise: NoiseModel[MemoryT],
    memory: MemoryT,
    ys: Array,
    beliefs: tuple[Gaussian, Gaussian, Gaussian],
    inputs: Array | None = None,
    sizes: Array | None = None,
) -> Array:
    """Compute the leave-one-out weight of each measurement.

    Args:
        model: as filtered.
        linearization: of the filter.
        noise: noise model of the filter.
        memory: of the noise model after the last measurement.
        ys: measurements, (T, M), NaN where there was none.
        beliefs: predicted, filtered and smoothed, each with means (T, D) and covariances (T, D, D).
        inputs: (T, U).
        sizes: scale of ordinary noise at each step, (T,) or (T, M), where the noise model estimates it; the last one
            is that of the memory.

    Returns:
        W for each, (T, M, M).
    """
    steps = jnp.arange(len(ys))
    change = relative_deviations(ys, sizes)

    def one(t: Array, y: Array, belief: tuple, u: Array | None, change: Array) -> Array:
        return loo_weight(model.at(t), linearization, noise, memory, y, belief, u, change)

    axes = (0, 0, 0, None if inputs is None else 0, 0)
    return jax.vmap(one, in_axes=axes)(steps, ys, beliefs, inputs, change)


def loo_weight(
    now: Model,
    linearization: Linearization,
    noise: NoiseModel[MemoryT],
    memory: MemoryT,
    y: Array,
    belief: tuple,
    u: Array | None,
    change: Array,
) -> Array:
    """Compute the leave-one-out weight of one measurement.

    Args:
        now: the model at its step.
        linearization: of the filter.
        noise: noise model of the filter.
        memory: of the noise model after the last measurement.
        y: (M,), NaN where there was none.
        belief: predicted, filtered and smoothed.
        u: input.
        change: relative standard deviation of its noise, (M,).
    """
    cavity, observed, obs_cov = leave_out(now, linearization, y, belief, u)
    obs_cov = hide_noise(obs_cov * linalg.outer(change, change), observed)
    context = UpdateContext(
        cavity.residual,
        Affine(jnp.zeros_like(y), linalg.eye(len(y), cavity.cov)),
        Gaussian(jnp.zeros_like(y), cavity.cov),
        obs_cov,
        observed,
        linalg.cholesky(cavity.cov + obs_cov),
        memory,
        jnp.zeros((), jnp.int32),
    )
    return noise.loo_information_root(context) * observed[None]


def relative_deviations(ys: ArrayT, sizes: ArrayT | None) -> ArrayT:
    """Compute the standard deviation of ordinary noise at each step relative to the last step, (T, M).

    Args:
        ys: measurements, (T, M), an array of NumPy or JAX.
        sizes: scale of ordinary noise, (T,) or (T, M); None for a constant one.
    """
    xp = linalg.array_namespace(ys)
    change = xp.ones_like(ys) if sizes is None else xp.sqrt(sizes / sizes[-1])
    return xp.broadcast_to(change if change.ndim == 2 else change[:, None], ys.shape)


def leave_out(
    now: Model, linearization: Linearization, y: Array, belief: tuple, u: Array | None
) -> tuple[Cavity, Array, Array]:
    """Compute the cavity of one measurement.

    Returns:
        The cavity, (M,) 1 where there is a number, and R for these coordinates.
    """
    before, after, whole = belief
    usable = preprocess(y)
    view = linearization(now.projection(u), whole).with_jac()
    obs_cov = hide_noise(now.obs_cov_at(whole.mean, u), usable.observed)
    jac = usable.observed[:, None] * view.jac
    prior, post, smooth = (linalg.sandwich(jac, each.cov) for each in belief)
    lost = linalg.symmetrise(linalg.psd_solve(prior, transpose(linalg.psd_solve(prior, prior - post))))
    # With S_p = A Aᵀ and S_s = B Bᵀ, symmetric matrices do: Γ may be indefinite for a mixture of noise scales.
    root = linalg.psd_root(prior)
    product = matmul(lost, root)
    taken = lost + linalg.gram(transpose(_complement_factor(root, product).half(transpose(product))))
    root = linalg.psd_root(smooth)
    cov = linalg.gram(transpose(_complement_factor(root, matmul(taken, root)).half(transpose(root))))
    pull = linalg.psd_solve(prior, matvec(jac, after.mean - before.mean)[:, None])[:, 0]
    # H m_c = H m_s + C (Ω H (m_s - m_p) - (I + Ω S_p) g)
    shift = matvec(taken, matvec(jac, whole.mean - before.mean)) - pull - matvec(taken, matvec(prior, pull))
    error = usable.observed * now.subtract(jnp.where(usable.observed > 0, y, view.mean), view.mean)
    return Cavity(error - matvec(cov, shift), cov), usable.observed, obs_cov


def _complement_factor(root: Array, product: Array) -> linalg.Cholesky:
    """Factorise I - Aᵀ Γ A, given A and Γ A."""
    return linalg.cholesky(linalg.eye(len(root), root) - linalg.symmetrise(matmul(transpose(root), product)))
