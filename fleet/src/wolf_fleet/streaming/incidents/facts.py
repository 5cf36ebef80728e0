"""Incidents and times as JSON-compatible values."""

import math
from datetime import UTC, datetime, timedelta

from wolf_fleet.streaming.incidents.incident_log import KeyIncident
from wolf_fleet.streaming.row_parser import JsonObject

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MIN_TIME = datetime(1, 1, 1, tzinfo=UTC).timestamp()
END_TIME = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def finite(value: float) -> float | None:
    """Return a number, or None if it is not finite, which JSON cannot represent."""
    return float(value) if math.isfinite(value) else None


def format_time(time: float, dated: bool) -> float | str | None:
    """Convert a time to the form in which times are sent: a number, or an ISO 8601 date.

    Args:
        time: a number; seconds since 1970 for a date.
        dated: whether it is a date.
    """
    if not dated or not math.isfinite(time):
        return finite(time)
    if not MIN_TIME <= time < END_TIME:
        return finite(time)  # a zone may move a date out of the years that a date can have
    stamp = EPOCH + timedelta(seconds=time)  # Windows converts no negative time
    return stamp.isoformat(timespec="milliseconds" if stamp.microsecond else "seconds").replace("+00:00", "Z")


def incident_facts(incident: KeyIncident, dated: bool) -> JsonObject:
    """Convert an incident to a dictionary: number, key, kind, state, start, end, severity and so on."""
    facts: JsonObject = {"incident": incident.number, "key": incident.key, "kind": incident.kind}
    facts["state"] = incident.state
    facts["start"] = format_time(incident.start, dated)
    facts["end"] = None if incident.end is None else format_time(incident.end, dated)
    facts |= {"severity": finite(incident.severity), "confidence": round(incident.confidence, 6)}
    facts["reason"] = incident.reason
    return facts | {"acknowledged": incident.acknowledged}
