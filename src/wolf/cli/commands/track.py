"""Implementation of `wolf filter` for GPS tracks: clean them on a local plane, and write degrees."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np

from wolf.cleaning import Options, io
from wolf.cleaning.gps_tracks import CleanedTrack, clean_track
from wolf.cleaning.load import LoadedTable
from wolf.runtime.checkpoints import atomic

GPX = ".gpx"


def run(loaded: LoadedTable, options: Options, on_progress: Callable[[int], object]) -> list[CleanedTrack]:
    """Clean each track.

    Args:
        loaded: the input, with `loaded.place`.
        options: how to clean.
        on_progress: called with a number of values whenever they are done.
    """
    assert loaded.place is not None
    if options.forecast:
        raise ValueError("--forecast does not apply to GPS tracks; leave it out")
    if not options.scale.is_identity:
        raise ValueError("--transform and --angle do not apply to positions; leave them out")
    groups = np.zeros(len(loaded.values), int) if loaded.groups is None else loaded.groups
    tracks = []
    for number, label in enumerate(loaded.labels or [""]):
        rows = np.flatnonzero(groups == number)
        positions: dict[str, np.ndarray] = {name: array[rows] for name, array in loaded.place.items()}
        times = None if loaded.times is None else loaded.times[rows]
        try:
            track = clean_track(times=times, options=options, label=label, **positions)
        except ValueError as error:
            if loaded.groups is None:
                raise
            loaded.failed[label] = str(error)
            continue
        tracks.append(
            dataclasses.replace(track, series=dataclasses.replace(track.series, rows=rows[track.series.rows]))
        )
        on_progress(2 * len(rows))
    if not tracks:
        raise ValueError(f"no track could be filtered; {next(iter(loaded.failed.values()))}")
    loaded.notes.extend(note for track in tracks for note in track.notes)
    loaded.notes.extend(f"{label} was not filtered: {reason}" for label, reason in loaded.failed.items())
    return tracks


def result_columns(loaded: LoadedTable, tracks: list[CleanedTrack]) -> dict[str, np.ndarray]:
    """Build the result columns of all tracks, on the rows of the input."""
    rows = len(loaded.values)
    added: dict[str, np.ndarray] = {}

    def put(name: str, at: np.ndarray, array: np.ndarray) -> None:
        blank = np.full(rows, np.nan) if array.dtype.kind == "f" else np.zeros(rows, array.dtype)
        added.setdefault(name, blank)[at] = array

    for track in tracks:
        at = track.series.rows
        put("latitude_mean", at, track.latitude)
        put("longitude_mean", at, track.longitude)
        put("radius", at, track.radius)
        put("weight", at, _by_row(track.series.weight, np.min))
        put("outlier", at, _by_row(track.series.outlier, np.max))
        if track.series.fault is not None:
            put("fault", at, track.series.fault)
        if track.altitude is not None:
            altitude = track.altitude
            values = {"mean": altitude.mean, "lower": altitude.lower, "upper": altitude.upper}
            for quantity, array in (values | {"outlier": altitude.outlier}).items():
                put(f"altitude_{quantity}", at[altitude.rows], array if array.ndim == 1 else array[:, 0])
    taken = set(loaded.table.data.column_names)
    return {(f"wolf_{name}" if name in taken else name): array for name, array in added.items()}


def _by_row(array: np.ndarray, reduce: Callable[..., np.ndarray]) -> np.ndarray:
    return np.asarray(array if array.ndim == 1 else reduce(array, axis=1))


def write(target: str, loaded: LoadedTable, tracks: list[CleanedTrack], escape_formulas: bool = False) -> None:
    """Write the rows of the input with result columns, or the cleaned tracks as GPX."""
    if Path(target).suffix.lower() == GPX:
        with atomic(Path(target)) as file:
            file.write(io.write_gpx((track.series.label or "track", _points(loaded, track)) for track in tracks))
        return
    piece = io.RowReader(loaded.table).read(len(loaded.values))
    for name, array in result_columns(loaded, tracks).items():
        piece = piece.append_column(name, io.from_numpy(array))
    style = io.CsvStyle(loaded.table.delimiter, decimal=loaded.decimal, escape_formulas=escape_formulas)
    io.write_table(target, piece, loaded.table.kind, style)


def _points(loaded: LoadedTable, track: CleanedTrack) -> dict[str, np.ndarray]:
    points = {"latitude": track.latitude, "longitude": track.longitude}
    if track.altitude is not None:
        points["altitude"] = track.altitude.mean[:, 0]
    if track.series.times is not None and loaded.axis is not None and loaded.axis.origin is not None:
        points["time"] = np.datetime64(loaded.axis.origin, "ns") + np.round(track.series.times * 1e9).astype(
            "timedelta64[ns]"
        )
    return points
