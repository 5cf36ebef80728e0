"""`wolf certify`: what it prints and writes, and every mistake in one line with exit code 2."""

import json

import pytest
from click.testing import CliRunner

from wolf.cli import main

LEVEL = ["local-level", "--set", "level_var=0.1", "--set", "obs_var=1"]
QUICK = ["--trials", "2", "--steps", "40"]
FILE = """
F = [[1.0]]
H = [[1.0]]
Q = [[0.1]]
R = [[1.0]]
mean = [0.0]
cov = [[1.0]]
"""


def invoke(*arguments):
    return CliRunner().invoke(main, ["certify", *map(str, arguments)])


def test_table_json_and_picture_are_written(tmp_path):
    files = tmp_path / "out.json", tmp_path / "out.png"
    result = invoke(*LEVEL, *QUICK, "--method", "WoLF-TMD:c=9,metric=S", "--out", files[0], "--plot", files[1])
    assert result.exit_code == 0, result.output
    assert all(name in result.output for name in ("influence", "efficiency", "position jump", "breakdown", "exact"))
    assert json.loads(files[0].read_text())["entries"]["influence"]["basis"] == "exact"
    assert files[1].read_bytes().startswith(b"\x89PNG")


def test_json_alone_goes_to_standard_output(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(FILE)
    result = invoke(path, "--method", "WoLF-TMD:c=9,metric=S", *QUICK, "--json")
    assert result.exit_code == 0, result.output
    named = json.loads(invoke(*LEVEL, "--method", "WoLF-TMD:c=9,metric=S", *QUICK, "--json").output)
    read = json.loads(result.output)
    assert read["entries"].keys() == named["entries"].keys()
    for name, entry in read["entries"].items():
        assert entry["value"] == pytest.approx(named["entries"][name]["value"], rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["local-level"], "--set level_var=... --set obs_var=..."),
        (["local-levl"], "Did you mean"),
        (["no.toml"], "no model file"),
        ([*LEVEL, "--set", "slope_var=1"], "has no parameter slope_var"),
        ([*LEVEL, "--columns", "2"], "such as wiener-velocity"),
        ([*LEVEL, "--method", "KFF"], "no method is called"),
        ([*LEVEL, "--method", "EnKF"], "random numbers"),
        ([*LEVEL, "--plot", "picture.gif"], "--plot must end in"),
        ([*LEVEL, "--out", "nowhere/out.json"], "does not exist"),
        ([*LEVEL, "--out", "out.csv"], "--out must end in .json"),
        ([*LEVEL, "--set", "obs_var=0"], "positive definite"),
    ],
)
def test_mistakes_end_in_one_line(arguments, words):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output
