"""Incidents of a stream: found as rows are filtered, stored with each commit, and reported after it.

Only committed incidents are reported, so that a stream that starts again from its last commit finds the same ones. A
level shift is closed once all targets have it, since nobody acknowledges incidents of a stream.
"""

import time as clocks
from threading import RLock

import numpy as np

from wolf_fleet.streaming import future_rows
from wolf_fleet.streaming.incidents.facts import incident_facts
from wolf_fleet.streaming.incidents.incident_log import IncidentLog
from wolf_fleet.streaming.incidents.key_health import KeyHealth
from wolf_fleet.streaming.incidents.row_view import make_view
from wolf_fleet.streaming.pipeline import FilteredRows, Pipeline
from wolf_fleet.streaming.row_parser import JsonObject


class StreamIncidents:
    """Health of the keys of a stream, and their incidents: an `alerts.AlertSource`.

    Args:
        pipeline: whose rows are judged; its model is linear.
        writer: identity of the state folder.
        arrays: from `pack`, of the last commit; empty if there are none.
    """

    def __init__(self, pipeline: Pipeline, writer: str, arrays: dict[str, np.ndarray]):
        self.writer, self._pipeline, self._lock = writer, pipeline, RLock()
        self._since, self._started = clocks.time(), clocks.monotonic()
        self._health, self.log = KeyHealth(len(pipeline.columns.values)), IncidentLog()
        self._committed: dict[int, tuple[int, JsonObject]] = {}  # number of changes and facts, by number
        self._targets: list[str] = []
        self.is_changed = False  # since the last commit, without new rows
        if arrays:
            self._health.unpack(arrays, self._since)
            self.log.unpack(arrays)

    def _now(self) -> float:
        """Return the time since 1970 by a clock that is never set."""
        return self._since + (clocks.monotonic() - self._started)

    def add(self, filtered: FilteredRows, at: float) -> None:
        """Judge filtered rows that arrived at a time, in seconds since 1970."""
        pipeline = self._pipeline
        rows = make_view(filtered, pipeline.num_deviations, at, pipeline.columns.time is not None)
        timed = pipeline.columns.time is not None
        timed = timed and future_rows.is_unix_time(float(rows.times[-1]), at, pipeline.dated)
        with self._lock:
            now = self._now()
            present = self._health.add(filtered.rows.keys, rows, at, now, timed)
            self.log.update(self._health, present, now, self._since)

    def find_silent(self) -> None:
        """Open incidents of keys from which no row has come for several usual intervals."""
        with self._lock:
            now, before = self._now(), len(self.log.open)
            silent = np.flatnonzero(self._health.silent(now, self._since))
            if len(silent):
                self.log.update(self._health, silent, now, self._since)
            self.is_changed = self.is_changed or len(self.log.open) != before

    def forget(self, keys: list[str]) -> None:
        """Remove keys that are dropped."""
        with self._lock:
            if keys:
                self._health.forget(keys)
                self.log.forget(keys)

    def pack(self) -> dict[str, np.ndarray]:
        """Serialise health and incidents as arrays, for a commit."""
        with self._lock:
            for each in self.log.open:
                if each.kind == "shift" and self._targets and not any(map(each.is_waiting, self._targets)):
                    self.log.acknowledge(each.number)
            self.is_changed = False  # what is delivered from now on is for the next commit
            return self._health.pack() | self.log.pack()

    def commit(self) -> None:
        """Report what was found until now: the arrays of `pack` are on disk."""
        dated = bool(self._pipeline.dated) or self._pipeline.columns.time is None
        with self._lock:
            waiting = {each.number: each for name in self._targets for each in self.log.undelivered(name)}
            self._committed = {number: (each.changes, incident_facts(each, dated)) for number, each in waiting.items()}

    def set_alert_targets(self, names: list[str]) -> None:
        """Set the targets of alerts; a new one gets the open incidents."""
        with self._lock:
            self._targets = names
            self.log.set_targets(names)
            self.commit()

    def undelivered_alerts(self, target: str) -> list[tuple[int, int, JsonObject]]:
        """List what a target does not have: number of the incident, number of its changes, and its facts."""
        with self._lock:
            known = [(each, self._committed.get(each.number)) for each in self.log.undelivered(target)]
            return [
                (each.number, *found)
                for each, found in known
                if found is not None and each.alerts.get(target, 0) < found[0]
            ]

    def alert_delivered(self, number: int, target: str, changes: int) -> None:
        """Record that a target has the first changes of an incident."""
        with self._lock:
            self.log.delivered(number, target, changes)
            self.is_changed = True
