"""What is written must not meet what is read, nor anything else that is written."""

import os
import stat
import sys
from typing import Any


def check_apart(inputs: dict[str, str | None], outputs: dict[str, str | None]) -> None:
    """Refuse, before any work, to write onto an input or two results onto each other.

    Files are told apart by what they are, not by their names: links lead to the same file. Devices hold nothing.

    Args:
        inputs: what a file is for -> its path, "-" for standard input, or None.
        outputs: the option -> its path, "-" for standard output, or None.
    """
    met: dict[Any, str] = {}
    given = [(what, path, sys.stdin) for what, path in inputs.items()]
    given += [(what, path, sys.stdout) for what, path in outputs.items()]
    for what, path, standard in given:
        key = None if path is None else _identity(path, standard)
        if key in met and what in outputs:
            raise ValueError(f"{what} {path} is the same file as {met[key]}, which would be lost; choose another name")
        if key is not None:
            met[key] = f"{what} {path}"


def _identity(path: str, standard: Any) -> Any:
    """Tell a file from others; None for what cannot be overwritten."""
    try:
        found = os.fstat(standard.fileno()) if path == "-" else os.stat(path)
    except (OSError, ValueError, AttributeError):  # not there yet, or closed, or not a file at all
        return None if path == "-" else os.path.realpath(path)
    pipe = stat.S_ISFIFO(found.st_mode) and path != "-"
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) or pipe else None
