"""What `wolf filter` does with positions on the globe: clean them on a plane, and write them as degrees again."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from wolf.cleaning import Options, Series, io
from wolf.cleaning.gps_tracks import CleanTrack, clean_track
from wolf.cleaning.load import Readings
from wolf.runtime.checkpoints import atomic

GPX = ".gpx"


def run(read: Readings, options: Options, progress: Callable[[int], None]) -> list[CleanTrack]:
    """Clean each track.

    Args:
        read: with positions, `read.place`.
        options: how.
        progress: told how many values were done.
    """
    assert read.place is not None
    if options.forecast:
        raise ValueError("a track is not looked ahead of: where it goes is not in it; leave --forecast out")
    groups = np.zeros(len(read.values), int) if read.groups is None else read.groups
    tracks = []
    for number, label in enumerate(read.labels or [""]):
        rows = np.flatnonzero(groups == number)
        told: dict[str, Any] = {name: array[rows] for name, array in read.place.items()}
        times = None if read.times is None else read.times[rows]
        try:
            track = clean_track(times=times, options=options, label=label, **told)
        except ValueError as error:
            if read.groups is None:
                raise
            read.failed[label] = str(error)
            continue
        tracks.append(
            dataclasses.replace(track, series=dataclasses.replace(track.series, rows=rows[track.series.rows]))
        )
        progress(2 * len(rows))
    if not tracks:
        raise ValueError(f"no track could be filtered; {next(iter(read.failed.values()))}")
    read.notes.extend(words for track in tracks for words in track.notes)
    read.notes.extend(f"{label} was not filtered: {why}" for label, why in read.failed.items())
    return tracks


def columns(read: Readings, tracks: list[CleanTrack]) -> dict[str, np.ndarray]:
    """Lay the results out on the rows that were read."""
    rows = len(read.values)
    told: dict[str, np.ndarray] = {}

    def put(name: str, at: np.ndarray, array: np.ndarray) -> None:
        blank = np.full(rows, np.nan) if array.dtype.kind == "f" else np.zeros(rows, array.dtype)
        told.setdefault(name, blank)[at] = array

    for track in tracks:
        at = track.series.rows
        put("latitude_mean", at, track.latitude)
        put("longitude_mean", at, track.longitude)
        put("radius", at, track.radius)
        put("weight", at, _joint(track.series, track.series.weight, np.min))
        put("outlier", at, _joint(track.series, track.series.outlier, np.max))
        if track.series.fault is not None:
            put("fault", at, track.series.fault)
        if track.altitude is not None:
            for kind in ("mean", "lower", "upper", "outlier"):
                array = getattr(track.altitude, kind)
                put(f"altitude_{kind}", at[track.altitude.rows], array if array.ndim == 1 else array[:, 0])
    taken = set(read.table.data.column_names)
    return {(f"wolf_{name}" if name in taken else name): array for name, array in told.items()}


def _joint(series: Series, array: np.ndarray, gather: Any) -> np.ndarray:
    return np.asarray(array if array.ndim == 1 else gather(array, axis=1))


def write(target: str, read: Readings, tracks: list[CleanTrack]) -> None:
    """Write the rows that were read with the results beside them, or the clean tracks as GPX."""
    if Path(target).suffix.lower() == GPX:
        with atomic(Path(target)) as file:
            file.write(io.write_gpx((track.series.label or "track", _points(read, track)) for track in tracks))
        return
    piece = io.Rows(read.table).take(len(read.values))
    for name, array in columns(read, tracks).items():
        piece = piece.append_column(name, io.from_numpy(array))
    io.write_table(target, piece, read.table.kind, read.table.delimiter)


def _points(read: Readings, track: CleanTrack) -> dict[str, np.ndarray]:
    held = {"latitude": track.latitude, "longitude": track.longitude}
    if track.altitude is not None:
        held["altitude"] = track.altitude.mean[:, 0]
    if track.series.times is not None and read.axis is not None and read.axis.origin is not None:
        held["time"] = np.datetime64(read.axis.origin, "ns") + np.round(track.series.times * 1e9).astype(
            "timedelta64[ns]"
        )
    return held
