"""Square-root update with a Gaussian scale mixture, for priors so wide that residual covariances lose small terms.

In coordinates where R = I and the state is m + A ξ with ξ ~ N(0, I), a measurement is z = B ξ + noise, B = H A. Each
component with scale s is a Kalman update of ξ by orthogonalisation, which forms no product of B:

    [[√s I, B], [0, I]]  ->  [[S½, 0], [K S½, X]]

and the mean and covariance of the mixture are sums of positive terms. With S⁻¹ instead, the error is
(prior / noise) x 1e-16, squared and times the prior.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf.beliefs.affine import Affine
from wolf.beliefs.density import LOG_2PI
from wolf.numerics import linalg
from wolf.numerics.linalg import Cholesky, matmul, matvec

WIDE_PRIOR_RATIO = (
    1e5  # signal variance over noise variance above which roots are used: below, the error is at most 1e-6
)
MAX_STATES = 16  # larger states would need a form of their own


class MixtureComponents(NamedTuple):
    """Posterior of the scale-mixture components of a measurement.

    Attributes:
        scales: s_k, (K,), scale factors of R.
        share: γ_k, (K,), posterior probability of each component.
        lost: posterior probability of the uninformative component, for which the measurement is ignored.
    """

    scales: Array
    share: Array
    lost: Array


def can_lose_precision(states: int, measured: int) -> bool:
    """Return whether a wide prior can lose digits; with one coordinate the inverse has no cancellation."""
    return measured > 1 and states <= MAX_STATES


def is_wide(signal: Array) -> Array:
    """Return whether the signal covariance is far larger than the noise, in white coordinates."""
    return linalg.max_leading(linalg.diagonal(signal)) > WIDE_PRIOR_RATIO


def whiten_rows(whiten: Callable[[Array], Array], view: Affine, root: Array) -> Array:
    """Compute B, (M, U): the columns of the state, then those of the linearization error as further unknowns."""
    of_state = matmul(whiten(view.jac), root)
    return of_state if view.root is None else jnp.concatenate([of_state, whiten(view.root)], axis=1)


def factors(design: Array, scales: Array) -> Cholesky:
    """Factorise B Bᵀ + s_k I for each component, on a trailing axis."""
    return linalg.from_lower(linalg.lq_loop(_top(design, scales)))


def mix(mean: Array, root: Array, design: Array, error: Array, sizes: MixtureComponents) -> tuple[Array, Array, Array]:
    """Compute the mean and covariance of the posterior mixture (moment matching).

    Args:
        mean: m, (D,).
        root: A, (D, D).
        design: B, (M, U); the first D of its unknowns are ξ.
        error: z, (M,).
        sizes: components of the noise.

    Returns:
        Mean, root of the covariance, and the log density of `MixtureUpdate`, that of its equivalent single noise.
    """
    (measured, unknowns), state = design.shape, len(mean)
    count = len(sizes.scales)
    eye = jnp.broadcast_to(linalg.eye(unknowns, design)[..., None], (unknowns, unknowns, count))
    blank = jnp.zeros((unknowns, measured, count), design.dtype)
    rows = jnp.concatenate([_top(design, sizes.scales), jnp.concatenate([blank, eye], axis=1)])
    lower = linalg.lq_loop(rows)
    white = linalg.from_lower(lower[:measured, :measured]).half(jnp.broadcast_to(error[:, None], (measured, count)))
    shifts = (lower[measured:, :measured] * white[None]).sum(1)
    shift = (sizes.share[None] * shifts).sum(1)
    roots, lost = linalg.safe_sqrt(sizes.share), linalg.safe_sqrt(sizes.lost)
    kept = jnp.moveaxis(lower[measured:, measured:] * roots, 2, 1).reshape(unknowns, count * unknowns)
    within = jnp.concatenate([kept, lost * eye[..., 0]], axis=1)
    between = jnp.concatenate([roots * (shifts - shift[:, None]), lost * shift[:, None]], axis=1)
    # log |I - A S| of the measurement is log |Σ γ X Xᵀ + lost I| of the unknowns.
    log_det = 2.0 * linalg.sum_leading(jnp.log(linalg.diagonal(linalg.lq_loop(within))))
    distance = (sizes.share * (white**2).sum(0)).sum()
    new = matmul(root, linalg.lq_loop(jnp.concatenate([within, between], axis=1))[:state, :state])
    return mean + matvec(root, shift[:state]), new, 0.5 * (log_det - measured * LOG_2PI - distance)


def _top(design: Array, scales: Array) -> Array:
    """Build the rows [√s I, B] of each component, on a trailing axis."""
    noise = linalg.eye(len(design), design)[..., None] * jnp.sqrt(scales)
    spread = jnp.broadcast_to(design[..., None], (*design.shape, len(scales)))
    return jnp.concatenate([noise, spread], axis=1)
