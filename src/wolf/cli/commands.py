"""What a person types. Commands read options and print; the work is done elsewhere and imported when it is needed."""

import dataclasses
import gc
import os
import traceback
from pathlib import Path
from typing import Any

import click

from wolf import interrupts
from wolf.cli import completing, fleet
from wolf.cli.options import (
    METHOD_HELP,
    InputError,
    examples,
    file_options,
    load,
    model_options,
    talk_options,
    tell,
    tell_size,
)
from wolf.cli.plugins import Pluggable
from wolf.cli.progress import Progress
from wolf.numerics.importing import uncollected

PICTURES = (".png", ".pdf", ".svg")
SELDOM = 50_000  # new objects between two looks for cycles: the imports of a command make many that stay
TRACEBACK = "WOLF_TRACEBACK"  # set in the environment, it shows where an error comes from


class Bug(click.ClickException):
    """Nobody foresaw this: one line, exit code 70 (that of an internal error, in sysexits.h)."""

    exit_code = 70


class OneLineErrors(Pluggable):
    """A group whose commands end in one line, not in a traceback, whatever happens."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run as a program."""
        try:
            return super().main(*args, **options)
        except SystemExit as ended:
            interrupts.leave(ended.code)
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            raise click.exceptions.Exit(interrupts.CODE) from None
        except BrokenPipeError:  # whoever read our output has seen enough
            os._exit(0)
        except Exception as error:
            if os.environ.get(TRACEBACK):
                traceback.print_exc()
            if isinstance(error, ValueError | OSError | ImportError | MemoryError):
                raise InputError(_one_line(error)) from error
            words = f"this is a bug in wolf, please report it: {type(error).__name__}: {_one_line(error)}"
            raise Bug(f"{words} (set {TRACEBACK}=1 to see where it comes from)") from error


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="wolf-filter", prog_name="wolf")
def main() -> None:
    """Filter time series with Kalman filters that outliers do not break."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # the other pools keep what they once had
    gc.set_threshold(SELDOM)


main.add_command(fleet.stream)
main.add_command(fleet.serve)


def _one_line(error: BaseException) -> str:
    words = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        words = error.strerror + (f": {error.filename}" if error.filename else "")
    return " ".join(words.split())


@main.command(
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
    files.check_apart(_inputs(options["model"], source), {"--out": target, "--report": report})
    read = load(source, options)
    tell_size(options["model"], options["quiet"])
    chosen = dataclasses.replace(chosen, dated=read.axis is not None and read.axis.origin is not None)
    with Progress(f"Filtering {len(read.values):,} rows", read.values.size, options["quiet"]) as progress:
        series = _clean(read, chosen, target, report is not None, progress)
    wrote = ["standard output" if target == "-" else target]
    if report is not None:
        from wolf.reports import write_report

        origin = None if read.axis is None else read.axis.origin
        titles = read.names if read.place is None else ["metres east", "metres north"]
        named: Any = {"names": titles, "time": read.time, "notes": read.notes, "failed": read.failed}
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


@main.command(epilog=examples("wolf look readings.csv", "wolf look readings.csv --json"))
@file_options
@talk_options
def look(source: str, **options: Any) -> None:
    """Say what is in FILE and what `wolf filter` would do with it, without doing it."""
    from wolf.cli import looking

    seen = looking.look(source, options)
    tell(looking.words(seen), seen, options["as_json"], options["quiet"])


def _inputs(model: str, source: str | None = None) -> dict[str, str | None]:
    """List what a command reads."""
    return {"the input": source, "the model": model if model.endswith(".toml") else None}


@main.command(
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


@main.command(epilog=examples("wolf tune readings.csv --method WoLF-TMD"))
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


@main.command(
    epilog=examples(
        "wolf simulate --steps 500 --missing 0.02 --out readings.csv",
        "wolf simulate --model wiener-velocity --columns 2 --out track.csv",
    )
)
@click.option(
    "--model",
    default="local-level",
    show_default=True,
    help="Name of a model; `wolf models` lists them.",
    shell_complete=completing.models,
)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=NUMBER", help="Variance. Default: 1 for noise, 0.1 else."
)
@click.option("--steps", type=click.IntRange(min=2), default=1000, show_default=True, help="Number of rows.")
@click.option(
    "--columns", type=click.IntRange(min=1), default=1, show_default=True, help="Number of coordinates of a track."
)
@click.option(
    "--outliers", type=click.FloatRange(0, 1), default=0.05, show_default=True, help="Share of rows that are outliers."
)
@click.option(
    "--size",
    type=click.FloatRange(min=0),
    default=20.0,
    show_default=True,
    help="Size of an outlier, in standard deviations of the noise.",
)
@click.option(
    "--missing", type=click.FloatRange(0, 1), default=0.0, show_default=True, help="Share of rows that are missing."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all random numbers.")
@click.option(
    "--out",
    default="-",
    show_default=True,
    help="File to write; - for standard output.",
    shell_complete=completing.files,
)
@talk_options
def simulate(out: str, settings: tuple[str, ...], as_json: bool, quiet: bool, **options: Any) -> None:
    """Make readings with known truth and outliers, to try things on."""
    from wolf.cli import filtering, simulating
    from wolf.readings import files

    files.check_table(out)
    files.check_apart(_inputs(options["model"]), {"--out": out})
    table = simulating.simulate(parameters=filtering.parse_settings(settings), **options)
    simulating.write(out, table)
    words = f"{out}: {table.num_rows:,} rows, columns {', '.join(table.column_names)}"
    facts = {"wrote": out, "rows": table.num_rows, "columns": table.column_names}
    tell(words, facts, as_json, quiet or out == "-", err=out == "-")


@main.command(
    epilog=examples(
        "wolf certify local-level --set level_var=0.1 --set obs_var=1",
        "wolf certify local-level --set level_var=0.1 --set obs_var=1 --json - --trials 0",
    )
)
@click.argument("model", shell_complete=completing.models)
@click.option("--set", "settings", multiple=True, metavar="NAME=NUMBER", help="Variance of the model.")
@click.option("--method", help=METHOD_HELP, shell_complete=completing.methods)
@click.option(
    "--columns", type=click.IntRange(min=1), default=1, show_default=True, help="Number of coordinates of a track."
)
@click.option(
    "--json", help="JSON file to write; - for standard output instead of the table.", shell_complete=completing.files
)
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Picture to draw: .png, .pdf or .svg.")
@click.option(
    "--trials",
    type=click.IntRange(min=0),
    default=64,
    show_default=True,
    help="Number of trials at each level; 0 for none.",
)
@click.option(
    "--steps", type=click.IntRange(min=20), default=300, show_default=True, help="Number of steps of a trial."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all random numbers.")
@click.option("--quiet", is_flag=True, help="Print no table and no progress.")
def certify(model: str, plot: Path | None, json: str | None, seed: int, quiet: bool, **options: Any) -> None:
    """Say how robust a method is on MODEL (see `wolf models`): bounds, recovery, breakdown."""
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise InputError(f"--plot must end in {', '.join(PICTURES)}; got {plot.name}")
    from wolf.cli import certifying
    from wolf.readings import files

    target = None if plot is None else str(plot)
    for path in (target, json):
        if path is not None:
            files.check_target(path)
    files.check_apart(_inputs(model), {"--json": json, "--plot": target})
    with Progress("Certifying", quiet=quiet):
        words = certifying.run(model, json=json, plot=target, key=seed, **options)
    if not quiet or json == "-":
        click.echo(words)


@main.command(
    epilog=examples("wolf export constant-velocity --columns 2 --set dynamics_var=0.1 --set obs_var=1 --out tracker.c")
)
@click.argument("model", shell_complete=completing.models)
@click.option("--set", "settings", multiple=True, metavar="NAME=NUMBER", help="Variance of the model.")
@click.option("--method", help=METHOD_HELP, shell_complete=completing.methods)
@click.option(
    "--columns", type=click.IntRange(min=1), default=1, show_default=True, help="Number of coordinates of a track."
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    default="float32",
    show_default=True,
    help="Precision of the C.",
)
@click.option(
    "--out",
    default="filter.c",
    show_default=True,
    help="C file to write, with its header beside it.",
    shell_complete=completing.files,
)
@talk_options
def export(model: str, settings: tuple[str, ...], columns: int, out: str, **options: Any) -> None:
    """Write the filter of a MODEL as C, for a machine that has no Python."""
    from wolf.cli import exporting, filtering
    from wolf.readings import files

    files.check_apart(_inputs(model), {"--out": out})
    given = filtering.parse_settings(settings)
    made = exporting.export(model, given, columns, out, method=options["method"], dtype=options["dtype"])
    tell(repr(made), dataclasses.asdict(made), options["as_json"], options["quiet"])


@main.command("models", epilog=examples("wolf models"))
@click.option("--json", "as_json", is_flag=True, help="Print the names as JSON.")
def list_models(as_json: bool) -> None:
    """List the models by name, with their parameters."""
    from wolf.models import names
    from wolf.models.named import describe

    tell(describe(), {"models": names()}, as_json, False)


@main.command("methods", epilog=examples("wolf methods"))
@click.option("--json", "as_json", is_flag=True, help="Print names and descriptions as JSON.")
def list_methods(as_json: bool) -> None:
    """List the methods by name."""
    from wolf.cli.listing import describe_methods

    described = describe_methods()
    width = max(map(len, described)) + 2
    tell("\n".join(f"{name:<{width}}{words}" for name, words in described.items()), described, as_json, False)


@main.command(epilog=examples("wolf demo --out demo.png"))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default="wolf-demo.png",
    show_default=True,
    help="Picture to draw: .png, .pdf or .svg.",
)
@click.option(
    "--steps", type=click.IntRange(min=2), default=1000, show_default=True, help="Number of steps of a track."
)
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Number of tracks for each kind of data.",
)
@click.option("--seed", type=click.IntRange(min=0), default=314, show_default=True, help="Seed of all random numbers.")
@talk_options
def demo(out: Path, steps: int, trials: int, seed: int, as_json: bool, quiet: bool) -> None:
    """Compare a robust filter with a Kalman filter on dirty data: a table and a picture."""
    if out.suffix.lower() not in PICTURES:
        raise InputError(f"--out must end in {', '.join(PICTURES)}; got {out.name}")
    from wolf.cli import demo as experiment
    from wolf.cli.pictures import save
    from wolf.readings import files

    files.check_target(str(out))
    config = experiment.Config(steps, trials, seed)

    def say(words: str, **options: Any) -> None:
        if not (as_json or quiet):
            click.echo(words, **options)

    say(experiment.introduction(config))
    results = experiment.run(config, lambda words: say(words, nl=False))
    try:
        save(experiment.picture(config, results.tracks), out)
        drawn = f"Picture: {out}"
    except ModuleNotFoundError as error:
        drawn = f"No picture this time. {error}"
    facts = {"rows": [row._asdict() for row in results.rows], "picture": drawn.removeprefix("Picture: ")}
    tell(f"{experiment.table(config, results.rows)}\n{drawn}", facts, as_json, quiet)
