"""Stepper of an online filter by native code, which advances the state in place."""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from wolf import native
from wolf.execution.prepared import Pair
from wolf.interfaces import Dtype, State
from wolf.online.overrides import COV_FIELDS, overridden_model
from wolf.online.step_info import Layout, StepReport, StepReportRecorder
from wolf.online.stepper import Matrices, Snapshot
from wolf.statespace import time_axes

RECORDER = StepReportRecorder()


class NativeStepper:
    """Stepper by native code, in place; its arguments are those of `make_stepper`."""

    def __init__(self, pair: Pair, update_first: bool, dtype: Dtype, inputs: int | None):
        model = pair.models[0]
        self.model, self.method, self.update_first = model, pair.method, update_first
        self._settings = (pair.method, dtype, update_first, inputs, RECORDER)
        self._usual = native.SingleStep(pair.adapted[0], *self._settings)
        # Code for other matrices by the names of the given fields; with a sensor's functions by these too.
        self._others: dict[Hashable, native.SingleStep] = {}
        # Code for other matrices, and the views to write R, H, F and Q to, by which of them are given.
        self._fast: dict[tuple[bool, ...], tuple[native.SingleStep, tuple]] = {}
        self._numbers, self._counts = self._usual.ready.start(1)
        self._usual.attach(self._numbers, self._counts)
        self._varies = bool(time_axes(model))
        self.layout: Layout = self._usual.ready.code.facts.described
        self.call, self.table, self.report_size = self._usual.call, self._usual.address, self._usual.report_size
        self.inputs: Sequence[np.ndarray] = self._usual.inputs

    @property
    def state(self) -> State:
        """Copy of the state of the filter."""
        return self.unpack((self._numbers, self._counts))

    def set_state(self, leaves: Sequence[ArrayLike]) -> None:
        """Replace the state by the leaves of another one of the same shapes."""
        self.restore(self._usual.ready.code.pack([np.asarray(leaf)[None] for leaf in leaves]))

    def snapshot(self) -> Snapshot:
        """Copy the state in the layout of the code."""
        return self._numbers.copy(), self._counts.copy()

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the state by a snapshot."""
        self._numbers[:], self._counts[:] = snapshot

    def unpack(self, snapshot: Snapshot) -> State:
        """Convert a snapshot to a state."""
        numbers, counts = snapshot
        return self._usual.ready.code.unpack(numbers[0], counts[0])

    def step(self, value: np.ndarray, us: Sequence[np.ndarray], matrices: Matrices) -> StepReport:
        """Advance by one measurement, with the matrices given for this step."""
        single = self._with_matrices(matrices) if matrices else self._usual
        report = np.empty(single.report_size, value.dtype)
        single.advance(np.ascontiguousarray(value), us, report, int(self.state.t) if self._varies else 0)
        return StepReport(report, single.ready.code.facts.described)

    def step_fast(
        self, y: np.ndarray, R: ArrayLike | None, H: ArrayLike | None, F: ArrayLike | None, Q: ArrayLike | None
    ) -> StepReport | None:
        """Advance with matrices of the shapes of an earlier step, if the native code accepts their values.

        Args:
            y: (M,), contiguous, in the precision of the run.
            R: noise covariance, or None, like the others.
            H: observation matrix.
            F: dynamics matrix.
            Q: dynamics noise covariance.

        Returns:
            The report; None, and nothing done, where the matrices have to be validated.
        """
        found = self._fast.get((R is not None, H is not None, F is not None, Q is not None))
        if found is None:
            return None
        single, slots = found
        for slot, value in zip(slots, (R, H, F, Q), strict=True):
            if slot is not None:
                if type(value) is not np.ndarray or value.shape != slot.shape or value.dtype.kind != "f":
                    return None
                slot[...] = value
        report = np.empty(single.report_size, y.dtype)
        done = single.call(single.address, y, report, single.parameters)
        return StepReport(report, single.ready.code.facts.described) if done else None

    def _with_matrices(self, matrices: Matrices) -> native.SingleStep:
        """Find or compile the code for a model with other matrices, and write these into it.

        Code is kept by the names of the given matrices. New values are written into it if it accepts them as those of
        a model; otherwise the model of the step is validated like any other.
        """
        if "observe" in matrices:
            return self._with_function(matrices)
        names = {} if self.model.linear else COV_FIELDS | {"dt": "dynamics"}
        fields = {names.get(name, name): value for name, value in matrices.items()}
        single = self._reuse(frozenset(fields), fields)
        if single is not None:
            return single
        single = self._compile(matrices, frozenset(fields))
        if not self._varies:
            self._others[frozenset(fields)] = single
        if not self._varies and "dt" not in matrices:
            slots = tuple(single.fields.get(names.get(name, name)) if name in matrices else None for name in "RHFQ")
            self._fast[tuple(name in matrices for name in "RHFQ")] = (single, slots)
        return single

    def _with_function(self, matrices: Matrices) -> native.SingleStep:
        """Find or compile the code for a model with another observation function, and write the matrices into it.

        F is the only leaf of the dynamics then (`_with_observation`), so the slot of one is that of the other; so is
        that of dt.
        """
        names = {"F": "dynamics", "dt": "dynamics", "Q": "dynamics_cov", "R": "obs_cov"}
        fields = {field: matrices[name] for name, field in names.items() if name in matrices}
        key = (frozenset(fields), matrices["observe"], matrices["residual"])
        single = self._reuse(key, fields)
        if single is not None:
            return single
        try:
            single = self._compile(matrices, frozenset(fields))
        except native.UNSUPPORTED as error:
            raise ValueError(
                f'native code does not support this sensor: {error}; make the filter with backend="xla"'
            ) from error
        if not self._varies:
            self._others[key] = single
        return single

    def _reuse(self, key: Hashable, fields: Matrices) -> native.SingleStep | None:
        """Write values into code that was compiled before; None if there is none, or if it does not accept them."""
        single = self._others.get(key)
        return single if single is not None and single.overwrite(fields) and single.reprepare() else None

    def _compile(self, matrices: Matrices, general: frozenset[str]) -> native.SingleStep:
        t = int(self.state.t) if self._varies else 0
        model = overridden_model(self.model, self.method, t, self.update_first, matrices)
        state = self._usual.ready.code.facts.state
        single = native.SingleStep(model, *self._settings, general=general, state=state)
        single.attach(self._numbers, self._counts)
        return single
