"""Forecasts in data frames: one row per step beyond the end of a series, below the rows of the input."""

from typing import TYPE_CHECKING

import numpy as np

from wolf.cleaning.quality_flags import NOT_EVALUATED
from wolf.cleaning.result import CleanedSeries
from wolf.results.views.data_frame import narwhals

if TYPE_CHECKING:
    import narwhals as nw
    import pandas as pd

ColumnNames = dict[tuple[str, int], str]  # (quantity, value column) -> name of the result column


def append_forecasts(
    out: "nw.DataFrame", series: list[CleanedSeries], names: list[ColumnNames], time: str | None, by: str | None
) -> "nw.DataFrame":
    """Append the forecast of each series to the rows of a frame.

    Args:
        out: narwhals frame with the results.
        series: cleaned, each with its forecast.
        names: of the result columns of each series.
        time: column of times.
        by: column that tells series apart.
    """
    nw = narwhals()
    if time is not None and out.schema[time].is_integer() and not all(_has_integer_times(each) for each in series):
        out = out.with_columns(nw.col(time).cast(nw.Float64))
    cells: dict[int, dict[str, np.ndarray]] = {}  # by last row: columns that are filtered separately share their rows
    firsts: dict[int, CleanedSeries] = {}
    for each, own_names in zip(series, names, strict=True):
        last = int(each.rows[-1])
        firsts.setdefault(last, each)
        cells.setdefault(last, {}).update(_cells(each, own_names))
    counted = type(nw.maybe_get_index(out)).__name__ == "RangeIndex"
    count, parts = len(out), [out]
    for last, each in firsts.items():
        parts.append(_rows(out, last, each, cells[last], time, by, count if counted else None))
        count += len(parts[-1])
    return nw.concat(parts, how="diagonal")


def _has_integer_times(each: CleanedSeries) -> bool:
    return each.forecast is None or not np.any(each.forecast.times % 1)


def _cells(each: CleanedSeries, names: ColumnNames) -> dict[str, np.ndarray]:
    """Collect the result columns of a forecast; weights are 0, since nothing is measured."""
    assert each.forecast is not None
    quantities = each.forecast._asdict()
    times = quantities.pop("times")
    found: dict[str, np.ndarray] = {}
    for k, j in enumerate(each.columns):
        found |= {names[quantity, j]: array[:, k] for quantity, array in quantities.items()}
        found |= {names["weight", j]: np.zeros(len(times)), names["outlier", j]: np.zeros(len(times), bool)}
        found[names["qartod", j]] = np.full(len(times), NOT_EVALUATED, np.int8)
    return found


def _rows(
    out: "nw.DataFrame",
    last: int,
    each: CleanedSeries,
    cells: dict[str, np.ndarray],
    time: str | None,
    by: str | None,
    first: int | None,
) -> "nw.DataFrame":
    """Build the rows of a forecast from copies of the last row of the series."""
    nw, ahead = narwhals(), each.forecast
    assert ahead is not None
    rows = out[np.full(len(ahead.times), last).tolist()]
    backend = nw.get_native_namespace(out)
    new = [nw.new_series(name, values, backend=backend) for name, values in cells.items()]
    since = ahead.times - (len(each.values) - 1 if each.times is None else each.times[-1])
    if time is not None:
        new.append(_stamps(rows.get_column(time), ahead.times, since, backend).alias(time))
    rows = rows.with_columns(*new).select([name for name in (time, by) if name is not None] + list(cells))
    native = rows.to_native()
    if nw.maybe_get_index(rows) is not None:  # pandas
        native.index = _labels(native.index, since, first)
    return nw.from_native(native, eager_only=True)


def _stamps(column: "nw.Series", times: np.ndarray, since: np.ndarray, backend: object) -> "nw.Series":
    """Convert times to the type of the column: numbers unchanged, dates counted from the last one."""
    nw = narwhals()
    if column.dtype.is_numeric():
        return nw.new_series("time", times, backend=backend).cast(column.dtype)
    moved = nw.new_series("time", np.round(1e6 * since).astype("timedelta64[us]"), backend=backend)
    if column.dtype == nw.Date:
        return (column.cast(nw.Datetime("us")) + moved).cast(nw.Date)
    return (column + moved).cast(column.dtype)


def _labels(index: "pd.Index", since: np.ndarray, first: int | None) -> "pd.Index":
    """Continue an index of dates or periods, or a range from `first`; other labels are kept."""
    if type(index).__name__ == "PeriodIndex":
        return _labels(index.to_timestamp(), since, first).to_period(index.freq)
    if type(index).__name__ == "DatetimeIndex":
        return index + np.round(1e9 * since).astype("timedelta64[ns]")
    return index if first is None else range(first, first + len(index))
