"""Forecasts in data frames: rows below those that came, one for each step beyond the end of a series."""

from typing import Any

import numpy as np

from wolf.cleaning.options import Future, Series
from wolf.results.views.data_frame import narwhals

Titles = dict[tuple[str, int], str]


def below(out: Any, series: list[Series], titles: list[Titles], time: str | None, by: str | None) -> Any:
    """Put the future of each series below the rows of a frame.

    Args:
        out: the frame with its results, of narwhals.
        series: cleaned, each with its future.
        titles: names of the result columns of each series.
        time: column of times.
        by: column that tells series apart.
    """
    nw = narwhals()
    if time is not None and out.schema[time].is_integer() and not all(_whole(each) for each in series):
        out = out.with_columns(nw.col(time).cast(nw.Float64))
    cells: dict[int, dict[str, np.ndarray]] = {}  # by the last row: columns that are filtered apart share their rows
    firsts: dict[int, Series] = {}
    for each, named in zip(series, titles, strict=True):
        last = int(each.rows[-1])
        firsts.setdefault(last, each)
        cells.setdefault(last, {}).update(_cells(each, named))
    counted = type(getattr(out.to_native(), "index", None)).__name__ == "RangeIndex"
    count, parts = len(out), [out]
    for last, each in firsts.items():
        parts.append(_rows(out, last, each, cells[last], time, by, count if counted else None))
        count += len(parts[-1])
    return nw.concat(parts, how="diagonal")


def _whole(each: Series) -> bool:
    return each.future is None or not np.any(each.future.times % 1)


def _cells(each: Series, named: Titles) -> dict[str, np.ndarray]:
    """Name what is known of the future; nothing is measured there, so nothing is believed or refused."""
    ahead: Any = each.future
    found: dict[str, np.ndarray] = {}
    for k, j in enumerate(each.columns):
        found |= {named[kind, j]: getattr(ahead, kind)[:, k] for kind in Future._fields[1:]}
        found |= {named["weight", j]: np.zeros(len(ahead.times)), named["outlier", j]: np.zeros(len(ahead.times), bool)}
    return found


def _rows(
    out: Any, last: int, each: Series, cells: dict[str, np.ndarray], time: str | None, by: str | None, first: int | None
) -> Any:
    """Copy the last row of a series as often as there are steps, and put the future in its place."""
    nw, ahead = narwhals(), each.future
    assert ahead is not None
    rows = out[np.full(len(ahead.times), last).tolist()]
    backend = nw.get_native_namespace(out)
    new = [nw.new_series(name, values, backend=backend) for name, values in cells.items()]
    since = ahead.times - (len(each.values) - 1 if each.times is None else each.times[-1])
    if time is not None:
        new.append(_stamps(rows.get_column(time), ahead.times, since, backend).alias(time))
    rows = rows.with_columns(*new).select([name for name in (time, by) if name is not None] + list(cells))
    native = rows.to_native()
    if hasattr(native, "iloc"):
        native.index = _labels(native.index, since, first)
    return nw.from_native(native, eager_only=True)


def _stamps(column: Any, times: np.ndarray, since: np.ndarray, backend: Any) -> Any:
    """Write times as the column has them: numbers as they are, dates so long after the last one."""
    nw = narwhals()
    if column.dtype.is_numeric():
        return nw.new_series("time", times, backend=backend).cast(column.dtype)
    moved = nw.new_series("time", np.round(1e6 * since).astype("timedelta64[us]"), backend=backend)
    if column.dtype == nw.Date:
        return (column.cast(nw.Datetime("us")) + moved).cast(nw.Date)
    return (column + moved).cast(column.dtype)


def _labels(index: Any, since: np.ndarray, first: int | None) -> Any:
    """Go on with an index of dates or periods, or with a count from `first`; leave other labels as they are."""
    if type(index).__name__ == "PeriodIndex":
        return _labels(index.to_timestamp(), since, first).to_period(index.freq)
    if type(index).__name__ == "DatetimeIndex":
        return index + np.round(1e9 * since).astype("timedelta64[ns]")
    return index if first is None else range(first, first + len(index))
