"""Write-ahead log: requests since the last commit in an append-only file, flushed before they are acknowledged.

A record is a line of JSON (request id, format, time of arrival, size and checksum of the body) and the body. A record
cut off by a crash is at the end of the file; it was never acknowledged, and the next start removes it.
"""

import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from wolf.runtime.checkpoints import flush_folder


class Record(NamedTuple):
    """A request: its id or "", the format of its body, its arrival in seconds since 1970, and the body."""

    request_id: str
    format: str
    at: float
    body: bytes


class Journal:
    """Write-ahead log of an epoch.

    Args:
        path: of the file, created if missing.
    """

    def __init__(self, path: Path):
        self.path = path
        fresh = not path.exists()
        self._file = path.open("ab", buffering=0)
        if fresh:
            flush_folder(path.parent)
        self.size = path.stat().st_size

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def records(self) -> Iterator[Record]:
        """Read all complete records and truncate the file behind them."""
        whole, offset = self.path.read_bytes(), 0
        while (found := _parse(whole, offset)) is not None:
            record, offset = found
            yield record
        if offset < self.size:
            self._file.truncate(offset)
            os.fsync(self._file.fileno())
            self.size = offset

    def append(self, records: list[Record]) -> None:
        """Append records and flush them to disk; the file is unchanged if writing fails."""
        text = b"".join(_format(record) for record in records)
        try:
            done = 0
            while done < len(text):
                done += self._file.write(text[done:])
        except OSError:
            self._file.truncate(self.size)
            raise
        os.fsync(self._file.fileno())
        self.size += len(text)


def _format(record: Record) -> bytes:
    head = {"id": record.request_id, "format": record.format, "at": record.at, "size": len(record.body)}
    line = json.dumps(head | {"crc": zlib.crc32(record.body)}).encode()
    return b"%08x %s\n%s\n" % (zlib.crc32(line), line, record.body)


def _parse(whole: bytes, offset: int) -> tuple[Record, int] | None:
    """Parse the record at an offset; return it and the offset of its end, or None if no intact record is there."""
    end = whole.find(b"\n", offset)
    line = whole[offset + 9 : end]
    if end < 0 or whole[offset : offset + 9] != b"%08x " % zlib.crc32(line):
        return None
    head = json.loads(line)
    body = whole[end + 1 : end + 1 + head["size"]]
    after = end + 1 + head["size"]
    if zlib.crc32(body) != head["crc"] or whole[after : after + 1] != b"\n":
        return None
    return Record(head["id"], head["format"], head["at"], body), after + 1
