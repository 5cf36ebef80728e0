"""Choice of the backend: native code for small models with fixed dimensions, XLA for everything else.

Filters, smoothers and the leave-one-out reweighting ask here, and nowhere else, whether native code can run them.
"""

import math
from collections.abc import Sequence
from enum import Enum, StrEnum
from typing import Literal, NamedTuple

from wolf.interfaces import Filter, Key, Save
from wolf.native.execute import llvm_jit
from wolf.native.execute.executable import MAX_OPERATIONS, NativeProgram, UnsupportedModelError
from wolf.native.frontend.node_arrays import UnsupportedOperationError
from wolf.native.frontend.signature import LooSpec, SmootherSpec, flatten_model
from wolf.numerics.pytree import PyTree
from wolf.runtime import fork_guard
from wolf.statespace import Model

BackendOption = Literal["auto", "native", "xla"]
BACKEND_OPTIONS = ("auto", "native", "xla")
MAX_SMOOTHER_OPERATIONS = 18_000  # of a smoother step: from some 43 full states on, LAPACK computes its gain faster
MAX_NATIVE_DIM = 64  # with more states or coordinates a covariance alone has too many numbers for straight-line code


class Backend(StrEnum):
    """Code that executes a run."""

    NATIVE = "native"
    XLA = "xla"


class Reason(Enum):
    """Why a backend was chosen."""

    SUPPORTED = "native code supports the model and the method"
    REQUESTED = "requested"
    RANDOM_NUMBERS = "the method draws random numbers"
    TOO_MANY_DIMENSIONS = "too many dimensions for straight-line code"
    NOT_AVAILABLE = "llvmlite is not available"
    UNSUPPORTED = "native code does not support an operation"


class BackendChoice(NamedTuple):
    """The backend of a run and why it was chosen.

    Attributes:
        backend: what executes the run.
        reason: why, for programs.
        detail: why, for people; empty for native code.
    """

    backend: Backend
    reason: Reason
    detail: str = ""


NATIVE = BackendChoice(Backend.NATIVE, Reason.SUPPORTED)


def unsupported_reason(option: str, model: Model, method: Filter, key: Key | None) -> BackendChoice | None:
    """Return the choice of XLA where a run can be seen at once not to be for native code; None where it may be.

    Args:
        option: "auto", "native" or "xla".
        model: adapted to the method.
        method: a filter.
        key: of the run, for methods that draw random numbers.
    """
    size = max(model.state_dim, model.obs_dim)
    if option == "xla":
        return BackendChoice(Backend.XLA, Reason.REQUESTED, "requested")
    if key is not None or method.requirements.key:
        return BackendChoice(Backend.XLA, Reason.RANDOM_NUMBERS, "random numbers are drawn")
    if size > MAX_NATIVE_DIM:
        detail = f"{size} dimensions are too many for straight-line code"
        return BackendChoice(Backend.XLA, Reason.TOO_MANY_DIMENSIONS, detail)
    missing = llvm_jit.available()
    return None if missing is None else BackendChoice(Backend.XLA, Reason.NOT_AVAILABLE, missing)


def refuse_forced_native(option: str, choice: BackendChoice) -> None:
    """Raise a ValueError if native code was demanded for a run that only XLA can do."""
    if option == "native" and choice.backend is not Backend.NATIVE:
        raise ValueError(f'backend="native" cannot run this: {choice.detail}; leave backend= out to use XLA')


def compile_filter(
    option: str,
    models: Sequence[Model],
    method: Filter,
    dtype: str,
    update_first: bool,
    inputs: int | None,
    save: Save,
    key: Key | None = None,
) -> tuple[NativeProgram | None, BackendChoice]:
    """Compile the step of a filter to native code, or return why XLA runs it.

    Args:
        option: "auto", "native" (raises where native code cannot run it) or "xla".
        models: one for all series, or one for each, adapted to the method.
        method: a filter.
        dtype: precision.
        update_first: order of a step.
        inputs: number of inputs, or None.
        save: what is kept of each step.
        key: for methods that draw random numbers.

    Returns:
        The program, or None for XLA; and the choice.
    """
    fork_guard.check()
    choice = unsupported_reason(option, models[0], method, key)
    if choice is None:
        try:
            limit = math.inf if option == "native" else MAX_OPERATIONS
            return NativeProgram(flatten_model(models, method, dtype, update_first, inputs, save), limit), NATIVE
        except (UnsupportedOperationError, UnsupportedModelError) as error:
            choice = BackendChoice(Backend.XLA, Reason.UNSUPPORTED, str(error))
    refuse_forced_native(option, choice)
    return None, choice


def compile_backward(
    models: Sequence[Model], linearization: PyTree, dtype: str, inputs: int | None, spec: SmootherSpec | LooSpec
) -> NativeProgram | None:
    """Compile a step of the smoother, or of the leave-one-out reweighting; None where XLA runs it.

    Args:
        models: one for all series, or one for each, with all their matrices.
        linearization: of the filter; for the reweighting a pair of it and the noise model.
        dtype: precision.
        inputs: number of inputs, or None.
        spec: what the step reads.
    """
    if models[0].state_dim > MAX_NATIVE_DIM or llvm_jit.available() is not None:
        return None
    try:
        limit = MAX_SMOOTHER_OPERATIONS if isinstance(spec, SmootherSpec) else MAX_OPERATIONS
        return NativeProgram(flatten_model(models, linearization, dtype, False, inputs, "final", back=spec), limit)
    except (UnsupportedOperationError, UnsupportedModelError):
        return None
