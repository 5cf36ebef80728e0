"""Line sources: a file that may grow, or standard input. Positions are byte offsets, so that reading can resume."""

import hashlib
import os
import select
import sys
import time

from wolf.runtime import files

CHECKSUM_BYTES = 4096  # first bytes of a file that identify it
READ_BYTES = 1 << 20
BYTE_ORDER_MARK = "\ufeff"
POLL_SECONDS = 0.2  # between two checks of a file that may grow
MAX_LINE_BYTES = 1 << 24


class Source:
    """Lines of a file or of standard input.

    Args:
        path: of the file; "-" is standard input.
        position: number of bytes read earlier; standard input is read from where it is.
        follow: wait for more at the end of a file.
    """

    def __init__(self, path: str, position: int = 0, follow: bool = False):
        self.path, self.pipe, self.follow = path, path == "-", follow
        self.name = "standard input" if self.pipe else path
        self.position, self.ended = position, False
        self._rest = b""
        self._ready: list[bytes] = []  # complete lines, without line ends
        self._cut = False  # whether the very last line lacks a line end
        size = position if self.pipe else os.stat(path).st_size
        if size < position:
            raise ValueError(
                f"{path} has {size:,} bytes, but {position:,} were read earlier: it was truncated or replaced. "
                "Restore the file, or start with an empty state folder"
            )
        self._handle = _standard_input() if self.pipe else files.open_bytes(path, os.O_RDONLY)

    @property
    def exhausted(self) -> bool:
        """Whether no more lines will follow."""
        return self.ended and not self._ready

    def close(self) -> None:
        """Close the file."""
        if not self.pipe:
            os.close(self._handle)

    def first_line(self) -> str:
        """Read the first line, wherever the position is, waiting for it; on standard input it is not consumed."""
        if self.pipe:
            self._fill(None)
            return _text(self._ready[0]) if self._ready else ""
        while True:
            os.lseek(self._handle, 0, os.SEEK_SET)
            begin = os.read(self._handle, MAX_LINE_BYTES)
            line, newline, _ = begin.partition(b"\n")
            if newline or (line and not self.follow):
                return _text(line)
            if not self.follow:
                return ""
            time.sleep(POLL_SECONDS)

    def fingerprint(self, position: int) -> str:
        """Compute a checksum of the first bytes before a position; empty for standard input."""
        if self.pipe:
            return ""
        with open(self.path, "rb") as file:
            return hashlib.sha256(file.read(min(CHECKSUM_BYTES, position))).hexdigest()

    def take(self, max_lines: int, seconds: float) -> list[str]:
        """Read complete lines and advance the position.

        Args:
            max_lines: largest number of lines.
            seconds: how long to wait for the first one.

        Returns:
            The lines; empty if none arrived in time.
        """
        if not self._ready and not self.ended:
            self._fill(seconds)
        lines, self._ready = self._ready[:max_lines], self._ready[max_lines:]
        whole = b"\n".join(lines)
        text = whole.decode("utf-8", "replace")
        text = text.removeprefix(BYTE_ORDER_MARK) if self.position == 0 else text
        self.position += len(whole) + (bool(lines) and not (self._cut and not self._ready))
        texts = text.split("\n") if lines else []
        return [line.rstrip("\r") for line in texts] if "\r" in text else texts

    def _fill(self, seconds: float | None) -> None:
        """Read until there is a complete line, the end, or the time is up; None waits without limit."""
        until = None if seconds is None else time.monotonic() + seconds
        if not self.pipe:
            os.lseek(self._handle, self.position + len(self._rest), os.SEEK_SET)
        while not self._ready and not self.ended:
            left = None if until is None else max(until - time.monotonic(), 0.0)
            # Only POSIX can poll a pipe; elsewhere the read blocks.
            if self.pipe and sys.platform != "win32" and not select.select([self._handle], [], [], left)[0]:
                return
            some = os.read(self._handle, READ_BYTES)
            if some:
                self._split(self._rest + some)
            elif self.pipe or not self.follow:
                self.ended = True
                self._ready, self._cut, self._rest = ([self._rest] if self._rest else []), bool(self._rest), b""
            elif left == 0.0:
                return
            else:
                time.sleep(POLL_SECONDS if left is None else min(POLL_SECONDS, left))

    def _split(self, some: bytes) -> None:
        whole, newline, self._rest = some.rpartition(b"\n")
        if newline:
            self._ready = whole.split(newline)
        elif len(self._rest) > MAX_LINE_BYTES:
            raise ValueError(f"{self.name} has a line of more than {MAX_LINE_BYTES:,} bytes; expected a text file")


def _standard_input() -> int:
    try:
        return sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):  # None, or an object that is not a file
        raise ValueError("standard input is closed; expected a pipe or a file") from None


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").removeprefix(BYTE_ORDER_MARK).rstrip("\r\n")
