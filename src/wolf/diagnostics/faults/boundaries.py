"""Boundaries of faults: clusters of erratic readings are removed as a whole, consistent readings are reinstated.

Faults are detected one run after the other, and a part of an erratic run may look right next to another part that is
wrong. With h the errors caused by a reading that is off by 1 (`step_scan.py`), and e the one-step errors with all
readings used, leaving out the rows S increases the log likelihood by

    ½ bᵀ N⁻¹ b,     b_i = Σ_k h(k) e(i + k),     N_ij = Σ_k h(k) h(k + |i - j|),     i, j in S

nats: each row left out is a free parameter in the regression of e on shifted h (de Jong & Penzer 1998); a run with a
constant offset has the sum of its columns instead. Every parameter has a cost, and so has every run, since faults
persist (a two-state Markov chain). Ends are moved while this increases the net gain.
"""

from collections.abc import Iterator

import numpy as np

from wolf.diagnostics.faults.correlation import correlate_series
from wolf.diagnostics.faults.step_scan import StepSignature
from wolf.numerics.rolling import running_maximum
from wolf.numerics.runs import counts_in, run_ends, runs_of

FAULT_STDS = 3.5  # standard deviations from the prediction by all other readings, above which a reading remains a fault
ADJACENT_FAULT_STDS = 2.0  # the same for a reading next to a run of faults, in their direction
LONG_RUN_ROWS = 3  # readings of such a run
MOSTLY = 0.6  # share of faulty readings in a run above which all of it is a fault
MAX_HOLE_ROWS = 2  # rows between faults that become faults ...
NEIGHBOURHOOD_ROWS = 8  # ... if half as many faults as this number are among the rows around them
SUSPECT_RATIO = 0.4  # error relative to the worst nearby, below which a reading may only suffer from that one
MIN_CLUSTER_FAULTS = 3  # faults of a cluster
MAX_GAP_ROWS = 8  # rows between two faults of one cluster
MIN_CLUSTER_DENSITY = 0.4  # share of faults in a cluster; with fewer they are separate spikes
OUT = 8  # rows by which an end may move outwards
PARAMETER_COST = 2.5  # nats that a free parameter must gain, times the tail factor
RUN_COST = 8.0  # nats that a run must gain in addition, times the squared tail factor: faults persist
OFFSET_ROW_COST = 0.5  # cost of a row with the offset of its run, relative to that of a parameter
MAX_MOVES = 8  # maximum number of moved ends
LINEARISATION_ERROR = 0.01  # share of the gain that may remain because errors are not exactly linear
RELATIVE_RIDGE = 1e-9  # share of N's diagonal that is added to keep it invertible


def clusters(faults: np.ndarray, longest: int) -> list[tuple[int, int]]:
    """List ranges of rows that hold several faults close to each other, first and last (exclusive).

    Example:
        >>> rows = np.zeros(40, bool)
        >>> rows[[3, 20, 21, 24]] = True
        >>> clusters(rows, 30)
        [(20, 25)]
    """
    firsts, stops = run_ends(faults)
    is_far = firsts[1:] - stops[:-1] > MAX_GAP_ROWS
    firsts, stops = firsts[np.append(True, is_far)[: len(firsts)]], stops[np.append(is_far, True)[: len(stops)]]
    counts, lengths = counts_in(faults, firsts, stops), stops - firsts
    faults = (counts >= np.maximum(MIN_CLUSTER_FAULTS, MIN_CLUSTER_DENSITY * lengths)) & (lengths <= longest)
    return list(zip(firsts[faults].tolist(), stops[faults].tolist(), strict=True))


def redraw(
    faults: np.ndarray, usable: np.ndarray, errors: np.ndarray, shape: StepSignature, factor: float
) -> np.ndarray:
    """Move the ends of clusters to where the net gain of removing the rows between them is largest; return the faults.

    Args:
        faults: faults detected so far, (T,).
        usable: rows with a reading, (T,).
        errors: one-step errors in standard deviations, with the clusters used, (T,).
        shape: signature of a step.
        factor: tail factor of the errors.
    """
    impulse = shape.step - np.concatenate([[0.0], shape.step[:-1]])
    correlation = correlate_series(errors, impulse)
    width = shape.longest + 2 * OUT
    autocorrelation = np.array([impulse[lag:] @ impulse[: len(impulse) - lag] for lag in range(width)])
    autocorrelation[0] *= 1.0 + RELATIVE_RIDGE
    found = faults.copy()
    for first, stop in clusters(faults, shape.longest):
        start, end = max(first - OUT, 1), min(stop + OUT, len(faults) - 1)
        rows = np.arange(start, end)
        normal = autocorrelation[np.abs(rows[:, None] - rows)]
        found[start:end] = _optimise_ends(faults[start:end], usable[start:end], correlation[start:end], normal, factor)
    return found


def log_likelihood_gain(correlation: np.ndarray, normal: np.ndarray) -> float:
    """Compute the log likelihood gain of removing rows, in nats: ½ bᵀ N⁻¹ b.

    Args:
        correlation: b of these rows.
        normal: N of these rows.
    """
    return 0.5 * float(correlation @ np.linalg.solve(normal, correlation))


def _optimise_ends(
    mask: np.ndarray, usable: np.ndarray, correlation: np.ndarray, normal: np.ndarray, factor: float
) -> np.ndarray:
    """Move one end after the other while the net gain increases."""
    masked = np.flatnonzero(mask)
    # A reading off by hundreds of standard deviations causes errors that good rows after it could explain as well.
    linearisation_cost = (
        LINEARISATION_ERROR * log_likelihood_gain(correlation[masked], normal[np.ix_(masked, masked)]) / len(masked)
    )
    parameter_cost, run_cost = max(PARAMETER_COST * factor, linearisation_cost), RUN_COST * factor**2
    best, best_gain = mask, float(net_gains(mask[None], correlation, normal, parameter_cost, run_cost)[0])
    for _ in range(MAX_MOVES):
        candidates = np.concatenate(list(_candidate_masks(best, usable)))
        gains = net_gains(candidates, correlation, normal, parameter_cost, run_cost)
        index = int(np.argmax(gains))
        if gains[index] <= best_gain:
            break
        best, best_gain = candidates[index], gains[index]
    return best


def net_gains(
    masks: np.ndarray, correlation: np.ndarray, normal: np.ndarray, parameter_cost: float, run_cost: float
) -> np.ndarray:
    """Compute the net gain, in nats, of several ways to remove rows, (K,); in one batch, since there are hundreds.

    Args:
        masks: removed rows, (K, n).
        correlation: b, (n,).
        normal: N, (n, n).
        parameter_cost: cost of a free parameter.
        run_cost: cost of a run of rows.
    """
    counts = masks.sum(1)
    starts = masks & ~np.pad(masks, ((0, 0), (1, 0)))[:, :-1]
    runs = starts.sum(1)
    # Rows that are not removed become equations x = 0, so that all systems have the same size.
    free = _log_likelihood_gains(
        masks * correlation, np.where(masks[:, :, None] & masks[:, None], normal, np.eye(len(correlation)))
    )
    free -= parameter_cost * counts
    # Runs with a constant offset need one parameter each: their columns are added.
    index = np.where(masks, np.cumsum(starts, axis=1) - 1, -1)
    members = (index[:, None] == np.arange(max(int(runs.max()), 1))[:, None]).astype(float)
    autocorrelation = members @ normal @ np.swapaxes(members, 1, 2)
    autocorrelation += (np.arange(members.shape[1]) >= runs[:, None])[:, None] * np.eye(members.shape[1])
    offset = _log_likelihood_gains(members @ correlation, autocorrelation) - parameter_cost * (
        runs + OFFSET_ROW_COST * (counts - runs)
    )
    return np.where(counts > 0, np.maximum(free, offset) - run_cost * runs, -np.inf)


def _log_likelihood_gains(correlation: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Compute the log likelihood gains of K systems: b (K, n) and N (K, n, n)."""
    return np.asarray(0.5 * (correlation * np.linalg.solve(normal, correlation[..., None])[..., 0]).sum(1))


def _candidate_masks(mask: np.ndarray, usable: np.ndarray) -> Iterator[np.ndarray]:
    """Iterate over the masks with one end of a run moved by up to `OUT` rows, which may also fill holes.

    Yields:
        For each end in turn, its moves, (K, n).
    """
    rows = np.arange(len(mask))
    for edge in np.flatnonzero(np.diff(mask, prepend=False, append=False)).tolist():
        other = np.arange(max(edge - OUT, 0), min(edge + OUT, len(mask)) + 1)[:, None]
        moved_rows = (rows >= np.minimum(edge, other)) & (rows < np.maximum(edge, other))
        is_unmasked = ~(moved_rows & ~mask).any(1, keepdims=True)
        yield np.where(moved_rows, usable & ~is_unmasked, mask)


def pruned(mask: np.ndarray, errors: np.ndarray, longest: int) -> np.ndarray:
    """Reinstate readings that agree with all other readings: the ends of runs, and all of a run that is mostly good.

    A run is extended where adjacent readings deviate in the same direction, because a drift has gradual ends. A reading
    that deviates because a worse one nearby is still in use is left for a later round.
    """
    worst = np.abs(errors)
    worst[mask] = 0.0
    worst = running_maximum(worst, NEIGHBOURHOOD_ROWS)
    worst *= SUSPECT_RATIO
    errors = np.where(np.abs(errors) >= worst, errors, 0.0)
    is_far = np.abs(errors) > FAULT_STDS
    # Most faults are spikes: single rows between rows that are right.
    adjacent = np.pad(is_far, 1)
    isolated = mask & ~np.pad(mask, 1)[:-2] & ~np.pad(mask, 1)[2:] & ~adjacent[:-2] & ~adjacent[2:]
    faults = isolated & is_far
    for first, stop in runs_of(mask & ~isolated):
        bad = np.flatnonzero(is_far[first:stop])
        if not len(bad):
            continue
        start, end = first + int(bad[0]), first + int(bad[-1]) + 1
        if len(bad) <= MOSTLY * (end - start):
            faults[first + bad] = True
            continue
        threshold = ADJACENT_FAULT_STDS if end - start >= LONG_RUN_ROWS else FAULT_STDS
        while (
            start > 0
            and end - start < longest
            and _belongs_to_adjacent_fault(errors[start - 1], errors[start], threshold)
        ):
            start -= 1
        while (
            end < len(errors)
            and end - start < longest
            and _belongs_to_adjacent_fault(errors[end], errors[end - 1], threshold)
        ):
            end += 1
        faults[start:end] = True
    return faults


def _belongs_to_adjacent_fault(errors: float, adjacent: float, threshold: float) -> bool:
    """Return whether a reading is part of the adjacent fault: far off, or less far in the same direction."""
    return bool(abs(errors) > FAULT_STDS or errors * np.sign(adjacent) > threshold)


def filled(mask: np.ndarray) -> np.ndarray:
    """Mark single readings among many faults as faults: an erratic sensor is right by chance."""
    filled = mask.copy()
    firsts, stops = run_ends(~mask)
    num_nearby = counts_in(
        mask, np.maximum(firsts - NEIGHBOURHOOD_ROWS, 0), np.minimum(stops + NEIGHBOURHOOD_ROWS, len(mask))
    )
    small = (
        (stops - firsts <= MAX_HOLE_ROWS) & (firsts > 0) & (stops < len(mask)) & (num_nearby >= NEIGHBOURHOOD_ROWS // 2)
    )
    filled[~mask] = np.repeat(small, stops - firsts)
    return filled
