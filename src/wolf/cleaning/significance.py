"""Which candidates of a fault search are faults: those larger than what the series does by itself.

The level comes from the tail of the fault statistic of the series without its candidates
(`diagnostics.faults.false_alarms`). Each candidate is compared with it while all others are left out. Candidates below
the level are reinstated, and listed as borderline.
"""

from typing import TYPE_CHECKING

import numpy as np

from wolf.diagnostics.faults import false_alarms, witnesses
from wolf.diagnostics.faults.boundaries import MOSTLY
from wolf.diagnostics.faults.false_alarms import DetectionLevel
from wolf.diagnostics.faults.sentinel_values import without_codes
from wolf.diagnostics.faults.step_scan import ECHO_ROWS
from wolf.numerics.runs import counts_in, run_ends

if TYPE_CHECKING:
    from wolf.cleaning.fault_search import FaultSearch

NUM_GROUPS = 8  # passes over a series, each with candidates that are far from each other


def reinstate_ordinary_runs(
    search: "FaultSearch", expected: float, others: np.ndarray | None = None
) -> tuple[DetectionLevel, np.ndarray]:
    """Reinstate the candidates of a search that the series would exceed by itself.

    Args:
        search: finished search; its mask is changed.
        expected: false incidents per 10,000 readings; 0 to keep all candidates.
        others: other columns of the table at the same rows, (T, K), which tell weather from a faulty sensor.

    Returns:
        The level, and the rows of the reinstated candidates, (T,).
    """
    candidates = search.mask & ~search.stuck & search.known
    borderline = np.zeros(len(candidates), bool)
    found = search.mask.copy()
    detection = false_alarms.calibrate(_statistics(search, found), search.known & ~found, expected)
    firsts, stops = run_ends(candidates)
    if detection.level <= 1.0 or not len(firsts):
        return detection, borderline
    groups = false_alarms.separate_groups(firsts, stops, ECHO_ROWS, NUM_GROUPS)
    deviations = search.values - search.offset - search.run_pass().mean
    active = np.zeros(len(candidates))
    for column in [] if others is None else others.T:
        np.maximum(active, witnesses.activity(without_codes(column)), out=active)
    drifts = counts_in(search.drifts, firsts, stops) > MOSTLY * (stops - firsts)
    for group in range(int(groups.max()) + 1):
        members = np.flatnonzero(groups == group)
        used = found.copy()
        for i in members.tolist():
            used[firsts[i] : stops[i]] = False
        statistics = _statistics(search, used)
        for i in members.tolist():
            rows = slice(firsts[i], stops[i])
            size = false_alarms.strongest_within(statistics, search.shape, int(firsts[i]), int(stops[i]))
            size *= witnesses.weather_factor(active, int(firsts[i]), int(stops[i]))
            abrupt = drifts[i] or false_alarms.is_abrupt(deviations[rows])
            borderline[rows] = size < detection.level or not abrupt
    borderline &= candidates
    search.mask = found & ~borderline
    return detection, borderline


def _statistics(search: "FaultSearch", mask: np.ndarray) -> np.ndarray:
    """Compute the relative statistics of a series while some rows are left out, (n, T)."""
    before, search.mask = search.mask, mask
    errors = search.run_pass(smooth=False).errors
    search.mask = before
    errors /= search.scale
    return false_alarms.relative_statistics(errors, search.shape, search.limits)
