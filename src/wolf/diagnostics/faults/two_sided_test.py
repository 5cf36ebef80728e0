"""Ask those before and after doubtful stretches what they say of them: all stretches at once."""

from typing import NamedTuple

import numpy as np

from wolf.beliefs import Gaussian
from wolf.diagnostics.faults.innovations import Run, Said, Stretch, agreement, disagreement
from wolf.diagnostics.faults.local_smoother import SHORTEST, WIDE, Window, smooth_windows

HORIZON = 20  # steps after a stretch that are asked


class TwoSidedTest(NamedTuple):
    """What was answered about a stretch.

    Attributes:
        stretch: in doubt.
        steps: of it that were refused, (n,).
        both: what those before and after it say.
        later: what only those after it say.
        itself: what its own measurements say, if they go on to the end and are many; None otherwise.
        broken: probability that before and after agree about the state at its start.
        moved: by which that state differs, (D,).
        in_line: which refused measurements agree with both sides, (n,).
        agrees, away, informed: which agree with those after, how far they are, and whether that means much, (n,) each.
    """

    stretch: Stretch
    steps: np.ndarray
    both: Window
    later: Window
    itself: Window | None
    broken: float
    moved: np.ndarray
    in_line: np.ndarray
    agrees: np.ndarray
    away: np.ndarray
    informed: np.ndarray


def ask(run: Run, stretches: list[Stretch]) -> list[TwoSidedTest]:
    """Smooth what is around stretches, and compare their measurements with it."""
    if not stretches:
        return []
    steps = [one.first + np.flatnonzero(run.refused(one.channel)[one.first : one.last + 1]) for one in stretches]
    firsts = np.array([one.first for one in stretches])
    windows = _windows(run, stretches, steps)
    both, later = [one[0] for one in windows], [one[1] for one in windows]
    states = Gaussian(*(np.stack([one.state[k] for one in later]) for k in range(2)))
    broken, moved = disagreement(run, firsts, states)
    in_line, *_ = _compare(run, stretches, steps, both)
    agrees, away, informed = _compare(run, stretches, steps, later)
    return [
        TwoSidedTest(
            one, steps[i], *windows[i], float(broken[i]), moved[i], in_line[i], agrees[i], away[i], informed[i]
        )
        for i, one in enumerate(stretches)
    ]


def _compare(run: Run, stretches: list[Stretch], steps: list[np.ndarray], said: list[Window]) -> list[list[np.ndarray]]:
    """Compare all refused measurements with what windows say; answers of `agreement`, one array for each stretch."""
    places = [mine - one.first for one, mine in zip(stretches, steps, strict=True)]
    counts = [len(each) for each in steps]
    channels = np.repeat([-1 if one.channel is None else one.channel for one in stretches], counts)
    fields = (
        np.concatenate([getattr(window, name)[each] for window, each in zip(said, places, strict=True)])
        for name in Said._fields
    )
    answers = agreement(run, channels, np.concatenate(steps), Said(*fields))
    return [np.split(answer, np.cumsum(counts)[:-1]) for answer in answers]


def _windows(run: Run, stretches: list[Stretch], steps: list[np.ndarray]) -> list[tuple[Window, Window, Window | None]]:
    """Smooth each stretch from both sides, from the later side only, and with itself if it goes on to the end."""
    firsts, lasts = np.array([(one.first, one.last) for one in stretches]).T
    stops = np.minimum(lasts + 1 + max(HORIZON, 2 * run.predicted.mean.shape[1]), len(run.ys))
    goes_on = (lasts >= run.last_believed) & (np.array([len(each) for each in steps]) >= HORIZON)
    sizes = np.maximum(SHORTEST, 2 ** np.ceil(np.log2(stops - firsts)).astype(int))
    found: dict[int, tuple[Window, Window, Window | None]] = {}
    for size in np.unique(sizes):
        mine = np.flatnonzero(sizes == size)
        without, itself = _readings(run, firsts[mine], lasts[mine], stops[mine], size)
        narrow = Gaussian(run.predicted.mean[firsts[mine]], run.predicted.cov[firsts[mine]])
        wide = Gaussian(narrow.mean, WIDE * narrow.cov)
        more = np.flatnonzero(goes_on[mine])
        rows = np.concatenate([np.arange(len(mine)), np.arange(len(mine)), more])
        means, covs = narrow.mean[rows], np.concatenate([narrow.cov, wide.cov, wide.cov[more]])
        ys = np.concatenate([without, without, itself[more]])
        starts = firsts[mine][rows]
        windows = smooth_windows(
            run.model, run.linearization, run.inputs, run.update_first, starts, Gaussian(means, covs), ys
        )
        alone = {int(k): windows.one(2 * len(mine) + i) for i, k in enumerate(more)}
        for k, i in enumerate(mine.tolist()):
            found[i] = windows.one(k), windows.one(len(mine) + k), alone.get(k)
    return [found[i] for i in range(len(stretches))]


def _readings(
    run: Run, firsts: np.ndarray, lasts: np.ndarray, stops: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Lay out what windows use, (n, size, M) each: without their stretches, and with them."""
    rows = firsts[:, None] + np.arange(size)
    flags = run.flags[np.minimum(rows, len(run.ys) - 1)]
    ys = run.ys[np.minimum(rows, len(run.ys) - 1)]
    usual = np.where(np.isfinite(ys) & (rows < stops[:, None])[:, :, None], ys, np.nan)
    kept = np.where(flags, np.nan, usual)
    inside = (rows <= lasts[:, None])[:, :, None]
    # Within the stretch even what was believed is in doubt: a filter gives in to a bias after a while.
    doubtful = inside & (flags & inside).any(axis=1, keepdims=True)
    return np.where(doubtful, np.nan, kept), np.where(doubtful, usual, kept)
