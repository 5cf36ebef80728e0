"""The order of rows in time, and the gaps between them."""

from collections.abc import Callable

import numpy as np

from wolf import validation
from wolf.numerics import calendar_months

MAX_SAMPLED_GAPS = 100_000  # from which the typical one is estimated
EVEN_TOLERANCE = 1e-3  # relative difference between gaps that count as equal
MAX_GRID_RATIO = 1.5  # steps of a regular grid over rows, up to which missing steps are filled in


def gaps_of(times: np.ndarray | None) -> tuple[float, np.ndarray | None]:
    """Compute the gap before each row, in typical steps.

    Args:
        times: (T,), sorted.

    Returns:
        The typical step, in the unit of the times, and the gaps (T,), or None if all are equal. Steps of months,
        quarters or years in seconds count as equal, whatever their number of days.

    Example:
        >>> gaps_of(np.array([0.0, 10.0, 20.0, 45.0]))
        (10.0, array([1. , 1. , 1. , 2.5]))
        >>> gaps_of(np.array([0.0, 10.0, 20.0]))
        (10.0, None)
    """
    if times is None or len(times) < 2:
        return 1.0, None
    steps = np.diff(times)
    sample = steps[:: max(1, len(steps) // MAX_SAMPLED_GAPS)]
    positive = sample[sample > 0]
    unit = float(np.median(positive)) if positive.size else float(steps.max()) or 1.0
    if max(steps.max() - unit, unit - steps.min()) <= EVEN_TOLERANCE * unit:
        return unit, None
    counted = calendar_months.months_since_first(times)
    if counted is not None:
        unit, steps = _in_months(counted)
        if np.all(steps == unit):
            return unit, None
    return unit, np.concatenate([[1.0], steps / unit])


def steps_on_grid(gaps: np.ndarray | None) -> np.ndarray | None:
    """Return the step of each row on a regular grid of which a few steps have no row; None for other series.

    Args:
        gaps: before each row, (T,), in typical steps; None if all are equal.

    Example:
        >>> steps_on_grid(np.array([1.0, 1.0, 3.0, 1.0, 1.0, 1.0, 1.0])).tolist()
        [0, 1, 4, 5, 6, 7, 8]
    """
    if gaps is None:
        return None
    whole = np.rint(gaps)
    if (
        np.any(whole < 1)
        or np.any(np.abs(gaps - whole) > EVEN_TOLERANCE)
        or whole[1:].sum() > MAX_GRID_RATIO * len(gaps)
    ):
        return None
    return np.asarray(np.cumsum(whole) - whole[0]).astype(int)


def _in_months(counted: np.ndarray) -> tuple[float, np.ndarray]:
    """Compute the typical step and all steps, in seconds, with months of equal length."""
    steps = np.diff(counted)
    return float(np.median(steps)) * calendar_months.MONTH, steps * calendar_months.MONTH


def future_times(last: float, unit: float, steps: int, origin: float | None) -> np.ndarray:
    """Compute the times of even steps after the last row.

    Args:
        last: time of the last row.
        unit: typical step.
        steps: number of steps.
        origin: Unix time in seconds at which times are 0; None if they are no dates.

    Example:
        >>> future_times(30.0, 10.0, 2, None)
        array([40., 50.])
    """
    whole = _months(unit)
    if origin is None or not whole:
        return np.asarray(last + unit * np.arange(1, steps + 1))
    return calendar_months.add_months(origin + last, whole, steps) - origin


def describe_step(unit: float, dated: bool) -> str:
    """Format the length of a step.

    Example:
        >>> describe_step(3600.0, dated=True), describe_step(3 * calendar_months.MONTH, dated=True)
        ('3600 s', '3 months')
        >>> describe_step(0.5, dated=False)
        '0.5'
    """
    whole = _months(unit) if dated else 0
    if whole:
        return "1 month" if whole == 1 else f"{whole} months"
    return f"{unit:g} s" if dated else f"{unit:g}"


def _months(unit: float) -> int:
    """Convert a step to mean months; 0 if that is no whole number."""
    whole = round(unit / calendar_months.MONTH)
    return whole if abs(unit - whole * calendar_months.MONTH) < 1.0 else 0


class Order:
    """Sorts rows by time, and counts what had to be changed.

    Args:
        times: of all rows; None keeps the order of the rows.
    """

    def __init__(self, times: np.ndarray | None):
        self.times = times
        self.moved = self.shared = 0
        if times is not None and not np.all(np.isfinite(times)):
            row = int(np.flatnonzero(~np.isfinite(times))[0])
            raise ValueError(f"row {row + 1} has no time stamp; every row needs one, or leave out the time column")
        if times is not None:
            validation.check_times("times", times)

    def __call__(self, rows: np.ndarray | None) -> np.ndarray | None:
        """Sort the rows of one series by time; the sort is stable.

        Args:
            rows: of the series; None for all, in their own order.
        """
        if self.times is None:
            return rows
        times = self.times if rows is None else self.times[rows]
        steps = np.diff(times)
        if np.any(steps < 0):
            self.moved += int((steps < 0).sum())
            order = np.argsort(times, kind="stable")
            rows, steps = order if rows is None else rows[order], np.diff(times[order])
        self.shared += int((steps == 0).sum())
        return rows

    def report(self, on_note: Callable[[str], object]) -> None:
        """Report how many rows were moved or share their time stamp."""
        if self.moved:
            on_note(f"the time stamps went back {self.moved} times: sorted for filtering, written in the order read")
        if self.shared:
            on_note(f"{self.shared} rows have the time stamp of the previous row: treated as simultaneous measurements")
