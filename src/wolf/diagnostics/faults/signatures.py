"""What a fault looks like in the one-step errors of a Kalman filter whose gain has settled.

On fixed matrices the gain settles, and the errors answer to a fault at step s in the same way wherever s lies. With
Φ = F (I - K H), and errors made white by W, W S Wᵀ = I, k steps after it

    a false measurement c:     W c  at k = 0,     -W H Φ^(k-1) F K c  after it
    a state that moved by δ:   W H Φ^k δ

All other faults are sums of the first kind: an error that lasts is one false measurement after the other.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from wolf.engine import steady_state

FORGOTTEN = 1e-8  # share of a fault that may be left in the errors where its answer is cut off; running sums add it up
LONGEST_ANSWER = 4096  # steps
SAME = 1e-6  # share of a constant that may be left for a move of the state to say the same


class Pattern(NamedTuple):
    """A kind of fault as it runs through the measurements.

    Attributes:
        family: "run" (a constant error), "step" (the same without end), "ramp" (grows, then back), "slope" (grows, then
            stays) or "jump" (of the state).
        length: steps of a run, or of what grows; 0 where there is none.
    """

    family: str
    length: int


class Responses:
    """The answers of one model's errors, to every pattern of fault.

    Args:
        model: linear, of fixed matrices.
    """

    def __init__(self, model: Any) -> None:
        self.dynamics = np.eye(model.state_dim) if model.F is None else np.asarray(model.F)
        self.rows = np.asarray(model.H)
        cov = steady_state.steady_state_cov(self.dynamics, self.rows, np.asarray(model.Q), np.asarray(model.R))
        innovation = self.rows @ cov @ self.rows.T + np.asarray(model.R)
        self.gain = np.linalg.solve(innovation, self.rows @ cov).T
        self.whitener = np.linalg.inv(np.linalg.cholesky(innovation))
        self._grams: dict[Pattern, np.ndarray] = {}

    @cached_property
    def powers(self) -> np.ndarray:
        """Powers of Φ, (K, D, D), until nothing that is seen is left."""
        closed = self.dynamics @ (np.eye(len(self.dynamics)) - self.gain @ self.rows)
        found = [np.eye(len(closed))]
        while len(found) < LONGEST_ANSWER and np.abs(found[-1]).max() > FORGOTTEN:
            found.append(found[-1] @ closed)
        return np.stack(found)

    @cached_property
    def jump(self) -> np.ndarray:
        """Answer to a move of each state, (K, M, D)."""
        return self.whitener @ self.rows @ self.powers

    @cached_property
    def outlier(self) -> np.ndarray:
        """Answer to one false measurement in each coordinate, (K + 1, M, M)."""
        later = -self.whitener @ self.rows @ self.powers @ self.dynamics @ self.gain
        return np.concatenate([self.whitener[None], later])

    def of(self, pattern: Pattern, steps: int) -> np.ndarray:
        """Answer to a pattern, followed for some steps: (steps, M, p), a column for each of its p sizes."""
        if pattern.family == "jump":
            return _cut(self.jump, steps)
        if pattern == ("run", 1):
            return _cut(self.outlier, steps)
        step = _cut(np.cumsum(self.outlier, axis=0), steps, last=True)
        if pattern.family == "step":
            return step
        later = _shifted(step, pattern.length)
        if pattern.family == "run":
            return step - later
        grown = np.cumsum(step - later, axis=0) / pattern.length  # steps up, one a step, for as long as it grows
        return grown if pattern.family == "slope" else grown - later

    def gram(self, pattern: Pattern) -> np.ndarray:
        """Form `Σ_k gᵀ g` of an answer g over its first 1, 2, ... steps, (K, p, p); then it grows by `tail`."""
        if pattern not in self._grams:
            answer = self.of(pattern, len(self.outlier) + pattern.length)
            self._grams[pattern] = np.cumsum(np.swapaxes(answer, 1, 2) @ answer, axis=0)
        return self._grams[pattern]

    @cached_property
    def left(self) -> np.ndarray:
        """What a false measurement that lasts leaves in the errors for good, (M, M): 0 if states may follow it."""
        last = self.outlier.sum(axis=0)
        return np.where(np.abs(last) > SAME, last, 0.0)

    def tail(self, pattern: Pattern) -> np.ndarray:
        """Say by how much the gram of a pattern grows with each further step, (p, p)."""
        if pattern.family in ("step", "slope"):
            return self.left.T @ self.left
        return np.zeros(self.gram(pattern).shape[1:])

    @cached_property
    def follows_steps(self) -> np.ndarray:
        """Say of each coordinate whether a state that moved could say the same as an error that lasts, (M,) of bool."""
        powers = [self.rows]
        for _ in range(2 * len(self.dynamics) - 1):
            powers.append(powers[-1] @ self.dynamics)
        seen = np.concatenate(powers)
        wanted = np.tile(np.eye(len(self.rows)), (2 * len(self.dynamics), 1))
        left = wanted - seen @ np.linalg.lstsq(seen, wanted, rcond=None)[0]
        return np.linalg.norm(left, axis=0) < SAME

    def stays(self, moved: np.ndarray) -> bool:
        """Say whether a move of the state, (D,), moves what is measured by a constant."""
        seen, now = self.rows @ moved, moved
        for _ in range(len(moved)):
            now = self.dynamics @ now
            if np.linalg.norm(self.rows @ now - seen) > SAME * np.linalg.norm(seen):
                return False
        return True


def _cut(values: np.ndarray, steps: int, last: bool = False) -> np.ndarray:
    """Take the first steps; what comes after the end is zero, or the last value again."""
    if steps <= len(values):
        return values[:steps]
    more = np.repeat(values[-1:] if last else np.zeros_like(values[-1:]), steps - len(values), axis=0)
    return np.concatenate([values, more])


def _shifted(values: np.ndarray, steps: int) -> np.ndarray:
    return np.concatenate([np.zeros_like(values[:steps]), values[: len(values) - steps]])
