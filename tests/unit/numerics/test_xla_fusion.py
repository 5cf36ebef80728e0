"""Fusion: the fast path has the same bits, is taken where possible, and is skipped where it cannot be."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wolf
from wolf.engine.scan import run_filter
from wolf.inference.noise import Weighted
from wolf.numerics.xla_fusion import one_kernel

TAG = 'xla_cpu_small_call="true"'
NAMES = [name for name in wolf.methods.names() if isinstance(wolf.methods.make(name).noise, Weighted)]
RIVALS = ("KF-B", "KF-IW", "KF-Huang", "RSTKF", "MCKF", "ADF", "IMM", "OGD")
QUICK = ("EKF", "IEKF", "WoLF", "WoLF-PerCoordinate", "UKF")  # the others differ from these only in their weight
PRIOR = wolf.Gaussian(np.array([5.0, 2.0, 0.5, 0.1]), np.eye(4))


def move(x):
    return jnp.stack([x[0] + 0.1 * x[2], x[1] + 0.1 * x[3], x[2] - 0.01 * jnp.sin(x[0]), x[3]])


def range_bearing(x):
    return jnp.stack([jnp.sqrt(x[0] ** 2 + x[1] ** 2), jnp.arctan2(x[1], x[0])])


def functions(dynamics, observe):
    return wolf.StateSpaceModel(dynamics, observe, 0.1 * np.eye(4), np.diag([0.5, 0.1]), PRIOR)


TRACK = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
RADAR = functions(move, range_bearing)
BITS = ("KF", "WoLF-PerCoordinate", "UKF")  # also checked with the default compiler: linearizations and weights


def tier(name):
    """Return the tier of a row."""
    return pytest.mark.bits if name in BITS else () if name in QUICK else pytest.mark.slow


LINEAR = [pytest.param(name, marks=tier(name)) for name in NAMES]
NONLINEAR = [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in NAMES if n != "KF"]


@pytest.fixture(autouse=True)
def in_float64(x64):
    return x64


@pytest.fixture
def ys(rng):
    ys = 4 + rng.standard_t(2, (40, 2))
    ys[3], ys[5, 0], ys[7], ys[9, 1] = np.nan, np.nan, 1e300, np.inf
    return ys


def compile_fused(model, method, ys):
    """Compile once; return the text and the results."""
    compiled = run_filter.lower(model, ys, method, fused=True).compile()
    return compiled.as_text(), compiled(model, ys, method)


def assert_fused_with_the_same_numbers(model, name, ys):
    method = wolf.methods.make(name)
    text, fused = compile_fused(model, method, ys)
    assert TAG in text
    usual = run_filter(model, ys, method)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-10), fused, usual)
    return fused, usual


@pytest.mark.parametrize("name", LINEAR)
def test_fused_loop_on_a_linear_model_has_the_same_bits(name, ys):
    jax.tree.map(np.testing.assert_array_equal, *assert_fused_with_the_same_numbers(TRACK, name, ys))


@pytest.mark.thorough
@pytest.mark.parametrize("name", RIVALS)
def test_fused_loop_of_a_rival_has_the_same_numbers(name, ys):
    """Its inner iterations are a loop inside the loop, in the same kernel."""
    assert_fused_with_the_same_numbers(TRACK, name, ys)


@pytest.mark.parametrize("name", NONLINEAR)
def test_fused_loop_on_a_nonlinear_model_has_the_same_numbers(name, ys):
    assert_fused_with_the_same_numbers(RADAR, name, ys)


def everything(x):
    """Call the functions that models are likely to use."""
    smooth = [jnp.sin, jnp.cos, jnp.tanh, jnp.arctan, jnp.exp, jax.nn.sigmoid, jax.nn.softplus, jax.scipy.special.erf]
    powers = [x[0] ** 2, x[0] ** 3, jnp.abs(x[1]) ** 1.5, jnp.sqrt(1 + x[0] ** 2), jnp.log1p(x[0] ** 2), jnp.cbrt(x[0])]
    steps = [jnp.where(x[0] > 1, x[0], x[1]), jnp.clip(x[0], -1, 1), jnp.maximum(x[0], x[1]), jnp.mod(x[1], 7.0)]
    whole = [jnp.linalg.norm(x), jnp.cumsum(x)[-1], jnp.dot(x, x), jnp.hypot(x[0], x[1]), jnp.sinc(x[2]), x.prod()]
    total = sum(fn(x[2]) for fn in smooth) + 1e-3 * sum(powers) + 1e-3 * sum(steps) + 1e-3 * sum(whole)
    grid = jnp.interp(x[3], jnp.arange(3.0, dtype=x.dtype), jnp.array([0.0, 1.0, 4.0], x.dtype))
    loop = jax.lax.fori_loop(0, 3, lambda i, z: 0.5 * z + 0.1, x[3])
    return jnp.stack([total + x[0], x[1] + grid + loop + jnp.polyval(jnp.array([0.1, 0.2], x.dtype), x[0])])


@pytest.mark.parametrize("name", ["EKF", pytest.param("WoLF-UKF", marks=pytest.mark.slow)])
def test_usual_functions_are_fused_with_the_same_numbers(name, ys):
    assert_fused_with_the_same_numbers(functions(move, everything), name, ys)


def both_ways(x):
    return jnp.stack([x[0] + x[1], x[0] - x[1]])


MIX = np.array([[2.0, 0.5, 0.0, 0.0], [0.0, 1.0, 0.3, 0.0], [0.0, 0.0, 1.5, 0.0], [0.1, 0.0, 0.0, 1.2]])
UNMIX = np.linalg.inv(MIX)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("awkward", "plain"),
    [
        pytest.param(
            functions(move, lambda x: jnp.sort(jnp.stack([x[0] + x[1], x[0] - x[1]]))),
            functions(move, lambda x: jnp.stack([jnp.minimum(*both_ways(x)), jnp.maximum(*both_ways(x))])),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            functions(lambda x: jnp.linalg.solve(jnp.asarray(MIX, x.dtype), x), range_bearing),
            functions(lambda x: jnp.asarray(UNMIX, x.dtype) @ x, range_bearing),
            marks=pytest.mark.slow,
        ),
        (
            functions(lambda x: move(x).at[jnp.array([0, 2])].multiply(jnp.array([0.9, 0.8], x.dtype)), range_bearing),
            functions(lambda x: move(x) * jnp.array([0.9, 1.0, 0.8, 1.0], x.dtype), range_bearing),
        ),
    ],
    ids=["sort", "solve", "scatter"],
)
def test_what_cannot_be_fused_is_compiled_as_usual_and_right(awkward, plain, ys):
    out, expected = (wolf.filter(model, ys) for model in (awkward, plain))
    np.testing.assert_allclose(out.means, expected.means, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(out.covs, expected.covs, rtol=1e-10, atol=1e-10)
    text = run_filter.lower(awkward, ys, wolf.WoLF(), fused=True).as_text()
    assert TAG.replace('="true"', "") not in text


def test_large_models_are_not_fused(rng):
    size = 9
    model = wolf.LinearModel(None, np.eye(1, size), np.eye(size), np.eye(1), np.zeros(size), np.eye(size))
    ys = rng.normal(size=(5, 1))
    text, fused = compile_fused(model, wolf.KF(), ys)
    assert TAG not in text
    jax.tree.map(np.testing.assert_array_equal, fused, run_filter(model, ys, wolf.KF()))


def test_filter_takes_the_fast_path(ys, monkeypatch):
    asked = []

    def spy(*args, fused=False, **options):
        asked.append(fused)
        return run_filter(*args, fused=fused, **options)

    spy._cache_size, spy.clear_cache = run_filter._cache_size, run_filter.clear_cache
    monkeypatch.setattr(wolf.engine.scan, "run_filter", spy)
    out = wolf.filter(TRACK, ys, backend="xla")
    own = wolf.filter(TRACK, ys, save=lambda state, info: (state.mean, info.weight), backend="xla").saved
    assert asked == [True, True]
    _, saved = run_filter(TRACK, ys, wolf.Adaptive(), fused=True)
    np.testing.assert_array_equal(out.means, saved["means"])
    np.testing.assert_allclose(own[0], saved["means"], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(own[1], saved["weights"], rtol=1e-12, atol=1e-12)


def test_one_kernel_passes_structure_and_values_on():
    def loop(tree, steps):
        return jax.lax.fori_loop(0, steps.shape[0], lambda i, t: {"a": t["a"] + t["b"] * steps[i], "b": t["b"]}, tree)

    tree = {"a": jnp.ones(2), "b": jnp.arange(2.0)}
    got = jax.jit(lambda tree, steps: one_kernel(loop, tree, steps))(tree, jnp.arange(3.0))
    np.testing.assert_array_equal(got["a"], [1.0, 4.0])
    np.testing.assert_array_equal(got["b"], tree["b"])
