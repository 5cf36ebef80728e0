"""Exit of the command: Ctrl-C ends it at once with exit code 130, without a traceback or partly written files.

Importing wolf takes a second, so the handler is installed before everything else, and only in a process that is the
command: a program that imports `wolf` keeps its own signal handling. No exception is raised, because one may occur
where nothing catches it: in an import of C code, in a callback, at interpreter shutdown.
"""

import atexit
import os
import signal
import sys
import threading
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import FrameType

SIGINT_EXIT_CODE = 130  # what shells report for a program ended by Ctrl-C: 128 and the signal number

unfinished: dict[str, int] = {}  # temporary files that are being written, with their handles


def is_command(program: str, words: list[str]) -> bool:
    """Return whether a process is `wolf` or `python -m wolf`.

    Args:
        program: as `sys.argv[0]`; "-m" while Python is still locating the module.
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
    """Exit the process on Ctrl-C, unless another handler than Python's default is installed."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _end)


def exit_process(code: object) -> None:
    """End the process of the command at once, after flushing its output; return without effect in any other process.

    Normal interpreter shutdown takes a third of a second to free the objects of JAX one by one. This function flushes
    the output, runs the `atexit` handlers and exits. Where flushing fails, or other threads are running, it returns and
    the normal shutdown follows.

    Args:
        code: exit code, as in `SystemExit`.
    """
    busy = any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread())
    if busy or not _is_program() or not (code is None or isinstance(code, int)):
        return
    with suppress(OSError, ValueError):  # on a full disk or a closed pipe the normal exit reports the error
        sys.stdout.flush()
        sys.stderr.flush()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


def _is_program() -> bool:
    """Return whether this process is `wolf` or `python -m wolf`, however `sys.argv` was changed."""
    # Python may run without a main module, and that of a notebook has no file.
    names = vars(sys.modules["__main__"]) if "__main__" in sys.modules else {}
    spec, file = names.get("__spec__"), names.get("__file__") or ""
    return (isinstance(spec, ModuleSpec) and spec.name == "wolf.__main__") or _is_launcher(file)


def _is_launcher(file: str) -> bool:
    """Return whether a main module is the script `wolf`, or on Windows the archive in `wolf.exe`.

    Example:
        >>> _is_launcher("/usr/bin/wolf"), _is_launcher(os.path.join("Scripts", "wolf.exe", "__main__.py"))
        (True, True)
    """
    folder, name = os.path.split(file)
    program = os.path.basename(folder) if name == "__main__.py" and folder.lower().endswith(".exe") else name
    return program.lower().removesuffix(".exe") == "wolf"


def _end(number: int, frame: FrameType | None) -> None:
    for path, handle in list(unfinished.items()):
        with suppress(OSError):  # of a file that was closed just before
            os.close(handle)  # Windows deletes no open file
        with suppress(OSError):
            os.unlink(path)
    os._exit(SIGINT_EXIT_CODE)


if is_command(sys.argv[0] if sys.argv else "", sys.orig_argv):
    exit_on_sigint()
