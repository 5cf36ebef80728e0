"""Ctrl-C in the command: it ends at once with exit code 130, without a traceback and without half a file.

`import wolf` itself takes a second, so this is asked for before all else, and only by a process that is the command: a
program that imports `wolf` keeps its own way with signals. Nothing is raised, because an exception can come up where
nobody may catch it: in an import of C code, in a callback, at the end of the interpreter.
"""

import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Any

CODE = 130  # what a shell says of a program that Ctrl-C ended: 128 and the number of the signal

unfinished: set[str] = set()  # files that are being written


def is_command(program: str, words: list[str]) -> bool:
    """Say whether a process is `wolf` or `python -m wolf`.

    Args:
        program: as `sys.argv[0]`: "-m" as long as Python looks for the module to run.
        words: as `sys.orig_argv`.

    Example:
        >>> is_command("/usr/bin/wolf", ["python", "/usr/bin/wolf"]), is_command("-m", ["python", "-m", "wolf"])
        (True, True)
        >>> is_command("-m", ["python", "-m", "mine"]), is_command("mine.py", ["python", "mine.py", "wolf"])
        (False, False)
    """
    if program == "-m":
        return "wolf" in words or "-mwolf" in words
    return os.path.basename(program).lower().removesuffix(".exe") == "wolf"


def end_quietly() -> None:
    """From now on let Ctrl-C end the process; where somebody has chosen something else, leave it."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _end)


def _end(number: int, frame: Any) -> None:
    for path in list(unfinished):
        with suppress(OSError):
            os.unlink(path)
    os._exit(CODE)


if is_command(sys.argv[0] if sys.argv else "", sys.orig_argv):
    end_quietly()
