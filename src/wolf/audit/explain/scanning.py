"""Look for faults of all patterns at all steps at once, in the white errors of a Kalman filter.

With e the errors and g the answer to a pattern (`responses.py`), `G(s) = Σ_k g(k)ᵀ e(s + k)` and `N = Σ_k gᵀ g`, what
a pattern at step s explains is `Gᵀ N⁻¹ G`, twice the gain in log likelihood, χ² with p degrees of freedom where nothing
happened, and its size is N⁻¹ G (de Jong & Penzer 1998, *Diagnosing shocks in time series*, JASA 93). Only the G of a
single false measurement and that of a jump take a correlation; those of errors that last are its running sums.
"""

from typing import NamedTuple

import numpy as np

from wolf.audit.explain.responses import Pattern, Responses

LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200, 256)
SHORTEST_RAMP = 12  # steps; what grows faster is a burst or a jump
CHANCE = 0.002  # of a clean series to have a fault by chance, of each family
FAMILIES = 4
SMALL = 1e-9  # of the largest, below which a direction says nothing


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


class Norms(NamedTuple):
    """N of a pattern that is seen for 1, 2, ... steps, and its inverse: (K, p, p) each."""

    grams: np.ndarray
    inverses: np.ndarray


class Sums:
    """Correlations of errors with the answers to faults.

    Args:
        errors: white, (T, M); 0 where nothing was measured.
        answers: of the model.
        before: sums of a series of the same length, whose norms are used again.
    """

    def __init__(self, errors: np.ndarray, answers: Responses, before: "Sums | None" = None) -> None:
        self.answers, self.steps = answers, len(errors)
        self._known: dict[Pattern, Norms] = {} if before is None else before._known
        self.limits = limits(len(errors), errors.shape[1], answers.jump.shape[2])
        self.jump = _correlate(errors, answers.jump)
        zeros = np.zeros((2 * LENGTHS[-1], errors.shape[1]))  # after the end
        self.step = np.concatenate([_sum_back(_correlate(errors, answers.outlier)), zeros])  # C(s) = Σ_{i ≥ s} G(i)
        self.twice = np.concatenate([_sum_back(self.step[: self.steps]), zeros])

    def of(self, pattern: Pattern, first: int, stop: int) -> np.ndarray:
        """G of a pattern that begins at each of some steps in a row, (n, p)."""
        family, length = pattern
        if family == "jump":
            return self.jump[first:stop]
        if family == "step":
            return self.step[first:stop]
        ends = slice(first + length, stop + length)
        if family == "run":
            return self.step[first:stop] - self.step[ends]
        # Values 1/L, 2/L, ..., 1: one step up after the other.
        grown = (self.twice[first:stop] - self.twice[ends]) / length
        return grown if family == "slope" else grown - self.step[ends]

    def explained(self, pattern: Pattern, first: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Say what a pattern at some steps explains: by its best coordinate alone, and by all together, (n,) each."""
        total, norms = self.of(pattern, first, stop), self._norms(pattern)
        count = len(norms.grams)
        usual = min(max(self.steps - count + 1 - first, 0), stop - first)  # of these steps have the whole N
        late = self.steps - np.arange(first + usual, stop) - 1
        together = np.empty(stop - first)
        together[:usual] = np.einsum("ti,ti->t", total[:usual] @ norms.inverses[-1], total[:usual])
        together[usual:] = np.einsum("ti,tij,tj->t", total[usual:], norms.inverses[late], total[usual:])
        if pattern.family == "jump":
            return np.full(stop - first, -np.inf), together
        if total.shape[1] == 1:
            return together, together
        scales = 1.0 / np.maximum(np.diagonal(norms.grams, axis1=1, axis2=2), SMALL)
        alone = np.zeros(stop - first)
        for column, scale in zip(total.T, scales.T, strict=True):
            parts = column**2
            parts[:usual] *= scale[-1]
            parts[usual:] *= scale[late]
            np.maximum(alone, parts, out=alone)
        return alone, together

    def _norms(self, pattern: Pattern) -> "Norms":
        """Take N of a pattern that is seen for 1, 2, ... steps, as many as matter, and its inverses."""
        if pattern not in self._known:
            gram, tail = self.answers.gram(pattern), self.answers.tail(pattern)
            counts = np.arange(1, (self.steps if tail.any() else min(len(gram), self.steps)) + 1)
            grams = gram[np.minimum(counts, len(gram)) - 1] + np.maximum(counts - len(gram), 0)[:, None, None] * tail
            scale = np.sqrt(np.maximum(np.diagonal(grams[-1]), SMALL))
            whole = np.outer(scale, scale)
            # A direction that is not seen yet must not count: a share of the whole is added, and it gets no evidence.
            self._known[pattern] = Norms(grams, np.linalg.inv(grams / whole + SMALL * np.eye(len(scale))) / whole)
        return self._known[pattern]

    def _gram(self, pattern: Pattern, step: int) -> np.ndarray:
        grams = self._norms(pattern).grams
        return grams[min(self.steps - step, len(grams)) - 1]

    def scores(self, pattern: Pattern, first: int, stop: int) -> np.ndarray:
        """Say by how much a pattern that begins at each of some steps explains more than chance would, (n,)."""
        alone, together = self.explained(pattern, first, stop)
        if pattern.family == "jump":
            return together - self.limits["jump"]
        return np.maximum(alone - self.limits["alone"], together - self.limits["together"])

    def spot(self, pattern: Pattern, step: int) -> Spot:
        """Look at one pattern at one step."""
        alone, together = (float(each[0]) for each in self.explained(pattern, step, step + 1))
        if pattern.family == "jump":
            return Spot(together - self.limits["jump"], step, pattern, None)
        total, gram = self.of(pattern, step, step + 1)[0], self._gram(pattern, step)
        best = int((total**2 / np.maximum(np.diagonal(gram), SMALL)).argmax())
        single, joint = alone - self.limits["alone"], together - self.limits["together"]
        return Spot(max(single, joint), step, pattern, best if single >= joint else None)

    def size(self, spot: Spot) -> np.ndarray:
        """Estimate a pattern's size, (p,)."""
        total, gram = self.of(spot.pattern, spot.step, spot.step + 1)[0], self._gram(spot.pattern, spot.step)
        if spot.sensor is None:
            return np.linalg.lstsq(gram, total, rcond=SMALL)[0]
        return np.where(np.arange(len(total)) == spot.sensor, total / np.maximum(np.diagonal(gram), SMALL), 0.0)


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


def _correlate(errors: np.ndarray, answer: np.ndarray) -> np.ndarray:
    """Form `G(s) = Σ_k g(k)ᵀ e(s + k)`, (T, p), by Fourier transforms."""
    size = 1 << (len(errors) + len(answer) - 1).bit_length()
    seen, turned = np.fft.rfft(errors, size, axis=0), np.conj(np.fft.rfft(answer, size, axis=0))
    return np.fft.irfft(np.einsum("fi,fij->fj", seen, turned), size, axis=0)[: len(errors)]


def _sum_back(values: np.ndarray) -> np.ndarray:
    return np.cumsum(values[::-1], axis=0)[::-1]
