"""The estimated noise distribution, as it is reported to users: a Gaussian scale mixture with factors on R and Q."""

from typing import Any, NamedTuple

import numpy as np
from jax import Array

from wolf.numerics import linalg
from wolf.numerics.linalg import pairwise_sum

OUTLIER_VARIANCE_RATIO = 9.0  # over the ordinary noise variance; a larger component counts as outliers
MIN_MEASUREMENTS = 3  # below which no scale of the noise is reported
MAX_FACTOR_WITHOUT_SCALE = 4.0  # by which R may be off where r is not estimated: more than the counts compensate for
FAR_OFF_FACTOR = 10.0  # by which R or Q is called far off where r and q are estimated
SCALE_LIMIT = 9e3  # an estimate beyond this factor is reported as being at its limit (1e4)
MAX_AUTOCORRELATED_R_SCALE = 0.8  # the signature of autocorrelated noise: r below this,
MIN_AUTOCORRELATED_Q_TO_R = 5.0  # q / r above this,
MIN_AUTOCORRELATED_Q_SCALE = 2.5  # and q above this,
MIN_AUTOCORRELATED_Q_DEVIATIONS = 2.5  # by as many standard deviations of ln q; an R that is too large has only r < 0.8
MAX_AMBIGUOUS_R_SCALE = 0.3  # r, below which R may be right and the noise autocorrelated,
MIN_AMBIGUOUS_R_SCALE = 0.01  # and above which: r is 1 - ρ² then, and a ρ above 0.995 is no alternative
EVIDENCE_WEIGHT, R_DEVIATION, FIRST_LOG_ODDS = 3.0, 1.6, -3.0  # of the odds of autocorrelation; of ln r; before data
MIN_EVIDENCE = -4.0  # log odds from which autocorrelation is not excluded
HIGH_OUTLIER_RATE = 0.4  # from which R is suspected to be too small
MAX_OUTLIER_RATE = 0.9  # from which the model is all but certainly far from the data
MIN_REPORTED_AUTOCORRELATION = 0.1
MAX_KNOWN_DEVIATION = 0.7  # standard deviation of ln r or ln q above which it is reported as unknown: a factor of 4
FAR_FROM_DATA = (
    "the prior mean or the level of the model is far from the data, or R is far too small. Set the prior mean near the "
    "data, in the same units, or fit the model"
)


class NoiseEstimate(NamedTuple):
    """Estimated noise distribution: the noise covariance is s_k R with probability π_k.

    Attributes:
        sizes: t_k, (K,), where s_k = r t_k.
        counts: α_k, (K,).
        dynamics: q, the scale factor of Q, of noise models that estimate it; 1 where only r is estimated.
        spreads: variances of ln r and ln q, of noise models that estimate q; infinite where the data do not inform.
        level: r, the scale factor of R, of noise models that estimate it.
        autocorrelation: ρ, the AR(1) coefficient of the noise, of noise models that estimate it; s_k R is then the
            covariance of the innovation of the noise.
        measured: number of usable measurements, where it is known.
        log_odds: that the noise is autocorrelated, of noise models that estimate ρ.
    """

    sizes: Any
    counts: Array
    dynamics: Any = None
    spreads: Any = None
    level: float | Array = 1.0
    autocorrelation: float | Array = 0.0
    measured: int | None = None
    log_odds: Any = None

    @property
    def scales(self) -> Array:
        """Scale factors s_k of the components, as multiples of R, (K,)."""
        return self.level * self.sizes

    @property
    def probabilities(self) -> Array:
        """Probabilities π_k: the normalised counts."""
        return self.counts / self.counts.sum(-1, keepdims=True)

    @property
    def ordinary(self) -> Array:
        """Scale of ordinary noise, the harmonic mean `1 / Σ (π_k / s_k)`: outliers hardly count in it."""
        return self.level * self._ordinary_size

    @property
    def whole(self) -> Array:
        """Stationary scale of ordinary noise with its autocorrelated part, r / (1 - ρ²)."""
        return self.ordinary / (1.0 - self.autocorrelation**2)

    @property
    def usual(self) -> Array:
        """Mean scale of noise that is no outlier: the expectation for the next measurement."""
        kept = self.probabilities * (1.0 - self.is_outlier.astype(self.probabilities.dtype))
        return (kept * self.scales).sum(-1) / kept.sum(-1) / (1.0 - self.autocorrelation**2)

    @property
    def typical(self) -> float:
        """Scale to report: the mean of non-outliers where r is estimated, else the median of the mixture.

        Counts alone classify most noise far above R as outliers; the median, interpolated between the components in
        the logarithm, does not depend on that classification.
        """
        if self.dynamics is not None:
            return float(self.usual)
        below = np.cumsum(self.probabilities) - 0.5 * self.probabilities
        return float(np.exp(np.interp(0.5, below, np.log(self.scales))))

    @property
    def outlier_share(self) -> Array:
        """Outlier rate: probability of the components above three ordinary standard deviations."""
        return (self.probabilities * self.is_outlier.astype(self.probabilities.dtype)).sum(-1)

    @property
    def possible_share(self) -> Array:
        """Upper bound of the outlier rate, by two standard deviations; the jump test uses it.

        An underestimated rate lets outliers pass the jump test. The 0.5 stands for outliers before any was observed;
        1.0 would delay first acceptances by a step without benefit.
        """
        outliers = (self.counts * self.is_outlier.astype(self.counts.dtype)).sum(-1)
        return (outliers + linalg.array_namespace(outliers).sqrt(4.0 * outliers + 0.5)) / self.counts.sum(-1)

    @property
    def is_outlier(self) -> Array:
        """Whether each component is one of outliers, (K,)."""
        return self.sizes > OUTLIER_VARIANCE_RATIO * self._ordinary_size

    @property
    def _ordinary_size(self) -> Array:
        # A division costs as much as twenty products; of sizes that are constants 1/t is one.
        return pairwise_sum(self.counts) / pairwise_sum(self.counts * (1.0 / self.sizes))

    @property
    def estimates_dynamics(self) -> bool:
        """Whether q was estimated from data: not where Q is 0, is taken as exact, or nothing was measured."""
        informed = self.dynamics is not None and self.spreads is not None
        return informed and self.measured != 0 and bool(np.isfinite(self.spreads.dynamics))

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings for the user: R or Q is far off or not determined, or the noise seems autocorrelated."""
        if self.measured == 0:
            return ("no measurement could be used: the noise is known only as far as the model specifies it",)
        if self.measured is not None and self.measured < MIN_MEASUREMENTS:
            return (f"too few measurements ({self.measured}) to estimate the scale of the noise",)
        if self.dynamics is None:
            return self._remarks_without_scale
        remarks = self._outlier_rate_remarks
        unknown = self._unknown_factors
        remarks += self._scale_remarks(unknown)
        if "Q" not in unknown and self._looks_autocorrelated:
            remarks.append(
                "R is estimated below and Q above the model's values, as happens with autocorrelated measurement "
                "noise; model it with wolf.models.with_ar1_noise (wolf.fit_ar1_noise estimates the coefficient), or, "
                "if Q is right, keep it fixed with method='Learned'"
            )
        if self._is_autocorrelated:
            remarks.append(
                f"the measurement noise is autocorrelated (AR(1) coefficient {float(self.autocorrelation):.2f}), and "
                "the filter accounts for it. A model with this noise is more accurate: wolf.models.with_ar1_noise "
                "(wolf.fit_ar1_noise estimates the coefficient)"
            )
        return tuple(remarks)

    @property
    def _remarks_without_scale(self) -> tuple[str, ...]:
        """Warning of a noise model that estimates no r: R is off by more than the counts compensate for."""
        if 1.0 / MAX_FACTOR_WITHOUT_SCALE <= self.typical <= MAX_FACTOR_WITHOUT_SCALE:
            return ()
        advice = "Correct the model, or let method='Adaptive' estimate the scale of R"
        return (f"R is off: the noise covariance is {self.typical:.3g} times R. {advice}",)

    @property
    def _outlier_rate_remarks(self) -> list[str]:
        """Warning of an outlier rate too high to be one."""
        share = float(self.outlier_share)
        if share <= HIGH_OUTLIER_RATE:
            return []
        cause = FAR_FROM_DATA if share > MAX_OUTLIER_RATE else "R may be far too small. Fit or raise it"
        return [f"{share:.0%} of the measurements are classified as outliers: {cause}"]

    @property
    def _unknown_factors(self) -> dict[str, float]:
        """Factor of two standard deviations by which R and Q may be off, for those that are not determined."""
        variances = {"R": self.spreads.noise} if self.spreads is not None and self._r_is_estimated else {}
        if self.estimates_dynamics:
            variances["Q"] = self.spreads.dynamics
        return {name: float(np.exp(2.0 * np.sqrt(v))) for name, v in variances.items() if v > MAX_KNOWN_DEVIATION**2}

    def _scale_remarks(self, unknown: dict[str, float]) -> list[str]:
        """Write the warnings about the scale of R and of Q.

        Args:
            unknown: from `_unknown_factors`.
        """
        remarks, scales = [], {"R": (self.typical, "measurement noise")}
        if self.estimates_dynamics:
            scales["Q"] = (float(self.dynamics), "dynamics noise")
        for name, (scale, noise) in scales.items():
            far = FAR_OFF_FACTOR * unknown.get(name, 1.0)
            if name == "R" and name not in unknown and self._may_be_autocorrelated:
                remarks.append(
                    f"the covariance of the measurement noise is estimated as {scale:.3g} times R: either R is too "
                    "large, or the noise is autocorrelated; the measurements do not distinguish the two. If R is "
                    "right, keep it as a lower bound with method=wolf.Adaptive(r_is_lower_bound=True), or model the "
                    "noise with wolf.models.with_ar1_noise"
                )
            elif name == "R" and scale < 1.0 and self._is_autocorrelated:
                continue  # the remark on autocorrelation explains a small r
            elif not 1.0 / far <= scale <= far:
                limit = "" if 1.0 / SCALE_LIMIT <= scale <= SCALE_LIMIT else ", the limit of the estimate"
                remarks.append(
                    f"{name} is far off: the covariance of the {noise} is {scale:.3g} times {name}{limit}. "
                    "Correct the model"
                )
            elif name in unknown:
                factor = f"it may be {unknown[name]:.2g} times larger or smaller"
                remarks.append(f"the measurements so far do not determine the scale of {name}: {factor}")
        return remarks

    @property
    def _r_is_estimated(self) -> bool:
        """Whether r is estimated: the estimate carries a margin, and is never exactly 1."""
        return float(self.level) != 1.0

    @property
    def _looks_autocorrelated(self) -> bool:
        """Whether r is low and q significantly high, the signature of autocorrelated measurement noise."""
        if not self.estimates_dynamics:
            return False
        q, deviation = float(self.dynamics), float(self.spreads.dynamics) ** 0.5
        significant = q > MIN_AUTOCORRELATED_Q_SCALE and np.log(q) > MIN_AUTOCORRELATED_Q_DEVIATIONS * deviation
        return (
            significant and self.typical < MAX_AUTOCORRELATED_R_SCALE and q > MIN_AUTOCORRELATED_Q_TO_R * self.typical
        )

    @property
    def _may_be_autocorrelated(self) -> bool:
        """Whether r is so low that noise of variance R with autocorrelation is an alternative, and not excluded.

        The evidence against white noise is weighed as that of ρ and the surprise of such an r under its prior.
        """
        if self.log_odds is None or self._is_autocorrelated:
            return False
        if not MIN_AMBIGUOUS_R_SCALE < self.typical < MAX_AMBIGUOUS_R_SCALE:
            return False
        surprise = 0.5 * (np.log(self.typical) / R_DEVIATION) ** 2
        return EVIDENCE_WEIGHT * (float(self.log_odds) - FIRST_LOG_ODDS) + surprise > MIN_EVIDENCE

    @property
    def _is_autocorrelated(self) -> bool:
        return float(self.autocorrelation) > MIN_REPORTED_AUTOCORRELATION

    def __repr__(self) -> str:
        """Summarise the estimate in one line."""
        if self.measured == 0:
            return "nothing, as no measurement could be used"
        correlated = f" (autocorrelation {float(self.autocorrelation):.2f})" if self._is_autocorrelated else ""
        dynamics = f", dynamics noise {float(self.dynamics):.3g} times Q" if self.estimates_dynamics else ""
        return f"noise {self.typical:.3g} times R{correlated}{dynamics}, {float(self.outlier_share):.1%} outliers"
