"""Factorisations, solutions, sorts and computed indices by native code: the results of NumPy and LAPACK."""

import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.unit.native.test_native import evaluate

import wolf
from wolf.numerics.jax_compat import enable_x64

pytest.importorskip("llvmlite")

RNG = np.random.default_rng(0)
TRACK = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)


def run(compute, *values):
    with enable_x64(True):
        program = jax.make_jaxpr(compute)(*values)
    return evaluate(program, values, loops=True)[0]


def matrices(size):
    """Random ones, one whose rows must be exchanged, and a stochastic one with many zeros."""
    shifted = np.roll(np.eye(size), 1, 0) + 1e-9 * RNG.normal(size=(size, size))
    return [RNG.normal(size=(size, size)), shifted, np.diag(np.arange(1.0, size + 1)) + np.eye(size, k=1)]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_linear_algebra_is_that_of_lapack(size):
    b = RNG.normal(size=(size, 2))
    for a in matrices(size):
        np.testing.assert_allclose(run(jnp.linalg.solve, a, b), np.linalg.solve(a, b).ravel(), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(run(jnp.linalg.inv, a), np.linalg.inv(a).ravel(), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(run(jnp.linalg.det, a), [np.linalg.det(a)], rtol=1e-12)
        np.testing.assert_allclose(run(lambda a: jnp.linalg.slogdet(a)[1], a), [np.linalg.slogdet(a)[1]], atol=1e-12)
        np.testing.assert_allclose(run(jnp.linalg.norm, a), [np.linalg.norm(a)], rtol=1e-14)


def test_singular_matrix_has_determinant_zero_and_no_finite_solution():
    a = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, 0.0, 1.0, 2.0])
    assert run(jnp.linalg.det, a) == 0.0
    assert not np.isfinite(run(jnp.linalg.solve, a, np.ones(4))).any()


def test_derivatives_of_a_solution_are_those_of_xla():
    def compute(x, b):
        return jnp.linalg.solve(jnp.outer(x, x) + jnp.diag(jnp.cos(x)), b)

    x, b = RNG.normal(size=(2, 4))
    for derivative in (jax.jacfwd(compute), jax.jacrev(compute)):
        with enable_x64(True):
            expected = np.asarray(derivative(x, b))
        np.testing.assert_allclose(run(derivative, x, b), expected.ravel(), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("values", [[3.0, 1.0, 2.0, 1.0], [np.nan, 2.0, np.inf, -np.inf], [-1.0, -5.0, 0.0, -0.5]])
def test_sorts_and_computed_indices_are_those_of_numpy(values):
    x, other = np.array(values), np.array([10.0, 20.0, 30.0, 40.0])
    np.testing.assert_array_equal(run(jnp.sort, x), np.sort(x))
    np.testing.assert_array_equal(run(lambda x, y: y[jnp.argsort(x)], x, other), other[np.argsort(x, kind="stable")])
    np.testing.assert_array_equal(run(jnp.median, x), np.median(x))
    for extreme in (jnp.argmax, jnp.argmin):
        chosen = run(lambda x, extreme=extreme: 1.0 * extreme(x), x)
        np.testing.assert_array_equal(chosen, getattr(np, extreme.__name__)(x))


def test_remainder_of_whole_numbers():
    np.testing.assert_array_equal(
        run(lambda x: 1.0 * jnp.remainder(x.astype(int), 3), np.array([-4.0, 4.0, 6.0])), [2.0, 1.0, 0.0]
    )


def gate(residual, obs_cov, innovation_cov):
    distance = residual @ jnp.linalg.solve(innovation_cov, residual)
    share = jnp.linalg.norm(jnp.linalg.inv(obs_cov) @ residual)
    return jnp.where(distance < 9.0, 1.0, 1.0 / jnp.sqrt(1.0 + share))


def test_weight_with_linear_algebra_has_the_same_bits_on_all_native_paths_and_the_numbers_of_xla(rng):
    method, ys = wolf.WoLF(gate), 10.0 * rng.normal(size=(12, 2))
    ys[3], ys[5], ys[7, 0] = 300.0, np.nan, np.inf
    out = wolf.filter(TRACK, ys, method=method, backend="native")
    online, bank = wolf.Online(TRACK, method, backend="native"), wolf.Bank(TRACK, method)
    for y in ys:
        online.step(y)
    bank.step(np.repeat(np.arange(9), len(ys)), np.concatenate([ys] * 9))
    np.testing.assert_array_equal(online.mean, out.final.mean)
    np.testing.assert_array_equal(bank[8].mean, out.final.mean)
    expected = wolf.filter(TRACK, ys, method=method, backend="xla")
    np.testing.assert_allclose(out.means, expected.means, rtol=1e-12, atol=1e-12)
    assert expected.weights[3] < 0.5


def turn(x, u):
    return jnp.stack([x[0] + 0.1 * jnp.cos(x[2]) * u[0], x[1] + 0.1 * jnp.sin(x[2]) * u[0], x[2] + 0.1 * u[1]])


def test_exported_filter_with_inputs_and_linear_algebra_is_that_of_python(tmp_path):
    def observe(x):
        return jnp.linalg.solve(jnp.diag(2.0 + jnp.sin(x[:2])), x[:2])

    how = (0.01 * np.eye(3), 0.1 * np.eye(2), wolf.Gaussian(np.zeros(3), np.eye(3)))
    with pytest.raises(ValueError, match=r"state it in the model, as StateSpaceModel\(..., inputs=2\)"):
        wolf.export_c(wolf.StateSpaceModel(turn, observe, *how), wolf.WoLF(gate), tmp_path / "car.c")
    made = wolf.export_c(wolf.StateSpaceModel(turn, observe, *how, inputs=2), wolf.WoLF(gate), tmp_path / "car.c")
    assert "const float u[2]" in made.header.read_text()
    if made.code_bytes is None:
        pytest.skip("no C compiler")
    command = ["cc", "-std=c99", "-ffp-contract=off", "-DCAR_SELF_TEST", str(made.path), "-lm", "-o", tmp_path / "car"]
    subprocess.run(command, check=True)
    assert subprocess.run([tmp_path / "car"], check=False).returncode == 0
