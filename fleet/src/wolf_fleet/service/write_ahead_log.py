"""What came since the last commit, as it came: a file that only grows, flushed to disk before anything is acknowledged.

A record is a line of JSON (request id, kind, when, size and checksum of the body) and the body. What a crash cut off is
at the end of the file; it was never acknowledged, and the next start cuts it away.
"""

import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from wolf.runtime.checkpoints import flush_folder


class Record(NamedTuple):
    """A request: its id or nothing, how its body is written, when it came (seconds since 1970), and the body."""

    name: str
    kind: str
    at: float
    body: bytes


class Journal:
    """The file of an epoch.

    Args:
        path: made if it is not there.
    """

    def __init__(self, path: Path):
        self.path = path
        fresh = not path.exists()
        self._file = path.open("ab", buffering=0)
        if fresh:
            flush_folder(path.parent)
        self.size = path.stat().st_size

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def records(self) -> Iterator[Record]:
        """Read what is there, and cut away what was not finished."""
        whole, place = self.path.read_bytes(), 0
        while (found := _record(whole, place)) is not None:
            record, place = found
            yield record
        if place < self.size:
            self._file.truncate(place)
            os.fsync(self._file.fileno())
            self.size = place

    def append(self, records: list[Record]) -> None:
        """Put records behind the others, flushed to disk; if that fails the file is as it was."""
        text = b"".join(_text(record) for record in records)
        try:
            done = 0
            while done < len(text):
                done += self._file.write(text[done:])
        except OSError:
            self._file.truncate(self.size)
            raise
        os.fsync(self._file.fileno())
        self.size += len(text)


def _text(record: Record) -> bytes:
    head = {"id": record.name, "kind": record.kind, "at": record.at, "size": len(record.body)}
    line = json.dumps(head | {"crc": zlib.crc32(record.body)}).encode()
    return b"%08x %s\n%s\n" % (zlib.crc32(line), line, record.body)


def _record(whole: bytes, place: int) -> tuple[Record, int] | None:
    """Read the record at a place, and say where it ends; None if there is none that is sound."""
    end = whole.find(b"\n", place)
    line = whole[place + 9 : end]
    if end < 0 or whole[place : place + 9] != b"%08x " % zlib.crc32(line):
        return None
    head = json.loads(line)
    body = whole[end + 1 : end + 1 + head["size"]]
    after = end + 1 + head["size"]
    if zlib.crc32(body) != head["crc"] or whole[after : after + 1] != b"\n":
        return None
    return Record(head["id"], head["kind"], head["at"], body), after + 1
