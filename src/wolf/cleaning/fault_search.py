"""A series while it is judged: which readings are left out, where it has shifted, what bursts add.

Round by round the strongest faults are left out (`faults`), and those that all other readings speak for are taken back;
a shift is believed when no fault is left. Where wild clusters end is drawn at last (`outlines`).
"""

from typing import Any

import numpy as np

from wolf.cleaning.smoother_pass import Build, SmootherPass, sweep
from wolf.diagnostics.faults import boundaries, local_scale, offsets, step_scan
from wolf.diagnostics.faults.stuck_values import counts_in, run_ends, stuck_rows, suspicious_values
from wolf.engine import steady_state
from wolf.fitting.select import interpolated_rows, quantization
from wolf.numerics.robust import MAD_TO_STD
from wolf.numerics.rolling import running_median

KINDS = ("", "spike", "burst", "stuck", "dropout", "drift", "shift", "gap")
ROUNDS = 8  # of looking for faults
TRIES = 4  # with higher limits each, while far too much looks like a fault
HIGHER = 1.5
ON_LINES = 2.0  # the same where most readings lie on straight lines: errors gather at the others
MOST_FAULTS = 0.15  # share of the readings
MISPLACED = 1.5  # deviations from what others say, on the average over all readings of a suspicious value
SAMPLE = 4_096  # rows that tell what usual errors are
WINDOW, GROSS = 25, 8.0  # of a running median, and deviations from it that do not count as usual
LEAST_REST = 1e-9


class Case:
    """One series while it is judged: what is left out, and by how much it has shifted."""

    def __init__(
        self, build: Build, values: np.ndarray, gaps: np.ndarray | None, longest: int, ratio: np.ndarray | float
    ):
        self.build, self.values, self.gaps, self.ratio = build, values, gaps, ratio
        model = build(None)
        self.obs_var = float(np.asarray(model.R)[0, 0])
        self.shape = step_scan.shape_of(model, longest)
        self.place = np.arange(len(values)) if gaps is None else np.cumsum(gaps)
        self.period = local_scale.season_of(model)
        self.at_phase: np.ndarray | None = None
        rounded = quantization.step_of(_middle(values))
        # What rounding took away, in deviations of an error: put back where sizes of errors are measured.
        self.blur = quantization.noise_of(rounded, len(values)) / _deviation(model) if rounded else np.zeros(1)
        usual = _usual_errors(model, values, self.place, self.period, rounded)
        self.limits = step_scan.limits_of(usual, self.shape)
        if not rounded and interpolated_rows.every_of(_middle(values)) > 1:
            self.limits = self.limits.raised(ON_LINES)
        self.known, self.stuck = np.isfinite(values), stuck_rows(values)
        self.dropped, self.undone = np.zeros(len(values), bool), np.zeros(len(values), bool)
        self.lift: np.ndarray | float = 0.0
        self.start()

    def start(self) -> None:
        """Forget what was found."""
        self.mask, self.offset = self.stuck.copy(), np.zeros(len(self.values))
        self.shifts: list[int] = []
        self.near = np.ones(len(self.values)) if self.at_phase is None else self.at_phase.copy()
        self.drifts = np.zeros(len(self.values), bool)

    @property
    def used(self) -> np.ndarray:
        """Readings that are not left out, without the shifts and without what bursts add."""
        return np.where((self.mask & ~self.undone) | self.dropped, np.nan, self.values - self.offset - self.lift)

    def sweep(self, smooth: bool = True) -> SmootherPass:
        """Go over what is not left out."""
        return sweep(self.build, self.used, np.ones(len(self.values)) * self.ratio, self.gaps, smooth)

    def left_out(self, seen: SmootherPass, noise: Any = 1.0) -> np.ndarray:
        """Compare each reading with what all others say, in deviations; NaN where it was not used.

        With V after all readings and R that of this one, V R / (R - V) is the variance without it, and its error is
        that from the mean after all times R / (R - V).
        """
        rest = seen.variance / noise
        rest *= -1.0 / (self.obs_var * self.ratio)
        rest += 1.0
        np.maximum(rest, LEAST_REST, out=rest)
        away = self.used
        away -= seen.mean
        away /= rest
        np.divide(seen.variance, rest, out=rest)  # in place throughout: a series may have millions of rows
        rest += self.obs_var * self.ratio
        away /= np.sqrt(rest, out=rest)
        return away

    def search(self) -> None:
        """Look for faults and shifts, with higher limits while far too much looks like one."""
        for _ in range(TRIES):
            for _ in range(ROUNDS):
                if not self.look():
                    break
            if (self.mask & ~self.stuck).sum() <= MOST_FAULTS * self.known.sum():
                break
            self.limits = self.limits.raised(HIGHER)
            self.start()
        self.redraw()
        self.mask = boundaries.filled(self.mask & ~self.stuck) | self.stuck

    def redraw(self) -> None:
        """Move the ends of bursts to where leaving them out explains most."""
        mask = self.mask
        some = mask & ~self.stuck
        firsts, stops = run_ends(some)
        some[some] = np.repeat(counts_in(self.drifts, firsts, stops) == 0, stops - firsts)
        inside = np.zeros(len(mask), bool)
        for first, stop in boundaries.clusters(some, self.shape.longest):
            inside[first:stop] = True
        if not inside.any():
            return
        self.mask = mask & ~(inside & some)
        errors = self.sweep(smooth=False).errors / self.near
        factor = float(self.limits.runs[:-1].max()) / step_scan.FAULT
        self.mask = boundaries.redraw(some, self.known & (some | ~mask), errors, self.shape, factor)
        self.mask |= mask & ~some
        if np.any(self.mask & ~mask):
            self._take_back(mask, boundaries.clusters(some, self.shape.longest))

    def _take_back(self, before: np.ndarray, clusters: list[tuple[int, int]]) -> None:
        """Undo what was drawn around a cluster if all other readings speak for it."""
        # An outline goes by the errors of a settled filter; before that, a huge fault seems to spoil its neighbours.
        seen = self.sweep()
        off = self.values - self.offset - seen.mean
        off /= np.sqrt(seen.variance + self.obs_var * self.ratio) * self.near
        for first, stop in clusters:
            around = slice(max(first - boundaries.OUT, 0), stop + boundaries.OUT)
            added = off[around][self.mask[around] & ~before[around]]
            if added.size and np.sqrt(np.mean(added**2)) <= MISPLACED:
                self.mask[around] &= before[around]

    def look(self) -> bool:
        """Take one round; say whether anything changed."""
        before, shifts = self.mask.copy(), len(self.shifts)
        errors = self.sweep(smooth=False).errors
        if self.at_phase is None:
            usable = self.known & ~self.mask
            self.at_phase = local_scale.season_scale(errors + self.blur, usable, self.place, self.period)
            self.near *= self.at_phase
        errors /= self.near
        found = step_scan.find(errors, self.known & ~self.mask, self.shape, self.limits)
        del errors
        if not len(found.first):
            return False
        runs = found.length > 0
        told = (found.first[runs].tolist(), found.length[runs].tolist(), found.drift[runs].tolist())
        for first, length, drift in zip(*told, strict=True):
            self.mask[first : first + length] = True
            if drift:
                self.drifts[first : first + length] = True
        if not runs.any():  # a shift waits until no fault is left: what follows a fault may look like one
            for first, size in zip(found.first.tolist(), found.size, strict=True):
                self.offset[first:] += size * self.near[first]
                self.shifts.append(first)
        seen = self.sweep()
        # How wild the readings are around each row is told by what is left: a fault would make all others look calm.
        self.near = self.usual_near(seen.errors)
        away = self.left_out(seen)
        out = np.flatnonzero(self.mask)
        off = (self.values - self.offset)[out] - seen.mean[out]
        away[out] = off / np.sqrt((seen.variance + self.obs_var * self.ratio)[out])
        del seen
        away /= self.near
        np.nan_to_num(away, copy=False)
        self.mask = boundaries.pruned(self.mask & ~self.stuck, away, self.shape.longest) | self.stuck
        return len(self.shifts) > shifts or bool(np.any(self.mask != before))

    def usual_near(self, errors: np.ndarray) -> np.ndarray:
        """Say how large errors usually are around each row, (T,), at its time of the season."""
        at_phase = np.ones(len(errors)) if self.at_phase is None else self.at_phase
        usable = self.known & ~self.mask & ~self.dropped
        return np.asarray(at_phase * local_scale.local_scale((errors + self.blur) / at_phase, usable))

    def find_dropouts(self) -> None:
        """Leave out 0, -999 and the like where such a value comes again and again and does not belong."""
        for value in suspicious_values(self.values):
            same = self.values == value
            self.dropped |= same
            seen = self.sweep()
            away = (value - self.offset - seen.mean)[same] / np.sqrt(seen.variance + self.obs_var * self.ratio)[same]
            if np.sqrt(np.mean(away**2)) <= MISPLACED:
                self.dropped &= ~same
        self.mask &= ~self.dropped

    def undo_offsets(self, bridge: SmootherPass) -> np.ndarray:
        """Use the readings of bursts that are only offset; return the variance of what was taken off, (T,) or (1,)."""
        bursts = self.mask & ~self.stuck & self.known & ~self.drifts
        if not bursts.any():
            return np.zeros(1)
        doubt = (bridge.variance + self.obs_var * self.ratio) * self.near**2
        runs = offsets.candidates(bursts, self.values - self.offset - bridge.mean, doubt, self.shape)
        if not runs:
            return np.zeros(1)

        def errors_without(lift: np.ndarray, believed: list[tuple[int, int]]) -> np.ndarray:
            self.lift, self.undone = lift, np.zeros(len(lift), bool)
            for first, stop in believed:
                self.undone[first:stop] = True
            return self.sweep(smooth=False).errors

        squares = np.minimum((bridge.errors / self.near) ** 2, step_scan.CUT**2)
        usual = float(squares[squares > 0.0].mean())
        self.lift, doubt = offsets.find_offsets(errors_without, runs, usual, self.near, self.shape)
        self.undone = doubt > 0.0
        return doubt

    def kinds(self) -> np.ndarray:
        """Say of each row what it is."""
        kind = np.zeros(len(self.values), np.int8)
        rows = self.mask & ~self.stuck & self.known
        firsts, stops = run_ends(rows)
        lengths = stops - firsts
        drift = counts_in(self.drifts, firsts, stops) / lengths > boundaries.MOSTLY
        named = np.where(lengths < 2, KINDS.index("spike"), np.where(drift, KINDS.index("drift"), KINDS.index("burst")))
        kind[rows] = np.repeat(named, lengths)
        kind[self.stuck] = KINDS.index("stuck")
        kind[self.dropped] = KINDS.index("dropout")
        kind[self.shifts] = KINDS.index("shift")
        kind[~self.known] = KINDS.index("gap")
        return kind


def _deviation(model: Any) -> float:
    """Give the deviation of a one-step error of a settled filter."""
    row = np.asarray(model.H)[0]
    dynamics = np.eye(len(row)) if model.F is None else np.asarray(model.F)
    return float(
        np.sqrt(steady_state.settle(dynamics, row, np.asarray(model.Q)[None], np.asarray(model.R)[0]).variance[0])
    )


def _middle(rows: np.ndarray) -> np.ndarray:
    """Take a sample of all rows: those in the middle."""
    first = max(0, (len(rows) - SAMPLE) // 2)
    return rows[first : first + SAMPLE]


def _usual_errors(
    model: Any, values: np.ndarray, place: np.ndarray, period: float | None, rounded: float
) -> np.ndarray:
    """Give one-step errors on a sample, over their deviation, by a filter that outliers do not move."""
    some = _without_gross(_middle(values))
    some += quantization.noise_of(rounded, len(some))
    row = np.asarray(model.H)[0]
    dynamics = np.eye(len(row)) if model.F is None else np.asarray(model.F)
    settled = steady_state.settle(dynamics, row, np.asarray(model.Q)[None], np.asarray(model.R)[0])
    start = steady_state.first_state(some[: max(len(some) // 8, 3 * len(row))], dynamics, row)
    deviation = np.sqrt(settled.variance)
    errors = steady_state.walk(some, dynamics, row, settled.gain, start, steady_state.CUT * deviation)[:, 0] / deviation
    known = np.isfinite(errors)
    errors[~known] = 0.0
    errors /= local_scale.season_scale(errors, known, _middle(place), period)
    return np.asarray((errors / local_scale.local_scale(errors, known))[known])


def _without_gross(values: np.ndarray) -> np.ndarray:
    """Leave out what is far from its running median: what usual errors are must not depend on the faults."""
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return values.copy()
    apart = np.abs(values[known] - running_median(values[known], WINDOW, "nearest"))
    usual = MAD_TO_STD * float(np.median(apart[apart > 0])) if np.any(apart > 0) else np.inf
    kept = values.copy()
    kept[known[apart > GROSS * usual]] = np.nan
    return kept
