"""Exported C compiles without a warning and has the numbers of Python; what cannot be exported is refused."""

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import wolf
from wolf.cli import main

pytest.importorskip("llvmlite")
compiled = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
TRACK = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wdouble-promotion", "-Werror", "-O1"]


def swing(x):
    return jnp.array([x[0] + 0.1 * x[1], x[1] - 0.98 * jnp.sin(x[0])])


def bearing(x):
    return jnp.array([jnp.arctan2(x[0], 1.0)])


PENDULUM = wolf.StateSpaceModel(
    swing, bearing, 0.01 * np.eye(2), 0.1 * np.eye(1), wolf.Gaussian(np.zeros(2), np.eye(2))
)
DRIVEN = wolf.LinearModel(np.eye(1), np.eye(1), np.eye(1), np.eye(1), [0.0], np.eye(1), B=[[2.0]])


def cc(*arguments):
    return subprocess.run(["cc", *map(str, arguments)], capture_output=True, text=True)


@compiled
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("model", "method"),
    [(TRACK, "KF"), (TRACK, "WoLF"), (TRACK, None), (PENDULUM, None), (DRIVEN, "WoLF-TMD")],
    ids=["KF", "WoLF", "default", "pendulum", "inputs"],
)
def test_the_c_compiles_without_a_warning_and_tests_itself(model, method, dtype, tmp_path):
    wolf.export_c(model, method, tmp_path / "tracker.c", dtype=dtype)
    options = [*STRICT, "-ffp-contract=off", "-DTRACKER_SELF_TEST"]
    done = cc(*options, tmp_path / "tracker.c", "-o", tmp_path / "tracker", "-lm")
    assert done.returncode == 0, done.stderr
    ran = subprocess.run([tmp_path / "tracker"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout


@compiled
@pytest.mark.parametrize("method", ["KF", "WoLF", None], ids=["KF", "WoLF", "default"])
def test_a_shared_library_has_the_numbers_of_python_on_extreme_data(method, tmp_path):
    exported = wolf.export_c(TRACK, method, tmp_path / "tracker.c", dtype="float64", report=("weight",))
    assert (
        cc(
            "-std=c99", "-O2", "-ffp-contract=off", "-shared", "-fPIC", exported.path, "-o", tmp_path / "t.so", "-lm"
        ).returncode
        == 0
    )
    library = ctypes.CDLL(str(tmp_path / "t.so"))
    assert exported.state_bytes % 8 == 0  # or the library would write beyond this array
    state, weight = np.zeros(exported.state_bytes // 8), np.zeros(1)
    ys = 30 * np.random.default_rng(0).standard_cauchy((400, 2))
    ys[::17, 0], ys[5::31], ys[50], ys[60] = np.nan, np.nan, np.inf, 1e300
    ys[200:] += 1000.0
    out = wolf.filter(TRACK, ys, method=method, backend="native")
    pointer = ctypes.c_void_p
    library.tracker_init(pointer(state.ctypes.data))
    for t, y in enumerate(np.ascontiguousarray(ys)):
        library.tracker_step(pointer(state.ctypes.data), pointer(y.ctypes.data), pointer(weight.ctypes.data))
        np.testing.assert_allclose(state[:4], out.means[t], rtol=1e-8, atol=1e-7)
        np.testing.assert_allclose(weight[0], out.weights[t], rtol=1e-7, atol=1e-12)


@compiled
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", ["KF", "WoLF", "Learned", None], ids=["KF", "WoLF", "Learned", "default"])
def test_state_bytes_is_the_size_of_the_struct(method, dtype, tmp_path):
    """A caller allocates the state by this size: a smaller one would be a write out of bounds."""
    exported = wolf.export_c(TRACK, method, tmp_path / "tracker.c", dtype=dtype)
    (tmp_path / "main.c").write_text(
        f"""#include "tracker.h"
int main(void) {{ return sizeof(tracker_state) != {exported.state_bytes}; }}
"""
    )
    assert cc("-std=c99", tmp_path / "main.c", "-o", tmp_path / "size").returncode == 0
    assert subprocess.run([tmp_path / "size"]).returncode == 0


@compiled
def test_a_compiler_without_nan_is_refused(tmp_path):
    wolf.export_c(TRACK, "WoLF", tmp_path / "tracker.c")
    done = cc("-std=c99", "-ffast-math", "-c", tmp_path / "tracker.c", "-o", tmp_path / "t.o")
    assert "NAN means missing here" in done.stderr


def test_the_state_has_no_unused_fields(tmp_path):
    exported = wolf.export_c(TRACK, "WoLF", tmp_path / "tracker.c")
    assert exported.state_bytes == 4 * (4 + 10)  # a mean and half a covariance; the clock is not used
    assert set(exported.library) == {"fabs", "sqrt"}
    assert "56 bytes of state" in repr(exported)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": "tracker.txt"}, "path must end in .c"),
        ({"path": "2fast.c"}, "is the prefix of all names in C"),
        ({"method": "PF"}, "cannot be written as C: random numbers are drawn"),
        ({"report": ("wieght",)}, "report must be one of"),
        ({"dtype": "float16"}, 'dtype must be "float64" or "float32"'),
    ],
)
def test_invalid_arguments_are_refused_before_a_file_is_written(options, words, tmp_path):
    path = tmp_path / options.pop("path", "tracker.c")
    with pytest.raises(ValueError, match=words):
        wolf.export_c(TRACK, path=path, **options)
    assert not list(tmp_path.iterdir())


def test_a_model_that_varies_in_time_is_refused(tmp_path):
    model = wolf.LinearModel(np.ones((3, 1, 1)), np.eye(1), np.eye(1), np.eye(1), [0.0], np.eye(1))
    with pytest.raises(ValueError, match="fixed in time; F vary"):
        wolf.export_c(model, path=tmp_path / "tracker.c")


def test_the_command_writes_both_files_and_prints_sizes(tmp_path):
    variances = ["--set", "level_var=0.1", "--set", "obs_var=1"]
    done = CliRunner().invoke(main, ["export", "local-level", *variances, "--out", str(tmp_path / "level.c")])
    assert done.exit_code == 0, done.output
    assert "operations a step" in done.output
    assert {path.name for path in tmp_path.iterdir()} == {"level.c", "level.h"}
    done = CliRunner().invoke(main, ["export", "local-level", *variances, "--out", str(tmp_path / "level.c"), "--json"])
    assert json.loads(done.output)["path"] == str(tmp_path / "level.c")
    done = CliRunner().invoke(main, ["export", "local-level", "--out", str(tmp_path / "level.c")])
    assert done.exit_code == 2
    assert "--set level_var=..." in done.output


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
def test_a_cpp_program_can_include_the_header(tmp_path):
    wolf.export_c(TRACK, "WoLF", tmp_path / "tracker.c")
    (tmp_path / "main.cpp").write_text(
        """#include "tracker.h"
int main() {
    tracker_state state;
    tracker_report report;
    const float y[2] = {1.0f, 2.0f};
    tracker_init(&state);
    tracker_step(&state, y, &report);
    return report.outlier || !(state.mean[0] > 0.0f);
}"""
    )
    assert cc("-c", tmp_path / "tracker.c", "-o", tmp_path / "tracker.o").returncode == 0
    command = ["c++", "-Wall", "-Werror", tmp_path / "main.cpp", tmp_path / "tracker.o", "-o", tmp_path / "main", "-lm"]
    assert subprocess.run(command).returncode == 0
    assert subprocess.run([tmp_path / "main"]).returncode == 0


@pytest.fixture
def cortex(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    import cortex

    reason = cortex.missing()
    if reason is not None:
        pytest.skip(reason)
    return cortex


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["WoLF", None], ids=["WoLF", "default"])
def test_it_runs_on_a_cortex_m4_with_the_numbers_of_python(method, cortex):
    cost = cortex.cost(TRACK, method)
    assert cost.flash < (3_072 if method else 20_480)
    assert cost.stack < 1024
    assert 100 < cost.instructions < 10_000
    assert float(cost.self_test.split()[-1]) == (pytest.approx(0, abs=1e-5) if method is None else 0)


def test_a_self_test_that_fails_on_a_cortex_m4_is_an_error(cortex, tmp_path):
    wolf.export_c(TRACK, "KF", tmp_path / "tracker.c")
    text = (tmp_path / "tracker.c").read_text()
    (tmp_path / "tracker.c").write_text(text.replace("expected_means[] = {", "expected_means[] = { 1.0f +", 1))
    with pytest.raises(subprocess.CalledProcessError):
        cortex.run(cortex.build(tmp_path, [tmp_path / "tracker.c"], "-DTRACKER_SELF_TEST"))


GPS, SPEED = wolf.Sensor([[1.0, 0, 0, 0], [0, 1.0, 0, 0]], 10.0 * np.eye(2)), wolf.Sensor([[0, 0, 1.0, 0]], 0.1)


@compiled
@pytest.mark.parametrize(
    ("model", "options"),
    [
        (TRACK, {"arguments": ("R", "H", "F", "Q")}),
        (TRACK, {"arguments": ("R", "dt"), "sensors": {"gps": GPS, "speed": SPEED}}),
        pytest.param(
            PENDULUM, {"arguments": ("Q",), "sensors": {"gyro": wolf.Sensor([[0.0, 1.0]], 0.1)}}, marks=pytest.mark.slow
        ),
        (DRIVEN, {"arguments": ("R",), "update_first": True}),
    ],
    ids=["matrices", "sensors", "functions", "inputs"],
)
def test_arguments_of_the_step_compile_without_a_warning_and_test_themselves(model, options, tmp_path):
    wolf.export_c(model, "WoLF", tmp_path / "tracker.c", **options)
    flags = [*STRICT, "-ffp-contract=off", "-DTRACKER_SELF_TEST"]
    done = cc(*flags, tmp_path / "tracker.c", "-o", tmp_path / "tracker", "-lm")
    assert done.returncode == 0, done.stderr
    ran = subprocess.run([tmp_path / "tracker"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout


@compiled
def test_sensors_at_uneven_times_have_the_numbers_of_online(tmp_path):
    sensors = {"gps": GPS, "speed": SPEED}
    exported = wolf.export_c(
        TRACK, "WoLF", tmp_path / "t.c", dtype="float64", arguments=("R", "dt"), sensors=sensors, report=()
    )
    flags = ["-std=c99", "-O1", "-ffp-contract=off", "-shared", "-fPIC"]
    assert cc(*flags, exported.path, "-o", tmp_path / "t.so", "-lm").returncode == 0
    library, online = ctypes.CDLL(str(tmp_path / "t.so")), wolf.Online(TRACK, "WoLF")
    state = np.zeros(exported.state_bytes // 8)
    pointer = ctypes.c_void_p
    library.t_init(pointer(state.ctypes.data))
    rng = np.random.default_rng(0)
    for t in range(40):
        name = "speed" if t % 3 else "gps"
        sensor, dt = sensors[name], float(rng.exponential(0.2)) * (t % 4 > 0)  # sometimes at the same time
        noise = np.ascontiguousarray(sensor.R * rng.uniform(0.5, 2.0))
        y = rng.normal(size=len(noise)) * (50.0 if t == 20 else 1.0)
        step = getattr(library, f"t_step_{name}")
        addresses = [pointer(array.ctypes.data) for array in (state, y, noise)]
        step(*addresses, ctypes.c_double(dt), None)
        online.step(y, dt=dt, R=noise, H=sensor.observe)
        np.testing.assert_allclose(state[:4], online.mean, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (TRACK, {"arguments": ("B",)}, "arguments must be one of"),
        (TRACK, {"arguments": ("dt", "F")}, "dt stands for F and Q"),
        (PENDULUM, {"arguments": ("dt",)}, "takes R and Q; got dt"),
        (TRACK, {"sensors": {"gps": 3}}, "sensors must be wolf.Sensor by name"),
        (TRACK, {"sensors": {"g p": GPS}}, "part of a name in C"),
        (TRACK, {"method": None, "sensors": {"gps": GPS, "speed": SPEED}}, "memory for 'speed' has another shape"),
    ],
)
def test_arguments_that_cannot_be_are_refused(model, options, words, tmp_path):
    method = options.pop("method", "WoLF")
    with pytest.raises(ValueError, match=words):
        wolf.export_c(model, method, tmp_path / "t.c", **options)
