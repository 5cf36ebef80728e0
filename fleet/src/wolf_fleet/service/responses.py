"""What a service says about its keys, as values that JSON has words for."""

import math
import time as clocks
from datetime import UTC, datetime
from typing import Any

import numpy as np

from wolf import validation
from wolf.beliefs.density import deviations
from wolf.engine.forecast import run_forecast
from wolf.execution.xla_batching import pad_steps
from wolf.inference.filters.gaussian import GaussianFilter
from wolf.numerics.precision import precision
from wolf.numerics.pytree import cast
from wolf.results import count
from wolf_fleet.service.key_health import RECENT
from wolf_fleet.service.recent_rows import Shown
from wolf_fleet.service.service import Service

MOST_STEPS = 1000  # of a forecast
MOST_ROWS = 5000  # of an answer
WORST = 60  # keys on the page


def number(value: float) -> float | None:
    """Give a number, or nothing where JSON has no word for it."""
    return float(value) if math.isfinite(value) else None


def when(service: Service, time: float) -> float | str | None:
    """Give a time as it was told: a number, or a date."""
    dated = service.flow.dated or service.columns.time is None
    if not dated or not math.isfinite(time):
        return number(time)
    stamp = datetime.fromtimestamp(time, UTC)
    return stamp.isoformat(timespec="milliseconds" if stamp.microsecond else "seconds").replace("+00:00", "Z")


def short(value: float) -> str:
    """Write a number with four figures."""
    return f"{value:.4g}"


def why(service: Service, rows: Shown, i: int) -> str:
    """Say why a row was flagged."""
    flagged = np.flatnonzero(rows.outliers[i])
    value, mean, half = (each[i, flagged] for each in (rows.values, rows.means, rows.halves))
    if not len(flagged):
        return ""
    if not np.isfinite(value).any():
        return "not a finite number"
    worst = int(np.nanargmax(np.where(np.isfinite(value), np.abs(value - mean) / np.maximum(half, 1e-300), np.nan)))
    off, middle, side = (float(each[worst]) for each in (value - mean, mean, half))
    name = f"{service.columns.values[flagged[worst]]}: " if len(service.columns.values) > 1 else ""
    estimate = f"the estimate {short(middle)} ({short(middle - side)} to {short(middle + side)})"
    return f"{name}{short(abs(off))} {'above' if off > 0 else 'below'} {estimate}"


def row_facts(service: Service, key: str, rows: Shown, i: int) -> dict[str, Any]:
    """Tell one row."""
    columns = service.columns
    told: dict[str, Any] = {columns.key: key, columns.time or "arrived": when(service, float(rows.times[i]))}
    told |= {name: number(rows.values[i, j]) for j, name in enumerate(columns.values)}
    flagged = bool(rows.outliers[i].any())
    for name, each in (
        ("mean", rows.means[i]),
        ("lower", rows.means[i] - rows.halves[i]),
        ("upper", rows.means[i] + rows.halves[i]),
    ):
        told[f"wolf_{name}" if name in told else name] = _one(each)
    return (
        told
        | {"weight": number(rows.weights[i]), "outlier": flagged}
        | ({"reason": why(service, rows, i)} if flagged else {})
    )


def _one(values: np.ndarray) -> Any:
    """Give a number, or a list where there are several."""
    listed = [number(value) for value in values]
    return listed[0] if len(listed) == 1 else listed


def posted(service: Service, answer: dict[str, Any], results: bool) -> dict[str, Any]:
    """Tell what a request came to.

    Args:
        service: that took it.
        answer: from `post_many`.
        results: whether all rows are told, or only those that were flagged.
    """
    told = {name: value for name, value in answer.items() if name != "passed"}
    if "passed" not in answer:
        return told
    keys, rows = answer["passed"]
    flagged = np.flatnonzero(rows.outliers.any(axis=1))[:MOST_ROWS].tolist()
    told["flagged"] = [row_facts(service, keys[i], rows, i) for i in flagged]
    if results:
        told["results"] = [row_facts(service, keys[i], rows, i) for i in range(len(keys))]
    return told


def state(service: Service, key: str) -> dict[str, Any]:
    """Tell where the filter of a key stands.

    Args:
        service: that has it.
        key: that was seen; a `KeyError` otherwise.
    """
    with service.lock:
        held = service.flow.bank[key]
        rows, _ = service.history.of(key, 1)
        doing = keys(service, [key])[0]
    told = {"key": key, "measurements": held.t, "time": when(service, held.time * service.flow.step)}
    told |= {"state": held.mean.tolist(), "cov": held.cov.tolist()}
    last = row_facts(service, key, rows, 0) if len(rows.times) else None
    return told | {"last": last} | {name: doing[name] for name in ("trouble", "reasons")}


def forecast(service: Service, key: str, steps: int, level: float) -> dict[str, Any]:
    """Look ahead from the last row of a key.

    Args:
        service: that has it.
        key: that was seen; a `KeyError` otherwise.
        steps: how many of the model's steps.
        level: probability of the intervals.
    """
    validation.count("steps", steps)
    if steps > MOST_STEPS:
        raise ValueError(f"steps must be at most {MOST_STEPS:,}; got {steps:,}")
    bank, reach = service.flow.bank, deviations(validation.level(level))
    held = bank[key]
    if not isinstance(bank.method, GaussianFilter):
        raise ValueError(f"{type(bank.method).__name__} cannot be forecast here; use wolf.forecast")
    with precision(bank.dtype):
        padded = pad_steps(steps)  # one program serves several lengths
        _, measured = run_forecast(
            cast(bank.model, bank.dtype), cast(bank.method, bank.dtype), held.state, steps=padded
        )
        mean, cov = np.asarray(measured.mean)[:steps], np.asarray(measured.cov)[:steps]
    half = reach * np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
    times = (held.time + 1 + np.arange(steps)) * service.flow.step
    told: dict[str, Any] = {"key": key, "level": level, "step": service.flow.step}
    if math.isfinite(held.time):
        told["times"] = [when(service, time) for time in times.tolist()]
    for name, each in (("mean", mean), ("lower", mean - half), ("upper", mean + half)):
        told[name] = [_one(row) for row in each]
    return told


def history(service: Service, key: str, rows: int, after: int = -1) -> dict[str, Any]:
    """Tell the last rows of a key, by columns.

    Args:
        service: that has it.
        key: that was seen.
        rows: how many at most.
        after: number of the row after which they are wanted.
    """
    validation.count("rows", rows)
    with service.lock:
        found, last = service.history.of(key, min(rows, MOST_ROWS), after)
    flagged = np.flatnonzero(found.outliers.any(axis=1)).tolist()
    lists = {"values": found.values, "means": found.means, "halves": found.halves}
    return {
        "key": key,
        "last": last,
        "times": [number(time) for time in found.times],
        **{name: [[number(x) for x in column] for column in each.T] for name, each in lists.items()},
        "weights": [number(weight) for weight in found.weights],
        "reasons": {i: why(service, found, i) for i in flagged},
    }


def keys(service: Service, named: list[str] | None = None, most: int = WORST) -> list[dict[str, Any]]:
    """Tell how keys are doing.

    Args:
        service: that has them.
        named: which; default: those that have to be looked at, the worst first.
        most: how many at most.
    """
    now = clocks.time()
    with service.lock:
        watch = service.watch
        score, which = watch.judge(now, service.since)
        if named is None:
            worst = np.lexsort((-watch.last, -score))[:most]
            places = [place for place in worst.tolist() if score[place] > 0]
        else:
            places = [place for place in map(watch.place, named) if place >= 0]
        found = [(place, watch.keys[place], _reasons(service, place, which, now)) for place in places]
        return [
            {"key": key, "score": float(score[place]), "trouble": bool(which["trouble"][place]), "reasons": reasons}
            for place, key, reasons in found
        ]


def _reasons(service: Service, place: int, which: dict[str, np.ndarray], now: float) -> list[str]:
    watch, told = service.watch, []
    recent, flagged = min(int(watch.rows[place]), RECENT), int(watch.flagged()[place])
    if flagged:
        told.append(f"{flagged} of the last {count(recent, 'row')} {'does' if flagged == 1 else 'do'} not fit")
    if which["stuck"][place]:
        told.append(f"the same value {int(watch.run[place]) + 1:,} times in a row")
    if which["silent"][place]:
        gap = f"usually one every {duration(float(watch.usual_gap()[place]))}"
        told.append(f"silent for {duration(now - max(float(watch.last[place]), service.since))}, {gap}")
    if which["blank"][place]:
        told.append(f"no value in {int(np.bitwise_count(watch.blanks[place]))} of the last {count(recent, 'row')}")
    return told


def duration(seconds: float) -> str:
    """Write a time in the unit that suits it.

    Example:
        >>> duration(0.25), duration(90), duration(7200)
        ('0.25 s', '1.5 min', '2 h')
    """
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def fleet(service: Service) -> dict[str, Any]:
    """Tell how all are doing: counts, the worst keys, the latest flags."""
    now = clocks.time()
    with service.lock:
        counts = service.counts
        _, which = service.watch.judge(now, service.since)
        totals = {name: int(which[name].sum()) for name in ("trouble", "stuck", "silent", "blank")}
        latest = [(flag.number, row_facts(service, flag.key, flag.row, 0)) for flag in service.latest]
        worst = keys(service)
        problem = service.broken or service.warning
    names = ("rows", "used", "outliers", "late", "repeated", "waiting", "keys", "epoch")
    return {
        "now": now,
        "counts": {name: getattr(counts, name) for name in names},
        "in_trouble": totals,
        "committed": service.committed_at,
        "journal": service.journal_size,
        "problem": problem,
        "worst": worst,
        "latest": [{"number": number} | facts for number, facts in reversed(latest)],
    }
