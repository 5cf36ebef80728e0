"""What a person types: the command `wolf` and its errors. The commands below it lie in files of their own."""

import gc
import os
import traceback
from typing import Any

import click

from wolf.cli import file_commands, model_commands
from wolf.cli.options import InputError
from wolf.cli.plugins import Pluggable
from wolf.runtime import signals

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
            signals.leave(ended.code)
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            raise click.exceptions.Exit(signals.CODE) from None
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


for command in (
    *(file_commands.filter_command, file_commands.inspect_command, file_commands.compare, file_commands.tune),
    *(model_commands.simulate, model_commands.certify, model_commands.export, model_commands.demo),
    *(model_commands.list_models, model_commands.list_methods),
):
    main.add_command(command)


def _one_line(error: BaseException) -> str:
    words = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        words = error.strerror + (f": {error.filename}" if error.filename else "")
    return " ".join(words.split())
