"""A measurement in white coordinates, in which every noise model with inner iterations works.

With R = L Lᵀ the residual becomes z = L⁻¹ e and the covariance that the state explains G = L⁻¹ H P Hᵀ L⁻ᵀ. If the
noise there is N, the posterior residual is N (G + N)⁻¹ z and the posterior covariance of H x is N (G + N)⁻¹ G, so an
inner iteration costs a solve in the few measured coordinates and never touches the state.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from wolf.interfaces import UpdateContext
from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, matvec, sum_leading, transpose

FAR_QUANTILE = 2.3263478740408408  # standard normal 99 %

TreeT = TypeVar("TreeT")  # any nesting of arrays


class Whitened(NamedTuple):
    """A measurement in white coordinates, zero where it is missing.

    Attributes:
        residual: z, (M,).
        signal: G, (M, M).
        noise: factor L of R; None where it is not needed.
        num_observed: number of measured coordinates.
        observed: (M,), 1 where measured, 0 elsewhere; None if all are.
        inverse: L⁻¹, (M, M), where it was computed.
    """

    residual: Array
    signal: Array
    noise: Any
    num_observed: Array
    observed: Array | None = None
    inverse: Array | None = None

    def whitening(self) -> Array:
        """Return L⁻¹, (M, M)."""
        return self.noise.half(linalg.eye(len(self.signal), self.signal)) if self.inverse is None else self.inverse


def whiten(context: UpdateContext) -> Whitened:
    """Transform a measurement to white coordinates."""
    noise, spread = linalg.cholesky(context.obs_cov), context.belief.signal(context.view)
    inverse: Array | None = None
    if linalg.library_matmul(len(spread)):
        inverse, signal = linalg.whiten_both(context.obs_cov, spread)
        return Whitened(
            inverse @ context.residual, signal, noise, sum_leading(context.observed), context.observed, inverse
        )
    if noise.entries:
        signal = linalg.symmetrise(noise.half(transpose(noise.half(spread))))
    else:  # one substitution and two products, which are far faster
        inverse = noise.half(linalg.eye(len(spread), spread))
        signal = linalg.sandwich(inverse, spread)
    return Whitened(
        noise.half(context.residual), signal, noise, sum_leading(context.observed), context.observed, inverse
    )


def expected_distance(white: Whitened, power: Array) -> Array:
    """Compute `E (y - Hx)ᵀ R⁻¹ (y - Hx)` under the posterior of a likelihood raised to a power: w² or E[λ].

    Args:
        white: the measurement.
        power: () or one for each series.

    Example:
        >>> one = Whitened(jnp.ones(1), jnp.eye(1), linalg.cholesky(jnp.eye(1)), jnp.ones(()))
        >>> float(expected_distance(one, jnp.ones(())))  # residual 1/2, variance 1/2
        0.75
    """
    size = white.signal.shape[0]
    factor = linalg.cholesky(linalg.eye(size, white.signal) + power[None, None] * white.signal)
    spread = sum_leading(linalg.diagonal(factor.solve(white.signal)))
    return sum_leading(factor.solve(white.residual) ** 2) + spread


def expected_square(white: Whitened, noise_cov: Array) -> Array:
    """Compute `E (z - x)(z - x)ᵀ` in white coordinates under the posterior given noise N, (M, M).

    Args:
        white: the measurement.
        noise_cov: N, (M, M), positive definite.
    """
    factor = linalg.cholesky(white.signal + noise_cov)
    left = matvec(noise_cov, factor.solve(white.residual))
    return linalg.outer(left, left) + linalg.symmetrise(matmul(noise_cov, factor.solve(white.signal)))


def whitening_root(white: Whitened, noise_cov: Array) -> Array:
    """Compute W with `Wᵀ W` the inverse noise covariance, in measurement coordinates.

    Args:
        white: the measurement.
        noise_cov: N in white coordinates, (M, M), positive definite.
    """
    identity = linalg.eye(noise_cov.shape[0], noise_cov)
    return linalg.cholesky(noise_cov).half(white.noise.half(identity))


def iterate(update: Callable[[TreeT], TreeT], start: TreeT, times: int) -> TreeT:
    """Repeat a coordinate-ascent step.

    Args:
        update: one step.
        start: initial values.
        times: number of steps.
    """
    if times <= 1:  # no XLA loop, which the fused kernel cannot contain
        return update(start) if times else start
    return jax.lax.fori_loop(0, times, lambda _, values: update(values), start)


def far_distance(count: Array) -> Array:
    """Approximate the 99 % quantile of the χ² distribution (Wilson & Hilferty 1931).

    Args:
        count: degrees of freedom.

    Example:
        >>> round(float(far_distance(jnp.asarray(2.0))), 2)  # exactly 9.21
        9.22
    """
    count = jnp.maximum(count, 1.0)
    spread = (2.0 / 9.0) * (1.0 / count)
    return count * (1.0 - spread + FAR_QUANTILE * jnp.sqrt(spread)) ** 3
