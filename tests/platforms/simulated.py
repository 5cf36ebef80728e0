"""Windows and macOS as far as Linux can play them: what is absent there is removed, and what fails there fails."""

import builtins
import errno
import fcntl
import io
import os
import select
import stat
import sys
import types
from pathlib import Path

O_BINARY = 1 << 30  # a flag that Linux does not know
LK_NBLCK = 2  # of Windows' msvcrt
F_FULLFSYNC = 51  # of macOS' fcntl.h


def is_open(path):
    """Return whether this process has a file open."""
    for handle in Path("/proc/self/fd").iterdir():
        try:
            if os.readlink(handle) == os.path.realpath(path):
                return True
        except OSError:
            continue
    return False


def make_windows(monkeypatch):
    """Turn this process into one on Windows, as far as wolf can see; return the handles opened as text."""
    _forget_posix(monkeypatch)
    _share_no_files(monkeypatch)
    return _translate_line_ends(monkeypatch)


def _forget_posix(monkeypatch):
    """Remove what only POSIX has, and put Windows' lock of a region in the place of `fcntl`."""

    def locking(handle, mode, size):
        assert (mode, size) == (LK_NBLCK, 1)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PermissionError(errno.EACCES, "Permission denied") from None

    def only_sockets(*lists):
        raise OSError(10038, "an operation was attempted on something that is not a socket")

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", types.SimpleNamespace(locking=locking, LK_NBLCK=LK_NBLCK))
    for name in ("geteuid", "pread", "register_at_fork", "sysconf", "sched_getaffinity", "getloadavg"):
        monkeypatch.delattr(os, name)
    monkeypatch.setattr(select, "select", only_sockets)


def _share_no_files(monkeypatch):
    """Make renaming and deleting of open files fail, and opening of folders."""

    def denied(path):
        raise PermissionError(errno.EACCES, "the process cannot access the file because it is being used", str(path))

    real = {name: getattr(os, name) for name in ("replace", "rename", "unlink", "remove")}

    def checked(name):
        def run(*paths, **options):
            for path in paths:
                if is_open(path):
                    denied(path)
            return real[name](*paths, **options)

        return run

    for name in real:
        monkeypatch.setattr(os, name, checked(name))


def _translate_line_ends(monkeypatch):
    """Translate line ends of handles that are not opened as binary, and of text files without a newline argument."""
    open_handle, write, read, close, open_file = os.open, os.write, os.read, os.close, io.open
    text = set()

    def opened(path, flags, *mode, **options):
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        handle = open_handle(path, flags & ~O_BINARY, *mode, **options)
        text.discard(handle)
        if not flags & O_BINARY:
            text.add(handle)
        return handle

    def written(handle, data):
        if handle not in text:
            return write(handle, data)
        write(handle, bytes(data).replace(b"\n", b"\r\n"))
        return len(data)

    def received(handle, size):
        data = read(handle, size)
        return data.replace(b"\r\n", b"\n") if handle in text else data

    def file(path, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *rest, **options):
        if "b" not in mode:
            encoding = "cp1252" if encoding in (None, "locale") else encoding
            newline = "\r\n" if newline is None and set(mode) & set("wax+") else newline
        return open_file(path, mode, buffering, encoding, errors, newline, *rest, **options)

    monkeypatch.setattr(os, "O_BINARY", O_BINARY, raising=False)
    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "write", written)
    monkeypatch.setattr(os, "read", received)
    monkeypatch.setattr(os, "close", lambda handle: (text.discard(handle), close(handle))[1])
    monkeypatch.setattr(io, "open", file)
    monkeypatch.setattr(builtins, "open", file)
    return text


def make_macos(monkeypatch, has_full_flush=True):
    """Turn this process into one on macOS, as far as wolf can see; return the list of what was flushed, and how."""
    flushed = []
    control, sync = fcntl.fcntl, os.fsync

    def controlled(handle, command, *rest):
        if command != F_FULLFSYNC:
            return control(handle, command, *rest)
        if not has_full_flush:
            raise OSError(errno.ENOTSUP, "Operation not supported")
        flushed.append(("full", stat.S_ISDIR(os.fstat(handle).st_mode)))
        return sync(handle)

    def synced(handle):
        flushed.append(("usual", stat.S_ISDIR(os.fstat(handle).st_mode)))
        return sync(handle)

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", F_FULLFSYNC, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", controlled)
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr("wolf.runtime.processors.CPUINFO", Path("/proc/not-there"))
    return flushed
