"""The command: what it prints, what it writes, and that mistakes end in one line."""

import io
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import wolf
from wolf.cli import main, progress
from wolf.cli.commands import demo

EXAMPLES = Path(__file__).parents[3] / "examples"
PNG = b"\x89PNG\r\n\x1a\n"
SMALL = demo.Config(steps=40, trials=3, seed=1)


@pytest.fixture(scope="module")
def results():
    """The experiment, run once for this file, and what it said."""
    said = []
    return demo.run(SMALL, said.append), "".join(said)


@pytest.fixture
def command(monkeypatch, results):
    """The command with its experiment already run."""

    def run(config, say):
        assert config == SMALL
        say(results[1])
        return results[0]

    monkeypatch.setattr(demo, "run", run)
    sizes = ["--steps", str(SMALL.steps), "--trials", str(SMALL.trials), "--seed", str(SMALL.seed)]
    return lambda *options: CliRunner().invoke(main, ["demo", *sizes, *options])


def test_help_lists_the_commands():
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert all(word in result.output for word in ("demo", "methods", "--version"))


def test_version_is_that_of_the_package():
    assert CliRunner().invoke(main, ["--version"]).output.strip() == f"wolf, version {wolf.__version__}"


def test_methods_describes_every_name_in_one_line():
    lines = CliRunner().invoke(main, ["methods"]).output.splitlines()
    assert [line.split()[0] for line in lines] == wolf.methods.names()
    assert all(len(line.split()) > 3 for line in lines)
    default = type(wolf.methods.default(wolf.models.local_level(0.1, 1.0)).noise.base)
    names = [line.split()[0] for line in lines if "the default" in line.lower()]
    assert [type(wolf.methods.make(name).noise.base) for name in names] == [default]


def test_demo_prints_a_table_and_writes_a_png(command, tmp_path):
    out = tmp_path / "picture.png"
    result = command("--out", str(out))
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert out.read_bytes()[:8] == PNG
    assert str(out) in result.output
    assert all(kind in result.output for kind in demo.SCENARIOS)
    assert all(name in result.output for name in demo.FILTERS)


def test_demo_says_what_it_does_while_it_does_it(results):
    _, said = results
    assert said.count("simulating") == len(demo.SCENARIOS)
    assert all(said.count(f".. {name} ") == len(demo.SCENARIOS) for name in demo.FILTERS)


def test_table_is_aligned_and_has_no_colour(results):
    lines = demo.table(SMALL, results[0].rows).splitlines()
    ruled = [line for line in lines if line and (line.startswith(("data", "-")) or re.search(r"%\s+\d.*%$", line))]
    assert len(ruled) == 1 + len(demo.SCENARIOS) * (1 + len(demo.FILTERS))
    assert {len(line) for line in ruled} == {len(ruled[0])}
    assert "\x1b" not in "".join(lines)


def test_rows_agree_with_a_filter_run_by_hand(results):
    truth, ys, _ = demo.simulate(demo.make_model(), demo.SCENARIOS["mixture"].process, SMALL)
    means = np.stack([wolf.filter(demo.make_model(), y).means for y in ys])
    error = np.median(np.sqrt(np.mean(np.sum((means - truth)[..., :2] ** 2, axis=-1), axis=-1)))
    row = next(row for row in results[0].rows if row.data == "mixture" and row.method == demo.DEFAULT)
    assert row.error == pytest.approx(error, rel=1e-9)


def test_every_kind_of_data_has_the_same_true_tracks():
    model = demo.make_model()
    draws = [demo.simulate(model, kind.process, SMALL)[0] for kind in demo.SCENARIOS.values()]
    assert all(np.array_equal(draw, draws[0]) for draw in draws)


def test_demo_without_matplotlib_prints_the_table_and_names_the_extra(command, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = command("--out", str(tmp_path / "picture.png"))
    assert result.exit_code == 0
    assert "coverage" in result.output
    assert "pip install matplotlib" in result.output.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--out", "nowhere/picture.png"], "nowhere"),
        (["--out", "picture.gif"], ".png"),
        (["--steps", "1"], "steps"),
        (["--trials", "0"], "trials"),
        (["--seed", "x"], "seed"),
    ],
)
def test_a_mistake_ends_in_one_line_not_in_a_traceback(options, words):
    result = CliRunner().invoke(main, ["demo", *options])
    assert result.exit_code != 0
    last = result.output.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    assert words in last
    assert "Traceback" not in result.output


def test_an_error_of_the_library_is_one_line_too(monkeypatch):
    def fail(*args):
        raise ValueError("steps must be whole")

    monkeypatch.setattr(demo, "run", fail)
    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 2
    assert result.output.splitlines()[-1] == "Error: steps must be whole"


@pytest.mark.thorough
@pytest.mark.parametrize(("script", "words"), [("dirty_sensor.py", "false values found"), ("tracking.py", "EKF")])
def test_examples_run_and_draw(script, words, tmp_path, capsys):
    out = tmp_path / "picture.png"
    runpy.run_path(str(EXAMPLES / script))["main"](steps=60, out=out)
    assert words in capsys.readouterr().out
    assert out.read_bytes()[:8] == PNG


def test_the_command_runs_as_a_module():
    run = subprocess.run([sys.executable, "-m", "wolf", "--help"], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("Usage: wolf ")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_on_a_terminal_after_a_delay_and_removed(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with progress.progress_bar("Quick", total=10) as quick:
        quick.update(5)
    assert screen.getvalue() == ""
    monkeypatch.setattr(progress, "DELAY_SECONDS", 1e-9)
    with progress.progress_bar("Fitting", total=10) as slow:
        slow.update(5)
        slow.refresh()
    assert "Fitting:  50%" in screen.getvalue()
    assert screen.getvalue().endswith("\r")


@pytest.mark.parametrize(("quiet", "screen"), [(True, Terminal()), (False, io.StringIO())])
def test_progress_is_silent_when_quiet_and_without_a_terminal(monkeypatch, quiet, screen):
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0.0)
    with progress.progress_bar("Fitting", total=10, quiet=quiet) as silent:
        silent.update(5)
        assert silent.disable
    assert screen.getvalue() == ""
