"""Choice of the stepper of an online filter: native code where possible, XLA otherwise."""

from jax import Array

from wolf import native
from wolf.execution import backend_selection
from wolf.execution.backend_selection import Backend, BackendChoice, Reason
from wolf.execution.prepared import Pair
from wolf.interfaces import Dtype
from wolf.online.native_stepper import NativeStepper
from wolf.online.stepper import Stepper
from wolf.online.xla_stepper import XlaStepper

INPUTS_UNKNOWN = BackendChoice(
    Backend.XLA,
    Reason.UNSUPPORTED,
    "the number of inputs is known from the first step on; StateSpaceModel(..., inputs=2) states it before",
)


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
