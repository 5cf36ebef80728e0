"""Steppers of online filters: they hold the state and advance it, by native code where possible, by XLA otherwise.

Both kinds take a validated measurement and return the report of the step. Matrices that are given for one step replace
those of the model in it.
"""

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf import native
from wolf.engine import scan
from wolf.execution import backend_selection, function_checks, validate
from wolf.execution.backend_selection import Backend, BackendChoice, Reason
from wolf.execution.prepared import Pair
from wolf.interfaces import Dtype, Filter, State
from wolf.numerics.linalg import few_operations_mode
from wolf.numerics.packing import Packing
from wolf.numerics.precision import precision
from wolf.numerics.pytree import PyTree, cast, field_values
from wolf.numerics.xla_fusion import is_emission_failure, one_kernel
from wolf.online.step_info import Layout, StepReport, StepReportRecorder, make_layout, pack
from wolf.statespace import LinearModel, Model, ParameterModel, StateSpaceModel, time_axes

Matrices = dict[str, Any]  # arguments of `Online.step` for one step, and the functions of a sensor
Snapshot = Sequence[np.ndarray]  # a state in the layout of a stepper

RECORDER = StepReportRecorder()
INPUTS_UNKNOWN = BackendChoice(
    Backend.XLA,
    Reason.UNSUPPORTED,
    "the number of inputs is known from the first step on; StateSpaceModel(..., inputs=2) states it before",
)
COV_FIELDS = {"R": "obs_cov", "Q": "dynamics_cov"}  # matrices of a step -> fields of a model of functions


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


def make_stepper(
    backend: str, pair: Pair, key: Array | None, update_first: bool, dtype: Dtype, inputs: int | None
) -> tuple[Stepper, BackendChoice]:
    """Choose a stepper.

    Args:
        backend: "auto", "native" or "xla".
        pair: a model and a filter, validated and adapted to each other.
        key: for methods that draw random numbers.
        update_first: order of a step.
        dtype: precision.
        inputs: number of inputs; None without, or where it is not known yet.

    Returns:
        The stepper, and the choice of its backend.
    """
    model = pair.models[0]
    if backend != "xla" and model.takes_inputs and inputs is None:
        return XlaStepper(pair, key, update_first, dtype), INPUTS_UNKNOWN
    choice = backend_selection.unsupported_reason(backend, model, pair.method, key)
    if choice is None:
        try:
            return NativeStepper(pair, update_first, dtype, inputs), backend_selection.NATIVE
        except native.UNSUPPORTED as error:
            choice = BackendChoice(Backend.XLA, Reason.UNSUPPORTED, str(error))
    backend_selection.refuse_forced_native(backend, choice)
    return XlaStepper(pair, key, update_first, dtype), choice


class XlaStepper:
    """Stepper by a program of XLA; its arguments are those of `make_stepper`."""

    call: Callable[[int, np.ndarray, np.ndarray], bool] | None = None
    table = report_size = 0
    inputs: Sequence[np.ndarray] = ()

    def __init__(self, pair: Pair, key: Array | None, update_first: bool, dtype: Dtype):
        self.model, self.method = pair.models[0], pair.method
        self.key, self.update_first, self.dtype = key, update_first, dtype
        self.layout: Layout = {}
        with precision(dtype):
            state = scan.init(cast(pair.adapted[0], dtype), cast(pair.method, dtype), key)
            leaves, self._structure = jax.tree.flatten(jax.tree.map(np.asarray, state))
        self._packing = Packing.of(leaves, dtype)
        self._packed: Snapshot = self._packing.pack(leaves, np)
        self._usual = self._prepare(pair.adapted[0])

    @property
    def state(self) -> State:
        """Copy of the state of the filter."""
        return self.unpack(self._packed)

    def set_state(self, leaves: Sequence[ArrayLike]) -> None:
        """Replace the state by the leaves of another one of the same shapes."""
        self._packed = self._packing.pack([np.asarray(leaf) for leaf in leaves], np)

    def snapshot(self) -> Snapshot:
        """Return the packed state, whose arrays are never changed in place."""
        return self._packed

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the state by a snapshot."""
        self._packed = snapshot

    def unpack(self, snapshot: Snapshot) -> State:
        """Convert a snapshot to a state."""
        leaves = self._packing.unpack([np.asarray(leaf) for leaf in snapshot])
        return jax.tree.unflatten(self._structure, leaves)

    def step(self, value: np.ndarray, us: Sequence[np.ndarray], matrices: Matrices) -> StepReport:
        """Advance by one measurement, with the matrices given for this step."""
        prepared = self._usual
        if matrices:
            t = int(self.state.t)
            prepared = self._prepare(overridden_model(self.model, self.method, t, self.update_first, matrices))
        advance, params, layout = prepared
        extras = us if self.key is None else [*us, self.key]
        with precision(self.dtype), function_checks.explained():
            *self._packed, packed = advance(*params, *self._packed, value, *extras)
            return StepReport(np.asarray(packed), layout)

    def step_fast(
        self, y: np.ndarray, R: ArrayLike | None, H: ArrayLike | None, F: ArrayLike | None, Q: ArrayLike | None
    ) -> StepReport | None:
        """Return None: matrices of a step are always validated."""
        return None

    def _prepare(self, model: Model) -> tuple[Callable, tuple, Layout]:
        """Flatten the model and the method once: to traverse them at each step would cost more than the step."""
        with precision(self.dtype):
            leaves, structure = jax.tree.flatten((cast(model, self.dtype), cast(self.method, self.dtype)))
            packing = Packing.of(leaves, self.dtype)
            params = tuple(jax.device_put(leaf) for leaf in packing.pack(leaves, np))
        kind = (structure, packing, self._structure, self._packing)
        advance, layout = _compile_step(*kind, self.update_first, self.model.takes_inputs, self.key is not None)
        return advance, params, layout


@lru_cache(maxsize=64)
def _compile_step(
    structure: PyTree,
    packing: Packing,
    state_structure: PyTree,
    state_packing: Packing,
    update_first: bool,
    with_inputs: bool,
    with_key: bool,
) -> tuple[Callable[..., tuple], Layout]:
    """Compile one step for this kind of model, method and state; filters of one kind share it.

    Its arguments are flat (parameters, state, y, u, u before, key) and packed, since to pass many takes longer.

    Returns:
        The step, and the layout of its report, which is filled when the step is traced.
    """
    layout: Layout = {}
    num_params, num_state = packing.handed, state_packing.handed

    def advance(*flat: Array) -> tuple:
        model, method = jax.tree.unflatten(structure, packing.unpack(flat[:num_params]))
        state = jax.tree.unflatten(state_structure, state_packing.unpack(flat[num_params : num_params + num_state]))
        y, *extras = flat[num_params + num_state :]
        u, before = extras[:2] if with_inputs else (None, None)
        key = extras[-1] if with_key else None
        with few_operations_mode():
            state, info = scan.step(model, method, state, y, u, key, update_first=update_first, u_before=before)
        layout.update(make_layout(info))
        return (*state_packing.pack(jax.tree.leaves(state), jnp), pack(info, y.dtype))

    plain, fused = jax.jit(advance), jax.jit(partial(one_kernel, advance))

    def fused_or_plain(*flat: Array) -> tuple:
        try:
            return fused(*flat)
        except jax.errors.JaxRuntimeError as error:
            if not is_emission_failure(error):
                raise
            return plain(*flat)

    return fused_or_plain, layout


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


def time_step(model: Model) -> float | None:
    """Return the duration of a step of a model of functions; None if it cannot be changed.

    It is the only number of the dynamics, in a field dt, as in the functions of `wolf.models`.
    """
    dynamics: PyTree = model.dynamics if isinstance(model, StateSpaceModel) else None
    if not dataclasses.is_dataclass(dynamics) or len(jax.tree.leaves(dynamics)) != 1:
        return None
    values = field_values(dynamics)
    return float(values["dt"]) if "dt" in values else None


def overridden_model(model: Model, method: Filter, t: int, update_first: bool, matrices: Matrices) -> Model:
    """Make the model of one step, with other matrices, adapted to the method."""
    changed = override(model, t, update_first, matrices)
    validate.resolve_method(method, changed)
    if "observe" in matrices and not changed.takes_inputs:
        validate.check_functions(changed, None)
    return validate.adapt_model(changed, method, 0)


def override(model: Model, t: int, update_first: bool, matrices: Matrices) -> Model:
    """Copy a model with other matrices at one step, validated like any model.

    Args:
        model: as given by the user.
        t: number of the step.
        update_first: order of a step.
        matrices: by the names of `Online.step` (F, H, Q, R, dt), or "observe" and "residual" of a sensor.
    """
    if isinstance(model, ParameterModel):
        return model.override(matrices)
    if "observe" in matrices:
        return _with_observation(model, t, update_first, matrices)
    names = {} if model.linear else COV_FIELDS
    if "dt" in matrices:
        moving: Any = model
        model = dataclasses.replace(moving, dynamics=dataclasses.replace(moving.dynamics, dt=matrices["dt"]))
        matrices = {name: value for name, value in matrices.items() if name != "dt"}
    if not model.linear and not matrices.keys() <= names.keys():
        raise ValueError(
            "a model with functions takes R and Q for one step; F and H are functions: give them inputs u, or give a "
            "wolf.Sensor with a function"
        )
    fields = field_values(model)
    for name in time_axes(model):
        # With update_first the first measurement has no transition before it, so those of step t have index t - 1.
        lead = update_first and name in ("F", "Q", "B", "dynamics_cov")
        fields[name] = fields[name][max(t - 1, 0) if lead else t]
    return type(model)(**(fields | {names.get(name, name): value for name, value in matrices.items()}))


def _with_observation(model: Model, t: int, update_first: bool, matrices: Matrices) -> Model:
    """Copy a model with another observation function at one step."""
    new = {name: matrices[name] for name in ("observe", "residual")} | {"obs_cov": matrices["R"]}
    transition = {name: value for name, value in matrices.items() if name in ("F", "Q", "dt")}
    if isinstance(model, LinearModel):
        if model.takes_inputs:
            raise ValueError("a sensor with a function does not go with a linear model that takes inputs")
        linear: Any = override(model, t, update_first, transition)
        dynamics = None if linear.F is None else jax.tree_util.Partial(jnp.matmul, linear.F)
        return StateSpaceModel(dynamics, dynamics_cov=linear.Q, prior=linear.prior, **new)
    if not isinstance(model, StateSpaceModel) or "F" in transition:
        raise ValueError(f"a sensor with a function goes with a LinearModel or a StateSpaceModel; got {model!r}")
    changed = override(model, t, update_first, transition)
    assert isinstance(changed, StateSpaceModel)
    return dataclasses.replace(changed, **new)
