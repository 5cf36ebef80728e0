"""Look for faults of all patterns at all steps at once, in the white errors of a Kalman filter.

With e the errors and g the answer to a pattern (`responses.py`), `G(s) = Σ_k g(k)ᵀ e(s + k)` and `N = Σ_k gᵀ g`, what
a pattern at step s explains is `Gᵀ N⁻¹ G`, twice the gain in log likelihood, χ² with p degrees of freedom where nothing
happened, and its size is N⁻¹ G (de Jong & Penzer 1998, *Diagnosing shocks in time series*, JASA 93). Only the G of a
single false measurement and that of a jump take a correlation; those of errors that last are its running sums.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from wolf.diagnostics.faults.signatures import Pattern, Responses

LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200, 256)
SHORTEST_RAMP = 12  # steps; what grows faster is a burst or a jump
CHANCE = 0.002  # of a clean series to have a fault by chance, of each family
FAMILIES = 4
SMALL = 1e-9  # of the largest, below which a direction says nothing
BLOCK = 8192  # steps that are looked at together: what is kept of them stays in the processor's cache


class Spot(NamedTuple):
    """A pattern at a place.

    Attributes:
        score: what it explains, less what chance would.
        step: its first.
        pattern: which.
        sensor: the coordinate that is off; None for all of them, or for a jump.
    """

    score: float
    step: int
    pattern: Pattern
    sensor: int | None


class Norms:
    """What is needed of N, for a pattern that is seen for 1, 2, ... K steps.

    Attributes:
        grams: N, (K, p, p).
        scales: 1 over the root of their diagonals, (K, p).
        root: A with AᵀA the inverse of the last, (p, p).
    """

    def __init__(self, grams: np.ndarray) -> None:
        self.grams = grams
        diagonals = np.maximum(np.diagonal(grams, axis1=1, axis2=2), SMALL)
        self.scales = 1.0 / np.sqrt(diagonals)
        self._whole = np.sqrt(diagonals[-1])
        self.root = np.linalg.inv(np.linalg.cholesky(self._padded(grams[-1]))) / self._whole

    def _padded(self, grams: np.ndarray) -> np.ndarray:
        # A direction that is not seen yet must not count: a share of the whole is added, and it gets no evidence.
        return grams / np.outer(self._whole, self._whole) + SMALL * np.eye(len(self._whole))

    @cached_property
    def inverses(self) -> np.ndarray:
        """Inverses of all of them, (K, p, p)."""
        return np.linalg.inv(self._padded(self.grams)) / np.outer(self._whole, self._whole)


Steps = slice | np.ndarray  # steps in a row, or any


class Sums:
    """Correlations of errors with the answers to faults.

    Args:
        errors: white, (T, M); 0 where nothing was measured.
        answers: of the model.
    """

    def __init__(self, errors: np.ndarray, answers: Responses) -> None:
        self.answers, self.steps = answers, len(errors)
        self._known: dict[Pattern, Norms] = {}
        self.limits = limits(len(errors), errors.shape[1], answers.jump.shape[2])
        self.patterns = patterns(self.steps)
        self.jump = np.empty((answers.jump.shape[2], self.steps))
        self.alone = np.empty((errors.shape[1], self.steps))
        self.best = {pattern.family: np.empty(self.steps) for pattern in self.patterns}  # scores, and their lengths
        self.lengths = {family: np.zeros(self.steps, int) for family in self.best}
        self.look(errors, [(0, self.steps)])

    def look(self, errors: np.ndarray, changed: list[tuple[int, int]]) -> None:
        """Look at errors of which some have changed since the last time, `changed` [(first, stop), ...]."""
        reach = max(len(self.answers.jump), len(self.answers.outlier))
        ranges = joined([(max(first - reach, 0), stop) for first, stop in changed])
        for first, stop in ranges:
            seen = errors[first : stop + reach].T
            self.jump[:, first:stop] = correlate(seen, self.answers.jump, stop - first)
            self.alone[:, first:stop] = correlate(seen, self.answers.outlier, stop - first)
        zeros = np.zeros((len(self.alone), 2 * LENGTHS[-1]))  # after the end
        self.step = np.concatenate([_sum_back(self.alone), zeros], axis=1)  # C(s) = Σ_{i ≥ s} G(i)
        self.twice = np.concatenate([_sum_back(self.step[:, : self.steps]), zeros], axis=1)
        if self.answers.left.any():  # a change shows in all that begins before it
            ranges = [(0, self.steps)]
        for first, stop in joined([(max(first - LENGTHS[-1], 0), stop) for first, stop in ranges]):
            for start in range(first, stop, BLOCK):
                self._look_at(start, min(start + BLOCK, stop))

    def _look_at(self, first: int, stop: int) -> None:
        """Find what each family explains at some steps, at the best of its lengths."""
        for scores in self.best.values():
            scores[first:stop] = -np.inf
        for pattern in self.patterns:
            last = min(stop, self.steps - pattern.length)
            if first < last:
                mine, scores = self.best[pattern.family][first:last], self.scores(pattern, slice(first, last))
                np.copyto(self.lengths[pattern.family][first:last], pattern.length, where=scores > mine)
                np.maximum(mine, scores, out=mine)

    def of(self, pattern: Pattern, steps: Steps) -> np.ndarray:
        """G of a pattern that begins at each of some steps, (p, n)."""
        family, length = pattern
        if family == "jump":
            return self.jump[:, steps]
        begun = self.step[:, steps]
        if family == "step":
            return begun
        ends = slice(steps.start + length, steps.stop + length) if isinstance(steps, slice) else steps + length
        ended = self.step[:, ends]
        if family == "run":
            return begun - ended
        # Values 1/L, 2/L, ..., 1: one step up after the other.
        grown = (self.twice[:, steps] - self.twice[:, ends]) / length
        return grown if family == "slope" else grown - ended

    def explained(self, pattern: Pattern, steps: Steps) -> tuple[np.ndarray, np.ndarray]:
        """Say what a pattern at some steps explains: by its best coordinate alone, and by all together, (n,) each."""
        total, norms = self.of(pattern, steps), self._norms(pattern)
        together = _square_sum(norms.root @ total)
        several = len(total) > 1 and pattern.family != "jump"
        alone = ((total * norms.scales[-1][:, None]) ** 2).max(axis=0) if several else together
        late, count = self._late(steps, len(norms.scales))  # not all of the answer lies before the end of the series
        if len(count):
            some = total[:, late]
            together[late] = np.einsum("it,tij,jt->t", some, norms.inverses[count], some)
            alone[late] = ((some.T * norms.scales[count]) ** 2).max(axis=1) if several else together[late]
        return alone, together

    def _late(self, steps: Steps, whole: int) -> tuple[Any, np.ndarray]:
        """Say which of some steps see less than a whole answer, as an index, and how much of it."""
        if isinstance(steps, slice):
            first = max(self.steps - whole + 1, steps.start)
            return slice(first - steps.start, None), self.steps - np.arange(first, steps.stop) - 1
        late = np.flatnonzero(steps > self.steps - whole)
        return late, self.steps - steps[late] - 1

    def _norms(self, pattern: Pattern) -> Norms:
        """Take N of a pattern that is seen for 1, 2, ... steps, as many as matter."""
        if pattern not in self._known:
            gram, tail = self.answers.gram(pattern), self.answers.tail(pattern)
            counts = np.arange(1, (self.steps if tail.any() else min(len(gram), self.steps)) + 1)
            grams = gram[np.minimum(counts, len(gram)) - 1] + np.maximum(counts - len(gram), 0)[:, None, None] * tail
            self._known[pattern] = Norms(grams)
        return self._known[pattern]

    def scores(self, pattern: Pattern, steps: Steps) -> np.ndarray:
        """Say by how much a pattern that begins at each of some steps explains more than chance would, (n,)."""
        alone, together = self.explained(pattern, steps)
        if pattern.family == "jump":
            return together - self.limits["jump"]
        return np.maximum(alone - self.limits["alone"], together - self.limits["together"])

    def spot(self, pattern: Pattern, step: int) -> Spot:
        """Look at one pattern at one step."""
        return self.spots(pattern, np.array([step]))[0]

    def spots(self, pattern: Pattern, steps: np.ndarray) -> list[Spot]:
        """Look at one pattern at some steps."""
        alone, together = self.explained(pattern, steps)
        if pattern.family == "jump":
            return [Spot(score, step, pattern, None) for score, step in _rows(together - self.limits["jump"], steps)]
        single, joint = alone - self.limits["alone"], together - self.limits["together"]
        best = np.abs(self.of(pattern, steps).T * self._at(pattern, steps, "scales")).argmax(axis=1)
        rows = _rows(np.maximum(single, joint), steps, best, single >= joint)
        return [Spot(score, step, pattern, sensor if one else None) for score, step, sensor, one in rows]

    def _at(self, pattern: Pattern, steps: np.ndarray, name: str) -> np.ndarray:
        """Take a field of the norms of a pattern, as much as is seen of it from some steps."""
        values = getattr(self._norms(pattern), name)
        return values[np.minimum(self.steps - steps, len(values)) - 1]

    def grams(self, spots: list[Spot]) -> np.ndarray:
        """Take N of a pattern at several places, as much as is seen of it there, (n, p, p)."""
        return self._at(spots[0].pattern, np.array([spot.step for spot in spots]), "grams")

    def sizes(self, spots: list[Spot]) -> list[np.ndarray]:
        """Estimate the sizes, (p,) each, of a pattern at several places."""
        if not spots:
            return []
        pattern, steps = spots[0].pattern, np.array([spot.step for spot in spots])
        totals, grams = self.of(pattern, steps).T, self.grams(spots)
        alone = totals / np.maximum(np.diagonal(grams, axis1=1, axis2=2), SMALL)
        found = []
        for spot, total, gram, each in zip(spots, totals, grams, alone, strict=True):
            if spot.sensor is None:
                found.append(np.linalg.lstsq(gram, total, rcond=SMALL)[0])
            else:
                found.append(np.where(np.arange(len(total)) == spot.sensor, each, 0.0))
        return found


def limits(steps: int, measured: int, states: int) -> dict[str, float]:
    """Find what chance explains at most, of one number, of all coordinates and of a jump."""
    from scipy.special import gammainccinv

    chance = CHANCE / (steps * len(LENGTHS))

    def limit(degrees: int, looks: int) -> float:
        return 2.0 * float(gammainccinv(0.5 * degrees, chance / looks))

    return {"alone": limit(1, measured), "together": limit(measured, 1), "jump": limit(states, 1)}


def patterns(steps: int) -> list[Pattern]:
    """List the patterns that are looked for in a series of so many steps."""
    fitting = [length for length in LENGTHS if length < steps]
    growing = [Pattern(family, n) for family in ("ramp", "slope") for n in fitting if n >= SHORTEST_RAMP]
    return [Pattern("jump", 0), Pattern("step", 0), *(Pattern("run", n) for n in fitting), *growing]


def correlate(errors: np.ndarray, answer: np.ndarray, count: int) -> np.ndarray:
    """Form `G(s) = Σ_k g(k)ᵀ e(s + k)` for the first steps s, by Fourier transforms of pieces that overlap.

    Args:
        errors: (M, n); 0 after the end.
        answer: g, (K, M, p).
        count: of steps s.

    Returns:
        G, (p, count).
    """
    size = 1 << (len(answer) + min(3 * len(answer), count) - 1).bit_length()
    hop = size - len(answer) + 1  # of which nothing wraps around
    pieces = -(-count // hop)
    padded = np.zeros((len(errors), (pieces - 1) * hop + size))
    length = min(errors.shape[1], padded.shape[1])
    padded[:, :length] = errors[:, :length]
    seen = np.fft.rfft(np.lib.stride_tricks.sliding_window_view(padded, size, axis=1)[:, ::hop])
    turned = np.conj(np.fft.rfft(answer, size, axis=0)).transpose(2, 1, 0)
    found = np.stack([sum(seen[j] * row[j] for j in range(len(errors))) for row in turned])
    return np.fft.irfft(found, size)[:, :, :hop].reshape(len(found), -1)[:, :count]


def joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Put ranges (first, stop) that overlap together."""
    found: list[tuple[int, int]] = []
    for first, stop in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], stop)
        else:
            found.append((first, stop))
    return found


def _square_sum(values: np.ndarray) -> np.ndarray:
    values *= values
    return values.sum(axis=0) if len(values) > 1 else values[0]


def _rows(*columns: np.ndarray) -> Iterator[Any]:
    return zip(*(column.tolist() for column in columns), strict=True)


def _sum_back(values: np.ndarray) -> np.ndarray:
    return np.cumsum(values[:, ::-1], axis=1)[:, ::-1]
