"""Where faults begin and end: wild clusters are left out as a whole, and what all other readings speak for comes back.

Faults are found one run after the other, and a part of a wild run may look right beside another part that is wrong.
With h the errors that a reading off by 1 makes (`faults`), and e the one-step errors with all readings believed,
leaving out the rows S explains

    ½ bᵀ N⁻¹ b,     b_i = Σ_k h(k) e(i + k),     N_ij = Σ_k h(k) h(k + |i - j|),     i, j in S

nats: each row left out is a free number in the regression of e on shifted h (de Jong & Penzer 1998); a run that is off
by one number has the sum of its columns instead. Every number has a price, and so has every run, since faults that have
begun go on: a Markov chain of good and bad stays where it is. Ends are moved while that earns something.
"""

from collections.abc import Iterator

import numpy as np

from wolf.diagnostics.faults.step_scan import FaultShape, correlate
from wolf.diagnostics.faults.stuck_values import counts_in, run_ends, runs_of
from wolf.numerics.rolling import running_maximum

KEEP = 3.5  # deviations from what all other readings say, from which a reading stays a fault
BESIDE_OFF = 2.0  # the same for one beside a run of faults, to their side: it belongs to them
LONG = 3  # readings of such a run
MOSTLY = 0.6  # share of a run that must be off for all of it to be a fault
HOLE, AROUND = 2, 8  # readings between faults that are taken for faults, if half as many around them as this are
CULPRIT = 0.4  # deviations beside the worst nearby, below which a reading may only suffer from it
FEWEST = 3  # faults that make a cluster
APART = 8  # rows between two faults of one cluster
DENSE = 0.4  # share of a cluster's rows that must be faults: fewer are spikes, each for itself
OUT = 8  # rows by which an end may move outwards
PRICE = 2.5  # nats that a free number must explain, times how far tails reach
RUN = 8.0  # nats that a run must explain beside those, times the square of that: a fault that has begun goes on
SAME = 0.5  # price of a row whose error is that of all others in its run, beside that of a number
MOVES = 8  # of ends, at most
ROUGH = 0.01  # share of what a fault explains that may be left because errors are not quite linear in it
RIDGE = 1e-9  # share of N's diagonal that keeps it solvable


def clusters(faults: np.ndarray, longest: int) -> list[tuple[int, int]]:
    """List stretches of rows that hold several faults close to each other, first and last (exclusive).

    Example:
        >>> rows = np.zeros(40, bool)
        >>> rows[[3, 20, 21, 24]] = True
        >>> clusters(rows, 30)
        [(20, 25)]
    """
    firsts, stops = run_ends(faults)
    far = firsts[1:] - stops[:-1] > APART
    firsts, stops = firsts[np.append(True, far)[: len(firsts)]], stops[np.append(far, True)[: len(stops)]]
    counts, lengths = counts_in(faults, firsts, stops), stops - firsts
    kept = (counts >= np.maximum(FEWEST, DENSE * lengths)) & (lengths <= longest)
    return list(zip(firsts[kept].tolist(), stops[kept].tolist(), strict=True))


def redraw(faults: np.ndarray, usable: np.ndarray, errors: np.ndarray, shape: FaultShape, factor: float) -> np.ndarray:
    """Move the ends of clusters to where leaving out what lies between them earns most; return the faults.

    Args:
        faults: found so far, (T,).
        usable: rows with a reading, (T,).
        errors: one-step errors with the clusters believed, over their deviation, (T,).
        shape: of a step.
        factor: by which errors reach farther than a Gaussian's.
    """
    impulse = shape.step - np.concatenate([[0.0], shape.step[:-1]])
    told = correlate(errors, impulse)
    wide = shape.longest + 2 * OUT
    alike = np.array([impulse[lag:] @ impulse[: len(impulse) - lag] for lag in range(wide)])
    alike[0] *= 1.0 + RIDGE
    found = faults.copy()
    for first, stop in clusters(faults, shape.longest):
        low, high = max(first - OUT, 1), min(stop + OUT, len(faults) - 1)
        rows = np.arange(low, high)
        normal = alike[np.abs(rows[:, None] - rows)]
        found[low:high] = _best(faults[low:high], usable[low:high], told[low:high], normal, factor)
    return found


def explained(told: np.ndarray, normal: np.ndarray) -> float:
    """Say how many nats are explained by leaving out rows: ½ bᵀ N⁻¹ b.

    Args:
        told: b of these rows.
        normal: N of these rows.
    """
    return 0.5 * float(told @ np.linalg.solve(normal, told))


def _best(mask: np.ndarray, usable: np.ndarray, told: np.ndarray, normal: np.ndarray, factor: float) -> np.ndarray:
    """Move one end after the other, while that earns something."""
    some = np.flatnonzero(mask)
    # A reading off by hundreds of deviations leaves errors behind that good rows after it could explain as well.
    rough = ROUGH * explained(told[some], normal[np.ix_(some, some)]) / len(some)
    number, run = max(PRICE * factor, rough), RUN * factor**2
    best, most = mask, float(worths(mask[None], told, normal, number, run)[0])
    for _ in range(MOVES):
        moved = np.concatenate(list(_moved(best, usable)))
        earned = worths(moved, told, normal, number, run)
        which = int(np.argmax(earned))
        if earned[which] <= most:
            break
        best, most = moved[which], earned[which]
    return best


def worths(masks: np.ndarray, told: np.ndarray, normal: np.ndarray, number: float, run: float) -> np.ndarray:
    """Say how many nats each of some ways to leave out rows earns, (K,); all at once, since there are hundreds.

    Args:
        masks: rows that are left out, (K, n).
        told: b, (n,).
        normal: N, (n, n).
        number: price of a free number.
        run: price of a run of rows.
    """
    counts = masks.sum(1)
    starts = masks & ~np.pad(masks, ((0, 0), (1, 0)))[:, :-1]
    runs = starts.sum(1)
    # Rows that stay are equations x = 0 of their own, so that all systems are of one size.
    free = _explained_all(masks * told, np.where(masks[:, :, None] & masks[:, None], normal, np.eye(len(told))))
    free -= number * counts
    # Runs that only lie too high or too low need one number each: their columns are added up.
    which = np.where(masks, np.cumsum(starts, axis=1) - 1, -1)
    members = (which[:, None] == np.arange(max(int(runs.max()), 1))[:, None]).astype(float)
    alike = members @ normal @ np.swapaxes(members, 1, 2)
    alike += (np.arange(members.shape[1]) >= runs[:, None])[:, None] * np.eye(members.shape[1])
    offset = _explained_all(members @ told, alike) - number * (runs + SAME * (counts - runs))
    return np.where(counts > 0, np.maximum(free, offset) - run * runs, -np.inf)


def _explained_all(told: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Give `explained` of K systems: b (K, n) and N (K, n, n)."""
    return np.asarray(0.5 * (told * np.linalg.solve(normal, told[..., None])[..., 0]).sum(1))


def _moved(mask: np.ndarray, usable: np.ndarray) -> Iterator[np.ndarray]:
    """Give what a mask is after one end of a run moved by up to `OUT` rows, so that holes may be filled, too.

    Yields:
        For one end after the other its moves, (K, n).
    """
    rows = np.arange(len(mask))
    for edge in np.flatnonzero(np.diff(mask, prepend=False, append=False)).tolist():
        other = np.arange(max(edge - OUT, 0), min(edge + OUT, len(mask)) + 1)[:, None]
        between = (rows >= np.minimum(edge, other)) & (rows < np.maximum(edge, other))
        inside = ~(between & ~mask).any(1, keepdims=True)
        yield np.where(between, usable & ~inside, mask)


def pruned(mask: np.ndarray, away: np.ndarray, longest: int) -> np.ndarray:
    """Believe again what all other readings speak for: the ends of runs, and of a run that is mostly good all.

    A run is longer where readings beside it are off to the same side: a drift has soft ends. A reading that is off
    because a worse one nearby is still believed waits.
    """
    worst = np.abs(away)
    worst[mask] = 0.0
    worst = running_maximum(worst, AROUND)
    worst *= CULPRIT
    away = np.where(np.abs(away) >= worst, away, 0.0)
    far = np.abs(away) > KEEP
    # Most faults are spikes: one row that stays a fault, or does not, between rows that are right.
    beside = np.pad(far, 1)
    alone = mask & ~np.pad(mask, 1)[:-2] & ~np.pad(mask, 1)[2:] & ~beside[:-2] & ~beside[2:]
    kept = alone & far
    for first, stop in runs_of(mask & ~alone):
        bad = np.flatnonzero(far[first:stop])
        if not len(bad):
            continue
        low, high = first + int(bad[0]), first + int(bad[-1]) + 1
        if len(bad) <= MOSTLY * (high - low):
            kept[first + bad] = True
            continue
        soft = BESIDE_OFF if high - low >= LONG else KEEP
        while low > 0 and high - low < longest and _belongs(away[low - 1], away[low], soft):
            low -= 1
        while high < len(away) and high - low < longest and _belongs(away[high], away[high - 1], soft):
            high += 1
        kept[low:high] = True
    return kept


def _belongs(away: float, beside: float, soft: float) -> bool:
    """Say whether a reading belongs to the fault beside it: off by much, or by less to the same side."""
    return bool(abs(away) > KEEP or away * np.sign(beside) > soft)


def filled(mask: np.ndarray) -> np.ndarray:
    """Take single readings among many faults for faults, too: a wild sensor is right by chance."""
    filled = mask.copy()
    firsts, stops = run_ends(~mask)
    around = counts_in(mask, np.maximum(firsts - AROUND, 0), np.minimum(stops + AROUND, len(mask)))
    small = (stops - firsts <= HOLE) & (firsts > 0) & (stops < len(mask)) & (around >= AROUND // 2)
    filled[~mask] = np.repeat(small, stops - firsts)
    return filled
