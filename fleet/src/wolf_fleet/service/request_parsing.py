"""Bodies of requests: rows as JSON, as JSON lines or as CSV; all of a body is taken, or nothing."""

import json
from typing import Any

from wolf.results import count
from wolf_fleet.streaming.row_parser import Arrived, Columns, Parser, no_rows

KINDS = {
    "application/json": "json",
    "application/x-ndjson": "lines",
    "application/jsonl": "lines",
    "text/csv": "csv",
}
LONGEST_KEY = 256  # characters


def kind_of(content_type: str | None) -> str:
    """Say how a body is written.

    Args:
        content_type: of the request's header.

    Example:
        >>> kind_of("text/csv; charset=utf-8")
        'csv'
    """
    name = (content_type or "").partition(";")[0].strip().lower()
    if name not in KINDS:
        raise ValueError(f"Content-Type must be one of {', '.join(KINDS)}; got {name or 'none'}")
    return KINDS[name]


def read(kind: str, body: bytes, columns: Columns, dated: bool | None) -> tuple[Arrived, bool | None]:
    """Read the rows of a body, or say what is wrong with it.

    Args:
        kind: from `kind_of`.
        body: as it came.
        columns: to be read.
        dated: whether times are dates; None if nobody knows yet.

    Returns:
        The rows, and whether times are dates.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"the body is no UTF-8 text: {error.reason} at byte {error.start}") from None
    if not text.strip():
        return no_rows(len(columns.values)), dated
    if kind == "csv":
        head, *lines = text.splitlines()
        parser = Parser(head, columns, "the body")
    else:
        parser, lines = Parser("{", columns, "the body"), text.splitlines()
    parser.dated = dated
    rows, unreadable = parser.parse_objects(_objects(text)) if kind == "json" else parser.parse(lines)
    if unreadable:
        raise ValueError(f"nothing was taken: {count(unreadable, 'row')} cannot be read, the first is {parser.example}")
    long = next((key for key in rows.keys if len(key) > LONGEST_KEY), None)
    if long is not None:
        raise ValueError(f"nothing was taken: a key has {len(long):,} characters, at most {LONGEST_KEY} are allowed")
    return rows, parser.dated


def _objects(text: str) -> list[Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the body is no JSON: {error}") from None
    found = [found] if isinstance(found, dict) else found
    if not isinstance(found, list):
        raise ValueError(f"expected an object of JSON or a list of them; got {type(found).__name__}")
    return found
