"""The order of rows in time, and the gaps between them."""

from collections.abc import Callable

import numpy as np

from wolf.numerics import calendar_months

SAMPLE = 100_000  # gaps that the typical one is found among
EVEN = 1e-3  # share of the typical gap by which gaps may differ and still be called even


def gaps_of(times: np.ndarray | None) -> tuple[float, np.ndarray | None]:
    """Measure the gaps before each row in typical steps.

    Args:
        times: (T,), sorted.

    Returns:
        The typical step, in the unit of the times, and the gaps (T,); None instead where all are the same. Steps of
        months, quarters or years in seconds are the same, whatever number of days they have.

    Example:
        >>> gaps_of(np.array([0.0, 10.0, 20.0, 45.0]))
        (10.0, array([1. , 1. , 1. , 2.5]))
        >>> gaps_of(np.array([0.0, 10.0, 20.0]))
        (10.0, None)
    """
    if times is None or len(times) < 2:
        return 1.0, None
    steps = np.diff(times)
    some = steps[:: max(1, len(steps) // SAMPLE)]
    positive = some[some > 0]
    unit = float(np.median(positive)) if positive.size else float(steps.max()) or 1.0
    if max(steps.max() - unit, unit - steps.min()) <= EVEN * unit:
        return unit, None
    counted = calendar_months.months_since_first(times)
    if counted is not None:
        unit, steps = _in_months(counted)
        if np.all(steps == unit):
            return unit, None
    return unit, np.concatenate([[1.0], steps / unit])


def _in_months(counted: np.ndarray) -> tuple[float, np.ndarray]:
    """Give the typical step and all steps, in seconds, each month as long as the others."""
    steps = np.diff(counted)
    return float(np.median(steps)) * calendar_months.MONTH, steps * calendar_months.MONTH


def stamps_ahead(last: float, unit: float, steps: int, origin: float | None) -> np.ndarray:
    """List the times of even steps after the last one.

    Args:
        last: time.
        unit: the typical step.
        steps: how many.
        origin: seconds since 1970 at which times are 0; None where they are no dates.

    Example:
        >>> stamps_ahead(30.0, 10.0, 2, None)
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
    """Say how many mean months a step has; 0 if that is no whole number."""
    whole = round(unit / calendar_months.MONTH)
    return whole if abs(unit - whole * calendar_months.MONTH) < 1.0 else 0


class Order:
    """Put rows in the order of time, and remember what had to be done.

    Args:
        times: of all rows; None keeps the rows as they are.
    """

    def __init__(self, times: np.ndarray | None):
        self.times = times
        self.moved = self.shared = 0
        if times is not None and not np.all(np.isfinite(times)):
            row = int(np.flatnonzero(~np.isfinite(times))[0])
            raise ValueError(f"row {row + 1} has no time stamp; every row needs one, or give no time column")

    def __call__(self, rows: np.ndarray | None) -> np.ndarray | None:
        """Sort the rows of one series; rows of one moment stay as they came.

        Args:
            rows: of the series; None for all, as they came.
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

    def tell(self, note: Callable[[str], None]) -> None:
        """Say what was done."""
        if self.moved:
            note(f"the time stamps went back {self.moved} times: sorted for filtering, written in the order read")
        if self.shared:
            note(f"{self.shared} rows have the time stamp of the row before: taken as measurements of the same moment")
