"""Options shared by several commands."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wolf.cli import shell_completion
from wolf.cli.progress import progress_bar

if TYPE_CHECKING:
    from wolf.cleaning.load import LoadedTable

Command = TypeVar("Command", bound=Callable[..., object])
Decorator = Callable[[Command], Command]  # adds an option to a command

METHOD_HELP = "Name from `wolf methods`, with options as in WoLF-TMD:c=9.5. Default: the robust default."
TIME_HELP = "Name of the time column: numbers or dates; repeat for a date and a time of day. Default: inferred."


class InputError(click.ClickException):
    """An invalid input or file: one line, exit code 2."""

    exit_code = 2


def examples(*commands: str) -> str:
    """Format examples for the end of a help text, each on its own line."""
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands)])


def add_options(options: Sequence[Decorator], command: Command) -> Command:
    """Add options to a command, in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def found(ctx: click.Context, parameter: click.Parameter, source: str) -> str:
    """Check that a file exists, before any slow import."""
    try:
        if source != "-" and not (ctx.command.name == "stream" and "://" in source):
            os.stat(source)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"there is no file {source or repr(source)}") from None
    except (OSError, ValueError) as error:  # a name that is too long, or contains a null byte
        raise InputError(f"{error.strerror}: {source}" if isinstance(error, OSError) else str(error)) from None
    return source


def file_options(command: Command) -> Command:
    """Add the options of commands that read a file: its path, the roles of its columns, its format."""
    return add_options(
        [
            click.argument("source", metavar="FILE", callback=found, shell_complete=shell_completion.files),
            click.option("--time", multiple=True, help=TIME_HELP, shell_complete=shell_completion.columns),
            click.option(
                "--value",
                "values",
                multiple=True,
                help="Name of a value column; repeat for several. Default: inferred.",
                shell_complete=shell_completion.columns,
            ),
            click.option(
                "--by",
                help="Name of the column that identifies the series, such as a sensor's name.",
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
                help="Number or word that marks a missing value, such as -999; repeat for several.",
            ),
            click.option("--no-header", is_flag=True, help="Treat the first line of a CSV file as data."),
            click.option(
                "--skip", type=click.IntRange(min=0), help="Number of lines above the table. Default: inferred."
            ),
            click.option(
                "--comment",
                metavar="MARK",
                help="Prefix of comment lines. Default: # if the first lines have it.",
            ),
            click.option(
                "--decimal", type=click.Choice([".", ","]), help="Decimal mark of numbers. Default: inferred."
            ),
            click.option(
                "--day-first/--month-first",
                default=None,
                help="Order of dates such as 01/02/2024. Default: inferred; required if ambiguous.",
            ),
            click.option(
                "--zone",
                help="Time zone of dates without one, such as Europe/Berlin, for local times with daylight saving.",
            ),
        ],
        command,
    )


def model_options(command: Command) -> Command:
    """Add the options of the model."""
    return add_options(
        [
            click.option(
                "--model",
                default="auto",
                show_default=True,
                help="Name of a model, or a TOML file; `wolf models` lists the names. auto selects one from the data.",
                shell_complete=shell_completion.models,
            ),
            click.option(
                "--set", "settings", multiple=True, metavar="NAME=NUMBER", help="Known variance, which is not fitted."
            ),
        ],
        command,
    )


def talk_options(command: Command) -> Command:
    """Add the options of the summary."""
    return add_options(
        [
            click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON."),
            click.option("--quiet", is_flag=True, help="Print no summary and no progress."),
        ],
        command,
    )


def load(source: str, options: dict[str, Any]) -> "LoadedTable":
    """Read a file with the options of a command."""
    from wolf.cleaning import load as loading

    names = ("on_bad_cell", "skip", "comment", "missing", "decimal", "day_first", "zone")
    how = loading.ReadOptions(header=not options["no_header"], **{name: options[name] for name in names})
    with progress_bar(f"Reading {source}", quiet=options.get("quiet", False)):
        exog = tuple(filter(None, (name.strip() for name in (options.get("exog") or "").split(","))))
        return loading.load(source, options["time"], options["values"], options["by"], how, exog, options.get("sd"))


def input_files(model: str, source: str | None = None) -> dict[str, str | None]:
    """List the files that a command reads, by role."""
    return {"the input": source, "the model": model if model.endswith(".toml") else None}


def warn_if_large(model: str, quiet: bool = False) -> None:
    """Print a remark before the run if a model is large."""
    from wolf.cli.commands import filter

    remark = filter.large_model_warning(model)
    if remark and not quiet:
        click.echo(remark, err=True)


def echo_summary(text: str, facts: object, as_json: bool, quiet: bool, err: bool = False) -> None:
    """Print a summary as text or as JSON.

    Args:
        text: the summary.
        facts: the same for JSON.
        as_json: print JSON.
        quiet: print nothing, unless JSON is requested.
        err: print to standard error.
    """
    if as_json:
        import json

        click.echo(json.dumps(json_ready(facts), indent=2, ensure_ascii=False), err=err)
    elif not quiet:
        click.echo(text, err=err)


def json_ready(value: object) -> object:
    """Convert NumPy numbers to Python, and non-finite numbers to None, which JSON can represent.

    Example:
        >>> json_ready({"a": [1.0, float("nan")]})
        {'a': [1.0, None]}
    """
    import numpy as np  # not before a command runs: completion and help must not wait for it

    if isinstance(value, dict):
        return {str(name): json_ready(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and value - value != 0.0:
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
