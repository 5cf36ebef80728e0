"""Incidents of cleaned series and of cleaned data frames, as tables."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wolf import validation
from wolf.cleaning.frames import RESULT_COLUMNS, FrameRows, read_frame
from wolf.cleaning.options import DEFAULT_LEVEL
from wolf.cleaning.quality_flags import NOT_EVALUATED
from wolf.cleaning.result import CleanedSeries
from wolf.cleaning.sampling import gaps_of
from wolf.diagnostics.faults.incidents import SeriesIncident, find_incidents
from wolf.results.views.data_frame import narwhals

if TYPE_CHECKING:
    import narwhals as nw

COLUMNS = ("series", "column", "kind", "start", "end", "rows", "severity", "confidence", "reason")


class TableRow(NamedTuple):
    """An incident with the series and the column that it is about.

    Attributes:
        series: label; "" if there is only one.
        column: name; "" for a track.
        incident: what was found.
    """

    series: str
    column: str
    incident: SeriesIncident


def incidents_of(each: CleanedSeries, level: float = DEFAULT_LEVEL) -> list[tuple[int | None, SeriesIncident]]:
    """List the incidents of a cleaned series, each with its column, or None if all columns are judged together.

    Args:
        each: cleaned series.
        level: probability of its intervals.
    """
    upper = each.upper if each.prediction_upper is None else each.prediction_upper
    half = upper - each.mean
    joint = each.outlier.ndim == 1
    found: list[tuple[int | None, SeriesIncident]] = []
    for k in [slice(None)] if joint else [slice(k, k + 1) for k in range(each.values.shape[1])]:
        outlier = each.outlier if joint else each.outlier[:, k][:, 0]
        fault = np.where(outlier, "spike", "") if each.fault is None else each.fault
        arrays = (each.values[:, k], each.mean[:, k], half[:, k], outlier, fault)
        own = find_incidents(*arrays, each.times, each.unit, level)
        found += [(None if joint else k.start, one) for one in own]
    return found


def incident_rows(series: Sequence[CleanedSeries], names: list[str], level: float = DEFAULT_LEVEL) -> list[TableRow]:
    """List the incidents of all series, the most severe first.

    Args:
        series: cleaned.
        names: of the value columns.
        level: probability of the intervals.
    """
    rows = []
    for each in series:
        own = [names[j] for j in each.columns]
        label = each.label.removesuffix(own[0]).rstrip() if len(own) == 1 else each.label
        for k, incident in incidents_of(each, level):
            column = own[0] if len(own) == 1 else "" if k is None else own[k]
            rows.append(TableRow(label, column, incident))
    return sorted(rows, key=lambda row: (-row.incident.severity, row.series, row.incident.first))


def columns_of(rows: list[TableRow]) -> dict[str, list[Any]]:
    """Return the columns of a table of incidents; times are numbers."""
    cells: dict[str, list[Any]] = {"series": [row.series for row in rows], "column": [row.column for row in rows]}
    for name in COLUMNS[2:]:
        cells[name] = [vars(row.incident)[name] for row in rows]
    for name in ("severity", "confidence"):
        cells[name] = [float(f"{number:.6g}") for number in cells[name]]
    return cells


def incidents(
    frame: object,
    *,
    time: str | None = None,
    values: str | list[str] | None = None,
    by: str | None = None,
    level: float = DEFAULT_LEVEL,
) -> Any:
    """List the incidents of a cleaned data frame.

    Args:
        frame: result of `wolf.filter_frame`, or a table that `wolf filter` wrote.
        time: column of times, as for `filter_frame`.
        values: columns of measurements. Default: the only column of numbers that is no result.
        by: column that identifies the series.
        level: probability of the intervals.

    Returns:
        A frame of the same type, one row per incident, the most severe first: `series`, `column`, `kind`, `start`,
        `end`, `rows`, `severity` (largest distance from the estimate, in half widths of the prediction interval),
        `confidence` and `reason`. Without times `start` and `end` are row numbers from 1.

    Example:
        >>> import numpy as np, pandas, wolf
        >>> values = np.random.default_rng(0).normal(20.0, 1.0, 200)
        >>> values[50:53] += 50.0
        >>> out = wolf.filter_frame(pandas.DataFrame({"temperature": values}))
        >>> found = wolf.incidents(out)
        >>> found[["kind", "start", "end", "rows"]].values.tolist()
        [['burst', 51.0, 53.0, 3]]
    """
    nw = narwhals()
    try:
        wrapped = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise ValueError(f"incidents needs a cleaned frame; got {validation.short_repr(frame)}") from error
    validation.confidence_level(level)
    results = [name for name in wrapped.columns if str(name).rpartition("wolf_")[2].endswith(RESULT_COLUMNS)]
    rows = read_frame(wrapped, time, values, by, [] if values is not None else results)
    codes = np.zeros(len(rows.values), int) if rows.groups is None else rows.groups
    joint = len(rows.names) > 1 and _name(wrapped, f"{rows.names[0]}_outlier") is None
    blocks = [rows.names] if joint else [[name] for name in rows.names]
    found: list[TableRow] = []
    for number, label in enumerate(rows.labels or [""]):
        own = np.flatnonzero(codes == number)
        own = own if rows.times is None else own[np.argsort(rows.times[own], kind="stable")]
        for names in blocks:
            incidents = _block_incidents(wrapped, rows, names, own, level)
            found += [TableRow(label, "" if joint else names[0], one) for one in incidents]
    found.sort(key=lambda row: (-row.incident.severity, row.series, row.incident.first))
    cells: dict[str, Any] = columns_of(found)
    if rows.dated:
        for name in ("start", "end"):
            seconds = np.array(cells[name], float) + rows.origin
            cells[name] = np.round(seconds * 1e6).astype("datetime64[us]")
    return nw.from_dict(cells, backend=nw.get_native_namespace(wrapped)).to_native()


def _block_incidents(
    wrapped: "nw.DataFrame", rows: FrameRows, names: list[str], own: np.ndarray, level: float
) -> list[SeriesIncident]:
    """List the incidents of columns that were judged together; none for a series that could not be filtered."""
    own = own[~_forecast_rows(wrapped, rows, names)[own]]
    mean, upper = (
        np.stack([_numbers(wrapped, rows.names, name, quantity)[own] for name in names], axis=1)
        for quantity in ("mean", "prediction_upper")
    )
    if not np.isfinite(mean).any():
        return []
    values = np.stack([rows.values[own, rows.names.index(name)] for name in names], axis=1)
    outlier = _column(wrapped, rows.names, names[0], "outlier").fill_null(False).cast(narwhals().Boolean)
    fault = _column(wrapped, rows.names, names[0], "fault")
    times = None if rows.times is None else rows.times[own]
    flags = (np.asarray(outlier.to_numpy(), bool)[own], np.asarray(fault.to_numpy()).astype(str)[own])
    return find_incidents(values, mean, upper - mean, *flags, times, gaps_of(times)[0], level)


def _forecast_rows(wrapped: "nw.DataFrame", rows: FrameRows, names: list[str]) -> np.ndarray:
    """Find the rows of a forecast: not evaluated, and without a measurement."""
    flags = _numbers(wrapped, rows.names, names[0], "qartod")
    return np.asarray((flags == NOT_EVALUATED) & np.isnan(rows.values).all(axis=1))


def _numbers(wrapped: "nw.DataFrame", names: list[str], name: str, quantity: str) -> np.ndarray:
    return np.asarray(_column(wrapped, names, name, quantity).cast(narwhals().Float64).to_numpy(), np.float64)


def _column(wrapped: "nw.DataFrame", names: list[str], name: str, quantity: str) -> "nw.Series":
    """Return a result column of a value column."""
    plain = [quantity] if len(names) == 1 else [f"{name}_{quantity}", quantity]
    found = next(filter(None, (_name(wrapped, each) for each in plain)), None)
    if found is None:
        raise ValueError(f"the frame has no column {plain[0]!r}: incidents needs a result of wolf.filter_frame")
    return wrapped.get_column(found)


def _name(wrapped: "nw.DataFrame", plain: str) -> str | None:
    """Find the name of a result column, which has a prefix where the input had a column of that name."""
    return next((each for each in (f"wolf_wolf_{plain}", f"wolf_{plain}", plain) if each in wrapped.columns), None)
