"""The inverses of A + s I for many s: by JAX, and by native kernels, one series or eight at a time."""

import ctypes

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests import oracle

from wolf.native.execute import llvm_jit
from wolf.native.kernels.shifted_inverse_llvm import function
from wolf.native.kernels.shifted_inverse_loops import Inverses, WeightedSum
from wolf.numerics.linalg.shifted_inverse import shift

SIZES = (4, 10)  # unrolled, and as loops
SHIFTS = np.geomspace(0.03, 1e4, 12)


def by_numpy(a, b, weights):
    inverse = np.linalg.inv(a + SHIFTS[:, None, None] * np.eye(len(a)))
    return inverse @ b, b @ inverse @ b, np.linalg.slogdet(inverse)[1], np.tensordot(weights, inverse, 1)


@pytest.mark.parametrize("size", SIZES)
def test_shifted_inverses_are_those_of_numpy(size, rng, x64):
    a, b, weights = oracle.random_cov(rng, size), rng.normal(size=size), rng.dirichlet(np.ones(12))
    found = shift(jnp.asarray(a), jnp.asarray(SHIFTS), jnp.asarray(b))
    pulls, distances, log_dets, average = by_numpy(a, b, weights)
    np.testing.assert_allclose(found.pulls.T, pulls, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-10)
    np.testing.assert_allclose(2 * np.log(found.heights()), log_dets - log_dets[-1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.average(weights), average, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(found.scatter(0.9 * weights, 0.1), scatter(pulls, weights), rtol=1e-9, atol=1e-14)


def scatter(pulls, weights):
    """Compute the covariance of the solutions, (K, M), with a zero of weight 0.1."""
    return np.cov(np.vstack([pulls, 0 * pulls[:1]]).T, aweights=np.append(0.9 * weights, 0.1), ddof=0)


def test_what_was_not_measured_has_no_height_and_slopes_hold_where_eigenvalues_meet(x64):
    def distance(scale):
        return shift(scale * jnp.eye(3), jnp.array([1.0, 4.0]), jnp.ones(3)).distances[0]

    np.testing.assert_allclose(jax.grad(distance)(2.0), -3 / 9)
    found = shift(jnp.diag(jnp.array([2.0, 0.0, 5.0])), jnp.array([1.0, 4.0]), jnp.ones(3))
    np.testing.assert_allclose(found.heights(jnp.array([1.0, 0.0, 1.0])) ** 2, [6 * 9 / (3 * 6), 1.0])


@pytest.mark.parametrize("size", SIZES)
def test_native_loops_have_the_same_bits_for_one_series_and_for_eight(size, rng):
    systems = [oracle.random_cov(rng, size) for _ in range(8)]
    rhs, weights = rng.normal(size=(8, size)), rng.dirichlet(np.ones(12), 8)
    eight = by_loops(np.stack(systems, -1), SHIFTS[:, None].repeat(8, 1), rhs.T, weights.T, 8)
    for lane, (a, b, shares) in enumerate(zip(systems, rhs, weights, strict=True)):
        one = by_loops(a, SHIFTS, b, shares, 1)
        np.testing.assert_array_equal(one, eight[:, lane])
        pulls, distances, _, average = by_numpy(a, b, shares)
        rows, columns = np.tril_indices(size)
        np.testing.assert_allclose(one[: size * 12].reshape(size, 12).T, pulls, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(one[size * 12 :][:12], distances, rtol=1e-9)
        averaged, scattered = one[-2 * len(rows) :].reshape(2, -1)
        np.testing.assert_allclose(averaged, average[rows, columns], rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(scattered, scatter(pulls, shares)[rows, columns], rtol=1e-8, atol=1e-13)


_code = {}


def by_loops(a, shifts, b, weights, lanes):
    """Compute the parts of the inverses, their average, and the scatter of the solutions, per lane."""
    shape = Inverses(len(a), 12)
    average, apart = (WeightedSum(len(a), 12, centred) for centred in (False, True))
    if (len(a), lanes) not in _code:
        texts = {line for each in (shape, average, apart) for line in function(each, "double", lanes)}
        text = "\n".join(sorted(texts)).replace("define internal", "define")
        loaded = [llvm_jit.load(llvm_jit.compile(text), each.name) for each in (shape, average, apart)]
        kinds = ([ctypes.c_void_p] * 4, [ctypes.c_void_p] * 3, [ctypes.c_void_p] * 4)
        calls = [llvm_jit.function(one.address, *kind) for one, kind in zip(loaded, kinds, strict=True)]
        _code[len(a), lanes] = (loaded, calls)
    inverses, averages, scatters = _code[len(a), lanes][1]
    held, result, spread = (np.empty((each.room, lanes)) for each in (shape, average, apart))
    given = [np.ascontiguousarray(each) for each in (a, shifts, b, weights, 0.9 * weights, np.full(lanes, 0.1))]
    inverses(*(each.ctypes.data for each in (*given[:3], held)))
    averages(held.ctypes.data, given[3].ctypes.data, result.ctypes.data)
    scatters(held.ctypes.data, given[4].ctypes.data, given[5].ctypes.data, spread.ctypes.data)
    return np.concatenate([held[shape.parts(12)], result, spread[: apart.entries]]).reshape(
        -1, *([lanes] if lanes > 1 else [])
    )


@pytest.mark.parametrize("size", [9, 18])
def test_native_factors_have_the_same_bits_for_one_series_and_for_eight(size, rng):
    """Of eight matrices the last two are not positive definite: their factors are NaN."""
    from wolf.native.kernels import cholesky, matmul

    shape = cholesky.Factor(size)
    systems = [oracle.random_cov(rng, size) for _ in range(8)]
    systems[6][3, 3] = -1.0
    systems[7][-1, -1] = 0.0
    found = {}
    for lanes in (1, 8):
        text = "\n".join(cholesky.function(shape, "double", lanes)).replace("define internal", "define")
        loaded = llvm_jit.load(llvm_jit.compile(text), shape.name)
        call, row = llvm_jit.function(loaded.address, *[ctypes.c_void_p] * 2), matmul.stride(size, lanes)
        for first in range(0, 8, lanes):
            a, c = np.zeros((size, row, lanes)), np.zeros((size, row, lanes))
            a[:, :size] = np.stack(systems[first : first + lanes], -1)
            call(a.ctypes.data, c.ctypes.data)
            found |= {(lanes, first + lane): np.triu(c[:, :size, lane]).T for lane in range(lanes)}
    for i, system in enumerate(systems):
        np.testing.assert_array_equal(found[1, i], found[8, i])
        if i < 6:
            np.testing.assert_allclose(found[1, i], np.linalg.cholesky(system), rtol=1e-9, atol=1e-12)
        else:
            assert np.isnan(found[1, i][np.tril_indices(size)]).all()
