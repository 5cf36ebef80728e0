"""Scores of alarms on the Numenta Anomaly Benchmark, by its published rule (Lavin & Ahmad 2015, arXiv 1510.03336).

The first alarm in a labelled window scores up to 1, the earlier the more; a missed window costs 1; an alarm outside of
all windows costs up to 0.11, the less the closer it follows a window. Rows of the probationary period (15 % of a file,
at most 750) count for nothing. Totals are scaled so that 0 is a detector without alarms, and 100 a perfect one.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from labelled_data import nab

PROBATION_SHARE, MAX_PROBATION_ROWS = 0.15, 750
FALSE_ALARM_WEIGHTS = {"standard": 0.11, "reward few false alarms": 0.22, "reward few misses": 0.11}
MISS_WEIGHTS = {"standard": 1.0, "reward few false alarms": 1.0, "reward few misses": 2.0}
FAR = 3.0  # window lengths after a window, from which an alarm costs its full weight
QUIET_SHARE = 0.02  # of a file without a further alarm after one: incidents, not rows


def sigmoid(position: float) -> float:
    """Compute the value of an alarm at a position relative to its window: -1 is its first row, 0 its last."""
    return -1.0 if position > FAR else 2.0 / (1.0 + float(np.exp(5.0 * position))) - 1.0


def file_score(alarms: np.ndarray, windows: list[tuple[int, int]], profile: str) -> float:
    """Compute the score of the alarms of one file.

    Args:
        alarms: whether each row raises an alarm, (T,).
        windows: first and last row of each labelled window.
        profile: name of the weights.
    """
    probation = min(int(PROBATION_SHARE * len(alarms)), MAX_PROBATION_ROWS)
    rows = np.flatnonzero(alarms)
    rows = rows[rows >= probation]
    total = 0.0
    for first, last in windows:
        inside = rows[(rows >= first) & (rows <= last)]
        if len(inside):
            total += sigmoid(-(last - inside[0] + 1) / (last - first + 1)) / sigmoid(-1.0)
        else:
            total -= MISS_WEIGHTS[profile]
    for row in rows.tolist():
        if any(first <= row <= last for first, last in windows):
            continue
        before = [window for window in windows if window[1] < row]
        value = -1.0
        if before:
            first, last = before[-1]
            value = sigmoid((row - last) / max(last - first, 1))
        total += FALSE_ALARM_WEIGHTS[profile] * value
    return total


def first_of_incidents(flags: np.ndarray) -> np.ndarray:
    """Keep the first flag of each incident: flags that follow one within the quiet time belong to it."""
    quiet, last = QUIET_SHARE * len(flags), -np.inf
    alarms = np.zeros(len(flags), bool)
    for row in np.flatnonzero(flags).tolist():
        if row - last > quiet:
            alarms[row] = True
            last = row
    return alarms


def flags_by_file(values: pd.Series) -> dict[str, np.ndarray]:
    """Compute alarms of one file by several rules, each from the past of a row alone."""
    import wolf

    out = wolf.filter_frame(values.to_frame(), values="value", causal=True)
    flags = out["outlier"].to_numpy(bool)
    trailing = values.rolling(288, min_periods=20)
    far = ((values - trailing.mean().shift()).abs() > 5 * trailing.std().shift()).to_numpy()
    return {
        "WoLF, causal: every outlier": flags,
        "WoLF, causal: first outlier of an incident": first_of_incidents(flags),
        "trailing mean of 288, 5 deviations: first of an incident": first_of_incidents(far),
    }


def judge(folder: Path, judging: bool) -> None:
    """Print the scores of one part of the files."""
    totals: dict[str, dict[str, float]] = {}
    counts: dict[str, int] = {}
    windows_in_all = 0
    for _, values, windows in nab(folder, judging):
        windows_in_all += len(windows)
        for rule, alarms in flags_by_file(values).items():
            own = totals.setdefault(rule, dict.fromkeys(MISS_WEIGHTS, 0.0))
            counts[rule] = counts.get(rule, 0) + int(alarms.sum())
            for profile in MISS_WEIGHTS:
                own[profile] += file_score(alarms, windows, profile)
    lines = {
        rule: {
            profile: 100
            * (total + MISS_WEIGHTS[profile] * windows_in_all)
            / ((1 + MISS_WEIGHTS[profile]) * windows_in_all)
            for profile, total in own.items()
        }
        | {"alarms": counts[rule]}
        for rule, own in totals.items()
    }
    print(pd.DataFrame(lines).T.round(1).to_string())
