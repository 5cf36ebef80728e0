"""Noise of several possible sizes, for a prior so wide that matrices of the residual lose what is small beside it.

In coordinates where R = I and the state is m + A ξ with ξ ~ N(0, I), a measurement is z = B ξ + noise, B = H A. Each
size s is a Kalman update of ξ by orthogonalisation, which forms no product of B:

    [[√s I, B], [0, I]]  ->  [[S½, 0], [K S½, X]]

and the mean and covariance of their mixture are sums of positive terms. What takes S⁻¹ itself instead is off by
(prior / noise) x 1e-16, squared and times the prior.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf.beliefs.affine import Affine
from wolf.beliefs.density import LOG_2PI
from wolf.numerics import linalg
from wolf.numerics.linalg import Cholesky, matmul, matvec

WIDE = 1e5  # variance of a residual over that of its noise from which roots are taken: below, 1e-6 is lost at most
LARGEST_STATE = 16  # roots of more states than this are worth a form of their own


class MixtureComponents(NamedTuple):
    """Which sizes the noise may have had.

    Attributes:
        scales: s_k, (K,), as multiples of R.
        share: γ_k, (K,), how likely each was.
        lost: how likely it was none of them, and the measurement says nothing.
    """

    scales: Any
    share: Any
    lost: Any


def may_lose(states: int, measured: int) -> bool:
    """Say whether a wide prior can cost anything: one coordinate has its inverse without a difference."""
    return measured > 1 and states <= LARGEST_STATE


def is_wide(signal: Array) -> Array:
    """Say whether a residual is far wider than its noise, in white coordinates."""
    return linalg.max_leading(linalg.diagonal(signal)) > WIDE


def whiten_rows(whiten: Any, view: Affine, root: Array) -> Array:
    """Form B, (M, U): the state's part, then what a straight line leaves of h as so many more unknowns."""
    seen = matmul(whiten(view.jac), root)
    return seen if view.root is None else jnp.concatenate([seen, whiten(view.root)], axis=1)


def factors(design: Array, scales: Array) -> Cholesky:
    """Factorise B Bᵀ + s_k I for each size, on a trailing axis."""
    return linalg.from_lower(linalg.lq_loop(_top(design, scales)))


def mix(mean: Array, root: Array, design: Array, error: Array, sizes: MixtureComponents) -> tuple[Array, Array, Array]:
    """Match the mean and the covariance of the mixture.

    Args:
        mean: m, (D,).
        root: A, (D, D).
        design: B, (M, U); of its unknowns the first D are ξ.
        error: z, (M,).
        sizes: which the noise may have had.

    Returns:
        Mean, root of the covariance, and the log density that `MixtureUpdate` gives for the one noise it stands for.
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
    """Write the rows [√s I, B] of each size, on a trailing axis."""
    noise = linalg.eye(len(design), design)[..., None] * jnp.sqrt(scales)
    spread = jnp.broadcast_to(design[..., None], (*design.shape, len(scales)))
    return jnp.concatenate([noise, spread], axis=1)
