"""Quantised readings: the quantisation step, and noise that represents the quantisation error.

In whole degrees, counts or half-degree steps most readings equal the ones before them, so the typical error of any
model is 0, and so is every scale based on it. The quantisation error is uniform within half a step to either side, with
variance step² / 12 (Widrow & Kollár 2008, *Quantization Noise*). Random noise with that distribution makes errors
continuous: scales are estimated with it, and its variance is subtracted from the result. The variance of a reading is
at least step² / 12.
"""

import numpy as np

MIN_EQUAL_SHARE = (
    0.1  # share of readings equal to the previous one; with fewer, the step is negligible compared to the noise
)
MIN_RECURRING_SHARE = 0.5  # share of the readings with recurring values that is needed to determine a step
RELATIVE_TOLERANCE = 1e-9  # relative tolerance, to the largest magnitude, for equal floating point values
SEED = 0  # seed of the noise, so that results are reproducible


def step_of(values: np.ndarray) -> float:
    """Find the quantisation step of the readings; 0 if there is none of relevance.

    Faults need not be quantised, so only recurring values are used. The step is the weighted median distance between
    neighbouring recurring values, which is their smallest common difference if most multiples of it occur.

    Args:
        values: readings, (T,), NaN where missing.

    Example:
        >>> noise = np.random.default_rng(0).normal(20.0, 1.0, 500)
        >>> step_of(noise), step_of(np.round(2 * noise) / 2)
        (0.0, 0.5)
    """
    known = values[np.isfinite(values)]
    if len(known) < 2:
        return 0.0
    tolerance = RELATIVE_TOLERANCE * float(np.abs(known).max())
    if not np.mean(np.abs(np.diff(known)) <= tolerance) >= MIN_EQUAL_SHARE:
        return 0.0
    ordered = np.sort(known)
    groups = np.split(ordered, np.flatnonzero(np.diff(ordered) > tolerance) + 1)
    counts = np.array([len(group) for group in groups])
    recurring = counts > 1
    if counts[recurring].sum() < MIN_RECURRING_SHARE * len(known) or recurring.sum() < 2:
        return 0.0
    distinct = np.array([group[0] for group in groups])[recurring]
    steps, weights = np.diff(distinct), np.minimum(counts[recurring][1:], counts[recurring][:-1])
    order = np.argsort(steps)
    median = np.searchsorted(np.cumsum(weights[order]), 0.5 * weights.sum())
    return float(steps[order][median])


def noise_of(step: float, count: int) -> np.ndarray:
    """Draw quantisation noise, (count,), uniform within half a step; zeros without a step."""
    return step * (np.random.default_rng(SEED).random(count) - 0.5) if step else np.zeros(count)


def variance_of(step: float) -> float:
    """Compute the variance of the quantisation error, step² / 12."""
    return step**2 / 12.0
