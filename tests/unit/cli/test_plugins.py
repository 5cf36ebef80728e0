"""Commands of other packages: found by their entry points, named when they are missing, never in the way."""

import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

from wolf.cli import main, plugins

PAPER = Path(__file__).parents[3] / "paper"
CODE = "import click\n\n@click.command()\ndef greet():\n    '''Say hello.'''\n    click.echo('hello')\n"


def run(*arguments):
    return CliRunner().invoke(main, arguments)


def install(folder, points):
    """Make a folder on the path look like an installed package with entry points."""
    info = folder / "made_up-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[wolf.commands]", *lines]))
    return folder


@pytest.fixture
def alone(monkeypatch):
    """No other package has commands."""
    monkeypatch.setattr(metadata, "entry_points", lambda **chosen: ())


@pytest.fixture
def paper(tmp_path):
    """A folder that says of the paper's package what installing it says."""
    declared = tomllib.loads((PAPER / "pyproject.toml").read_text())["project"]["entry-points"]["wolf.commands"]
    return install(tmp_path, declared)


@pytest.mark.parametrize("name", plugins.COMMANDS_OF_OTHER_PACKAGES)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_without_the_package_the_help_of_a_command_explains(alone, name, option):
    result = run(name, option)
    assert result.exit_code == 0
    summary, message = plugins.COMMANDS_OF_OTHER_PACKAGES[name]
    words = " ".join(result.output.split())
    assert summary in words
    assert message in words


@pytest.mark.parametrize("arguments", [(), ("--list",), ("intro", "--scale", "paper")])
def test_without_the_package_reproduce_says_in_one_line_how_to_get_it(alone, arguments):
    result = run("reproduce", *arguments)
    assert result.exit_code == 2
    assert result.output.startswith(
        "Error: wolf reproduce comes with the package wolf-paper: run `pip install . ./paper`"
    )
    assert result.output.count("\n") == 1


def test_without_the_package_the_help_still_names_the_command(alone):
    result = run("--help")
    assert result.exit_code == 0
    assert "reproduce" in result.output


def test_with_the_package_reproduce_is_its_command(paper, monkeypatch):
    monkeypatch.syspath_prepend(paper)
    assert run("reproduce", "--help").output.count("--") > 5
    listed = run("reproduce", "--list")
    assert listed.exit_code == 0, listed.output
    assert "tracking-student" in listed.output


def test_the_help_imports_no_experiment(paper):
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom wolf.cli import main\n"
        "print(CliRunner().invoke(main, ['--help']).output)\n"
        "print('loaded:', *sorted(name for name in sys.modules if name.startswith('wolf_paper')))"
    )
    path = os.pathsep.join([str(paper), str(PAPER / "src"), os.environ.get("PYTHONPATH", "")])
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path}
    ).stdout
    assert "Run the paper's experiments" in output
    assert output.splitlines()[-1] == "loaded: wolf_paper wolf_paper.command"


def test_a_package_may_add_a_command_of_its_own(tmp_path, monkeypatch):
    (tmp_path / "made_up.py").write_text(CODE)
    monkeypatch.syspath_prepend(install(tmp_path, {"greet": "made_up:greet"}))
    assert "Say hello." in run("--help").output
    assert run("greet").output == "hello\n"


def test_a_package_cannot_take_a_name_of_ours(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(install(tmp_path, {"models": "nowhere:at_all"}))
    assert run("models").exit_code == 0
    assert run("--help").output.count("\n  models ") == 1


def test_a_broken_package_breaks_its_own_command_only(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(install(tmp_path, {"greet": "nowhere:at_all"}))
    assert run("--help").exit_code == 0
    result = run("greet")
    assert result.exit_code == 2
    assert "wolf greet could not be loaded from nowhere:at_all" in result.output


def test_our_own_commands_do_not_look_for_packages(monkeypatch):
    def fail(**chosen):
        raise AssertionError("entry points were read")

    monkeypatch.setattr(metadata, "entry_points", fail)
    assert run("models").exit_code == 0
    assert run("filter", "--help").exit_code == 0
