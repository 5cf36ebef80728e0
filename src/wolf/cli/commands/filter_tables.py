"""Further tables of `wolf filter`: incidents, results on a regular grid, and the record of the run."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from wolf.cleaning import CleanedSeries, FittedSeries, Options, io
from wolf.cleaning.config import write_record
from wolf.cleaning.frames import result_names
from wolf.cleaning.grid_table import grid_table
from wolf.cleaning.incident_table import columns_of, incident_rows
from wolf.cleaning.load import LoadedTable
from wolf.cleaning.options import CleaningOptions
from wolf.execution.validate import package_version

NOT_FOR_TRACKS = ("rules", "labels", "maintenance", "every", "max_gap")


def refuse_for_tracks(options: Options) -> None:
    """Raise an error for options that do not apply to GPS tracks."""
    for name in NOT_FOR_TRACKS:
        if vars(options)[name] is not None:
            shown = "a rule" if name == "rules" else f"--{name.replace('_', '-')}"
            raise ValueError(f"{shown} does not apply to GPS tracks; leave it out")


def write(
    loaded: LoadedTable,
    series: Sequence[FittedSeries],
    options: Options,
    given: dict[str, Any],
    source: str,
) -> list[str]:
    """Write the incidents and the record, if requested; return the names of the files.

    Args:
        loaded: the input.
        series: cleaned, or prepared and filtered.
        options: how they were cleaned.
        given: options of the command.
        source: name of the input.
    """
    wrote = []
    if given["incidents"] is not None:
        cleaned = [each for each in series if isinstance(each, CleanedSeries)]
        _write_incidents(given["incidents"], loaded, cleaned, options.level)
        wrote.append(given["incidents"])
    if given["record"] is not None:
        names = [name for name in CleaningOptions.__annotations__ if name in given]
        shown: dict[str, Any] = {name: given[name] for name in names} | {"parameters": dict(options.parameters)}
        results = {"wolf": package_version(), "file": source, "rows": len(loaded.values), "values": loaded.names}
        results |= {"time": loaded.time or "", "by": loaded.by or ""}
        write_record(given["record"], shown, results, series)
        wrote.append(given["record"])
    return wrote


def _write_incidents(path: str, loaded: LoadedTable, series: list[CleanedSeries], level: float) -> None:
    """Write the incidents of all series, with times as in the input."""
    names = loaded.names if loaded.place is None else ["metres east", "metres north"]
    cells = columns_of(incident_rows(series, names, level))
    if loaded.axis is not None and cells["start"]:
        for name in ("start", "end"):
            cells[name] = loaded.axis.write(np.array(cells[name]))
    elif loaded.axis is None:
        for name in ("start", "end"):
            cells[name] = [int(number) for number in cells[name]]
    io.write_table(path, io.pyarrow().table(cells), loaded.table.kind, io.CsvStyle(loaded.table.delimiter))


def write_grid(
    target: str,
    loaded: LoadedTable,
    series: Sequence[FittedSeries],
    options: Options,
    escape_formulas: bool = False,
) -> None:
    """Write the results on a regular grid.

    Args:
        target: file, or "-".
        loaded: the input.
        series: cleaned.
        options: how they were cleaned.
        escape_formulas: as in `CsvStyle`.
    """
    if loaded.clock is not None or loaded.parts:
        raise ValueError("--every needs dates in one column, not in several")
    arrow = io.pyarrow()
    cleaned = [each for each in series if isinstance(each, CleanedSeries)]
    taken = {loaded.time, loaded.by, *loaded.names}
    names = [result_names(loaded.names, each.columns, taken) for each in cleaned]
    table = grid_table(cleaned, loaded.names, names, loaded.groups, options)
    cells: dict[str, Any] = {}
    if loaded.axis is None:
        cells["row"] = table.times.astype(int) + 1
    else:
        cells[str(loaded.time)] = loaded.axis.write(table.times)
    if loaded.by is not None and loaded.keys is not None:
        cells[loaded.by] = loaded.keys.take(arrow.array(table.groups, arrow.int64()))
    data = arrow.table(cells | {name: io.from_numpy(array) for name, array in table.columns.items()})
    style = io.CsvStyle(loaded.table.delimiter, decimal=loaded.decimal, escape_formulas=escape_formulas)
    io.write_table(target, data, loaded.table.kind, style)
