"""Where rows come from: a file that may grow, or standard input; read by bytes, so that a place can be gone back to."""

import hashlib
import os
import select
import sys
import time
from pathlib import Path

HEAD = 4096  # first bytes that tell one file from another
CHUNK = 1 << 20  # bytes of one read
MARK = "\ufeff"  # that some programs begin a file with
BEAT = 0.2  # seconds between two looks at a file that may grow
LONGEST = 1 << 24  # bytes of a line


class Source:
    """Lines of a file or of standard input.

    Args:
        path: of the file; "-" is standard input.
        place: bytes that were read before; standard input goes on where it is.
        follow: wait for more at the end of a file.
    """

    def __init__(self, path: str, place: int = 0, follow: bool = False):
        self.path, self.pipe, self.follow = path, path == "-", follow
        self.name = "standard input" if self.pipe else path
        self.place, self.ended = place, False
        self._rest = b""
        self._ready: list[bytes] = []  # whole lines, without their ends
        self._cut = False  # the last line of all has no end
        size = place if self.pipe else os.stat(path).st_size
        if size < place:
            raise ValueError(
                f"{path} has {size:,} bytes, and {place:,} of it were read before: it was cut or replaced. "
                "Give the file as it was, or begin anew with another state folder"
            )
        self._handle = sys.stdin.fileno() if self.pipe else os.open(path, os.O_RDONLY)

    @property
    def over(self) -> bool:
        """Whether there will never be another line."""
        return self.ended and not self._ready

    def close(self) -> None:
        """Let go of the file."""
        if not self.pipe:
            os.close(self._handle)

    def first_line(self) -> str:
        """Read the first line, wherever the place is; waits for it. Of standard input it is not taken away."""
        if self.pipe:
            self._fill(None)
            return _text(self._ready[0]) if self._ready else ""
        while True:
            begin = os.pread(self._handle, LONGEST, 0) if hasattr(os, "pread") else Path(self.path).read_bytes()
            line, newline, _ = begin.partition(b"\n")
            if newline or (line and not self.follow):
                return _text(line)
            if not self.follow:
                return ""
            time.sleep(BEAT)

    def head(self, place: int) -> str:
        """Give a checksum of the first bytes before a place; nothing for standard input."""
        if self.pipe:
            return ""
        with open(self.path, "rb") as file:
            return hashlib.sha256(file.read(min(HEAD, place))).hexdigest()

    def take(self, most: int, seconds: float) -> list[str]:
        """Take whole lines, and move the place behind them.

        Args:
            most: how many at most.
            seconds: to wait for the first one.

        Returns:
            The lines; none if there are none yet.
        """
        if not self._ready and not self.ended:
            self._fill(seconds)
        lines, self._ready = self._ready[:most], self._ready[most:]
        whole = b"\n".join(lines)
        text = whole.decode("utf-8", "replace")
        text = text.removeprefix(MARK) if self.place == 0 else text
        self.place += len(whole) + (bool(lines) and not (self._cut and not self._ready))
        texts = text.split("\n") if lines else []
        return [line.rstrip("\r") for line in texts] if "\r" in text else texts

    def _fill(self, seconds: float | None) -> None:
        """Read on until there is a whole line, the end, or no time left; None waits as long as it takes."""
        until = None if seconds is None else time.monotonic() + seconds
        if not self.pipe:
            os.lseek(self._handle, self.place + len(self._rest), os.SEEK_SET)
        while not self._ready and not self.ended:
            left = None if until is None else max(until - time.monotonic(), 0.0)
            # Elsewhere than on POSIX a pipe cannot be asked whether it has something: a read waits.
            if self.pipe and os.name == "posix" and not select.select([self._handle], [], [], left)[0]:
                return
            some = os.read(self._handle, CHUNK)
            if some:
                self._split(self._rest + some)
            elif self.pipe or not self.follow:
                self.ended = True
                self._ready, self._cut, self._rest = ([self._rest] if self._rest else []), bool(self._rest), b""
            elif left == 0.0:
                return
            else:
                time.sleep(BEAT if left is None else min(BEAT, left))

    def _split(self, some: bytes) -> None:
        whole, newline, self._rest = some.rpartition(b"\n")
        if newline:
            self._ready = whole.split(newline)
        elif len(self._rest) > LONGEST:
            raise ValueError(f"{self.name} has a line of more than {LONGEST:,} bytes: is it text?")


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").removeprefix(MARK).rstrip("\r\n")
