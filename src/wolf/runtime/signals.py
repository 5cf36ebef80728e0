"""How the command ends: by Ctrl-C at once with exit code 130, without a traceback and without half a file.

`import wolf` itself takes a second, so this is asked for before all else, and only by a process that is the command: a
program that imports `wolf` keeps its own way with signals. Nothing is raised, because an exception can come up where
nobody may catch it: in an import of C code, in a callback, at the end of the interpreter.
"""

import atexit
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Any

SIGINT_EXIT_CODE = 130  # what a shell says of a program that Ctrl-C ended: 128 and the number of the signal

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


def exit_on_sigint() -> None:
    """From now on let Ctrl-C end the process; where somebody has chosen something else, leave it."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _end)


def exit_process(code: Any) -> None:
    """End the process of the command at once, with all that is to be done before; return if it is not that process.

    Python takes a third of a second to take down what JAX has set up, object by object, and nobody waits for that. What
    was printed is handed over, what was asked for at the end (`atexit`) is done. Where that fails, or other threads are
    at work, the usual way is taken.

    Args:
        code: as of `SystemExit`.
    """
    busy = any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread())
    if busy or not _is_program() or not (code is None or isinstance(code, int)):
        return
    with suppress(OSError, ValueError):  # a full disk or a closed pipe: Python says so by itself
        sys.stdout.flush()
        sys.stderr.flush()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


def _is_program() -> bool:
    """Say whether the program of this process is `wolf` or `python -m wolf`, however its arguments were changed."""
    program = sys.modules.get("__main__")
    spec, file = getattr(program, "__spec__", None), getattr(program, "__file__", None) or ""
    return getattr(spec, "name", None) == "wolf.__main__" or os.path.basename(file) == "wolf"


def _end(number: int, frame: Any) -> None:
    for path in list(unfinished):
        with suppress(OSError):
            os.unlink(path)
    os._exit(SIGINT_EXIT_CODE)


if is_command(sys.argv[0] if sys.argv else "", sys.orig_argv):
    exit_on_sigint()
