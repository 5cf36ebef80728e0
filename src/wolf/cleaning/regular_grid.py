"""Output on a regular grid, and gaps that are too long to fill.

Grid times are multiples of the step since 1970, or since time 0. Rows that are missing from a regular series are added
before it is cleaned, so that the model estimates them; between the rows of other series the estimate is interpolated.
"""

from typing import Any

import numpy as np

from wolf.cleaning import durations
from wolf.cleaning.options import Options
from wolf.cleaning.quality_flags import MISSING
from wolf.cleaning.result import CleanedSeries, columnwise
from wolf.cleaning.sampling import EVEN_TOLERANCE, gaps_of
from wolf.numerics.runs import runs_of

MAX_ROWS = 20_000_000  # of a grid
SAME_TIME = 1e-6  # distance to a grid time, in steps, of a row at that time
ADDED_ROW = -1  # row number of a row that is not in the input


def add_missing_rows(
    rows: np.ndarray | None, times: np.ndarray | None, values: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray]:
    """Add a row without measurements for each missing step of a regular series; other series are returned unchanged.

    Args:
        rows: row numbers in the input, (T,); None for all in their order.
        times: (T,), increasing; None for even steps.
        values: (T, M).

    Returns:
        Row numbers, `ADDED_ROW` for new rows; times; and values.

    Example:
        >>> rows, times, values = add_missing_rows(None, np.array([0.0, 1.0, 3.0, 4.0, 5.0]), np.ones((5, 1)))
        >>> rows.tolist(), times.tolist()
        ([0, 1, -1, 2, 3, 4], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    """
    gaps = gaps_of(times)[1]
    if times is None or gaps is None:
        return rows, times, values
    whole = np.rint(gaps)
    if np.any(whole < 1) or np.any(np.abs(gaps - whole) > EVEN_TOLERANCE) or whole.sum() > MAX_ROWS:
        return rows, times, values
    place = (np.cumsum(whole) - whole[0]).astype(int)
    count = int(place[-1]) + 1
    numbers = np.full(count, ADDED_ROW)
    numbers[place] = np.arange(len(times)) if rows is None else rows
    stamps = np.interp(np.arange(count), place, times)
    spread = np.full((count, values.shape[1]), np.nan)
    spread[place] = values
    return numbers, stamps, spread


def unfilled_rows(each: CleanedSeries, options: Options) -> np.ndarray | None:
    """Find the rows in gaps longer than `max_gap`, (T, M); None without a limit. Faults are gaps too."""
    if options.max_gap is None:
        return None
    limit = durations.steps_in("max_gap", options.max_gap, each.unit, options.dated)
    used = np.isfinite(each.values) & ~columnwise(each.outlier)
    place = np.arange(len(used), dtype=float) if each.times is None else (each.times - each.times[0]) / each.unit
    found = np.zeros(used.shape, bool)
    for k in range(used.shape[1]):
        for first, stop in runs_of(~used[:, k]):
            before = place[first - 1] if first else place[0] - 1.0
            after = place[stop] if stop < len(used) else place[-1] + 1.0
            length = place[first:stop] - before if options.causal else after - before - 1.0
            found[first:stop, k] = length > limit * (1.0 + EVEN_TOLERANCE)
    return found


def grid_times(times: np.ndarray, step: float, origin: float) -> np.ndarray:
    """Compute the multiples of a step between the first and the last time.

    Args:
        times: increasing.
        step: in the unit of the times.
        origin: where the times are 0, from where the multiples count.

    Example:
        >>> grid_times(np.array([4.0, 31.0]), 10.0, 0.0).tolist()
        [10.0, 20.0, 30.0]
    """
    phase = origin % step
    first, last = np.ceil((times[0] + phase) / step - SAME_TIME), np.floor((times[-1] + phase) / step + SAME_TIME)
    if last - first >= MAX_ROWS:
        raise ValueError(
            f"every makes {last - first:,.0f} rows of one series, more than {MAX_ROWS:,}: use a longer step"
        )
    return np.asarray(np.arange(first, last + 1.0) * step - phase)


def on_grid(each: CleanedSeries, options: Options) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Compute the results of a series at the times of a regular grid.

    At a grid time with a row, the results are those of the row. At others, the estimate is interpolated linearly, with
    the wider interval of both neighbours; the measurement and its flags are those of the nearest row within half a
    step. Of a causal run they are those of the last row.

    Args:
        each: cleaned.
        options: how it was cleaned; `every` is the step.

    Returns:
        The times, in the unit of the series, and arrays by name, with `values` for the measurements.
    """
    assert options.every is not None
    times = np.arange(len(each.values), dtype=float) if each.times is None else each.times
    step = durations.steps_in("every", options.every, each.unit, options.dated) * each.unit
    stamps = grid_times(times, step, options.origin if options.dated else 0.0)
    after = (
        np.clip(np.searchsorted(times, stamps), 1, max(len(times) - 1, 1))
        if len(times) > 1
        else np.zeros(len(stamps), int)
    )
    before = np.maximum(after - 1, 0)
    share = np.clip((stamps - times[before]) / np.maximum(times[after] - times[before], 1e-300), 0.0, 1.0)
    if options.causal:  # the last row that was there
        share = np.where(share >= 1.0 - SAME_TIME, 1.0, 0.0)
    nearest = np.where(share <= 0.5, before, after)
    distance = np.abs(times[nearest] - stamps) / step
    exact, near = distance <= SAME_TIME, distance <= 0.5

    def between(array: np.ndarray) -> np.ndarray:
        part = share if array.ndim == 1 else share[:, None]
        return np.asarray(array[before] * (1.0 - part) + array[after] * part)

    mean = between(each.mean)
    found = {"mean": np.where(exact[:, None], each.mean[nearest], mean)}
    for name in ("lower", "upper", "prediction_lower", "prediction_upper"):
        away = vars(each)[name] - each.mean
        wider = np.minimum if "lower" in name else np.maximum
        half = np.where(exact[:, None], away[nearest], wider(away[before], away[after]))
        found[name] = found["mean"] + half
    found["values"] = np.where(near[:, None], each.values[nearest], np.nan)
    cleaned = np.where(exact[:, None], each.cleaned[nearest], found["mean"])
    found["cleaned"] = np.where(_in_long_gap(each, times, stamps, options), np.nan, cleaned)
    blanks: dict[str, Any] = {
        "weight": 0.0,
        "outlier": False,
        "fault": "gap",
        "anomaly_score": np.nan,
        "qartod": MISSING,
    }
    for name, blank in blanks.items():
        array = vars(each)[name]
        row = near if array.ndim == 1 else near[:, None]
        found[name] = np.where(row, array[nearest], np.array(blank, array.dtype))
    return stamps, found


def _in_long_gap(each: CleanedSeries, times: np.ndarray, stamps: np.ndarray, options: Options) -> np.ndarray:
    """Find grid times between used measurements that are too far apart, (n, M)."""
    used = np.isfinite(each.values) & ~columnwise(each.outlier)
    found = np.zeros((len(stamps), used.shape[1]), bool)
    if options.max_gap is None:
        return found
    limit = durations.steps_in("max_gap", options.max_gap, each.unit, options.dated) * (1.0 + EVEN_TOLERANCE)
    for k in range(used.shape[1]):
        at = np.concatenate([[times[0] - each.unit], times[used[:, k]], [times[-1] + each.unit]])
        after = np.clip(np.searchsorted(at, stamps - SAME_TIME * each.unit), 1, len(at) - 1)
        there = np.abs(at[after] - stamps) <= SAME_TIME * each.unit
        ends = stamps if options.causal else at[after] - each.unit
        found[:, k] = ~there & ((ends - at[after - 1]) / each.unit > limit)
    return found
