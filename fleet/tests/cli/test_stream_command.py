"""The command `wolf stream`."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from fleet.tests.streaming.test_stream import output

from wolf.cli import main

pytestmark = pytest.mark.thorough
pytest.importorskip("llvmlite")


def test_the_command_streams_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("id,t,v\n" + "".join(f"a,{t},{1000 + (t == 30) * 500}\n" for t in range(40)))
    names = ["--key", "id", "--value", "v", "--time", "t"]
    words = ["stream", "rows.csv", *names, "--state", "state", "--out", "clean", "--allowed-lateness", "2"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "give --set level_var=... --set obs_var=..." in result.output
    words += ["--set", "level_var=0.1", "--set", "obs_var=1"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "40 rows read, 40 filtered for 1 key" in result.output
    out = output("state")
    assert np.flatnonzero(out["outlier"]).tolist() == [30]
    np.testing.assert_allclose(out["mean"], 1000.0, atol=2.0)  # a new key begins at its first row
    again = CliRunner().invoke(main, [*words, "--json"])
    assert json.loads(again.output)["used"] == 40
