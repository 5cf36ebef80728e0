"""Late measurements of an online filter: repeat its last steps as if every measurement had come in time."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from wolf.online import motion
from wolf.online.motion import TIME_TOLERANCE, Motion
from wolf.online.stepper import Matrices, Snapshot
from wolf.statespace import Model


class RecordedStep(NamedTuple):
    """Arguments of one step and the state before it, so that the step can be repeated.

    Attributes:
        snapshot: state before the step; None for a step that has not been taken.
        value: measurement, (M,).
        us: inputs of this step and of the previous one.
        motion: before the measurement.
        observation: what differs from the model in the measurement: R and H, or the functions of a sensor.
        end: time of the measurement.
    """

    snapshot: Snapshot | None
    value: np.ndarray
    us: list[np.ndarray]
    motion: Motion
    observation: Matrices
    end: float

    @property
    def begin(self) -> float:
        """Time of the measurement before."""
        return self.end - self.motion.duration

    @property
    def matrices(self) -> Matrices:
        """All that differs from the model in this step."""
        return self.motion.matrices | self.observation


def insert(
    model: Model, recorded: Iterable[RecordedStep], now: float, late: RecordedStep
) -> tuple[int, list[RecordedStep]]:
    """Plan which steps to repeat so that a measurement takes its place in time.

    The step during which the measurement was made is divided into one that ends with it and one that ends as before.

    Args:
        model: of the filter.
        recorded: last steps, oldest first.
        now: time of the filter.
        late: the measurement with its time; its motion is replaced.

    Returns:
        Number of recorded steps to keep, and the steps to take after them.
    """
    recorded, tolerance = list(recorded), TIME_TOLERANCE * motion.step_duration(model)
    if late.end > now + tolerance:
        raise ValueError(f"time must not be after that of the filter, {now:g}: use step(y, dt=...); got {late.end:g}")
    if not recorded or late.end < recorded[0].begin - tolerance:
        reach = f"back to {recorded[0].begin:g}" if recorded else "none yet"
        raise ValueError(f"time must be within the horizon ({reach}); got {late.end:g}: use a larger horizon=")
    kept = next((i for i, step in enumerate(recorded) if step.end > late.end + tolerance), len(recorded))
    if kept == len(recorded):
        return kept, [late._replace(motion=motion.none(model))]
    divided = recorded[kept]
    before = late.end - divided.begin
    if before <= tolerance:
        return kept, [late._replace(motion=motion.none(model)), *recorded[kept:]]
    if not divided.motion.divisible:
        raise ValueError(
            f"the step from {divided.begin:g} to {divided.end:g} had F or Q of its own, so it cannot be divided at "
            f"{late.end:g}: give dt= of the steps instead"
        )
    first, rest = motion.over(model, before), motion.over(model, divided.end - late.end)
    us = divided.us
    second = divided._replace(motion=rest, us=[us[0], us[0]] if us else us)
    return kept, [late._replace(motion=first, us=us), second, *recorded[kept + 1 :]]
