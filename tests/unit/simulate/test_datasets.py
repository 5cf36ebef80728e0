"""The series that come along: as their script makes them, and clean after filtering."""

import numpy as np
import pytest
from click.testing import CliRunner

import wolf
from wolf.cli import main
from wolf.simulate.datasets import generate


@pytest.mark.parametrize("name", wolf.datasets.names())
def test_files_are_what_their_script_makes(name):
    assert wolf.datasets.path(name).read_text() == generate.text_of(name)


@pytest.mark.parametrize("name", wolf.datasets.names())
def test_series_have_outliers_and_truth(name):
    times, values, truth, outliers = wolf.datasets.load(name)
    assert values.shape == truth.shape
    assert np.all(np.diff(times) > 0)
    assert np.isfinite(truth).all()
    assert 5 < outliers.sum() < 0.1 * len(times)
    assert wolf.datasets.path(name).stat().st_size < 60_000


def test_unknown_names_raise():
    with pytest.raises(ValueError, match="thermometer"):
        wolf.datasets.load("x")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("well", ["--value", "value"]),
        ("thermometer", ["--value", "value"]),
        ("track", ["--value", "value_x", "--value", "value_y", "--model", "wiener-velocity"]),
    ],
)
def test_the_command_finds_the_false_values(name, options, tmp_path):
    out = tmp_path / "out.csv"
    result = CliRunner().invoke(main, ["filter", str(wolf.datasets.path(name)), *options, "--out", str(out)])
    assert result.exit_code == 0, result.output
    table = np.genfromtxt(out, delimiter=",", names=True, dtype=None, encoding="utf-8")
    series = wolf.datasets.load(name)
    flagged = np.char.equal(table["outlier"].astype(str), "true") | (table["outlier"] == True)  # noqa: E712
    found = flagged[series.outliers].mean()
    false = flagged[~series.outliers].mean()
    assert found > 0.8
    assert false < 0.12
    estimate = table["value_x_mean"] if name == "track" else table["mean"]
    error = np.sqrt(np.mean((estimate - series.truth[:, 0]) ** 2))
    raw = np.sqrt(np.nanmean((series.values[:, 0] - series.truth[:, 0]) ** 2))
    assert error < 0.3 * raw
