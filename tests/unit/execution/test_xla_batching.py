"""A series of a new length is filtered by a compiled program of another length, with the same results."""

import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
from tests.properties.test_execution_paths import pendulum

import wolf
from wolf.engine import scan
from wolf.execution import xla_batching
from wolf.execution.padding import pad_steps
from wolf.fitting.gradients import score_and_gradient

pytestmark = pytest.mark.thorough  # a part that the quick tests touch elsewhere

filter, filter_many = (partial(each, backend="xla") for each in (wolf.filter, wolf.filter_many))
STEPS = 21  # not a length that programs are made for
GROWTH = Path(__file__).parents[2] / "attack" / "growth.py"


def keep_mean_and_clock(state, info):
    return {"mean": state.mean, "clock": state.t, "weight": info.weight}


def random_walks(states, measured, rng):
    F, H = 0.9 * np.eye(states), rng.normal(size=(measured, states))
    return wolf.LinearModel(F, H, 0.1 * np.eye(states), np.eye(measured), np.zeros(states), np.eye(states))


def varying(rng, scale=1.0):
    """A model whose F and R have a value for every step."""
    F, R = rng.uniform(0.5, 1.0, (STEPS, 1, 1)) * np.eye(2), scale * rng.uniform(0.5, 2.0, (STEPS, 1, 1)) * np.eye(2)
    return wolf.LinearModel(F, np.eye(2), 0.1 * np.eye(2), R, np.zeros(2), np.eye(2))


def cases(rng):
    """List what may depend on the number of rows: loops in and out of one kernel, clocks, inputs, keys, savers."""
    ys = rng.normal(size=(STEPS, 2)) * np.where(rng.random((STEPS, 1)) < 0.1, 50.0, 1.0)
    ys[4, 0], ys[7] = np.nan, np.nan
    us, tracking = rng.normal(size=(STEPS, 1)), wolf.models.constant_velocity(2, 0.1, 0.1, 1.0)
    large = random_walks(20, 2, rng)
    many = np.stack([ys, ys[::-1], ys + 1.0])
    return {
        "default": lambda: filter(tracking, ys),
        "update first": lambda: filter(pendulum(), ys, inputs=us, update_first=True),
        "time axis": lambda: filter(varying(np.random.default_rng(1)), ys, method="KF"),
        "a function of mine": lambda: filter(tracking, ys, method="WoLF", save=keep_mean_and_clock),
        "several modes": lambda: filter(tracking, ys, method="IMM", save="means"),
        "particles": lambda: filter(tracking, ys, method="Beta-PF", key=1, save="means"),
        "not in one kernel": lambda: filter(large, ys, method="WoLF"),
        "members": lambda: filter(large, ys, method="EnKF", key=1, save="means"),
        "many": lambda: filter_many(tracking, many),
        "many of their own": lambda: filter_many([varying(np.random.default_rng(2), s) for s in (1.0, 2.0)], many[:2]),
        "many large": lambda: filter_many(large, many, method="WoLF"),
        "ragged": lambda: filter_many(tracking, [ys, ys[:9]], method="WoLF"),
        "many particles": lambda: filter_many(tracking, many, method="Beta-PF", key=1, save="means"),
    }


def leaves(out):
    return jax.tree.leaves((out.final, out.saved))


BITS = {"default", "time axis", "not in one kernel", "many"}  # which the compiler that users have is asked for, too
LONG = {"several modes", "many particles", "members"}


def mark(name):
    """Say in which tier a case is."""
    if name in LONG:
        return [pytest.mark.slow]
    return [pytest.mark.thorough, pytest.mark.bits] if name in BITS else [pytest.mark.thorough]


@pytest.mark.parametrize("name", [pytest.param(each, marks=mark(each)) for each in cases(np.random.default_rng(0))])
def test_blank_steps_at_the_end_keep_all_bits(name, rng, monkeypatch):
    go = cases(rng)[name]
    padded = go()
    monkeypatch.setattr(xla_batching, "pad_steps", lambda count: count)
    for one, other in zip(leaves(padded), leaves(go()), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.bits
@pytest.mark.parametrize(("states", "method"), [(2, wolf.WoLF()), (20, wolf.WoLF())])
def test_a_padded_run_has_the_bits_of_a_plain_scan(states, method, rng, x64):
    model, ys = random_walks(states, 2, rng), rng.normal(size=(STEPS, 2))
    plain = jax.device_get(wolf.run_filter(model, ys, method, fused=True))
    padded = xla_batching.run_one(model, method, ys, save="all", update_first=False)
    for one, other in zip(jax.tree.leaves(padded), jax.tree.leaves(plain), strict=True):
        np.testing.assert_array_equal(one, other)


def test_few_programs_filter_all_lengths(tracking, rng):
    ys = rng.normal(size=(3, 96, 2))
    scan.run_filter.clear_cache(), scan.run_each.clear_cache()
    for steps in range(1, 97, 7):
        assert len(filter(tracking, ys[0, :steps], method="KF", save="final")) == steps
        assert filter_many(tracking, ys[:, :steps], method="KF", save="final").log_liks.shape == (3, steps)
    assert scan.run_filter._cache_size() <= 6
    assert scan.run_each._cache_size() <= 6


def test_arrays_with_a_time_axis_need_no_program_of_their_own(rng):
    scan.run_filter.clear_cache()
    for steps in (17, 22, 31):
        F = rng.uniform(0.5, 1.0, (steps, 1, 1))
        filter(wolf.LinearModel(F, [[1.0]], [[1.0]], [[1.0]], [0.0], [[1.0]]), np.zeros(steps), method="KF")
    assert scan.run_filter._cache_size() == 1


@pytest.mark.parametrize("function", ["fit", "tune"])
def test_programs_of_other_functions_are_cleared_too(function, monkeypatch, rng):
    ys, model = rng.normal(size=12), wolf.models.local_level(1.0, 1.0)
    calls = {"fit": lambda: wolf.fit(wolf.models.local_level, ys, restarts=0), "tune": lambda: wolf.tune(model, ys)}
    calls[function]()
    monkeypatch.setattr(xla_batching, "MAX_PROGRAMS", 0)
    xla_batching.bound_programs()
    assert sum(each._cache_size() for each in xla_batching._jitted) == 0
    assert score_and_gradient in xla_batching._jitted


def grow(kind, count):
    """Do something of a kind so often in a process of its own; give memory (MB) and maps, early and at the end."""
    done = subprocess.run([sys.executable, GROWTH, kind, str(count)], capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stderr[-2000:]
    return [tuple(map(int, found)) for found in re.findall(r"(\d+) MB, (\d+) maps", done.stdout)]


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        pytest.param("lengths", 40, marks=pytest.mark.thorough),
        pytest.param("lengths", 2_000, marks=pytest.mark.slow),
        pytest.param("steps", 100_000, marks=pytest.mark.slow),
        pytest.param("models", 300, marks=pytest.mark.slow),
    ],
)
def test_memory_stays_flat(kind, count):
    (memory, maps), (memory_after, maps_after) = grow(kind, count)
    assert memory_after < 1.15 * memory + 20
    assert maps_after < 1.15 * maps + 500


@pytest.mark.slow
def test_large_programs_stay_few_whatever_lengths_come(monkeypatch):
    """Above `MAX_FINE_LENGTHS` lengths are padded to powers of two: the same bits, and bounded programs."""
    model, ys = wolf.models.local_level(0.1, 1.0), np.random.default_rng(0).normal(size=400)
    lengths, method, runs = [20, 40, 60, 100, 70, 30], wolf.GaussianFilter(noise=wolf.noise.ScaleMixture()), {}
    for most in (100, 3):
        xla_batching.clear_programs()
        monkeypatch.setattr(xla_batching, "MAX_FINE_LENGTHS", most)
        monkeypatch.setattr(xla_batching, "_large_programs", xla_batching.LargePrograms())
        outs = [wolf.filter(model, ys[:n], method=method, backend="xla") for n in lengths]
        programs = sum(each._cache_size() for each in xla_batching._jitted)
        runs[most] = programs, [(out.means.tobytes(), out.log_liks.tobytes()) for out in outs]
    assert runs[3][1] == runs[100][1]
    assert runs[100][0] == len({pad_steps(n) for n in lengths})
    assert runs[3][0] == 2  # 128 steps, and 32


def test_padding_of_large_programs_is_coarse_from_the_limit_on(monkeypatch):
    monkeypatch.setattr(xla_batching, "MAX_FINE_LENGTHS", 2)
    monkeypatch.setattr(xla_batching, "clear_programs", lambda: cleared.append(1))
    cleared, programs = [], xla_batching.LargePrograms()
    assert [programs.pad(n) for n in (10, 40, 12, 70, 40, 10, 1000)] == [16, 48, 16, 128, 64, 16, 1024]
    assert cleared == [1]
