"""Compile a whole loop into one CPU kernel.

XLA's CPU runtime starts every fusion of a loop body as a separate kernel, at about 40 ns each, which is most of the
time of a small Kalman step. XLA can emit a called computation as one kernel instead, and does so by itself for tiny
loops. Tagging the call in the same way makes a filter of a few states 6-8 times faster, with the same bits (a sine or a
dot product in a user's function may differ in the last bit), and faster to compile. If an operation cannot be emitted
in such a kernel (a sort, a LAPACK call), the device is not a CPU, or JAX is older than 0.7, the loop is compiled as
usual.
"""

import math
from collections.abc import Callable, Iterator

import jax

from wolf.numerics import jax_compat
from wolf.numerics.jaxpr import Equation, Jaxpr, array_shapes, inner_jaxprs
from wolf.numerics.pytree import PyTree

MAX_ARRAY_ENTRIES = 4096  # entries of an intermediate array in the loop; larger arrays deserve kernels of their own
MAX_DOT_SIDE = 6  # side of a dot's operands; XLA calls a library for larger ones, which a kernel cannot do

# Primitives that the kernel emitter compiled in tests (tests/unit/numerics/test_xla_fusion.py runs the likely ones).
EMITTED = frozenset(
    """
    abs acos acosh add add_any and argmax argmin asin asinh atan atan2 atanh bessel_i0e bessel_i1e
    bitcast_convert_type broadcast_in_dim cbrt ceil clamp concatenate cond convert_element_type copy copy_p cos cosh
    cumprod cumsum custom_jvp_call custom_vjp_call digamma div dot_general dynamic_slice dynamic_update_slice eq erf
    erf_inv erfc exp exp2 expand_dims expm1 floor gather ge gt integer_pow iota is_finite jit le lgamma log log1p
    logistic lt max min mul ne neg nextafter not or pad pjit population_count pow random_bits random_fold_in random_seed
    random_unwrap random_wrap real reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum rem reshape rev
    round rsqrt scan select_n shift_left shift_right_arithmetic shift_right_logical sign sin sinh slice split sqrt
    square squeeze stack stop_gradient sub tan tanh tile transpose unstack while xor
    """.split()  # noqa: SIM905
)

# Primitives that call LAPACK, a multithreaded library, or Python.
LIBRARY_CALLS = frozenset(
    """
    cholesky cholesky_update eig eigh ffi_call fft geqrf hessenberg householder_product io_callback lu ormqr
    pure_callback qr schur svd triangular_solve tridiagonal tridiagonal_solve
    """.split()  # noqa: SIM905
)


def one_kernel(fn: Callable[..., PyTree], *args: PyTree) -> PyTree:
    """Call a function, compiled into one kernel where possible.

    Args:
        fn: a function of pytrees of arrays; its loop runs on small arrays.
        *args: its arguments.

    Example:
        >>> import jax.numpy as jnp
        >>> float(one_kernel(lambda x: jax.lax.fori_loop(0, 3, lambda i, x: 2 * x, x), jnp.ones(())))
        8.0
    """
    from jax.extend.core import jaxpr_as_fun  # imported here: it takes a fifth of the time to import wolf

    if jax.default_backend() != "cpu" or not jax_compat.CAN_TAG:
        return fn(*args)
    program, shapes = jax.make_jaxpr(fn, return_shape=True)(*args)
    if not all(_is_emittable(equation) for equation in _body_equations(program.jaxpr)):
        return fn(*args)
    first, *others = jax.jit(jaxpr_as_fun(program))(*jax.tree.leaves(args))
    first = jax_compat.tag(first, xla_cpu_small_call="true", inlineable="false")
    return jax.tree.unflatten(jax.tree.structure(shapes), [first, *others])


def uses_thread_pool(program: Jaxpr) -> bool:
    """Return whether a program distributes work over XLA's thread pool and waits for it inside the pool.

    A library call with a batch of matrices does. Two such programs at once can occupy all threads of a small pool with
    waiting, and deadlock.

    """
    calls = (equation for equation in _body_equations(program) if equation.primitive.name in LIBRARY_CALLS)
    return any(_batch_size(call) > 1 for call in calls)


def largest_factorized_size(program: Jaxpr) -> int:
    """Return the number of rows of the largest matrix that LAPACK factorises or solves with; 0 if there is none."""
    calls = (equation for equation in _body_equations(program) if equation.primitive.name in LIBRARY_CALLS)
    shapes = (shape for call in calls for shape in array_shapes(call.invars))
    return max((max(shape[-2:]) for shape in shapes if len(shape) > 1), default=0)


def _batch_size(call: Equation) -> float:
    if call.primitive.name in ("fft", "ffi_call", "io_callback", "pure_callback"):  # its contents are unknown
        return math.inf
    return max((math.prod(shape[:-2]) for shape in array_shapes(call.invars)), default=1)


def _is_emittable(equation: Equation) -> bool:
    if equation.primitive.name == "dot_general":
        return all(side <= MAX_DOT_SIDE for var in equation.invars for side in var.aval.shape)
    return equation.primitive.name in EMITTED and all(
        math.prod(shape) <= MAX_ARRAY_ENTRIES for shape in array_shapes(equation.outvars)
    )


def _body_equations(program: Jaxpr) -> Iterator[Equation]:
    """Iterate over the equations of a loop body and of the calls in it; the loop itself may carry large arrays."""
    for equation in program.eqns:
        inner = list(inner_jaxprs(equation))
        if not inner or equation.primitive.name not in EMITTED:
            yield equation
        for each in inner:
            yield from _body_equations(each)


def is_emission_failure(error: jax.errors.JaxRuntimeError) -> bool:
    """Return whether an error means that XLA could not emit the kernel."""
    return any(word in str(error) for word in ("UNIMPLEMENTED", "materialize symbols"))
