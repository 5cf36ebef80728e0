"""Gaussian scale-mixture noise whose component probabilities are estimated online.

The noise is v ~ Σ π_k N(0, s_k R) on a fixed grid of scales s_k (West 1981; the moments of the posterior by Masreliez
1975, in `wolf.inference.noise.scale_mixture`). With the responsibilities γ_k of a measurement, Dirichlet counts with
exponential forgetting estimate the probabilities:

    α <- α⁰ + ρ (α - α⁰) + γ,      π = α / Σα

α⁰ is a narrow log-normal prior around s = 1 on a uniform floor: R is taken as given until the data contradict it.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import validation
from wolf.inference.noise.noise_estimate import NoiseEstimate
from wolf.inference.noise.scale_mixture import match
from wolf.interfaces import NoiseModel, UpdateContext, UpdateDecision
from wolf.numerics.linalg import pairwise_sum
from wolf.numerics.pytree import pytree
from wolf.statespace import Model, ParameterModel, families

PRIOR_WIDTHS = {"factor 2": 0.5, "factor 10": 1.0}  # standard deviation of the prior, in ln s
SCALES = np.logspace(-1.5, 4.0, 12)  # half decades; twelve, since SIMD registers hold multiples of four
FLOOR = 0.002  # of each component, beside a prior of height 1: the outlier probability before any was observed


class Counts(NamedTuple):
    """Memory of the noise model.

    Attributes:
        now: α, (K,).
        prior: α⁰, (K,), to which forgetting returns.
    """

    now: Array
    prior: Array


def check_has_noise(model: Model) -> None:
    """Raise for counts, classes and other families whose variance follows from their mean."""
    if isinstance(model, ParameterModel) and not isinstance(model.family, families.Normal):
        raise ValueError(
            f"{type(model.family).__name__} measurements have no noise scale to estimate: their variance follows from "
            "their mean. Use the default method"
        )


@pytree
class AdaptiveScaleMixture(NoiseModel[Counts]):
    """Estimate the distribution of the noise scale, and so the outlier rate, online.

    Args:
        r_uncertainty: how well R is known: "factor 2" or "factor 10", or the standard deviation of the prior in ln s.
        strength: weight of the prior, in measurements.
        forgetting: ρ, the share of the counts kept from one measurement to the next.

    Example:
        >>> AdaptiveScaleMixture("factor 10")
        AdaptiveScaleMixture(r_uncertainty=1.0, strength=10.0, forgetting=0.998)
    """

    r_uncertainty: Any = "factor 2"
    strength: float | Array = 10.0
    forgetting: float | Array = 0.998

    def __post_init__(self) -> None:
        """Validate the options, and convert a named uncertainty to a width."""
        if self.r_uncertainty is None or isinstance(self.r_uncertainty, str):
            if self.r_uncertainty not in PRIOR_WIDTHS:
                known = " or ".join(map(repr, PRIOR_WIDTHS))
                raise ValueError(f"r_uncertainty must be {known}, or a width in ln s; got {self.r_uncertainty!r}")
            object.__setattr__(self, "r_uncertainty", PRIOR_WIDTHS[self.r_uncertainty])
        validation.positive("r_uncertainty", self.r_uncertainty)
        validation.positive("strength", self.strength)
        validation.probability("forgetting", self.forgetting)

    @property
    def is_mixture(self) -> bool:
        """True: over all scales."""
        return True

    def check(self, model: Model) -> None:
        """Raise for counts, classes and other families whose variance follows from their mean."""
        check_has_noise(model)

    def start(self, model: Model) -> Counts:
        """Return the prior counts: a log-normal density around s = 1 on a uniform floor."""
        dtype = jnp.asarray(model.prior.mean).dtype
        heights = jnp.exp(-0.5 * (jnp.asarray(np.log(SCALES), dtype) / self.r_uncertainty) ** 2) + FLOOR
        prior = self.strength * heights / heights.sum()
        return Counts(prior, prior)

    def noise_estimate(self, memory: Counts) -> NoiseEstimate:
        """Return the mixture of the current counts."""
        return NoiseEstimate(SCALES.astype(memory.now.dtype), memory.now)

    def after_unusable(self, memory: Counts, unusable: Array) -> Counts:
        """Count an infinite number as one of the widest component."""
        return memory._replace(now=memory.now + np.eye(len(SCALES))[-1].astype(memory.now.dtype))

    def __call__(self, context: UpdateContext[Counts]) -> UpdateDecision[Counts]:
        """Match the moments of the mixture posterior, and update the counts."""
        (now, prior), estimate = context.memory, self.noise_estimate(context.memory)
        matched = match(context, estimate.scales, now, far=True)
        # A measurement beyond all scales belongs to no component, and adds to no count.
        # α⁰ + ρ (α - α⁰), with the terms that are the same in all steps collected.
        kept = (1.0 - self.forgetting) * prior + self.forgetting * now
        counts = Counts(kept + matched.share, prior)
        outlier = 1.0 - pairwise_sum(jnp.where(estimate.is_outlier, 0.0, matched.share))
        return UpdateDecision(matched.pull, counts, outlier)
