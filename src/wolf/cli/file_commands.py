"""Commands that read a file: `wolf filter`, `look`, `compare` and `tune`. The work is done elsewhere."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import click

from wolf.cli import completing
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
from wolf.numerics.importing import uncollected


@click.command(
    "filter",
    epilog=examples(
        "wolf filter readings.csv --report readings.html",
        "wolf filter readings.csv --value temperature --missing -999 --smooth",
        "wolf filter sensors.csv --by sensor --out clean.parquet",
        "wolf filter dataset/ --by sensor --out clean/",
    ),
)
@file_options
@model_options
@click.option("--method", help=METHOD_HELP, shell_complete=completing.methods)
@click.option("--live", is_flag=True, help="Say of each row only what could be known at its time.")
@click.option("--smooth", is_flag=True, help="Use the whole series, and judge readings as --method does.")
@click.option("--patience", help="With --live: how long refused readings must agree to be believed, as 2h or 12 rows.")
@click.option(
    "--longest-fault", help="How long a fault may last, as 2h or 12 rows; what stays away longer has shifted."
)
@click.option("--forecast", type=click.IntRange(min=0), default=0, help="Number of steps to look ahead, added as rows.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Probability of the intervals.")
@click.option(
    "--out",
    help="File to write: .csv, .parquet or .arrow; - for standard output. Default: FILE-clean.csv.",
    shell_complete=completing.files,
)
@click.option("--report", help="HTML page to write, in one file.", shell_complete=completing.files)
@click.option("--bank", is_flag=True, help="Of a folder: filter live, as `wolf stream` does, all variances by --set.")
@click.option(
    "--step", type=float, help="Seconds of a step of the model, with --bank, or --live and --time from a pipe."
)
@click.option(
    "--memory", type=float, help="Of a folder: GB that all processes may take. Default: half of what is there."
)
@click.option("--workers", type=click.IntRange(min=1), help="Of a folder: number of processes. Default: one a core.")
@click.option("--strict", is_flag=True, help="End with exit code 1 if a series of --by could not be filtered.")
@talk_options
def filter_command(source: str, method: str | None, out: str | None, report: str | None, **options: Any) -> None:
    """Clean the readings in FILE (CSV, Parquet, Arrow; - for standard input; or a folder of Parquet, with --by).

    Writes next to the columns of FILE: mean with lower and upper, reading_lower and reading_upper (of a reading),
    weight, outlier, kind (spike, burst, stuck, dropout, drift; shift; gap) and repaired. Each reading is judged by what
    came before and after it. Variances that --set does not give are fitted. With --live, a --model, all its variances
    and a --value, rows of a pipe are written as they come.
    """
    if os.path.isdir(source):
        _filter_folder(source, method, out, report, options)
        return
    with uncollected():
        from wolf.cli import filtering, live
        from wolf.numerics import allocator
        from wolf.readings import Options, files

    if options["bank"] or options["memory"] or options["workers"]:
        raise InputError("--bank, --memory and --workers are for a folder of Parquet files; `wolf stream` reads a file")
    allocator.share_arena()
    names = ("smooth", "forecast", "level", "model", "live", "patience", "longest_fault")
    chosen = Options(
        **{name: options[name] for name in names},
        method=filtering.parse_method(method),
        parameters=filtering.parse_settings(options["settings"]),
        diagnostics=report is not None,
    )
    target = filtering.default_target(source) if out is None else out
    files.check_table(target)
    if live.suits(source, target, report, options):
        words, counted = live.run(options, method)
        tell(words, counted, options["as_json"], options["quiet"], err=True)
        return
    if report is not None:
        files.check_target(report)
    files.check_apart(inputs(options["model"], source), {"--out": target, "--report": report})
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
    tell(filtering.summary(*told), filtering.facts(*told), *how, err=target == "-")
    if read.failed and options["strict"]:
        raise click.exceptions.Exit(1)


def _filter_folder(
    source: str, method: str | None, out: str | None, report: str | None, options: dict[str, Any]
) -> None:
    """Clean a folder, and say what was done."""
    from wolf.cli import folders

    if report is not None or out is None:
        raise InputError("a folder is filtered into another one: name it with --out; a page is for a file")
    tell_size(options["model"], options["quiet"])
    with Progress("Reading", quiet=options["quiet"], unit="rows") as progress:
        done, notes = folders.run(source, out, method, options, progress)
    words = "\n".join([str(done), *(f"note: {note}" for note in notes)])
    tell(words, folders.facts(done, notes), options["as_json"], options["quiet"])
    if done.failed and options["strict"]:
        raise click.exceptions.Exit(1)


def _clean(read: Any, chosen: Any, target: str, whole: bool, progress: Progress) -> Any:
    """Clean readings, or tracks, and write them."""
    from wolf.cli import filtering, tables, tracking

    if read.place is not None:
        tracks = tracking.run(read, chosen, progress)
        tracking.write(target, read, tracks)
        return [track.series for track in tracks]
    if Path(target).suffix.lower() == tracking.GPX:
        raise ValueError(f"{target} is for tracks: {read.table.name} has no columns of latitude and longitude")
    series: Any = (filtering.run if whole else filtering.start)(read, chosen, progress)
    tables.write(target, read, series, progress)
    return series


@click.command(epilog=examples("wolf look readings.csv", "wolf look readings.csv --json"))
@file_options
@talk_options
def look(source: str, **options: Any) -> None:
    """Say what is in FILE and what `wolf filter` would do with it, without doing it."""
    from wolf.cli import looking

    with Progress(f"Looking at {source}", quiet=options["quiet"]):
        seen = looking.look(source, options)
    tell(looking.words(seen), seen, options["as_json"], options["quiet"])


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
    shell_complete=completing.methods,
)
@talk_options
def compare(source: str, names: tuple[str, ...], **options: Any) -> None:
    """Compare methods on the readings in FILE, by how well they predict the next one."""
    from wolf.cli import comparing

    read = load(source, options)
    tell_size(options["model"], options["quiet"])
    with Progress("Fitting", quiet=options["quiet"]) as progress:
        found = comparing.compare(read, options["model"], options["settings"], names, progress)
    tell(comparing.table(found), comparing.facts(found), options["as_json"], options["quiet"])


@click.command(epilog=examples("wolf tune readings.csv --method WoLF-TMD"))
@file_options
@model_options
@click.option(
    "--method", default="WoLF-MD", show_default=True, help="Method with a threshold.", shell_complete=completing.methods
)
@talk_options
def tune(source: str, method: str, **options: Any) -> None:
    """Choose the threshold of a method for the readings in FILE, by how well it predicts."""
    from wolf.cli import comparing

    read = load(source, options)
    tell_size(options["model"], options["quiet"])
    with Progress("Fitting", quiet=options["quiet"]) as progress:
        tuned, command = comparing.tune(read, source, options["model"], options["settings"], method, progress)
    facts = {"method": method, "option": tuned.name, "value": tuned.value, "score": tuned.score, "use": command}
    tell(f"{tuned}\nUse it: {command}", facts, options["as_json"], options["quiet"])
