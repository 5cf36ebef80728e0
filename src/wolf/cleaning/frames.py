"""Cleaning of data frames of pandas, polars and Arrow, through narwhals; the result is of the same library."""

import warnings
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np

from wolf import validation
from wolf.cleaning import CleanedSeries, CleaningOptions, Options, clean
from wolf.cleaning.forecast_rows import append_forecasts
from wolf.cleaning.grid_table import grid_frame, grid_table
from wolf.cleaning.quality_flags import NOT_EVALUATED
from wolf.models.exogenous import read_exogenous
from wolf.results.views.data_frame import narwhals

if TYPE_CHECKING:
    import narwhals as nw

RESULT_COLUMNS = (
    "mean",
    "lower",
    "upper",
    "prediction_lower",
    "prediction_upper",
    "weight",
    "outlier",
    "fault",
    "cleaned",
    "anomaly_score",
    "qartod",
)
TO_NUMBERS = '; pandas.to_numeric(column, errors="coerce") converts text to numbers, and other text to NaN'
NO_FUTURE = (
    "a forecast needs the exogenous variables of the future: append rows that have them and no measurement, instead of "
    "forecast="
)
JOINT_COLUMNS = ("weight", "outlier", "fault", "anomaly_score", "qartod")  # one for all coordinates of a track


def filter_frame(
    frame: object,
    *,
    time: str | None = None,
    values: str | list[str] | None = None,
    by: str | None = None,
    exog: str | list[str] | None = None,
    sd: str | None = None,
    **options: Unpack[CleaningOptions],
) -> Any:
    """Clean the measurements in a data frame.

    Args:
        frame: of pandas or polars, or a `pyarrow.Table`; or one Series. Rows may be in any order.
        time: column of times, numbers or dates. Default: the index of a pandas frame if it holds dates, and even steps
            otherwise.
        values: column of measurements, or several. Default: the only column of numbers.
        by: column that identifies the series.
        exog: columns of exogenous variables (covariates) that the measurements depend on linearly, without gaps. For a
            forecast with them, append rows of the future that have them and no measurement.
        sd: column with the accuracy of each reading: the standard deviation of its noise is proportional to it.
        **options: how to clean; each is a field of `wolf.cleaning.Options`.

    Keyword options:

    - `model`: "auto" to select one from the data (`wolf.choose`), "local-level", "local-trend", "seasonal:24",
      "wiener-velocity" (several values are then one track) or a TOML file; see `wolf models`. Or a linear model, used
      as it is; its step is one typical step of the times.
    - `method`: as in `wolf.filter`; its weights then judge the measurements. By default, and unless `causal`, faults
      are found by a retrospective search over the whole series.
    - `parameters`: known variances, by name; the others are fitted.
    - `smooth`: use the whole series for each row, with the weights of the method.
    - `level`: probability of the intervals. Default: 0.95.
    - `forecast`: number of steps beyond the end of each series, as rows below the others. An index of dates or a range
      is continued; other pandas labels are those of the last row of the series.
    - `causal`: use only the past of each row.
    - `patience`: number of consecutive consistent rejections after which a causal filter accepts a jump, as a duration
      ("2h") or a number of rows.
    - `max_fault_length`: longest fault, as a duration ("2h") or a number of rows; a longer deviation is a shift.
    - `false_alarms`: expected false incidents per 10,000 measurements of a series of at least 5,000 rows, from the tail
      of its own fault statistic. Default: 1; 0 for the thresholds of the model.
    - `rules`: limits by column, such as `{"temperature": {"min": -20, "max": 45, "max_rate": "5/h", "flat_for":
      "6h"}}`, or a TOML file with a table `rules`. A reading that violates one is a fault.
    - `labels`: intervals labelled by hand, with `start`, `end` and `label` ("fault" or "good"): a file, a frame or a
      list of mappings. `column` and `series` limit an interval to one of them.
    - `maintenance`: known events, likewise with `start` and `end`: readings in between are set aside. An event without
      an end is a calibration, where the level may step without a fault.
    - `correction`: "offset" or "drift" to correct the readings before each calibration by its error: the column
      `error` of `maintenance` (reading minus reference), or else the step of the readings.
    - `every`: step of a regular grid whose rows are returned instead of those of the frame, as a duration ("15min")
      or a number of steps.
    - `max_gap`: longest gap that `cleaned` fills, as a duration or a number of rows; it is NaN in longer ones.
    - `transform`: scale on which the values are modelled, so that `mean` (then the median) and all limits keep to their
      range: "log" for positive values, "sqrt" for counts, "logit:0:100" for percentages, or two functions (forward,
      inverse). Values outside of the range are outliers.
    - `angle`: "degrees" or "radians" for angles, which wrap around; a limit of an interval may then be below or above
      the range of the values.
    - `together`: columns among `values` that are correlated, or True for all: what the others say about a column is
      used to judge it and to fill its gaps.

    Returns:
        The frame with its rows, index and columns unchanged, followed by `mean` with `lower` and `upper` (interval of
        the noise-free signal), `prediction_lower` and `prediction_upper` (interval of a measurement), `weight`,
        `outlier`, `fault` (spike, burst, stuck, dropout, drift, range, rate, labelled; also shift, gap and maintenance,
        which are no faults), `cleaned` (the measurements, with the estimate in place of outliers and missing ones),
        `anomaly_score` (from 0 to 1; outliers have 1/2 and more, NaN is missing) and `qartod` (1 good, 2 not evaluated,
        3 suspect, 4 fault, 9 missing). `wolf.incidents` joins the rows to incidents. With several values the names have
        the value's name as a prefix. A Series is returned as a frame.

    Example:
        >>> import numpy as np, pandas, wolf
        >>> values = np.random.default_rng(0).normal(20.0, 1.0, 200)
        >>> values[50] = 999.0
        >>> out = wolf.filter_frame(pandas.DataFrame({"temperature": values}))
        >>> np.flatnonzero(out["outlier"]).tolist(), out["fault"][50], bool(abs(out["cleaned"][50] - 20.0) < 1.0)
        ([50], 'spike', True)
    """
    unknown = [name for name in options if name not in CleaningOptions.__annotations__]
    if unknown:
        known = ", ".join(("time", "values", "by", "exog", "sd", *CleaningOptions.__annotations__))
        raise TypeError(f"filter_frame() got an unexpected keyword argument {unknown[0]!r}; expected one of {known}")
    nw = narwhals()
    try:
        wrapped = nw.from_native(frame, eager_only=True, allow_series=True)
    except TypeError as error:
        advice = " Call .collect() first." if type(frame).__name__ == "LazyFrame" else ""
        raise ValueError(f"frame must be of pandas, polars or Arrow; got {type(frame).__name__}.{advice}") from error
    if isinstance(wrapped, nw.Series):
        wrapped = wrapped.alias("value" if wrapped.name in (None, "") else wrapped.name).to_frame()
    columns: list[str] = wrapped.columns
    _check_names(wrapped, time, by)
    regressors = read_exog(wrapped, exog, {time, by})
    if regressors is not None and options.get("forecast"):
        raise ValueError(NO_FUTURE)
    accuracy = _read_sd(wrapped, sd, {time, by, *_as_list(exog)})
    rows = read_frame(wrapped, time, values, by, [*_as_list(exog), *_as_list(sd)])
    parsed = _parse_options(options, rows)
    series = clean(
        rows.values,
        rows.times,
        parsed,
        groups=rows.groups,
        labels=rows.labels,
        names=rows.names,
        exog=regressors,
        sd=accuracy,
        on_failure=_warn,
    )
    if parsed.every is not None:
        grid_names = [result_names(rows.names, each.columns, {time, by, *rows.names}) for each in series]
        table = grid_table(series, rows.names, grid_names, rows.groups, parsed)
        return grid_frame(wrapped, table, time, by, rows.labels, rows)
    added = result_columns(series, rows.names, len(rows.values), set(columns))
    backend = nw.get_native_namespace(wrapped)
    new = [nw.new_series(name, column, backend=backend) for name, column in added.items()]
    out = wrapped.with_columns(*new)
    if options.get("forecast"):
        names = [result_names(rows.names, each.columns, set(columns)) for each in series]
        out = append_forecasts(out, series, names, time, by)
    return out.to_native()


def _parse_options(options: CleaningOptions, rows: "FrameRows") -> Options:
    """Convert keyword arguments to `Options`."""
    parameters = validation.mapping("parameters", options.get("parameters"), "{'obs_var': 1.0}")
    return Options.from_mapping(options, parameters=parameters, diagnostics=False, dated=rows.dated, origin=rows.origin)


class FrameRows(NamedTuple):
    """Numbers of a frame.

    Attributes:
        values: (rows, M).
        times: (rows,), or None.
        dated: whether times are seconds of a clock.
        origin: Unix time in seconds at which they are 0.
        groups: series number of each row.
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


def read_exog(wrapped: "nw.DataFrame", exog: str | list[str] | None, taken: set[str | None]) -> np.ndarray | None:
    """Read the exogenous variables of a narwhals frame, (rows, K); None without."""
    names = _as_list(exog)
    if not names:
        return None
    for name in names:
        _check_name("exog", name, wrapped.columns)
        if name in taken or not (wrapped.schema[name].is_numeric() or wrapped.schema[name] == narwhals().Boolean):
            raise ValueError(f"column {name!r}, given as exog, must hold numbers and have no other role{TO_NUMBERS}")
    columns = np.stack([_numbers(wrapped.get_column(name)) for name in names], axis=1)
    return read_exogenous(columns, list(map(str, names))).values


def _read_sd(wrapped: "nw.DataFrame", sd: str | None, taken: set[str | None]) -> np.ndarray | None:
    """Read the accuracy of each row of a narwhals frame, (rows,); None without."""
    if sd is None:
        return None
    _check_name("sd", sd, wrapped.columns)
    if sd in taken or not wrapped.schema[sd].is_numeric():
        raise ValueError(f"column {sd!r}, given as sd, must hold numbers and have no other role{TO_NUMBERS}")
    return _numbers(wrapped.get_column(sd))


def _as_list(names: str | list[str] | None) -> list[str]:
    return [] if names is None else list(names) if isinstance(names, list | tuple | np.ndarray) else [names]


def read_frame(
    wrapped: "nw.DataFrame",
    time: str | None,
    values: str | list[str] | None,
    by: str | None,
    others: Sequence[str] = (),
) -> FrameRows:
    """Read the numbers of a narwhals frame; `others` are columns that hold no measurements."""
    if not len(wrapped):
        raise ValueError("the frame has no rows; at least one is needed")
    chosen = value_names(wrapped, time, values, by, others)
    data = np.stack([_numbers(wrapped.get_column(name)) for name in chosen], axis=1)
    times, origin = _times(wrapped.to_native(), wrapped, time)
    groups, labels = (None, None) if by is None else _groups(wrapped.get_column(by))
    dated = (time is None or wrapped.schema[time].is_temporal()) and times is not None
    names = [str(name) for name in chosen]  # pandas has numbers for names
    return FrameRows(data, times, dated, origin, groups, labels, names)


def value_names(
    wrapped: "nw.DataFrame",
    time: str | None,
    values: str | list[str] | None,
    by: str | None,
    others: Sequence[str] = (),
) -> list[str]:
    """Check the names of columns, and find the value columns, which are not among the others."""
    _check_names(wrapped, time, by)
    found = _value_names(wrapped, values, {time, by, *others})
    double = [name for name in found if name in others]
    if double:
        raise ValueError(f"column {double[0]!r} cannot be both values and exog or sd")
    return found


def _warn(label: str, reason: str) -> None:
    """Warn that the results of a series are missing."""
    warnings.warn(f"{label} was not filtered: {reason}", stacklevel=4)


def result_columns(
    series: Sequence[CleanedSeries], names: list[str], rows: int, taken: set[str]
) -> dict[str, np.ndarray]:
    """Build the result columns of all series, on the rows of the input.

    Args:
        series: cleaned.
        names: of the value columns.
        rows: number of rows of the input.
        taken: column names that are in use.
    """
    added: dict[str, np.ndarray] = {}
    for each in series:
        column_names = result_names(names, each.columns, taken)
        for k, j in enumerate(each.columns):
            for quantity in RESULT_COLUMNS:
                array = getattr(each, quantity)
                array = array if array.ndim == 1 else array[:, k]
                if len(each.rows) == rows and _in_order(each.rows):
                    added[column_names[quantity, j]] = array
                    continue
                blank = NOT_EVALUATED if quantity == "qartod" else None
                added.setdefault(column_names[quantity, j], _blank(rows, array.dtype, blank))[each.rows] = array
    return added


def _blank(rows: int, dtype: np.dtype, value: int | None = None) -> np.ndarray:
    """Build an empty column: a value, NaN, False or empty text."""
    if value is not None:
        return np.full(rows, value, dtype)
    return np.full(rows, np.nan) if dtype.kind == "f" else np.zeros(rows, dtype)


def _in_order(rows: np.ndarray) -> bool:
    return bool(rows[0] == 0 and np.all(rows[1:] > rows[:-1]))


def result_names(
    names: list[str], columns: tuple[int, ...], taken: Collection[str | None]
) -> dict[tuple[str, int], str]:
    """Name the result columns of a series: plain for one value, with the value's name as a prefix for several.

    Example:
        >>> result_names(["x", "y"], (0, 1), set())["mean", 0], result_names(["x"], (0,), {"mean"})["mean", 0]
        ('x_mean', 'wolf_mean')
    """
    named = {}
    for j in columns:
        for quantity in RESULT_COLUMNS:
            joint = quantity in JOINT_COLUMNS and len(columns) > 1
            name = quantity if len(names) == 1 or joint else f"{names[j]}_{quantity}"
            while name in taken:
                name = f"wolf_{name}"
            named[quantity, j] = name
    return named


def _value_names(wrapped: "nw.DataFrame", values: str | list[str] | None, taken: set[str | None]) -> list[str]:
    if values is not None:
        names = list(values) if isinstance(values, list | tuple | np.ndarray) else [values]
        for name in names:
            _check_name("values", name, wrapped.columns)
            if not wrapped.schema[name].is_numeric():
                raise ValueError(
                    f"column {name!r}, given as values, holds {wrapped.schema[name]}, not numbers{TO_NUMBERS}"
                )
        if not names:
            raise ValueError("values must name at least one column")
        return names
    numeric = [name for name, kind in wrapped.schema.items() if kind.is_numeric() and name not in taken]
    if len(numeric) != 1:
        listed = ", ".join(map(repr, numeric)) or "none"
        hint = "" if numeric else TO_NUMBERS
        raise ValueError(f"name the column to filter with values=; the columns of numbers are: {listed}{hint}")
    return numeric


def _check_names(wrapped: "nw.DataFrame", time: str | None, by: str | None) -> None:
    for argument, name in (("time", time), ("by", by)):
        if name is not None:
            _check_name(argument, name, wrapped.columns)


def _check_name(argument: str, name: object, columns: list[str]) -> None:
    if not isinstance(name, str | int | float):  # pandas also has numbers for names
        raise ValueError(f"{argument} must be the name of a column; got {validation.short_repr(name)}")
    if name not in columns:
        close = get_close_matches(str(name), list(map(str, columns)), n=1, cutoff=0.4)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        named = ", ".join(map(repr, columns))
        raise ValueError(f"the frame has no column {name!r}, given as {argument}.{hint} Its columns are {named}")


def _numbers(column: "nw.Series") -> np.ndarray:
    return np.asarray(column.cast(narwhals().Float64).to_numpy(), np.float64)


def _times(frame: object, wrapped: "nw.DataFrame", time: str | None) -> tuple[np.ndarray | None, float]:
    """Read times as numbers, dates as seconds since the first of them; and the Unix time of that."""
    if time is None:
        index: Any = narwhals().maybe_get_index(wrapped)  # of pandas alone
        index = index.to_timestamp() if type(index).__name__ == "PeriodIndex" else index
        if type(index).__name__ != "DatetimeIndex":
            return None, 0.0
        return _seconds((index if index.tz is None else index.tz_convert(None)).to_numpy())
    kind = wrapped.schema[time]
    if kind.is_numeric():
        return _numbers(wrapped.get_column(time)), 0.0
    if not kind.is_temporal():
        raise ValueError(f"column {time!r} holds {kind}, not times; convert it to dates or numbers first")
    column = wrapped.get_column(time)
    if isinstance(kind, narwhals().Datetime) and kind.time_zone:
        column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return _seconds(column.to_numpy())


def _seconds(stamps: np.ndarray) -> tuple[np.ndarray, float]:
    stamps = stamps.astype("datetime64[ns]")
    known = stamps[~np.isnat(stamps)]
    if not known.size:
        raise ValueError("all cells of the time column are missing")
    seconds = (stamps - known[0]) / np.timedelta64(1, "s")
    return np.where(np.isnat(stamps), np.nan, seconds), float(known[0].astype(np.int64)) / 1e9


def _groups(column: "nw.Series") -> tuple[np.ndarray, list[str]]:
    cells = np.array([str(cell) for cell in column.to_list()])
    labels, first, codes = np.unique(cells, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), int)
    rank[order] = np.arange(len(order))
    return rank[codes], [str(label) for label in labels[order]]
