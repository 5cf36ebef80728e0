"""Whitened coordinates: values and derivatives equal those of a Cholesky factor, whether R is diagonal or not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wolf.numerics.linalg import whiten_both
from wolf.numerics.precision import precision


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.slow) for kind in ("full", "diagonal")])
def test_white_coordinates_and_their_derivatives_are_those_of_a_cholesky_factor(kind):
    rng = np.random.default_rng(2)
    cov, spread = (root @ root.T + np.eye(11) for root in rng.normal(size=(2, 11, 11)))
    cov = cov * np.eye(11) if kind == "diagonal" else cov
    turns = [(lambda a: a + a.T)(rng.normal(size=(11, 11))) for _ in range(2)]
    looks = [rng.normal(size=(11, 11)) for _ in range(2)]

    def plain(cov, spread):
        inverse = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(cov), jnp.eye(11), lower=True)
        return inverse, inverse @ spread @ inverse.T

    def score(both, step):
        found = both(*(jnp.asarray(a) + step * b for a, b in zip((cov, spread), turns, strict=True)))
        return sum((look * jnp.sin(part)).sum() for look, part in zip(looks, found, strict=True))

    with precision("float64"):
        for mine, theirs in zip(whiten_both(jnp.asarray(cov), jnp.asarray(spread)), plain(cov, spread), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-13 * float(jnp.abs(theirs).max()))
        for derived in (jax.grad, lambda f: jax.grad(jax.grad(f)), lambda f: jax.jacfwd(jax.grad(f))):
            mine, theirs = (float(derived(lambda step, f=f: score(f, step))(0.0)) for f in (whiten_both, plain))
            assert mine == pytest.approx(theirs, rel=1e-10)
