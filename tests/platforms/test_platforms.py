"""Windows and macOS, simulated: absent modules, failing calls, text-mode files; and native code as Windows runs it."""

import io
import json
import os
import re
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.platforms.simulated import is_open, make_macos, make_windows

import wolf
from wolf.cli.main import _write_utf8, main
from wolf.native.execute import llvm_jit, platform_check
from wolf.runtime import cache_folder, checkpoints, files, processors, signals

ROOT = Path(__file__).parents[2]
LEVEL = wolf.models.local_level(0.1, 1.0)
YS = np.array([0.3, 0.1, np.nan, 25.0, 0.4, 0.2, -0.1, 0.5])


@pytest.fixture
def expected():
    return wolf.filter(LEVEL, YS, method="WoLF")


@pytest.fixture
def windows(monkeypatch, expected):
    """Windows, where native code works: all that is imported late is imported before."""
    import llvmlite.binding  # noqa: F401

    monkeypatch.setattr(platform_check, "_try", lambda: None)
    platform_check.failure.cache_clear()
    yield make_windows(monkeypatch)
    platform_check.failure.cache_clear()


@pytest.fixture
def unknown_platform(monkeypatch):
    """A platform on which native code was not tested."""
    monkeypatch.setattr(platform_check, "TESTED_PLATFORMS", ())
    platform_check.failure.cache_clear()
    yield
    platform_check.failure.cache_clear()


# Windows


def test_filters_have_the_same_bits_and_their_files_the_same_bytes_on_windows(expected, windows, tmp_path):
    assert wolf.filter(LEVEL, YS, method="WoLF").means.tobytes() == expected.means.tobytes()
    online = wolf.Online(LEVEL, "WoLF")
    for y in YS[:4]:
        online.step(y)
    online.save(tmp_path / "online.npz")
    online.save(tmp_path / "online.npz")  # over the old one
    again = wolf.Online.load(tmp_path / "online.npz", LEVEL, "WoLF")
    for y in YS[4:]:
        again.step(y)
    assert again.mean.tobytes() == expected.means[-1].tobytes()
    assert [path.name for path in tmp_path.iterdir()] == ["online.npz"]
    bank = wolf.Bank(LEVEL, "WoLF")
    bank.step(["a", "b"], [1.0, 2.0])
    bank.save(tmp_path / "bank.npz")
    assert wolf.Bank.load(tmp_path / "bank.npz", LEVEL, "WoLF").dump("a") == bank.dump("a")
    assert not windows, "a file is open as text"


def test_the_command_writes_the_same_bytes_on_windows(monkeypatch, tmp_path):
    table = tmp_path / "readings.csv"
    rows = "".join(f"2024-01-{i + 1:02},{value}\n" for i, value in enumerate(np.sin(np.arange(28)).round(3)))
    table.write_bytes(f"date,Größe\n{rows}".encode())
    words = ["filter", str(table), "--model", "local-level", "--set", "level_var=0.1", "--set", "obs_var=1"]
    written = {}
    for name in ("linux", "windows"):
        with monkeypatch.context() as patch:
            if name == "windows":
                patch.setattr(platform_check, "failure", lambda: None)
                make_windows(patch)
            out, report = tmp_path / f"{name}.csv", tmp_path / f"{name}.html"
            done = CliRunner().invoke(main, [*words, "--out", str(out), "--report", str(report)])
            assert done.exit_code == 0, done.output
            written[name] = out.read_bytes()
            assert b"\r" not in report.read_bytes()
    assert written["windows"] == written["linux"]
    assert "Größe".encode() in written["windows"]


def test_exported_c_has_plain_line_ends_on_windows(windows, tmp_path):
    wolf.export_c(LEVEL, "KF", path=tmp_path / "filter.c")
    names = [path for path in tmp_path.iterdir() if path.suffix in (".c", ".h")]
    assert len(names) > 1
    assert not any(b"\r" in path.read_bytes() for path in names)


def test_a_second_process_cannot_take_a_lock_on_windows(windows, tmp_path):
    first = files.hold(tmp_path / "lock", "in use")
    with pytest.raises(ValueError, match=r"^in use$"):
        files.hold(tmp_path / "lock", "in use")
    files.release(first)
    files.release(files.hold(tmp_path / "lock", "in use"))


def test_systems_without_locks_have_none(monkeypatch, tmp_path):
    for name in ("fcntl", "msvcrt"):
        monkeypatch.setitem(sys.modules, name, None)
    assert files.hold(tmp_path / "lock", "in use") is None
    files.release(None)


def test_a_disk_that_cannot_lock_is_named(monkeypatch, tmp_path):
    import fcntl

    def fail(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(ValueError, match=r"cannot be locked .* local disk"):
        files.hold(tmp_path / "lock", "in use")


def test_files_that_others_have_open_are_replaced_and_deleted_when_they_are_free(windows, monkeypatch, tmp_path):
    new, old = tmp_path / "new", tmp_path / "old"
    pauses = []
    for operation in (lambda: files.replace(new, old), lambda: files.delete(old)):
        new.write_bytes(b"new")
        old.write_bytes(b"old")
        reader = old.open("rb")
        monkeypatch.setattr(time, "sleep", lambda seconds, file=reader: (pauses.append(seconds), file.close()))
        assert is_open(old)
        operation()
    assert len(pauses) == 2
    assert not old.exists()
    files.delete(old)  # no error: it is gone
    old.write_bytes(b"old")
    new.write_bytes(b"new")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(files, "RETRY_SECONDS", 0.0)
    with old.open("rb"), pytest.raises(PermissionError):
        files.replace(new, old)
    assert old.read_bytes() == b"old"


def test_permission_errors_of_posix_are_not_retried(monkeypatch, tmp_path):
    def fail(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "replace", fail)
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("waited"))
    with pytest.raises(PermissionError):
        files.replace(tmp_path / "a", tmp_path / "b")


def test_ctrl_c_deletes_files_that_are_open_on_windows(windows, monkeypatch, tmp_path):
    monkeypatch.setattr(os, "_exit", lambda code: None)

    def interrupted():
        with checkpoints.atomic(tmp_path / "result") as file:
            file.write(b"half")
            signals._end(2, None)
            assert not any(tmp_path.iterdir())
            raise OSError(9, "Bad file descriptor")

    with pytest.raises(OSError, match="Bad file"):
        interrupted()
    assert not any(tmp_path.iterdir())


def test_output_of_the_command_is_utf8_without_carriage_returns_on_windows(windows, monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="cp1252", newline="\r\n"))
    _write_utf8()
    print("± Größe →", flush=True)
    assert raw.getvalue() == "± Größe →\n".encode()


# macOS


@pytest.mark.parametrize("has_full_flush", [True, False])
def test_files_are_flushed_to_the_disk_itself_on_macos(monkeypatch, tmp_path, has_full_flush):
    flushed = make_macos(monkeypatch, has_full_flush)
    checkpoints.write(tmp_path / "saved.npz", {}, {"a": np.zeros(1)})
    assert flushed == [("full" if has_full_flush else "usual", is_folder) for is_folder in (False, True)]


# Processors and folders


@pytest.mark.parametrize("platform", ["win32", "darwin", "freebsd14"])
def test_the_cache_key_names_a_processor_on_every_platform(monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(processors, "CPUINFO", Path("/proc/not-there"))
    monkeypatch.setenv("PROCESSOR_IDENTIFIER", "Intel64 Family 6")
    monkeypatch.setattr("platform.node", lambda: "host")
    assert ("Intel64 Family 6" if platform == "win32" else "host") in processors.model_description()


def test_arm_processors_are_told_apart(monkeypatch, tmp_path):
    found = []
    for part in ("0xd0c", "0xd40"):
        path = tmp_path / part
        path.write_text(f"processor\t: 0\nFeatures\t: fp asimd\nCPU part\t: {part}\n\nprocessor\t: 1\n")
        monkeypatch.setattr(processors, "CPUINFO", path)
        found.append(processors.model_description())
    assert found[0] != found[1]


def test_only_processors_that_this_process_may_use_are_counted(monkeypatch):
    assert processors.usable_count() == len(os.sched_getaffinity(0))
    monkeypatch.setattr(sys, "platform", "win32")
    assert processors.usable_count() in (os.cpu_count(), len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    ("platform", "variable", "folder"),
    [("win32", "LOCALAPPDATA", "wolf"), ("darwin", "HOME", "Library/Caches/wolf"), ("linux", "HOME", ".cache/wolf")],
)
def test_the_cache_folder_is_where_the_system_keeps_caches(monkeypatch, tmp_path, platform, variable, folder):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("WOLF_CACHE", "")
    monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(cache_folder, "_check_private", lambda path: None)
    assert Path(cache_folder.folder.__wrapped__()).parent == tmp_path / folder


def test_a_junction_is_not_used_as_cache_folder_on_windows(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", 3, raising=False)
    for tag, refused in ((0, False), (3, True)):
        found = type("Stat", (), {"st_mode": stat.S_IFDIR, "st_reparse_tag": tag})
        path = type("Folder", (), {"lstat": lambda self, found=found: found})()
        if refused:
            with pytest.raises(cache_folder.UnsafeFolderError, match="junction"):
                cache_folder._check_private(path)
        else:
            cache_folder._check_private(path)


# Native code where it is not known to work


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import os; os.abort()", "exit code -6"),
        ("raise AssertionError('wrong numbers')", r"exit code 1 \(AssertionError: wrong numbers\)"),
        ("print('nothing was checked')", "exit code 0"),
    ],
)
def test_a_crash_of_native_code_ends_in_xla_and_not_in_the_end_of_the_process(
    unknown_platform, monkeypatch, expected, program, words
):
    monkeypatch.setattr(platform_check, "CHECK", program)
    out = wolf.filter(wolf.models.local_level(0.1, 1.0), YS, method="WoLF")
    assert (out.backend, expected.backend) == ("xla", "native")
    assert re.search(words, out.backend_reason)
    np.testing.assert_allclose(out.means, expected.means, rtol=1e-9)
    with pytest.raises(ValueError, match="native code does not work on Linux"):
        wolf.filter(LEVEL, YS, method="WoLF", backend="native")


def test_the_result_of_the_check_is_kept_for_these_versions(unknown_platform, monkeypatch, tmp_path):
    monkeypatch.setattr(cache_folder, "folder", lambda: str(tmp_path))
    monkeypatch.setattr(platform_check, "CHECK", f"print({platform_check.PASSED!r})")
    assert platform_check.failure() is None
    platform_check.failure.cache_clear()
    monkeypatch.setattr(platform_check, "CHECK", "import os; os.abort()")
    assert platform_check.failure() is None, "tried again"
    monkeypatch.setattr(sys, "version", "another")
    platform_check.failure.cache_clear()
    assert "exit code" in platform_check.failure()
    kept = [json.loads(cache_folder.read_checked(path)) for path in tmp_path.iterdir()]
    assert sorted(each["failure"] is None for each in kept) == [False, True]


@pytest.mark.parametrize("program", ["", "/Applications/Sensor.app/Sensor"])
def test_programs_that_are_no_python_are_not_started_again(unknown_platform, monkeypatch, program):
    monkeypatch.setattr(sys, "executable", program)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("started"))
    assert "not tried" in platform_check.failure()


def test_every_function_of_the_c_library_that_compiled_code_may_call_has_an_address_on_windows(monkeypatch):
    import ctypes

    libraries = {"ucrtbase": ctypes.CDLL("libm.so.6"), "ntdll": {"__chkstk": ctypes.CDLL(None)["abort"]}}
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(ctypes, "CDLL", libraries.__getitem__)
    found = llvm_jit.external_functions()
    assert {"PyObject_GetBuffer", "sin", "sinf", "lgammaf", "__chkstk"} <= set(found)
    assert all(found.values())


@pytest.mark.thorough
def test_native_code_passes_its_checks_in_the_calling_convention_of_windows():
    """ELF objects of the Windows target, with its stack probes, run here between two conventions."""
    program = [
        "-c",
        "from wolf.native.execute import llvm_jit as jit; jit.OPTIMIZATION_LEVEL = 0\n"
        "from tests.platforms import win64_abi; win64_abi.main()",
    ]
    done = subprocess.run([sys.executable, *program], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    assert platform_check.PASSED in done.stdout
    assert re.search(r"[1-9]\d* objects, [1-9]\d* with stack probes", done.stdout)


# What no test can see here


@pytest.mark.parametrize("folder", ["src/wolf", "fleet/src/wolf_fleet"])
def test_sources_use_no_call_that_fails_on_windows(folder):
    forbidden = {
        r"\.fromtimestamp\(|\.utcfromtimestamp\(": "Windows converts no time before 1970: add a timedelta",
        r"\bos\.(replace|rename|fsync)\(": "use wolf.runtime.files",
        r"\bos\.open\(": "use wolf.runtime.files.open_bytes",
        r"\bos\.cpu_count\(": "use wolf.runtime.processors.usable_count",
        r"\.(read_text|write_text)\(\)": "name the encoding",
        r"chmod |openssl|/dev/|\bsudo\b": "no commands of POSIX in texts",
    }
    own, found = {"files.py", "processors.py"}, []
    allowed_lines = {("cache_folder", "os.replace(temporary, path)")}  # an error only means that nothing is cached
    for path in (ROOT / folder).rglob("*.py"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for pattern, advice in forbidden.items():
                allowed = path.name in own or "os.devnull" in line or (path.stem, line.strip()) in allowed_lines
                found += [] if allowed or not re.search(pattern, line) else [f"{path}:{number}: {advice}"]
    assert not found, "\n".join(found)
