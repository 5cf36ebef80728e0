"""Parsing of request bodies: JSON, JSON lines or CSV; a body is accepted completely or not at all."""

import json

from wolf.results import count
from wolf_fleet.streaming.row_parser import Columns, JsonObject, RowBatch, RowParser, empty_batch

FORMATS = {  # content type: format
    "application/json": "json",
    "application/x-ndjson": "lines",
    "application/jsonl": "lines",
    "text/csv": "csv",
}
MAX_KEY_LENGTH = 256  # characters


def format_of(content_type: str | None) -> str:
    """Return the format of a body.

    Args:
        content_type: header of the request.

    Example:
        >>> format_of("text/csv; charset=utf-8")
        'csv'
    """
    name = (content_type or "").partition(";")[0].strip().lower()
    if name not in FORMATS:
        raise ValueError(f"Content-Type must be one of {', '.join(FORMATS)}; got {name or 'none'}")
    return FORMATS[name]


def parse(format: str, body: bytes, columns: Columns, dated: bool | None) -> tuple[RowBatch, bool | None]:
    """Parse the rows of a body; raise a `ValueError` that names the first invalid row.

    Args:
        format: from `format_of`.
        body: of the request.
        columns: names of the columns to read.
        dated: whether times are dates; None if not known yet.

    Returns:
        The rows, and whether times are dates.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"the body is not UTF-8 text: {error.reason} at byte {error.start}") from None
    if "\0" in text:
        raise ValueError("the body holds a null character; expected text")
    if not text.strip():
        return empty_batch(len(columns.values)), dated
    if format == "csv":
        head, *lines = _lines(text)
        parser = RowParser(head, columns, "the body")
    else:
        parser, lines = RowParser("{", columns, "the body"), _lines(text)
    parser.dated = dated
    rows, unreadable = parser.parse_objects(_objects(text)) if format == "json" else parser.parse(lines)
    if unreadable:
        raise ValueError(f"no rows were accepted: {count(unreadable, 'row')} cannot be read, first {parser.example}")
    long = next((key for key in rows.keys if len(key) > MAX_KEY_LENGTH), None)
    if long is not None:
        raise ValueError(f"no rows were accepted: a key may have {MAX_KEY_LENGTH} characters; got {len(long):,}")
    return rows, parser.dated


def _lines(text: str) -> list[str]:
    """Split at line feeds only: `splitlines` also splits at characters that may be part of a key."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if not lines[-1] else lines


def _objects(text: str) -> list[JsonObject]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the body is not JSON: {error}") from None
    found = [found] if isinstance(found, dict) else found
    if not isinstance(found, list):
        raise ValueError(f"expected a JSON object or a list of objects; got {type(found).__name__}")
    return found
