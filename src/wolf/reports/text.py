"""Text of times in the report."""

import numpy as np

from wolf.cleaning import CleanedSeries


def format_time(each: CleanedSeries, row: int, origin: int | None) -> str:
    """Format the time of a row."""
    if each.times is None:
        return f"row {row + 1:,}"
    if origin is None:
        return f"{each.times[row]:.10g}"
    return str(_stamp(each, row, origin).astype("datetime64[s]")).replace("T", " ")


def exact_time(each: CleanedSeries, row: int, origin: int | None) -> str:
    """Format the time of a row for a table of labels, without rounding; row numbers from 1 without times."""
    if each.times is None:
        return str(int(each.rows[row]) + 1)
    if origin is None:
        return repr(float(each.times[row]))
    return str(_stamp(each, row, origin).astype("datetime64[us]")).replace("T", " ").removesuffix(".000000")


def _stamp(each: CleanedSeries, row: int, origin: int) -> np.datetime64:
    assert each.times is not None
    return np.datetime64(origin, "ns") + np.timedelta64(round(float(each.times[row]) * 1e9), "ns")
