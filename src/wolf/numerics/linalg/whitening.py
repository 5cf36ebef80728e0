"""Coordinates in which a covariance is the identity, for matrices that are passed to LAPACK.

With R = L Lᵀ and X = L⁻¹ another covariance S becomes G = X S Xᵀ. Most R are diagonal, also where a part of the
measurement is missing: X is then diagonal too, and a factorisation, a substitution and two products reduce to a few
multiplications. Whether R is diagonal is tested in each step, by its entries.
"""

import jax
import jax.numpy as jnp
from jax import Array

from wolf.numerics.linalg.cholesky import cholesky
from wolf.numerics.linalg.matmul import diagonal, eye, outer, sandwich, symmetrise, transpose


@jax.custom_jvp
def whiten_both(cov: Array, spread: Array) -> tuple[Array, Array]:
    """Compute X and G.

    Args:
        cov: R, (M, M), positive definite.
        spread: S, (M, M), symmetric.

    Example:
        >>> inverse, white = whiten_both(4.0 * jnp.eye(2), jnp.ones((2, 2)))
        >>> inverse[0].tolist(), white[0].tolist()
        ([0.5, 0.0], [0.25, 0.25])
    """
    variances, identity = diagonal(cov), eye(len(cov), cov)

    def scaled() -> tuple[Array, Array]:
        each = 1.0 / jnp.sqrt(variances)
        return identity * each[:, None], outer(each, each) * spread

    def mixed() -> tuple[Array, Array]:
        inverse = cholesky(cov).half(identity)
        return inverse, sandwich(inverse, spread)

    alone = (jnp.where(identity > 0, 0.0, cov) == 0.0).all()
    return jax.lax.cond(alone, scaled, mixed)


@whiten_both.defjvp
def _differentiate(given: tuple, moved: tuple) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Compute the tangents of X and G from those of R and S, valid in both branches: a diagonal R may not stay so.

    With Φ the lower half of X dR Xᵀ, and half of its diagonal, dL = L Φ and dX = -Φ X.
    """
    inverse, white = whiten_both(*given)
    cov, spread = moved
    turned = inverse @ cov @ transpose(inverse)
    lower = jnp.tril(turned) - 0.5 * jnp.diag(jnp.diagonal(turned))
    moving = lower @ white
    turning = inverse @ spread @ transpose(inverse) - moving - transpose(moving)
    return (inverse, white), (-lower @ inverse, symmetrise(turning))
