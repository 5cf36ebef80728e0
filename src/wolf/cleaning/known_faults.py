"""What is known of a series before the search: violations of rules, labels set by hand, maintenance."""

from typing import NamedTuple

import numpy as np

from wolf.cleaning import maintenance, rules, time_intervals
from wolf.cleaning.options import Options
from wolf.cleaning.prepared_series import max_fault_rows
from wolf.cleaning.quality_flags import FAULT_NAMES
from wolf.cleaning.sampling import gaps_of
from wolf.cleaning.time_intervals import TimeInterval

LABELS = ("fault", "good")


class KnownFaults(NamedTuple):
    """Readings that are judged before the search.

    Attributes:
        fault: index into `FAULT_NAMES`; 0 where nothing is known, (T, M).
        good: readings that were labelled as good, (T, M).
        suspect: readings after a jump that is faster than permitted, (T, M).
        steps: sum of the steps at calibrations up to each row, (T, M).
        events: rows after a calibration, (T,).
    """

    fault: np.ndarray
    good: np.ndarray
    suspect: np.ndarray
    steps: np.ndarray
    events: np.ndarray

    def usable(self, values: np.ndarray) -> np.ndarray:
        """Return the readings for the search, (T, M): NaN where known to be faults, without steps at calibrations."""
        aside = self.fault > 0
        return np.where(aside.any(axis=1, keepdims=True) if _joint(values) else aside, np.nan, values - self.steps)

    def apply(self, arrays: dict[str, np.ndarray], first: int) -> None:
        """Write what is known into the results of consecutive rows, in place.

        Args:
            arrays: results: weight, outlier and fault as text.
            first: row of the first of them.
        """
        rows = slice(first, first + len(arrays["fault"]))
        fault, good = self.fault[rows], self.good[rows]
        if arrays["outlier"].ndim == 1:
            arrays["outlier"] = (arrays["outlier"] & ~good.all(axis=1)) | fault.any(axis=1)
            arrays["weight"] = np.where(fault.any(axis=1), 0.0, arrays["weight"])
        else:
            arrays["outlier"] = (arrays["outlier"] & ~good) | (fault > 0)
            arrays["weight"] = np.where(fault > 0, 0.0, arrays["weight"])
        code, names = fault.max(axis=1), arrays["fault"]
        names[good.all(axis=1)] = ""
        near = self.events[rows]
        names[near & np.isin(names, ("", "shift"))] = "maintenance"
        names[code > 0] = np.array(FAULT_NAMES)[code[code > 0]]


def _joint(values: np.ndarray) -> bool:
    return values.shape[1] > 1


class Knowledge(NamedTuple):
    """Rules, labels and events of all series.

    Attributes:
        limits: rules by column.
        labels: intervals that were labelled by hand.
        events: maintenance intervals and calibrations.
    """

    limits: dict[str, rules.Rule]
    labels: list[TimeInterval]
    events: list[TimeInterval]

    @classmethod
    def load(cls, options: Options, names: list[str]) -> "Knowledge":
        """Read the rules and tables that the options name, and check them.

        Args:
            options: how to clean.
            names: of the value columns.
        """
        clock = (options.dated, options.origin, options.zone)
        limits = rules.parse(options.rules)
        rules.check_columns(limits, names)
        labels = time_intervals.read("labels", options.labels, *clock)
        events = time_intervals.read("maintenance", options.maintenance, *clock)
        for each in labels:
            if each.label not in LABELS:
                raise ValueError(f"labels: the column label must hold {' or '.join(LABELS)}; got {each.label!r}")
        for name, intervals in (("labels", labels), ("maintenance", events)):
            unknown = sorted({each.column for each in intervals} - {"", *names})
            if unknown:
                raise ValueError(
                    f"{name} names the column {unknown[0]!r}; value columns: {', '.join(map(repr, names))}"
                )
        return cls(limits, labels, events)

    def __bool__(self) -> bool:
        """Whether anything is known."""
        return any(map(bool, self))


def find(
    knowledge: Knowledge,
    values: np.ndarray,
    times: np.ndarray | None,
    rows: np.ndarray | None,
    options: Options,
    names: list[str],
    label: str,
) -> tuple[np.ndarray, KnownFaults] | None:
    """Find what is known of one series; None if nothing.

    Args:
        knowledge: of all series.
        values: (T, M), NaN where missing.
        times: (T,), increasing, or None for even steps.
        rows: row numbers in the input, (T,); None for all in their order.
        options: how to clean.
        names: of the M columns.
        label: of the series.

    Returns:
        The readings, corrected if requested, and what is known of them.
    """
    if not knowledge:
        return None
    unit, gaps = gaps_of(times)
    place = np.arange(len(values), dtype=float) if gaps is None else np.cumsum(gaps)
    numbers = np.arange(len(values)) if rows is None else rows
    stamps = numbers + 1.0 if times is None else times
    blank = np.zeros(values.shape, bool)
    found = KnownFaults(
        np.zeros(values.shape, np.int8), blank, blank.copy(), np.zeros(values.shape), np.zeros(len(values), bool)
    )
    values = values.copy()
    for j, name in enumerate(names):
        _set_events(found, values, j, stamps, [each for each in knowledge.events if each.applies(name, label)], options)
        rule = rules.rule_of(knowledge.limits, name)
        if rule is not None:
            left = np.where(found.fault[:, j] > 0, np.nan, values[:, j] - found.steps[:, j])
            broken = rules.violations(
                *(rule, left, place, unit, options.dated, max_fault_rows(options, unit, len(values))),
                causal=options.causal,
            )
            for kind, where in (("stuck", broken.flat), ("rate", broken.rate), ("range", broken.range)):
                found.fault[where, j] = FAULT_NAMES.index(kind)
            found.suspect[:, j] = broken.jump
        for each in knowledge.labels:
            if each.applies(name, label):
                inside = (stamps >= each.start) & (stamps <= each.end)
                found.fault[inside, j] = 0 if each.label == "good" else FAULT_NAMES.index("labelled")
                found.good[inside, j] = each.label == "good"
    found.fault[np.isnan(values)] = 0
    if not np.isfinite(found.usable(values)).any():
        raise ValueError("the rules, labels and maintenance leave no reading of this series")
    return values, found


def _set_events(
    found: KnownFaults,
    values: np.ndarray,
    column: int,
    stamps: np.ndarray,
    events: list[TimeInterval],
    options: Options,
) -> None:
    """Set the readings in maintenance intervals aside, and the steps at calibrations; changes `values` if corrected."""
    for each in events:
        inside = (stamps >= each.start) & (stamps <= each.end)
        if each.end > each.start:
            found.fault[inside, column] = FAULT_NAMES.index("maintenance")
    points = [each for each in maintenance.calibrations(events) if stamps[0] < each.start <= stamps[-1]]
    rows = [int(np.searchsorted(stamps, each.start)) for each in points]
    if not rows:
        return
    left = np.where(found.fault[:, column] > 0, np.nan, values[:, column])
    if options.correction is not None:
        earlier = [each.start for each in maintenance.calibrations(events) if each.start <= stamps[0]]
        before = max(earlier, default=-np.inf)
        values[:, column] -= maintenance.correction(left, stamps, points, rows, options.correction, before)
        left = np.where(found.fault[:, column] > 0, np.nan, values[:, column])
    if not options.causal:
        found.steps[:, column] = maintenance.steps(left, rows)
    found.events[rows] = True
