"""Incidents: a problem of a key from its begin to its end, with one alert when it opens and one when it closes.

| kind | opens | closes |
|---|---|---|
| outliers | several recent rows are outliers | no recent row is one |
| stuck | one value is repeated for longer than chance explains | another value |
| missing | half of the recent rows have no value | fewer |
| silent | no row for several usual intervals | a row |
| shift | the level is another one after rejected rows | it is acknowledged: the sensor or the world has changed |

Each fault is one incident: outliers that turn out to be a shift of the level change the kind of their incident.
"""

import dataclasses
import json
import math
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from wolf.diagnostics.faults.incidents import Incident
from wolf_fleet.streaming.incidents.key_health import MIN_REJECTED_ROWS, RECENT_ROWS, SILENCE_FACTOR, KeyHealth

KINDS = ("outliers", "stuck", "missing", "silent", "shift")
MAX_CLOSED = 10_000  # closed incidents that are kept
MAX_OPEN = 100_000  # further problems are counted, and open incidents once there is room
SINK = "sink"  # target of alerts that gets those of muted keys too
CHANCE_OUTLIER_SHARE = 0.01  # of sound sensors, in the confidence of an incident


@dataclasses.dataclass(kw_only=True)
class KeyIncident(Incident):
    """An incident of a key: one of `KINDS`, whose severity is the largest score of the key while it was open.

    Its times are those of rows, in seconds since 1970 or in the unit of the times.

    Attributes:
        number: of the incident, from 1.
        key: name of the series.
        acknowledged: whether somebody has confirmed to have seen it.
        muted: whether its key was muted, so that only a sink gets it.
        updates: number of changes of its kind while it was open.
        alerts: by target, number of changes (it opened, changed its kind, closed) that were delivered.
    """

    number: int
    key: str
    acknowledged: bool = False
    muted: bool = False
    updates: int = 0
    alerts: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def changes(self) -> int:
        """Number of changes that deserve an alert: it opened, changed its kind, closed."""
        return 1 + self.updates + (self.end is not None)

    def is_waiting(self, target: str) -> bool:
        """Return whether a target of alerts lacks a change that it should get."""
        return self.alerts.get(target, 0) < self.changes and (target == SINK or not self.muted)

    @property
    def state(self) -> str:
        """Whether it is open, closed, or open with another kind than at first."""
        return "closed" if self.end is not None else "updated" if self.updates else "open"


class IncidentLog:
    """Open and recent incidents of all keys."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], KeyIncident] = {}
        self._closed: deque[KeyIncident] = deque(maxlen=MAX_CLOSED)
        self._muted: dict[str, float] = {}  # until when, in seconds since 1970
        self._count = self.overflow = 0
        self._targets: list[str] = []  # of alerts
        self._changed: dict[int, KeyIncident] = {}  # with a change that a target does not have

    def __iter__(self) -> Iterator[KeyIncident]:
        """Iterate over open incidents, the newest first, and then over closed ones."""
        yield from sorted(self._open.values(), key=lambda each: -each.number)
        yield from reversed(self._closed)

    @property
    def open(self) -> list[KeyIncident]:
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
        shifted = np.isfinite(health.shift[where])
        # The outliers before a shift are the same fault.
        outliers = problems["outliers"] & ~shifted & ~self._are_open(health, where, "shift")
        masks |= {"outliers": outliers, "shift": shifted}
        lasting = {"outliers": flagged > 0, "shift": np.ones(len(where), bool)}
        for kind in KINDS:
            for i in np.flatnonzero(masks[kind]).tolist():
                self._raise(kind, health, int(where[i]), float(score[i]), now)
        for key, kind in self._open_among(health, where):
            index = health.index(key)
            if not lasting.get(kind, masks[kind])[np.searchsorted(where, index)]:
                self._close(key, kind, float(health.ended[index]))
        health.shift[where] = np.nan

    def _are_open(self, health: KeyHealth, where: np.ndarray, kind: str) -> np.ndarray:
        """Return which of some keys have an open incident of a kind."""
        found = np.zeros(len(where), bool)
        for key, _ in (pair for pair in self._open_among(health, where) if pair[1] == kind):
            found[np.searchsorted(where, health.index(key))] = True
        return found

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
        if known is None and kind == "shift" and (key, "outliers") in self._open:
            known = self._open[key, kind] = self._open.pop((key, "outliers"))
            known.kind, known.updates = kind, known.updates + 1
            self._changed[known.number] = known
        if known is not None:
            known.severity, known.reason = max(known.severity, score), reason
            known.confidence = max(known.confidence, _confidence(kind, health, index))
            if kind == "shift" and np.isfinite(health.shift[index]):
                known.acknowledged = False
        elif len(self._open) >= MAX_OPEN:
            self.overflow += 1
        else:
            self._count += 1
            incident = KeyIncident(
                number=self._count,
                key=key,
                kind=kind,
                start=float(health.ended[index]),
                severity=score,
                confidence=_confidence(kind, health, index),
                reason=reason,
            )
            incident.acknowledged = incident.muted = self._muted.get(key, -np.inf) > now
            self._open[key, kind] = self._changed[incident.number] = incident

    def _close(self, key: str, kind: str, end: float) -> None:
        incident = self._open.pop((key, kind))
        incident.end = end
        self._closed.append(incident)
        self._changed[incident.number] = incident

    def acknowledge(self, number: int) -> KeyIncident:
        """Acknowledge an incident; a shift is closed by that. Raise a `KeyError` for an unknown number."""
        found = next((each for each in self if each.number == number), None)
        if found is None:
            raise KeyError(f"there is no incident {number}")
        found.acknowledged = True
        if found.kind == "shift" and found.end is None:
            self._close(found.key, found.kind, found.start)
            found.muted = True  # who acknowledges it knows that it is closed
        return found

    def mute(self, key: str, until: float) -> None:
        """Alert nobody of incidents of a key until a time, in seconds since 1970; a past time ends that."""
        self._muted = {name: end for name, end in self._muted.items() if name != key} | {key: until}
        for kind in KINDS:
            if (key, kind) in self._open:
                self._open[key, kind].acknowledged = self._open[key, kind].muted = True

    def muted(self, now: float) -> dict[str, float]:
        """Return the keys that are muted, and until when, in seconds since 1970."""
        self._muted = {key: until for key, until in self._muted.items() if until > now}
        return dict(self._muted)

    def forget(self, keys: list[str]) -> None:
        """Close the incidents of keys that are dropped."""
        for key in keys:
            for kind in KINDS:
                if (key, kind) in self._open:
                    self._close(key, kind, self._open[key, kind].start)

    def set_targets(self, targets: list[str]) -> bool:
        """Set the targets of alerts; one that is new gets the open incidents, and no closed ones.

        Returns:
            Whether any is new.
        """
        fresh = [name for name in targets if name not in self._targets]
        for each in self._closed:
            each.alerts |= dict.fromkeys(fresh, each.changes)
        self._targets = targets
        self._changed = {each.number: each for each in self}
        for each in list(self._changed.values()):
            self._settle(each)
        return bool(fresh)

    def undelivered(self, target: str) -> list[KeyIncident]:
        """Return the incidents with a change that a target does not have, the oldest first."""
        waiting = (each for each in self._changed.values() if each.is_waiting(target))
        return sorted(waiting, key=lambda each: each.number)

    @property
    def num_undelivered(self) -> int:
        """Number of incidents with a change that a target does not have."""
        return sum(any(each.is_waiting(name) for name in self._targets) for each in self._changed.values())

    def delivered(self, number: int, target: str, changes: int) -> None:
        """Record that a target has the first changes of an incident."""
        if number in self._changed:
            self._changed[number].alerts[target] = changes
            self._settle(self._changed[number])

    def _settle(self, incident: KeyIncident) -> None:
        if not any(incident.is_waiting(name) for name in self._targets):
            self._changed.pop(incident.number, None)

    def pack(self) -> dict[str, np.ndarray]:
        """Serialise the incidents as an array."""
        facts = {"incidents": [dataclasses.asdict(each) for each in self], "muted": self._muted, "count": self._count}
        return {"incidents": np.frombuffer(json.dumps(facts | {"targets": self._targets}).encode(), np.uint8)}

    def unpack(self, arrays: dict[str, np.ndarray]) -> None:
        """Load the result of `pack`."""
        facts: dict[str, Any] = json.loads(arrays["incidents"].tobytes())
        self._muted, self._count, self._targets = facts["muted"], facts["count"], facts["targets"]
        for each in reversed([KeyIncident(**fields) for fields in facts["incidents"]]):
            if each.end is None:
                self._open[each.key, each.kind] = each
            else:
                self._closed.append(each)


def _confidence(kind: str, health: KeyHealth, index: int) -> float:
    """Compute 1 - the probability of the rows by which an incident was noticed, if they were chance."""
    recent = min(int(health.rows[index]), RECENT_ROWS)
    if kind == "outliers":
        flagged = int(np.bitwise_count(health.flags[index]))
        share = CHANCE_OUTLIER_SHARE
        fewer = (math.comb(recent, k) * share**k * (1 - share) ** (recent - k) for k in range(flagged))
        return min(math.fsum(fewer), 1.0)
    if kind == "stuck":
        chance = min(int(health.runs[index]) / max(int(health.rows[index] - health.repeats[index]), 1), 1.0)
        return max(1.0 - int(health.rows[index]) * chance ** int(health.run[index]), 0.0)
    if kind == "missing":
        return int(np.bitwise_count(health.blanks[index])) / recent
    if kind == "shift":
        return 1.0 - CHANCE_OUTLIER_SHARE**MIN_REJECTED_ROWS
    return 1.0 - math.exp(-SILENCE_FACTOR)  # of gaps between arrivals of a Poisson process


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
