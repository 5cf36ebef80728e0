"""File operations that differ between operating systems: bytes, flush to disk, replacement, deletion, locks.

Windows translates line ends in files that are not opened as binary, refuses to replace or delete a file while any
process has it open, and locks by `msvcrt`. On macOS `fsync` leaves data in the cache of the disk; `F_FULLFSYNC`
does not. Elsewhere these are the usual calls.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

RETRY_SECONDS = 2.0  # for which Windows is asked again; virus scanners and indexers hold new files for a moment
FIRST_PAUSE_SECONDS = 0.005  # between the first two attempts; each further pause is twice as long


def open_bytes(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file for reading or writing bytes as they are, and return its handle.

    Args:
        path: of the file; a new one gets mode 644.
        flags: of `os.open`, such as `os.O_RDWR | os.O_CREAT`.
    """
    if sys.platform == "win32":
        flags |= os.O_BINARY
    return os.open(path, flags, 0o644)


def flush(handle: int) -> None:
    """Flush a file to the disk itself, so that it survives a loss of power as far as the disk keeps its word."""
    if sys.platform == "darwin":
        import fcntl

        with suppress(OSError):  # file systems of a network do not have it
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
            return
    os.fsync(handle)


def flush_folder(folder: str | os.PathLike[str]) -> None:
    """Flush a folder's entries to disk, so that a new file name survives a crash; Windows cannot open folders."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            flush(handle)
        finally:
            os.close(handle)


def replace(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Rename a file over another one, atomically."""
    _retry(lambda: os.replace(source, target))


def delete(path: str | os.PathLike[str]) -> None:
    """Delete a file, if it exists."""
    _retry(lambda: Path(path).unlink(missing_ok=True))


def _retry(operation: Callable[[], None]) -> None:
    """Repeat an operation on Windows while another process has the file open."""
    system: str = sys.platform
    pause, until = FIRST_PAUSE_SECONDS, time.monotonic() + RETRY_SECONDS
    while True:
        try:
            return operation()
        except PermissionError:
            if system != "win32" or time.monotonic() >= until:
                raise
        time.sleep(pause)
        pause *= 2


def hold(path: Path, message: str) -> int | None:
    """Lock a file against other processes until this one ends, or until `release`.

    Args:
        path: of the lock file, which is created.
        message: of the error if another process holds the lock.

    Returns:
        The handle, for `release`; None where the system has no locks.
    """
    lock = _locking()
    if lock is None:
        return None
    handle = open_bytes(path, os.O_RDWR | os.O_CREAT)
    try:
        lock(handle)
    except OSError as error:
        os.close(handle)
        if isinstance(error, BlockingIOError | PermissionError):
            raise ValueError(message) from None
        raise ValueError(f"{path} cannot be locked ({error}); use a folder on a local disk") from error
    return handle


def release(handle: int | None) -> None:
    """Release a lock of `hold`."""
    if handle is not None:
        os.close(handle)


def _locking() -> Callable[[int], None] | None:
    """Return the function that locks an open file or raises an `OSError`; None where there is none."""
    with suppress(ImportError):
        import fcntl

        return lambda handle: fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with suppress(ImportError):
        import msvcrt

        # Of the first byte, which need not exist; other processes could not read it while it is locked.
        return lambda handle: msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    return None
