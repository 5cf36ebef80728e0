"""Filter for states with bounds: after each measurement the belief is truncated at them by moment matching.

Truncation, not projection: where a belief N(m, P) extends beyond a bound of coordinate i, the part outside is discarded
and the new Gaussian has the mean and variance of the truncated belief (Simon & Simon 2010). With v = P_ii and the
truncated mean μ and variance ν of that coordinate,

    m ← m + P_·i / v (μ - m_i)          P ← P - P_·i P_i· (v - ν) / v²

one coordinate after the other. For one bounded coordinate these are the exact moments of the truncated belief. With
several the result depends slightly on the order, and a mean that a later coordinate moved out of bounds is clipped.

Bounds of linear combinations A x are treated alike, with v = aᵀ P a and P a in place of P_·i for each row a of A. Where
both bounds of a row are equal this is conditioning on aᵀ x, an equality constraint.

The truncation is applied once per measurement and not in steps without one: repeated truncation would move a belief
away from its bound without any new information. Smoothed beliefs and forecasts are truncated when they are returned.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.inference.filters.covariance_reset import CovarianceReset
from wolf.inference.filters.gaussian import GaussianFilter, GaussianState
from wolf.inference.filters.wrapper import FilterWrapper
from wolf.interfaces import Measurement, StepInfo
from wolf.numerics import linalg
from wolf.numerics.pytree import pytree, static
from wolf.statespace import Model

NODES, WEIGHTS = np.polynomial.legendre.leggauss(48)  # exact to 1e-13 over nine standard deviations
LOG_NEGLIGIBLE = 42.0  # densities below e⁻⁴² of the mode are left out
NEGLIGIBLE_SHARE = 1e-12  # of the variances in a combination, below which its own variance is rounding


@pytree
class TruncatedFilter(FilterWrapper):
    """Filter that truncates the belief at bounds of the state after each measurement.

    Args:
        filter: with a Gaussian belief, as `wolf.WoLF()`.
        lower: lower bounds of the states, (D,), or one number for all; -inf for no bound.
        upper: upper bounds, likewise.
        matrix: A, (K, D), for bounds of the K linear combinations A x instead of the states; equal bounds are equality
            constraints.

    Example:
        >>> import wolf
        >>> level = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> out = wolf.filter(level, [-1.0, -2.0, 0.5], method=wolf.TruncatedFilter(wolf.WoLF(), lower=0.0))
        >>> bool(np.all(out.means > 0.0))
        True
        >>> walk = wolf.LinearModel(None, np.eye(2), 0.1 * np.eye(2), np.eye(2), [0.5, 0.5], np.eye(2))
        >>> shares = wolf.TruncatedFilter(wolf.WoLF(), lower=1.0, upper=1.0, matrix=[[1.0, 1.0]])
        >>> wolf.filter(walk, [[0.9, 0.4], [0.6, 0.1]], method=shares).means.sum(1).round(9).tolist()
        [1.0, 1.0]
    """

    filter: GaussianFilter | CovarianceReset
    lower: float | np.ndarray = -np.inf
    upper: float | np.ndarray = np.inf
    matrix: np.ndarray | None = None
    bounded: tuple[int, ...] | None = static(default=None, init=False)  # coordinates with a bound; None for all

    def __post_init__(self) -> None:
        """Validate the inner filter and the bounds, and determine which states are bounded."""
        if not isinstance(self.filter, CovarianceReset):
            super().__post_init__()
        lower, upper = validation.number_array("lower", self.lower), validation.number_array("upper", self.upper)
        if max(lower.ndim, upper.ndim) > 1 or np.isnan(lower).any() or np.isnan(upper).any():
            raise ValueError(f"lower and upper must be numbers or have shape (D,); got {lower} and {upper}")
        if lower.ndim == upper.ndim == 1 and len(lower) != len(upper):
            raise ValueError(f"lower and upper must have the same length; got {len(lower)} and {len(upper)}")
        if np.any(lower > upper) or np.any(lower == np.inf) or np.any(upper == -np.inf):
            raise ValueError(f"lower must not be above upper; got {lower} and {upper}")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        has = np.isfinite(lower) | np.isfinite(upper)
        object.__setattr__(self, "bounded", tuple(map(int, np.flatnonzero(has))) if has.ndim else None)
        if self.matrix is None:
            return
        matrix = np.atleast_2d(validation.number_array("matrix", self.matrix))
        sizes = {len(bound) for bound in (lower, upper) if bound.ndim} | {len(matrix)}
        if matrix.ndim != 2 or not np.isfinite(matrix).all() or not matrix.any(1).all() or len(sizes) > 1:
            raise ValueError(
                f"matrix must have shape (K, D), with a bound for each of the K rows and no row of zeros; got "
                f"{matrix.shape}, lower {lower.shape} and upper {upper.shape}"
            )
        object.__setattr__(self, "matrix", matrix)

    def check(self, model: Model) -> None:
        """Validate the number of bounds, and the model for the inner filter."""
        if self.matrix is not None:
            if np.shape(self.matrix)[1] != model.state_dim:
                raise ValueError(
                    f"matrix must have a column for each of {model.state_dim} states; got {np.shape(self.matrix)}"
                )
            super().check(model)
            return
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if np.ndim(bound) and np.size(bound) != model.state_dim:
                raise ValueError(
                    f"{name} must be a number or have one value for each of {model.state_dim} states; "
                    f"got {np.size(bound)}"
                )
        super().check(model)

    def update(
        self, now: Model, state: GaussianState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[GaussianState, StepInfo]:
        """Update with one measurement, then truncate at the bounds."""
        updated, info = self.filter.update(now, state, y, u, key)
        truncated, changed = self.truncated(Gaussian(updated.mean, updated.cov))
        belief = updated.belief.replaced(truncated).where(changed & (y.num_observed > 0), updated.belief)
        return updated._replace(belief=belief), info

    def truncated(self, belief: Gaussian) -> tuple[Gaussian, Array]:
        """Truncate a belief at one bound after the other; also return whether any truncation had an effect."""
        mean, cov = belief
        if self.matrix is not None:
            return _truncate_rows(belief, jnp.asarray(self.matrix, mean.dtype), self.lower, self.upper)
        lower, upper = (
            jnp.broadcast_to(jnp.asarray(bound, mean.dtype), mean.shape) for bound in (self.lower, self.upper)
        )
        any_changed = jnp.zeros((), bool)
        for i in range(len(mean)) if self.bounded is None else self.bounded:
            variance = cov[i, i]
            truncated_mean, truncated_var, changed = truncate(mean[i], variance, lower[i], upper[i])
            safe = jnp.where(variance > 0, variance, 1.0)
            unit = jnp.arange(len(mean)) == i
            gain = jnp.where(variance > 0, cov[:, i] / safe, unit.astype(mean.dtype))
            reduction = jnp.where(changed, variance - truncated_var, 0.0)
            mean = mean + gain * jnp.where(changed, truncated_mean - mean[i], 0.0)
            cov = cov - reduction * gain[:, None] * gain[None, :]
            any_changed |= changed
        return Gaussian(jnp.clip(mean, lower, upper), cov), any_changed


def _truncate_rows(belief: Gaussian, matrix: Array, lower: ArrayLike, upper: ArrayLike) -> tuple[Gaussian, Array]:
    """Truncate at bounds of linear combinations; a mean that a later row moved out of bounds is projected back."""
    mean, cov = belief
    lower, upper = (jnp.broadcast_to(jnp.asarray(bound, mean.dtype), matrix.shape[:1]) for bound in (lower, upper))
    any_changed, gains = jnp.zeros((), bool), []
    for row, low, high in zip(matrix, lower, upper, strict=True):
        projected = linalg.matvec(cov, row)
        variance = jnp.maximum(jnp.sum(row * projected), 0.0)
        # A combination that is known already, as a multiple of another row, has no variance but rounding.
        known = variance <= NEGLIGIBLE_SHARE * jnp.sum((row * linalg.diagonal(cov) ** 0.5) ** 2)
        value = jnp.sum(row * mean)
        truncated_mean, truncated_var, changed = truncate(value, variance, low, high)
        changed |= low == high
        gain = jnp.where(known, row / jnp.sum(row**2), projected / jnp.where(known, 1.0, variance))
        mean = mean + gain * jnp.where(
            changed, jnp.where(known, jnp.clip(value, low, high), truncated_mean) - value, 0.0
        )
        reduction = jnp.where(changed & ~known, variance - truncated_var, 0.0)
        cov = cov - reduction * gain[:, None] * gain[None, :]
        any_changed |= changed
        gains.append(gain)
    for row, low, high, gain in zip(matrix, lower, upper, gains, strict=True):
        value = jnp.sum(row * mean)
        mean = mean + gain * (jnp.clip(value, low, high) - value)
    return Gaussian(mean, cov), any_changed


def truncate(mean: Array, variance: Array, lower: Array, upper: Array) -> tuple[Array, Array, Array]:
    """Compute the mean and variance of a normal distribution truncated at two bounds.

    By quadrature over the distance d from the mode of the truncated density, in standard deviations: the log density is
    -c d - d²/2, with c that mode. There is no cancellation, however far outside the bounds the mean is.

    Args:
        mean: of the untruncated distribution, ().
        variance: of it, ().
        lower: bound, may be -inf.
        upper: bound, may be inf.

    Returns:
        Mean, variance, and whether the truncation has an effect.
    """
    scale = jnp.sqrt(jnp.maximum(variance, 0.0))
    safe = jnp.where(scale > 0, scale, 1.0)
    mode = jnp.clip(mean, lower, upper)
    c = (mode - mean) / safe
    # |c| t + t²/2 = 42 at the distance t beyond which the density is negligible
    reach = 2.0 * LOG_NEGLIGIBLE / (jnp.abs(c) + jnp.sqrt(c**2 + 2.0 * LOG_NEGLIGIBLE))
    first, last = jnp.maximum((lower - mode) / safe, -reach), jnp.minimum((upper - mode) / safe, reach)
    d = 0.5 * (first + last) + 0.5 * (last - first) * jnp.asarray(NODES, mean.dtype)
    density = jnp.asarray(WEIGHTS, mean.dtype) * jnp.exp(-c * d - 0.5 * d**2)
    total = jnp.sum(density)
    middle = jnp.sum(density * d) / total
    spread = jnp.sum(density * (d - middle) ** 2) / total
    return mode + scale * middle, scale**2 * spread, (first > -reach) | (last < reach)
