"""Options that commands share."""

import os
from typing import Any

import click

from wolf.cli import shell_completion
from wolf.cli.progress import Progress

METHOD_HELP = "Name from `wolf methods`, with options as in WoLF-TMD:c=9.5. Default: the robust one."
TIME_HELP = "Name of the time column: numbers or dates; twice for a date and a time of day. Default: found by itself."


class InputError(click.ClickException):
    """An input or a file is at fault: one line, exit code 2."""

    exit_code = 2


def examples(*commands: str) -> str:
    """Write examples for the end of a help text, each on its own line."""
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands)])


def add_options(options: list[Any], command: Any) -> Any:
    """Put options on a command, in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def found(ctx: click.Context, parameter: click.Parameter, source: str) -> str:
    """Refuse a file that is not there before anything that takes long is imported."""
    try:
        if source != "-" and not (ctx.command.name == "stream" and "://" in source):
            os.stat(source)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"there is no file {source or repr(source)}") from None
    except (OSError, ValueError) as error:  # a name that is too long, or holds a zero
        raise InputError(f"{error.strerror}: {source}" if isinstance(error, OSError) else str(error)) from None
    return source


def file_options(command: Any) -> Any:
    """Add the options of every command that reads a file: where it is, and how it is written."""
    return add_options(
        [
            click.argument("source", metavar="FILE", callback=found, shell_complete=shell_completion.files),
            click.option("--time", multiple=True, help=TIME_HELP, shell_complete=shell_completion.columns),
            click.option(
                "--value",
                "values",
                multiple=True,
                help="Name of a value column; repeat it for several. Default: found.",
                shell_complete=shell_completion.columns,
            ),
            click.option(
                "--by",
                help="Name of the column that tells series apart, such as a sensor's name.",
                shell_complete=shell_completion.columns,
            ),
            click.option(
                "--on-bad-cell",
                type=click.Choice(["error", "missing"]),
                default="error",
                show_default=True,
                help="Treatment of a cell that is not a number, and of a row with too many or too few cells.",
            ),
            click.option(
                "--missing",
                multiple=True,
                metavar="CODE",
                help="Number or word for a reading that did not come, as -999; repeat it for several.",
            ),
            click.option("--no-header", is_flag=True, help="Treat the first line of a CSV file as data."),
            click.option("--skip", type=click.IntRange(min=0), help="Number of lines above the table. Default: found."),
            click.option(
                "--comment",
                metavar="MARK",
                help="How lines begin that are no rows. Default: # where the first lines do.",
            ),
            click.option("--decimal", type=click.Choice([".", ","]), help="Decimal mark of numbers. Default: found."),
            click.option(
                "--day-first/--month-first",
                default=None,
                help="Order in dates such as 01/02/2024. Default: found, or asked for.",
            ),
            click.option(
                "--zone",
                help="Time zone of dates that say none, as Europe/Berlin: for clocks that are put back in winter.",
            ),
        ],
        command,
    )


def model_options(command: Any) -> Any:
    """Add the options that say which model is meant."""
    return add_options(
        [
            click.option(
                "--model",
                default="auto",
                show_default=True,
                help="Name of a model, or a TOML file; `wolf models` lists them. auto chooses one from the data.",
                shell_complete=shell_completion.models,
            ),
            click.option(
                "--set", "settings", multiple=True, metavar="NAME=NUMBER", help="Variance that is known and not fitted."
            ),
        ],
        command,
    )


def talk_options(command: Any) -> Any:
    """Add the options that say how much a command tells, and how."""
    return add_options(
        [
            click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON."),
            click.option("--quiet", is_flag=True, help="Print no summary and no progress."),
        ],
        command,
    )


def load(source: str, options: dict[str, Any]) -> Any:
    """Read a file as the options say."""
    from wolf.cleaning import load as readings

    names = ("on_bad_cell", "skip", "comment", "missing", "decimal", "day_first", "zone")
    how = readings.Reading(header=not options["no_header"], **{name: options[name] for name in names})
    with Progress(f"Reading {source}", quiet=options.get("quiet", False)):
        return readings.load(source, options["time"], options["values"], options["by"], how)


def inputs(model: str, source: str | None = None) -> dict[str, str | None]:
    """List what a command reads."""
    return {"the input": source, "the model": model if model.endswith(".toml") else None}


def tell_size(model: str, quiet: bool = False) -> None:
    """Say before the wait that a model is large."""
    from wolf.cli.commands import filter

    words = filter.tell_size(model)
    if words and not quiet:
        click.echo(words, err=True)


def tell(words: str, facts: Any, as_json: bool, quiet: bool, err: bool = False) -> None:
    """Print a summary: in words or as JSON, or not at all.

    Args:
        words: the summary.
        facts: the same as numbers and texts.
        as_json: print those.
        quiet: print nothing, unless JSON was asked for.
        err: on standard error.
    """
    if as_json:
        import json

        click.echo(json.dumps(finite(facts), indent=2, ensure_ascii=False), err=err)
    elif not quiet:
        click.echo(words, err=err)


def finite(value: Any) -> Any:
    """Replace what JSON has no word for, and NumPy's numbers by Python's.

    Example:
        >>> finite({"a": [1.0, float("nan")]})
        {'a': [1.0, None]}
    """
    if isinstance(value, dict):
        return {str(name): finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    value = value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value
    if isinstance(value, float) and value - value != 0.0:
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
