"""Index of the output parts of a state folder: size and checksum of each, in a file that only grows."""

import os
import zlib
from pathlib import Path

from wolf.runtime import files

LINE_BYTES = 48  # number, size and checksum of a part, and a checksum of these
READ_BYTES = 1 << 22


class PartIndex:
    """Sizes and checksums of output parts.

    Args:
        path: of the file; it is created with the first line.
    """

    def __init__(self, path: Path):
        self.path = path

    def append(self, number: int, part: Path) -> None:
        """Append the line of a part, after the lines of all parts before it, and flush it to disk."""
        size, checksum = measure(part)
        handle = files.open_bytes(self.path, os.O_RDWR | os.O_CREAT)
        try:
            os.lseek(handle, (number - 1) * LINE_BYTES, os.SEEK_SET)
            os.write(handle, _line(number, size, checksum))
            files.flush(handle)
        finally:
            os.close(handle)

    def stated(self, number: int) -> tuple[int, int] | None:
        """Read size and checksum of a part; None if its line is missing or damaged."""
        try:
            with self.path.open("rb") as file:
                file.seek((number - 1) * LINE_BYTES)
                line = file.read(LINE_BYTES)
        except FileNotFoundError:
            return None
        cells = line.split()
        if len(cells) != 4 or not all(cell.isdigit() for cell in cells):
            return None
        size, checksum = int(cells[1]), int(cells[2])
        return (size, checksum) if line == _line(number, size, checksum) else None


def measure(path: Path) -> tuple[int, int]:
    """Return size and checksum of a file."""
    size = checksum = 0
    with path.open("rb") as file:
        while some := file.read(READ_BYTES):
            size, checksum = size + len(some), zlib.crc32(some, checksum)
    return size, checksum


def _line(number: int, size: int, checksum: int) -> bytes:
    text = b"%010d %014d %010d" % (number, size, checksum)
    return text + b" %010d\n" % zlib.crc32(text)
