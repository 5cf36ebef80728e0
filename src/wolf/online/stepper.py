"""What a stepper of an online filter is: it holds the state and advances it by one measurement.

Steppers take a validated measurement and return the report of the step. Matrices that are given for one step replace
those of the model in it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from wolf.interfaces import State
from wolf.online.step_info import Layout, StepReport

Matrices = dict[str, Any]  # arguments of `Online.step` for one step, and the functions of a sensor
Snapshot = Sequence[np.ndarray]  # a state in the layout of a stepper


class Stepper(Protocol):
    """Advances the state of an online filter.

    Attributes:
        call: native step without matrices of its own, `call(table, y, report) -> bool`; None for XLA.
        table: address of its arguments.
        report_size: length of the report.
        layout: of the report.
        inputs: where the native step reads the inputs of this step and of the previous one.
    """

    call: Callable[[int, np.ndarray, np.ndarray], bool] | None
    table: int
    report_size: int
    layout: Layout
    inputs: Sequence[np.ndarray]

    @property
    def state(self) -> State:
        """Copy of the state of the filter."""

    def set_state(self, leaves: Sequence[ArrayLike]) -> None:
        """Replace the state by the leaves of another one of the same shapes."""

    def snapshot(self) -> Snapshot:
        """Copy the state in the stepper's own layout, which costs less than `state`."""

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the state by a snapshot."""

    def unpack(self, snapshot: Snapshot) -> State:
        """Convert a snapshot to a state."""

    def step(self, value: np.ndarray, us: Sequence[np.ndarray], matrices: Matrices) -> StepReport:
        """Advance by one measurement, with the matrices given for this step."""

    def step_fast(
        self, y: np.ndarray, R: ArrayLike | None, H: ArrayLike | None, F: ArrayLike | None, Q: ArrayLike | None
    ) -> StepReport | None:
        """Advance with matrices of known shapes; None, and nothing done, where they have to be validated."""
