"""Two-sided test: compare rejected measurements with smoothed predictions from before and after their interval."""

from typing import NamedTuple

import numpy as np

from wolf.beliefs import Gaussian
from wolf.diagnostics.faults.innovations import (
    InnovationRecord,
    Interval,
    WindowPrediction,
    compare_measurements,
    compare_past_and_future,
)
from wolf.diagnostics.faults.local_smoother import (
    COVARIANCE_INFLATION,
    MIN_WINDOW_STEPS,
    SmoothedWindow,
    smooth_windows,
)

HORIZON_STEPS = 20  # steps after an interval that are used


class TwoSidedTest(NamedTuple):
    """Result of the comparison for one interval.

    Attributes:
        interval: interval of rejected measurements.
        steps: rejected steps in it, (n,).
        two_sided: window smoothed from the measurements before and after the interval.
        later_only: window smoothed from the measurements after it.
        own: window smoothed from its own measurements, if they are many and continue to the end; None otherwise.
        agreement_probability: p-value of the agreement of past and future about the state at its start.
        shift: difference of that state, (D,).
        agrees_with_both: which rejected measurements agree with the two-sided prediction, (n,).
        agrees_with_later: which agree with the prediction from later measurements, (n,).
        distances: their distances from that prediction, (n,).
        informative: whether that prediction is informative, (n,).
    """

    interval: Interval
    steps: np.ndarray
    two_sided: SmoothedWindow
    later_only: SmoothedWindow
    own: SmoothedWindow | None
    agreement_probability: float
    shift: np.ndarray
    agrees_with_both: np.ndarray
    agrees_with_later: np.ndarray
    distances: np.ndarray
    informative: np.ndarray


def two_sided_tests(record: InnovationRecord, intervals: list[Interval]) -> list[TwoSidedTest]:
    """Smooth the surroundings of all intervals, and compare the rejected measurements with the predictions."""
    if not intervals:
        return []
    steps = [
        interval.first + np.flatnonzero(record.rejected_steps(interval.channel)[interval.first : interval.last + 1])
        for interval in intervals
    ]
    first_steps = np.array([interval.first for interval in intervals])
    windows = _windows(record, intervals, steps)
    two_sided, later_only = [each[0] for each in windows], [each[1] for each in windows]
    states = Gaussian(*(np.stack([window.state[k] for window in later_only]) for k in range(2)))
    probabilities, shifts = compare_past_and_future(record, first_steps, states)
    agrees_with_both, *_ = _compare(record, intervals, steps, two_sided)
    later = zip(*_compare(record, intervals, steps, later_only), strict=True)
    return [
        TwoSidedTest(interval, steps[i], *windows[i], float(probabilities[i]), shifts[i], agrees_with_both[i], *tests)
        for i, (interval, tests) in enumerate(zip(intervals, later, strict=True))
    ]


def _compare(
    record: InnovationRecord, intervals: list[Interval], steps: list[np.ndarray], windows: list[SmoothedWindow]
) -> list[list[np.ndarray]]:
    """Apply `compare_measurements` to all rejected measurements; one array per interval and result."""
    offsets = [each - interval.first for interval, each in zip(intervals, steps, strict=True)]
    counts = [len(each) for each in steps]
    channels = np.repeat([-1 if interval.channel is None else interval.channel for interval in intervals], counts)
    pairs = [(window._asdict(), each) for window, each in zip(windows, offsets, strict=True)]
    fields = (np.concatenate([window[name][each] for window, each in pairs]) for name in WindowPrediction._fields)
    results = compare_measurements(record, channels, np.concatenate(steps), WindowPrediction(*fields))
    return [np.split(result, np.cumsum(counts)[:-1]) for result in results]


def _windows(
    record: InnovationRecord, intervals: list[Interval], steps: list[np.ndarray]
) -> list[tuple[SmoothedWindow, SmoothedWindow, SmoothedWindow | None]]:
    """Smooth each interval from both sides, from the later side only, and with itself if it continues to the end."""
    first_steps, last_steps = np.array([(interval.first, interval.last) for interval in intervals]).T
    stops = np.minimum(last_steps + 1 + max(HORIZON_STEPS, 2 * record.predicted.mean.shape[1]), len(record.ys))
    continues = (last_steps >= record.last_accepted) & (np.array([len(each) for each in steps]) >= HORIZON_STEPS)
    sizes = np.maximum(MIN_WINDOW_STEPS, 2 ** np.ceil(np.log2(stops - first_steps)).astype(int))
    windows_by_interval: dict[int, tuple[SmoothedWindow, SmoothedWindow, SmoothedWindow | None]] = {}
    for size in np.unique(sizes):
        group = np.flatnonzero(sizes == size)
        without, own = _window_measurements(record, first_steps[group], last_steps[group], stops[group], size)
        narrow = Gaussian(record.predicted.mean[first_steps[group]], record.predicted.cov[first_steps[group]])
        wide = Gaussian(narrow.mean, COVARIANCE_INFLATION * narrow.cov)
        continuing = np.flatnonzero(continues[group])
        rows = np.concatenate([np.arange(len(group)), np.arange(len(group)), continuing])
        means, covs = narrow.mean[rows], np.concatenate([narrow.cov, wide.cov, wide.cov[continuing]])
        ys = np.concatenate([without, without, own[continuing]])
        starts = first_steps[group][rows]
        windows = smooth_windows(
            record.model, record.linearization, record.inputs, record.update_first, starts, Gaussian(means, covs), ys
        )
        own_windows = {int(k): windows.select(2 * len(group) + i) for i, k in enumerate(continuing)}
        for k, i in enumerate(group.tolist()):
            windows_by_interval[i] = windows.select(k), windows.select(len(group) + k), own_windows.get(k)
    return [windows_by_interval[i] for i in range(len(intervals))]


def _window_measurements(
    record: InnovationRecord, first_steps: np.ndarray, last_steps: np.ndarray, stops: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Collect the measurements used by the windows, (n, size, M) each: without their intervals, and with them."""
    rows = first_steps[:, None] + np.arange(size)
    rejected = record.rejected[np.minimum(rows, len(record.ys) - 1)]
    ys = record.ys[np.minimum(rows, len(record.ys) - 1)]
    usable = np.where(np.isfinite(ys) & (rows < stops[:, None])[:, :, None], ys, np.nan)
    kept = np.where(rejected, np.nan, usable)
    inside = (rows <= last_steps[:, None])[:, :, None]
    # Within the interval accepted measurements are left out, too: a filter follows a bias after a while.
    questionable = inside & (rejected & inside).any(axis=1, keepdims=True)
    return np.where(questionable, np.nan, kept), np.where(questionable, usable, kept)
