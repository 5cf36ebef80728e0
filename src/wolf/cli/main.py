"""The command `wolf` and its error handling; subcommands are in the modules next to this one."""

import gc
import io
import os
import sys
import traceback
from typing import Any

import click

from wolf.cli import file_commands, model_commands
from wolf.cli.options import InputError
from wolf.cli.plugins import PluginGroup
from wolf.runtime import signals

GC_THRESHOLD = 50_000  # new objects between two collections: the imports of a command create many that stay
TRACEBACK = "WOLF_TRACEBACK"  # environment variable that enables tracebacks


class InternalError(click.ClickException):
    """An unexpected error: one line, exit code 70 (EX_SOFTWARE of sysexits.h)."""

    exit_code = 70


class OneLineErrors(PluginGroup):
    """A group whose errors are one line, never a traceback."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run as a program."""
        _write_utf8()
        try:
            return super().main(*args, **options)
        except SystemExit as ended:
            signals.exit_process(ended.code)
            raise

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            raise click.exceptions.Exit(signals.SIGINT_EXIT_CODE) from None
        except BrokenPipeError:  # the reader of the output has closed it
            os._exit(0)
        except Exception as error:
            if os.environ.get(TRACEBACK):
                traceback.print_exc()
            if isinstance(error, ValueError | OSError | ImportError | MemoryError):
                raise InputError(_one_line(error)) from error
            message = f"this is a bug in wolf, please report it: {type(error).__name__}: {_one_line(error)}"
            raise InternalError(f"{message} (set {TRACEBACK}=1 for a traceback)") from error


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="wolf-filter", prog_name="wolf")
def main() -> None:
    """Filter time series with outlier-robust Kalman filters."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # the other pools do not return memory to the system
    gc.set_threshold(GC_THRESHOLD)


for command in (
    *(file_commands.filter_command, file_commands.inspect_command, file_commands.compare, file_commands.tune),
    *(model_commands.simulate, model_commands.certify, model_commands.export, model_commands.demo),
    *(model_commands.list_models, model_commands.list_methods, model_commands.manual),
):
    main.add_command(command)


def _write_utf8() -> None:
    """Write to pipes and files as elsewhere on Windows: UTF-8, without carriage returns; consoles do so already."""
    for stream in (sys.stdout, sys.stderr) if sys.platform == "win32" else ():
        if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
            stream.reconfigure(encoding="utf-8", newline="\n")


def _one_line(error: BaseException) -> str:
    message = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        message = error.strerror + (f": {error.filename}" if error.filename else "")
    return " ".join(message.split())
