"""Incidents: a problem of a key from its begin to its end, with one alert when it opens and one when it closes.

| kind | opens | closes |
|---|---|---|
| outliers | several recent rows are outliers | no recent row is one |
| stuck | one value is repeated for longer than chance explains | another value |
| missing | half of the recent rows have no value | fewer |
| silent | no row for several usual intervals | a row |
| shift | the level is another one after rejected rows | it is acknowledged: the sensor or the world has changed |
"""

import dataclasses
import json
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from wolf_fleet.service.key_health import RECENT_ROWS, KeyHealth

KINDS = ("outliers", "stuck", "missing", "silent", "shift")
MAX_CLOSED = 10_000  # closed incidents that are kept
MAX_OPEN = 100_000  # further problems are counted, and open incidents once there is room


@dataclasses.dataclass
class Incident:
    """A problem of a key.

    Attributes:
        number: of the incident, from 1.
        key: name of the series.
        kind: one of `KINDS`.
        start: time of the row with which it was noticed, in seconds since 1970 or in the unit of the times.
        end: time of the row with which it ended; None while it is open.
        severity: largest score of the key while it was open.
        reason: one sentence.
        acknowledged: whether somebody has confirmed to have seen it.
        alerts: number of changes (1 opened, 2 closed) of which an alert was delivered.
    """

    number: int
    key: str
    kind: str
    start: float
    severity: float
    reason: str
    end: float | None = None
    acknowledged: bool = False
    alerts: int = 0

    @property
    def changes(self) -> int:
        """Number of changes that deserve an alert: it opened; it opened and closed."""
        return 1 if self.end is None else 2


class IncidentLog:
    """Open and recent incidents of all keys."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Incident] = {}
        self._closed: deque[Incident] = deque(maxlen=MAX_CLOSED)
        self._muted: dict[str, float] = {}  # until when, in seconds since 1970
        self._count = self.overflow = 0

    def __iter__(self) -> Iterator[Incident]:
        """Iterate over open incidents, the newest first, and then over closed ones."""
        yield from sorted(self._open.values(), key=lambda each: -each.number)
        yield from reversed(self._closed)

    @property
    def open(self) -> list[Incident]:
        """Open incidents, the newest first."""
        return sorted(self._open.values(), key=lambda each: -each.number)

    def update(self, health: KeyHealth, where: np.ndarray, now: float, since: float) -> None:
        """Open, update and close incidents of keys after new rows, or after a while without.

        Args:
            health: of all keys.
            where: indices of the keys to look at, increasing.
            now: in seconds since 1970.
            since: start of the service.
        """
        score, problems = health.assess(now, since, where)
        flagged = health.flagged(where)
        masks = {"stuck": problems["stuck"], "missing": problems["blank"], "silent": problems["silent"]}
        masks |= {"outliers": problems["outliers"], "shift": np.isfinite(health.shift[where])}
        lasting = {"outliers": flagged > 0, "shift": np.ones(len(where), bool)}
        for kind in KINDS:
            for i in np.flatnonzero(masks[kind]).tolist():
                self._raise(kind, health, int(where[i]), float(score[i]), now)
        for key, kind in self._open_among(health, where):
            index = health.index(key)
            if not lasting.get(kind, masks[kind])[np.searchsorted(where, index)]:
                self._close(key, kind, float(health.ended[index]))
        health.shift[where] = np.nan

    def _open_among(self, health: KeyHealth, where: np.ndarray) -> list[tuple[str, str]]:
        """List the open incidents of some keys, by the shorter of the two lists."""
        if len(where) < len(self._open):
            pairs = ((health.keys[index], kind) for index in where.tolist() for kind in KINDS)
            return [pair for pair in pairs if pair in self._open]
        present = set(where.tolist())
        return [pair for pair in self._open if health.index(pair[0]) in present]

    def _raise(self, kind: str, health: KeyHealth, index: int, score: float, now: float) -> None:
        key, reason = health.keys[index], _reason(kind, health, index)
        known = self._open.get((key, kind))
        if known is not None:
            known.severity, known.reason = max(known.severity, score), reason
            if kind == "shift" and np.isfinite(health.shift[index]):
                known.acknowledged = False
        elif len(self._open) >= MAX_OPEN:
            self.overflow += 1
        else:
            self._count += 1
            incident = Incident(self._count, key, kind, float(health.ended[index]), score, reason)
            incident.acknowledged = self._muted.get(key, -np.inf) > now
            incident.alerts = 2 * incident.acknowledged  # nobody is alerted
            self._open[key, kind] = incident

    def _close(self, key: str, kind: str, end: float) -> None:
        incident = self._open.pop((key, kind))
        incident.end = end
        self._closed.append(incident)

    def acknowledge(self, number: int) -> Incident:
        """Acknowledge an incident; a shift is closed by that. Raise a `KeyError` for an unknown number."""
        found = next((each for each in self if each.number == number), None)
        if found is None:
            raise KeyError(f"there is no incident {number}")
        found.acknowledged = True
        if found.kind == "shift" and found.end is None:
            self._close(found.key, found.kind, found.start)
            found.alerts = found.changes
        return found

    def mute(self, key: str, until: float) -> None:
        """Alert nobody of new incidents of a key until a time, in seconds since 1970."""
        self._muted[key] = until
        for kind in KINDS:
            if (key, kind) in self._open:
                self._open[key, kind].acknowledged = True
                self._open[key, kind].alerts = 2

    def forget(self, keys: list[str]) -> None:
        """Close the incidents of keys that are dropped."""
        for key in keys:
            for kind in KINDS:
                if (key, kind) in self._open:
                    self._close(key, kind, self._open[key, kind].start)

    def undelivered(self) -> list[Incident]:
        """Return the incidents with a change of which no alert was delivered, the oldest first."""
        return sorted((each for each in self if each.alerts < each.changes), key=lambda each: each.number)

    def pack(self) -> dict[str, np.ndarray]:
        """Serialise the incidents as an array."""
        facts = {"incidents": [dataclasses.asdict(each) for each in self], "muted": self._muted, "count": self._count}
        return {"incidents": np.frombuffer(json.dumps(facts).encode(), np.uint8)}

    def unpack(self, arrays: dict[str, np.ndarray]) -> None:
        """Load the result of `pack`."""
        facts: dict[str, Any] = json.loads(arrays["incidents"].tobytes())
        self._muted, self._count = facts["muted"], facts["count"]
        for each in reversed([Incident(**fields) for fields in facts["incidents"]]):
            if each.end is None:
                self._open[each.key, each.kind] = each
            else:
                self._closed.append(each)


def _reason(kind: str, health: KeyHealth, index: int) -> str:
    recent = min(int(health.rows[index]), RECENT_ROWS)
    if kind == "outliers":
        return f"{int(np.bitwise_count(health.flags[index])):,} outliers in the last {recent:,} rows"
    if kind == "stuck":
        return f"the same value {int(health.run[index]) + 1:,} times in a row"
    if kind == "missing":
        return f"{int(np.bitwise_count(health.blanks[index])):,} missing values in the last {recent:,} rows"
    if kind == "shift":
        return f"the level changed by {float(health.shift[index]):.4g} and stayed"
    return f"no row for more than {max(float(health.usual_interval()[index]), 0.0):.3g} s, the usual interval"
