"""Incidents: consecutive faulty rows as one problem with a start, an end, a severity, a confidence and a reason."""

import dataclasses
from collections import Counter

import numpy as np

from wolf.numerics.runs import runs_of

MERGE_ROWS = 3  # rows without a fault between two parts of one incident, at most
MIN_GAP_ROWS = 3  # missing rows, or steps without a row, of an incident
TAIL_EXPONENT = 3.0  # degrees of freedom of the tail of good readings
EVENT_KINDS = ("shift", "gap", "maintenance")  # that are no faults
SEPARATE_KINDS = ("stuck", "dropout", "labelled")  # that are no part of an incident of another kind
CERTAIN_KINDS = ("stuck", "dropout", "range", "rate", "labelled", *EVENT_KINDS[1:])


@dataclasses.dataclass(kw_only=True)
class Incident:
    """A problem of a series, or an event.

    Attributes:
        kind: of fault or event.
        start: time of its first row.
        end: time of its last row; None while it is open.
        severity: how large it is; larger is worse.
        confidence: 1 - the probability of such rows by chance.
        reason: one sentence.
    """

    kind: str
    start: float
    end: float | None = None
    severity: float
    confidence: float = 1.0
    reason: str


@dataclasses.dataclass(kw_only=True)
class SeriesIncident(Incident):
    """An incident of a cleaned series.

    Its severity is the largest distance of a reading from the estimate, in half widths of the prediction interval; of a
    shift, the change of the level, and of a gap and maintenance 0.

    Attributes:
        first: first row of the series.
        last: last row, inclusive.
        rows: number of faulty or missing rows.
    """

    first: int
    last: int
    rows: int


def find_incidents(
    values: np.ndarray,
    mean: np.ndarray,
    half: np.ndarray,
    outlier: np.ndarray,
    fault: np.ndarray,
    times: np.ndarray | None = None,
    unit: float = 1.0,
    level: float = 0.95,
) -> list[SeriesIncident]:
    """Join the faulty rows of one cleaned series to incidents, and add its gaps, shifts and known events.

    The confidence is the probability that no good reading of the series is as far out, exp(-n (1 - p) d^-3), if
    distances d, in half widths of a prediction interval of probability p, have the tail of Student's t with 3 degrees
    of freedom: sensor errors have such tails, and those of consecutive rows are not independent, so the largest
    distance counts. Kinds that are found by a rule have 1.

    Args:
        values: (T, M), NaN where missing.
        mean: estimates, (T, M).
        half: half width of the prediction interval, (T, M).
        outlier: faulty rows, (T,).
        fault: their kinds, (T,) of text.
        times: (T,), increasing; None for row numbers from 1.
        unit: typical step, in the unit of the times.
        level: probability p of the prediction interval.

    Example:
        >>> values, half = np.zeros((30, 1)), np.ones((30, 1))
        >>> values[[10, 11, 13]] = 9.0
        >>> outlier = values[:, 0] > 5.0
        >>> found = find_incidents(values, 0 * values, half, outlier, np.where(outlier, "spike", ""))
        >>> [(each.kind, each.start, each.end, each.rows) for each in found]
        [('burst', 11.0, 14.0, 3)]
    """
    series = _Rows(values, mean, half, fault, level)
    stamps = np.arange(1.0, len(values) + 1.0) if times is None else times
    faulty = outlier & ~np.isin(fault, EVENT_KINDS)
    apart = [fault == kind for kind in SEPARATE_KINDS]
    masks = [faulty & ~np.any(apart, axis=0), *(faulty & each for each in apart)]
    parts = [series.fault(first, stop, mask) for mask in masks for first, stop in _join(runs_of(mask))]
    parts += [series.shift(first, stop) for first, stop in runs_of(fault == "shift")]
    parts += [series.maintenance(first, stop) for first, stop in runs_of(fault == "maintenance")]
    parts += [
        _event("gap", first, stop, f"{stop - first:,} rows without a reading")
        for first, stop in runs_of(np.isnan(values).all(axis=1))
        if stop - first >= MIN_GAP_ROWS
    ]
    steps = np.zeros(0) if times is None else np.diff(times) / unit
    parts += [
        _event("gap", row, row + 2, f"no row for {steps[row]:.4g} typical steps", rows=0)
        for row in np.flatnonzero(steps > MIN_GAP_ROWS).tolist()
    ]
    for each in parts:
        each.start, each.end = float(stamps[each.first]), float(stamps[each.last])
    return sorted(parts, key=lambda each: (each.first, each.last))


def _join(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join runs with few rows between them."""
    joined: list[tuple[int, int]] = []
    for first, stop in runs:
        if joined and first - joined[-1][1] <= MERGE_ROWS:
            joined[-1] = joined[-1][0], stop
        else:
            joined.append((first, stop))
    return joined


def _event(kind: str, first: int, stop: int, reason: str, rows: int | None = None) -> SeriesIncident:
    """Make an incident of severity 0; its times follow."""
    count = stop - first if rows is None else rows
    return SeriesIncident(kind=kind, start=0.0, severity=0.0, reason=reason, first=first, last=stop - 1, rows=count)


@dataclasses.dataclass(frozen=True)
class _Rows:
    """Rows of one series; attributes as the arguments of `find_incidents`."""

    values: np.ndarray
    mean: np.ndarray
    half: np.ndarray
    kinds: np.ndarray
    level: float

    def fault(self, first: int, stop: int, faulty: np.ndarray) -> SeriesIncident:
        """Describe faulty rows; between them there may be good ones."""
        rows = first + np.flatnonzero(faulty[first:stop])
        kind = Counter(self.kinds[rows].tolist()).most_common(1)[0][0] or "outlier"
        kind = "burst" if kind == "spike" and np.any(np.diff(rows) == 1) and len(rows) > 2 else kind
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            distance = np.abs(self.values[rows] - self.mean[rows]) / self.half[rows]
        distance = np.where(np.isnan(distance), 0.0, distance).max(axis=1)
        far = min(float(distance.max()), 1e300)
        found = _event(kind, first, stop, self._reason(kind, rows, distance, stop - first), len(rows))
        if kind not in CERTAIN_KINDS:
            found.confidence = self._confidence(far)
        return dataclasses.replace(found, severity=far)

    def _confidence(self, distance: float) -> float:
        """Compute the probability that no good reading is as far out."""
        chance = (1.0 - self.level) * min(max(distance, 1.0), 1e9) ** -TAIL_EXPONENT
        return float(np.exp(-len(self.values) * chance))

    def _reason(self, kind: str, rows: np.ndarray, distance: np.ndarray, span: int) -> str:
        """Describe faulty rows in one sentence."""
        peak = int(rows[np.argmax(distance)])
        count = "1 reading" if len(rows) == 1 else f"{len(rows):,} readings"
        count += f" within {span:,} rows" if span > len(rows) else " in a row" if len(rows) > 1 else ""
        value = self.values[peak]
        if not np.isfinite(value).all():
            return f"{count}, not a finite number"
        if kind == "stuck":
            return f"{count} repeat the value {_numbers(value)}"
        if kind == "dropout":
            return f"{count} with the value {_numbers(value)}, which marks missing data"
        off, size = value - self.mean[peak], float(distance.max())
        side = "off" if len(off) > 1 else "above" if off[0] > 0 else "below"
        most = "" if len(rows) == 1 else "up to "
        where = f"{most}{_numbers(np.abs(off))} {side} the estimate of {_numbers(self.mean[peak])}"
        shown = f"{size:,.0f}" if size >= 100.0 else f"{size:.3g}"
        size_text = f"{shown} half widths of the {100 * self.level:.4g} % prediction interval"
        if kind in ("range", "rate", "labelled"):
            what = {"range": "outside of the permitted range", "rate": "faster than permitted", "labelled": "labelled"}
            return f"{count} {what[kind]}, {where}"
        returns = ", then the series returns" if kind in ("burst", "drift") else ""
        return f"{count}, {where} ({size_text}){returns}"

    def shift(self, first: int, stop: int) -> SeriesIncident:
        """Describe a permanent change of the level."""
        jump = self.mean[first] - self.mean[max(first - 1, 0)]
        with np.errstate(invalid="ignore", divide="ignore"):
            size = float(np.nan_to_num(np.abs(jump) / self.half[first]).max())
        found = _event("shift", first, first + 1, f"the level changes by {_signed(jump)} and stays", stop - first)
        return dataclasses.replace(found, severity=size, confidence=self._confidence(size))

    def maintenance(self, first: int, stop: int) -> SeriesIncident:
        """Describe a known event."""
        jump = self.mean[first] - self.mean[max(first - 1, 0)]
        set_aside = f"known event: {stop - first:,} rows are set aside"
        reason = f"known event: the estimate changes by {_signed(jump)}" if stop - first == 1 else set_aside
        return _event("maintenance", first, stop, reason)


def _numbers(numbers: np.ndarray) -> str:
    return ", ".join(f"{number:.5g}" for number in numbers)


def _signed(numbers: np.ndarray) -> str:
    return ", ".join(f"{number:+.4g}" for number in numbers)
