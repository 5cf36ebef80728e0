"""Steps of a single series, one measurement at a time."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from wolf.interfaces import Filter
from wolf.native.codegen.step_loop import HEAD
from wolf.native.execute.executable import NativeProgram, make_table
from wolf.native.frontend.signature import Arguments, flatten_model
from wolf.native.ir.layout import StateShape
from wolf.statespace import Model


class SingleStep:
    """A compiled model and method whose state is advanced in place, step by step.

    Args:
        model: adapted to the method.
        method: a filter.
        dtype: precision.
        update_first: order of prediction and update.
        inputs: number of inputs, or None.
        save: the recorder; its result is one vector.
        general: fields of the model that `overwrite` replaces.
        state: layout of the state, if it is that of another model.
    """

    def __init__(
        self,
        model: Model,
        method: Filter,
        dtype: str,
        update_first: bool,
        inputs: int | None,
        save: Hashable,
        general: frozenset[str] = frozenset(),
        state: StateShape | None = None,
    ):
        given = flatten_model([model], method, dtype, update_first, inputs, save, general, state)
        self.ready = NativeProgram(given)
        self.call = self.ready.code.call
        self.report_size = self.ready.code.facts.outputs[0].size
        self.fields = _fields(given, self.ready.parameters[0])
        self._varying = [rows[0] for rows in given.rows()]
        self.inputs = [np.zeros(inputs or 0, dtype) for _ in range(2)]

    @property
    def varies(self) -> bool:
        """Whether the model has arrays with a row per step."""
        return bool(self._varying)

    def attach(self, numbers: np.ndarray, counts: np.ndarray) -> None:
        """Set the state to advance: its numbers and its counts, (1, ...) each."""
        code, dtype = self.ready.code, numbers.dtype
        rows = {
            "y": np.zeros((1, code.facts.obs_dim), dtype),
            "u": self.inputs[0][None],
            "u_before": self.inputs[1][None],
        }
        rows |= {f"now{i}": array for i, array in enumerate(self._varying)}
        rows |= {f"before{i}": array for i, array in enumerate(self._varying)}
        nothing = [np.zeros((1, 1, self.report_size), dtype)]
        index = np.zeros(1, np.int64)
        # The table holds only addresses; these references keep the arrays alive.
        self._referenced = (numbers, counts, rows, index, nothing)
        self.table = make_table(code, self.ready.kept, numbers, counts, rows, nothing, index, None)
        place = 3 * HEAD.index("code")
        self.table[place : place + 2] = code.running(1, False, False), code.preparing
        place = 3 * HEAD.index("sizes")
        self.table[place : place + 2] = dtype.itemsize * code.facts.obs_dim, dtype.itemsize * self.report_size
        self.address = self.table.ctypes.data
        self.parameters = self.ready.parameters.ctypes.data

    def advance(self, y: np.ndarray, us: Sequence[np.ndarray], report: np.ndarray, t: int = 0) -> None:
        """Process one measurement.

        Args:
            y: (M,), contiguous, in the precision of the run.
            us: inputs of this step and of the previous one, if the model has inputs.
            report: filled with the recorded values of the step.
            t: number of the step, for models that vary in time.
        """
        for mine, given in zip(self.inputs, us, strict=False):
            mine[:] = given
        if self._varying:
            self._move_to(t)
        if not self.call(self.address, y, report):
            raise ValueError(f"a measurement of {len(y)} coordinates does not fit this model")

    def overwrite(self, values: Mapping[str, Any]) -> bool:
        """Replace the values of model fields; return False if one is not an array of numbers of the same shape."""
        for name, value in values.items():
            # the user gives the values, of any array library
            if getattr(value, "shape", None) != self.fields[name].shape or value.dtype.kind != "f":
                return False
            self.fields[name][...] = value
        return True

    def reprepare(self) -> bool:
        """Recompute what is computed once per model; return False if the new values are not certainly valid."""
        self.ready.code.prepare(self.ready.parameters[0], self.ready.kept[0])
        return bool(self.ready.kept[0, -1])

    def _move_to(self, t: int) -> None:
        """Set the addresses of time-varying rows to those of a step."""
        groups = self.ready.code.facts.groups
        for i, array in enumerate(self._varying):
            for name, row in ((f"now{i}", t), (f"before{i}", max(t - 1, 0))):
                if name in groups:
                    entry = 3 * (len(HEAD) + groups.index(name))
                    self.table[entry] = array.ctypes.data + row * array.strides[0]


def _fields(given: Arguments, parameters: np.ndarray) -> dict[str, np.ndarray]:
    """Find the entries of general fields in the parameters."""
    found, at = {}, 0
    names = dict(given.signature.general)
    for i, (shape, count) in enumerate(zip(given.signature.shapes, given.counts(), strict=True)):
        if i in names:
            found[names[i]] = parameters[at : at + count].reshape(shape)
        at += count
    return found
