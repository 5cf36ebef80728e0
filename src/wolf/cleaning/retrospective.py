"""A series judged as a whole: faults by what came before and after, shifts as events, gaps bridged, honest intervals.

Which readings are faults is found by `cases`; a burst that only lies too high or too low still tells the shape
(`offsets`). What remains is smoothed with less weight on what is still far off. A reading's interval holds the stated
share of readings when each is left out, and is wider where the series is wild (`scales`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wolf.cleaning.fault_search import KINDS as KINDS
from wolf.cleaning.fault_search import Case
from wolf.cleaning.gap_imputation import bridge
from wolf.cleaning.smoother_pass import Build, sweep
from wolf.diagnostics.faults.sentinel_values import without_codes

RETROSPECTIVE = "retrospective"  # method name of a series that is judged as a whole
CUT = 3.0  # deviations from which a reading is believed less
LEAST_WEIGHT = 1e-3
LONGEST, LONGEST_SHARE = 30, 0.05  # rows of a fault, and share of the series, unless something else is said
TAIL = 0.01  # share of the readings
LARGEST = 1e100  # of a reading; beyond it is nothing that was measured


class RetrospectiveSeries(NamedTuple):
    """A series of one column in hindsight.

    Attributes:
        mean: of what a perfect sensor would say, (T,).
        variance: of that, (T,).
        prediction_half: half the width of the interval of a reading, (T,).
        weight: how far each reading was believed, (T,).
        fault: number in `KINDS`, (T,).
        errors: one-step errors over their deviation, (T,); of a fault, that from the mean; 0 where nothing came.
        spread: variance of the one-step errors, (T,).
        factor: deviations of a reading that an interval reaches anywhere in the series.
        final: state after the last row.
    """

    mean: np.ndarray
    variance: np.ndarray
    prediction_half: np.ndarray
    weight: np.ndarray
    fault: np.ndarray
    errors: np.ndarray
    spread: np.ndarray
    factor: float
    final: Any

    @property
    def is_fault(self) -> np.ndarray:
        """Which readings are faults, (T,)."""
        return (self.fault > 0) & (self.fault < KINDS.index("shift"))


def default_max_fault_length(count: int) -> int:
    """Say how many rows a fault may take if nobody does.

    Example:
        >>> default_max_fault_length(2000), default_max_fault_length(100)
        (30, 5)
    """
    return max(1, min(LONGEST, int(LONGEST_SHARE * count)))


def judge(
    build: Build,
    values: np.ndarray,
    gaps: np.ndarray | None,
    longest: int,
    level: float,
    ratio: np.ndarray | float = 1.0,
    others: Sequence[Build] = (),
) -> RetrospectiveSeries:
    """Judge a series.

    Args:
        build: gaps -> model of one column.
        values: (T,), NaN where missing.
        gaps: before each row, (T,), in steps; None where all are 1.
        longest: rows of a fault; what stays away for longer has shifted.
        level: probability of a reading's interval.
        ratio: variance of each reading over the model's, (T,), if it is known.
        others: models that may bridge long gaps, as `build`.
    """
    wild = np.abs(values) > LARGEST
    plain = without_codes(values)
    coded = np.isnan(plain) & np.isfinite(values) & ~wild
    case = Case(build, np.where(wild, np.nan, plain), gaps, longest, ratio)
    case.search()
    case.find_dropouts()
    bridged = case.sweep()
    doubt = case.undo_offsets(bridged)
    weight, noise = _weights(case.left_out(case.sweep() if case.undone.any() else bridged))
    del bridged
    weight[case.undone] = 0.0
    seen = sweep(build, case.used, noise * case.ratio, gaps)
    away = case.left_out(seen, noise)
    away[case.undone] = np.nan
    bridge(seen, others, build, case.used, noise * case.ratio, gaps)
    np.add(seen.variance, doubt, out=seen.variance)
    del noise
    half = seen.variance + case.obs_var * case.ratio
    np.sqrt(half, out=half)
    kind = np.where(wild, KINDS.index("spike"), np.where(coded, KINDS.index("dropout"), case.kinds()))
    flagged = int((case.mask & ~case.stuck & case.known).sum())
    factor = reading_factor(away, level, flagged)  # of any reading; near a row, in what is usual there:
    near = case.usual_near(seen.errors)
    away /= near
    half *= near
    half *= reading_factor(away, level, flagged)
    final = seen.final._replace(belief=_moved(seen.final.belief, case.offset[-1]))
    np.add(seen.mean, case.offset, out=seen.mean)
    told = (seen.mean, seen.variance, half, weight)
    # Foretold by nobody: compared with what all others say.
    out = np.flatnonzero(((case.mask | case.dropped) & case.known) | coded)
    seen.errors[out] = (values[out] - seen.mean[out]) / np.sqrt(seen.spread[out])
    return RetrospectiveSeries(*told, kind, seen.errors, seen.spread, factor, final)


def _weights(away: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Believe readings less the farther off they are; return weights, and the variances that belong to them."""
    left = ~np.isfinite(away)
    weight = CUT / np.maximum(np.abs(away, out=away), CUT)
    noise = np.maximum(weight, LEAST_WEIGHT) ** -2.0
    weight[left], noise[left] = 0.0, 1.0
    return weight, noise


def reading_factor(errors: np.ndarray, level: float, flagged: int = 0) -> float:
    """Find how many deviations hold the stated share of readings, each left out.

    Args:
        errors: of each reading from what all others say, in deviations; NaN where it was not used.
        level: the share.
        flagged: readings that were taken for faults. They may be the tail of the good ones, which would otherwise be
            missing here, so up to `TAIL` of all count as outside.

    Example:
        >>> errors = np.random.default_rng(0).normal(size=10_000)
        >>> round(reading_factor(errors, 0.95), 2), round(reading_factor(errors, 0.95, 50), 2)
        (1.96, 2.0)
    """
    known = errors[np.isfinite(errors)]
    np.abs(known, out=known)
    if not known.size:
        from scipy.special import ndtri

        return float(ndtri(0.5 + 0.5 * level))
    # One more than there are: the share that a new one has (Vovk, Gammerman & Shafer 2005, split conformal).
    count = len(known) + min(flagged, TAIL * len(known)) + 1
    return float(np.quantile(known, min(1.0, level * count / len(known)), overwrite_input=True))


def _moved(belief: Any, offset: float) -> Any:
    """Put the shifts back into the level, which is the first state."""
    mean = np.array(belief.mean)
    mean[0] += offset
    return belief._replace(mean=mean)
