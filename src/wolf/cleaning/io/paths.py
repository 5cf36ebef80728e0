"""Check that outputs overwrite neither inputs nor each other."""

import os
import stat
import sys
from typing import TextIO


def check_apart(inputs: dict[str, str | None], outputs: dict[str, str | None]) -> None:
    """Raise an error, before any work, if an output would overwrite an input or another output.

    Files are compared by identity and not by name, since links lead to the same file. Devices are ignored.

    Args:
        inputs: what a file is for -> its path, "-" for standard input, or None.
        outputs: the option -> its path, "-" for standard output, or None.
    """
    used: dict[object, str] = {}
    paths = [(what, path, sys.stdin) for what, path in inputs.items()]
    paths += [(what, path, sys.stdout) for what, path in outputs.items()]
    for what, path, standard in paths:
        key = None if path is None else _identity(path, standard)
        if key in used and what in outputs:
            raise ValueError(
                f"{what} {path} is the same file as {used[key]}, which would be overwritten; choose another name"
            )
        if key is not None:
            used[key] = f"{what} {path}"


def _identity(path: str, standard: TextIO) -> object:
    """Compute a key that identifies a file; None for a device."""
    try:
        found = os.fstat(standard.fileno()) if path == "-" else os.stat(path)
    except (OSError, ValueError, AttributeError):  # does not exist yet, is closed, or is no file
        return None if path == "-" else os.path.realpath(path)
    pipe = stat.S_ISFIFO(found.st_mode) and path != "-"
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) or pipe else None
