"""Pipes, standard streams, Ctrl-C and what nobody foresaw."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.attack.made import GOOD, IN, KNOWN, LEVEL, ROWS, fifo, finite, make, table

from wolf import filter_frame
from wolf.cleaning import io
from wolf.cli import main
from wolf.runtime import signals
from wolf.runtime.checkpoints import atomic


def invoke(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)))


def reading(path, kept):
    """Read a pipe to its end, in a thread of its own."""
    thread = threading.Thread(target=lambda: kept.append(Path(path).read_bytes()), daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("kind", [".csv", ".parquet", ".arrow"])
def test_a_pipe_is_read_and_written_as_a_stream(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make({f"a{kind}": GOOD if kind == ".csv" else table(), f"in{kind}": fifo, f"out{kind}": fifo, "report": fifo})
    content = Path(f"a{kind}").read_bytes()
    sender = threading.Thread(target=lambda: Path(f"in{kind}").write_bytes(content), daemon=True)
    sender.start()
    kept, page = [], []
    threads = [sender, reading(f"out{kind}", kept), reading("report", page)]
    result = invoke("filter", f"in{kind}", *KNOWN, "--out", f"out{kind}", "--report", "report")
    assert result.exit_code == 0, result.output
    for thread in threads:
        thread.join(10)
    assert all(Path(name).is_fifo() for name in (f"in{kind}", f"out{kind}", "report"))
    Path(f"got{kind}").write_bytes(kept[0])
    assert invoke("filter", f"a{kind}", *KNOWN, "--out", f"want{kind}").exit_code == 0
    assert finite(f"got{kind}")
    if kind == ".csv":
        assert kept[0] == Path("want.csv").read_bytes()
    assert page[0].lower().startswith(b"<!doctype html>")


def test_one_pipe_is_not_both_input_and_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make({"p": fifo})
    result = invoke("filter", "p", "--out", "p")
    assert result.exit_code == 2
    assert "is the same file as the input p" in result.stderr


def test_standard_input_that_is_a_file_is_not_overwritten(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(IN)
    with open("in.csv") as opened:
        monkeypatch.setattr("sys.stdin", opened)
        with pytest.raises(ValueError, match="is the same file as the input"):
            io.check_apart({"the input": "-"}, {"--out": "in.csv"})
    with open("out.csv", "w") as opened:
        monkeypatch.setattr("sys.stdout", opened)
        with pytest.raises(ValueError, match="is the same file as the input"):
            io.check_apart({"the input": "out.csv"}, {"--out": "-"})
        io.check_apart({"the input": "in.csv"}, {"--out": "-"})


def test_closed_standard_input_and_output_are_reported(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ValueError, match="standard input is closed"):
        io.read_table("-")
    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(ValueError, match="standard output is closed"):
        io.write_table("-", table())


@pytest.mark.slow
def test_a_file_gets_the_mode_that_the_umask_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(IN)
    before = os.umask(0o027)
    try:
        assert invoke("filter", "in.csv", *KNOWN, "--report", "r.html").exit_code == 0
        assert invoke("certify", "local-level", *KNOWN, "--trials", "0", "--out", "c.json").exit_code == 0
    finally:
        os.umask(before)
    assert {oct(Path(name).stat().st_mode & 0o777) for name in ("in-clean.csv", "r.html", "c.json")} == {"0o640"}


def test_what_nobody_foresaw_is_one_line_and_code_70(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(IN)

    def fail(*arguments, **options):
        raise KeyError("odd\nthing")

    monkeypatch.setattr(io, "read_table", fail)
    monkeypatch.delenv("WOLF_TRACEBACK", raising=False)
    result = invoke("filter", "in.csv")
    assert result.exit_code == 70
    assert result.stderr.startswith("Error: this is a bug in wolf, please report it: KeyError: ")
    assert result.stderr.count("\n") == 1
    assert "WOLF_TRACEBACK=1" in result.stderr
    monkeypatch.setenv("WOLF_TRACEBACK", "1")
    assert "Traceback" in invoke("filter", "in.csv").stderr


@pytest.mark.parametrize("error", [MemoryError(), OSError(28, "No space left on device"), ValueError("x\ny")])
def test_what_the_machine_lacks_is_one_line_and_code_2(error, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(IN)

    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(io, "read_table", fail)
    result = invoke("filter", "in.csv")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "None" not in result.stderr


def test_an_interrupt_ends_in_code_130_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(IN)

    def stop(file, *arguments):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(io.table_writer, "_write", stop)
    result = invoke("filter", "in.csv", *KNOWN)
    assert (result.exit_code, result.stderr) == (130, "")
    assert os.listdir() == ["in.csv"]


def test_a_signal_while_a_file_is_written_removes_what_is_there_of_it(tmp_path, monkeypatch):
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    with suppress(RuntimeError, OSError), atomic(tmp_path / "out.csv") as file:
        file.write(b"half")
        assert len(os.listdir(tmp_path)) == 1
        signals._end(signal.SIGINT, None)
        assert os.listdir(tmp_path) == []
        raise RuntimeError
    assert codes == [130]
    assert not signals.unfinished


@pytest.mark.thorough
@pytest.mark.parametrize("moment", [0.0, 0.3, 0.8, 1.8])
def test_an_interrupt_at_any_moment_is_quiet(moment, tmp_path, tmp_path_factory):
    """As a process, whose imports alone take a second; before the first of them Python itself answers."""
    make({tmp_path / "in.csv": GOOD, tmp_path / "out.csv": fifo})  # nobody reads the pipe: it waits there for ever
    program = tmp_path_factory.mktemp("bin") / "wolf"
    started = program.with_name("started")
    program.write_text(f"import wolf; open({str(started)!r}, 'w').close(); from wolf.cli import main; main()")
    command = [sys.executable, program, "filter", "in.csv", *KNOWN, "--out", "out.csv"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not started.exists():
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(moment)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=600)
    assert (process.returncode, *said) == (130, b"", b"")
    assert sorted(os.listdir(tmp_path)) == ["in.csv", "out.csv"]


@pytest.mark.parametrize("names", [(0, 1), ("t", 1), (1, "y"), (1.5, 2)])
def test_frames_with_numbers_for_names(names):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({names[0]: range(ROWS), names[1]: LEVEL})
    known = {"level_var": 0.1, "obs_var": 1.0}
    out = filter_frame(frame, time=names[0], values=names[1], parameters=known)
    assert list(out)[:3] == [*names, "mean"]
    several = filter_frame(frame, values=list(names), parameters=known)
    assert f"{names[1]}_mean" in several
    with pytest.raises(ValueError, match="no column 7"):
        filter_frame(frame, values=7)
    with pytest.raises(ValueError, match="no column 7"):
        filter_frame(frame, time=7, values=names[1])
