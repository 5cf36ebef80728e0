"""Commands `wolf stream`, `wolf serve`, `wolf dataset` and `wolf pipe`: options and help texts."""

import os
from typing import Any

import click

from wolf.cli import shell_completion
from wolf.cli.options import (
    METHOD_HELP,
    Command,
    Decorator,
    InputError,
    add_options,
    echo_summary,
    examples,
    talk_options,
    warn_if_large,
)
from wolf.cli.progress import progress_bar

LEVEL_OPTION = click.option(
    "--level", type=float, default=0.95, show_default=True, help="Probability of the intervals."
)
METHOD_OPTION = click.option("--method", help=METHOD_HELP, shell_complete=shell_completion.methods)


def existing_source(ctx: click.Context, parameter: click.Parameter, source: str) -> str:
    """Raise an error for a missing file or folder before anything slow is imported; URIs are not checked."""
    try:
        if source != "-" and "://" not in source:
            os.stat(source)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"there is no file or folder {source or repr(source)}") from None
    except OSError as error:  # such as a name that is too long
        raise InputError(f"{error.strerror}: {source}") from None
    except ValueError as error:  # a name with a null byte
        raise InputError(str(error)) from None
    return source


def model_options(default: str, model_help: str, set_help: str) -> list[Decorator]:
    """Create the options that choose the model and the method."""
    return [
        click.option(
            "--model",
            default=default,
            show_default=True,
            help=model_help,
            shell_complete=shell_completion.models,
        ),
        click.option("--set", "settings", multiple=True, metavar="NAME=NUMBER", help=set_help),
        METHOD_OPTION,
    ]


ONLINE_MODEL_OPTIONS = model_options(
    "local-level",
    "Name of a model, or a TOML file; `wolf models` lists them.",
    "Variance of the model; all are required.",
)
CLEANING_MODEL_OPTIONS = model_options(
    "auto",
    "Name of a model, or a TOML file; `wolf models` lists them. auto selects one from the data.",
    "Known variance, which is not estimated.",
)


def add_online_model_options(command: Command) -> Command:
    """Add the options that choose a model with fixed variances."""
    return add_options(ONLINE_MODEL_OPTIONS, command)


def add_cleaning_model_options(command: Command) -> Command:
    """Add the options that choose a model whose variances may be estimated."""
    return add_options(CLEANING_MODEL_OPTIONS, command)


def keyed_options(command: Command) -> Command:
    """Add the options of `wolf stream` and `wolf serve` for columns, model and order of rows."""
    return add_options(
        [
            click.option("--key", required=True, help="Name of the column that identifies the series, e.g. a sensor."),
            click.option(
                "--value", "values", multiple=True, required=True, help="Name of a value column; may be repeated."
            ),
            click.option(
                "--time",
                help="Name of the time column: numbers, or dates, which count as seconds. Default: order of arrival.",
            ),
            *ONLINE_MODEL_OPTIONS,
            click.option(
                "--models",
                metavar="FILE",
                help='TOML file with a table for each pattern of keys, as ["roof-*"]: model, method and variances.',
            ),
            click.option(
                "--warm-up",
                type=click.IntRange(min=20),
                metavar="ROWS",
                help="Learn the variances of each key from its first ROWS rows, which are filtered afterwards; with "
                "--model auto the model too.",
            ),
            click.option(
                "--group",
                metavar="REGEX",
                help="With --warm-up: keys with the same match share what is learned, as ^[a-z]+ for pump17.",
            ),
            click.option(
                "--allowed-lateness",
                type=float,
                default=0.0,
                show_default=True,
                help="Seconds that a row may be older than the newest one and still be put in order.",
            ),
            click.option(
                "--step", type=float, default=1.0, show_default=True, help="Length of a model step, in seconds."
            ),
            click.option(
                "--idle-timeout",
                type=float,
                help="Seconds without rows after which the state of a key is dropped. Default: never.",
            ),
            click.option(
                "--max-ahead",
                type=float,
                help="Seconds that a row may be ahead of the clock; rows further ahead are counted and discarded. "
                "Default: a day for dates and seconds since 1970, no limit for other numbers.",
            ),
            click.option(
                "--recover",
                is_flag=True,
                help="Start with what is intact although files of the state are damaged or missing.",
            ),
            click.option(
                "--sink",
                "sinks",
                multiple=True,
                metavar="ADDRESS",
                help="Where the rows of each commit are sent too: kafka://, nats://, redis://, mqtt://, https://, "
                "sqlite://, duckdb:// or postgresql://; may be repeated.",
            ),
            click.option("--alert-url", help="Webhook that gets each incident as JSON when it opens and closes."),
            click.option("--alert-command", help="Program that gets each incident as JSON on standard input."),
            click.option(
                "--alert-secret-file", help="File with the key that signs the body of the webhook (HMAC-SHA256)."
            ),
            click.option(
                "--incident-sink", metavar="ADDRESS", help="Where each incident is sent too; addresses as of --sink."
            ),
            LEVEL_OPTION,
            click.option(
                "--batch-rows", type=click.IntRange(min=1), default=100_000, show_default=True, help="Rows per commit."
            ),
        ],
        command,
    )


@click.command(
    epilog=examples(
        "wolf stream readings.csv --key id --value v --set level_var=0.1 --set obs_var=1 --state state --out clean",
        "... | wolf stream - --key id --value v --time t --allowed-lateness 5 --set ... --state state --out clean",
    )
)
@click.argument("source", metavar="SOURCE", callback=existing_source, shell_complete=shell_completion.files)
@keyed_options
@click.option(
    "--state", required=True, help="Folder for filter states and the position in SOURCE; use the same one to resume."
)
@click.option(
    "--out", required=True, help="Folder for the output, one file per commit.", shell_complete=shell_completion.files
)
@click.option(
    "--commit-interval",
    type=float,
    default=5.0,
    show_default=True,
    help="Seconds after which rows are committed if fewer than --batch-rows arrived.",
)
@click.option("--follow", is_flag=True, help="Wait for more rows at the end of SOURCE.")
@click.option(
    "--format", type=click.Choice(["parquet", "csv"]), default="parquet", show_default=True, help="Output format."
)
@talk_options
def stream(source: str, settings: tuple[str, ...], as_json: bool, quiet: bool, **options: Any) -> None:
    """Filter the rows of a stream exactly once, each key by its own filter.

    SOURCE is CSV with a header or JSON lines, in a file that may grow or - for standard input; or the address of a
    broker: nats://localhost:4222/STREAM, redis://, kafka:// or mqtt://. After a crash the same command resumes, and
    output and states are those of an uninterrupted run.
    """
    from wolf_fleet.cli import stream as implementation

    warn_if_large(options["model"], quiet)
    named = {name: options.pop(name) for name in ("model", "method", "models", "warm_up", "group")}
    bank = implementation.make_keyed_bank(settings=settings, num_values=len(options["values"]), **named)
    summary = implementation.run(source, bank, **options)
    echo_summary(str(summary), implementation.facts(summary), as_json, quiet)


@click.command(
    epilog=examples(
        "wolf serve --state state --key sensor --value celsius --time at --set level_var=0.001 --set obs_var=0.25",
        "wolf serve ... --host 0.0.0.0 --token-file token",
    )
)
@keyed_options
@click.option(
    "--state", required=True, help="Folder for filter states and the write-ahead log; use the same one to resume."
)
@click.option("--out", help="Folder for all rows with their results. Default: only recent rows are kept.")
@click.option(
    "--commit-interval", type=float, default=60.0, show_default=True, help="Seconds between commits of the states."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; others need a token.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8765,
    show_default=True,
    help="Port to listen on; 0 chooses a free one.",
)
@click.option("--token-file", help="File with the token that requests must carry.")
@click.option(
    "--max-body",
    type=click.FloatRange(0, min_open=True),
    default=8.0,
    show_default=True,
    help="Largest request, in megabytes.",
)
@click.option(
    "--history-rows",
    type=click.IntRange(min=1),
    default=2_000_000,
    show_default=True,
    help="Recent rows in memory for the live page, about 45 bytes each.",
)
@click.option(
    "--max-keys", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="Largest number of filters."
)
@click.option("--quiet", is_flag=True, help="Print errors only.")
def serve(quiet: bool, **options: Any) -> None:
    """Filter measurements that arrive by HTTP, and show the health of all keys on a live page.

    A request that was acknowledged survives a crash. POST /measurements accepts JSON, JSON lines or CSV; GET /state,
    /forecast and /history return the results of a key, /metrics is for Prometheus, / is the page.
    """
    from wolf_fleet.cli import serve as implementation

    warn_if_large(options["model"], quiet)
    implementation.run(**options, quiet=quiet)


@click.command(
    epilog=examples(
        "wolf dataset readings/ --by sensor --out clean/",
        "wolf dataset readings/ --by sensor --online --step 60 --set level_var=0.1 --set obs_var=1 --out clean/",
    )
)
@click.argument("source", metavar="FOLDER", callback=existing_source, shell_complete=shell_completion.files)
@click.option("--by", required=True, help="Name of the column that identifies the series, e.g. a sensor.")
@click.option("--time", help="Name of the time column: numbers or dates. Default: detected.")
@click.option("--value", "values", multiple=True, help="Name of a value column; may be repeated. Default: detected.")
@click.option("--out", required=True, help="Folder for the output.", shell_complete=shell_completion.files)
@add_cleaning_model_options
@click.option("--online", is_flag=True, help="Filter online with a fixed model, as `wolf stream` does; needs --set.")
@click.option("--step", type=float, help="With --online: length of a model step, in seconds. Default: 1.")
@click.option("--causal", is_flag=True, help="Use only earlier rows for each row.")
@click.option("--smooth", is_flag=True, help="Use all rows, and judge readings by --method alone.")
@click.option(
    "--patience",
    help="With --causal: duration of consistent rejected readings that counts as a jump, as 2h or 12 rows.",
)
@click.option("--max-fault-length", help="Longest duration of a fault, as 2h or 12 rows; longer ones are level shifts.")
@LEVEL_OPTION
@click.option("--memory", type=float, help="Memory limit of all processes, in GB. Default: half of the machine's.")
@click.option("--workers", type=click.IntRange(min=1), help="Number of processes. Default: one per core.")
@click.option("--strict", is_flag=True, help="Exit with code 1 if a series could not be filtered.")
@talk_options
def dataset(
    source: str, out: str, method: str | None, strict: bool, as_json: bool, quiet: bool, **options: Any
) -> None:
    """Filter a FOLDER of Parquet or Arrow files that may be larger than memory, series by series.

    Each series is cleaned with the results of `wolf filter` on all its rows. With --online, each row is filtered
    without later ones, by a fixed model. After an interruption the same command resumes.
    """
    from wolf_fleet.cli import datasets

    warn_if_large(options["model"], quiet)
    with progress_bar("Reading", quiet=quiet) as bar:
        summary, notes = datasets.run(source, out, method, options, bar)
    words = "\n".join([str(summary), *(f"note: {note}" for note in notes)])
    echo_summary(words, datasets.facts(summary, notes), as_json, quiet)
    if summary.failed and strict:
        raise click.exceptions.Exit(1)


@click.command(
    epilog=examples(
        "... | wolf pipe --value celsius --set level_var=0.1 --set obs_var=1 | ...",
        "... | wolf pipe --value celsius --by sensor --time at --step 60 --set level_var=0.1 --set obs_var=1",
    )
)
@click.option("--value", required=True, help="Name of the value column.")
@click.option(
    "--time", help="Name of the time column: numbers, or dates, which count as seconds. Default: one step per row."
)
@click.option("--by", help="Name of the column that identifies the series, e.g. a sensor.")
@add_online_model_options
@LEVEL_OPTION
@click.option("--step", type=float, help="With --time: length of a model step, in seconds. Default: 1.")
@click.option(
    "--missing",
    multiple=True,
    metavar="CODE",
    help="Number that stands for a missing reading, as -999; may be repeated.",
)
@click.option(
    "--on-bad-cell",
    type=click.Choice(["error", "missing"]),
    default="error",
    show_default=True,
    help="Treatment of a row that cannot be read.",
)
@talk_options
def pipe(method: str | None, as_json: bool, quiet: bool, **options: Any) -> None:
    """Filter CSV rows from standard input to standard output, writing each row as it arrives.

    The results are appended to each row: mean with its interval, prediction interval, weight, outlier, kind of fault
    and cleaned value. The summary is printed to standard error.
    """
    from wolf_fleet.cli import pipe as implementation

    warn_if_large(options["model"], quiet)
    words, facts = implementation.run(options, method)
    echo_summary(words, facts, as_json, quiet, err=True)
