"""Noise whose size is learned while the filter runs: nothing to tune, and R need only be roughly right.

The noise is a mixture of many sizes, v ~ Σ π_k N(0, s_k R), and the π_k are learned (West 1981 for such mixtures;
Masreliez 1975 for the exact moments that follow from them, in `wolf.noise.mixture`). With the shares γ_k that a
measurement gives the sizes, counts that forget do it:

    α <- α⁰ + ρ (α - α⁰) + γ,      π = α / Σα

α⁰ is a narrow bell around s = 1 on a wide floor: R is believed until the data say otherwise.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import checks
from wolf.model import Model
from wolf.noise.mixture import match
from wolf.noise.whitened import whiten
from wolf.pytree import pytree
from wolf.types import Believed, Evidence

WIDTHS = {"factor 2": 0.5, "factor 10": 1.0}  # of the bell, in ln s
SCALES = np.logspace(-2.0, 5.5, 16)  # half decades; sixteen, since processors add in fours and eights
FLOOR = 0.002  # of each size, beside a bell of height 1: what an outlier finds before any was seen
OUTLIER_SCALE = 9.0  # noise of more than this many ordinary variances is an outlier's


class NoiseLaw(NamedTuple):
    """What was learned about the noise: it is s_k R with probability π_k.

    Attributes:
        scales: s_k, (K,).
        counts: α_k, (K,).
    """

    scales: Any
    counts: Any

    @property
    def probabilities(self) -> Any:
        """Normalise the counts to π_k."""
        return self.counts / self.counts.sum(-1, keepdims=True)

    @property
    def ordinary(self) -> Any:
        """Say the size of ordinary noise, r with `1/r = Σ π_k / s_k`: outliers hardly count in it."""
        return self.counts.sum(-1) / (self.counts / self.scales).sum(-1)

    @property
    def typical(self) -> float:
        """Say the size that half of the noise is below, between the sizes by the logarithm."""
        below = np.cumsum(self.probabilities) - 0.5 * self.probabilities
        return float(np.exp(np.interp(0.5, below, np.log(self.scales))))

    @property
    def outlier_share(self) -> Any:
        """Say which share of the measurements has noise of more than three ordinary standard deviations."""
        return (self.probabilities * self.is_outlier).sum(-1)

    @property
    def is_outlier(self) -> Any:
        """Say which of the sizes are those of outliers, (K,)."""
        return self.scales > OUTLIER_SCALE * self.ordinary

    def __repr__(self) -> str:
        """Say it in words."""
        return f"noise of {self.typical:.3g} times R; {float(self.outlier_share):.1%} of it outliers"


@pytree
class LearnedScales:
    """Learn how large the noise is, and how often it is far larger.

    Args:
        scales: s_k, increasing, (K,).
        prior: α⁰, (K,): what is believed of each size before any measurement, in measurements.
        forgetting: ρ, what is kept from one measurement to the next.

    Example:
        >>> rule = LearnedScales.around("factor 10")
        >>> rule.law(rule.prior)
        noise of 1.01 times R; 4.2% of it outliers
    """

    scales: Any = None
    prior: Any = None
    forgetting: Any = 0.998

    def __post_init__(self) -> None:
        """Check, and hold NumPy arrays."""
        scales = SCALES if self.scales is None else np.asarray(self.scales, np.float64)
        prior = bell(scales) if self.prior is None else np.asarray(self.prior, np.float64)
        checks.scales(scales, prior, "prior")
        checks.probability("forgetting", self.forgetting)
        object.__setattr__(self, "scales", scales)
        object.__setattr__(self, "prior", prior)

    @classmethod
    def around(cls, r_uncertainty: str | float = "factor 2", strength: float = 10.0, **options: Any) -> "LearnedScales":
        """Believe R to within a factor.

        Args:
            r_uncertainty: "factor 2" or "factor 10", or the width of the bell in ln s.
            strength: how many measurements this belief is worth.
            **options: of the class.
        """
        if isinstance(r_uncertainty, str) and r_uncertainty not in WIDTHS:
            known = " or ".join(map(repr, WIDTHS))
            raise ValueError(f"r_uncertainty must be {known}, or a width in ln s; got {r_uncertainty!r}")
        width = WIDTHS[r_uncertainty] if isinstance(r_uncertainty, str) else r_uncertainty
        checks.positive("r_uncertainty", width)
        checks.positive("strength", strength)
        scales = np.asarray(options.pop("scales", SCALES), np.float64)
        return cls(scales, bell(scales, width, strength), **options)

    def start(self, model: Model) -> Array:
        """Start at the prior's counts."""
        return jnp.asarray(self.prior, jnp.asarray(model.prior.mean).dtype)

    def law(self, counts: Any) -> NoiseLaw:
        """Say what counts mean."""
        return NoiseLaw(self.scales, counts)

    def __call__(self, seen: Evidence) -> Believed:
        """Match the moments, and count."""
        counts, white = seen.memory, whiten(seen)
        matched = match(white, self.scales, counts, far=True)
        # What is beyond all sizes is no size, and adds to no count.
        learned = self.prior + self.forgetting * (counts - self.prior) + matched.share
        outlier = 1.0 - jnp.where(self.law(counts).is_outlier, 0.0, matched.share).sum()
        return matched.believed(white, seen)._replace(memory=learned, outlier=outlier)


def bell(scales: np.ndarray, width: float = WIDTHS["factor 2"], strength: float = 10.0) -> np.ndarray:
    """Lay counts over the sizes, `strength` in all: a bell around 1 in ln s, on a floor."""
    heights = np.exp(-0.5 * (np.log(scales) / width) ** 2) + FLOOR
    return strength * heights / heights.sum()
