"""A choice in words: what was chosen, why, what was second, and what a person should be wary of."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from wolf.fitting.select.candidate_fit import CandidateFit

CORRELATED = 0.25  # correlation of one error with the next, from which a person should know
MANY_OUTLIERS = 0.15  # share of values from which the law of errors explains what the model does not
CLOSE = 3.0  # nats; a second that is no further behind is as good
CUT = 4.0  # deviations at which errors are cut off before they are correlated
WORDS = {
    "local-level": "a level that wanders",
    "local-trend": "a level with a slope",
    "level": "a level that wanders",
    "trend": "a level with a slope",
    "damped-trend": "a level with a slope that fades",
    "ar-noise": "noise that lasts",
    "wiener-velocity": "a moving point whose velocity wanders",
    "constant-velocity": "a moving point that is shaken at every step",
}


def describe(name: str) -> str:
    """Say what a model is.

    Example:
        >>> describe("level+seasonal:24:2")
        'a level that wanders and a season of 24 steps'
    """
    told = []
    for piece in name.split("+"):
        word, *numbers = piece.split(":")
        told.append(f"a season of {numbers[0]} steps" if word == "seasonal" else WORDS.get(word, piece))
    return told[0] if len(told) == 1 else ", ".join(told[:-1]) + " and " + told[-1]


def sentence(candidates: Sequence[Any]) -> str:
    """Say in one sentence what was chosen, why, and what was second."""
    best = candidates[0]
    words = f"{best.name}, {describe(best.name)}"
    if len(candidates) == 1:
        return f"{words}: the only candidate"
    second = candidates[1]
    if second.behind < CLOSE:
        return f"{words}: the simplest of those that foretell about equally well; second is {second.name}"
    if second.score > best.score:
        return f"{words}: second is {second.name}, which foretells no better for its complexity"
    return f"{words}: foretells best of {len(candidates)}; second is {second.name}, {second.behind:.0f} nats behind"


def _nth(number: int) -> str:
    """Write an ordinal number from 2 on."""
    return {2: "second", 3: "third"}.get(number, f"{number}th")


def coarse(step: float, every: int) -> list[str]:
    """Say that readings tell less than their number: rounded, or filled in by straight lines.

    Args:
        step: that readings are rounded to; 0 where that does not matter.
        every: so manyth reading was measured, and the others lie on straight lines between them.

    Example:
        >>> coarse(0.5, 1)
        ['readings are rounded to 0.5, which is counted as noise']
    """
    told = [f"readings are rounded to {step:.4g}, which is counted as noise"] if step else []
    if every > 1:
        told.append(f"only every {_nth(every)} reading tells something: those between lie on straight lines")
    return told


def judge(best: CandidateFit, rows: tuple[int, int], count: int, step: float = 0.0, every: int = 1) -> str:
    """Say what a person should be wary of; "" if nothing.

    Args:
        best: trial.
        rows: first and last (exclusive) that it was made on.
        count: of all rows.
        step: as `coarse` takes it.
        every: as `coarse` takes it.
    """
    told = coarse(step, every)
    if rows[1] - rows[0] < count:
        told.append(f"chosen on rows {rows[0] + 1:,} to {rows[1]:,} of {count:,}")
    if best.spare:
        named = " and ".join(best.spare)
        told.append(f"{named} cannot be told from 0")
    errors = np.clip(best.errors, -CUT, CUT)
    pairs = errors[1:] * errors[:-1]
    lasting = float(np.nanmean(pairs) / max(np.nanmean(errors**2), 1e-300)) if np.isfinite(pairs).any() else 0.0
    if abs(lasting) > CORRELATED:
        told.append(
            f"the errors are not independent (correlation {lasting:.2f} from one to the next): no candidate fits"
        )
    if best.share > MANY_OUTLIERS:
        told.append(f"{best.share:.0%} of the values are taken for outliers: no candidate fits well")
    return "; ".join(told)
