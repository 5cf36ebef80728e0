"""Native code: agrees with XLA, has the same bits on every execution path, and reports why it is not used."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import oracle
from tests.rows import rows

import wolf
from wolf.api.smoothing import smoothing_task
from wolf.execution import backend_selection, smoothing, validate
from wolf.native.codegen.step_loop import write_run
from wolf.native.frontend.jaxpr_to_graph import translate
from wolf.native.frontend.signature import flatten_model
from wolf.native.frontend.trace import trace
from wolf.native.kernels.exp_log import LOWEST
from wolf.numerics.jax_compat import CAN_TAG, enable_x64

pytest.importorskip("llvmlite")

TRACK = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
STEPS = 40
SAVED = ("means", "covs", "predicted_means", "predicted_covs", "weights", "log_liks", "nis", "innovation_covs")


def nasty(seed, shape):
    """Generate measurements with missing, infinite and unsquarable values, and a jump."""
    rng = np.random.default_rng(seed)
    ys = np.cumsum(rng.normal(size=shape), -2) + 3 * rng.normal(size=shape)
    ys[rng.random(shape) < 0.1] += 100
    ys[rng.random(shape) < 0.05] = np.nan
    ys[..., 3, 0], ys[..., 5, :], ys[..., 7, 0], ys[..., 9, 0], ys[..., 11, :] = np.inf, -1e300, 1e150, 1e30, np.nan
    ys[..., shape[-2] // 2 :, :] += 300
    return ys


def swing(x):
    return jnp.array([x[0] + 0.1 * x[1], x[1] - 0.98 * jnp.sin(x[0])])


def look(x):
    return jnp.array([jnp.sin(x[0]), jnp.cos(x[0])])


PENDULUM = wolf.StateSpaceModel(
    swing, look, 0.01 * np.eye(2), 0.1 * np.eye(2), wolf.Gaussian(np.array([0.5, 0.0]), 0.1 * np.eye(2))
)
YS = nasty(1, (STEPS, 2))


def assert_same(out, expected, fields, **tolerance):
    for name in fields:
        if name in expected.saved:
            np.testing.assert_allclose(out.saved[name], expected.saved[name], err_msg=name, **tolerance)


GAUSSIAN = [name for name in wolf.methods.names() if not wolf.methods.make(name).requirements.key]


@pytest.mark.thorough
@rows(GAUSSIAN)
def test_every_method_is_the_same_filter_by_native_code_and_by_xla(name):
    """RSTKF, IMM, RoLF and RunLength amplify rounding errors after 1e150, so they do not get such values."""
    ys = np.where(np.abs(YS) > 1e20, 50.0, YS) if name in ("RSTKF", "IMM", "RoLF", "RunLength") else YS
    expected = wolf.filter(TRACK, ys, method=name, backend="xla")
    out = wolf.filter(TRACK, ys, method=name, backend="native")
    assert (out.backend, expected.backend) == ("native", "xla")
    assert_same(out, expected, SAVED, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(out.outliers, expected.outliers)


@pytest.mark.parametrize("form", ["joseph", "symmetric", "sqrt"])
def test_every_form_is_the_same_by_native_code_and_by_xla(form):
    method = wolf.WoLF(form=form) if form == "sqrt" else wolf.Learned(form=form)
    out, expected = (wolf.filter(TRACK, YS, method=method, backend=engine) for engine in ("native", "xla"))
    assert_same(out, expected, SAVED, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "linearization", [wolf.linearization.Taylor(), wolf.linearization.Unscented()], ids=["EKF", "UKF"]
)
def test_functions_are_the_same_by_native_code_and_by_xla(linearization):
    method = wolf.Learned(linearization=linearization)
    out, expected = (wolf.filter(PENDULUM, YS / 50, method=method, backend=engine) for engine in ("native", "xla"))
    assert_same(out, expected, SAVED, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["KF", "WoLF", "WoLF-TMD"])
def test_bits_are_those_of_jax_without_compilation(name, x64):
    method = validate.resolve_method(name, TRACK)
    state, means, ys = wolf.init(TRACK, method), [], YS[:6]
    with jax.disable_jit():
        for y in ys:
            state, _ = wolf.step(TRACK, method, state, jnp.asarray(y))
            means.append(np.asarray(state.mean))
    last_bit = 0.0 if CAN_TAG else 1e-13  # a JAX before 0.7 multiplies and adds in one rounding
    found = wolf.filter(TRACK, ys, method=name, backend="native").means
    np.testing.assert_allclose(found, np.stack(means), rtol=last_bit)


@pytest.mark.parametrize("model", [TRACK, PENDULUM], ids=["track", "pendulum"])
@pytest.mark.parametrize("name", ["WoLF", None], ids=["WoLF", "default"])
def test_bits_do_not_depend_on_the_execution_path(model, name):
    ys = nasty(2, (9, STEPS, 2))
    many = wolf.filter_many(model, ys, method=name, backend="native")
    for i in (0, 7, 8):
        out = wolf.filter(model, ys[i], method=name, backend="native")
        for field, values in out.saved.items():
            np.testing.assert_array_equal(many.saved[field][i], values, err_msg=field)
        online = wolf.Online(model, name, backend="native")
        reports = [(online.step(y).weight, online.mean, online.cov) for y in ys[i]]
        for got, expected in zip(zip(*reports, strict=True), (out.weights, out.means, out.covs), strict=True):
            np.testing.assert_array_equal(np.stack(got), expected)
        parts = wolf.filter_chunks(model, np.split(ys[i], [1, 13]), method=name, backend="native")
        np.testing.assert_array_equal(np.concatenate([part.means for part in parts]), out.means)


@pytest.mark.parametrize("update_first", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_model_that_varies_in_time_and_takes_inputs(update_first):
    model = wolf.LinearModel(**oracle.random_system(1, states=2, steps=STEPS, controls=1))
    us = np.random.default_rng(3).normal(size=(STEPS, 1))
    options = {"inputs": us, "update_first": update_first}
    out, expected = (wolf.filter(model, YS, backend=engine, **options) for engine in ("native", "xla"))
    assert_same(out, expected, SAVED, rtol=1e-7, atol=1e-9)
    online = wolf.Online(model, update_first=update_first, backend="native")
    means = [(online.step(y, u=u), online.mean)[1] for y, u in zip(YS, us, strict=True)]
    np.testing.assert_array_equal(np.stack(means), out.means)


def test_series_of_different_lengths_and_models_of_their_own():
    models = [wolf.models.constant_velocity(2, 0.1, var, 10.0) for var in np.linspace(0.1, 1.0, 10)]
    series = [nasty(i, (STEPS, 2))[: STEPS - i] for i in range(10)]
    many = wolf.filter_many(models, series, backend="native")
    for i, (model, ys) in enumerate(zip(models, series, strict=True)):
        out = wolf.filter(model, ys, backend="native")
        np.testing.assert_array_equal(many[i].means, out.means)
        for mine, alone in zip(jax.tree.leaves(many[i].final), jax.tree.leaves(out.final), strict=True):
            np.testing.assert_array_equal(mine, alone)


def test_matrices_of_one_step_equal_those_of_another_model():
    online, other = (wolf.Online(TRACK, "WoLF", backend=engine) for engine in ("native", "xla"))
    rng = np.random.default_rng(4)
    for y in YS[12:24]:
        root = rng.normal(size=(2, 2))
        given = {"R": root @ root.T + np.eye(2), "F": np.eye(4) + 0.1 * rng.normal(size=(4, 4))}
        for filter in (online, other):
            filter.step(y, **given)
            filter.step(y, Q=np.zeros((4, 4)))  # valid, though no pivot is positive
        np.testing.assert_allclose(online.mean, other.mean, rtol=1e-9)
    before = online.mean
    with pytest.raises(ValueError, match="R must be positive definite"):
        online.step(YS[0], R=-np.eye(2), F=np.eye(4))
    np.testing.assert_array_equal(online.mean, before)


def test_single_precision():
    out, expected = (wolf.filter(TRACK, YS, dtype="float32", backend=engine) for engine in ("native", "xla"))
    assert out.means.dtype == np.float32
    assert_same(out, expected, ("means", "covs"), rtol=2e-3, atol=2e-2)


def test_a_covariance_is_kept_as_one_half_and_dead_parts_are_dropped():
    suited = validate.adapt_model(TRACK, wolf.KF(), None)
    whole, lean = (
        trace(flatten_model([suited], wolf.KF(), "float64", False, None, save).signature) for save in ("all", "final")
    )
    numbers = [place for place in whole.layout.state if place.kind == "f"]
    assert [place.offset for place in numbers] == list(range(4 + 10))
    assert lean.operations < whole.operations


def test_symmetric_state_stays_symmetric_behind_a_branch():
    """A jump, which is a branch, sets all sensitivities of the covariance to zero."""
    kind = flatten_model(
        [validate.adapt_model(TRACK, wolf.Adaptive(), None)], wolf.Adaptive(), "float64", False, None, "all"
    ).signature
    state = trace(kind).state
    assert [shape for shape, half in zip(state.shapes, state.halves, strict=True) if half] == [(4, 4), (4, 4)]


@pytest.mark.parametrize("name", ["KF", "Adaptive"])
def test_state_is_packed_and_unpacked(name):
    out = wolf.filter_many(TRACK, nasty(3, (3, STEPS, 2)), method=name)
    method = wolf.methods.make(name)
    code = backend_selection.compile_filter(
        "native", [validate.adapt_model(TRACK, method, None)], method, "float64", False, None, "all"
    )[0].code
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(out.final)]
    numbers, counts = code.pack(leaves)
    assert (numbers.shape[1], counts.shape[1]) == code.state_sizes
    assert numbers.flags.c_contiguous  # the code goes from row to row
    for found, leaf in zip(jax.tree.leaves(code.unpack(numbers, counts)), leaves, strict=True):
        np.testing.assert_array_equal(found, leaf)


def test_models_of_one_signature_share_code():
    kinds = {
        flatten_model(
            [wolf.models.constant_velocity(2, dt, q, 1.0)], wolf.KF(), "float64", False, None, "all"
        ).signature
        for dt, q in ((0.1, 0.3), (0.2, 0.4))
    }
    assert len(kinds) == 1


def test_generated_code_has_no_fast_math_flags():
    suited = validate.adapt_model(TRACK, wolf.Learned(), None)
    step = trace(flatten_model([suited], wolf.Learned(), "float64", False, None, "all").signature)
    text = write_run(step.graph, step.layout, 8, "run")
    assert not any(word in text for word in (" fast ", " nnan ", " contract ", " reassoc ", "fmuladd"))


@pytest.mark.parametrize(
    ("model", "options", "reason"),
    [
        (TRACK, {"method": "EnKF", "key": 0}, "random numbers are drawn"),
        (wolf.models.constant_velocity(40, 1.0, 1.0, 1.0), {"method": "KF"}, "80 dimensions are too many"),
        (TRACK, {"backend": "xla"}, "requested"),
    ],
)
def test_fallback_to_xla_reports_its_reason(model, options, reason):
    out = wolf.filter(model, np.zeros((3, model.obs_dim)), save="means", **options)
    assert reason in out.backend_reason
    if "backend" not in options:
        with pytest.raises(ValueError, match="cannot run this"):
            wolf.filter(model, np.zeros((3, model.obs_dim)), backend="native", **options)


def test_unknown_backend_is_an_error():
    with pytest.raises(ValueError, match="backend must be one of"):
        wolf.filter(TRACK, YS, backend="gpu")


def test_without_llvm_the_run_goes_by_xla(monkeypatch):
    monkeypatch.setattr(backend_selection.llvm_jit, "available", lambda: "llvmlite is not installed")
    assert wolf.filter(TRACK, YS[:3], save="means").backend_reason == "llvmlite is not installed"


def test_with_old_llvm_the_run_falls_back_to_xla(monkeypatch):
    monkeypatch.setattr("llvmlite.binding.llvm_version_info", (15, 0, 7))
    assert wolf.filter(TRACK, YS[:3], save="means").backend_reason.startswith("llvmlite is too old: pip install")


@given(st.floats(allow_nan=True, allow_infinity=True), st.floats(allow_nan=True, allow_infinity=True))
def test_elementary_functions_are_those_of_numpy(a, b):
    out = ELEMENTARY(np.array([a, b]))
    with np.errstate(all="ignore"):
        for got, x in zip(out, (a, b), strict=True):
            if not 0 < abs(x) < 1e-300:  # XLA flushes such numbers to zero, and nothing is promised
                power = 0.0 if x < LOWEST else np.exp(x)
                np.testing.assert_allclose(got, [power, np.log(x)], rtol=4e-16 * 2)


def _elementary():
    """Compile exp and log of a vector by the code generator alone."""
    import ctypes

    from wolf.native.codegen.step_loop import write_once
    from wolf.native.execute import llvm_jit
    from wolf.native.ir.graph import ONCE, Graph
    from wolf.native.ir.layout import Layout, Slot

    with enable_x64(True):
        program = jax.make_jaxpr(lambda x: jnp.stack([jnp.exp(x), jnp.log(x)], 1))(np.zeros(2))
    graph = Graph("float64")
    inputs = np.array([graph.input(i, "f", ONCE) for i in range(2)])
    (results,) = translate(graph, program, [inputs])
    layout = Layout([Slot("model", 0), Slot("model", 1)], [], results.ravel().tolist(), [], [], [], [])
    loaded = llvm_jit.load(llvm_jit.compile(write_once(graph, layout, "elementary_test")), "elementary_test")
    call = llvm_jit.function(loaded.address, ctypes.c_void_p, ctypes.c_void_p)

    def run(x, loaded=loaded):
        kept = np.empty(4)
        call(x.ctypes.data, kept.ctypes.data)
        return kept.reshape(2, 2)

    return run


ELEMENTARY = _elementary()


def test_code_with_a_recorder_of_wolf_is_stored(tmp_path, monkeypatch):
    from wolf.engine.jump_backdating import record_jump_evidence
    from wolf.native.execute import disk_cache

    monkeypatch.setattr(disk_cache, "_folder", lambda: tmp_path)
    savers = (record_jump_evidence, lambda state, info: {}, "all", lambda state, info: None)
    kinds = [flatten_model([TRACK], wolf.KF(), "float64", False, None, save).signature for save in savers]
    places = [disk_cache.cache_key(kind, "run") for kind in kinds]
    assert places[1] is places[3] is None
    assert len({places[0], places[2], None}) == 3


@pytest.mark.parametrize(
    "methods",
    [
        [wolf.WoLF(wolf.weights.MahalanobisIMQ(metric=metric)) for metric in "SR"],
        pytest.param([wolf.Adaptive(sensors=sensors) for sensors in ("each", (0, 0))], marks=pytest.mark.slow),
        [wolf.methods.make("KF", form=form) for form in ("joseph", "sqrt")],
    ],
)
def test_static_fields_are_part_of_the_cache_key(methods, tmp_path, monkeypatch):
    """JAX gives their structures the same hash."""
    from wolf.native.execute import disk_cache

    monkeypatch.setattr(disk_cache, "_folder", lambda: tmp_path)
    kinds = [flatten_model([TRACK], method, "float64", False, None, "all").signature for method in methods]
    places = [disk_cache.cache_key(kind, "run") for kind in kinds]
    assert None not in places
    assert places[0] != places[1]
    ys = np.random.default_rng(0).normal(0.0, 5.0, (20, 2))
    for method in methods:
        native, xla = (wolf.filter(TRACK, ys, method=method, backend=engine).means for engine in ("native", "xla"))
        np.testing.assert_allclose(native, xla, rtol=1e-9)


def test_stored_code_is_reused_and_a_damaged_file_recompiled(tmp_path, monkeypatch):
    from wolf.native.execute import disk_cache

    monkeypatch.setattr(disk_cache, "_folder", lambda: tmp_path)
    made = []
    for _ in range(2):
        assert disk_cache.get_or_compile("a", lambda: made.append(1) or b"code") == b"code"
    assert len(made) == 1
    (tmp_path / "a.o").write_bytes(b"x" * 40)
    assert disk_cache.get_or_compile("a", lambda: made.append(1) or b"code") == b"code"
    assert len(made) == 2


def test_code_with_user_functions_is_not_stored(tmp_path, monkeypatch):
    from wolf.native.execute import disk_cache

    monkeypatch.setattr(disk_cache, "_folder", lambda: tmp_path)
    kinds = [flatten_model([model], wolf.EKF(), "float64", False, None, "all").signature for model in (TRACK, PENDULUM)]
    assert [disk_cache.cache_key(kind, "run") is None for kind in kinds] == [False, True]


def full(states, seed=5):
    return wolf.LinearModel(**oracle.random_system(seed, states=states, measured=states // 2))


@pytest.mark.parametrize("op", ["product", "lower", "upper"])
def test_matrix_kernels_have_the_bits_of_straight_line_code(op):
    """For rows that do not fill a register, and for more or fewer than are processed at once."""
    rng = np.random.default_rng(0)
    for n, p in ((7, 9), (10, 10), (17, 6)):
        a, b = rng.normal(size=(n, n)) + 4 * np.eye(n), rng.normal(size=(n, p))

        def compute(a, b, op=op):
            return a @ b if op == "product" else jax.scipy.linalg.solve_triangular(a, b, lower=op == "lower")

        with enable_x64(True):
            program = jax.make_jaxpr(compute)(a, b)
        results, loops = zip(*(evaluate(program, (a, b), loops) for loops in (True, False)), strict=True)
        assert loops == (True, False)
        np.testing.assert_array_equal(*results)
        np.testing.assert_allclose(results[0].reshape(n, p), compute(jnp.array(a), jnp.array(b)), rtol=1e-3, atol=1e-3)


def evaluate(program, values, loops):
    """Run a program by native code; also return whether it contains a kernel."""
    import ctypes

    from wolf.native.codegen.step_loop import write_once
    from wolf.native.execute import llvm_jit
    from wolf.native.ir.graph import ONCE, Graph
    from wolf.native.ir.layout import Layout, Slot

    graph, at, inputs = Graph("float64", loops=loops), 0, []
    for value in values:
        inputs.append(np.array([graph.input(at + i, "f", ONCE) for i in range(value.size)]).reshape(value.shape))
        at += value.size
    (found,) = translate(graph, program, inputs)
    layout = Layout([Slot("model", i) for i in range(at)], [], found.ravel().tolist(), [], [], [], [])
    loaded = llvm_jit.load(llvm_jit.compile(write_once(graph, layout, "evaluated")), "evaluated")
    given, kept = np.concatenate([value.ravel() for value in values]), np.empty(found.size)
    llvm_jit.function(loaded.address, ctypes.c_void_p, ctypes.c_void_p)(given.ctypes.data, kept.ctypes.data)
    return kept, any(node.op == "dense" for node in graph.nodes)


@pytest.mark.thorough
def test_a_full_model_is_the_same_by_native_code_and_by_xla_and_one_by_one():
    model, ys = full(10), nasty(6, (9, STEPS, 5))
    many = wolf.filter_many(model, ys, method="WoLF", backend="native")
    for i in (0, 8):
        out = wolf.filter(model, ys[i], method="WoLF", backend="native")
        for field, values in out.saved.items():
            np.testing.assert_array_equal(many.saved[field][i], values, err_msg=field)
    expected = wolf.filter(model, ys[8], method="WoLF", backend="xla")
    assert_same(out, expected, SAVED, rtol=1e-7, atol=1e-9)
    together, alone, other = wolf.smooth(many), wolf.smooth(out), wolf.smooth(expected)
    for name in ("means", "covs"):
        np.testing.assert_array_equal(getattr(together, name)[8], getattr(alone, name))
        np.testing.assert_allclose(getattr(alone, name), getattr(other, name), rtol=1e-7, atol=1e-9)


SMOOTHED = {
    "track": (TRACK, {}),
    "functions": (PENDULUM, {"method": wolf.Learned(linearization=wolf.linearization.Unscented())}),
    "in time": (wolf.LinearModel(**oracle.random_system(1, states=2, steps=STEPS)), {"update_first": True}),
    "levels": (TRACK, {"method": "Adaptive"}),
}


@pytest.mark.parametrize("which", SMOOTHED)
def test_smoothing_is_the_same_by_native_code_and_by_xla(which):
    model, options = SMOOTHED[which]
    lengths = (STEPS, 7, 2, STEPS - 1)
    for out in (
        wolf.filter(model, YS / 50, **options),
        wolf.filter_many(model, [nasty(i, (STEPS, 2))[:n] / 50 for i, n in enumerate(lengths)], **options),
    ):
        task = smoothing_task(model, out)
        found, expected = smoothing.run_native(task), smoothing.run_xla(task)
        assert found is not None
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)


def test_a_walk_back_that_needs_eigenvectors_goes_by_xla():
    """Two of nine states never move and are known: their predictions have no spread."""
    system = oracle.random_system(7, states=9)
    still = np.diag(np.repeat([0.0, 1.0], [2, 7]))
    system |= {"F": np.eye(9), "Q": still @ system["Q"] @ still, "cov": still @ system["cov"] @ still}
    out = wolf.filter(wolf.LinearModel(**system), YS[12:20], method="KF")
    assert smoothing.run_native(smoothing_task(out.model, out)) is None
    means, covs = oracle.batch(system, YS[12:20])
    smoothed = wolf.smooth(out)
    oracle.assert_close(1e-8, means=(smoothed.means, means), covs=(smoothed.covs, covs))


def test_lazy_arrays_have_the_bits_of_eager_ones():
    """Series of different lengths, with missing values; the caller's array is overwritten in between."""
    series = [nasty(i, (STEPS, 2))[: STEPS - i] for i in range(9)]
    given = [np.array(ys) for ys in series]
    out = wolf.filter_many(TRACK, given)
    assert out.saved.pending
    assert (len(out), "residuals" in out.saved, "9 series" in repr(out)) == (9, True, True)
    assert out.saved.pending
    for ys in given:
        ys[:] = 0.0
    for i in (0, 8):
        alone = wolf.filter(TRACK, series[i])
        assert list(out[i].saved) == list(alone.saved)
        for field, values in alone.saved.items():
            np.testing.assert_array_equal(out[i].saved[field], values, err_msg=field)
            np.testing.assert_array_equal(out[i][5:9].saved[field], values[5:9], err_msg=field)
    assert not out.saved.pending


def test_lazy_arrays_behave_like_a_dictionary():
    import copy
    import pickle

    def run():
        return wolf.filter_many(TRACK, nasty(3, (2, STEPS, 2)))

    whole = dict(run().saved)
    for other in (
        pickle.loads(pickle.dumps(run())).saved,
        copy.deepcopy(run().saved),
        jax.tree.map(lambda values: values, run().saved),
        {**run().saved},
        run().saved | {},
    ):
        assert (type(other), other.keys()) == (dict, whole.keys())
        for name, values in other.items():
            np.testing.assert_array_equal(values, whole[name])
    assert (run().saved.get("nothing"), len(run().saved)) == (None, len(whole))
    with pytest.raises(KeyError):
        run().saved["nothing"]
    frame = run().to_frame()
    assert (len(frame), "residual_x" in frame) == (2 * STEPS, True)


def test_modified_model_is_not_served_from_the_cache():
    model = wolf.LinearModel(**{name: np.array(part) for name, part in oracle.random_system(2).items()})
    before = wolf.filter(model, YS[12:]).means
    np.testing.assert_array_equal(wolf.filter(model, YS[12:]).means, before)
    model.R[...] *= 4.0
    again = wolf.LinearModel(F=model.F, H=model.H, Q=model.Q, R=model.R, mean=model.mean, cov=model.cov)
    changed = wolf.filter(model, YS[12:]).means
    assert not np.array_equal(changed, before)
    np.testing.assert_array_equal(changed, wolf.filter(again, YS[12:]).means)
