"""A series judged as a whole: faults by what came before and after, shifts as events, gaps bridged, intervals honest."""

from typing import Any, NamedTuple

import numpy as np

from wolf.choosing import steady
from wolf.readings import faults
from wolf.readings.sweeps import Build, Sweep, sweep

KINDS = ("", "spike", "burst", "stuck", "dropout", "drift", "shift", "gap")
ROUNDS = 8  # of looking for faults
KEEP = 3.5  # deviations from what all other readings say, from which a reading is kept a fault
CUT = 3.0  # deviations from which a reading is believed less
SAMPLE = 4_096  # rows that tell how heavy the tails are
LONGEST = 30  # rows of a fault, without anything said
SHARE = 0.05  # of a series that a fault may take, at most
LEVEL_QUANTILE = 1.96
WINDOW, GROSS = 25, 6.0  # of a running median, and deviations from it
BESIDE_OFF = 2.0  # deviations from which a reading beside a fault belongs to it
LONG = 3  # readings of a run from which its ends may be soft
HOLE = 2  # readings between faults that may be taken for faults, too
AROUND = 8  # readings on either side, of which a quarter must be faults
MOSTLY = 0.6  # share of a run that must be off for all of it to be a fault
TRIES = 4
MOST_FAULTS = 0.15  # share of the readings; where more look like faults, the limits are too low for the series
SENTINELS = (0.0, -1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0, -99999.0)
FEW = 4  # times that a value must come to be looked at
MOST_DROPOUTS = 0.2  # share of the readings
BESIDE = 10  # values next to it that say how often a value usually comes
MORE_OFTEN = 2.5
MISPLACED = 1.5  # deviations from what others say, on the average over all


class Judged(NamedTuple):
    """A series in hindsight.

    Attributes:
        mean: of what a perfect sensor would say, (T,).
        variance: of that.
        reading_half: half the width of the interval of a reading, (T,).
        weight: how far each reading was believed, (T,).
        kind: index into `KINDS`, (T,).
        errors: one-step errors over their deviation, (T,).
        final: state after the last row.
    """

    mean: np.ndarray
    variance: np.ndarray
    reading_half: np.ndarray
    weight: np.ndarray
    kind: np.ndarray
    errors: np.ndarray
    final: Any


def judge(build: Build, values: np.ndarray, gaps: np.ndarray | None, longest: int, level: float = 0.95) -> Judged:
    model = build(None)
    obs_var = float(np.asarray(model.R)[0, 0])
    shape = faults.shape_of(model, longest)
    limits = faults.limits_of(usual_errors(model, values), shape)
    known = np.isfinite(values)
    stuck = stuck_runs(values)
    ones = np.ones(len(values))
    for _ in range(TRIES):
        mask, offset, shifts = look(build, values, gaps, stuck, shape, limits, obs_var)
        if (mask & ~stuck).sum() <= MOST_FAULTS * known.sum():
            break
        limits = limits.raised(1.5)
    mask = mask | dropouts(build, values, gaps, mask, offset, obs_var)
    used = np.where(mask, np.nan, values - offset)
    seen = sweep(build, used, ones, gaps)
    loo = left_out(used, seen, obs_var)
    weight = np.where(np.isfinite(loo), np.minimum(1.0, CUT / np.maximum(np.abs(loo), 1e-12)), 0.0)
    noise = np.where(weight > 0, 1.0 / np.maximum(weight, 1e-3) ** 2, 1.0)
    seen = sweep(build, used, noise, gaps)
    loo = left_out(used, seen, obs_var, noise)
    factor = np.nanquantile(np.abs(loo), level) if np.isfinite(loo).any() else LEVEL_QUANTILE
    half = factor * np.sqrt(seen.variance + obs_var)
    kind = np.zeros(len(values), int)
    kind[stuck] = KINDS.index("stuck")
    for first, stop in runs_of(mask & ~stuck & known):
        kind[first:stop] = KINDS.index("spike" if stop - first < 2 else "burst")
    kind[shifts] = KINDS.index("shift")
    kind[~known] = KINDS.index("gap")
    return Judged(seen.mean + offset, seen.variance, half, weight, kind, seen.errors, seen.final)


def look(build: Build, values: np.ndarray, gaps: Any, stuck: np.ndarray, shape: Any, limits: np.ndarray, obs_var: float) -> Any:
    """Look for faults and shifts, strongest first, round by round."""
    known, mask = np.isfinite(values), stuck.copy()
    ones, offset = np.ones(len(values)), np.zeros(len(values))
    shifts: list[int] = []
    for _ in range(ROUNDS):
        seen = sweep(build, np.where(mask, np.nan, values - offset), ones, gaps, smooth=False)
        near = faults.local_scale(seen.errors, known & ~mask)
        found = faults.find(seen.errors / near, known & ~mask, shape, limits)
        if not len(found.first):
            break
        runs = found.length > 0
        for first, length in zip(found.first[runs], found.length[runs], strict=True):
            mask[first : first + length] = True
        if not runs.any():  # a shift waits until no fault is left: what follows a fault may look like one
            for first, size in zip(found.first, found.size, strict=True):
                offset[first:] += size * near[first]
                shifts.append(int(first))
        used = np.where(mask, np.nan, values - offset)
        seen = sweep(build, used, ones, gaps)
        off = (values - offset - seen.mean) / np.sqrt(seen.variance + obs_var)
        away = np.where(mask, off, left_out(used, seen, obs_var)) / near
        mask = prune(mask, stuck, np.nan_to_num(away), shape.longest)
    return fill(mask & ~stuck) | stuck, offset, shifts


def dropouts(build: Build, values: np.ndarray, gaps: Any, mask: np.ndarray, offset: np.ndarray, obs_var: float) -> np.ndarray:
    """Find readings that say 0, -1, -999 or the like again and again, where such a value does not belong."""
    found = np.zeros(len(values), bool)
    for value in SENTINELS:
        same = values == value
        count = int(same.sum())
        if count < FEW or count > MOST_DROPOUTS * len(values):
            continue
        distinct, counts = np.unique(values[np.isfinite(values) & ~same], return_counts=True)
        closest = np.argsort(np.abs(distinct - value))[:BESIDE]
        if count < MORE_OFTEN * max(float(counts[closest].mean()), 1.0) if len(closest) else False:
            continue
        seen = sweep(build, np.where(mask | same, np.nan, values - offset), np.ones(len(values)), gaps)
        away = (value - offset - seen.mean)[same] / np.sqrt(seen.variance + obs_var)[same]
        if np.sqrt(np.mean(away**2)) > MISPLACED:
            found |= same
    return found


def usual_errors(model: Any, values: np.ndarray) -> np.ndarray:
    """Give one-step errors on a sample, over their deviation, by a filter that outliers do not move."""
    first = max(0, (len(values) - SAMPLE) // 2)
    some = without_gross(values[first : first + SAMPLE])
    row = np.asarray(model.H)[0]
    dynamics = np.eye(len(row)) if model.F is None else np.asarray(model.F)
    settled = steady.settle(dynamics, row, np.asarray(model.Q)[None], np.asarray(model.R)[0])
    start = steady.first_state(some[: max(len(some) // 8, 3 * len(row))], dynamics, row)
    deviation = np.sqrt(settled.variance)
    errors = steady.walk(some, dynamics, row, settled.gain, start, steady.CUT * deviation)[:, 0] / deviation
    known = np.isfinite(errors)
    return (errors / faults.local_scale(np.where(known, errors, 0.0), known))[known]


def without_gross(values: np.ndarray) -> np.ndarray:
    """Leave out what is far from its running median: what usual errors are must not depend on the faults."""
    from scipy.ndimage import median_filter

    known = np.flatnonzero(np.isfinite(values))
    middle = median_filter(values[known], WINDOW, mode="nearest")
    apart = np.abs(values[known] - middle)
    kept = values.copy()
    kept[known[apart > GROSS * faults.MAD * np.median(apart[apart > 0])]] = np.nan
    return kept


def left_out(used: np.ndarray, seen: Sweep, obs_var: float, noise: Any = 1.0) -> np.ndarray:
    """Compare each reading with what all others say, in deviations; NaN where none was used.

    With V after all readings and R that of this one, `V₋ = V R / (R - V)` without it, and its error is that from the
    mean after all times R / (R - V).
    """
    own = obs_var * noise
    rest = np.maximum(1.0 - seen.variance / own, 1e-9)
    return (used - seen.mean) / rest / np.sqrt(seen.variance / rest + obs_var)


def runs_of(mask: np.ndarray) -> list[tuple[int, int]]:
    """List runs of True as first row and the one after the last."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def prune(mask: np.ndarray, stuck: np.ndarray, away: np.ndarray, longest: int) -> np.ndarray:
    """Believe again what all other readings say is no fault: the ends of runs, and of a run that is mostly good all.

    A run is longer where readings beside it are off to the same side: a drift has soft ends.
    """
    kept = stuck.copy()
    for first, stop in runs_of(mask & ~stuck):
        bad = np.flatnonzero(np.abs(away[first:stop]) > KEEP)
        if not len(bad):
            continue
        low, high = first + int(bad[0]), first + int(bad[-1]) + 1
        if len(bad) <= MOSTLY * (high - low):
            kept[first + bad] = True
            continue
        soft = BESIDE_OFF if high - low >= LONG else KEEP
        while low > 0 and high - low < longest and _belongs(away[low - 1], away[low], soft):
            low -= 1
        while high < len(away) and high - low < longest and _belongs(away[high], away[high - 1], soft):
            high += 1
        kept[low:high] = True
    return kept


def _belongs(away: float, beside: float, soft: float) -> bool:
    """Say whether a reading belongs to the fault beside it: off by much, or by less to the same side."""
    return bool(abs(away) > KEEP or away * np.sign(beside) > soft)


def fill(mask: np.ndarray) -> np.ndarray:
    """Take single readings among many faults for faults, too: a wild sensor is right by chance."""
    filled = mask.copy()
    for first, stop in runs_of(~mask):
        around = mask[max(0, first - AROUND) : stop + AROUND]
        if stop - first <= HOLE and 0 < first and stop < len(mask) and around.sum() >= AROUND // 2:
            filled[first:stop] = True
    return filled


def stuck_runs(values: np.ndarray) -> np.ndarray:
    """Find runs of one value that are longer than chance and the habits of the series explain."""
    same = np.concatenate([[False], values[1:] == values[:-1]])
    found = np.zeros(len(values), bool)
    runs = runs_of(same)  # each begins one row after the first of its readings
    if not runs:
        return found
    count = max(int(np.isfinite(values).sum()), 1)
    lengths = np.array([stop - first for first, stop in runs])
    # Chance of a repeat, from how many runs begin: one long run does not move it.
    chance = len(runs) / max(count - lengths.sum(), 1)
    level = np.array([values[first] for first, _ in runs])
    for (first, stop), length, value in zip(runs, lengths, level, strict=True):
        if length < 5 or count * chance**length > 1e-3:
            continue
        others = np.sort(lengths[(level == value)])[::-1]
        if len(others) > 1 and others[others != length].size and length < 4 * others[1]:
            continue
        found[first:stop] = True
    return found
