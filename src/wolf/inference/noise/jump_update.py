"""The update by a measurement that is accepted as a jump of the state: inflate the prior, and use ordinary noise.

In coordinates where R = I, with z the residual, G the predicted covariance of the signal and r the scale of ordinary
noise, the prior is inflated by

    κ = (zᵀ G z - r tr G) / tr G²,

the factor for which κ G + r I explains z zᵀ. It is limited so that the prior variance stays below 1e9 times that of the
noise: the posterior is then within 1e-9 of the measurement, and a covariance has digits for that.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.beliefs import LazyGaussian
from wolf.beliefs.mixture_sqrt_update import MixtureComponents
from wolf.beliefs.updates import (
    GateUpdate,
    InformationRoots,
    KnownTerms,
    MixtureUpdate,
    NoiseFactorUpdate,
    Update,
    WeightedUpdate,
)
from wolf.inference.noise.whitened import Whitened
from wolf.interfaces import UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, matvec, sum_leading

MAX_PRIOR_TO_NOISE = {8: 1e9, 4: 1e4}  # variance ratio that no inflation exceeds, by the bytes of a number


def retained_information(
    decision: UpdateDecision, rows: slice | np.ndarray, white: Whitened | None, ordinary: Array
) -> Array:
    """Compute the share of the information of a measurement with ordinary noise that a decision uses, `r tr(R WᵀW)/M`.

    Args:
        decision: of the wrapped noise model.
        rows: coordinates of the sensor.
        white: the measurement in white coordinates; not used where the decision has an outlier probability.
        ordinary: r.
    """
    if decision.outlier is not None:
        return 1.0 - (decision.outlier if decision.outlier.ndim == 0 else decision.outlier[rows].max())
    assert white is not None, "without an outlier probability the share is computed in white coordinates"
    size = jnp.maximum(white.num_observed, 1.0)
    if isinstance(decision.update, MixtureUpdate):
        return ordinary * sum_leading(linalg.diagonal(decision.update.information())) / size
    weight = decision.update.weight
    if weight.ndim == 0:
        return ordinary * weight**2
    if weight.ndim == 1:
        return ordinary * sum_leading(weight[rows] ** 2) / size
    return ordinary * (matmul(weight, white.noise.matrix()) ** 2).sum() / size


def with_ordinary_noise(update: Update, accepted: Array, white: Whitened, ordinary: Array, inflation: Array) -> Update:
    """Replace an update, where a jump is accepted, by one of the same kind with noise r R.

    Args:
        update: of the wrapped noise model.
        accepted: whether the measurement is accepted as a jump, ().
        white: the measurement in white coordinates.
        ordinary: r.
        inflation: κ.
    """
    identity = linalg.eye(white.signal.shape[0], white.signal)
    if isinstance(update, MixtureUpdate):  # with noise r I, S = κ G + r I
        factor = linalg.cholesky(inflation * white.signal + ordinary * identity)
        inverse = factor.solve(identity)
        ordinary_update = update._replace(
            gain=linalg.symmetrise(inverse), rest=ordinary * inverse, doubt=jnp.zeros_like(inverse)
        )
        if update.sizes is not None:  # all components have the scale r
            ones = jnp.ones_like(update.sizes.scales)
            ordinary_update = ordinary_update._replace(
                sizes=MixtureComponents(ordinary * ones, ones / len(ones), jnp.zeros_like(ordinary))
            )
        if update.roots is not None:
            ordinary_update = ordinary_update._replace(
                roots=InformationRoots(identity / jnp.sqrt(ordinary), jnp.zeros_like(update.roots.doubt))
            )
        if update.known_terms is not None:
            log_rest = len(identity) * jnp.log(ordinary) - factor.log_det()
            ordinary_update = ordinary_update._replace(known_terms=KnownTerms(log_rest, white.num_observed / ordinary))
        return jax.tree.map(lambda new, old: jnp.where(accepted, new, old), ordinary_update, update)
    power = 1.0 / jnp.sqrt(ordinary)
    if isinstance(update, NoiseFactorUpdate):
        noise_factor = jnp.where(accepted, ordinary, update.factor)
        return update._replace(factor=noise_factor, weight=jnp.where(accepted, power, update.weight))
    if isinstance(update, GateUpdate):  # of a noise model without scales: r is 1
        return update._replace(weight=jnp.where(accepted, power, update.weight))
    weight = power if update.weight.ndim < 2 else power * white.noise.half(identity)
    update = update._replace(weight=jnp.where(accepted, weight, update.weight))
    if isinstance(update, WeightedUpdate) and update.spread is not None:
        return update._replace(spread=jnp.where(accepted, 0.0, update.spread))
    return update


def prior_inflation(context: UpdateContext, white: Whitened, ordinary: Array, diverged: Array) -> Array:
    """Compute κ such that κ G + r I explains z zᵀ, in the metric of G: it need not have full rank.

    Args:
        context: the measurement.
        white: the same in white coordinates.
        ordinary: r.
        diverged: whether the prediction is worthless; κ is then at its limit.
    """
    surplus = sum_leading(white.residual * matvec(white.signal, white.residual)) - ordinary * sum_leading(
        linalg.diagonal(white.signal)
    )
    tiny = jnp.finfo(surplus.dtype).tiny
    needed = surplus / jnp.maximum((white.signal**2).sum((0, 1)), tiny)
    limit = MAX_PRIOR_TO_NOISE[surplus.dtype.itemsize] * ordinary / jnp.maximum(_prior_to_noise(context, white), tiny)
    return jnp.maximum(1.0, jnp.where(diverged, limit, jnp.minimum(needed, limit)))


def _prior_to_noise(context: UpdateContext, white: Whitened) -> Array:
    """Compare the belief with the noise, `tr(R⁻¹ H diag(P) Hᵀ)`: without the covariances, which may cancel in G."""
    if isinstance(context.belief, LazyGaussian):
        return sum_leading(linalg.diagonal(white.signal))
    variances = linalg.diagonal(context.belief.cov)
    return (white.noise.half(context.view.jac) ** 2 * variances[None]).sum((0, 1))
