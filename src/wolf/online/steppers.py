"""How an online filter advances: by native code where that is possible, by XLA otherwise.

A stepper holds the state. Both kinds take a measurement that was checked, and give the report of the step; matrices
for one step only are put into the model in its place.
"""

import dataclasses
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wolf import native
from wolf.engine import scan
from wolf.execution import backend_selection, validate
from wolf.numerics.linalg import few_operations_mode
from wolf.numerics.packing import Packing
from wolf.numerics.precision import precision
from wolf.numerics.pytree import cast
from wolf.numerics.xla_fusion import is_emission_failure, one_kernel
from wolf.online.step_info import Layout, StepReport, StepReportRecorder, lay_out, pack
from wolf.statespace import LinearModel, Model, ParameterModel, StateSpaceModel, time_axes

SAVER = StepReportRecorder()


def make_stepper(
    backend: str, model: Model, suited: Any, method: Any, key: Any, update_first: bool, dtype: str
) -> tuple[Any, str]:
    """Choose how to advance, and say why.

    Args:
        backend: "auto", "native" or "xla".
        model: as the person gave it.
        suited: the model in the form that suits the method.
        method: a filter.
        key: for methods that draw random numbers.
        update_first: order of a step.
        dtype: precision.
    """
    reason = backend_selection.unsupported_reason(backend, model, method, key)
    if reason is None:
        try:
            return NativeStepper(model, suited, method, update_first, dtype), "native"
        except native.UNSUPPORTED as error:
            reason = str(error)
    if backend == "native":
        raise ValueError(f'engine="native" cannot run this: {reason}; leave engine= out for XLA')
    return XlaStepper(model, suited, method, key, update_first, dtype), f"xla: {reason}"


class XlaStepper:
    """Advances by a program of XLA; its arguments are those of `make_stepper`."""

    call: Any = None

    def __init__(self, model: Model, suited: Any, method: Any, key: Any, update_first: bool, dtype: str):
        self.model, self.method, self.key, self.update_first, self.dtype = model, method, key, update_first, dtype
        with precision(dtype):
            state = scan.init(cast(suited, dtype), cast(method, dtype), key)
            leaves, self.structure = jax.tree.flatten(jax.tree.map(np.asarray, state))
        self.packing = Packing.of(leaves, dtype)
        self.held = self.packing.pack(leaves, np)
        self.usual = self._prepare(suited)

    @property
    def state(self) -> Any:
        """State of the filter."""
        leaves = self.packing.unpack([np.asarray(leaf) for leaf in self.held])
        return jax.tree.unflatten(self.structure, leaves)

    def go_on_from(self, leaves: Sequence[Any]) -> None:
        """Put another state, of the same shape, in the place of this one."""
        self.held = self.packing.pack([np.asarray(leaf) for leaf in leaves], np)

    def snapshot(self) -> Any:
        """Give what `restore` goes back to."""
        return self.held

    def restore(self, snapshot: Any) -> None:
        """Go back to an earlier state."""
        self.held = snapshot

    def step(self, value: np.ndarray, us: Sequence[np.ndarray], matrices: dict[str, Any]) -> StepReport:
        """Take in one measurement, with other matrices for this step if there are any."""
        usual = self.usual
        if matrices:
            usual = self._prepare(overridden(self.model, self.method, int(self.state.t), self.update_first, matrices))
        advance, params, layout = usual
        extras = us if self.key is None else [*us, self.key]
        with precision(self.dtype):
            *self.held, packed = advance(*params, *self.held, value, *extras)
            return StepReport(np.asarray(packed), layout)

    def _prepare(self, model: Any) -> tuple[Any, tuple, Layout]:
        """Flatten the model and the method once: walking through them at each step would cost more than the step."""
        with precision(self.dtype):
            leaves, structure = jax.tree.flatten((cast(model, self.dtype), cast(self.method, self.dtype)))
            packing = Packing.of(leaves, self.dtype)
            params = tuple(jax.device_put(leaf) for leaf in packing.pack(leaves, np))
        kind = (structure, packing, self.structure, self.packing)
        advance, layout = _advance(*kind, self.update_first, self.model.takes_inputs, self.key is not None)
        return advance, params, layout


@lru_cache(maxsize=64)
def _advance(
    structure: Any,
    packing: Packing,
    state_structure: Any,
    state_packing: Packing,
    update_first: bool,
    with_inputs: bool,
    with_key: bool,
) -> tuple[Any, Layout]:
    """Compile one step for this kind of model, method and state; filters of one kind share it.

    Its arguments are flat (parameters, state, y, u, u before, key) and packed: many take longer to hand over.

    Returns:
        The step, and where its report has what, which is known once it was traced.
    """
    layout: Layout = {}
    num_params, num_state = packing.handed, state_packing.handed

    def advance(*flat: Any) -> tuple:
        model, method = jax.tree.unflatten(structure, packing.unpack(flat[:num_params]))
        state = jax.tree.unflatten(state_structure, state_packing.unpack(flat[num_params : num_params + num_state]))
        y, *extras = flat[num_params + num_state :]
        u, before = extras[:2] if with_inputs else (None, None)
        key = extras[-1] if with_key else None
        with few_operations_mode():
            state, info = scan.step(model, method, state, y, u, key, update_first=update_first, u_before=before)
        layout.update(lay_out(info))
        return (*state_packing.pack(jax.tree.leaves(state), jnp), pack(info, y.dtype))

    usual, fused = jax.jit(advance), jax.jit(partial(one_kernel, advance))

    def attempt(*flat: Any) -> tuple:
        try:
            return fused(*flat)
        except jax.errors.JaxRuntimeError as error:
            if not is_emission_failure(error):
                raise
            return usual(*flat)

    return attempt, layout


class NativeStepper:
    """Advances by native code, in place; its arguments are those of `make_stepper`."""

    def __init__(self, model: Model, suited: Any, method: Any, update_first: bool, dtype: str):
        self.model, self.method, self.update_first = model, method, update_first
        self._inputs = model.B.shape[-1] if isinstance(model, LinearModel) and model.takes_inputs else None
        if model.takes_inputs and self._inputs is None:
            raise native.UnsupportedModelError("how many inputs a function takes is known only when they come")
        self._kind = (method, dtype, update_first, self._inputs, SAVER)
        self._usual = native.SingleStep(suited, *self._kind)
        self._others: dict[Any, Any] = {}
        self._quick: dict[tuple, tuple[native.SingleStep, tuple]] = {}
        self.numbers, self.counts = self._usual.ready.start(1)
        self._usual.attach(self.numbers, self.counts)
        self._varies = bool(time_axes(model))
        self.layout: Layout = self._usual.ready.code.facts.described
        self.call, self.table, self.size = self._usual.call, self._usual.address, self._usual.report_size

    @property
    def state(self) -> Any:
        """State of the filter."""
        return self._usual.ready.code.unpack(self.numbers[0], self.counts[0])

    def go_on_from(self, leaves: Sequence[Any]) -> None:
        """Put another state, of the same shape, in the place of this one."""
        self.restore(self._usual.ready.code.pack([np.asarray(leaf)[None] for leaf in leaves]))

    def snapshot(self) -> Any:
        """Give what `restore` goes back to."""
        return self.numbers.copy(), self.counts.copy()

    def restore(self, snapshot: Any) -> None:
        """Go back to an earlier state."""
        self.numbers[:], self.counts[:] = snapshot

    def step(self, value: np.ndarray, us: Sequence[np.ndarray], matrices: dict[str, Any]) -> StepReport:
        """Take in one measurement, with other matrices for this step if there are any."""
        single = self._with(matrices) if matrices else self._usual
        report = np.empty(single.report_size, value.dtype)
        single.advance(np.ascontiguousarray(value), us, report, int(self.state.t) if self._varies else 0)
        return StepReport(report, single.ready.code.facts.described)

    def _with(self, matrices: dict[str, Any]) -> native.SingleStep:
        """Find the code for a model with other matrices, and put them there.

        The code for given names and shapes is kept. New numbers that are plainly a model's are put into it without
        ado; all others go through the checks that every model gets.
        """
        if "observe" in matrices:
            return self._with_function(matrices)
        names = {} if self.model.linear else {"R": "obs_cov", "Q": "dynamics_cov", "dt": "dynamics"}
        fields = {names.get(name, name): value for name, value in matrices.items()}
        single = self._others.get(frozenset(fields))
        if single is not None and single.overwrite(fields) and single.reprepare():
            return single
        t = int(self.state.t) if self._varies else 0
        model = overridden(self.model, self.method, t, self.update_first, matrices)
        state = self._usual.ready.code.facts.state
        single = native.SingleStep(model, *self._kind, general=frozenset(fields), state=state)
        single.attach(self.numbers, self.counts)
        if not self._varies:
            self._others[frozenset(fields)] = single
        if not self._varies and "dt" not in matrices:
            slots = tuple(single.fields.get(names.get(name, name)) if name in matrices else None for name in "RHFQ")
            self._quick[tuple(name in matrices for name in "RHFQ")] = (single, slots)
        return single

    def _with_function(self, matrices: dict[str, Any]) -> native.SingleStep:
        """Find the code for a model that is seen through another function, and put the matrices of the step there.

        F is the only leaf of the dynamics then (`_seen_through`), so the place of one is that of the other; so is dt.
        """
        names = {"F": "dynamics", "dt": "dynamics", "Q": "dynamics_cov", "R": "obs_cov"}
        fields = {field: matrices[name] for name, field in names.items() if name in matrices}
        key = (frozenset(fields), matrices["observe"], matrices["residual"])
        single = self._others.get(key)
        if single is not None and single.overwrite(fields) and single.reprepare():
            return single
        t = int(self.state.t) if self._varies else 0
        model = overridden(self.model, self.method, t, self.update_first, matrices)
        try:
            state = self._usual.ready.code.facts.state
            single = native.SingleStep(model, *self._kind, general=frozenset(fields), state=state)
        except native.UNSUPPORTED as error:
            raise ValueError(
                f'native code cannot run this sensor: {error}; make the filter with engine="xla"'
            ) from error
        single.attach(self.numbers, self.counts)
        if not self._varies:
            self._others[key] = single
        return single

    def quick(self, y: np.ndarray, R: Any, H: Any, F: Any, Q: Any) -> StepReport | None:
        """Take the short way with other matrices for this step, of the shapes of an earlier step's, and plainly sound.

        Args:
            y: (M,), contiguous, in the precision of the run.
            R: noise covariance, or None; so are the others.
            H: observation matrix.
            F: dynamics matrix.
            Q: dynamics noise.

        Returns:
            The report, or None where the long way has to be taken; nothing has happened then.
        """
        found = self._quick.get((R is not None, H is not None, F is not None, Q is not None))
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


def time_step(model: Model) -> float | None:
    """Give the time that a step of a model of functions takes; None for one that knows no others.

    It is the only number of its dynamics, under the name of dt, as in those of `wolf.models`.
    """
    dynamics = getattr(model, "dynamics", None)
    known = dataclasses.is_dataclass(dynamics) and hasattr(dynamics, "dt") and len(jax.tree.leaves(dynamics)) == 1
    return float(dynamics.dt) if known else None  # type: ignore[union-attr]


def overridden(model: Model, method: Any, t: int, update_first: bool, matrices: dict[str, Any]) -> Any:
    """Make the model of one step, with other matrices, in the form that suits the method."""
    changed = override(model, t, update_first, matrices)
    validate.resolve_method(method, changed)
    return validate.adapt_model(changed, method, 0)


def override(model: Model, t: int, update_first: bool, matrices: dict[str, Any]) -> Model:
    """Copy a model with other matrices at one step, checked like a model of its own."""
    if isinstance(model, ParameterModel):
        return model.override(matrices)
    if "observe" in matrices:
        return _seen_through(model, t, update_first, matrices)
    names = {} if model.linear else {"R": "obs_cov", "Q": "dynamics_cov"}
    if "dt" in matrices:
        moving: Any = model
        model = dataclasses.replace(moving, dynamics=dataclasses.replace(moving.dynamics, dt=matrices["dt"]))
        matrices = {name: value for name, value in matrices.items() if name != "dt"}
    if not model.linear and not matrices.keys() <= names.keys():
        raise ValueError(
            "a model with functions takes R and Q for one step; F and H are functions: give them inputs u, or give a "
            "wolf.Sensor with a function"
        )
    fields = {field.name: getattr(model, field.name) for field in dataclasses.fields(model)}
    for name in time_axes(model):
        # What leads to this step is that of the step before, if the first measurement came without one.
        lead = update_first and name in ("F", "Q", "B", "dynamics_cov")
        fields[name] = fields[name][max(t - 1, 0) if lead else t]
    return type(model)(**(fields | {names.get(name, name): value for name, value in matrices.items()}))


def _seen_through(model: Model, t: int, update_first: bool, matrices: dict[str, Any]) -> Model:
    """Copy a model with another observation function at one step."""
    new = {name: matrices[name] for name in ("observe", "residual")} | {"obs_cov": matrices["R"]}
    moved = {name: value for name, value in matrices.items() if name in ("F", "Q", "dt")}
    if isinstance(model, LinearModel):
        if model.takes_inputs:
            raise ValueError("a sensor with a function does not go with a linear model that takes inputs")
        plain: Any = override(model, t, update_first, moved)
        dynamics = None if plain.F is None else jax.tree_util.Partial(jnp.matmul, plain.F)
        return StateSpaceModel(dynamics, dynamics_cov=plain.Q, prior=plain.prior, **new)
    if not isinstance(model, StateSpaceModel) or "F" in moved:
        raise ValueError(f"a sensor with a function goes with a LinearModel or a StateSpaceModel; got {model!r}")
    return dataclasses.replace(override(model, t, update_first, moved), **new)
