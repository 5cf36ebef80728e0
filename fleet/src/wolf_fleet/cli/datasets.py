"""Implementation of `wolf dataset`: detect the columns of a folder from its first rows, filter it bucket by bucket."""

import dataclasses
from typing import Any

from tqdm import tqdm

from wolf.cleaning import column_roles, io
from wolf.cli.commands import filter
from wolf_fleet.cli import stream
from wolf_fleet.datasets import DatasetSummary, filesystem, filter_dataset, filter_folder, partitions

BYTES_PER_GIGABYTE = 2**30
CLEANING_OPTIONS = ("smooth", "causal", "patience", "max_fault_length")  # without effect on online filtering
AUTO_MODEL, ONLINE_MODEL = "auto", "local-level"


def run(
    source: str, out: str, method: str | None, options: dict[str, Any], bar: tqdm
) -> tuple[DatasetSummary, list[str]]:
    """Filter a folder.

    Args:
        source: folder.
        out: folder for the output.
        method: name with options.
        options: of the command.
        bar: progress bar.

    Returns:
        The counts, and notes on how the columns were interpreted.
    """
    _check_options(options)
    time, values, notes = find_columns(source, options["time"], options["values"], options["by"])
    memory = None if options["memory"] is None else options["memory"] * BYTES_PER_GIGABYTE
    shared: Any = {"time": time, "memory": memory, "workers": options["workers"], "level": options["level"]}
    shared |= {"on_progress": _progress_callback(bar)}
    if options["online"]:
        name = ONLINE_MODEL if options["model"] == AUTO_MODEL else options["model"]
        bank = stream.make_bank(name, options["settings"], method, len(values))
        step = 1.0 if options["step"] is None else options["step"]
        named: Any = {"key": options["by"], "values": values, "step": step}
        return filter_dataset(source, out, bank.model, bank.method, **named, **shared), notes
    chosen: Any = {name: options[name] for name in CLEANING_OPTIONS}
    chosen |= {"method": filter.parse_method(method), "parameters": filter.parse_settings(options["settings"])}
    chosen |= {"model": options["model"]}
    return filter_folder(source, out, by=options["by"], values=values, **chosen, **shared), notes


def _check_options(options: dict[str, Any]) -> None:
    """Raise a `ValueError` for options that have no effect together."""
    given = [f"--{name.replace('_', '-')}" for name in CLEANING_OPTIONS if options[name]]
    if options["online"] and given:
        raise ValueError(
            f"{given[0]} has no effect with --online, which filters each row without later ones; remove it"
        )
    if options["step"] is not None and not options["online"]:
        raise ValueError("--step has no effect without --online: the step is estimated from the times; remove it")


def _progress_callback(bar: tqdm) -> Any:
    """Create the callback that updates a progress bar."""
    current = ""

    def on_progress(phase: str, done: int, total: int) -> None:
        nonlocal current
        if phase != current:
            current = phase
            bar.set_description_str(phase)
            bar.reset(total)
        bar.update(done - bar.n)

    return on_progress


def find_columns(
    source: str, time: str | None, values: tuple[str, ...], by: str
) -> tuple[str | None, list[str], list[str]]:
    """Determine the time and value columns from the first rows of a folder where they are not given.

    Args:
        source: folder.
        time: name of the time column, or None.
        values: names of value columns, or none.
        by: name of the column that identifies the series.

    Returns:
        The time column or None, the value columns, and notes on how they were found.
    """
    head = partitions.first_rows(partitions.open_folder(filesystem.locate(source)))
    table = io.Table(source, head, "parquet", ",", lambda: iter(head.to_batches()))
    notes: list[str] = []
    if by not in head.column_names:
        raise ValueError(f"there is no column {by!r}; there are {', '.join(map(repr, head.column_names))}")
    known = column_roles.describe(table)
    found = time if time else column_roles.find_time(table, known, {by, *values}, notes)
    if not values and column_roles.find_place(known, values):
        raise ValueError(
            "the folder contains latitudes and longitudes: give value columns with --value, "
            "or clean the tracks file by file with `wolf filter`"
        )
    names = list(dict.fromkeys(values)) or [column_roles.find_value(table, known, {found, by}, notes)]
    return found, names, notes


def facts(summary: DatasetSummary, notes: list[str]) -> dict[str, Any]:
    """Return the counts by name, with the output folder and the notes."""
    return dataclasses.asdict(dataclasses.replace(summary, parts=())) | {"out": str(summary.out), "notes": notes}
