"""Fault signatures: the effect of a fault on the whitened innovations of a steady-state Kalman filter.

With constant matrices the gain converges, and the innovations after a fault at step s do not depend on s. With
Φ = F (I - K H), and innovations whitened by W, W S Wᵀ = I, k steps after it

    a false measurement c:     W c  at k = 0,     -W H Φ^(k-1) F K c  after it
    a shift δ of the state:    W H Φ^k δ

All other faults are sums of the first kind: a persistent error is a sequence of false measurements.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from wolf.engine import steady_state
from wolf.statespace import LinearModel

TRUNCATION_TOLERANCE = (
    1e-8  # share of a fault left in the innovations where its signature is truncated; running sums accumulate it
)
MAX_SIGNATURE_STEPS = 4096  # maximum length of a signature
RELATIVE_TOLERANCE = 1e-6  # relative deviation up to which two effects count as equal


class Pattern(NamedTuple):
    """Time course of a fault.

    Attributes:
        family: "run" (a constant error), "step" (the same without end), "ramp" (growing, then back), "slope" (growing,
            then constant) or "jump" (of the state).
        length: steps of a run, or of the growth; 0 where not applicable.
    """

    family: str
    length: int


class FaultSignatures:
    """Signatures of all patterns of faults for one model.

    Args:
        model: linear model with constant matrices.
    """

    def __init__(self, model: LinearModel) -> None:
        self.dynamics = np.eye(model.state_dim) if model.F is None else np.asarray(model.F)
        self.obs_matrix = np.asarray(model.H)
        cov = steady_state.steady_state_cov(self.dynamics, self.obs_matrix, np.asarray(model.Q), np.asarray(model.R))
        innovation = self.obs_matrix @ cov @ self.obs_matrix.T + np.asarray(model.R)
        self.gain = np.linalg.solve(innovation, self.obs_matrix @ cov).T
        self.whitener = np.linalg.inv(np.linalg.cholesky(innovation))
        self._grams: dict[Pattern, np.ndarray] = {}

    @cached_property
    def powers(self) -> np.ndarray:
        """Powers of Φ, (K, D, D), until they are negligible."""
        closed_loop = self.dynamics @ (np.eye(len(self.dynamics)) - self.gain @ self.obs_matrix)
        powers_so_far = [np.eye(len(closed_loop))]
        while len(powers_so_far) < MAX_SIGNATURE_STEPS and np.abs(powers_so_far[-1]).max() > TRUNCATION_TOLERANCE:
            powers_so_far.append(powers_so_far[-1] @ closed_loop)
        return np.stack(powers_so_far)

    @cached_property
    def jump(self) -> np.ndarray:
        """Signature of a shift of each state, (K, M, D)."""
        return self.whitener @ self.obs_matrix @ self.powers

    @cached_property
    def outlier(self) -> np.ndarray:
        """Signature of one false measurement in each coordinate, (K + 1, M, M)."""
        later = -self.whitener @ self.obs_matrix @ self.powers @ self.dynamics @ self.gain
        return np.concatenate([self.whitener[None], later])

    def signature(self, pattern: Pattern, steps: int) -> np.ndarray:
        """Compute the signature of a pattern over some steps, (steps, M, p), one column for each of its p sizes."""
        if pattern.family == "jump":
            return _first_steps(self.jump, steps)
        if pattern == ("run", 1):
            return _first_steps(self.outlier, steps)
        step = _first_steps(np.cumsum(self.outlier, axis=0), steps, last=True)
        if pattern.family == "step":
            return step
        later = _delay(step, pattern.length)
        if pattern.family == "run":
            return step - later
        grown = np.cumsum(step - later, axis=0) / pattern.length  # a sum of steps, one per step of the growth
        return grown if pattern.family == "slope" else grown - later

    def gram(self, pattern: Pattern) -> np.ndarray:
        """Compute `Σ_k gᵀ g` of a signature over its first 1, 2, ... steps, (K, p, p); `gram_growth` continues it."""
        if pattern not in self._grams:
            signature = self.signature(pattern, len(self.outlier) + pattern.length)
            self._grams[pattern] = np.cumsum(np.swapaxes(signature, 1, 2) @ signature, axis=0)
        return self._grams[pattern]

    @cached_property
    def permanent_effect(self) -> np.ndarray:
        """Permanent effect of a persistent error on the innovations, (M, M): 0 where the states can absorb it."""
        last = self.outlier.sum(axis=0)
        return np.where(np.abs(last) > RELATIVE_TOLERANCE, last, 0.0)

    def gram_growth(self, pattern: Pattern) -> np.ndarray:
        """Compute the increase of the gram matrix of a pattern with each further step, (p, p)."""
        if pattern.family in ("step", "slope"):
            return self.permanent_effect.T @ self.permanent_effect
        return np.zeros(self.gram(pattern).shape[1:])

    @cached_property
    def step_equals_state_shift(self) -> np.ndarray:
        """Whether a persistent error of each coordinate is equivalent to a shift of the state, (M,) of bool."""
        powers = [self.obs_matrix]
        for _ in range(2 * len(self.dynamics) - 1):
            powers.append(powers[-1] @ self.dynamics)
        observed = np.concatenate(powers)
        targets = np.tile(np.eye(len(self.obs_matrix)), (2 * len(self.dynamics), 1))
        difference = targets - observed @ np.linalg.lstsq(observed, targets, rcond=None)[0]
        return np.linalg.norm(difference, axis=0) < RELATIVE_TOLERANCE

    def is_level_shift(self, shift: np.ndarray) -> bool:
        """Return whether a shift of the state, (D,), changes the noise-free measurements by a constant."""
        observed, state = self.obs_matrix @ shift, shift
        for _ in range(len(shift)):
            state = self.dynamics @ state
            if np.linalg.norm(self.obs_matrix @ state - observed) > RELATIVE_TOLERANCE * np.linalg.norm(observed):
                return False
        return True


def _first_steps(values: np.ndarray, steps: int, last: bool = False) -> np.ndarray:
    """Return the first steps, padded by zeros or by the last value."""
    if steps <= len(values):
        return values[:steps]
    padding = np.repeat(values[-1:] if last else np.zeros_like(values[-1:]), steps - len(values), axis=0)
    return np.concatenate([values, padding])


def _delay(values: np.ndarray, steps: int) -> np.ndarray:
    return np.concatenate([np.zeros_like(values[:steps]), values[: len(values) - steps]])
