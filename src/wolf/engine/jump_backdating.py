"""Retrospective back-dating of jumps: a jump is placed at the first of the rejected measurements that revealed it.

While it filters, the jump test of `wolf.inference.noise.divergence_recovery` accepts a jump only after several
consistent rejections. Retrospectively, the start of the run of rejections is known. The series is filtered once more
with the jump at that step: the measurement there is accepted at once, and those after it are ordinary.

Two jumps shortly after each other, there and back, may have been a burst of consistent outliers. If the measurements
after it agree with the state before it, both jumps are removed, and the burst is rejected.
"""

import dataclasses
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.inference.filters import GaussianFilter, GaussianState
from wolf.inference.noise import DelegatingNoise
from wolf.inference.noise.divergence_recovery import JumpEvidence, JumpRecovery
from wolf.interfaces import Filter, StepInfo, UpdateContext, UpdateDecision, at_step
from wolf.numerics.pytree import pytree

MAX_STARTS = 4  # of one run of rejections, that are tried
MAX_BURST_LENGTH = 25  # measurements; a state that returns later has really changed
BURST_CHECK_STEPS = 5  # measurements after a burst that are compared with the state before it,
MIN_BURST_AGREEMENT = 0.6  # of which this share must agree


@pytree
class KnownJumps(DelegatingNoise[JumpEvidence]):
    """Noise model with a jump test, given the steps at which the state jumped.

    Args:
        base: with a jump test.
        jumps: (T,), 1 where the state jumped, -1 where measurements are outliers, 0 elsewhere.
        first: clock of the first of these steps.
    """

    base: JumpRecovery
    jumps: Any = dataclasses.field(repr=False)
    first: Array | float = 0.0

    @property
    def time_varying_fields(self) -> tuple[str, ...]:
        """Jumps have a row for each step, if their first step is the first of all."""
        return () if self.first else ("jumps",)

    def __call__(self, context: UpdateContext[JumpEvidence]) -> UpdateDecision[JumpEvidence]:
        """Follow the wrapped noise model, and accept the first measurement after a jump."""
        mark = at_step(self.jumps, context.t - jnp.asarray(self.first, context.t.dtype), 0)
        return self.base.decide(context, mark > 0, mark < 0)


def supports_backdating(method: Filter) -> bool:
    """Return whether a method has a jump test."""
    return isinstance(method, GaussianFilter) and isinstance(method.noise, JumpRecovery)


def with_jumps(
    method: GaussianFilter, jumps: list[int], steps: int, first: int = 0, barred: Sequence[tuple[int, int]] = ()
) -> GaussianFilter:
    """Return a method with known jumps, at steps counted from the first one.

    Args:
        method: with a jump test.
        jumps: steps.
        steps: number of steps.
        first: clock of the first of them.
        barred: first step of each burst of outliers, and the first after it.
    """
    assert isinstance(method.noise, JumpRecovery), "known jumps need a noise model with a jump test"
    marks = np.zeros(steps)
    marks[jumps] = 1.0
    for start, end in barred:
        marks[start : end + BURST_CHECK_STEPS] = -1.0
    return dataclasses.replace(method, noise=KnownJumps(method.noise, marks, float(first)))


def record_jump_evidence(state: GaussianState, info: StepInfo) -> dict[str, Array]:
    """Record the number of consistent rejections after each step, and the inflation of an accepted jump."""
    return {"consistent": state.memory.consistent, "inflations": info.inflation}


def possible_starts(consistent: np.ndarray, inflations: np.ndarray, present: np.ndarray) -> list[list[int]]:
    """List, for each accepted jump, the steps at which it may have happened, the latest first.

    A run of rejections begins where the count goes from 0 to 1, and again where it stays at 1: the second was
    inconsistent with the first. A noisy measurement can set the count back, so the jump may be an earlier one.

    Args:
        consistent: number of consistent rejections after each step, (T, S), of each of S sensors.
        inflations: of each step, (T,), above 1 where a jump was accepted.
        present: whether there was a measurement, (T,); a missing one leaves the count unchanged.

    Example:
        >>> consistent = np.array([[0.0], [1.0], [2.0], [1.0], [1.0], [0.0]])
        >>> possible_starts(consistent, np.array([1.0, 1.0, 1.0, 1.0, 1.0, 9.0]), np.ones(6, bool))
        [[4, 1]]
    """
    rows = np.flatnonzero(present)
    now = consistent[rows]
    before = np.concatenate([np.zeros_like(now[:1]), now[:-1]])
    starts = []
    for accepted in np.flatnonzero(inflations[rows] > 1.0):
        idle = np.flatnonzero((before[: accepted + 1] == 0.0).any(1))  # the run of rejections goes back to here
        begins = np.flatnonzero(((now == 1.0) & (before <= 1.0))[:accepted].any(1))
        begins = begins[begins >= (idle[-1] if len(idle) else 0)]
        starts.append([int(rows[i]) for i in begins[::-1][:MAX_STARTS]] or [int(rows[accepted])])
    return starts


def best_starts(starts: list[list[int]], score: Callable[[list[int]], float]) -> list[int]:
    """Choose the step of each jump, one after the other, by the score of the series.

    Args:
        starts: from `possible_starts`.
        score: of a list of jumps; the higher, the better.

    Example:
        >>> best_starts([[4, 1], [9]], lambda jumps: -abs(jumps[0] - 1))
        [1, 9]
    """
    chosen = [each[0] for each in starts]
    for i, each in enumerate(starts):
        if len(each) > 1:
            scores = [score([*chosen[:i], start, *chosen[i + 1 :]]) for start in each]
            chosen[i] = each[int(np.argmax(scores))]
    return chosen


def without_bursts(
    jumps: list[int], outliers: Callable[[list[int], list[tuple[int, int]]], np.ndarray]
) -> tuple[list[int], list[tuple[int, int]]]:
    """Remove pairs of jumps, there and back, that were a burst of consistent outliers.

    Args:
        jumps: steps of the accepted jumps, in order.
        outliers: function that returns which measurements are rejected, (T,) or (T, M), given steps of jumps and
            pairs of steps of bursts.

    Returns:
        The jumps that remain, and the bursts: the first step of each and the first after it.

    Example:
        >>> rejected = np.isin(np.arange(40), [20, 21, 22, 23, 24, 25])
        >>> without_bursts([20, 26], lambda jumps, bursts: rejected)
        ([], [(20, 26)])
    """
    kept: list[int] = list(jumps)
    bursts: list[tuple[int, int]] = []
    for start, end in pairwise(jumps):
        if start not in kept or end - start > MAX_BURST_LENGTH:
            continue
        rest = [jump for jump in kept if jump not in (start, end)]
        after = outliers(rest, [*bursts, (start, end)])[end : end + BURST_CHECK_STEPS]
        if len(after) and 1.0 - np.mean(after) >= MIN_BURST_AGREEMENT:
            kept, bursts = rest, [*bursts, (start, end)]
    return kept, bursts
