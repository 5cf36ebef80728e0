"""Base class of sinks: rows of output parts and incidents as JSON objects, written in order, each at a position."""

import json
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from wolf_fleet.streaming.row_parser import JsonObject

BATCH_ROWS = 1000  # written together


class Position(NamedTuple):
    """Position up to which the output was written: all parts before `part`, and the first `rows` rows of that part."""

    part: int
    rows: int

    @property
    def text(self) -> str:
        """The position as text, part of the ids of messages."""
        return f"{self.part}-{self.rows}"

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Parse `text`."""
        part, rows = text.split("-")
        return cls(int(part), int(rows))


START = Position(0, 0)


class Sink:
    """Where rows and incidents are written.

    Args:
        address: of the sink.
        writer: identity of the state folder.

    Attributes:
        keeps_position: whether the sink stores the position together with the rows, so that every row is in it exactly
            once. Otherwise the position is a file of the state folder, and rows of a batch that was interrupted come
            twice.
    """

    keeps_position = True

    def __init__(self, address: str, writer: str):
        self.address, self.writer = address, writer

    @property
    def name(self) -> str:
        """The address without credentials and options."""
        scheme, _, rest = self.address.partition("?")[0].partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]}"

    def position(self) -> Position | None:
        """Read how far this writer has written; None if the sink does not know."""
        return None

    def write(self, rows: list[JsonObject], key: str, after: Position) -> None:
        """Write rows, all or none where the sink permits it, and return once the sink has stored them.

        Args:
            rows: with the columns of the output.
            key: name of the column of keys.
            after: position after these rows.
        """
        raise NotImplementedError

    def write_incident(self, facts: JsonObject) -> None:
        """Write the state of an incident; the same number and state may come twice."""
        raise NotImplementedError

    def close(self) -> None:
        """Disconnect."""

    def error(self, why: object) -> OSError:
        """Create the error for a sink that does not take rows."""
        return OSError(f"{self.name} does not take rows: {str(why) or 'no answer'}. They are kept, and sent later")


def incident_id(facts: JsonObject) -> str:
    """Return what identifies a change of an incident."""
    return f"incident-{facts['incident']}-{facts['state']}-{facts['kind']}"


def encode(row: JsonObject) -> bytes:
    """Encode a row as JSON; dates in ISO 8601, numbers that are not finite as null."""
    return json.dumps({name: plain(cell) for name, cell in row.items()}).encode()


def plain(cell: object) -> object:
    """Convert a cell to what JSON has."""
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else None
    if isinstance(cell, datetime):
        return cell.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return cell


def split(rows: list[JsonObject], start: Position) -> Iterable[tuple[list[JsonObject], Position]]:
    """Split the rows of a part into batches.

    Args:
        rows: of the part.
        start: position within the part.

    Yields:
        Rows, and the position after them.
    """
    for first in range(start.rows, len(rows), BATCH_ROWS):
        some = rows[first : first + BATCH_ROWS]
        yield some, Position(start.part, first + len(some))
