"""Native kernels are found by a registered key, not by the name of a function."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wolf.native.frontend.jaxpr_to_graph import translate
from wolf.native.ir.graph import Graph
from wolf.native.kernels import registry
from wolf.native.kernels.shifted_inverse_loops import Inverses
from wolf.numerics.linalg import scalar_code_mode
from wolf.numerics.linalg.shifted_inverse import shifted_inverses
from wolf.numerics.native_kernel import kernel_key, native_kernel

SIZE, SHIFTS = 4, 4
ARGUMENTS = (jnp.eye(SIZE), jnp.ones(SHIFTS), jnp.ones(SIZE))


def traced(function):
    """Translate a function of a matrix, shifts and a vector as the step of a filter is translated."""
    with scalar_code_mode():
        program = jax.make_jaxpr(function)(*ARGUMENTS)
    graph = Graph("float32")
    sizes = np.cumsum([0, *(array.size for array in ARGUMENTS)])
    inputs = [
        np.array([graph.input(int(a) + i, "f") for i in range(array.size)]).reshape(array.shape)
        for a, array in zip(sizes, ARGUMENTS, strict=False)
    ]
    translate(graph, program, inputs)
    return graph


def kernels(graph):
    return sum(isinstance(node.value, Inverses) for node in graph.nodes)


def test_a_renamed_function_has_the_same_kernel():
    def renamed(a, shifts, b):
        return shifted_inverses(a, shifts, b)

    assert kernels(traced(native_kernel("shifted_inverses")(renamed))) == 1


def test_the_name_of_a_function_selects_no_kernel():
    assert kernels(traced(jax.jit(shifted_inverses))) == 0


def test_an_unregistered_key_raises():
    with pytest.raises(registry.UnregisteredKernelError, match="no native kernel is registered for 'no_such_kernel'"):
        traced(native_kernel("no_such_kernel")(lambda a, shifts, b: 2.0 * a))


def test_a_key_is_registered_once():
    with pytest.raises(ValueError, match="registered for 'shifted_inverses' already"):
        registry.implements("shifted_inverses")(lambda graph, inputs: None)


def test_a_mark_is_not_seen_by_programs_for_xla():
    program = jax.make_jaxpr(native_kernel("no_such_kernel")(jnp.sin))(1.0)
    assert [equation.primitive.name for equation in program.eqns] == ["sin"]
    assert (kernel_key("sin"), kernel_key(None)) == (None, None)
