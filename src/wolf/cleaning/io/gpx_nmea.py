"""Reader of tracks in GPX and NMEA 0183, and writer of GPX.

GPX 1.1: https://www.topografix.com/GPX/1/1/. NMEA 0183 sentences GGA (position, hdop, altitude) and RMC (position,
date); the number after `*` is the exclusive or of all characters between `$` and it.
"""

import re
from collections.abc import Iterable
from functools import reduce
from html import escape
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from wolf.cleaning.io.table import Table, pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

NMEA = re.compile(rb"\$[A-Z]{2}(GGA|RMC|GSA|GSV|GLL|VTG|ZDA|TXT|GNS|GST),")
SENTENCE = re.compile(r"\$(?P<body>[A-Z]{2}(?P<kind>GGA|RMC),[^*\r\n]*)(?:\*(?P<sum>[0-9A-Fa-f]{2}))?")
POINT = {"ele": "altitude", "hdop": "hdop", "vdop": "vdop", "pdop": "pdop", "accuracy": "accuracy", "speed": "speed"}
CLOCK = re.compile(r"\d{6}(\.\d+)?")
DAY = np.timedelta64(1, "D")

_Row = dict[str, Any]  # a point of a track: column -> cell


def read_gpx(name: str, content: "pa.Buffer") -> Table:
    """Read the points of all tracks (or routes) of a GPX file."""
    text = content.to_pybytes()
    if b"<!ENTITY" in text or b"<!DOCTYPE" in text:
        raise ValueError(f"{name} declares XML entities, which are rejected; remove the DOCTYPE")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"{name} is not a GPX file that can be read: {error}") from error
    rows: list[_Row] = []
    tracks = [each for each in root.iter() if _tag(each) in ("trk", "rte")]
    for track, element in enumerate(tracks):
        title = next((child.text for child in element if _tag(child) == "name" and child.text), f"track {track + 1}")
        points = [each for each in element.iter() if _tag(each) in ("trkpt", "rtept")]
        rows += [{"track": title} | _point(name, point) for point in points]
    if not rows:
        raise ValueError(f"{name} contains no track: it has no trkpt or rtept")
    return _table(name, rows, "gpx", [])


def _tag(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _point(name: str, point: Any) -> _Row:
    try:
        row: _Row = {"latitude": float(point.get("lat")), "longitude": float(point.get("lon"))}
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} has a point without a latitude and a longitude in degrees") from error
    for child in point.iter():
        tag, cell = _tag(child), (child.text or "").strip()
        if tag == "time" and cell:
            row["time"] = _moment(cell)
        elif tag in POINT and cell:
            row[POINT[tag]] = _number(cell)
    return row


def _moment(cell: str) -> np.datetime64:
    """Parse a GPX time, in UTC unless it has another zone; NaT if invalid."""
    from datetime import UTC, datetime

    try:
        found = datetime.fromisoformat(cell.replace("Z", "+00:00"))
    except ValueError:
        return np.datetime64("NaT")
    return np.datetime64((found.astimezone(UTC) if found.tzinfo else found).replace(tzinfo=None), "us")


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def read_nmea(name: str, content: "pa.Buffer") -> Table:
    """Read the positions of a log of NMEA sentences; those with a wrong checksum are left out."""
    rows: list[_Row] = []
    wrong = 0
    for found in SENTENCE.finditer(content.to_pybytes().decode("ascii", errors="replace")):
        if found["sum"] and reduce(lambda a, b: a ^ b, found["body"].encode("ascii", "replace")) != int(
            found["sum"], 16
        ):
            wrong += 1
            continue
        cells = found["body"].split(",")
        row = _gga(cells) if found["kind"] == "GGA" else _rmc(cells)
        if not rows or rows[-1]["clock"] != cells[1]:  # sentences with the same time are consecutive
            rows.append({"clock": cells[1], "date": None})
        rows[-1].update(row)
    placed = _days([row for row in rows if "latitude" in row])
    if not placed:
        raise ValueError(f"{name} contains no position: it has no GGA or RMC sentence with a fix")
    return _table(name, placed, "nmea", [f"{wrong} sentences with a wrong checksum left out"] if wrong else [])


def _gga(cells: list[str]) -> _Row:
    if len(cells) < 10 or cells[6] in ("", "0"):  # no fix
        return {}
    return _place(cells[2:6]) | {"hdop": _number(cells[8]), "altitude": _number(cells[9])}


def _rmc(cells: list[str]) -> _Row:
    if len(cells) < 10:
        return {}
    date = cells[9] if re.fullmatch(r"\d{6}", cells[9]) else None
    return ({"date": date} if date else {}) | (_place(cells[3:7]) if cells[2] == "A" else {})


def _place(cells: list[str]) -> _Row:
    """Parse degrees and minutes, such as 5230.1234,N,01324.5678,E."""
    found: _Row = {}
    for name, cell, side, digits in (("latitude", cells[0], cells[1], 2), ("longitude", cells[2], cells[3], 3)):
        if not re.fullmatch(rf"\d{{{digits + 2}}}(\.\d+)?", cell) or side not in "NSEW":
            return {}
        found[name] = (int(cell[:digits]) + float(cell[digits:]) / 60.0) * (-1.0 if side in "SW" else 1.0)
    return found


def _days(rows: list[_Row]) -> list[_Row]:
    """Combine dates and times of day; without any date, days are counted from 1970."""
    day, before = np.datetime64("1970-01-01"), -1.0
    dates = [row["date"] for row in rows if row["date"]]
    known = dates[0] if dates else None
    for row in rows:
        clock = row.pop("clock")
        seconds = int(clock[:2]) * 3600 + int(clock[2:4]) * 60 + float(clock[4:]) if CLOCK.fullmatch(clock) else before
        date = row.pop("date") or (known if before < 0 else None)
        if date:
            century = "19" if date[4:] > "79" else "20"
            day = np.datetime64(f"{century}{date[4:]}-{date[2:4]}-{date[:2]}")
        elif seconds < before - 43_200:  # midnight
            day = day + DAY
        before = seconds
        row["time"] = day.astype("datetime64[us]") + np.timedelta64(round(seconds * 1e6), "us")
    return rows


def _table(name: str, rows: list[_Row], kind: str, notes: Iterable[str]) -> Table:
    arrow = pyarrow()
    names = dict.fromkeys(key for row in rows for key in row)
    columns = {}
    for key in (key for key in ("track", "time", "latitude", "longitude", *names) if key in names):
        if key == "time":
            stamps = np.array([row.get(key, np.datetime64("NaT")) for row in rows], "datetime64[us]")
            columns[key] = arrow.array(stamps, arrow.timestamp("us"))
        elif key == "track":
            columns[key] = arrow.array([row[key] for row in rows])
        else:
            numbers = np.array([row.get(key, np.nan) for row in rows], float)
            columns[key] = arrow.array(numbers, mask=np.isnan(numbers))
    data = arrow.table(columns)
    return Table(name, data, kind, ",", lambda: iter(data.to_batches()), notes=tuple(notes))


def write_gpx(tracks: Iterable[tuple[str, dict[str, np.ndarray]]]) -> bytes:
    """Write tracks as GPX.

    Args:
        tracks: name, and arrays (T,): latitude, longitude, and optionally altitude and time in datetime64.
    """
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines.append('<gpx version="1.1" creator="wolf" xmlns="http://www.topografix.com/GPX/1/1">')
    for title, points in tracks:
        lines += [" <trk>", f"  <name>{escape(title)}</name>", "  <trkseg>"]
        for i in range(len(points["latitude"])):
            inner = ""
            if "altitude" in points and np.isfinite(points["altitude"][i]):
                inner += f"<ele>{points['altitude'][i]:.2f}</ele>"
            if "time" in points and not np.isnat(points["time"][i]):
                inner += f"<time>{np.datetime_as_string(points['time'][i].astype('datetime64[ms]'))}Z</time>"
            place = f'lat="{points["latitude"][i]:.8f}" lon="{points["longitude"][i]:.8f}"'
            lines.append(f"   <trkpt {place}>{inner}</trkpt>")
        lines += ["  </trkseg>", " </trk>"]
    return "\n".join([*lines, "</gpx>", ""]).encode()
