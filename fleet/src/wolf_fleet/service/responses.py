"""Responses of a service as JSON-compatible values."""

import math
import time as clocks
from itertools import islice

import numpy as np

from wolf import validation
from wolf.beliefs.density import deviations
from wolf.execution.forecasting import forecast_state
from wolf.inference.filters.gaussian import GaussianFilter
from wolf.online import Online
from wolf.results import count
from wolf_fleet.service.service import Service
from wolf_fleet.streaming.incidents import facts as facts_of_incidents
from wolf_fleet.streaming.incidents.facts import finite
from wolf_fleet.streaming.incidents.incident_log import KeyIncident
from wolf_fleet.streaming.incidents.key_health import RECENT_ROWS
from wolf_fleet.streaming.incidents.row_view import RowView
from wolf_fleet.streaming.row_parser import JsonObject

MAX_FORECAST_STEPS = 1000
MAX_ROWS_PER_RESPONSE = 5000
DEFAULT_NUM_KEYS = 60  # keys on the page
DEFAULT_NUM_INCIDENTS = 100
OVERVIEW_KEYS, OVERVIEW_ROWS = 12, 120
ORDERS = ("score", "key", "latest", "oldest")  # of keys
MIN_HALF_WIDTH = 1e-300  # avoids a division by zero


def format_time(service: Service, time: float) -> float | str | None:
    """Convert a time to the form in which times are sent: a number, or an ISO 8601 date."""
    return facts_of_incidents.format_time(time, service.has_dates)


def short(value: float) -> str:
    """Format a number with four significant digits."""
    return f"{value:.4g}"


def reason(service: Service, rows: RowView, i: int) -> str:
    """Describe why a row was flagged: its distance from the estimate; empty if it was not."""
    flagged = np.flatnonzero(rows.outliers[i])
    value, mean, half = (each[i, flagged] for each in (rows.values, rows.means, rows.half_widths))
    if not len(flagged):
        return ""
    if not np.isfinite(value).any():
        return "not a finite number"
    distance = np.abs(value - mean) / np.maximum(half, MIN_HALF_WIDTH)
    worst = int(np.nanargmax(np.where(np.isfinite(value), distance, np.nan)))
    off, middle, side = (float(each[worst]) for each in (value - mean, mean, half))
    name = f"{service.columns.values[flagged[worst]]}: " if len(service.columns.values) > 1 else ""
    estimate = f"the estimate {short(middle)} ({short(middle - side)} to {short(middle + side)})"
    return f"{name}{short(abs(off))} {'above' if off > 0 else 'below'} {estimate}"


def row_facts(service: Service, key: str, rows: RowView, i: int) -> JsonObject:
    """Convert one row to a dictionary: key, time, values, mean and interval, weight, outlier and reason."""
    columns = service.columns
    facts: JsonObject = {columns.key: key, columns.time or "arrived": format_time(service, float(rows.times[i]))}
    facts |= {name: finite(rows.values[i, j]) for j, name in enumerate(columns.values)}
    flagged = bool(rows.outliers[i].any())
    for name, each in (
        ("mean", rows.means[i]),
        ("lower", rows.means[i] - rows.half_widths[i]),
        ("upper", rows.means[i] + rows.half_widths[i]),
    ):
        facts[f"wolf_{name}" if name in facts else name] = _scalar_or_list(each)
    facts |= {"weight": finite(rows.weights[i]), "outlier": flagged}
    return facts | ({"reason": reason(service, rows, i)} if flagged else {})


def _scalar_or_list(values: np.ndarray) -> float | list[float | None] | None:
    """Return a number for one value, a list for several."""
    listed = [finite(value) for value in values]
    return listed[0] if len(listed) == 1 else listed


def measurements(service: Service, answer: JsonObject, results: bool) -> JsonObject:
    """Format the response to posted measurements.

    Args:
        service: that processed them.
        answer: from `post_many`.
        results: include all rows, not only the flagged ones.
    """
    facts = {name: value for name, value in answer.items() if name != "filtered"}
    if "filtered" not in answer:
        return facts
    keys, rows = answer["filtered"]
    flagged = np.flatnonzero(rows.outliers.any(axis=1))[:MAX_ROWS_PER_RESPONSE].tolist()
    facts["flagged"] = [row_facts(service, keys[i], rows, i) for i in flagged]
    if results:
        facts["results"] = [row_facts(service, keys[i], rows, i) for i in range(len(keys))]
    return facts


def check_key(service: Service, key: str) -> None:
    """Raise a `KeyError` for a key of which no row was filtered."""
    if key not in service.pipeline.bank:
        waits = key in service.pipeline.waiting_keys
        raise KeyError(
            f"the rows of {key!r} wait for earlier ones or for a model" if waits else f"there is no key {key!r}"
        )


def state(service: Service, key: str) -> JsonObject:
    """Return the filter state of a key, its last row and its health.

    Args:
        service: that has it.
        key: a `KeyError` is raised if it is unknown.
    """
    with service.lock:
        check_key(service, key)
        entry = service.pipeline.bank[key]
        rows, _ = service.recent_rows.of(key, 1)
        health = keys(service, [key])[0]
    facts = {"key": key, "measurements": entry.t, "time": format_time(service, entry.time * service.pipeline.step)}
    facts |= {"state": entry.mean.tolist(), "cov": entry.cov.tolist()}
    last = row_facts(service, key, rows, 0) if len(rows.times) else None
    return facts | {"last": last} | {name: health[name] for name in ("problem", "reasons")}


def detectable(service: Service, key: str) -> JsonObject:
    """Return the smallest fault of the next measurement of a key that would be flagged with probability 95 %.

    Args:
        service: that has it.
        key: a `KeyError` is raised if it is unknown.
    """
    bank = service.pipeline.bank
    with service.lock:
        check_key(service, key)
        entry = bank[key]
    online = Online(bank.model_of(key), entry.method, state=entry.state, dtype=bank.dtype)
    return {"key": key, "detectable": _scalar_or_list(online.detectable)}


def forecast(service: Service, key: str, steps: int, level: float) -> JsonObject:
    """Forecast the measurements after the last row of a key.

    Args:
        service: that has it.
        key: a `KeyError` is raised if it is unknown.
        steps: number of model steps.
        level: probability of the intervals.
    """
    validation.count("steps", steps)
    if steps > MAX_FORECAST_STEPS:
        raise ValueError(f"steps must be at most {MAX_FORECAST_STEPS:,}; got {steps:,}")
    bank, num_deviations = service.pipeline.bank, deviations(validation.confidence_level(level))
    check_key(service, key)
    entry, method = bank[key], bank[key].method
    if not isinstance(method, GaussianFilter):
        raise ValueError(f"forecasts by {type(method).__name__} are not supported here; use wolf.forecast")
    _, measured = forecast_state(bank.model_of(key), method, entry.state, steps, dtype=bank.dtype)
    mean, half = measured.mean, num_deviations * np.sqrt(np.diagonal(measured.cov, axis1=1, axis2=2))
    times = (entry.time + 1 + np.arange(steps)) * service.pipeline.step
    facts: JsonObject = {"key": key, "level": level, "step": service.pipeline.step}
    if math.isfinite(entry.time):
        facts["times"] = [format_time(service, time) for time in times.tolist()]
    for name, each in (("mean", mean), ("lower", mean - half), ("upper", mean + half)):
        facts[name] = [_scalar_or_list(row) for row in each]
    return facts


def history(service: Service, key: str, rows: int, after: int = -1) -> JsonObject:
    """Return the last rows of a key, column by column.

    Args:
        service: that has it.
        key: of the rows.
        rows: largest number of rows.
        after: only rows after the one with this number.
    """
    validation.count("rows", rows)
    with service.lock:
        found, last = service.recent_rows.of(key, min(rows, MAX_ROWS_PER_RESPONSE), after)
    flagged = np.flatnonzero(found.outliers.any(axis=1)).tolist()
    lists = {"values": found.values, "means": found.means, "half_widths": found.half_widths}
    return {
        "key": key,
        "last": last,
        "times": [finite(time) for time in found.times],
        **{name: [[finite(x) for x in column] for column in each.T] for name, each in lists.items()},
        "weights": [finite(weight) for weight in found.weights],
        "reasons": {i: reason(service, found, i) for i in flagged},
    }


def keys(service: Service, names: list[str] | None = None, limit: int = DEFAULT_NUM_KEYS) -> list[JsonObject]:
    """Return the health of keys.

    Args:
        service: that has them.
        names: keys to return; default: those with a positive score, the worst first.
        limit: largest number of keys.
    """
    now = service.steady_time()
    with service.lock:
        health = service.health
        score, problems = health.assess(now, service.since)
        if names is None:
            worst = np.lexsort((-health.last, -score))[:limit]
            indices = [index for index in worst.tolist() if score[index] > 0]
        else:
            indices = [index for index in map(health.index, names) if index >= 0]
        found = [(index, health.keys[index], _reasons(service, index, problems, now)) for index in indices]
        return [
            {"key": key, "score": float(score[index]), "problem": bool(problems["any"][index]), "reasons": reasons}
            for index, key, reasons in found
        ]


def search_keys(service: Service, text: str, sort: str, limit: int) -> list[JsonObject]:
    """Return the health of the keys that contain a text.

    Args:
        service: that has them.
        text: part of their names, whatever the case; "" for all keys.
        sort: "score" for the worst first, "key" for the names, "latest" or "oldest" for the arrival of the last row.
        limit: largest number of keys.
    """
    validation.count("limit", limit)
    validation.choice("sort", sort, ORDERS)
    with service.lock:
        health = service.health
        wanted = text.casefold()
        index = np.array([i for i, key in enumerate(health.keys) if wanted in key.casefold()], np.int64)
        if sort == "key":
            found = sorted(health.keys[i] for i in index.tolist())[:limit]
            return keys(service, found)
        if sort == "score":
            score, _ = health.assess(service.steady_time(), service.since, index)
            order = np.argsort(-score, kind="stable")
        else:
            order = np.argsort(health.last[index] * (1 if sort == "oldest" else -1), kind="stable")
        return keys(service, [health.keys[i] for i in index[order[:limit]].tolist()])


def overview(service: Service, column: int) -> list[JsonObject]:
    """Return the last rows of the worst keys: those with problems, then those with open incidents, then others.

    Args:
        service: that has them.
        column: number of the value.
    """
    names = service.columns.values
    if not 0 <= column < len(names):
        raise ValueError(f"column must be from 0 to {len(names) - 1}; got {column}")
    with service.lock:
        made, listed = [], search_keys(service, "", "score", OVERVIEW_KEYS)
        reasons = {each.key: each.reason for each in service.incidents.open if not each.acknowledged}
        scored = [each["key"] for each in listed if each["score"] > 0]
        chosen = list(dict.fromkeys([*scored, *reasons, *(each["key"] for each in listed)]))[:OVERVIEW_KEYS]
        for each in keys(service, chosen):
            each["reasons"] += [reasons[each["key"]]] if each["key"] in reasons and not each["reasons"] else []
            rows = history(service, each["key"], OVERVIEW_ROWS)
            series = {name: rows[name][column] for name in ("values", "means", "half_widths")}
            facts = {"key": each["key"], "problem": each["problem"], "reasons_of_key": each["reasons"]}
            made.append(facts | series | {"times": rows["times"], "reasons": rows["reasons"]})
        return made


def incident_facts(service: Service, incident: KeyIncident) -> JsonObject:
    """Convert an incident to a dictionary: number, key, kind, state, start, end, severity and so on."""
    return facts_of_incidents.incident_facts(incident, service.has_dates)


def incidents(service: Service, only_open: bool, limit: int = DEFAULT_NUM_INCIDENTS) -> list[JsonObject]:
    """List incidents: open ones first, the newest first.

    Args:
        service: that has them.
        only_open: leave out closed ones.
        limit: largest number.
    """
    validation.count("limit", limit)
    with service.lock:
        found = service.incidents.open if only_open else service.incidents
        return [incident_facts(service, each) for each in islice(found, limit)]


def _reasons(service: Service, index: int, problems: dict[str, np.ndarray], now: float) -> list[str]:
    health, reasons = service.health, []
    recent, flagged = min(int(health.rows[index]), RECENT_ROWS), int(health.flagged()[index])
    if flagged:
        reasons.append(f"{count(flagged, 'outlier')} in the last {count(recent, 'row')}")
    if problems["stuck"][index]:
        reasons.append(f"the same value {int(health.run[index]) + 1:,} times in a row")
    if problems["silent"][index]:
        usual = f"usual interval {duration(float(health.usual_interval()[index]))}"
        reasons.append(f"no row for {duration(now - max(float(health.last[index]), service.since))}, {usual}")
    if problems["blank"][index]:
        blanks = int(np.bitwise_count(health.blanks[index]))
        reasons.append(f"{count(blanks, 'missing value')} in the last {count(recent, 'row')}")
    return reasons


def duration(seconds: float) -> str:
    """Format a duration in a suitable unit.

    Example:
        >>> duration(0.25), duration(90), duration(7200)
        ('0.25 s', '1.5 min', '2 h')
    """
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def fleet(service: Service) -> JsonObject:
    """Return the status of all keys: counts, the worst keys and the latest outliers."""
    now = clocks.time()
    with service.lock:
        counts = service.counts
        _, problems = service.health.assess(service.steady_time(), service.since)
        totals = {name: int(problems[name].sum()) for name in ("any", "stuck", "silent", "blank")}
        latest = [(flag.number, row_facts(service, flag.key, flag.row, 0)) for flag in service.latest]
        worst, open_incidents = keys(service), incidents(service, only_open=True)
        message = service.broken or service.warning
    names = ("rows", "used", "outliers", "late", "repeated", "ahead", "waiting", "keys", "epoch")
    return {
        "now": now,
        "dated": service.is_dated,
        "counts": {name: vars(counts)[name] for name in names},
        "problem_keys": totals,
        "committed": service.committed_at,
        "journal": service.journal_size,
        "message": message,
        "worst": worst,
        "incidents": open_incidents,
        "latest": [{"number": number} | facts for number, facts in reversed(latest)],
    }
