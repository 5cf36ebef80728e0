"""Write-ahead log: requests since the last commit in one file, flushed before they are acknowledged.

The file grows by blocks of zeros, which are on disk before they are used. A record is a line of JSON (sequence number,
request id, format, time of arrival, size and checksum of the body) and the body. So the two reasons for a broken
record can be told apart:

- A crash while the record was written. It was never acknowledged. It is the last one, and at least its end, or a page
  of the disk in it, is still zero. The next start removes it.
- Damage: a changed byte, a shortened or missing file. Acknowledged requests may be lost, so a start fails, unless it is
  asked to continue with the intact records.
"""

import json
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from wolf.runtime import files

BLOCK_BYTES = 1 << 20  # by which the file grows
PAGE_BYTES = 512  # sector of a disk: the smallest unit that a crash leaves written or not
LINE_CHECKSUM_BYTES = 9  # of a record's line: the checksum and a space
HEAD_BYTES = 26  # of the file: checksum and allocated size


class Record(NamedTuple):
    """A request: its id or "", the format of its body, its arrival in seconds since 1970, and the body."""

    request_id: str
    format: str
    at: float
    body: bytes


class Journal:
    """Write-ahead log of an epoch.

    Args:
        path: of the file.
        create: create an empty log; by default it must exist.

    Attributes:
        size: bytes in use.
    """

    def __init__(self, path: Path, create: bool = False):
        self.path = path
        self._handle = files.open_bytes(path, os.O_RDWR | (os.O_CREAT | os.O_TRUNC if create else 0))
        self.size, self._number, self._allocated = HEAD_BYTES, 0, os.fstat(self._handle).st_size
        if create:
            try:
                self._allocate(BLOCK_BYTES)
                files.flush_folder(path.parent)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Close the file."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1

    def records(self, report: Callable[[str], None]) -> Iterator[Record]:
        """Read all records, and remove one that was being written when the process ended.

        Args:
            report: called with a description of damage; if it returns, the damaged record is skipped.
        """
        whole, offset, is_damaged = self.path.read_bytes(), HEAD_BYTES, False
        self._check_size(whole, report)
        while True:
            found = _parse(whole, offset)
            if found is None:
                following = _next_record(whole, offset)
                if following is None and _is_unfinished(whole, offset):
                    break
                report(f"{self.path} is damaged at byte {offset:,}, after {self._number:,} requests")
                is_damaged = True
                if following is None:
                    break
                offset, found = following, _parse(whole, following)
                assert found is not None
            self._number, record, offset = found
            yield record
        self.size = offset
        if any(whole[offset:]) or len(whole) < self._allocated or is_damaged:
            self._clear()

    def append(self, records: list[Record]) -> None:
        """Append records and flush them to disk."""
        text = b"".join(_format(record, self._number + i) for i, record in enumerate(records, 1))
        if self.size + len(text) > self._allocated:
            self._allocate(self.size + len(text))
        _write(self._handle, text, self.size)
        files.flush(self._handle)
        self.size += len(text)
        self._number += len(records)

    def _check_size(self, whole: bytes, report: Callable[[str], None]) -> None:
        stated = whole[HEAD_BYTES - 17 : HEAD_BYTES - 1]
        if whole[:HEAD_BYTES] != _head(int(stated) if stated.isdigit() else -1):
            report(f"the first line of {self.path} is damaged")
        elif int(stated) > len(whole):
            report(f"{self.path} was shortened from {int(stated):,} to {len(whole):,} bytes")

    def _allocate(self, size: int) -> None:
        """Extend the file with zeros to a multiple of the block size, and then state its size."""
        allocated = -(-size // BLOCK_BYTES) * BLOCK_BYTES
        _write(self._handle, bytes(allocated - self._allocated), self._allocated)
        files.flush(self._handle)
        _write(self._handle, _head(allocated), 0)
        files.flush(self._handle)
        self._allocated = allocated

    def _clear(self) -> None:
        """Fill the file with zeros behind the last record."""
        os.ftruncate(self._handle, self.size)
        self._allocated = self.size
        self._allocate(self.size + 1)


def _head(allocated: int) -> bytes:
    text = b"%016d" % allocated
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _write(handle: int, text: bytes, offset: int) -> None:
    done = 0
    while done < len(text):
        os.lseek(handle, offset + done, os.SEEK_SET)
        done += os.write(handle, text[done:])


def _format(record: Record, number: int) -> bytes:
    head = {"n": number, "id": record.request_id, "format": record.format, "at": record.at, "size": len(record.body)}
    line = json.dumps(head | {"crc": zlib.crc32(record.body)}).encode()
    return b"%08x %s\n%s\n" % (zlib.crc32(line), line, record.body)


def _parse(whole: bytes, offset: int) -> tuple[int, Record, int] | None:
    """Parse the record at an offset; return number, record and the offset of its end, or None if it is not intact."""
    head = _parse_head(whole, offset)
    if head is None:
        return None
    start = whole.index(b"\n", offset) + 1
    after = start + head["size"]
    body = whole[start:after]
    if zlib.crc32(body) != head["crc"] or whole[after : after + 1] != b"\n":
        return None
    return head["n"], Record(head["id"], head["format"], head["at"], body), after + 1


def _parse_head(whole: bytes, offset: int) -> dict | None:
    end = whole.find(b"\n", offset)
    line = whole[offset + LINE_CHECKSUM_BYTES : end]
    if end < 0 or whole[offset : offset + LINE_CHECKSUM_BYTES] != b"%08x " % zlib.crc32(line):
        return None
    return json.loads(line)


def _next_record(whole: bytes, offset: int) -> int | None:
    """Find the next intact record after a damaged one."""
    at = whole.find(b' {"n": ', offset + 1)
    while at >= 0:
        start = at - LINE_CHECKSUM_BYTES + 1
        if start > offset and _parse(whole, start) is not None:
            return start
        at = whole.find(b' {"n": ', at + 1)
    return None


def _is_unfinished(whole: bytes, offset: int) -> bool:
    """Return whether the last record was being written: its end, or a page of the disk in it, is still zero."""
    rest = whole[offset:]
    used = len(rest.rstrip(b"\0"))
    if not used:
        return True
    head = _parse_head(whole, offset)
    if head is None:  # the line itself is incomplete, or damaged
        return b"\n" not in rest[:used] or _has_empty_page(whole, offset, offset + used)
    end = whole.index(b"\n", offset) + 1 + head["size"] + 1
    return end <= len(whole) and (offset + used < end or _has_empty_page(whole, offset, end))


def _has_empty_page(whole: bytes, start: int, end: int) -> bool:
    first = -(-start // PAGE_BYTES)
    return any(not any(whole[i * PAGE_BYTES : (i + 1) * PAGE_BYTES]) for i in range(first, end // PAGE_BYTES))
