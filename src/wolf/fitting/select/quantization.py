"""Readings that are rounded: the step from one value to the next, and noise that stands for what rounding took away.

Whole degrees, counts, half-degree steps of a thermostat: where most readings equal the ones before them, the usual
error of any model is 0, and so is every scale that is measured by it. What was rounded away is uniform within half a
step to either side, with variance step² / 12 (Widrow & Kollár 2008, *Quantization Noise*). Put back as noise drawn from
that law, it makes errors continuous: scales are measured with it, and its variance is taken off what was found. No
reading is more exact than it is rounded, so step² / 12 is the least variance that it has.
"""

import numpy as np

EQUAL = 0.1  # share of readings equal to the one before; with fewer, a step is too small beside the noise to matter
RECURRING = 0.5  # share of the readings whose value must come again for the distances of such values to tell a step
AS_FAR = 1e-9  # share of the largest size by which values that were the same may differ in floating point
SEED = 0  # of the noise: the same readings are told the same


def step_of(values: np.ndarray) -> float:
    """Find the step that readings are rounded to; 0 where there is none that matters.

    Faults need not be rounded, so only values that come again and again are asked. The step is the usual distance of
    such a value to the next, each counted as often as it came: where all are multiples of a step and most of these
    come, it is their smallest common difference.

    Args:
        values: (T,), NaN where missing.

    Example:
        >>> noise = np.random.default_rng(0).normal(20.0, 1.0, 500)
        >>> step_of(noise), step_of(np.round(2 * noise) / 2)
        (0.0, 0.5)
    """
    known = values[np.isfinite(values)]
    if len(known) < 2:
        return 0.0
    apart = AS_FAR * float(np.abs(known).max())
    if not np.mean(np.abs(np.diff(known)) <= apart) >= EQUAL:
        return 0.0
    ordered = np.sort(known)
    groups = np.split(ordered, np.flatnonzero(np.diff(ordered) > apart) + 1)
    counts = np.array([len(group) for group in groups])
    again = counts > 1
    if counts[again].sum() < RECURRING * len(known) or again.sum() < 2:
        return 0.0
    places = np.array([group[0] for group in groups])[again]
    steps, weights = np.diff(places), np.minimum(counts[again][1:], counts[again][:-1])
    order = np.argsort(steps)
    middle = np.searchsorted(np.cumsum(weights[order]), 0.5 * weights.sum())
    return float(steps[order][middle])


def noise_of(step: float, count: int) -> np.ndarray:
    """Draw what rounding may have taken away, (count,): uniform within half a step; none without a step."""
    return step * (np.random.default_rng(SEED).random(count) - 0.5) if step else np.zeros(count)


def variance_of(step: float) -> float:
    """Give the variance of what rounding takes away: step² / 12."""
    return step**2 / 12.0
