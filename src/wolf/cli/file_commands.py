"""Commands that read a file: `wolf filter`, `look`, `compare` and `tune`. The work is done elsewhere."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import click

from wolf.cli import shell_completion
from wolf.cli.options import (
    METHOD_HELP,
    InputError,
    examples,
    file_options,
    inputs,
    load,
    model_options,
    talk_options,
    tell,
    tell_size,
)
from wolf.cli.progress import Progress
from wolf.runtime.gc_pause import gc_paused


@click.command(
    "filter",
    epilog=examples(
        "wolf filter readings.csv --report readings.html",
        "wolf filter readings.csv --value temperature --missing -999 --smooth",
        "wolf filter sensors.csv --by sensor --out clean.parquet",
    ),
)
@file_options
@model_options
@click.option("--method", help=METHOD_HELP, shell_complete=shell_completion.methods)
@click.option("--causal", is_flag=True, help="Say of each row only what could be known at its time.")
@click.option("--smooth", is_flag=True, help="Use the whole series, and judge readings as --method does.")
@click.option(
    "--patience", help="With --causal: how long refused readings must agree to be believed, as 2h or 12 rows."
)
@click.option(
    "--max-fault-length", help="How long a fault may last, as 2h or 12 rows; what stays away longer has shifted."
)
@click.option("--forecast", type=click.IntRange(min=0), default=0, help="Number of steps to look ahead, added as rows.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Probability of the intervals.")
@click.option(
    "--out",
    help="File to write: .csv, .parquet or .arrow; - for standard output. Default: FILE-clean.csv.",
    shell_complete=shell_completion.files,
)
@click.option("--report", help="HTML page to write, in one file.", shell_complete=shell_completion.files)
@click.option("--strict", is_flag=True, help="End with exit code 1 if a series of --by could not be filtered.")
@talk_options
def filter_command(source: str, method: str | None, out: str | None, report: str | None, **options: Any) -> None:
    """Clean the readings in FILE (CSV, Parquet, Arrow; - for standard input).

    Writes next to the columns of FILE: mean with lower and upper, prediction_lower and prediction_upper (of a reading),
    weight, outlier, fault (spike, burst, stuck, dropout, drift; shift; gap) and cleaned. Each reading is judged by what
    came before and after it. Variances that --set does not give are fitted.
    """
    if os.path.isdir(source):
        raise InputError(f"{source} is a folder: `wolf dataset`, of the package wolf-fleet, filters folders of Parquet")
    with gc_paused():
        from wolf.cleaning import Options, io
        from wolf.cli.commands import filter
        from wolf.runtime import malloc_trim

    malloc_trim.share_arena()
    names = ("smooth", "forecast", "level", "model", "causal", "patience", "max_fault_length")
    chosen = Options(
        **{name: options[name] for name in names},
        method=filter.parse_method(method),
        parameters=filter.parse_settings(options["settings"]),
        diagnostics=report is not None,
    )
    target = filter.default_target(source) if out is None else out
    io.check_table(target)
    if report is not None:
        io.check_target(report)
    io.check_apart(inputs(options["model"], source), {"--out": target, "--report": report})
    read = load(source, options)
    tell_size(options["model"], options["quiet"])
    if read.axis is not None and read.axis.origin is not None:
        chosen = dataclasses.replace(chosen, dated=True, origin=read.axis.origin / 1e9)
    with Progress(f"Filtering {len(read.values):,} rows", read.values.size, options["quiet"]) as progress:
        series = _clean(read, chosen, target, report is not None, progress)
    wrote = ["standard output" if target == "-" else target]
    if report is not None:
        from wolf.reports import write_report

        origin = None if read.axis is None else read.axis.origin
        titles = read.names if read.place is None else ["metres east", "metres north"]
        named: Any = {"names": titles, "time": read.time, "notes": read.notes, "failed": read.failed}
        with Progress("Writing the page", quiet=options["quiet"]):
            write_report(report, read.table.name, series, chosen, origin=origin, **named)
        wrote.append(f"{report} (open it in a browser)")
    told = (read, series, chosen, wrote)
    how = (options["as_json"], options["quiet"])
    tell(filter.summary(*told), filter.facts(*told), *how, err=target == "-")
    if read.failed and options["strict"]:
        raise click.exceptions.Exit(1)


def _clean(read: Any, chosen: Any, target: str, whole: bool, progress: Progress) -> Any:
    """Clean readings, or tracks, and write them."""
    from wolf.cli.commands import filter, filter_output
    from wolf.cli.commands import track as tracking

    if read.place is not None:
        tracks = tracking.run(read, chosen, progress)
        tracking.write(target, read, tracks)
        return [track.series for track in tracks]
    if Path(target).suffix.lower() == tracking.GPX:
        raise ValueError(f"{target} is for tracks: {read.table.name} has no columns of latitude and longitude")
    series: Any = (filter.run if whole else filter.start)(read, chosen, progress)
    filter_output.write(target, read, series, progress)
    return series


@click.command("inspect", epilog=examples("wolf inspect readings.csv", "wolf inspect readings.csv --json"))
@file_options
@talk_options
def inspect_command(source: str, **options: Any) -> None:
    """Say what is in FILE and what `wolf filter` would do with it, without doing it."""
    from wolf.cli.commands import inspect

    with Progress(f"Inspecting {source}", quiet=options["quiet"]):
        seen = inspect.inspect_file(source, options)
    tell(inspect.words(seen), seen, options["as_json"], options["quiet"])


@click.command(
    epilog=examples(
        "wolf compare readings.csv", "wolf compare readings.csv --method KF --method WoLF --method WoLF-TMD:c=9"
    )
)
@file_options
@model_options
@click.option(
    "--method",
    "names",
    multiple=True,
    help="Method to compare; repeat it for several. Default: the usual ones.",
    shell_complete=shell_completion.methods,
)
@talk_options
def compare(source: str, names: tuple[str, ...], **options: Any) -> None:
    """Compare methods on the readings in FILE, by how well they predict the next one."""
    from wolf.cli.commands import compare as comparing

    read = load(source, options)
    tell_size(options["model"], options["quiet"])
    with Progress("Fitting", quiet=options["quiet"]) as progress:
        found = comparing.compare(read, options["model"], options["settings"], names, progress)
    tell(comparing.table(found), comparing.facts(found), options["as_json"], options["quiet"])


@click.command(epilog=examples("wolf tune readings.csv --method WoLF-TMD"))
@file_options
@model_options
@click.option(
    "--method",
    default="WoLF-MD",
    show_default=True,
    help="Method with a threshold.",
    shell_complete=shell_completion.methods,
)
@talk_options
def tune(source: str, method: str, **options: Any) -> None:
    """Choose the threshold of a method for the readings in FILE, by how well it predicts."""
    from wolf.cli.commands import compare as comparing

    read = load(source, options)
    tell_size(options["model"], options["quiet"])
    with Progress("Fitting", quiet=options["quiet"]) as progress:
        tuned, command = comparing.tune(read, source, options["model"], options["settings"], method, progress)
    facts = {"method": method, "option": tuned.name, "value": tuned.value, "score": tuned.score, "use": command}
    tell(f"{tuned}\nUse it: {command}", facts, options["as_json"], options["quiet"])
