"""Which engine a run takes: native code for what is small and fixed, XLA for everything else."""

import math
from collections.abc import Sequence
from typing import Any, Literal

from wolf.native.execute import llvm_jit
from wolf.native.execute.executable import MAX_OPERATIONS, NativeProgram, UnsupportedModelError
from wolf.native.frontend.node_arrays import UnsupportedOperationError
from wolf.native.frontend.signature import LooSpec, SmootherSpec, flatten_model
from wolf.runtime import fork_guard

Backend = Literal["auto", "native", "xla"]
BACKENDS = ("auto", "native", "xla")
LARGEST_BACK = 18_000  # operations of a walk back: from some 43 full states on LAPACK is quicker at its gain
MOST_STATES = 64  # above that there is no need to look: a covariance alone would be too many numbers


def unsupported_reason(backend: str, model: Any, method: Any, key: Any) -> str | None:
    """Say why a run is not for native code, as far as can be told at a glance; None if it may be."""
    if backend == "xla":
        return "asked for"
    if key is not None or method.requirements.key:
        return "random numbers are drawn"
    if max(model.state_dim, model.obs_dim) > MOST_STATES:
        return f"{max(model.state_dim, model.obs_dim)} dimensions are too many for straight-line code"
    return llvm_jit.available()


def plan(
    backend: str,
    models: Sequence[Any],
    method: Any,
    dtype: str,
    update_first: bool,
    inputs: int | None,
    save: Any,
    key: Any = None,
) -> tuple[NativeProgram | None, str]:
    """Make a model and a method ready for native code, or say why not.

    Args:
        backend: "auto", "native" (raises where it cannot be) or "xla".
        models: one for all series, or one for each, in the form that suits the method.
        method: a filter.
        dtype: precision.
        update_first: order of a step.
        inputs: number of inputs, or None.
        save: what is kept of each step.
        key: for methods that draw random numbers.

    Returns:
        What `run_rows` takes, or None; and which engine it is, with the reason where it is XLA.
    """
    fork_guard.check()
    reason = unsupported_reason(backend, models[0], method, key)
    if reason is None:
        try:
            most = math.inf if backend == "native" else MAX_OPERATIONS
            return NativeProgram(flatten_model(models, method, dtype, update_first, inputs, save), most), "native"
        except (UnsupportedOperationError, UnsupportedModelError) as error:
            reason = str(error)
    if backend == "native":
        raise ValueError(f'engine="native" cannot run this: {reason}; leave engine= out for XLA')
    return None, f"xla: {reason}"


def plan_back(
    models: Sequence[Any], linearization: Any, dtype: str, inputs: int | None, back: SmootherSpec | LooSpec
) -> NativeProgram | None:
    """Make a model ready for the smoother by native code, or for weighing again; None if that is for XLA.

    Args:
        models: one for all series, or one for each, with all their matrices.
        linearization: of the filter, and its rule to weigh again.
        dtype: precision.
        inputs: number of inputs, or None.
        back: what a step takes.
    """
    if models[0].state_dim > MOST_STATES or llvm_jit.available() is not None:
        return None
    try:
        most = LARGEST_BACK if isinstance(back, SmootherSpec) else MAX_OPERATIONS
        return NativeProgram(flatten_model(models, linearization, dtype, False, inputs, "final", back=back), most)
    except (UnsupportedOperationError, UnsupportedModelError):
        return None
