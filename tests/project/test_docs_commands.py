"""The commands in the documentation run."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from wolf.cli import main

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["readings.md", "quality-control.md", "gps-track.md", "choosing-a-method.md", "certificate.md"]


@pytest.mark.thorough
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text()
    for name, content in re.findall(r'```\w+ title="([\w.-]+)"\n(.*?)```', text, re.S):
        Path(name).write_text(content)
    blocks = re.findall(r"```console\n(.*?)```", text, re.S)
    commands = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    assert commands
    for command in commands:
        name, *arguments = shlex.split(command)
        assert name == "wolf"
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, f"{command}\n{result.output}"


def test_the_model_files_of_the_documentation_are_the_same_model(tmp_path, monkeypatch):
    from wolf.models.registry import parse

    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```toml\n(.*?)```", (DOCS / "readings.md").read_text(), re.S)
    assert len(blocks) == 2
    for block in blocks:
        Path("mine.toml").write_text(block)
        model = parse("mine.toml")
        assert model.parameters == ["level_var", "slope_var", "seasonal_var", "obs_var"]
        assert model.given == {"slope_var": 1e-4, "seasonal_var": 0.0}
