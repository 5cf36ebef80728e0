"""Commands that read a file: `wolf filter`, `inspect`, `compare` and `tune`; implementations are in `commands`."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wolf.cli import shell_completion
from wolf.cli.options import (
    METHOD_HELP,
    InputError,
    echo_summary,
    examples,
    file_options,
    input_files,
    load,
    model_options,
    talk_options,
    warn_if_large,
)
from wolf.cli.progress import progress_bar
from wolf.cli.quality_options import merge_config, quality_options
from wolf.runtime.gc_pause import gc_paused

if TYPE_CHECKING:  # imported when a command runs: the help must not wait for JAX
    from wolf.cleaning import FittedSeries, Options
    from wolf.cleaning.load import LoadedTable


@click.command(
    "filter",
    epilog=examples(
        "wolf filter readings.csv --report readings.html",
        "wolf filter readings.csv --value temperature --missing -999 --smooth",
        "wolf filter sensors.csv --by sensor --out clean.parquet",
        "wolf filter readings.csv --min temperature=-20 --max-rate temperature=5/h --incidents incidents.csv",
    ),
)
@file_options
@model_options
@click.option(
    "--exog",
    metavar="NAMES",
    help="Columns of exogenous variables (covariates) that the measurements depend on, such as rain,holiday. Rows with "
    "them and no measurement are forecast.",
    shell_complete=shell_completion.columns,
)
@click.option(
    "--sd",
    metavar="NAME",
    help="Column with the accuracy of each reading: the standard deviation of its noise is proportional to it.",
    shell_complete=shell_completion.columns,
)
@click.option(
    "--transform",
    help="Scale on which the values are modelled, so that intervals keep to their range: log, sqrt, logit (shares), or "
    "logit:0:100 with the bounds of the values.",
)
@click.option(
    "--angle", type=click.Choice(["degrees", "radians"]), help="Unit of values that are angles, which wrap around."
)
@click.option(
    "--together",
    metavar="NAMES",
    default=None,
    help="Value columns that are correlated, such as temp,cond, or all: each is judged and filled by the others too.",
    shell_complete=shell_completion.columns,
)
@click.option("--method", help=METHOD_HELP, shell_complete=shell_completion.methods)
@click.option("--causal", is_flag=True, help="Use only the past of each row.")
@click.option("--smooth", is_flag=True, help="Smooth the whole series with the weights of --method.")
@click.option(
    "--patience",
    help="With --causal: duration of consistent rejections that are accepted as a jump, such as 2h or 12 rows.",
)
@click.option(
    "--max-fault-length", help="Longest fault, such as 2h or 12 rows; a longer deviation is a shift of the level."
)
@click.option(
    "--false-alarms",
    type=float,
    default=1.0,
    show_default=True,
    help="Expected false incidents per 10,000 measurements of a series of at least 5,000 rows; 0 for the thresholds of "
    "the model.",
)
@quality_options
@click.option("--forecast", type=click.IntRange(min=0), default=0, help="Number of steps to forecast, added as rows.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Probability of the intervals.")
@click.option(
    "--out",
    help="Output file: .csv, .parquet or .arrow; - for standard output. Default: FILE-clean.csv.",
    shell_complete=shell_completion.files,
)
@click.option("--report", help="HTML report to write, in one file.", shell_complete=shell_completion.files)
@click.option(
    "--escape-formulas",
    is_flag=True,
    help="Put an apostrophe before text cells of CSV output that begin with = + - @, for spreadsheet programs.",
)
@click.option("--strict", is_flag=True, help="Exit with code 1 if a series of --by could not be filtered.")
@talk_options
def filter_command(source: str, method: str | None, out: str | None, report: str | None, **options: Any) -> None:
    """Clean the measurements in FILE (CSV, Parquet, Arrow; - for standard input).

    Writes the columns of FILE, followed by: mean with lower and upper (estimate of the signal), prediction_lower and
    prediction_upper (interval of a measurement), weight, outlier, fault (spike, burst, stuck, dropout, drift, range,
    rate, labelled; also shift, gap and maintenance), cleaned, anomaly_score (1/2 and more: outlier) and qartod (1 good,
    2 not evaluated, 3 suspect, 4 fault, 9 missing). Each measurement is judged by those before and after it, unless
    --causal. Variances that --set does not give are fitted.
    """
    if os.path.isdir(source):
        raise InputError(f"{source} is a folder: `wolf dataset`, of the package wolf-fleet, filters folders of Parquet")
    with gc_paused():
        from wolf.cleaning import Options, io
        from wolf.cli.commands import filter, filter_tables
        from wolf.runtime import malloc_trim

    options = merge_config(options | {"method": method})
    if options["exog"] and options["forecast"]:
        raise InputError(
            "a forecast needs the exogenous variables of the future: append rows that have them and no measurement, "
            "instead of --forecast"
        )
    malloc_trim.share_arena()
    chosen = Options.from_mapping(
        options,
        method=filter.parse_method(options["method"]),
        parameters=filter.parse_settings(options["settings"]),
        diagnostics=report is not None,
        zone=options["zone"],
    )
    target = filter.default_target(source) if out is None else out
    tables = {"--out": target, "--incidents": options["incidents"]}
    outputs = tables | {"--report": report, "--record": options["record"]}
    for name, path in outputs.items():
        if path is not None:
            (io.check_table if name in tables else io.check_target)(path)
    io.check_apart(input_files(options["model"], source) | _tables_read(options), outputs)
    loaded = load(source, options)
    warn_if_large(options["model"], options["quiet"])
    if loaded.axis is not None and loaded.axis.origin is not None:
        chosen = dataclasses.replace(chosen, dated=True, origin=loaded.axis.origin / 1e9)
    with progress_bar(f"Filtering {len(loaded.values):,} rows", loaded.values.size, options["quiet"]) as bar:
        whole = any(each is not None for each in (report, options["incidents"], chosen.every, chosen.max_gap))
        series = _clean(loaded, chosen, target, whole, options["escape_formulas"], bar.update)
    wrote = ["standard output" if target == "-" else target]
    wrote += filter_tables.write(loaded, series, chosen, options, source)
    if report is not None:
        _write_report(report, loaded, series, chosen, options["quiet"])
        wrote.append(f"{report} (open it in a browser)")
    results = (loaded, series, chosen, wrote)
    echo_summary(
        filter.summary(*results), filter.facts(*results), options["as_json"], options["quiet"], err=target == "-"
    )
    if loaded.failed and options["strict"]:
        raise click.exceptions.Exit(1)


def _tables_read(options: dict[str, Any]) -> dict[str, str | None]:
    """List the tables that the options name, by role."""
    names = ("labels", "maintenance", "config")
    return {f"the file of --{name}": options[name] for name in names}


def _clean(
    loaded: "LoadedTable",
    chosen: "Options",
    target: str,
    whole: bool,
    escape_formulas: bool,
    on_progress: Callable[[int], object],
) -> "Sequence[FittedSeries]":
    """Clean series or tracks, and write them."""
    from wolf.cli.commands import filter, filter_output, filter_tables, track

    if loaded.place is not None:
        filter_tables.refuse_for_tracks(chosen)
        tracks = track.run(loaded, chosen, on_progress)
        track.write(target, loaded, tracks, escape_formulas)
        return [each.series for each in tracks]
    if Path(target).suffix.lower() == track.GPX:
        raise ValueError(f"{target} is for tracks: {loaded.table.name} has no columns of latitude and longitude")
    series = (filter.clean_series if whole else filter.start)(loaded, chosen, on_progress)
    if chosen.every is not None:
        filter_tables.write_grid(target, loaded, series, chosen, escape_formulas)
        return series
    filter_output.write(target, loaded, series, on_progress, escape_formulas)
    return series


def _write_report(path: str, loaded: "LoadedTable", series: Any, chosen: "Options", quiet: bool) -> None:
    from wolf.reports import write_report

    with progress_bar("Writing the report", quiet=quiet):
        write_report(
            path,
            loaded.table.name,
            series,
            chosen,
            origin=None if loaded.axis is None else loaded.axis.origin,
            names=loaded.names if loaded.place is None else ["metres east", "metres north"],
            time=loaded.time,
            notes=loaded.notes,
            failed=loaded.failed,
            labels=loaded.place is None,
            utc=loaded.axis is not None and (loaded.axis.zoned or loaded.axis.zone is not None),
        )


@click.command("inspect", epilog=examples("wolf inspect readings.csv", "wolf inspect readings.csv --json"))
@file_options
@talk_options
def inspect_command(source: str, **options: Any) -> None:
    """Describe the columns of FILE, and preview how `wolf filter` will interpret it."""
    from wolf.cli.commands import inspect

    with progress_bar(f"Inspecting {source}", quiet=options["quiet"]):
        found = inspect.inspect_file(source, options)
    echo_summary(inspect.format_text(found), found, options["as_json"], options["quiet"])


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
    help="Method to compare; repeat for several. Default: a selection of common ones.",
    shell_complete=shell_completion.methods,
)
@talk_options
def compare(source: str, names: tuple[str, ...], **options: Any) -> None:
    """Compare methods by their one-step predictions of the measurements in FILE."""
    from wolf.cli.commands import compare as comparing

    loaded = load(source, options)
    warn_if_large(options["model"], options["quiet"])
    with progress_bar("Fitting", quiet=options["quiet"]) as bar:
        found = comparing.compare(loaded, options["model"], options["settings"], names, bar)
    echo_summary(comparing.table(found), comparing.facts(found), options["as_json"], options["quiet"])


@click.command(epilog=examples("wolf tune readings.csv --method WoLF-TMD"))
@file_options
@model_options
@click.option(
    "--method",
    default="WoLF-MD",
    show_default=True,
    help="Method whose threshold is tuned.",
    shell_complete=shell_completion.methods,
)
@talk_options
def tune(source: str, method: str, **options: Any) -> None:
    """Tune the threshold of a method on the measurements in FILE, by its one-step predictions."""
    from wolf.cli.commands import compare as comparing

    loaded = load(source, options)
    warn_if_large(options["model"], options["quiet"])
    with progress_bar("Fitting", quiet=options["quiet"]) as bar:
        tuned, command = comparing.tune(loaded, source, options["model"], options["settings"], method, bar)
    facts = {"method": method, "option": tuned.name, "value": tuned.value, "score": tuned.score, "use": command}
    echo_summary(f"{tuned}\nUse it: {command}", facts, options["as_json"], options["quiet"])
