"""Summary of a model selection: the selected model, the reason, the second best, and caveats."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from wolf.fitting.select.candidate_fit import CandidateFit

if TYPE_CHECKING:
    from wolf.fitting.select.selection import Candidate

MAX_AUTOCORRELATION = 0.25  # lag-1 autocorrelation of the errors that is reported
MAX_OUTLIER_SHARE = 0.15  # share of outliers above which the model does not fit
TIE_NATS = 3.0  # difference of scores, in nats, within which two models are equally good
CLIP_STDS = 4.0  # standard deviations at which errors are clipped before they are correlated
DESCRIPTIONS = {
    "local-level": "a random-walk level",
    "local-trend": "a level with a slope",
    "level": "a random-walk level",
    "trend": "a level with a slope",
    "damped-trend": "a level with a damped slope",
    "ar-noise": "autocorrelated noise",
    "wiener-velocity": "a moving point with random-walk velocity",
    "constant-velocity": "a moving point with random acceleration",
}


def describe(name: str) -> str:
    """Describe a model in words.

    Example:
        >>> describe("level+seasonal:24:2")
        'a random-walk level and a season of 24 steps'
    """
    parts = []
    for term in name.split("+"):
        word, *numbers = term.split(":")
        parts.append(f"a season of {numbers[0]} steps" if word == "seasonal" else DESCRIPTIONS.get(word, term))
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def sentence(candidates: Sequence["Candidate"]) -> str:
    """Describe the selected model, the reason and the second best in one sentence."""
    best = candidates[0]
    words = f"{best.name}, {describe(best.name)}"
    if len(candidates) == 1:
        return f"{words}: the only candidate"
    second = candidates[1]
    if second.behind < TIE_NATS:
        return f"{words}: the simplest of those that predict about equally well; second is {second.name}"
    if second.score > best.score:
        return f"{words}: second is {second.name}, which predicts no better for its complexity"
    return f"{words}: predicts best of {len(candidates)}; second is {second.name}, {second.behind:.0f} nats behind"


def _nth(number: int) -> str:
    """Format an ordinal number from 2 on."""
    return {2: "second", 3: "third"}.get(number, f"{number}th")


def coarse(step: float, every: int) -> list[str]:
    """Describe a loss of information by quantisation or interpolation.

    Args:
        step: quantisation step; 0 if it is irrelevant.
        every: number of steps between measured readings, if the others are interpolated linearly.

    Example:
        >>> coarse(0.5, 1)
        ['readings are rounded to 0.5; the rounding error is part of the noise']
    """
    parts = [f"readings are rounded to {step:.4g}; the rounding error is part of the noise"] if step else []
    if every > 1:
        parts.append(f"only every {_nth(every)} reading is a measurement: the others are linearly interpolated")
    return parts


def describe_caveats(
    best: CandidateFit, pieces: Sequence[tuple[int, int]], count: int, step: float = 0.0, every: int = 1
) -> str:
    """Describe the caveats of a model selection; "" without any.

    Args:
        best: fit of the selected model.
        pieces: first and last row (exclusive) of each piece that was used.
        count: number of rows.
        step: quantisation step, as in `coarse`.
        every: interval between measurements, as in `coarse`.
    """
    parts = coarse(step, every)
    first, stop = pieces[0]
    if len(pieces) > 1:
        parts.append(f"chosen on {len(pieces)} pieces of {stop - first} rows, spread over all {count:,}")
    elif stop - first < count:
        parts.append(f"chosen on rows {first + 1:,} to {stop:,} of {count:,}")
    if best.negligible:
        named = " and ".join(best.negligible)
        parts.append(f"{named} does not differ from 0")
    errors = np.clip(best.errors, -CLIP_STDS, CLIP_STDS)
    pairs = errors[1:] * errors[:-1]
    autocorrelation = float(np.nanmean(pairs) / max(np.nanmean(errors**2), 1e-300)) if np.isfinite(pairs).any() else 0.0
    if abs(autocorrelation) > MAX_AUTOCORRELATION:
        parts.append(f"the errors are autocorrelated (lag 1: {autocorrelation:.2f}): no candidate fits")
    if best.share > MAX_OUTLIER_SHARE:
        parts.append(f"{best.share:.0%} of the values are classified as outliers: no candidate fits well")
    return "; ".join(parts)
