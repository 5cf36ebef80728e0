"""States with bounds: after each measurement the belief is cut off at them, and its moments are matched.

Truncation, not projection: where a belief N(m, P) reaches beyond a bound of coordinate i, the part outside is thrown
away, and the Gaussian that goes on has the mean and variance of what is left (Simon & Simon 2010). With v = P_ii and
the truncated mean μ and variance ν of that coordinate,

    m ← m + P_·i / v (μ - m_i)          P ← P - P_·i P_i· (v - ν) / v²

one coordinate after the other. For one bounded coordinate these are the exact moments of the truncated belief. With
several the order matters a little, and a mean that a later coordinate pushed out is put back on its bound.

A bound is told once for each measurement: steps without one cut nothing off, since a belief that is cut off again and
again moves away from its bound though nothing was learned.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.inference.filters.covariance_reset import CovarianceReset
from wolf.inference.filters.gaussian import GaussianState
from wolf.inference.filters.wrapper import FilterWrapper
from wolf.interfaces import Measurement, StepInfo
from wolf.numerics.pytree import pytree, static
from wolf.statespace import Model

NODES, WEIGHTS = np.polynomial.legendre.leggauss(48)  # exact to 1e-13 for what reaches nine standard deviations
LOG_NEGLIGIBLE = 42.0  # a density e⁻⁴² of its mode is left out


@pytree
class TruncatedFilter(FilterWrapper):
    """Cut the belief off at bounds of the state, after each measurement.

    Args:
        filter: with a Gaussian belief, as `wolf.WoLF()`.
        lower: least values of the states, (D,), or one number for all; -inf where there is none.
        upper: largest values, likewise.

    Example:
        >>> import wolf
        >>> level = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> out = wolf.filter(level, [-1.0, -2.0, 0.5], method=wolf.TruncatedFilter(wolf.WoLF(), lower=0.0))
        >>> bool(np.all(out.means > 0.0))
        True
    """

    filter: Any
    lower: Any = -np.inf
    upper: Any = np.inf
    bounded: tuple[int, ...] | None = static(default=None, init=False)  # coordinates with a bound; None for all

    def __post_init__(self) -> None:
        """Check the filter inside and the bounds, and find which states have one."""
        if not isinstance(self.filter, CovarianceReset):
            super().__post_init__()
        lower, upper = (validation.number_array(name, getattr(self, name)) for name in ("lower", "upper"))
        if max(lower.ndim, upper.ndim) > 1 or np.isnan(lower).any() or np.isnan(upper).any():
            raise ValueError(f"lower and upper must be numbers, or one for each state, (D,); got {lower} and {upper}")
        if lower.ndim == upper.ndim == 1 and len(lower) != len(upper):
            raise ValueError(f"lower and upper must be as many; got {len(lower)} and {len(upper)}")
        if np.any(lower > upper) or np.any(lower == np.inf) or np.any(upper == -np.inf):
            raise ValueError(f"lower must not be above upper; got {lower} and {upper}")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        has = np.isfinite(lower) | np.isfinite(upper)
        object.__setattr__(self, "bounded", tuple(map(int, np.flatnonzero(has))) if has.ndim else None)

    def check(self, model: Model) -> None:
        """Refuse bounds of more or fewer states than there are, and what the filter inside refuses."""
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if bound.ndim and len(bound) != model.state_dim:
                raise ValueError(
                    f"{name} must be a number or have one for each of the {model.state_dim} states; got {len(bound)}"
                )
        super().check(model)

    def update(
        self, now: Model, state: GaussianState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[GaussianState, StepInfo]:
        """Learn from one measurement, then from the bounds."""
        learned, info = self.filter.update(now, state, y, u, key)
        whole = Gaussian(learned.mean, learned.cov)
        cut, touched = self._cut(whole)
        belief = learned.belief.replaced(cut).where(touched & (y.num_observed > 0), learned.belief)
        return learned._replace(belief=belief), info

    def _cut(self, belief: Gaussian) -> tuple[Gaussian, Array]:
        """Cut off one coordinate after the other; say whether anything was."""
        mean, cov = belief
        lower, upper = (
            jnp.broadcast_to(jnp.asarray(bound, mean.dtype), mean.shape) for bound in (self.lower, self.upper)
        )
        any_touched = jnp.zeros((), bool)
        for i in range(len(mean)) if self.bounded is None else self.bounded:
            variance = cov[i, i]
            kept, left, touched = truncate(mean[i], variance, lower[i], upper[i])
            safe = jnp.where(variance > 0, variance, 1.0)
            unit = jnp.arange(len(mean)) == i
            gain = jnp.where(variance > 0, cov[:, i] / safe, unit.astype(mean.dtype))
            lost = jnp.where(touched, variance - left, 0.0)
            mean = mean + gain * jnp.where(touched, kept - mean[i], 0.0)
            cov = cov - lost * gain[:, None] * gain[None, :]
            any_touched |= touched
        return Gaussian(jnp.clip(mean, lower, upper), cov), any_touched


def truncate(mean: Array, variance: Array, lower: Array, upper: Array) -> tuple[Array, Array, Array]:
    """Find mean and variance of a normal distribution that is cut off at two bounds.

    By quadrature over the distance d from the mode of what is left, in standard deviations: the log density is
    -c d - d²/2, with c that mode. No digits are lost, however far outside the mean lies.

    Args:
        mean: of the whole distribution, ().
        variance: of it, ().
        lower: bound, may be -inf.
        upper: bound, may be inf.

    Returns:
        Mean and variance, and whether anything was cut off.
    """
    scale = jnp.sqrt(jnp.maximum(variance, 0.0))
    safe = jnp.where(scale > 0, scale, 1.0)
    mode = jnp.clip(mean, lower, upper)
    c = (mode - mean) / safe
    # |c| t + t²/2 = 42 at the distance t beyond which nothing is left
    reach = 2.0 * LOG_NEGLIGIBLE / (jnp.abs(c) + jnp.sqrt(c**2 + 2.0 * LOG_NEGLIGIBLE))
    first, last = jnp.maximum((lower - mode) / safe, -reach), jnp.minimum((upper - mode) / safe, reach)
    d = 0.5 * (first + last) + 0.5 * (last - first) * jnp.asarray(NODES, mean.dtype)
    density = jnp.asarray(WEIGHTS, mean.dtype) * jnp.exp(-c * d - 0.5 * d**2)
    total = jnp.sum(density)
    middle = jnp.sum(density * d) / total
    spread = jnp.sum(density * (d - middle) ** 2) / total
    return mode + scale * middle, scale**2 * spread, (first > -reach) | (last < reach)
