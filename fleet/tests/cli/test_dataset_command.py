"""The command `wolf dataset`."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from fleet.tests.datasets.test_dataset_job import lay_out, read, rows

import wolf
import wolf_fleet
from wolf.cli import main
from wolf.online import filter_batches

pytest.importorskip("llvmlite")
FIXED = ["--set", "level_var=0.1", "--set", "obs_var=1"]
ORDER = [("id", "ascending"), ("at", "ascending")]


@pytest.fixture
def source(tmp_path):
    return str(lay_out(tmp_path / "in", rows()))


def invoke(*arguments):
    return CliRunner().invoke(main, ["dataset", *map(str, arguments)])


def test_online_has_the_results_of_filter_batches(tmp_path, source):
    out = tmp_path / "out"
    result = invoke(source, "--by", "id", "--online", "--step", "60", *FIXED, "--workers", "1", "--out", out)
    assert result.exit_code == 0, result.output
    assert "300 rows of 5 keys" in result.output
    wide = wolf.models.local_level(0.1, 1.0, prior=wolf.Gaussian([0.0], [[1e12]]))
    expected = filter_batches(rows(), wide, key="id", values="v", time="at", step=60.0).read_all()
    np.testing.assert_array_equal(read(out)["mean"], expected.sort_by(ORDER)["mean"])


@pytest.mark.parametrize("how", [(), ("--causal",)])
def test_cleaning_has_the_results_of_filter_folder(tmp_path, source, how):
    model = ("--model", "local-level", *FIXED)
    result = invoke(source, "--by", "id", *model, *how, "--workers", "1", "--json", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["rows"], facts["keys"], facts["failed"]) == (300, 5, 0)
    options = {"model": "local-level", "parameters": {"level_var": 0.1, "obs_var": 1.0}, "workers": 1}
    named = {"by": "id", "time": "at", "values": "v"}
    wolf_fleet.filter_folder(source, tmp_path / "one", **named, **options, **({"causal": True} if how else {}))
    assert read(tmp_path / "out").equals(read(tmp_path / "one"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "out"], "Missing option '--by'"),
        (["--by", "id"], "Missing option '--out'"),
        (["--by", "id", "--online", "--out", "out"], "give --set level_var=... --set obs_var=..."),
        (["--by", "id", "--online", "--causal", *FIXED, "--out", "out"], "--causal has no effect with --online"),
        (["--by", "id", "--step", "60", "--out", "out"], "--step has no effect without --online"),
        (["--by", "name", "--out", "out"], "there is no column 'name'"),
    ],
)
def test_invalid_options_are_explained(tmp_path, monkeypatch, source, arguments, words):
    monkeypatch.chdir(tmp_path)
    result = invoke(source, *arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert not (tmp_path / "out").exists()


def test_a_missing_folder_or_a_file_is_explained(tmp_path, source):
    result = invoke(tmp_path / "nowhere", "--by", "id", "--out", tmp_path / "out")
    assert (result.exit_code, "there is no file or folder" in result.output) == (2, True)
    result = invoke(next((tmp_path / "in").iterdir()), "--by", "id", "--out", tmp_path / "out")
    assert (result.exit_code, "is not a folder" in result.output) == (2, True)
