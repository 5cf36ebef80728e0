"""The command `wolf serve`."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from wolf.cli import main

pytest.importorskip("uvicorn", reason="the service needs the extra serve")
pytestmark = pytest.mark.thorough


def test_the_command_keeps_strangers_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["serve", "--state", "s", "--key", "id", "--value", "v", "--set", "level_var=1", "--set", "obs_var=1"]
    refused = CliRunner().invoke(main, [*words, "--host", "0.0.0.0"])
    assert refused.exit_code == 2
    assert "which needs a token" in refused.output
    Path("token").write_text("short")
    assert "at least 16 letters" in CliRunner().invoke(main, [*words, "--token-file", "token"]).output
    assert not Path("s").exists()
