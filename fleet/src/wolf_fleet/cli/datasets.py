"""What `wolf filter` does to a folder: find the columns in its first rows, and clean it bucket by bucket."""

import dataclasses
from typing import Any

from wolf.cleaning import column_roles as finding
from wolf.cleaning import io
from wolf.cli.commands import filter
from wolf.cli.progress import Progress
from wolf_fleet.cli import stream
from wolf_fleet.datasets import filesystem, filter_dataset, partitions
from wolf_fleet.datasets.cleaning_job import filter_folder
from wolf_fleet.datasets.dataset_job import Foldered

TEXT = ("missing", "no_header", "skip", "comment", "decimal", "day_first", "zone")  # options of files of text
HINDSIGHT = ("model", "smooth", "level", "live", "patience", "longest_fault")
GIGABYTE = 2**30


def run(
    source: str, out: str, method: str | None, options: dict[str, Any], progress: Progress
) -> tuple[Foldered, list[str]]:
    """Clean a folder.

    Args:
        source: folder.
        out: folder to write.
        method: name with options.
        options: of the command.
        progress: told how far it is.

    Returns:
        What was done, and what a person should know.
    """
    if options["by"] is None:
        raise ValueError("a folder is cleaned series by series: name the column that tells them apart with --by")
    for name in (*TEXT, "forecast"):
        if options[name]:
            raise ValueError(f"--{name.replace('_', '-')} is for single files; a folder holds Parquet or Arrow files")
    time, values, notes = find_columns(source, options["time"], options["values"], options["by"])
    memory = None if options["memory"] is None else options["memory"] * GIGABYTE
    same: Any = {"time": time, "memory": memory, "workers": options["workers"], "told": _told(progress)}
    if options["bank"]:
        bank = stream.make_bank(_model_of(options["model"]), options["settings"], method, len(values))
        more: Any = {"key": options["by"], "values": values, "step": options["step"] or 1.0, "level": options["level"]}
        return filter_dataset(source, out, bank.model, bank.method, **more, **same), notes
    chosen: Any = {name: options[name] for name in HINDSIGHT}
    chosen |= {"method": filter.parse_method(method), "parameters": filter.parse_settings(options["settings"])}
    return filter_folder(source, out, by=options["by"], values=values, **chosen, **same), notes


def _model_of(name: str) -> str:
    return "local-level" if name == "auto" else name


def _told(progress: Progress) -> Any:
    """Show how far it is."""

    def told(words: str, done: int, total: int) -> None:
        if words != progress.label:
            progress.say(words, total)
        progress.done = done

    return told


def find_columns(
    source: str, time: tuple[str, ...], values: tuple[str, ...], by: str
) -> tuple[str | None, list[str], list[str]]:
    """Find the time and the values in the first rows of a folder, where they are not named."""
    head = partitions.first_rows(partitions.open_folder(filesystem.find(source)))
    table = io.Table(source, head, "parquet", ",", lambda: iter(head.to_batches()))
    if len(time) > 1:
        raise ValueError("the time of a folder is one column; put date and time of day together first")
    notes: list[str] = []
    if by not in head.column_names:
        raise ValueError(f"there is no column {by!r}; there are {', '.join(map(repr, head.column_names))}")
    known = finding.describe(table)
    dated = time[0] if time else finding.find_time(table, known, {by, *values}, notes)
    if not values and finding.find_place(known, values):
        raise ValueError("positions on the globe are cleaned file by file; name columns with --value to filter these")
    return dated, list(dict.fromkeys(values)) or [finding.find_value(table, known, {dated, by}, notes)], notes


def facts(done: Foldered, notes: list[str]) -> dict[str, Any]:
    """Say the same by name."""
    return dataclasses.asdict(dataclasses.replace(done, parts=())) | {"out": str(done.out), "notes": notes}
