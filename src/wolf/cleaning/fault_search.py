"""Retrospective search for faults and level shifts in a series of one column.

Each round leaves out the strongest faults (`diagnostics.faults.step_scan`) and restores those that are consistent with
all other measurements; a shift is accepted once nothing stronger is left around it. The boundaries of bursts are
refined last (`diagnostics.faults.boundaries`).
"""

import numpy as np

from wolf.cleaning.smoother_pass import Build, SmootherPass, run_pass
from wolf.diagnostics.faults import boundaries, local_scale, offsets, step_scan
from wolf.diagnostics.faults.stuck_values import stuck_rows, suspicious_values
from wolf.engine import steady_state
from wolf.fitting.select import interpolated_rows, quantization
from wolf.fitting.select.sample import SAMPLE_ROWS, pieces_of
from wolf.numerics.robust import MAD_TO_STD
from wolf.numerics.rolling import running_median
from wolf.numerics.runs import counts_in, run_ends, runs_of
from wolf.statespace import LinearModel

FAULTS = ("", "spike", "burst", "stuck", "dropout", "drift", "shift", "gap")
MAX_ROUNDS = 8  # of the search with one set of limits
MAX_TRIES = 4  # each with higher limits, while too large a share of the measurements is found to be faults
LIMIT_GROWTH = 1.5  # factor from one try to the next
INTERPOLATED_GROWTH = 2.0  # factor where most rows are interpolated: errors concentrate at the others
MAX_FAULT_SHARE = 0.15  # of the measurements
MIN_SENTINEL_DEVIATION = 1.5  # root mean square distance of a sentinel value from the other measurements, in deviations
MIN_DROPOUT_DEVIATION = 3.0  # of one run of that value, in deviations at that place
MEDIAN_WINDOW, GROSS_DEVIATIONS = 25, 8.0  # of a running median, and from it: beyond is no part of the calibration
MIN_LEFT_OUT_SHARE = 1e-9  # of 1 - V / R, which divides leave-one-out errors


class FaultSearch:
    """State of a fault search: the measurements that are left out, and the shifts of the level.

    Attributes:
        mask: measurements classified as faults, (T,).
        dropped: measurements that are sentinel values, (T,).
        corrected: faults that are used after subtracting an offset, (T,).
        offset: sum of the level shifts up to each row, (T,).
        lift: offset of corrected bursts, (T,) or 0.
        scale: local size of the errors relative to the model's, (T,).
        drifts: faults that are drifts, (T,).

    Args:
        build: gaps -> model of one column.
        values: (T,), NaN where missing.
        gaps: before each row, (T,), in steps; None where all are 1.
        longest: rows of the longest fault.
        ratio: variance of each measurement over the model's, (T,), or one for all.
    """

    def __init__(
        self, build: Build, values: np.ndarray, gaps: np.ndarray | None, longest: int, ratio: np.ndarray | float
    ):
        self.build, self.values, self.gaps, self.ratio = build, values, gaps, ratio
        model = build(None)
        self.obs_var = float(np.asarray(model.R)[0, 0])
        self.shape = step_scan.shape_of(model, longest)
        self.place = np.arange(len(values)) if gaps is None else np.cumsum(gaps)
        self.period = local_scale.season_of(model)
        self.season_scale: np.ndarray | None = None
        rounded = quantization.step_of(_middle(values))
        # Quantisation noise, in deviations of an error: added where the size of errors is estimated.
        self.blur = (
            quantization.noise_of(rounded, len(values)) / _steady_state_deviation(model) if rounded else np.zeros(1)
        )
        usual = _calibration_errors(model, values, self.place, self.period, rounded)
        self.limits = step_scan.limits_of(usual, self.shape)
        if not rounded and interpolated_rows.every_of(_middle(values)) > 1:
            self.limits = self.limits.raised(INTERPOLATED_GROWTH)
        self.known, self.stuck = np.isfinite(values), stuck_rows(values)
        self.dropped, self.corrected = np.zeros(len(values), bool), np.zeros(len(values), bool)
        self.lift: np.ndarray | float = 0.0
        self.reset()

    def reset(self) -> None:
        """Discard all faults and shifts."""
        self.mask, self.offset = self.stuck.copy(), np.zeros(len(self.values))
        self.shifts: list[int] = []
        self.scale = np.ones(len(self.values)) if self.season_scale is None else self.season_scale.copy()
        self.drifts = np.zeros(len(self.values), bool)

    @property
    def used(self) -> np.ndarray:
        """Measurements that are not left out, minus the shifts and the offsets of corrected bursts; NaN elsewhere."""
        return np.where((self.mask & ~self.corrected) | self.dropped, np.nan, self.values - self.offset - self.lift)

    def run_pass(self, smooth: bool = True) -> SmootherPass:
        """Filter the measurements that are not left out, and smooth if requested."""
        return run_pass(self.build, self.used, np.ones(len(self.values)) * self.ratio, self.gaps, smooth)

    def leave_one_out_errors(self, smoothed: SmootherPass, noise: np.ndarray | float = 1.0) -> np.ndarray:
        """Compute the leave-one-out error of each measurement, in deviations, (T,); NaN where it was not used.

        With the smoothed variance V and the noise variance R of a measurement, the variance without it is
        V R / (R - V), and the error is that from the smoothed mean times R / (R - V).
        """
        share = smoothed.variance / noise
        share *= -1.0 / (self.obs_var * self.ratio)
        share += 1.0
        np.maximum(share, MIN_LEFT_OUT_SHARE, out=share)
        errors = self.used
        errors -= smoothed.mean
        errors /= share
        variance = np.divide(smoothed.variance, share, out=share)  # in place: a series may have millions of rows
        variance += self.obs_var * self.ratio
        errors /= np.sqrt(variance, out=variance)
        return errors

    def search(self) -> None:
        """Find faults and shifts; raise the limits while too many measurements are classified as faults."""
        for _ in range(MAX_TRIES):
            for _ in range(MAX_ROUNDS):
                if not self.search_round():
                    break
            if (self.mask & ~self.stuck).sum() <= MAX_FAULT_SHARE * self.known.sum():
                break
            self.limits = self.limits.raised(LIMIT_GROWTH)
            self.reset()
        self.reconsider_shifts()
        self.refine_boundaries()
        self.mask = boundaries.filled(self.mask & ~self.stuck) | self.stuck

    def reconsider_shifts(self) -> None:
        """Replace shifts beside faults by one fault that includes them, where the series returns after it.

        The edges of a noisy fault are removed one after the other; in between, those that are left resemble shifts.
        """
        longest = self.shape.longest
        faults = np.array(runs_of(self.mask & ~self.stuck)).reshape(-1, 2)
        spans: dict[int, tuple[int, int]] = {}
        for first in self.shifts:
            near = faults[(faults[:, 0] <= first + longest) & (faults[:, 1] >= first - longest)]
            if len(near) and max(near[-1, 1], first) - near[0, 0] <= longest:
                spans[first] = int(near[0, 0]), int(max(near[-1, 1], first))
        if not spans:
            return
        mask, offset = self.mask.copy(), self.offset.copy()
        steps = {first: offset[first] - (offset[first - 1] if first else 0.0) for first in spans}
        for first, (start, stop) in spans.items():
            self.offset[first:] -= steps[first]
            self.mask[start:stop] = True
        errors = self.run_pass(smooth=False).errors / self.scale
        left = step_scan.find(errors, self.known & ~self.mask, self.shape, self.limits).first
        self.mask = mask
        for first, (start, stop) in spans.items():
            if np.any((left >= start - longest) & (left <= stop + longest)):
                self.offset[first:] += steps[first]
            else:
                self.mask[start:stop] = True
                self.shifts = [each for each in self.shifts if each != first]

    def refine_boundaries(self) -> None:
        """Move the boundaries of bursts to where leaving them out explains most."""
        mask = self.mask
        bursts = mask & ~self.stuck
        firsts, stops = run_ends(bursts)
        bursts[bursts] = np.repeat(counts_in(self.drifts, firsts, stops) == 0, stops - firsts)
        inside = np.zeros(len(mask), bool)
        for first, stop in boundaries.clusters(bursts, self.shape.longest):
            inside[first:stop] = True
        if not inside.any():
            return
        self.mask = mask & ~(inside & bursts)
        errors = self.run_pass(smooth=False).errors / self.scale
        factor = float(self.limits.runs[:-1].max()) / step_scan.FAULT
        self.mask = boundaries.redraw(bursts, self.known & (bursts | ~mask), errors, self.shape, factor)
        self.mask |= mask & ~bursts
        if np.any(self.mask & ~mask):
            self._undo_refinement(mask, boundaries.clusters(bursts, self.shape.longest))

    def _undo_refinement(self, before: np.ndarray, clusters: list[tuple[int, int]]) -> None:
        """Restore measurements that were added to a cluster but are consistent with all other measurements."""
        # Refinement assumes a steady-state filter; before that, a huge fault seems to affect its neighbours.
        smoothed = self.run_pass()
        deviation = self.values - self.offset - smoothed.mean
        deviation /= np.sqrt(smoothed.variance + self.obs_var * self.ratio) * self.scale
        for first, stop in clusters:
            around = slice(max(first - boundaries.OUT, 0), stop + boundaries.OUT)
            added = deviation[around][self.mask[around] & ~before[around]]
            if added.size and np.sqrt(np.mean(added**2)) <= MIN_SENTINEL_DEVIATION:
                self.mask[around] &= before[around]

    def search_round(self) -> bool:
        """Run one round of the search; return whether anything changed."""
        before, shifts = self.mask.copy(), len(self.shifts)
        errors = self.run_pass(smooth=False).errors
        if self.season_scale is None:
            usable = self.known & ~self.mask
            self.season_scale = local_scale.season_scale(errors + self.blur, usable, self.place, self.period)
            self.scale *= self.season_scale
        errors /= self.scale
        found = step_scan.find(errors, self.known & ~self.mask, self.shape, self.limits)
        del errors
        if not len(found.first):
            return False
        runs = found.length > 0
        ends = (found.first[runs].tolist(), found.length[runs].tolist(), found.drift[runs].tolist())
        for first, length, drift in zip(*ends, strict=True):
            self.mask[first : first + length] = True
            if drift:
                self.drifts[first : first + length] = True
        for first, size in zip(found.first[~runs].tolist(), found.size[~runs], strict=True):
            self.offset[first:] += size * self.scale[first]
            self.shifts.append(first)
        smoothed = self.run_pass()
        # The local scale is estimated from what is left: next to a fault all other errors would look small.
        self.scale = self.local_error_scale(smoothed.errors)
        deviation = self.leave_one_out_errors(smoothed)
        out = np.flatnonzero(self.mask)
        error = (self.values - self.offset)[out] - smoothed.mean[out]
        deviation[out] = error / np.sqrt((smoothed.variance + self.obs_var * self.ratio)[out])
        del smoothed
        deviation /= self.scale
        np.nan_to_num(deviation, copy=False)
        self.mask = boundaries.pruned(self.mask & ~self.stuck, deviation, self.shape.longest) | self.stuck
        return len(self.shifts) > shifts or bool(np.any(self.mask != before))

    def local_error_scale(self, errors: np.ndarray) -> np.ndarray:
        """Estimate the size of the errors around each row, at its phase of the season, (T,)."""
        season = np.ones(len(errors)) if self.season_scale is None else self.season_scale
        usable = self.known & ~self.mask & ~self.dropped
        return np.asarray(season * local_scale.local_scale((errors + self.blur) / season, usable))

    def find_dropouts(self) -> None:
        """Leave out sentinel values such as 0 and -999, if they recur far from the other measurements."""
        for value in suspicious_values(self.values):
            same = self.values == value
            self.dropped |= same
            smoothed = self.run_pass()
            deviation = np.sqrt(smoothed.variance + self.obs_var * self.ratio)[same]
            errors = (value - self.offset - smoothed.mean)[same] / deviation
            if np.sqrt(np.mean(errors**2)) <= MIN_SENTINEL_DEVIATION:
                self.dropped &= ~same
                continue
            # Each run of the value by itself: 0 degrees between -0.02 and 0.01 is a measurement.
            far = np.zeros(len(same), bool)
            far[same] = np.abs(errors) > MIN_DROPOUT_DEVIATION * self.scale[same]
            firsts, stops = run_ends(same)
            self.dropped[same] = np.repeat(counts_in(far, firsts, stops) > 0, stops - firsts)
        self.mask &= ~self.dropped

    def correct_offsets(self, smoothed: SmootherPass) -> np.ndarray:
        """Subtract the offset of bursts that keep the shape of the series, and use their measurements.

        Args:
            smoothed: pass without the bursts.

        Returns:
            Variance of the subtracted offsets, (T,) or (1,).
        """
        bursts = self.mask & ~self.stuck & self.known & ~self.drifts
        if not bursts.any():
            return np.zeros(1)
        variance = (smoothed.variance + self.obs_var * self.ratio) * self.scale**2
        runs = offsets.candidates(bursts, self.values - self.offset - smoothed.mean, variance, self.shape)
        if not runs:
            return np.zeros(1)

        def errors_without(lift: np.ndarray, used: list[tuple[int, int]]) -> np.ndarray:
            self.lift, self.corrected = lift, np.zeros(len(lift), bool)
            for first, stop in used:
                self.corrected[first:stop] = True
            return self.run_pass(smooth=False).errors

        squares = np.minimum((smoothed.errors / self.scale) ** 2, step_scan.CUT**2)
        usual = float(squares[squares > 0.0].mean())
        self.lift, variance = offsets.find_offsets(errors_without, runs, usual, self.scale, self.shape)
        self.corrected = variance > 0.0
        return variance

    def fault_codes(self) -> np.ndarray:
        """Classify each row; indices into `FAULTS`, (T,)."""
        code = np.zeros(len(self.values), np.int8)
        rows = self.mask & ~self.stuck & self.known
        firsts, stops = run_ends(rows)
        lengths = stops - firsts
        drift = counts_in(self.drifts, firsts, stops) / lengths > boundaries.MOSTLY
        named = np.where(
            lengths < 2, FAULTS.index("spike"), np.where(drift, FAULTS.index("drift"), FAULTS.index("burst"))
        )
        code[rows] = np.repeat(named, lengths)
        code[self.stuck] = FAULTS.index("stuck")
        code[self.dropped] = FAULTS.index("dropout")
        code[self.shifts] = FAULTS.index("shift")
        code[~self.known] = FAULTS.index("gap")
        return code


def _steady_state_deviation(model: LinearModel) -> float:
    """Compute the standard deviation of a one-step error in steady state."""
    row = np.asarray(model.H)[0]
    dynamics = np.eye(len(row)) if model.F is None else np.asarray(model.F)
    return float(
        np.sqrt(
            steady_state.steady_state_gain(dynamics, row, np.asarray(model.Q)[None], np.asarray(model.R)[0]).variance[0]
        )
    )


def _middle(rows: np.ndarray) -> np.ndarray:
    """Select the middle rows as a sample."""
    first = max(0, (len(rows) - SAMPLE_ROWS) // 2)
    return rows[first : first + SAMPLE_ROWS]


def _calibration_errors(
    model: LinearModel, values: np.ndarray, place: np.ndarray, period: float | None, rounded: float
) -> np.ndarray:
    """Compute one-step errors over their deviation on a sample, by a filter with clipped innovations."""
    pieces = pieces_of(len(values))
    joined = [_errors_of_piece(model, values[slice(*piece)], period, rounded, len(pieces) > 1) for piece in pieces]
    errors = np.concatenate(joined)
    places = np.concatenate([place[stop - len(each) : stop] for each, (_, stop) in zip(joined, pieces, strict=True)])
    known = np.isfinite(errors)
    errors[~known] = 0.0
    errors /= local_scale.season_scale(errors, known, places, period)
    return np.asarray((errors / local_scale.local_scale(errors, known))[known])


def _errors_of_piece(
    model: LinearModel, values: np.ndarray, period: float | None, rounded: float, warmed_up: bool
) -> np.ndarray:
    """Compute the errors of one piece of a sample, in deviations; without those of its warm-up if `warmed_up`."""
    sample = _without_gross_errors(values)
    sample += quantization.noise_of(rounded, len(sample))
    row = np.asarray(model.H)[0]
    dynamics = np.eye(len(row)) if model.F is None else np.asarray(model.F)
    settled = steady_state.steady_state_gain(dynamics, row, np.asarray(model.Q)[None], np.asarray(model.R)[0])
    warmup = max(len(sample) // 8, 3 * len(row))
    if warmed_up:
        warmup = min(max(warmup, int(period or 0)), len(sample) // 2)
    start = steady_state.estimate_initial_state(sample[:warmup], dynamics, row)
    deviation = np.sqrt(settled.variance)
    cut = steady_state.CLIP_DEVIATIONS * deviation
    errors = steady_state.one_step_errors(sample, dynamics, row, settled.gain, start, cut)[:, 0] / deviation
    return np.asarray(errors[warmup:] if warmed_up else errors)


def _without_gross_errors(values: np.ndarray) -> np.ndarray:
    """Leave out what is far from its running median, so that faults do not affect the calibration."""
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return values.copy()
    apart = np.abs(values[known] - running_median(values[known], MEDIAN_WINDOW, "nearest"))
    usual = MAD_TO_STD * float(np.median(apart[apart > 0])) if np.any(apart > 0) else np.inf
    kept = values.copy()
    kept[known[apart > GROSS_DEVIATIONS * usual]] = np.nan
    return kept
