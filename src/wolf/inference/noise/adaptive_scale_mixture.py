"""Noise whose size is learned while the filter runs: nothing to tune, and R need only be roughly right.

The noise is a mixture of many sizes, v ~ Σ π_k N(0, s_k R), and the π_k are learned (West 1981 for such mixtures;
Masreliez 1975 for the exact moments that follow from them, in `wolf.inference.noise.scale_mixture`). With the shares
γ_k that a measurement gives the sizes, counts that forget do it:

    α <- α⁰ + ρ (α - α⁰) + γ,      π = α / Σα

α⁰ is a narrow bell around s = 1 on a wide floor: R is believed until the data say otherwise.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import validation
from wolf.inference.noise.scale_mixture import match
from wolf.interfaces import NoiseModel, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.linalg import pairwise_sum
from wolf.numerics.pytree import pytree
from wolf.statespace import Model, ParameterModel, families

WIDTHS = {"factor 2": 0.5, "factor 10": 1.0}  # of the bell, in ln s
SCALES = np.logspace(-1.5, 4.0, 12)  # half decades; twelve, since processors add in fours
FLOOR = 0.002  # of each size, beside a bell of height 1: what an outlier finds before any was seen
OFF = 4.0  # factor from which R is called off where its level is not learned: more than the counts make up for
FAR_OFF = 10.0  # factor from which R or Q is called far off where it is
LESS, MORE = 0.8, 5.0  # noise below R, with so much more dynamics beside it, as errors that last look
MOVES = 2.5  # and so much more than Q says, by as many standard deviations: an R that is too large has the first alone
MANY, MOST = 0.4, 0.9  # share of outliers from which it is doubted that they are, and from which it is all but certain
LIMIT = 9e3  # factor at which levels stop
LASTING = 0.1  # ρ from which noise is said to last
UNKNOWN = 0.7  # standard deviation of ln r or ln q from which it is said not to be known: a factor of 4 either way
FAR_AWAY = (
    "the prior mean or the level of the model is far from the data, or R is far too small. Start the model near the "
    "data, in their units, or fit it"
)
FEW = 3  # measurements below which nothing is told of the noise
OUTLIER_SCALE = 9.0  # noise of more than this many ordinary variances is an outlier's


class NoiseEstimate(NamedTuple):
    """What was learned about the noise: it is s_k R with probability π_k.

    Attributes:
        sizes: t_k, (K,), where s_k = r t_k.
        counts: α_k, (K,).
        dynamics: q, the factor on Q, of rules that learn levels; 1 where it is that of R alone.
        spreads: variances of ln r and ln q, of rules that learn q; without end where nothing was said of it.
        level: r, of rules that learn it.
        autocorrelation: ρ, the AR(1) coefficient of the noise, of rules that estimate it; s_k R is the new part.
        measured: how many measurements could be used, where that is known.
    """

    sizes: Any
    counts: Any
    dynamics: Any = None
    spreads: Any = None
    level: Any = 1.0
    autocorrelation: Any = 0.0
    measured: int | None = None

    @property
    def scales(self) -> Any:
        """Sizes s_k, as multiples of R, (K,)."""
        return self.level * self.sizes

    @property
    def probabilities(self) -> Any:
        """Probabilities π_k: the counts, normalised."""
        return self.counts / self.counts.sum(-1, keepdims=True)

    @property
    def ordinary(self) -> Any:
        """Size of ordinary noise, r with `1/r = Σ π_k / s_k`: outliers hardly count in it."""
        return self.level * self._ordinary_size

    @property
    def whole(self) -> Any:
        """Size of ordinary noise with what it keeps of the noise before it, r / (1 - ρ²)."""
        return self.ordinary / (1.0 - self.autocorrelation**2)

    @property
    def usual(self) -> Any:
        """Mean size of noise that is no outlier: what to expect of the next measurement."""
        kept = self.probabilities * (1.0 - self.is_outlier.astype(self.probabilities.dtype))
        return (kept * self.scales).sum(-1) / kept.sum(-1) / (1.0 - self.autocorrelation**2)

    @property
    def typical(self) -> float:
        """Size to tell a person: the usual one where its level is learned.

        Counts alone call much of noise that is far larger than R outliers; there it is the size that half of all noise
        is below, between the sizes by the logarithm.
        """
        if self.dynamics is not None:
            return float(self.usual)
        below = np.cumsum(self.probabilities) - 0.5 * self.probabilities
        return float(np.exp(np.interp(0.5, below, np.log(self.scales))))

    @property
    def outlier_share(self) -> Any:
        """Share of the measurements with noise of more than three ordinary standard deviations."""
        return (self.probabilities * self.is_outlier.astype(self.probabilities.dtype)).sum(-1)

    @property
    def possible_share(self) -> Any:
        """That share and two standard deviations of it: a vote is lost to outliers where it is underestimated.

        The 0.5 stands for outliers where none was seen yet; 1.0 would make first votes a step longer for nothing.
        """
        outliers = (self.counts * self.is_outlier.astype(self.counts.dtype)).sum(-1)
        return (outliers + linalg.array_namespace(outliers).sqrt(4.0 * outliers + 0.5)) / self.counts.sum(-1)

    @property
    def is_outlier(self) -> Any:
        """Which of the sizes are those of outliers, (K,)."""
        return self.sizes > OUTLIER_SCALE * self._ordinary_size

    @property
    def _ordinary_size(self) -> Any:
        # A division costs as much as twenty products; of sizes that are constants 1/t is one.
        return pairwise_sum(self.counts) / pairwise_sum(self.counts * (1.0 / self.sizes))

    @property
    def tells_dynamics(self) -> bool:
        """Whether anything was learned of q: nothing is where Q is 0, nothing was measured, or Q is taken as right."""
        heard = self.dynamics is not None and self.spreads is not None
        return heard and self.measured != 0 and bool(np.isfinite(self.spreads.dynamics))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a person should know: that R or Q is far off or not known, or that it may be errors that last."""
        if self.measured == 0:
            return ("no measurement could be used: of the noise no more is known than what the model says",)
        if self.measured is not None and self.measured < FEW:
            return (f"too few measurements, {self.measured}, to tell the level of the noise",)
        if self.dynamics is None:
            instead = "Mend the model, or let method='Adaptive' learn its level"
            told = f"R is off: the noise is {self.typical:.3g} times what it says. {instead}"
            return () if 1.0 / OFF <= self.typical <= OFF else (told,)
        said = self._doubted
        spreads = {"R": self.spreads.noise} if self.spreads is not None and self._r_is_learned else {}
        levels = {"R": (self.typical, "noise")}
        if self.tells_dynamics:
            spreads["Q"], levels["Q"] = self.spreads.dynamics, (float(self.dynamics), "dynamics noise")
        # How far each may be off, of those that are not known.
        unknown = {name: float(np.exp(2.0 * np.sqrt(v))) for name, v in spreads.items() if v > UNKNOWN**2}
        for name, (level, what) in levels.items():
            far = FAR_OFF * unknown.get(name, 1.0)
            if not 1.0 / far <= level <= far:
                limit = ", the limit of what is learned" if not 1.0 / LIMIT <= level <= LIMIT else ""
                said.append(f"{name} is far off: the {what} is {level:.3g} times what it says{limit}. Mend the model")
            elif name in unknown:
                factor = f"it may be {unknown[name]:.2g} times larger or smaller"
                said.append(f"the measurements so far do not tell the level of {name}: {factor}")
        if "Q" not in unknown and self._follows_errors:
            said.append(
                "less noise and more dynamics than the model says: so do errors that last look, and then the filter "
                "follows them. If the noise has a memory say so, by wolf.models.with_ar1_noise "
                "(wolf.fit_ar1_noise finds how long it is), or, if Q is right, keep to it by method='Learned'"
            )
        if self._lasts:
            said.append(
                f"noise lasts: a measurement keeps {float(self.autocorrelation):.2f} of the error of the one before it, and "
                "the filter counts on that. A model that says so does better, by wolf.models.with_ar1_noise "
                "(wolf.fit_ar1_noise finds how long it is)"
            )
        return tuple(said)

    @property
    def _doubted(self) -> list[str]:
        """Say that so many cannot be outliers, where they cannot."""
        share = float(self.outlier_share)
        if share > MOST:
            return [f"{share:.0%} of the noise is taken for outliers: {FAR_AWAY}"]
        small = "R may be far off, too small. Fit or raise it"
        return [f"{share:.0%} of the noise is taken for outliers: {small}"] if share > MANY else []

    @property
    def _r_is_learned(self) -> bool:
        """Whether r is: one that is learned has a margin, and never is 1 to the last digit."""
        return float(self.level) != 1.0

    @property
    def _follows_errors(self) -> bool:
        """Whether it looks as errors that last do: as less noise than the model says, and clearly more dynamics."""
        if not self.tells_dynamics:
            return False
        known, deviation = float(self.dynamics), float(self.spreads.dynamics) ** 0.5
        moves = known > MOVES and np.log(known) > MOVES * deviation
        return moves and self.typical < LESS and known > MORE * self.typical

    def __repr__(self) -> str:
        """Say it in words."""
        if self.measured == 0:
            return "nothing, as no measurement could be used"
        lasts = f" with a memory of {float(self.autocorrelation):.2f}" if self._lasts else ""
        moves = "" if not self.tells_dynamics else f", dynamics of {float(self.dynamics):.3g} times Q"
        return f"noise of {self.typical:.3g} times R{lasts}{moves}; {float(self.outlier_share):.1%} of it outliers"

    @property
    def _lasts(self) -> bool:
        return float(self.autocorrelation) > LASTING


class Counts(NamedTuple):
    """What was learned so far.

    Attributes:
        now: α, (K,).
        prior: α⁰, (K,), where forgetting leads back to.
    """

    now: Array
    prior: Array


def check_has_noise(model: Model) -> None:
    """Refuse counts, classes and the like: their spread follows from their mean."""
    if isinstance(model, ParameterModel) and not isinstance(model.family, families.Normal):
        raise ValueError(
            f"{type(model.family).__name__} measurements have no noise level to learn: their spread follows from "
            "their mean. Use the default method"
        )


@pytree
class AdaptiveScaleMixture(NoiseModel):
    """Learn how large the noise is, and how often it is far larger.

    Args:
        r_uncertainty: how well R is known: "factor 2" or "factor 10", or the width of the prior in ln s.
        strength: how many measurements this belief is worth.
        forgetting: ρ, what is kept from one measurement to the next.

    Example:
        >>> AdaptiveScaleMixture("factor 10")
        AdaptiveScaleMixture(r_uncertainty=1.0, strength=10.0, forgetting=0.998)
    """

    r_uncertainty: Any = "factor 2"
    strength: Any = 10.0
    forgetting: Any = 0.998

    def __post_init__(self) -> None:
        """Check, and turn words into a width."""
        if self.r_uncertainty is None or isinstance(self.r_uncertainty, str):
            if self.r_uncertainty not in WIDTHS:
                known = " or ".join(map(repr, WIDTHS))
                raise ValueError(f"r_uncertainty must be {known}, or a width in ln s; got {self.r_uncertainty!r}")
            object.__setattr__(self, "r_uncertainty", WIDTHS[self.r_uncertainty])
        validation.positive("r_uncertainty", self.r_uncertainty)
        validation.positive("strength", self.strength)
        validation.probability("forgetting", self.forgetting)

    @property
    def is_mixture(self) -> bool:
        """True: over all sizes."""
        return True

    def check(self, model: Model) -> None:
        """Refuse counts, classes and the like: their spread follows from their mean."""
        check_has_noise(model)

    def start(self, model: Model) -> Counts:
        """Lay counts over the sizes: a bell around 1 in ln s, on a floor."""
        dtype = jnp.asarray(model.prior.mean).dtype
        heights = jnp.exp(-0.5 * (jnp.asarray(np.log(SCALES), dtype) / self.r_uncertainty) ** 2) + FLOOR
        prior = self.strength * heights / heights.sum()
        return Counts(prior, prior)

    def noise_estimate(self, counts: Counts) -> NoiseEstimate:
        """Say what counts mean."""
        return NoiseEstimate(SCALES.astype(counts.now.dtype), counts.now)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Match the moments, and count."""
        (now, prior), estimate = context.memory, self.noise_estimate(context.memory)
        matched = match(context, estimate.scales, now, far=True)
        # What is beyond all sizes is no size, and adds to no count.
        # α⁰ + ρ (α - α⁰), with what stays the same in all steps by itself.
        kept = (1.0 - self.forgetting) * prior + self.forgetting * now
        learned = Counts(kept + matched.share, prior)
        outlier = 1.0 - pairwise_sum(jnp.where(estimate.is_outlier, 0.0, matched.share))
        return UpdateDecision(matched.pull, learned, outlier)
