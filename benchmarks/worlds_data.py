"""Models and worlds of `benchmarks/worlds.py`: simulated series with everyday faults, and what an oracle is given.

A world changes one thing about a series drawn from a model: its measurement errors, its motion, or the factors by
which the R and Q that a filter is given are wrong. Sizes are in standard deviations of the measurement noise ("sd").
The oracle is a Kalman filter with the true R and Q that skips the outliers; it is not given the times of jumps, except
of a single permanent step.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import worlds_errors as kinds
from worlds_errors import driven, spikes

import wolf
from wolf.models import components

LENGTHS = (200, 1000)
JUMP_RATE = 0.01


@dataclass(frozen=True)
class System:
    """A linear model as arrays; jumps act on its first `places` states."""

    F: np.ndarray
    H: np.ndarray
    Q: np.ndarray
    R: np.ndarray
    mean: np.ndarray
    cov: np.ndarray
    places: int = 1

    def model(self, q=1.0, r=1.0, shift=0.0, prior=1.0):
        """Build the model with Q and R multiplied by factors (numbers, or one for each step), or another prior."""
        Q, R = (np.asarray(factor)[..., None, None] * cov for factor, cov in ((q, self.Q), (r, self.R)))
        moved = self.mean + shift * np.sqrt(self.R[0, 0]) * (np.arange(len(self.F)) < self.places)
        return wolf.LinearModel(self.F, self.H, Q, R, moved, prior * self.cov)

    @property
    def noise_sd(self):
        return np.sqrt(np.diag(self.R))


def level(ratio, sensors=1):
    return System(np.eye(1), np.ones((sensors, 1)), ratio * np.eye(1), np.eye(sensors), np.zeros(1), np.eye(1))


def trend():
    F = np.array([[1.0, 1.0], [0.0, 1.0]])
    return System(F, np.eye(1, 2), np.diag([0.1, 0.01]), np.eye(1), np.zeros(2), np.eye(2))


def plane():
    F = np.eye(4) + 0.1 * np.eye(4, k=2)
    return System(F, np.eye(2, 4), 0.1 * np.eye(4), 10.0 * np.eye(2), np.array([0.0, 0, 1, 1]), np.eye(4), 2)


def oscillation():
    """AR(2) with a period of about 10 steps, stationary."""
    F, Q = np.array([[1.45, -0.8], [1.0, 0.0]]), np.diag([1.0, 0.0])
    cov = np.eye(2)
    for _ in range(200):
        cov = F @ cov @ F.T + Q
    return System(F, np.eye(1, 2), Q, np.eye(1), np.zeros(2), cov)


def season(period):
    parts = (components.level(0.1), components.seasonal(period, var=0.01))
    size = 1 + parts[1].size
    F, Q = np.zeros((size, size)), np.zeros((size, size))
    for each, rows in zip(parts, (slice(1), slice(1, None)), strict=True):
        F[rows, rows], Q[rows, rows] = each.F, each.Q
    H = np.concatenate([each.H for each in parts], axis=1)
    return System(F, H, Q, np.eye(1), np.zeros(size), 4.0 * np.eye(size))


def car():
    """Constant velocity in the plane, steps of 1 s, positions measured to 5 m; Q for unit variance of acceleration."""
    F = np.eye(4) + np.eye(4, k=2)
    Q = np.kron([[1 / 3, 1 / 2], [1 / 2, 1.0]], np.eye(2))
    return System(F, np.eye(2, 4), Q, 25.0 * np.eye(2), np.zeros(4), np.diag([25.0, 25, 100, 100]), 2)


SYSTEMS = {
    "level.01": level(0.01),
    "level.1": level(0.1),
    "level1": level(1.0),
    "trend": trend(),
    "cv2": plane(),
    "ar2": oscillation(),
    "season24": season(24),
    "car": car(),
    "sensors6": level(0.1, sensors=6),
}


class Drawn(NamedTuple):
    """A cell's data: noise-free measurements (B, T, M), measurements, which of them the oracle skips, and models."""

    clean: np.ndarray
    ys: np.ndarray
    skipped: np.ndarray
    given: wolf.LinearModel
    true: wolf.LinearModel


Errors = Callable[..., tuple[np.ndarray, np.ndarray]]  # clean, noise, sd, rng -> measurements, outliers


@dataclass(frozen=True)
class World:
    """What differs from the model: see the module.

    Args:
        errors: applied to clean measurements and noise.
        given: factors on the Q and R that filters are given, over the true ones.
        late: factors on the true Q and R in the second half, which the oracle is given.
        jumps: probability and size of jumps of the state.
        step: size of one jump in the middle, which the oracle is given.
        dof: degrees of freedom of the dynamics noise, scaled to variance Q where that is finite.
        shift: error of the prior mean that filters are given.
        prior: factor on the covariance of the prior that filters and oracle are given.
        motion: of the car, instead of its random one.
        systems: to which it applies.
    """

    errors: Errors | None = None
    given: tuple[float, float] = (1.0, 1.0)
    late: tuple[float, float] = (1.0, 1.0)
    jumps: tuple[float, float] = (0.0, 0.0)
    step: float = 0.0
    dof: float = np.inf
    shift: float = 0.0
    prior: float = 1.0
    motion: Callable | None = None
    systems: tuple[str, ...] = ("level.01", "level.1", "level1", "trend", "cv2", "ar2", "season24")

    def event(self, steps):
        """Return the step after which the time to recover counts, or None."""
        if self.step:
            return steps // 2
        return 0 if self.shift else None

    def draw(self, system, runs, steps, rng):
        """Draw a cell."""
        late = np.arange(steps) >= steps // 2
        q, r = (np.where(late, factor, 1.0) for factor in self.late)
        if self.motion is not None:
            clean, accel_var = self.motion(runs, steps, rng)
            system = replace(system, Q=accel_var * system.Q)
        else:
            clean = self._states(system, runs, steps, rng, q) @ system.H.T
        noise = np.sqrt(r)[:, None] * system.noise_sd * rng.normal(size=(runs, steps, len(system.R)))
        ys, hit = (self.errors or spikes(0.0))(clean, noise, system.noise_sd, rng)
        told = {"q": q, "r": r} if self.late != (1.0, 1.0) else {}
        true = system.model(**told, prior=self.prior)
        if self.step:
            extra = np.diag((np.arange(len(system.F)) < system.places) * (self.step * system.noise_sd[0]) ** 2)
            at = (np.arange(steps) == steps // 2)[:, None, None]
            true = wolf.LinearModel(system.F, system.H, system.Q + at * extra, system.R, system.mean, system.cov)
        given = system.model(*self.given, shift=self.shift, prior=self.prior)
        return Drawn(clean, ys, np.broadcast_to(hit, ys.shape), given, true)

    def _states(self, system, runs, steps, rng, q):
        """Draw states, (B, T, D)."""
        root = np.linalg.cholesky(system.Q + 1e-300 * np.eye(len(system.Q)))
        state = system.mean + rng.normal(size=(runs, len(system.F))) @ np.linalg.cholesky(system.cov).T
        moved = np.where(rng.random((steps, runs, 1)) < self.jumps[0], self.jumps[1], 0.0)
        moved[steps // 2] += self.step
        moved = moved * system.noise_sd[0] * kinds.directions(rng, (steps, runs, system.places))
        scale = np.ones((steps, runs, 1))
        if np.isfinite(self.dof):
            scale = np.sqrt(self.dof / rng.chisquare(self.dof, scale.shape))
            scale = scale * (np.sqrt((self.dof - 2) / self.dof) if self.dof > 2 else 1.0)
        states = np.empty((steps, *state.shape))
        for t in range(steps):
            state = state @ system.F.T + np.sqrt(q[t]) * scale[t] * rng.normal(size=state.shape) @ root.T
            state[:, : system.places] += moved[t]
            states[t] = state
        return states.swapaxes(0, 1)


def factors(q, r):
    return World(spikes(0.05), given=(q, r))


CAR, SIX = ("car",), ("sensors6",)
WORLDS = {
    "clean": World(),
    "spikes 5 %": World(spikes(0.05)),
    "spikes 20 %": World(spikes(0.2)),
    "spikes 40 %": World(spikes(0.4)),
    "small spikes": World(spikes(0.1, 3.0, 6.0)),
    "one-sided": World(spikes(0.2, 3.0, 30.0, one_sided=True)),
    "t3 noise": World(kinds.student(3.0)),
    "R x 10": factors(1.0, 10.0),
    "R / 10": factors(1.0, 0.1),
    "R / 100": factors(1.0, 0.01),
    "Q x 10": factors(10.0, 1.0),
    "Q / 10": factors(0.1, 1.0),
    "R x 10, Q / 10": factors(0.1, 10.0),
    "R / 10, Q x 10": factors(10.0, 0.1),
    "both x 10": factors(10.0, 10.0),
    "both / 10": factors(0.1, 0.1),
    "R rises": World(spikes(0.05), late=(1.0, 10.0)),
    "R falls": World(spikes(0.05), late=(1.0, 0.1)),
    "Q rises": World(spikes(0.05), late=(10.0, 1.0)),
    "Q falls": World(spikes(0.05), late=(0.1, 1.0)),
    "coherent 20-100": World(kinds.repeated(20.0, 100.0)),
    "coherent 8-30": World(kinds.repeated(8.0, 30.0)),
    "jumps of 5": World(jumps=(JUMP_RATE, 5.0)),
    "jumps of 20": World(jumps=(JUMP_RATE, 20.0)),
    "jumps of 60": World(jumps=(JUMP_RATE, 60.0)),
    "jumps of 20, spikes": World(spikes(0.05), jumps=(JUMP_RATE, 20.0)),
    "step of 20": World(step=20.0),
    "step of 60": World(step=60.0),
    "step of 300": World(step=300.0),
    "step of 1,000": World(step=1000.0),
    "step of 60, spikes": World(spikes(0.05), step=60.0),
    "runs of 10": World(kinds.bursts(10.0)),
    "runs of 40": World(kinds.bursts(40.0)),
    "wild runs": World(kinds.bursts(kinds.SPIKE_SD, agree=False)),
    "sentinel 3": World(kinds.replaced(999.0, 3)),
    "sentinel 12": World(kinds.replaced(999.0, 12)),
    "sentinel 24": World(kinds.replaced(999.0, 24)),
    "rail at 300": World(kinds.replaced(300.0, 12, jitter=0.05)),
    "rail at 60": World(kinds.replaced(60.0, 12, jitter=0.05)),
    "stuck": World(kinds.stuck),
    "quantised": World(kinds.quantised),
    "AR(1) .5": World(kinds.autocorrelated(0.5)),
    "AR(1) .9": World(kinds.autocorrelated(0.9)),
    "half missing": World(kinds.half_missing),
    "gap": World(kinds.gap),
    "diffuse prior": World(spikes(0.2), prior=1e6),
    "far start": World(spikes(0.05), shift=20.0),
    "t3 motion": World(dof=3.0),
    "t1.5 motion": World(dof=1.5),
    "stop and go": World(motion=driven(kinds.stop_and_go), systems=CAR),
    "sharp turns": World(motion=driven(kinds.sharp_turns), systems=CAR),
    "smooth turns": World(motion=driven(kinds.smooth_turns), systems=CAR),
    "all sensors right": World(systems=SIX),
    "one sensor noisy": World(kinds.one_sensor("noisy"), systems=SIX),
    "one sensor stuck": World(kinds.one_sensor("stuck"), systems=SIX),
    "one sensor drifting": World(kinds.one_sensor("drifting"), systems=SIX),
}
