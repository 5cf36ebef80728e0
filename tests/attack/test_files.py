"""Odd files, odd options and odd places: each works, or ends in one line with exit code 2, and nothing is lost.

Every case is a row of a table: the files that are there, what is typed, the exit code and the words that are right.
"""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.attack import options, places, tables, times
from tests.attack.made import CASES, finite, make

from wolf.cli import main

TABLES = (places, tables, times, options)  # each adds its cases when it is imported


def contents(names):
    """What each name holds, and where it points."""
    kept = {}
    for name in names:
        path = Path(name)
        kept[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else "special"
    return kept


@pytest.fixture(autouse=True)
def devices(monkeypatch):
    """Whoever may write in /dev shall not lose a device to a mistake."""
    replace = os.replace

    def careful(source, target):
        assert not str(target).startswith("/dev/")
        replace(source, target)

    monkeypatch.setattr(os, "replace", careful)


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_a_file_works_or_ends_in_one_line(name, tmp_path, monkeypatch):
    case = CASES[name]
    monkeypatch.chdir(tmp_path)
    make(case.files)
    before = contents(os.listdir())
    result = CliRunner().invoke(main, case.arguments, input=case.stdin)
    told = f"{result.output}\n{result.exception!r}"
    assert result.exit_code == case.code, told
    assert "Traceback" not in result.output
    after = contents(os.listdir())
    assert not [left for left in after if left.endswith(".part")]
    if case.code:
        assert after == before, "something was written"
        *usage, last = result.stderr.strip().splitlines()
        assert last.startswith("Error: ")
        assert not [line for line in usage if not line.startswith(("Usage: ", "Try '")) and line.strip()], told
        assert case.words in last
        return
    assert case.words in result.output
    for old, content in before.items():
        assert old in case.written or after[old] == content, f"{old} was changed"
    for new in case.written:
        assert Path(new).is_file()
        if case.arguments[0] == "filter" and Path(new).suffix.lower() in (".csv", ".parquet", ".arrow"):
            assert finite(new)
