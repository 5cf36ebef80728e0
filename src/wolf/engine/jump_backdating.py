"""Jumps in hindsight: what refused measurements agreed on began with the first of them, not when they won.

While it filters, a rule that lets refused measurements vote (`wolf.inference.noise.divergence_recovery`) learns of a
jump when the vote is
won, several steps late. Afterwards it is known where the vote began. The series is filtered once more with the jump in
its place: there the measurement wins at once, and those after it are ordinary.

Two votes shortly after each other, there and back, may have been a burst of lies that agreed. If the measurements after
it fit to where the state was before it, as if nothing had happened, that is what it was, and neither vote counts.
"""

import dataclasses
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np

from wolf.beliefs import Affine
from wolf.inference.filters import GaussianFilter
from wolf.inference.noise.divergence_recovery import JumpRecovery
from wolf.interfaces import NoiseModel, Requirements, StepInfo, UpdateContext, UpdateDecision, at_step
from wolf.numerics.pytree import pytree
from wolf.statespace import Model

MOST_STARTS = 4  # of one vote, that are tried
LONGEST_BURST = 25  # measurements; who comes back after more was away
BACK, FITS = 5, 0.6  # of so many measurements after a burst, this share must fit to what was before it


@pytree
class KnownJumps(NoiseModel):
    """A rule with votes that is told where the state jumped.

    Args:
        base: that lets refused measurements vote.
        jumps: (T,), 1 where the state has jumped, -1 where measurements lie, 0 elsewhere.
        first: number of the first of these steps.
    """

    base: JumpRecovery
    jumps: Any = dataclasses.field(repr=False)
    first: Any = 0.0

    @property
    def requirements(self) -> Requirements:
        """What the rule needs."""
        return self.base.requirements

    @property
    def is_mixture(self) -> bool:
        """Whether the rule does."""
        return self.base.is_mixture

    @property
    def revises_prior(self) -> bool:
        """Whether the rule does."""
        return self.base.revises_prior

    @property
    def time_varying_fields(self) -> tuple[str, ...]:
        """Jumps have a row for each step, if the first of them is the first of all."""
        return () if self.first else ("jumps",)

    def check(self, model: Model) -> None:
        """Let the rule check."""
        self.base.check(model)

    def start(self, model: Model) -> Any:
        """Start without a vote."""
        return self.base.start(model)

    def noise_estimate(self, memory: Any) -> Any:
        """Say what the rule learned about the noise."""
        return self.base.noise_estimate(memory)

    def predict(self, memory: Any, view: Affine, noise_cov: Any, t: Any) -> tuple[Any, Any]:
        """Let the rule look on."""
        return self.base.predict(memory, view, noise_cov, t)

    def sensor_slices(self, size: int) -> list[Any]:
        """List those that vote."""
        return self.base.sensor_slices(size)

    def predict_measurement(
        self, memory: Any, view: Affine, belief: Any, dynamics: Any, noise_cov: Any
    ) -> tuple[Affine, Any]:
        """Let the rule say what will be measured."""
        return self.base.predict_measurement(memory, view, belief, dynamics, noise_cov)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Follow the rule, and believe the first measurement after a jump."""
        mark = at_step(self.jumps, context.t - jnp.asarray(self.first, context.t.dtype), 0)
        return self.base.judge(context, mark > 0, mark < 0)


def supports_backdating(method: Any) -> bool:
    """Say whether a method lets refused measurements vote."""
    return isinstance(method, GaussianFilter) and isinstance(method.noise, JumpRecovery)


def with_jumps(
    method: GaussianFilter, jumps: list[int], steps: int, first: int = 0, barred: Sequence[tuple[int, int]] = ()
) -> GaussianFilter:
    """Tell a method at which of so many steps the state jumped, counted from the first of them.

    Args:
        method: with votes.
        jumps: steps.
        steps: how many there are.
        first: clock of the first of them.
        barred: first step of each burst of lies, and the first after it.
    """
    assert isinstance(method.noise, JumpRecovery), "only a rule with votes is told of jumps"
    marks = np.zeros(steps)
    marks[jumps] = 1.0
    for start, end in barred:
        marks[start : end + BACK] = -1.0
    return dataclasses.replace(method, noise=KnownJumps(method.noise, marks, float(first)))


def record_jump_evidence(state: Any, info: StepInfo) -> dict[str, Any]:
    """Keep the votes after each step, and what a won one did."""
    return {"votes": state.memory.votes, "inflations": info.inflation}


def possible_starts(votes: np.ndarray, inflations: np.ndarray, came: np.ndarray) -> list[list[int]]:
    """List, for each vote that was won, the steps at which it may have begun, the latest first.

    A vote begins where the count goes from 0 to 1, and anew where it stays at 1: the second disagreed with the first.
    A measurement with much noise can set it back, so the true beginning may be an earlier one.

    Args:
        votes: after each step, (T, S), of each of S sensors.
        inflations: of each step, (T,), above 1 where a vote was won.
        came: whether there was a measurement, (T,); a missing one has no vote.

    Example:
        >>> votes = np.array([[0.0], [1.0], [2.0], [1.0], [1.0], [0.0]])
        >>> possible_starts(votes, np.array([1.0, 1.0, 1.0, 1.0, 1.0, 9.0]), np.ones(6, bool))
        [[4, 1]]
    """
    rows = np.flatnonzero(came)
    now = votes[rows]
    before = np.concatenate([np.zeros_like(now[:1]), now[:-1]])
    starts = []
    for won in np.flatnonzero(inflations[rows] > 1.0):
        quiet = np.flatnonzero((before[: won + 1] == 0.0).any(1))  # the run of votes goes back to here
        begins = np.flatnonzero(((now == 1.0) & (before <= 1.0))[:won].any(1))
        begins = begins[begins >= (quiet[-1] if len(quiet) else 0)]
        starts.append([int(rows[i]) for i in begins[::-1][:MOST_STARTS]] or [int(rows[won])])
    return starts


def best_starts(starts: list[list[int]], score: Callable[[list[int]], float]) -> list[int]:
    """Choose where each jump began, one after the other, by what the series then says.

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
    """Take back pairs of jumps, there and back, that were a burst of lies.

    Args:
        jumps: where the state is said to have jumped, in order.
        outliers: which measurements are refused, (T,) or (T, M), if the state jumped at some steps and what is between
            pairs of others was lies.

    Returns:
        The jumps that remain, and the bursts: the first step of each and the first after it.

    Example:
        >>> refused = np.isin(np.arange(40), [20, 21, 22, 23, 24, 25])
        >>> without_bursts([20, 26], lambda jumps, bursts: refused)
        ([], [(20, 26)])
    """
    kept: list[int] = list(jumps)
    bursts: list[tuple[int, int]] = []
    for start, end in pairwise(jumps):
        if start not in kept or end - start > LONGEST_BURST:
            continue
        rest = [jump for jump in kept if jump not in (start, end)]
        after = outliers(rest, [*bursts, (start, end)])[end : end + BACK]
        if len(after) and 1.0 - np.mean(after) >= FITS:
            kept, bursts = rest, [*bursts, (start, end)]
    return kept, bursts
