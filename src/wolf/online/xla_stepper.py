"""Stepper of an online filter by a program of XLA, for what native code does not support."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf.engine import scan
from wolf.execution import function_checks
from wolf.execution.prepared import Pair
from wolf.interfaces import Dtype, State
from wolf.numerics.linalg import few_operations_mode
from wolf.numerics.packing import Packing
from wolf.numerics.precision import precision
from wolf.numerics.pytree import PyTree, cast
from wolf.numerics.xla_fusion import is_emission_failure, one_kernel
from wolf.online.overrides import overridden_model
from wolf.online.step_info import Layout, StepReport, make_layout, pack
from wolf.online.stepper import Matrices, Snapshot
from wolf.statespace import Model


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
