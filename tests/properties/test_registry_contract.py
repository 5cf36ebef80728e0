"""Contract of every row of the registry.

Compilation dominates the cost, so tests share programs: `keep` is one function object, all runs have one shape, and
properties of the trace alone are checked by `jax.eval_shape`.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.rows import PARTS, SLOW_GRADIENTS, SUCCESSORS, rows

import wolf
from wolf.inference.filters import Mode
from wolf.numerics.jax_compat import enable_x64
from wolf.numerics.pytree import cast, from_dict, to_dict

# Ensembles have a contract of their own: tests/unit/inference/test_ensembles.py.
NAMES = [row.name for row in wolf.methods.rows() if row.family != "ensemble"]
STEPS = 12
DRAWN = {row.name for row in wolf.methods.rows() if row.requirements.key} & set(NAMES)
PLAIN = {row.name for row in wolf.methods.rows("kalman")} | {"RoLF"}  # unbounded influence of a gross error
BOUNDED = {"OGD", "PF", "IMM"}  # not robust, but the effect of one step is bounded
SIZES_TRAIL = {
    "ADF",
    "ADF-Student",
    "Learned",
    "Adaptive",
    "RunLength",
}  # scale-mixture components or hypotheses are an axis after the coordinates, broadcast on purpose
OPTIONS = ("c", "dof", "alpha", "scaling", "threshold", "bandwidth", "learning_rate", "shape", "beta", "strength")
OPTIONS += ("q_uncertainty",)
each_method = pytest.mark.parametrize("name", NAMES)
each_row = rows(NAMES)
each_short_row = rows(NAMES, but=SLOW_GRADIENTS)
DIFFERENTIATED = {"KF", "WoLF", "KF-B", "Learned", "WoLF-TMD", "EKF", "UKF"}  # others take seconds to compile
each_small_row = rows([name for name in NAMES if name in DIFFERENTIATED], slow=[*sorted(set(NAMES) - DIFFERENTIATED)])
traces = []


def move(x):
    return jnp.stack([x[0] + 0.1 * x[2], x[1] + 0.1 * x[3], x[2] - 0.01 * jnp.sin(x[0]), x[3]])


def range_bearing(x):
    return jnp.stack([jnp.sqrt(x[0] ** 2 + x[1] ** 2), jnp.arctan2(x[1], x[0])])


def angle_residual(y, prediction):
    e = y - prediction
    return jnp.stack([e[0], jnp.arctan2(jnp.sin(e[1]), jnp.cos(e[1]))])


RADAR = wolf.StateSpaceModel(
    move,
    range_bearing,
    0.1 * np.eye(4),
    np.diag([0.5, 0.01]),
    wolf.Gaussian(np.array([20.0, 5.0, 1.0, 0.0]), np.eye(4)),
    residual=angle_residual,
)
LEVEL = wolf.models.local_level(level_var=0.1, obs_var=1.0)


@pytest.fixture
def ys(rng):
    return 4 * rng.standard_t(3, (STEPS, 2))


def keep(state, info):
    traces.append(info)
    kept = {"mean": state.mean, "cov": state.cov, "log_lik": info.log_likelihood}
    return {"outlier": info.outlier} | {name: value for name, value in kept.items() if value is not None}


def filtered(name, model, ys, method=None, **options):
    method = name if method is None else method
    return wolf.filter(model, ys, method=method, key=0 if name in DRAWN else None, **options)


def hyper(name, c=3.0):
    """Make a method with a given hyper-parameter, if it has one."""
    if name == "IMM":
        return wolf.methods.make(name, modes=(Mode(), Mode(obs_scale=c)))
    if name == "RunLength":
        return wolf.methods.make(name, filter=wolf.WoLF(wolf.MahalanobisIMQ(c, metric="S")))
    if name == "ADF":
        return wolf.methods.make(name, scales=(1.0, c))
    if name == "ADF-Student":
        return wolf.methods.make("ADF", scales=(0.5, 1.0, c), probabilities=(0.3, 0.4, 0.3))
    for options in (*({option: c} for option in OPTIONS), {"weight": wolf.MahalanobisIMQ(c)}):
        try:
            return wolf.methods.make(name, **options)
        except ValueError:
            continue
    return wolf.methods.make(name)


def needs_linear(name):
    return wolf.methods.make(name).requirements.linear


def scaled(model, q, r):
    return wolf.LinearModel(model.F, model.H, q * model.Q, r * model.R, model.mean, model.cov)


def is_positive(covs):
    scales = np.sqrt(np.einsum("...ii->...i", covs))
    return (np.linalg.eigvalsh(covs / scales[..., None] / scales[..., None, :]) > -1e-12).all()


def parts(name):
    """List the kinds of things that a row is made of; the sigma points of one rule are those of another."""
    method = wolf.methods.make(name)
    noise = method.noise
    kinds = [method, noise, getattr(noise, "rule", None), method.linearization]
    return {type(kind).__name__ for kind in kinds} - {"Cubature", "GaussHermite"}


def test_every_part_is_in_a_row_that_is_always_asked():
    asked = set(NAMES) - SUCCESSORS
    assert {part for name in asked for part in parts(name)} == {part for name in PARTS for part in parts(name)}


@each_small_row
def test_a_jitted_vmapped_scan_of_steps_is_the_filter(name, tracking, ys, x64):
    if name in DRAWN:
        pytest.skip("draws by a key of its own: tests/unit/inference/test_particle.py")
    data = np.stack([ys, ys[::-1]])
    data[0, 2, 0] = np.nan

    @jax.jit
    @jax.vmap
    def run(method, ys):
        return jax.lax.scan(partial(wolf.step, tracking, method), wolf.init(tracking, method), ys)

    one, other = (hyper(name, c).suited(tracking) for c in (2.0, 5.0))  # in the form of the public API
    both = jax.tree.map(lambda *leaves: np.stack(leaves), one, other)
    state, info = run(both, data)
    for i, c in enumerate((2.0, 5.0)):
        out = wolf.filter(tracking, data[i], method=hyper(name, c), save=keep)
        mine = jax.tree.map(lambda leaf, i=i: leaf[i], state)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9), mine, out.final)
        if info.log_likelihood is not None:
            np.testing.assert_allclose(info.log_likelihood[i], out.saved["log_lik"], rtol=1e-9, atol=1e-9)


@pytest.mark.thorough
@each_small_row
def test_gradients_match_finite_differences(name, tracking, ys, x64):
    if name in DRAWN | {"OGD"}:
        pytest.skip("resampling has no gradient; OGD does not depend on Q and R")
    ys[3], ys[5, 0], ys[7], ys[8], ys[10, 1] = np.nan, np.nan, 1e4, 1e300, np.inf
    model = LEVEL if name == "Adaptive" else tracking  # its program is the largest by far

    @jax.jit
    @jax.value_and_grad
    def loss(parameters):
        log_q, log_r, method = parameters
        changed = scaled(model, jnp.exp(log_q), jnp.exp(log_r))
        final, saved = wolf.run_filter(changed, ys[:, : model.obs_dim], method, save="final")
        return jnp.sum(final.mean) + jnp.sum(final.cov) + 1e-3 * jnp.sum(saved["log_liks"])

    def slope(q, r, c, step=1e-5):
        up, down = (loss((s * q, s * r, hyper(name, 3.0 + s * c)))[0] for s in (step, -step))
        return (up - down) / (2 * step)

    _, (by_q, by_r, by_method) = loss((0.0, 0.0, hyper(name)))
    np.testing.assert_allclose(by_q, slope(1, 0, 0), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(by_r, slope(0, 1, 0), rtol=1e-6, atol=1e-7)
    direction = jax.tree.map(lambda after, before: after - before, hyper(name, 4.0), hyper(name, 3.0))
    by_c = sum(
        jnp.sum(slope * change) for slope, change in zip(*map(jax.tree.leaves, (by_method, direction)), strict=True)
    )
    np.testing.assert_allclose(by_c, slope(0, 0, 1), rtol=1e-6, atol=1e-7)


@each_row
@pytest.mark.parametrize(
    ("series", "dtype"),  # many in float64 would be a third trace of the same operations
    [(None, "float32"), pytest.param(None, "float64", marks=pytest.mark.thorough), (3, "float32")],
)
def test_pure_layer_keeps_the_dtype_and_promotes_nothing(name, series, dtype, tracking, ys, x64):
    if name == "OGD":
        pytest.skip("optax promotes")
    model, method, data = jax.tree.map(jnp.asarray, cast((tracking, hyper(name), ys), dtype))
    run, data = (wolf.run_filter, data) if series is None else (wolf.run_many, jnp.stack([data] * series))
    run = partial(run, key=0 if name in DRAWN else None)
    with jax.numpy_dtype_promotion("strict"):
        shapes = jax.eval_shape(run, model, data, method)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(shapes)} == {dtype, "int32", "bool"}


@each_row
def test_one_series_is_broadcast_nowhere_by_accident(name, tracking, ys, x64):
    """With many series the trailing axis is broadcast on purpose, so this holds for one series only."""
    if name in SIZES_TRAIL:
        pytest.skip("scale-mixture components and hypotheses are broadcast on purpose")
    with jax.numpy_rank_promotion("raise"):
        run = partial(wolf.run_filter, key=0 if name in DRAWN else None)
        final, _ = jax.eval_shape(run, *jax.tree.map(jnp.asarray, (tracking, ys, hyper(name))))
    assert final.t.shape == ()


@each_row
def test_one_trace_serves_every_value(name, tracking, ys):
    def run(q, r, c, ys):
        return filtered(name, scaled(tracking, q, r), ys, hyper(name, c), save=keep).saved["mean"]

    first = run(1, 1, 4, ys)
    count = len(traces)
    others = [run(1, np.float32(2), 4.5, ys), run(1, 1, np.float64(5), 2 * ys), run(1, 3, 7, -ys)]
    others += [] if name == "OGD" else [run(1.5, 1, 4, ys)]
    assert len(traces) == count > 0
    assert all((first != other).any() for other in others)


@each_row
def test_results_are_finite_whatever_comes(name, tracking, ys):
    for bad in (np.nan, np.inf, -np.inf, 1e300):
        ys[0], ys[3, 1], ys[5:7] = bad, bad, bad
        out = filtered(name, tracking, ys, hyper(name), save=keep)
        assert all(np.isfinite(values).all() for values in out.saved.values())
        assert "cov" not in out.saved or is_positive(out.saved["cov"])
        assert out.missing == (7 if np.isnan(bad) else 0)
        assert out.saved["outlier"][[0, 5, 6]].all() == (not np.isnan(bad))


@each_row
def test_only_robust_methods_ignore_a_gross_error(name, tracking, ys):
    dirty = ys.copy()
    dirty[6] = 1e5
    clean, hit = (filtered(name, tracking, data, hyper(name), save=keep).saved["mean"] for data in (ys, dirty))
    moved = np.abs(hit - clean).max()
    assert moved > 1e3 if name in PLAIN else moved < 10 or name in BOUNDED


@each_method
def test_config_is_printable_comparable_hashable_and_storable(name):
    for method, twin in ((wolf.methods.make(name), wolf.methods.make(name)), (hyper(name, 3.5), hyper(name, 3.5))):
        assert method == twin
        assert hash(method) == hash(twin)
        assert from_dict(to_dict(method)) == method
        assert type(method).__name__ in repr(method)
    if jax.tree.leaves(hyper(name)) and name != "PF":
        assert hyper(name, 3.5) != hyper(name, 3.6)
        assert "3.5" in repr(hyper(name, 3.5))


@each_short_row
@pytest.mark.parametrize("model", [LEVEL, RADAR], ids=["level", "radar"])
def test_every_method_runs_on_every_kind_of_model(name, model):
    data = wolf.simulate.trajectory(model, 20, key=3, initial=model.prior.mean)
    if needs_linear(name) and not model.linear:
        with pytest.raises(ValueError, match="needs a linear model; for functions use"):
            wolf.filter(model, data.measurements, method=name)
        return
    out = filtered(name, model, data.measurements, save=keep).saved
    assert out["mean"].shape == (20, model.state_dim)
    # No covariance; forgotten; and samples of a wide prior that all miss the first measurement.
    if name in {"OGD", "KF-Ting", "PF", "Beta-PF"}:
        return
    assert is_positive(out["cov"])
    error = np.abs(out["mean"] - data.states) / np.sqrt(np.einsum("tii->ti", out["cov"]))
    assert np.mean(error < 3) > 0.9


@pytest.mark.slow
@each_method
@pytest.mark.parametrize("model", [LEVEL, RADAR], ids=["level", "radar"])
def test_many_series_agree_with_one_for_every_method(name, model):
    data = wolf.simulate.trajectory(model, 20, key=3, initial=model.prior.mean)
    if name in DRAWN or (needs_linear(name) and not model.linear):
        pytest.skip("other draws for each series, or refused")
    one = wolf.filter(model, data.measurements, method=name, save="means").means
    many = wolf.filter_many(model, np.stack([data.measurements] * 2), method=name, save="means").means
    np.testing.assert_allclose(many[1], one, rtol=1e-9, atol=1e-9)


def test_filter_returns_float64_and_keeps_the_settings_of_jax(tracking, ys):
    before = dict(jax.config.values)
    out = wolf.filter(tracking, ys)
    many, ahead, smoothed = (
        wolf.filter_many(tracking, ys[None]),
        wolf.forecast(tracking, out, 3),
        wolf.smooth(tracking, out),
    )
    online = wolf.Online(tracking)
    info = online.step(ys[0])
    assert dict(jax.config.values) == before
    assert jnp.ones(1).dtype == jnp.float32
    told = [info.weight, info.outlier, info.residual, info.predicted, info.innovation_cov, info.nis]
    results = [out.saved, out.final, many.saved, told, online.mean, online.cov, smoothed.means, smoothed.covs]
    for leaf in jax.tree.leaves([*results, ahead.means, ahead.covs, ahead.obs_means, ahead.obs_covs, ahead.upper]):
        assert isinstance(leaf, np.ndarray | np.generic)
        assert leaf.dtype in (np.float64, np.bool_, np.int32, np.int64)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_filter_keeps_the_dtype_that_was_asked_for(dtype, tracking, ys):
    for outer in (False, True):
        with enable_x64(outer):
            out = wolf.filter(tracking, ys, dtype=dtype)
        assert out.means.dtype == out.covs.dtype == out.log_liks.dtype == dtype


@pytest.mark.bits
def test_filter_works_in_two_threads_at_once(tracking, rng):
    data = rng.standard_t(3, (16, 50, 2))
    alone = [wolf.filter(tracking, ys).means for ys in data]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda ys: wolf.filter(tracking, ys).means, data))
        kinds = ["float32", "float64"] * 8
        mixed = list(pool.map(lambda ys, dtype: wolf.filter(tracking, ys, dtype=dtype).means, data, kinds))
    np.testing.assert_array_equal(together, alone)
    assert [means.dtype.name for means in mixed] == kinds
    np.testing.assert_allclose(mixed, alone, atol=1e-3)
