"""What a person types. Commands read options and print; the work is done elsewhere and imported when it is needed."""

import dataclasses
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from wolf import interrupts
from wolf.cli.plugins import Pluggable

PICTURES = (".png", ".pdf", ".svg")
MANY_ROWS = 200_000  # from here on a run shows its progress
TRACEBACK = "WOLF_TRACEBACK"  # set in the environment, it shows where an error comes from
METHOD_HELP = "Name from `wolf methods`, with options as in WoLF-TMD:c=9.5. Default: the robust one."


class InputError(click.ClickException):
    """An input or a file is at fault: one line, exit code 2."""

    exit_code = 2


class Bug(click.ClickException):
    """Nobody foresaw this: one line, exit code 70 (that of an internal error, in sysexits.h)."""

    exit_code = 70


class OneLineErrors(Pluggable):
    """A group whose commands end in one line, not in a traceback, whatever happens."""

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


def _one_line(error: BaseException) -> str:
    words = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        words = error.strerror + (f": {error.filename}" if error.filename else "")
    return " ".join(words.split())


def reading_options(command: Any) -> Any:
    """Add the options of every command that reads a file."""
    options = [
        click.argument("source", metavar="FILE"),
        click.option(
            "--time", help="Name of the time column: numbers, or dates in ISO 8601. Default: found by itself."
        ),
        click.option(
            "--value", "values", multiple=True, help="Name of a value column; repeat it for several. Default: found."
        ),
        click.option("--by", help="Name of the column that tells series apart, such as a sensor's name."),
        click.option(
            "--model",
            default="auto",
            show_default=True,
            help="Name of a model, or a TOML file; `wolf models` lists the names. auto chooses one from the data.",
        ),
        click.option(
            "--set", "settings", multiple=True, metavar="NAME=NUMBER", help="Variance that is known and not fitted."
        ),
        click.option(
            "--on-bad-cell",
            type=click.Choice(["error", "missing"]),
            default="error",
            show_default=True,
            help="Treatment of a cell that is not a number.",
        ),
        click.option("--no-header", is_flag=True, help="Treat the first line of a CSV file as data."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@main.command("filter")
@reading_options
@click.option("--method", help=METHOD_HELP)
@click.option("--live", is_flag=True, help="Say of each row only what could be known at its time.")
@click.option("--smooth", is_flag=True, help="Use the whole series, and judge readings as --method does.")
@click.option("--patience", help="With --live: how long refused readings must agree to be believed, as 2h or 12 rows.")
@click.option(
    "--longest-fault", help="How long a fault may last, as 2h or 12 rows; what stays away longer has shifted."
)
@click.option("--forecast", type=click.IntRange(min=0), default=0, help="Number of steps to look ahead, added as rows.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Probability of the intervals.")
@click.option("--out", help="File to write: .csv, .parquet or .arrow; - for standard output. Default: FILE-clean.csv.")
@click.option("--report", help="HTML page to write, in one file.")
def filter_command(source: str, method: str | None, out: str | None, report: str | None, **options: Any) -> None:
    """Clean the readings in FILE (CSV, Parquet, Arrow; - for standard input).

    Writes next to the columns of FILE: mean with lower and upper, reading_lower and reading_upper (of a reading),
    weight, outlier, kind (spike, burst, stuck, dropout, drift; shift; gap) and repaired. Each reading is judged by what
    came before and after it. Variances that --set does not give are fitted.
    """
    from wolf.cli import filtering, readings, tables
    from wolf.numerics import allocator
    from wolf.readings import Options, files

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
    if report is not None:
        files.check_target(report)
    files.check_apart(_inputs(options["model"], source), {"--out": target, "--report": report})
    header = not options["no_header"]
    read = readings.load(source, options["time"], options["values"], options["by"], options["on_bad_cell"], header)
    _tell_size(options["model"])
    chosen = dataclasses.replace(chosen, dated=read.axis is not None and read.axis.origin is not None)
    with _progress(read) as progress:
        series: Any = (filtering.start if report is None else filtering.run)(read, chosen, progress)
        tables.write(target, read, series, progress)
    wrote = ["standard output" if target == "-" else target]
    if report is not None:
        from wolf.report import write_report

        origin = None if read.axis is None else read.axis.origin
        named: Any = {"names": read.names, "time": read.time, "notes": read.notes}
        write_report(report, read.table.name, series, chosen, origin=origin, **named)
        wrote.append(f"{report} (open it in a browser)")
    click.echo(filtering.summary(read, series, chosen, wrote), err=target == "-")


def _inputs(model: str, source: str | None = None) -> dict[str, str | None]:
    """List what a command reads."""
    return {"the input": source, "the model": model if model.endswith(".toml") else None}


def _tell_size(model: str) -> None:
    """Say before the wait that a model is large."""
    from wolf.cli.filtering import tell_size

    words = tell_size(model)
    if words:
        click.echo(words, err=True)


@contextmanager
def _progress(read: Any) -> Iterator[Callable[[int], None]]:
    """Show a progress bar for many rows."""
    rows = read.values.size
    if rows < MANY_ROWS:
        yield lambda done: None
        return
    click.echo(f"{len(read.values):,} rows read; fitting, then filtering ...", err=True)
    shown: Any = click.progressbar(length=rows, label="Filtering", file=sys.stderr)
    with shown as bar:
        yield bar.update


@main.command()
@reading_options
@click.option(
    "--method", "names", multiple=True, help="Method to compare; repeat it for several. Default: the usual ones."
)
def compare(source: str, names: tuple[str, ...], **options: Any) -> None:
    """Compare methods on the readings in FILE, by how well they predict the next one."""
    from wolf.cli import comparing, readings

    header = not options["no_header"]
    read = readings.load(source, options["time"], options["values"], options["by"], options["on_bad_cell"], header)
    _tell_size(options["model"])
    click.echo(comparing.compare(read, options["model"], options["settings"], names))


@main.command()
@reading_options
@click.option("--method", default="WoLF-MD", show_default=True, help="Method with a threshold.")
def tune(source: str, method: str, **options: Any) -> None:
    """Choose the threshold of a method for the readings in FILE, by how well it predicts."""
    from wolf.cli import comparing, readings

    header = not options["no_header"]
    read = readings.load(source, options["time"], options["values"], options["by"], options["on_bad_cell"], header)
    _tell_size(options["model"])
    click.echo(comparing.tune(read, source, options["model"], options["settings"], method))


@main.command()
@click.option("--model", default="local-level", show_default=True, help="Name of a model; `wolf models` lists them.")
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
@click.option("--out", default="-", show_default=True, help="File to write; - for standard output.")
def simulate(out: str, settings: tuple[str, ...], **options: Any) -> None:
    """Make readings with known truth and outliers, to try things on."""
    from wolf.cli import filtering, simulating
    from wolf.readings import files

    files.check_table(out)
    files.check_apart(_inputs(options["model"]), {"--out": out})
    table = simulating.simulate(parameters=filtering.parse_settings(settings), **options)
    files.write_table(out, table)
    if out != "-":
        click.echo(f"{out}: {table.num_rows:,} rows, columns {', '.join(table.column_names)}")


@main.command()
@click.argument("model")
@click.option("--set", "settings", multiple=True, metavar="NAME=NUMBER", help="Variance of the model.")
@click.option("--method", help=METHOD_HELP)
@click.option(
    "--columns", type=click.IntRange(min=1), default=1, show_default=True, help="Number of coordinates of a track."
)
@click.option("--json", help="JSON file to write; - for standard output instead of the table.")
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
def certify(model: str, plot: Path | None, json: str | None, seed: int, **options: Any) -> None:
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
    click.echo(certifying.run(model, json=json, plot=target, key=seed, **options))


@main.command("models")
def list_models() -> None:
    """List the models by name, with their parameters."""
    from wolf.models.named import describe

    click.echo(describe())


@main.command("methods")
def list_methods() -> None:
    """List the methods by name."""
    from wolf.cli.listing import describe_methods

    described = describe_methods()
    width = max(map(len, described)) + 2
    for name, words in described.items():
        click.echo(f"{name:<{width}}{words}")


@main.command()
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
def demo(out: Path, steps: int, trials: int, seed: int) -> None:
    """Compare a robust filter with a Kalman filter on dirty data: a table and a picture."""
    if out.suffix.lower() not in PICTURES:
        raise InputError(f"--out must end in {', '.join(PICTURES)}; got {out.name}")
    from wolf.cli import demo as experiment
    from wolf.cli.pictures import save
    from wolf.readings import files

    files.check_target(str(out))
    config = experiment.Config(steps, trials, seed)
    click.echo(experiment.introduction(config))
    results = experiment.run(config, lambda words: click.echo(words, nl=False))
    click.echo(experiment.table(config, results.rows))
    try:
        save(experiment.picture(config, results.tracks), out)
    except ModuleNotFoundError as error:
        click.echo(f"No picture this time. {error}")
    else:
        click.echo(f"Picture: {out}")
