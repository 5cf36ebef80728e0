"""All execution paths agree: at once, in chunks, one by one, many series together."""

import io
import os
import stat
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests import oracle
from tests.oracle import DT, G, assert_close

import wolf
from wolf.runtime import npz_bytes

STEPS = 20
CUTS = (10,)
METHODS = {
    "KF": wolf.methods.KF(),
    "WoLF": wolf.WoLF(),
    "symmetric": wolf.WoLF(form="symmetric"),
    "sqrt": wolf.WoLF(form="sqrt"),
    "per coordinate": wolf.WoLF(wolf.PerCoordinate(wolf.MahalanobisIMQ(c=2.0))),
}
EVERYTHING = ("means", "covs", "predicted_means", "predicted_covs", "weights", "log_liks", "weighted_log_liks", "nis")


def swing(x, u):
    return jnp.array([x[0] + DT * x[1], x[1] - DT * G * jnp.sin(x[0]) + DT * u[0]])


def look(x, u):
    return jnp.array([jnp.sin(x[0]) + 0.1 * u[0], jnp.cos(x[0])])


def look_away(x, u):
    return jnp.array([jnp.cos(x[0]) + 0.1 * u[0], jnp.sin(x[0])])


def pendulum(observe=look, scale=1.0):
    prior = wolf.Gaussian(np.array([0.5, 0.0]), 0.1 * np.eye(2))
    return wolf.StateSpaceModel(swing, observe, 0.01 * np.eye(2), scale * np.array([[0.1, 0.02], [0.02, 0.1]]), prior)


@pytest.fixture
def varying():
    """Create a model whose every matrix varies in time, and that has inputs."""
    return wolf.LinearModel(**oracle.random_system(1, states=2, steps=STEPS, controls=1))


@pytest.fixture
def ys():
    return oracle.random_data(2, STEPS, missing=0.2, outliers=0.2)


@pytest.fixture
def us():
    return np.random.default_rng(3).normal(size=(STEPS, 1))


def by_steps(model, method, ys, us, update_first):
    advance = jax.jit(partial(wolf.step, update_first=update_first, fused=True))
    state, rows = wolf.init(model, method), []
    for t, y in enumerate(ys):
        state, info = advance(model, method, state, y, us[t], u_before=us[max(t - 1, 0)])
        rows.append((state.mean, jax.jit(lambda state: state.cov)(state), info.weight))
    return map(np.stack, zip(*rows, strict=True))


def by_chunks(model, method, ys, us, update_first):
    pieces = zip(np.split(ys, CUTS), np.split(us, CUTS), strict=True)
    saved = [saved for _, saved in wolf.run_chunks(model, pieces, method, save="all", update_first=update_first)]
    return (np.concatenate([part[name] for part in saved]) for name in ("means", "covs", "weights"))


def by_filter_chunks(model, method, ys, us, update_first):
    pieces = zip(np.split(ys, CUTS), np.split(us, CUTS), strict=True)
    parts = list(wolf.filter_chunks(model, pieces, method=method, save="all", update_first=update_first))
    return (np.concatenate([getattr(part, name) for part in parts]) for name in ("means", "covs", "weights"))


def by_scan(model, method, ys, us, update_first):
    _, saved = wolf.run_filter(model, ys, method, us, update_first=update_first)
    return (saved[name] for name in ("means", "covs", "weights"))


def online(model, method, ys, us, update_first, backend="auto"):
    filter, rows = wolf.Online(model, method, update_first=update_first, backend=backend), []
    for y, u in zip(ys, us, strict=True):
        info = filter.step(y, u=u)
        rows.append((filter.mean, filter.cov, info.weight))
    return map(np.stack, zip(*rows, strict=True))


def assert_same_bits(rows, out):
    for got, expected in zip(rows, (out.means, out.covs, out.weights), strict=True):
        np.testing.assert_array_equal(got, expected)


def assert_same_numbers(rows, out):
    for got, expected in zip(rows, (out.means, out.covs, out.weights), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-11)


WAYS = (by_scan, by_chunks, by_filter_chunks, by_steps, online)


@pytest.mark.parametrize("way", [by_scan, by_chunks, by_steps, online], ids=lambda way: way.__name__)
@pytest.mark.parametrize("method", METHODS)
def test_every_way_to_run_agrees_with_filter(method, way, varying, ys, us, x64):
    out = wolf.filter(varying, ys, method=METHODS[method], inputs=us)
    assert_same_numbers(way(varying, METHODS[method], ys, us, update_first=False), out)


@pytest.mark.bits
@pytest.mark.parametrize("update_first", [False, True], ids=["predict first", "update first"])
@pytest.mark.parametrize("method", METHODS)
def test_chunks_agree_with_filter_bit_for_bit(method, update_first, varying, ys, us, x64):
    out = wolf.filter(varying, ys, method=METHODS[method], inputs=us, update_first=update_first)
    assert_same_bits(by_filter_chunks(varying, METHODS[method], ys, us, update_first), out)


@pytest.mark.bits
@pytest.mark.parametrize("method", ["KF", "WoLF"])
def test_step_scan_and_chunks_of_xla_agree(method, tracking, dirty, x64):
    """For a fixed linear model in the automatic form; a weight scales R, which XLA may contract to one operation."""
    same = np.testing.assert_array_equal if method == "KF" else partial(np.testing.assert_allclose, rtol=1e-12)
    ys, us = dirty.measurements[:STEPS], [None] * STEPS
    out = wolf.filter(tracking, ys, method=METHODS[method], backend="xla")
    advance, state, means = jax.jit(partial(wolf.step, fused=True)), wolf.init(tracking, METHODS[method]), []
    for y in ys:
        state, _ = advance(tracking, METHODS[method], state, y)
        means.append(state.mean)
    same(np.stack(means), out.means)
    found = online(tracking, METHODS[method], ys, us, False, backend="xla")
    (assert_same_bits if method == "KF" else assert_same_numbers)(found, out)
    chunks = wolf.filter_chunks(tracking, np.split(ys, [7]), method=METHODS[method], save="all", backend="xla")
    same(np.concatenate([part.means for part in chunks]), out.means)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_way_to_run_agrees_with_filter_when_updating_first(way, varying, ys, us, x64):
    out = wolf.filter(varying, ys, inputs=us, method="WoLF", update_first=True)
    assert_same_numbers(way(varying, wolf.WoLF(), ys, us, update_first=True), out)


@pytest.mark.thorough
@pytest.mark.parametrize("update_first", [False, True], ids=["predict first", "update first"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_way_to_run_agrees_with_filter_on_nonlinear_models(way, update_first, ys, us, x64):
    model, ys = pendulum(), ys / 4
    out = wolf.filter(model, ys, inputs=us, method="WoLF", update_first=update_first)
    assert_same_numbers(way(model, wolf.WoLF(), ys, us, update_first), out)


def series(count, steps=STEPS):
    return np.stack([oracle.random_data(seed, steps, missing=0.2, outliers=0.2) for seed in range(count)])


def assert_series_agree(many, models, ys, inputs=None, **options):
    """Compare filter_many with filter, series by series."""
    for i, out in enumerate(many):
        model = models[i] if isinstance(models, list) else models
        us = inputs if inputs is None or inputs.ndim == 2 else inputs[i]
        one = wolf.filter(model, ys[i], inputs=us, **options)
        assert_close(1e-10, **{name: (getattr(out, name), getattr(one, name)) for name in EVERYTHING})
        np.testing.assert_array_equal(out.outliers, one.outliers)
        assert_close(1e-10, mean=(out.final.mean, one.final.mean), cov=(out.final.belief[1], one.final.belief[1]))
        assert out.final.t == one.final.t == ys.shape[1]


@pytest.mark.parametrize("method", ["WoLF", "symmetric", "sqrt", "per coordinate"])
def test_many_series_agree_with_one(method, varying):
    ys, us = series(3), np.random.default_rng(4).normal(size=(3, STEPS, 1))
    many = wolf.filter_many(varying, ys, method=METHODS[method], inputs=us)
    assert_series_agree(many, varying, ys, us, method=METHODS[method])


@pytest.mark.parametrize("update_first", [False, True], ids=["predict first", "update first"])
def test_many_series_agree_with_one_when_inputs_are_shared(update_first, varying, us):
    ys = series(3)
    many = wolf.filter_many(varying, ys, inputs=us, update_first=update_first)
    assert_series_agree(many, varying, ys, us, update_first=update_first)


@pytest.mark.thorough
@pytest.mark.parametrize("steps", [None, STEPS], ids=["fixed", "varying"])
def test_many_series_with_their_own_models_agree_with_one(steps, us):
    models = [wolf.LinearModel(**oracle.random_system(seed, states=2, steps=steps, controls=1)) for seed in range(3)]
    many = wolf.filter_many(models, series(3), inputs=us)
    assert_series_agree(many, models, series(3), us)


@pytest.mark.parametrize("own", [False, True], ids=["one model", "own models"])
def test_many_nonlinear_series_agree_with_one(own):
    models = [pendulum(scale=scale) for scale in (0.5, 1.0, 2.0)] if own else pendulum()
    ys, us = series(3) / 4, np.random.default_rng(4).normal(size=(3, STEPS, 1))
    assert_series_agree(wolf.filter_many(models, ys, inputs=us), models, ys, us)


@pytest.mark.thorough
@pytest.mark.parametrize("own", [pytest.param(False, marks=pytest.mark.slow), True])
def test_many_large_series_agree_with_one(own):
    models = [wolf.LinearModel(**oracle.random_system(seed, states=10)) for seed in range(3)]
    models = models if own else models[0]
    ys = series(3)
    assert_series_agree(wolf.filter_many(models, ys), models, ys)


@pytest.mark.parametrize("own", [False, True], ids=["one model", "own models"])
def test_threads_share_the_series_out_without_a_trace(own):
    """An odd number of series on two threads: one thread gets a padding series, which must not show."""
    count, steps = 131, 6
    models = [wolf.LinearModel(**oracle.random_system(seed, states=2, controls=1)) for seed in range(count)]
    models = models if own else models[0]
    ys, us = series(count, steps), np.random.default_rng(5).normal(size=(count, steps, 1))
    threaded = wolf.filter_many(models, ys, inputs=us, threads=2)
    single = wolf.filter_many(models, ys, inputs=us, threads=1)
    assert len(threaded) == count
    assert threaded.means.shape == (count, steps, 2)
    assert_close(1e-10, **{name: (getattr(threaded, name), getattr(single, name)) for name in EVERYTHING})
    assert_close(1e-10, mean=(threaded.final.mean, single.final.mean))
    np.testing.assert_array_equal(threaded.final.t, np.full(count, steps))


def test_run_many_has_the_series_last(varying, us, x64):
    ys = series(3)
    state, saved = wolf.run_many(varying, ys, wolf.WoLF(), us)
    for i in range(3):
        one_state, one = wolf.run_filter(varying, ys[i], wolf.WoLF(), us)
        assert_close(1e-10, **{name: (saved[name][..., i], one[name]) for name in EVERYTHING})
        assert_close(1e-10, mean=(state.mean[..., i], one_state.mean), cov=(state.cov[..., i], one_state.cov))


@pytest.mark.parametrize("update_first", [False, True], ids=["predict first", "update first"])
@pytest.mark.parametrize("names", ["R", "H", "FQ", "FHQR"])
def test_online_overrides_equal_a_time_varying_model(names, update_first, varying, ys, us):
    """Matrices given at a step apply to that step: F and Q in its prediction, H and R in its update."""
    usual = {name: getattr(varying, name)[0] if name in names else getattr(varying, name) for name in "FHQRB"}
    online = wolf.Online(wolf.LinearModel(**usual, mean=varying.mean, cov=varying.cov), update_first=update_first)
    out = wolf.filter(varying, ys, inputs=us, update_first=update_first)
    for t in range(10):
        lead = max(t - 1, 0) if update_first else t
        info = online.step(ys[t], u=us[t], **{k: getattr(varying, k)[lead if k in "FQ" else t] for k in names})
        assert_close(1e-10, mean=(online.mean, out.means[t]), cov=(online.cov, out.covs[t]))
        assert_close(1e-10, weight=(info.weight, out.weights[t]), log_lik=(info.log_likelihood, out.log_liks[t]))


def test_online_override_with_another_sensor_equals_a_larger_measurement_with_a_hole():
    system = oracle.random_system(6, measured=3)
    ys = oracle.random_data(7, 6, 3)
    ys[1::2, 0] = np.nan
    out = wolf.filter(wolf.LinearModel(**system), ys)
    online = wolf.Online(wolf.LinearModel(**system))
    for t, y in enumerate(ys):
        other = {"H": system["H"][1:], "R": system["R"][1:, 1:]} if t % 2 else {}
        online.step(y[1:] if t % 2 else y, **other)
        assert_close(1e-10, mean=(online.mean, out.means[t]), cov=(online.cov, out.covs[t]))


def test_online_override_on_a_nonlinear_model_equals_a_time_varying_one(us):
    model, ys = pendulum(), oracle.random_data(8, STEPS) / 4
    Q, R = (oracle.random_cov(np.random.default_rng(9), 2, STEPS, scale=scale) for scale in (0.01, 0.1))
    out = wolf.filter(wolf.StateSpaceModel(swing, look, Q, R, model.prior), ys, inputs=us)
    online = wolf.Online(model)
    for t in range(5):
        online.step(ys[t], u=us[t], Q=Q[t], R=R[t])
        assert_close(1e-10, mean=(online.mean, out.means[t]), cov=(online.cov, out.covs[t]))


@pytest.mark.bits
@pytest.mark.parametrize("update_first", [False, True], ids=["predict first", "update first"])
@pytest.mark.parametrize("method", ["WoLF", "sqrt", "per coordinate"])
def test_online_resumes_from_a_file_bit_for_bit(method, update_first, varying, ys, us, tmp_path):
    online = wolf.Online(varying, METHODS[method], update_first=update_first)
    for t in range(10):
        online.step(ys[t], u=us[t])
    online.save(tmp_path / "filter.npz")
    resumed = wolf.Online.load(tmp_path / "filter.npz", varying)
    assert (resumed.t, resumed.dtype, resumed.update_first, resumed.method) == (
        10,
        "float64",
        update_first,
        online.method,
    )
    for t in range(10, STEPS):
        expected, info = online.step(ys[t], u=us[t]), resumed.step(ys[t], u=us[t])
        jax.tree.map(np.testing.assert_array_equal, info, expected)
        np.testing.assert_array_equal(resumed.mean, online.mean)
        np.testing.assert_array_equal(resumed.cov, online.cov)


def test_online_resumes_in_single_precision(tracking, tmp_path):
    online = wolf.Online(tracking, dtype="float32")
    online.step([1.0, 2.0])
    online.save(tmp_path / "filter.npz")
    resumed = wolf.Online.load(tmp_path / "filter.npz", tracking)
    assert resumed.mean.dtype == np.float32
    np.testing.assert_array_equal(resumed.mean, online.mean)


@pytest.fixture
def saved(tracking, tmp_path):
    online = wolf.Online(tracking)
    online.step([1.0, 2.0])
    online.save(tmp_path / "filter.npz")
    return tmp_path / "filter.npz"


def rewrite(path, **changes):
    """Rewrite a saved filter with other arrays; None removes one."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files} | changes
    path.write_bytes(npz_bytes.pack({name: value for name, value in arrays.items() if value is not None}))


def text(words):
    return np.frombuffer(words.encode(), np.uint8)


DAMAGE = {
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-200]),
    "empty": lambda path: path.write_bytes(b""),
    "one byte flipped": lambda path: path.write_bytes(flip(path)),
    "not a file of ours": lambda path: path.write_text("a letter"),
    "another archive": lambda path: np.savez(path, weights=np.zeros(3)),
    "a bare array": lambda path: path.write_bytes(bare_array()),
    "a foreign header": lambda path: rewrite(path, header=text('{"format": "other", "version": 1}')),
    "a header that is a list": lambda path: rewrite(path, header=text("[]")),
    "a header without a method": lambda path: rewrite(path, header=text('{"format": "wolf-online", "version": 1}')),
    "a state without its covariance": lambda path: rewrite(path, state_1=None),
    "a state of another shape": lambda path: rewrite(path, state_0=np.zeros(7)),
}


def flip(path):
    with np.load(path) as file:
        numbers = file["state_0"].tobytes()
    content = path.read_bytes()
    assert content.count(numbers) == 1
    return content.replace(numbers, bytes([numbers[0] ^ 255]) + numbers[1:])


def bare_array():
    np.save(buffer := io.BytesIO(), np.zeros(3))
    return buffer.getvalue()


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_or_foreign_file_is_a_clear_error(damage, saved, tracking):
    DAMAGE[damage](saved)
    with pytest.raises(ValueError, match=saved.name):
        wolf.Online.load(saved, tracking)


def test_missing_file_is_the_usual_error(tracking, tmp_path):
    with pytest.raises(FileNotFoundError):
        wolf.Online.load(tmp_path / "none.npz", tracking)


def test_file_of_another_model_is_a_clear_error(saved, tracking):
    other = wolf.models.constant_velocity(dims=2, dt=0.2, dynamics_var=0.1, obs_var=10.0)
    with pytest.raises(ValueError, match="another model"):
        wolf.Online.load(saved, other)
    assert wolf.Online.load(saved, tracking).t == 1


def test_file_of_a_model_with_other_functions_is_a_clear_error(us, tmp_path):
    online = wolf.Online(pendulum())
    online.step([0.1, 0.2], u=us[0])
    online.save(tmp_path / "filter.npz")
    with pytest.raises(ValueError, match="another model"):
        wolf.Online.load(tmp_path / "filter.npz", pendulum(observe=look_away))


def test_failed_save_leaves_the_old_file(saved, tracking, monkeypatch):
    before = saved.read_bytes()
    online = wolf.Online(tracking)
    monkeypatch.setattr("os.replace", lambda *paths: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        online.save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_save_reaches_the_disk_before_it_takes_the_name(saved, tracking, monkeypatch):
    """A power cut between the two must leave the old file or the new one, never an empty one."""
    done, fsync, replace = [], os.fsync, os.replace

    def synced(handle):
        done.append("directory" if stat.S_ISDIR(os.fstat(handle).st_mode) else "content")
        fsync(handle)

    monkeypatch.setattr("os.fsync", synced)
    monkeypatch.setattr("os.replace", lambda *paths: (done.append("name"), replace(*paths)))
    wolf.Online(tracking).save(saved)
    assert done == ["content", "name", "directory"]


class Trap:
    """An object that acts when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_file_that_holds_code_is_refused_and_the_code_not_run(saved, tracking, tmp_path):
    with np.load(saved) as file:
        np.savez(saved, **file, extra=np.array([Trap(tmp_path / "sprung")], object))
    with pytest.raises(ValueError, match=saved.name):
        wolf.Online.load(saved, tracking)
    assert not (tmp_path / "sprung").exists()


def test_online_past_the_end_of_a_time_axis_is_an_error(varying, ys, us):
    online = wolf.Online(varying)
    for y, u in zip(ys, us, strict=True):
        online.step(y, u=u)
    with pytest.raises(ValueError, match="time steps"):
        online.step(ys[0], u=us[0])
