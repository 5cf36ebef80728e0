"""Output of `wolf filter`: result columns next to the columns of the input, and forecasts below, written in pieces."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from wolf.cleaning import CleanedSeries, FittedSeries, PreparedSeries, SeriesForecast, io
from wolf.cleaning.forecast_rows import ColumnNames
from wolf.cleaning.frames import RESULT_COLUMNS, result_columns, result_names
from wolf.cleaning.load import LoadedTable
from wolf.cleaning.quality_flags import NOT_EVALUATED
from wolf.cleaning.result import replace_outliers

if TYPE_CHECKING:
    import pyarrow as pa

PIECE_ROWS = 65_536  # rows of results in memory that are written at once


def write(
    target: str,
    loaded: LoadedTable,
    series: Sequence[FittedSeries],
    on_progress: Callable[[int], object],
    escape_formulas: bool = False,
) -> None:
    """Write the rows of the input with the results of all series.

    Args:
        target: file, or "-".
        loaded: the input; its rows are read again.
        series: cleaned, or prepared: each with all rows, in their order.
        on_progress: called with the number of rows of each piece.
        escape_formulas: as in `CsvStyle`.
    """
    table = loaded.table
    schema = _schema(loaded, series)
    pieces = _pieces(loaded, series, schema, on_progress)
    style = io.CsvStyle(table.delimiter, loaded.quoted, loaded.decimal, escape_formulas)
    io.write_pieces(target, schema, pieces, table.kind, style)


def _pieces(
    loaded: LoadedTable, series: Sequence[FittedSeries], schema: "pa.Schema", on_progress: Callable[[int], object]
) -> Iterator["pa.Table"]:
    rows = io.RowReader(loaded.table)
    prepared = [each for each in series if isinstance(each, PreparedSeries)]
    results = _filter_pieces(loaded, prepared, on_progress) if prepared else _split_results(loaded, series)
    for added in results:
        piece = rows.read(len(next(iter(added.values()))))
        arrays = [*piece.columns, *(io.from_numpy(array) for array in added.values())]
        yield io.pyarrow().table(arrays, schema=schema)
    for each in series:
        if each.forecast is not None:
            yield _forecast_rows(schema, loaded, each, each.forecast)


def _schema(loaded: LoadedTable, series: Sequence[FittedSeries]) -> "pa.Schema":
    """Append the result columns to the schema of the input."""
    arrow = io.pyarrow()
    schema = loaded.table.data.schema
    for each in series:
        for (quantity, _), name in _names(loaded, each).items():
            if name not in schema.names:
                special = {"outlier": arrow.bool_(), "fault": arrow.string(), "qartod": arrow.int8()}
                schema = schema.append(arrow.field(name, special.get(quantity, arrow.float64())))
    return schema


def _filter_pieces(
    loaded: LoadedTable, series: Sequence[PreparedSeries], on_progress: Callable[[int], object]
) -> Iterator[dict[str, np.ndarray]]:
    """Filter series that have all rows, in step, and yield their result columns."""
    first = 0
    for pieces in zip(*(each.pieces(on_progress) for each in series), strict=True):
        added: dict[str, np.ndarray] = {}
        for each, piece in zip(series, pieces, strict=True):
            names = _names(loaded, each)
            values = each.values[first : first + len(piece["mean"])]
            piece["cleaned"] = replace_outliers(values, piece["outlier"], piece["mean"])
            for k, j in enumerate(each.columns):
                for quantity in RESULT_COLUMNS:
                    array = piece[quantity]
                    added[names[quantity, j]] = array if array.ndim == 1 else array[:, k]
        first += len(pieces[0]["mean"])
        yield added


def _split_results(loaded: LoadedTable, series: Sequence[FittedSeries]) -> Iterator[dict[str, np.ndarray]]:
    """Split the results of cleaned series into pieces, in the order of the input."""
    count = len(loaded.values)
    cleaned = [each for each in series if isinstance(each, CleanedSeries)]
    added = result_columns(cleaned, loaded.names, count, set(loaded.table.data.column_names))
    for first in range(0, count, PIECE_ROWS):
        yield {name: array[first : first + PIECE_ROWS] for name, array in added.items()}


def _names(loaded: LoadedTable, each: FittedSeries) -> ColumnNames:
    return result_names(loaded.names, each.columns, set(loaded.table.data.column_names))


def _forecast_rows(schema: "pa.Schema", loaded: LoadedTable, each: FittedSeries, ahead: SeriesForecast) -> "pa.Table":
    """Build the rows of a forecast: time, key, mean and intervals; other cells are null."""
    arrow = io.pyarrow()
    names = _names(loaded, each)
    cells: dict[str, object] = {}
    if loaded.parts and loaded.axis is not None:
        parts = io.write_parts(loaded.axis, ahead.times, loaded.parts)
        text = {name: arrow.types.is_string(schema.field(name).type) for name in parts}
        cells |= {name: list(map(str, cell)) if text[name] else cell for name, cell in parts.items()}
    elif loaded.time is not None and loaded.axis is not None:
        stamps: Sequence[object] | np.ndarray = loaded.axis.write(ahead.times)
        if not arrow.types.is_string(schema.field(loaded.time).type):
            origin = loaded.axis.origin
            stamps = ahead.times if origin is None else np.round(origin + ahead.times * 1e9).astype("datetime64[ns]")
        cells |= {loaded.time: stamps} if loaded.clock is None else _split_dates(loaded, schema, stamps)
    if loaded.by is not None and loaded.keys is not None and loaded.groups is not None and each.rows is not None:
        cells[loaded.by] = loaded.keys.take([int(loaded.groups[each.rows[0]])] * len(ahead.times))
    for k, j in enumerate(each.columns):
        for quantity, array in zip(ahead._fields[1:], ahead[1:], strict=True):
            cells[names[quantity, j]] = array[:, k]
        cells[names["qartod", j]] = np.full(len(ahead.times), NOT_EVALUATED, np.int8)
    columns = []
    for field in schema:
        cell = cells.get(field.name)
        blank = arrow.nulls(len(ahead.times), field.type)
        column = blank if cell is None else cell if isinstance(cell, arrow.ChunkedArray) else arrow.array(cell)
        columns.append(column.cast(field.type))
    return arrow.table(columns, schema=schema)


def _split_dates(
    loaded: LoadedTable, schema: "pa.Schema", stamps: Sequence[object] | np.ndarray
) -> dict[str, list[str]]:
    """Split time stamps into a column of dates and one of times of day."""
    types = io.pyarrow().types
    cells = [str(stamp).replace("T", " ").partition(" ") for stamp in stamps]
    dates, clocks = [cell[0] for cell in cells], [cell[2] for cell in cells]
    if types.is_integer(schema.field(loaded.time).type):  # as 20240501
        dates = [date.replace("-", "") for date in dates]
    if not types.is_string(schema.field(loaded.clock).type):
        clocks = [clock[: len("13:45:00")] for clock in clocks]
    return {str(loaded.time): dates, str(loaded.clock): clocks}
