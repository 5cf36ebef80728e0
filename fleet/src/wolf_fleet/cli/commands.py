"""Commands for rows of many keys that never end: `wolf stream` and `wolf serve`."""

from typing import Any

import click

from wolf.cli import shell_completion
from wolf.cli.options import METHOD_HELP, add_options, examples, found, talk_options, tell, tell_size


def keyed_options(command: Any) -> Any:
    """Add the options that say what rows are, and which filter each key gets."""
    return add_options(
        [
            click.option(
                "--key", required=True, help="Name of the column that says whose a row is, such as a sensor's name."
            ),
            click.option(
                "--value",
                "values",
                multiple=True,
                required=True,
                help="Name of a value column; repeat it for several.",
            ),
            click.option(
                "--time",
                help="Name of the time column: numbers, or dates, which count as seconds. Default: as they come.",
            ),
            click.option(
                "--model",
                default="local-level",
                show_default=True,
                help="Name of a model, or a TOML file; `wolf models` lists them.",
                shell_complete=shell_completion.models,
            ),
            click.option(
                "--set",
                "settings",
                multiple=True,
                metavar="NAME=NUMBER",
                help="Variance of the model; all are needed.",
            ),
            click.option("--method", help=METHOD_HELP, shell_complete=shell_completion.methods),
            click.option(
                "--lateness",
                type=float,
                default=0.0,
                show_default=True,
                help="Seconds that a row may come out of order.",
            ),
            click.option("--step", type=float, default=1.0, show_default=True, help="Seconds of a step of the model."),
            click.option(
                "--forget", type=float, help="Seconds of silence after which a key starts anew. Default: never."
            ),
            click.option("--level", type=float, default=0.95, show_default=True, help="Probability of the intervals."),
            click.option(
                "--batch", type=click.IntRange(min=1), default=100_000, show_default=True, help="Rows of a commit."
            ),
        ],
        command,
    )


@click.command(
    epilog=examples(
        "wolf stream readings.csv --key id --value v --set level_var=0.1 --set obs_var=1 --state state --out clean",
        "... | wolf stream - --key id --value v --time t --lateness 5 --set ... --state state --out clean",
    )
)
@click.argument("source", metavar="SOURCE", callback=found, shell_complete=shell_completion.files)
@keyed_options
@click.option(
    "--state", required=True, help="Folder for states and the place in SOURCE; start again with the same one."
)
@click.option(
    "--out", required=True, help="Folder for the output, a file for each commit.", shell_complete=shell_completion.files
)
@click.option("--every", type=float, default=5.0, show_default=True, help="Seconds between commits, if rows are few.")
@click.option("--follow", is_flag=True, help="Wait for more at the end of a file.")
@click.option(
    "--kind", type=click.Choice(["parquet", "csv"]), default="parquet", show_default=True, help="Of the output."
)
@talk_options
def stream(source: str, settings: tuple[str, ...], as_json: bool, quiet: bool, **options: Any) -> None:
    """Filter the rows of SOURCE as they come, each key by itself, exactly once.

    SOURCE is CSV with a header or JSON lines, a file that may grow or - for standard input; or messages of a broker, as
    nats://localhost:4222/STREAM, redis://, kafka:// or mqtt://. After a crash, or a kill, the same command goes on:
    output and states are those of a run that nothing disturbed.
    """
    from wolf_fleet.cli import stream as streaming

    tell_size(options["model"], quiet)
    bank = streaming.make_bank(options.pop("model"), settings, options.pop("method"), len(options["values"]))
    done = streaming.run(source, bank, **options)
    tell(str(done), streaming.facts(done), as_json, quiet)


@click.command(
    epilog=examples(
        "wolf serve --state state --key sensor --value celsius --time at --set level_var=0.001 --set obs_var=0.25",
        "wolf serve ... --host 0.0.0.0 --token-file token",
    )
)
@keyed_options
@click.option("--state", required=True, help="Folder for states and journal; start again with the same one.")
@click.option("--out", help="Folder to keep all rows in, as wolf stream does. Default: only what the page shows.")
@click.option("--every", type=float, default=60.0, show_default=True, help="Seconds between commits of the states.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at; others need a token.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port to listen at; 0: a free one."
)
@click.option("--token-file", help="File with the token that requests must carry.")
@click.option(
    "--body",
    type=click.FloatRange(0, min_open=True),
    default=8.0,
    show_default=True,
    help="Largest request, in megabytes.",
)
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=2_000_000,
    show_default=True,
    help="Rows of all keys that the page can show, about 45 bytes each.",
)
@click.option("--most-keys", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="Filters at most.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def serve(quiet: bool, **options: Any) -> None:
    """Take measurements by HTTP, filter each key by itself, and show on a live page which are in trouble.

    A request that was answered outlives a crash. POST /measurements takes JSON, JSON lines or CSV; GET /state,
    /forecast and /history tell about a key, /metrics is for Prometheus, / is the page.
    """
    from wolf_fleet.cli import serve as serving

    tell_size(options["model"], quiet)
    serving.run(**options, quiet=quiet)
