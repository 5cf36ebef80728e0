"""Tables of results on a regular grid, which replace the rows of the input."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wolf.cleaning.forecast_rows import ColumnNames
from wolf.cleaning.options import Options
from wolf.cleaning.regular_grid import on_grid
from wolf.cleaning.result import CleanedSeries
from wolf.results.views.data_frame import narwhals

if TYPE_CHECKING:
    import narwhals as nw


class GridTable(NamedTuple):
    """Results of all series on their grids, one after the other.

    Attributes:
        groups: number of the series of each row, (n,).
        times: in the unit of the series, (n,).
        columns: measurements and results by name, (n,) each.
    """

    groups: np.ndarray
    times: np.ndarray
    columns: dict[str, np.ndarray]


def grid_table(
    series: Sequence[CleanedSeries],
    names: list[str],
    results: Sequence[ColumnNames],
    groups: np.ndarray | None,
    options: Options,
) -> GridTable:
    """Compute the results of all series at the times of a regular grid.

    Args:
        series: cleaned.
        names: of the value columns.
        results: names of the result columns of each series.
        groups: series number of each row of the input; None if there is one.
        options: how they were cleaned.
    """
    blocks: dict[int, dict[str, np.ndarray]] = {}
    clocks: dict[int, np.ndarray] = {}
    kinds: dict[str, np.dtype] = {}
    for each, own_names in zip(series, results, strict=True):
        number = 0 if groups is None else int(groups[each.rows[each.rows >= 0][0]])
        clocks[number], arrays = on_grid(each, options)
        cells = blocks.setdefault(number, {})
        for k, j in enumerate(each.columns):
            cells[names[j]] = arrays["values"][:, k]
            for (quantity, column), name in own_names.items():
                if column == j:
                    array = arrays[quantity]
                    cells[name] = array if array.ndim == 1 else array[:, k]
        kinds |= {name: array.dtype for name, array in cells.items()}
    order = sorted(blocks)
    sizes = [len(clocks[number]) for number in order]
    columns = {
        name: np.concatenate([_cells(blocks[n].get(name), size, kind) for n, size in zip(order, sizes, strict=True)])
        for name, kind in kinds.items()
    }
    return GridTable(np.repeat(order, sizes), np.concatenate([clocks[number] for number in order]), columns)


def _cells(array: np.ndarray | None, size: int, kind: np.dtype) -> np.ndarray:
    """Return the cells of a series, or blank ones if it could not be filtered."""
    return array if array is not None else np.full(size, np.nan) if kind.kind == "f" else np.zeros(size, kind)


def grid_frame(
    wrapped: "nw.DataFrame", table: GridTable, time: str | None, by: str | None, labels: list[str] | None, rows: Any
) -> Any:
    """Build a data frame of the library of the input from a grid.

    Args:
        wrapped: input, a narwhals frame.
        table: results on the grid.
        time: column of times.
        by: column that identifies the series.
        labels: of the series.
        rows: numbers of the frame, `frames.FrameRows`.
    """
    nw = narwhals()
    cells: dict[str, Any] = {}
    stamps: np.ndarray = table.times
    if rows.dated:
        stamps = np.round((table.times + rows.origin) * 1e6).astype("datetime64[us]")
    elif rows.times is None:
        stamps = table.times + 1.0
    index = time is None and rows.dated
    name = "time" if time is None else time
    if not index:
        cells[name] = stamps
    if by is not None and labels is not None:
        cells[by] = [labels[number] for number in table.groups.tolist()]
    backend = nw.get_native_namespace(wrapped)
    out = nw.from_dict(cells | table.columns, backend=backend)
    kind = wrapped.schema[time] if time is not None else None
    if isinstance(kind, nw.Datetime) and kind.time_zone:
        zoned = nw.col(name).dt.replace_time_zone("UTC").dt.convert_time_zone(kind.time_zone)
        out = out.with_columns(zoned)
    native = out.to_native()
    if index:  # of pandas
        own = wrapped.to_native().index
        dates = own.to_timestamp() if type(own).__name__ == "PeriodIndex" else own
        native.index = type(dates)(stamps) if dates.tz is None else type(dates)(stamps, tz="UTC").tz_convert(dates.tz)
        native.index.name = own.name
    return native
