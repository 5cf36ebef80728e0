"""Elementwise and structured primitives by native code: the results of NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.unit.native.test_matrix_ops import run

import wolf

pytest.importorskip("llvmlite")

X = np.array([-2.5, -0.0, 0.5, 3.0])
WILD = np.array([np.nan, np.inf, -np.inf, 1.0])
DIGAMMA = [-0.5772156649015329, 0.42278433509846714, 2.2517525890667212]  # at 1, 2, 10: Abramowitz & Stegun, table 6.1

ELEMENTWISE = {
    "powers": (lambda x: jnp.stack([x**-2, x**3, x**0]), lambda x: np.stack([x**-2.0, x**3, x**0]), X[2:]),
    "clamp": (lambda x: jnp.clip(x, -1.0, 1.0), lambda x: np.clip(x, -1.0, 1.0), X),
    "sign": (jnp.sign, np.sign, X),
    "maximum": (lambda x: jnp.maximum(x, x[::-1]), lambda x: np.maximum(x, x[::-1]), WILD),
    "minimum": (lambda x: jnp.minimum(x, x[::-1]), lambda x: np.minimum(x, x[::-1]), WILD),
    "finite": (lambda x: 1.0 * jnp.isfinite(x), lambda x: 1.0 * np.isfinite(x), WILD),
    "negation": (lambda x: 0.0 - x, lambda x: 0.0 - x, X),
    "digamma": (jax.scipy.special.digamma, lambda x: np.array(DIGAMMA), np.array([1.0, 2.0, 10.0])),
}
STRUCTURED = {
    "inner padding": (lambda x: jax.lax.pad(x, 7.0, [(1, 0, 1)]), lambda x: [7.0, x[0], 7, x[1], 7, x[2], 7, x[3]]),
    "reversed sum": (lambda x: jax.lax.cumsum(x, reverse=True), lambda x: np.cumsum(x[::-1])[::-1]),
    "sum": (jnp.cumsum, np.cumsum),
    "reversed scan": (
        lambda x: jax.lax.scan(lambda c, a: (c + a, c * a), 1.0, x, reverse=True)[1],
        lambda x: x * np.r_[1.0 + np.cumsum(x[:0:-1])[::-1], 1.0],
    ),
    "slice beyond the end": (
        lambda x: jax.lax.dynamic_update_slice(x, 9.0 * x[:2], (7,)),
        lambda x: [*x[:2], *9 * x[:2]],
    ),
    "repeated addition": (lambda x: x.at[np.array([1, 1, 3])].add(2.0), lambda x: x + np.array([0.0, 4.0, 0.0, 2.0])),
    "first of equal": (
        lambda x: 1.0 * jnp.stack([jnp.argmax(jnp.abs(x) > 0.4), jnp.argmin(x * 0.0)]),
        lambda x: [0.0, 0.0],
    ),
    "interpolation": (lambda x: jnp.interp(x, X, X**2), lambda x: np.interp(x, X, X**2)),
    "interpolation beyond a table": (
        lambda x: jnp.interp(2.0 * x, np.array([-1.0, 0.0, 2.0]), np.array([3.0, 1.0, 4.0])),
        lambda x: np.interp(2.0 * x, [-1.0, 0.0, 2.0], [3.0, 1.0, 4.0]),
    ),
    "place in a sorted array": (
        lambda x: (
            1.0 * jnp.stack([jnp.searchsorted(x, np.array([0.5, np.nan]), side=side) for side in ("left", "right")])
        ),
        lambda x: [2.0, 4.0, 3.0, 4.0],
    ),
    "certain alternative": (
        lambda x: jnp.where((x > 0.0) | np.array([True, False, True, False]), x, -1.0),
        lambda x: np.where((x > 0.0) | np.array([True, False, True, False]), x, -1.0),
    ),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_operations_are_those_of_numpy(name):
    compute, expected, x = ELEMENTWISE[name]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run(compute, x), np.ravel(expected(x)), rtol=1e-14)


@pytest.mark.parametrize("name", STRUCTURED)
def test_structured_operations_are_those_of_numpy(name):
    compute, expected = STRUCTURED[name]
    np.testing.assert_allclose(run(compute, X), expected(X), rtol=1e-14)


def test_a_choice_of_three_functions_is_that_of_xla():
    """States of 1, 4 and far beyond choose the first, the second and the last function."""

    def observe(x):
        which = jnp.floor(jnp.abs(x[0]) / 3.0).astype(int)
        return jax.lax.switch(which, [lambda v: v, lambda v: 2.0 * v, lambda v: v**2 - 1.0], x)

    prior = wolf.Gaussian(np.ones(1), np.eye(1))
    model = wolf.StateSpaceModel(lambda x: 3.5 * x, observe, np.eye(1), np.eye(1), prior)
    ys = [3.0, 9.0, 12.0, -1.0, 1e3]
    native, xla = (wolf.filter(model, ys, method="EKF", backend=backend) for backend in ("native", "xla"))
    np.testing.assert_allclose(native.means, xla.means, rtol=1e-12)
