"""Results beside the columns that were read, and forecasts below them, written while they are made."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wolf.cleaning import PreparedSeries, Series, io
from wolf.cleaning.frames import KINDS, spread_rows, titles
from wolf.cleaning.load import Readings

PIECE = 65_536  # rows of results that are there already and are written at once


def write(
    target: str,
    readings: Readings,
    series: Sequence[PreparedSeries] | Sequence[Series],
    progress: Callable[[int], None],
) -> None:
    """Write the rows that were read with the results of all series.

    Args:
        target: file, or "-".
        readings: as loaded; their rows are read again.
        series: cleaned, or ready to be: each with all rows, in their order.
        progress: told how many rows were filtered.
    """
    table = readings.table
    schema = _schema(readings, series)
    io.write_pieces(
        target, schema, _pieces(readings, series, schema, progress), table.kind, table.delimiter, readings.quoted
    )


def _pieces(readings: Readings, series: Sequence[Any], schema: Any, progress: Callable[[int], None]) -> Iterator[Any]:
    rows = io.Rows(readings.table)
    ready = all(isinstance(each, PreparedSeries) for each in series)
    for added in _filtered(readings, series, progress) if ready else _cleaned(readings, series):
        piece = rows.take(len(next(iter(added.values()))))
        arrays = [*piece.columns, *(io.from_numpy(array) for array in added.values())]
        yield io.pyarrow().table(arrays, schema=schema)
    for each in series:
        if each.future is not None:
            yield _future(schema, readings, each)


def _schema(readings: Readings, series: Sequence[Any]) -> Any:
    """Put the columns of the results behind those that were read."""
    arrow = io.pyarrow()
    schema = readings.table.data.schema
    for each in series:
        for (kind, _), name in _titles(readings, each).items():
            if name not in schema.names:
                special = {"outlier": arrow.bool_(), "fault": arrow.string()}
                schema = schema.append(arrow.field(name, special.get(kind, arrow.float64())))
    return schema


def _filtered(
    readings: Readings, series: Sequence[PreparedSeries], progress: Callable[[int], None]
) -> Iterator[dict[str, np.ndarray]]:
    """Filter series that have all rows, in step."""
    first = 0
    for pieces in zip(*(each.pieces(progress) for each in series), strict=True):
        added: dict[str, np.ndarray] = {}
        for each, piece in zip(series, pieces, strict=True):
            title = _titles(readings, each)
            piece["cleaned"] = _cleaned_values(each, piece, first)
            for k, j in enumerate(each.columns):
                for kind in KINDS:
                    added[title[kind, j]] = piece[kind] if piece[kind].ndim == 1 else piece[kind][:, k]
        first += len(pieces[0]["mean"])
        yield added


def _cleaned_values(each: PreparedSeries, piece: dict[str, np.ndarray], first: int) -> np.ndarray:
    """Put the estimate where a reading was false or missing."""
    values = each.values[first : first + len(piece["mean"])]
    outlier = piece["outlier"] if piece["outlier"].ndim == 2 else piece["outlier"][:, None]
    return np.where(outlier | ~np.isfinite(values), piece["mean"], values)


def _cleaned(readings: Readings, series: Sequence[Series]) -> Iterator[dict[str, np.ndarray]]:
    """Cut the results of series that were cleaned, in the order in which rows were read."""
    count = len(readings.values)
    added = spread_rows(list(series), readings.names, count, set(readings.table.data.column_names))
    for first in range(0, count, PIECE):
        yield {name: array[first : first + PIECE] for name, array in added.items()}


def _titles(readings: Readings, each: Any) -> dict[tuple[str, int], str]:
    return titles(readings.names, each.columns, set(readings.table.data.column_names))


def _future(schema: Any, readings: Readings, each: Any) -> Any:
    """Make rows for the steps beyond the end: time, sensor, mean and intervals; nothing was measured there."""
    arrow = io.pyarrow()
    ahead, title = each.future, _titles(readings, each)
    cells: dict[str, Any] = {}
    if readings.parts and readings.axis is not None:
        parts = io.write_parts(readings.axis, ahead.times, readings.parts)
        text = {name: arrow.types.is_string(schema.field(name).type) for name in parts}
        cells |= {name: list(map(str, cell)) if text[name] else cell for name, cell in parts.items()}
    elif readings.time is not None and readings.axis is not None:
        stamps: Any = readings.axis.write(ahead.times)
        if not arrow.types.is_string(schema.field(readings.time).type):
            origin = readings.axis.origin
            stamps = ahead.times if origin is None else np.round(origin + ahead.times * 1e9).astype("datetime64[ns]")
        cells |= {readings.time: stamps} if readings.clock is None else _split(readings, schema, stamps)
    if readings.by is not None and readings.groups is not None:
        cells[readings.by] = readings.keys.take([int(readings.groups[each.rows[0]])] * len(ahead.times))
    for k, j in enumerate(each.columns):
        for kind in ahead._fields[1:]:
            cells[title[kind, j]] = getattr(ahead, kind)[:, k]
    columns = []
    for field in schema:
        cell = cells.get(field.name)
        blank = arrow.nulls(len(ahead.times), field.type)
        column = blank if cell is None else cell if isinstance(cell, arrow.ChunkedArray) else arrow.array(cell)
        columns.append(column.cast(field.type))
    return arrow.table(columns, schema=schema)


def _split(readings: Readings, schema: Any, stamps: Any) -> dict[str, Any]:
    """Write dates and times of day into their own columns."""
    types = io.pyarrow().types
    cells = [str(stamp).replace("T", " ").partition(" ") for stamp in stamps]
    dates, clocks = [cell[0] for cell in cells], [cell[2] for cell in cells]
    if types.is_integer(schema.field(readings.time).type):  # as 20240501
        dates = [date.replace("-", "") for date in dates]
    if not types.is_string(schema.field(readings.clock).type):
        clocks = [clock[: len("13:45:00")] for clock in clocks]
    return {str(readings.time): dates, str(readings.clock): clocks}
