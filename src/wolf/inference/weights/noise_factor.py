"""The factor on R that has the effect of an inverse-multiquadric weight: 1 / w² = 1 + d² / c², without roots.

A scalar weight w > 0 enters an update by w² only, and `w² H P Hᵀ + R` is w² times `H P Hᵀ + R / w²`. For these families
1 / w² is a polynomial of the residual, so that neither a square root nor a division stands between the residual and the
gain. It is limited: R times it is finite, and no w is 0.
"""

import jax.numpy as jnp
from jax import Array


def noise_factor(ratio: Array) -> Array:
    """Compute `1 + d² / c²`, finite for every residual.

    Args:
        ratio: d² / c²; may be infinite.

    Example:
        >>> float(noise_factor(jnp.array(9.0) / 16.0))
        1.5625
    """
    return 1.0 + jnp.minimum(ratio, largest_factor(ratio))


def largest_factor(like: Array) -> float:
    """Return the limit of `noise_factor`: of a measurement with it no influence is left, which would be c² / d."""
    return float(jnp.finfo(like.dtype).max) ** 0.5
