"""GLR scan: the likelihood ratio of every fault pattern at every step, from whitened innovations.

With e the innovations and g the signature of a pattern (`signatures.py`), `G(s) = Σ_k g(k)ᵀ e(s + k)` and
`N = Σ_k gᵀ g`, the likelihood ratio statistic of the pattern at step s is `Gᵀ N⁻¹ G`, which is χ² with p degrees of
freedom without a fault, and the estimated size is N⁻¹ G (Willsky & Jones 1976; de Jong & Penzer 1998, *Diagnosing
shocks in time series*, JASA 93). Only the G of a single false measurement and of a jump need a correlation; those of
persistent errors are its running sums.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from wolf.diagnostics.faults.correlation import correlate
from wolf.diagnostics.faults.signatures import FaultSignatures, Pattern
from wolf.numerics.pytree import PyTree
from wolf.numerics.runs import merge_ranges

PATTERN_LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200, 256)
MIN_RAMP_STEPS = 12  # steps of the shortest ramp; faster growth is a burst or a jump
FALSE_ALARM_PROBABILITY = 0.002  # probability that a clean series has a fault of a given family

RELATIVE_RIDGE = 1e-9  # relative eigenvalue below which a direction carries no information
STEPS_PER_BLOCK = 8192  # steps evaluated together, so that intermediate arrays stay in the processor's cache


class FaultCandidate(NamedTuple):
    """FaultCandidate fault: a pattern at a step.

    Attributes:
        score: likelihood ratio statistic minus its detection threshold.
        step: first step.
        pattern: time course.
        sensor: affected coordinate; None for all of them, or for a jump.
    """

    score: float
    step: int
    pattern: Pattern
    sensor: int | None


class GramTable:
    """Gram matrices N of a pattern that is observed for 1, 2, ... K steps, and their factors.

    Attributes:
        grams: N, (K, p, p).
        scales: 1 over the root of their diagonals, (K, p).
        root: A with AᵀA the inverse of the last, (p, p).
    """

    def __init__(self, grams: np.ndarray) -> None:
        self.grams = grams
        diagonals = np.maximum(np.diagonal(grams, axis1=1, axis2=2), RELATIVE_RIDGE)
        self.scales = 1.0 / np.sqrt(diagonals)
        self._root_diagonal = np.sqrt(diagonals[-1])
        self.root = np.linalg.inv(np.linalg.cholesky(self._regularised(grams[-1]))) / self._root_diagonal

    def _regularised(self, grams: np.ndarray) -> np.ndarray:
        # Unobserved directions must not contribute: the ridge makes their likelihood ratio zero.
        return grams / np.outer(self._root_diagonal, self._root_diagonal) + RELATIVE_RIDGE * np.eye(
            len(self._root_diagonal)
        )

    @cached_property
    def inverses(self) -> np.ndarray:
        """Inverses of all gram matrices, (K, p, p)."""
        return np.linalg.inv(self._regularised(self.grams)) / np.outer(self._root_diagonal, self._root_diagonal)


Steps = slice | np.ndarray  # consecutive steps, or arbitrary ones


class GlrScan:
    """Correlations of innovations with fault signatures, and the best pattern of each family at each step.

    Args:
        errors: whitened innovations, (T, M); 0 where missing.
        signatures: fault signatures of the model.
    """

    def __init__(self, errors: np.ndarray, signatures: FaultSignatures) -> None:
        self.signatures, self.num_steps = signatures, len(errors)
        self._gram_tables: dict[Pattern, GramTable] = {}
        self.thresholds = detection_thresholds(len(errors), errors.shape[1], signatures.jump.shape[2])
        self.patterns = search_patterns(self.num_steps)
        self.jump_correlation = np.empty((signatures.jump.shape[2], self.num_steps))
        self.outlier_correlation = np.empty((errors.shape[1], self.num_steps))
        self.best_scores = {pattern.family: np.empty(self.num_steps) for pattern in self.patterns}
        self.best_lengths = {family: np.zeros(self.num_steps, int) for family in self.best_scores}
        self.update(errors, [(0, self.num_steps)])

    def update(self, errors: np.ndarray, changed: list[tuple[int, int]]) -> None:
        """Update the scan after the innovations have changed at the steps `changed` [(first, stop), ...]."""
        reach = max(len(self.signatures.jump), len(self.signatures.outlier))
        ranges = merge_ranges([(max(first - reach, 0), stop) for first, stop in changed])
        for first, stop in ranges:
            observed = errors[first : stop + reach].T
            self.jump_correlation[:, first:stop] = _correlate(observed, self.signatures.jump, stop - first)
            self.outlier_correlation[:, first:stop] = _correlate(observed, self.signatures.outlier, stop - first)
        zeros = np.zeros((len(self.outlier_correlation), 2 * PATTERN_LENGTHS[-1]))  # after the end
        # Running sums C(s) = Σ_{i >= s} G(i), and the running sums of those.
        self.step_sums = np.concatenate([_reverse_cumsum(self.outlier_correlation), zeros], axis=1)
        self.ramp_sums = np.concatenate([_reverse_cumsum(self.step_sums[:, : self.num_steps]), zeros], axis=1)
        if self.signatures.permanent_effect.any():  # a change affects all candidates that start before it
            ranges = [(0, self.num_steps)]
        for first, stop in merge_ranges([(max(first - PATTERN_LENGTHS[-1], 0), stop) for first, stop in ranges]):
            for start in range(first, stop, STEPS_PER_BLOCK):
                self._update_best(start, min(start + STEPS_PER_BLOCK, stop))

    def _update_best(self, first: int, stop: int) -> None:
        """Find the best length of each family at some steps, and its score."""
        for scores in self.best_scores.values():
            scores[first:stop] = -np.inf
        for pattern in self.patterns:
            last = min(stop, self.num_steps - pattern.length)
            if first < last:
                best, scores = self.best_scores[pattern.family][first:last], self.scores(pattern, slice(first, last))
                np.copyto(self.best_lengths[pattern.family][first:last], pattern.length, where=scores > best)
                np.maximum(best, scores, out=best)

    def correlation(self, pattern: Pattern, steps: Steps) -> np.ndarray:
        """Return G of a pattern that starts at each of some steps, (p, n)."""
        family, length = pattern
        if family == "jump":
            return self.jump_correlation[:, steps]
        from_start = self.step_sums[:, steps]
        if family == "step":
            return from_start
        ends = slice(steps.start + length, steps.stop + length) if isinstance(steps, slice) else steps + length
        from_end = self.step_sums[:, ends]
        if family == "run":
            return from_start - from_end
        # A ramp with values 1/L, 2/L, ..., 1 is a sum of steps.
        ramp = (self.ramp_sums[:, steps] - self.ramp_sums[:, ends]) / length
        return ramp if family == "slope" else ramp - from_end

    def likelihood_ratios(self, pattern: Pattern, steps: Steps) -> tuple[np.ndarray, np.ndarray]:
        """Compute likelihood ratios of a pattern at some steps: best coordinate, and all jointly, (n,) each."""
        total, table = self.correlation(pattern, steps), self._gram_table(pattern)
        joint = _square_sum(table.root @ total)
        has_several = len(total) > 1 and pattern.family != "jump"
        alone = ((total * table.scales[-1][:, None]) ** 2).max(axis=0) if has_several else joint
        truncated, count = self._truncated(steps, len(table.scales))
        if len(count):
            subset = total[:, truncated]
            joint[truncated] = np.einsum("it,tij,jt->t", subset, table.inverses[count], subset)
            alone[truncated] = ((subset.T * table.scales[count]) ** 2).max(axis=1) if has_several else joint[truncated]
        return alone, joint

    def _truncated(self, steps: Steps, full_length: int) -> tuple[PyTree, np.ndarray]:
        """Find the steps whose signature is truncated by the end of the series, and its last observed step."""
        if isinstance(steps, slice):
            first = max(self.num_steps - full_length + 1, steps.start)
            return slice(first - steps.start, None), self.num_steps - np.arange(first, steps.stop) - 1
        truncated = np.flatnonzero(steps > self.num_steps - full_length)
        return truncated, self.num_steps - steps[truncated] - 1

    def _gram_table(self, pattern: Pattern) -> GramTable:
        """Return the gram matrices of a pattern that is observed for 1, 2, ... steps, until they are constant."""
        if pattern not in self._gram_tables:
            gram, growth = self.signatures.gram(pattern), self.signatures.gram_growth(pattern)
            counts = np.arange(1, (self.num_steps if growth.any() else min(len(gram), self.num_steps)) + 1)
            grams = gram[np.minimum(counts, len(gram)) - 1] + np.maximum(counts - len(gram), 0)[:, None, None] * growth
            self._gram_tables[pattern] = GramTable(grams)
        return self._gram_tables[pattern]

    def scores(self, pattern: Pattern, steps: Steps) -> np.ndarray:
        """Compute the excess of the likelihood ratio over its threshold for a pattern at some steps, (n,)."""
        alone, joint = self.likelihood_ratios(pattern, steps)
        if pattern.family == "jump":
            return joint - self.thresholds["jump"]
        return np.maximum(alone - self.thresholds["alone"], joint - self.thresholds["together"])

    def candidate(self, pattern: Pattern, step: int) -> FaultCandidate:
        """Return the candidate for a pattern at one step."""
        return self.candidates(pattern, np.array([step]))[0]

    def candidates(self, pattern: Pattern, steps: np.ndarray) -> list[FaultCandidate]:
        """Return the candidates for a pattern at some steps."""
        alone, joint = self.likelihood_ratios(pattern, steps)
        if pattern.family == "jump":
            return [
                FaultCandidate(score, step, pattern, None)
                for score, step in _rows(joint - self.thresholds["jump"], steps)
            ]
        single, joint = alone - self.thresholds["alone"], joint - self.thresholds["together"]
        scales = self._observed_part(self._gram_table(pattern).scales, steps)
        best = np.abs(self.correlation(pattern, steps).T * scales).argmax(axis=1)
        rows = _rows(np.maximum(single, joint), steps, best, single >= joint)
        return [
            FaultCandidate(score, step, pattern, sensor if is_single else None)
            for score, step, sensor, is_single in rows
        ]

    def _observed_part(self, table: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Select the entries of a table by the number of steps that are observed from each of some steps."""
        return np.asarray(table[np.minimum(self.num_steps - steps, len(table)) - 1])

    def grams(self, candidates: list[FaultCandidate]) -> np.ndarray:
        """Return N of a pattern at several steps, for its observed part, (n, p, p)."""
        steps = np.array([candidate.step for candidate in candidates])
        return self._observed_part(self._gram_table(candidates[0].pattern).grams, steps)

    def sizes(self, candidates: list[FaultCandidate]) -> list[np.ndarray]:
        """Estimate the sizes, (p,) each, of a pattern at several steps."""
        if not candidates:
            return []
        pattern, steps = candidates[0].pattern, np.array([candidate.step for candidate in candidates])
        totals, grams = self.correlation(pattern, steps).T, self.grams(candidates)
        alone = totals / np.maximum(np.diagonal(grams, axis1=1, axis2=2), RELATIVE_RIDGE)
        sizes = []
        for candidate, total, gram, each in zip(candidates, totals, grams, alone, strict=True):
            if candidate.sensor is None:
                sizes.append(np.linalg.lstsq(gram, total, rcond=RELATIVE_RIDGE)[0])
            else:
                sizes.append(np.where(np.arange(len(total)) == candidate.sensor, each, 0.0))
        return sizes


def detection_thresholds(steps: int, measured: int, states: int) -> dict[str, float]:
    """Compute the detection thresholds: for one coordinate, for all jointly, and for a jump."""
    from scipy.special import gammainccinv

    probability = FALSE_ALARM_PROBABILITY / (steps * len(PATTERN_LENGTHS))

    def threshold(degrees: int, num_tests: int) -> float:
        return 2.0 * float(gammainccinv(0.5 * degrees, probability / num_tests))

    return {"alone": threshold(1, measured), "together": threshold(measured, 1), "jump": threshold(states, 1)}


def search_patterns(steps: int) -> list[Pattern]:
    """List the patterns that are searched in a series of the given length."""
    lengths = [length for length in PATTERN_LENGTHS if length < steps]
    ramps = [Pattern(family, n) for family in ("ramp", "slope") for n in lengths if n >= MIN_RAMP_STEPS]
    return [Pattern("jump", 0), Pattern("step", 0), *(Pattern("run", n) for n in lengths), *ramps]


def _correlate(errors: np.ndarray, signature: np.ndarray, count: int) -> np.ndarray:
    size = 1 << (len(signature) + min(3 * len(signature), count) - 1).bit_length()
    return correlate(errors, signature, count, size)


def _square_sum(values: np.ndarray) -> np.ndarray:
    values *= values
    return values.sum(axis=0) if len(values) > 1 else values[0]


def _rows(*columns: np.ndarray) -> Iterator[Any]:
    return zip(*(column.tolist() for column in columns), strict=True)


def _reverse_cumsum(values: np.ndarray) -> np.ndarray:
    return np.cumsum(values[:, ::-1], axis=1)[:, ::-1]
