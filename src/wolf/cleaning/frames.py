"""Data frames in, the same kind of data frame out: pandas, polars and Arrow, through narwhals."""

import warnings
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from wolf import validation
from wolf.cleaning import Options, Series, clean
from wolf.cleaning.forecast_rows import below
from wolf.cleaning.options import AUTO
from wolf.results.views.data_frame import narwhals
from wolf.statespace import LinearModel

KINDS = ("mean", "lower", "upper", "prediction_lower", "prediction_upper", "weight", "outlier", "fault", "cleaned")
TO_NUMBERS = '; pandas.to_numeric(column, errors="coerce") makes numbers of text, and NaN of what is none'
JOINT = ("weight", "outlier", "fault")  # of which a track has one for all its columns


def filter_frame(
    frame: Any,
    *,
    time: str | None = None,
    values: str | list[str] | None = None,
    by: str | None = None,
    model: str | LinearModel = AUTO,
    method: Any = None,
    parameters: dict[str, float] | None = None,
    smooth: bool = False,
    level: float = 0.95,
    forecast: int = 0,
    causal: bool = False,
    patience: str | float | None = None,
    max_fault_length: str | float | None = None,
) -> Any:
    """Clean the readings in a data frame.

    Args:
        frame: of pandas or polars, or a `pyarrow.Table`; or one Series. Rows may be in any order.
        time: column of times, numbers or dates. Without one, the index of a pandas frame if it holds dates, and even
            steps otherwise.
        values: column of readings, or several. Default: the only column of numbers.
        by: column that tells series apart.
        model: "auto" to choose one from the data (`wolf.choose`), "local-level", "local-trend", "seasonal:24",
            "wiener-velocity" (several values are then one track) or a TOML file; see `wolf models`. Or
            a linear model of your own, used as it is; one typical step of the times is one of its steps.
        method: as in `wolf.filter`, which then judges the readings. Without one, and unless `causal`, each reading is
            judged by what came before and after it.
        parameters: variances that are known, by name; the others are fitted.
        smooth: use the whole series for each row, and judge readings as the method does.
        level: probability of the intervals.
        forecast: steps beyond the end of each series, as rows below the others. An index of dates or a count goes on;
            other labels of pandas are those of the last row of the series.
        causal: say of each row only what could be known at its time.
        patience: how long refused readings must agree to be believed, live: "2h", or a number of rows.
        max_fault_length: how long a fault may last: "2h", or a number of rows. What stays away for longer has shifted.

    Returns:
        The frame with its rows, index and columns as they were, and behind them `mean` with `lower` and `upper`,
        `prediction_lower` and `prediction_upper` (of a reading), `weight`, `outlier`, `fault` (spike, burst, stuck, dropout,
        drift; shift, which is no fault; gap) and `cleaned` (the readings, with the estimate where one was false or
        missing); with the name of the value before them where there are several. A Series comes back as a frame.

    Example:
        >>> import numpy as np, pandas, wolf
        >>> readings = np.random.default_rng(0).normal(20.0, 1.0, 200)
        >>> readings[50] = 999.0
        >>> out = wolf.filter_frame(pandas.DataFrame({"temperature": readings}))
        >>> np.flatnonzero(out["outlier"]).tolist(), out["fault"][50], bool(abs(out["cleaned"][50] - 20.0) < 1.0)
        ([50], 'spike', True)
    """
    nw = narwhals()
    try:
        wrapped = nw.from_native(frame, eager_only=True, allow_series=True)
    except TypeError as error:
        advice = " Call .collect() first." if type(frame).__name__ == "LazyFrame" else ""
        raise ValueError(f"frame must be of pandas, polars or Arrow; got {type(frame).__name__}.{advice}") from error
    if isinstance(wrapped, nw.Series):
        wrapped = wrapped.alias("value" if wrapped.name in (None, "") else wrapped.name).to_frame()
    columns: list[str] = wrapped.columns
    rows = read_frame(wrapped, time, values, by)
    known = validation.mapping("parameters", parameters, "{'obs_var': 1.0}")
    how: Any = {
        "causal": causal,
        "patience": patience,
        "max_fault_length": max_fault_length,
        "dated": rows.dated,
        "origin": rows.origin,
    }
    options = Options(model, method, known, smooth, forecast, level, diagnostics=False, **how)
    named: Any = {"groups": rows.groups, "labels": rows.labels, "names": rows.names}
    done = clean(rows.values, rows.times, options, **named, failed=_warn)
    names = rows.names
    added = spread_rows(done, names, len(rows.values), set(columns))
    backend = nw.get_native_namespace(wrapped)
    new = [nw.new_series(name, column, backend=backend) for name, column in added.items()]
    out = wrapped.with_columns(*new)
    if forecast:
        out = below(out, done, [titles(names, each.columns, set(columns)) for each in done], time, by)
    return out.to_native()


class FrameRows(NamedTuple):
    """The numbers in a frame.

    Attributes:
        values: (rows, M).
        times: (rows,), or None.
        dated: whether times are seconds.
        origin: seconds since 1970 at which they are 0.
        groups: number of the series of each row.
        labels: of the series.
        names: of the values.
    """

    values: np.ndarray
    times: np.ndarray | None
    dated: bool
    origin: float
    groups: np.ndarray | None
    labels: list[str] | None
    names: list[str]


def read_frame(wrapped: Any, time: str | None, values: str | list[str] | None, by: str | None) -> FrameRows:
    """Take the numbers out of a frame of narwhals."""
    if not len(wrapped):
        raise ValueError("the frame has no rows; give it some")
    chosen = value_names(wrapped, time, values, by)
    data = np.stack([_numbers(wrapped.get_column(name)) for name in chosen], axis=1)
    times, origin = _times(wrapped.to_native(), wrapped, time)
    groups, labels = (None, None) if by is None else _groups(wrapped.get_column(by))
    dated = (time is None or wrapped.schema[time].is_temporal()) and times is not None
    names = [str(name) for name in chosen]  # pandas has numbers for names
    return FrameRows(data, times, dated, origin, groups, labels, names)


def value_names(wrapped: Any, time: str | None, values: str | list[str] | None, by: str | None) -> list[str]:
    """Check the names of columns, and find those of the values."""
    for name, column in (("time", time), ("by", by)):
        if column is not None:
            _check_name(name, column, wrapped.columns)
    return _value_names(wrapped, values, {time, by})


def _warn(label: str, why: str) -> None:
    """Say that a series is left as missing."""
    warnings.warn(f"{label} was not filtered: {why}", stacklevel=4)


def spread_rows(series: list[Series], names: list[str], rows: int, taken: set[str]) -> dict[str, np.ndarray]:
    """Put the results of all series back on the rows that they came from.

    Args:
        series: cleaned.
        names: of the value columns.
        rows: how many there are.
        taken: names that are in use.
    """
    added: dict[str, np.ndarray] = {}
    for each in series:
        title = titles(names, each.columns, taken)
        for k, j in enumerate(each.columns):
            for kind in KINDS:
                array = getattr(each, kind)
                array = array if array.ndim == 1 else array[:, k]
                if len(each.rows) == rows and _in_order(each.rows):
                    added[title[kind, j]] = array
                    continue
                added.setdefault(title[kind, j], _blank(rows, array.dtype))[each.rows] = array
    return added


def _blank(rows: int, dtype: Any) -> np.ndarray:
    """Make a column with nothing in it."""
    return np.full(rows, np.nan) if dtype.kind == "f" else np.zeros(rows, dtype)


def _in_order(rows: np.ndarray) -> bool:
    return bool(rows[0] == 0 and np.all(rows[1:] > rows[:-1]))


def titles(names: list[str], columns: tuple[int, ...], taken: set[str]) -> dict[tuple[str, int], str]:
    """Name the result columns of a series: short names for one value, names with the value's for several.

    Example:
        >>> titles(["x", "y"], (0, 1), set())["mean", 0], titles(["x"], (0,), {"mean"})["mean", 0]
        ('x_mean', 'wolf_mean')
    """
    named = {}
    for j in columns:
        for kind in KINDS:
            joint = kind in JOINT and len(columns) > 1
            title = kind if len(names) == 1 or joint else f"{names[j]}_{kind}"
            while title in taken:
                title = f"wolf_{title}"
            named[kind, j] = title
    return named


def _value_names(wrapped: Any, values: str | list[str] | None, taken: set[str | None]) -> list[str]:
    if values is not None:
        names = list(values) if isinstance(values, list | tuple | np.ndarray) else [values]
        for name in names:
            _check_name("values", name, wrapped.columns)
            if not wrapped.schema[name].is_numeric():
                raise ValueError(f"values names {name!r}, which holds {wrapped.schema[name]}, not numbers{TO_NUMBERS}")
        if not names:
            raise ValueError("values must name at least one column")
        return names
    numeric = [name for name, kind in wrapped.schema.items() if kind.is_numeric() and name not in taken]
    if len(numeric) != 1:
        listed = ", ".join(map(repr, numeric)) or "none"
        hint = "" if numeric else TO_NUMBERS
        raise ValueError(f"say which column to filter, as values=; the columns of numbers are: {listed}{hint}")
    return numeric


def _check_name(argument: str, name: Any, columns: list[str]) -> None:
    if not isinstance(name, str | int | float):  # pandas also has numbers for names
        raise ValueError(f"{argument} must be the name of a column; got {validation.short_repr(name)}")
    if name not in columns:
        close = get_close_matches(str(name), list(map(str, columns)), n=1, cutoff=0.4)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        named = ", ".join(map(repr, columns))
        raise ValueError(f"the frame has no column {name!r}, given as {argument}.{hint} Its columns are {named}")


def _numbers(column: Any) -> np.ndarray:
    return np.asarray(column.cast(narwhals().Float64).to_numpy(), np.float64)


def _times(frame: Any, wrapped: Any, time: str | None) -> tuple[np.ndarray | None, float]:
    """Read times as numbers, dates in seconds since the first of them; and say when that was."""
    if time is None:
        index: Any = getattr(frame, "index", None)
        index = index.to_timestamp() if type(index).__name__ == "PeriodIndex" else index
        if type(index).__name__ != "DatetimeIndex":
            return None, 0.0
        return _seconds((index if index.tz is None else index.tz_convert(None)).to_numpy())
    kind = wrapped.schema[time]
    if kind.is_numeric():
        return _numbers(wrapped.get_column(time)), 0.0
    if not kind.is_temporal():
        raise ValueError(f"column {time!r} holds {kind}, not times; turn it into dates or numbers first")
    column = wrapped.get_column(time)
    if getattr(kind, "time_zone", None):
        column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return _seconds(column.to_numpy())


def _seconds(stamps: np.ndarray) -> tuple[np.ndarray, float]:
    stamps = stamps.astype("datetime64[ns]")
    known = stamps[~np.isnat(stamps)]
    if not known.size:
        raise ValueError("the time column holds no time")
    seconds = (stamps - known[0]) / np.timedelta64(1, "s")
    return np.where(np.isnat(stamps), np.nan, seconds), float(known[0].astype(np.int64)) / 1e9


def _groups(column: Any) -> tuple[np.ndarray, list[str]]:
    cells = np.array([str(cell) for cell in column.to_list()])
    labels, first, codes = np.unique(cells, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), int)
    rank[order] = np.arange(len(order))
    return rank[codes], [str(label) for label in labels[order]]
