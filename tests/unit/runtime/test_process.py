"""What a process may do to a run: threads, forks, and excessive memory requests."""

import copy
import dataclasses
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wolf
from wolf.engine.forecast import run_forecast
from wolf.engine.smoother import run_smoother
from wolf.execution import xla_batching
from wolf.execution.padding import stretch
from wolf.numerics.xla_fusion import largest_factorized_size, uses_thread_pool
from wolf.runtime import blas_threads

SOURCE = Path(wolf.__file__).parents[1]


def run_python(program, seconds=600):
    """Run a program in a separate process, and return its output; one that hangs fails."""
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n" + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=seconds, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.thorough
def test_many_series_with_lapack_inside_end():
    printed = run_python("""
        import numpy as np, wolf
        model = wolf.models.constant_velocity(9, 1.0, 0.05, 1.0)
        out = wolf.filter_many(model, np.zeros((130, 30, 9)), save="final", threads=2)
        print(np.isfinite(out.log_liks).all())
    """)
    assert printed == ["True"]


@pytest.mark.slow
def test_two_threads_smooth_and_forecast_many_series_to_the_end():
    printed = run_python("""
        from concurrent.futures import ThreadPoolExecutor
        import numpy as np, wolf
        model = wolf.models.constant_velocity(9, 1.0, 0.05, 1.0)
        out = wolf.filter_many(model, np.zeros((20, 30, 9)), threads=1)
        looks = [lambda: wolf.smooth(out), lambda: wolf.forecast(out, steps=30)]
        with ThreadPoolExecutor(4) as pool:
            print(all(np.isfinite(seen.covs).all() for seen in pool.map(lambda i: looks[i % 2](), range(12))))
    """)
    assert printed == ["True"]


def test_many_series_with_lapack_inside_are_forecast_by_one_program_at_a_time(rng, monkeypatch):
    model = wolf.models.constant_velocity(9, 1.0, 0.05, 1.0)
    out = wolf.filter_many(model, rng.normal(size=(2, 4, 9)), method="KF")
    held, judge = [], xla_batching.to_numpy
    monkeypatch.setattr(xla_batching, "to_numpy", lambda tree: held.append(xla_batching._pool.locked()) or judge(tree))
    wolf.forecast(out, steps=3)
    assert held == [True]


@pytest.mark.parametrize(
    "operation", [jnp.linalg.cholesky, jnp.linalg.eigh, jnp.linalg.qr, jnp.linalg.inv, jnp.fft.fft]
)
def test_a_batch_of_matrices_is_seen_wherever_it_is(operation):
    def loop(x):
        return jax.lax.scan(lambda carry, _: (carry, operation(x)), 0, None, length=3)

    assert uses_thread_pool(jax.make_jaxpr(loop)(jnp.ones((2, 3, 3))).jaxpr)
    assert uses_thread_pool(jax.make_jaxpr(jax.jit(jax.vmap(loop)))(jnp.ones((2, 3, 3))).jaxpr)
    if operation is not jnp.fft.fft:
        assert not uses_thread_pool(jax.make_jaxpr(loop)(jnp.ones((3, 3))).jaxpr)
    assert not uses_thread_pool(jax.make_jaxpr(lambda x: x @ x)(jnp.ones((2, 3, 3))).jaxpr)


def test_lapack_has_one_thread_during_a_run_and_is_as_it_was_afterwards():
    def threads():
        return {each["num_threads"] for each in blas_threads._libraries().info()}

    def beside():
        with blas_threads.one_thread(4):
            return threads()

    before = threads()
    loop = jax.make_jaxpr(lambda x: jax.lax.fori_loop(0, 3, lambda _, x: jnp.linalg.cholesky(x), x))
    assert (
        largest_factorized_size(loop(jnp.eye(4)).jaxpr),
        largest_factorized_size(jax.make_jaxpr(jnp.sin)(1.0).jaxpr),
    ) == (4, 0)
    with ThreadPoolExecutor(1) as pool:
        with blas_threads.one_thread(4):
            assert threads() == pool.submit(beside).result() == {1}
        assert threads() == before
        assert pool.submit(beside).result() == {1}
    assert threads() == before


def test_results_are_stretched_by_the_memory_behind_them():
    whole = np.ones((6, 2, 2))
    assert np.shares_memory(stretch(whole[:4], 2), whole)
    for other in (whole[1:4], whole[:4, :, :1], whole[:5].copy()[:5]):
        longer = stretch(other, 2)
        assert len(longer) == len(other) + 2
        np.testing.assert_array_equal(longer[: len(other)], other)


CALLS = {
    "filter": "wolf.filter(model, ys, dtype='float32')",
    "filter_many": "wolf.filter_many(model, [ys, ys])",
    "filter_chunks": "list(wolf.filter_chunks(model, [ys]))",
    "smooth": "wolf.smooth(out)",
    "sample_paths": "wolf.sample_paths(out, num=2, key=0)",
    "forecast": "wolf.forecast(out, steps=2)",
    "fit": "wolf.fit(wolf.models.local_level, ys)",
    "Online": "wolf.Online(model, 'PF', key=0)",
}


@pytest.mark.skipif(sys.platform == "win32", reason="only POSIX forks")
def test_a_run_in_a_forked_child_raises():
    lines = [f"tell({name!r}, lambda: {text})" for name, text in CALLS.items()]
    program = f"""
import os, sys, wolf
model, ys = wolf.models.local_level(1.0, 1.0), [1.0, 2.0] * 4
if os.fork() == 0:  # a child forked before any use works
    wolf.filter(model, ys, save="final")
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
out, online = wolf.filter(model, ys), wolf.Online(model)
wolf.filter(model, ys, backend="xla")  # starts JAX's threads, which native code does not need
def tell(name, call):
    try:
        call()
    except RuntimeError as error:
        print(name if '"spawn"' in str(error) and "\\n" not in str(error) else repr(error))
if os.fork() == 0:
    {"; ".join(lines)}
    assert online.step(1.0).weight > 0  # native code has no threads to lose
    sys.stdout.flush()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
wolf.filter(model, ys)
"""
    assert run_python(program) == list(CALLS)


@pytest.mark.parametrize("count", [10**9, 10**12, 10**30])
def test_excessive_memory_requests_raise_before_allocation(count):
    model = wolf.models.constant_velocity(1, 1.0, 1.0, 1.0)
    out = wolf.filter(model, np.zeros(3))
    calls = {
        "steps": lambda: wolf.forecast(out, steps=count),
        "num": lambda: wolf.sample_paths(out, num=count, key=0),
        "lag": lambda: wolf.FixedLag(model, lag=count),
        "horizon": lambda: wolf.Online(model, horizon=count),
    }
    for name, call in calls.items():
        large = rf"{name}={count} would take about .* GB, and 4 GB is the limit"
        with pytest.raises(ValueError, match=rf"{large}|{name} must be a whole number of at most .*; got {count}"):
            call()


@pytest.mark.parametrize("kind", [wolf.Online, wolf.FixedLag])
def test_steps_from_two_threads_are_all_counted(kind):
    model = wolf.models.local_level(1.0, 1.0)
    shared = kind(model, "WoLF")
    online = getattr(shared, "online", shared)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: [shared.step(1.0) for _ in range(500)], range(2)))
    finally:
        sys.setswitchinterval(before)
    assert online.t == 1000
    alone = wolf.Online(model, "WoLF")
    for _ in range(1000):
        alone.step(1.0)
    np.testing.assert_array_equal(online.mean, alone.mean)


def test_a_late_measurement_that_is_refused_leaves_the_past_as_it_was():
    online = wolf.Online(wolf.models.local_level(1.0, 1.0), horizon=3)
    for y in (1.0, 2.0, None):
        online.step(y)
    with pytest.raises(ValueError, match="shape"):
        online.late([1.0, 2.0], t=2)
    assert online.late(3.0, t=2).weight is not None


def test_a_copy_of_an_online_filter_goes_on_by_itself():
    online = wolf.Online(wolf.models.local_level(1.0, 1.0))
    online.step(1.0)
    twin = copy.deepcopy(online)
    twin.step(5.0)
    assert (online.t, twin.t) == (1, 2)


def test_few_programs_smooth_and_forecast_many_lengths():
    model = wolf.models.local_level(1.0, 1.0)
    whole = wolf.filter(model, np.sin(np.arange(96.0)), method="WoLF")
    run_smoother.clear_cache(), run_forecast.clear_cache()
    for steps in range(1, 97, 5):
        names = ("means", "covs", "predicted_means", "predicted_covs")
        settings = whole.settings | {"steps": steps}
        final = whole.final._replace(t=np.int32(steps))
        out = dataclasses.replace(
            whole, saved={n: whole.saved[n][:steps] for n in names}, settings=settings, final=final
        )
        assert len(wolf.smooth(out).means) == len(wolf.forecast(out, steps=steps).means) == steps
    assert run_smoother._cache_size() <= 6
    assert run_forecast._cache_size() <= 6


def test_programs_are_forgotten_when_there_are_many(monkeypatch):
    monkeypatch.setattr(xla_batching, "MAX_PROGRAMS", 3)
    wolf.engine.scan.run_filter.clear_cache()
    model = wolf.models.local_level(1.0, 1.0)
    for steps in range(2, 10):
        wolf.filter(model, np.zeros(steps), method="KF", save="final")
        assert wolf.engine.scan.run_filter._cache_size() <= 4


@pytest.mark.bits
@pytest.mark.parametrize("ragged", [False, True])
def test_padding_keeps_the_bits_of_smoother_and_forecast(tracking, rng, monkeypatch, ragged):
    ys = rng.normal(size=(21, 2))
    out = wolf.filter_many(tracking, [ys, ys[:9]]) if ragged else wolf.filter(tracking, ys)
    padded = wolf.smooth(out), wolf.forecast(out, steps=5)
    for module in (wolf.execution.smoothing, wolf.execution.forecasting):
        monkeypatch.setattr(module, "pad_steps", lambda count: count)
    plain = wolf.smooth(out), wolf.forecast(out, steps=5)
    for one, other in zip(padded, plain, strict=True):
        np.testing.assert_array_equal(one.means, other.means)
        np.testing.assert_array_equal(one.covs, other.covs)
