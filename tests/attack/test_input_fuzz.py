"""Fuzzing of inputs: damaged files, random options, damaged models and checkpoints, arrays of any type and shape.

Hypothesis draws the cases and prints how to repeat a failure. WOLF_FUZZ sets their number (`make fuzz`). A case works
or is refused with a message; it never shows a traceback, changes its input, leaves half a file or returns NaN.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.attack.made import KNOWN, dated, finite, make, table, text

import wolf
from wolf.cli import main

CASES = int(os.environ.get("WOLF_FUZZ", "0"))
NUM_COMMANDS, NUM_FILES = (12, 40) if not CASES else (max(CASES // 50, 12), max(CASES // 10, 40))
MODELS = {
    "parts.toml": 'obs_var = 1.0\n\n[[parts]]\nkind = "trend"\nlevel_var = 0.1\nslope_var = 1e-4\n',
    "matrices.toml": "F = [[1.0]]\nH = [[1.0]]\nQ = [[0.1]]\nR = [[1.0]]\nmean = [20.0]\ncov = [[9.0]]\n",
}
FILES = {
    "in.csv": text(),
    "dated.csv": dated(),
    "grouped.csv": text([f"{i},{i % 7},{'ab'[i % 2]}" for i in range(30)], "time,value,place"),
    "in.parquet": table(),
    "in.arrow": table(),
    "in.jsonl": "".join(f'{{"time": {i}, "value": {i % 7}}}\n' for i in range(30)),
}
INSERTIONS = [
    b"\n",
    b"\r",
    b"\0",
    b",",
    b";",
    b'"',
    b"'",
    b"\xef\xbb\xbf",
    b"\xff",
    b"nan",
    b"inf",
    b"-1e999",
    b"1e300",
]
INSERTIONS += [
    b"=",
    b"[",
    b"]",
    b"{",
    b"}",
    b"2024-02-30",
    b"24:00",
    b"1,5",
    b"\xe2\x88\x92",
    b"#",
    b" ",
    b"\t",
    b"9" * 400,
]
VALUES = st.one_of(
    st.sampled_from(
        ["", "-1", "0", "1", "3", "nan", "inf", "1e9", "1e999", "x", "value", "time", "in.csv", ".", "/", "é"]
    ),
    st.sampled_from(["obs_var=2", "level_var=0", "period=1", "KF", "WoLF", "local-level", "trend", "auto", "2h", "1d"]),
    st.text(max_size=6).filter(lambda words: "\0" not in words),
)
OPTIONS = [
    "--value",
    "--time",
    "--by",
    "--method",
    "--model",
    "--set",
    "--forecast",
    "--level",
    "--patience",
    "--missing",
]
OPTIONS += ["--on-bad-cell", "--skip", "--max-fault-length", "--format", "--nonsense", "--out"]
OPTIONS += ["--min", "--max-rate", "--flat-for", "--config", "--labels", "--maintenance", "--every", "--max-gap"]
SWITCHES = ["--causal", "--strict", "--json", "--quiet"]
SETTINGS = {"deadline": None, "derandomize": not CASES, "suppress_health_check": list(HealthCheck), "print_blob": True}


@st.composite
def damaged(draw, content):
    """Bytes with a few changes: flipped, deleted, duplicated, truncated or inserted."""
    content = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        end = min(at + draw(st.integers(1, 40)), len(content))
        match draw(st.integers(0, 4)):
            case 0 if at < len(content):
                content[at] ^= 1 << draw(st.integers(0, 7))
            case 1:
                del content[at:end]
            case 2:
                content[at:at] = content[at:end]
            case 3:
                del content[at:]
            case _:
                content[at:at] = draw(st.sampled_from(INSERTIONS))
    return bytes(content)


@st.composite
def commands(draw):
    """Options of `wolf filter`, each with any value."""
    words = [*draw(st.lists(st.sampled_from(SWITCHES), max_size=1))]
    for _ in range(draw(st.integers(1, 3))):
        words += [draw(st.sampled_from(OPTIONS)), draw(VALUES)]
    return words


class FileContents(dict):
    """Contents of files, which are not printed when a case fails."""

    def __repr__(self):
        return f"{len(self)} files"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(FILES | MODELS)
    return FileContents({name: (tmp_path / name).read_bytes() for name in [*FILES, *MODELS]})


def reset_folder(kept):
    """Restore the files, and delete those that were written."""
    for path in Path().iterdir():
        if path.name not in kept and path.is_file():
            path.unlink()
    for name, content in kept.items():
        Path(name).write_bytes(content)


def check_command(arguments, inputs):
    """Run a command: it works, or its error is one line; its inputs are unchanged."""
    before = {name: Path(name).read_bytes() for name in inputs}
    result = CliRunner().invoke(main, arguments)
    details = f"{arguments}\n{result.output}\n{result.exception!r}"
    assert result.exit_code in (0, 2), details
    assert "bug in wolf" not in result.output, details
    assert "Traceback" not in result.output, details
    assert {name: Path(name).read_bytes() for name in inputs} == before, details
    assert not list(Path().glob("*.part")), details
    if result.exit_code:
        assert result.stderr.strip().splitlines()[-1].startswith("Error: "), details
    return result.exit_code


@pytest.mark.thorough
@settings(max_examples=NUM_FILES, **SETTINGS)
@given(data=st.data())
def test_a_damaged_file_works_or_is_refused(place, data):
    reset_folder(place)
    name = data.draw(st.sampled_from(list(FILES)))
    Path(name).write_bytes(data.draw(damaged(place[name])))
    group = ["--by", "place"] if name == "grouped.csv" else []
    if check_command(["filter", name, *KNOWN, *group, "--out", "out.csv"], place) == 0:
        assert finite("out.csv") or "inf" in Path("out.csv").read_text()


@pytest.mark.thorough
@settings(max_examples=NUM_COMMANDS, **SETTINGS)
@given(words=commands(), known=st.booleans())
def test_any_options_work_or_are_refused(place, words, known):
    reset_folder(place)
    check_command(["filter", "in.csv", *(KNOWN if known else []), *words], place)


@pytest.mark.thorough
@settings(max_examples=NUM_COMMANDS, **SETTINGS)
@given(data=st.data())
def test_a_damaged_model_works_or_is_refused(place, data):
    reset_folder(place)
    name = data.draw(st.sampled_from(list(MODELS)))
    Path(name).write_bytes(data.draw(damaged(place[name])))
    if check_command(["filter", "in.csv", "--model", name, "--out", "out.csv"], place) == 0:
        assert finite("out.csv")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "filter.npz"
    online = wolf.Online(wolf.models.local_level(0.1, 1.0))
    for y in (1.0, 2.0, np.nan):
        online.step(y)
    online.save(path)
    return path.read_bytes(), np.array(online.mean)


@pytest.mark.thorough
@settings(max_examples=NUM_FILES, **SETTINGS)
@given(data=st.data())
def test_a_damaged_checkpoint_is_refused_or_loads_the_same_state(checkpoint, data, tmp_path):
    content, mean = checkpoint
    path = tmp_path / "filter.npz"
    path.write_bytes(data.draw(damaged(content)))
    try:
        online = wolf.Online.load(path, wolf.models.local_level(0.1, 1.0))
    except ValueError:
        return
    np.testing.assert_array_equal(online.mean, mean)


ARRAYS = hnp.arrays(
    dtype=st.one_of(
        hnp.scalar_dtypes(), st.sampled_from([np.dtype(object), np.dtype("U3"), np.dtype([("a", "f8"), ("b", "i4")])])
    ),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
)


@pytest.mark.thorough
@settings(max_examples=NUM_FILES, **SETTINGS)
@given(ys=ARRAYS)
def test_any_array_is_filtered_or_refused(ys):
    try:
        out = wolf.filter(wolf.models.local_level(0.1, 1.0), ys)
    except ValueError:
        return
    assert np.isfinite(out.means).all()
    assert (np.diagonal(out.covs, axis1=1, axis2=2) >= 0).all()
