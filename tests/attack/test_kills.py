"""A process that is killed while it writes leaves the old file or the whole new one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = Path(__file__).parent / "kills.py"


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        pytest.param("save", 4, marks=pytest.mark.thorough),
        pytest.param("filter", 4, marks=pytest.mark.thorough),
        pytest.param("save", 200, marks=pytest.mark.slow),
        pytest.param("filter", 50, marks=pytest.mark.slow),
    ],
)
def test_nothing_is_torn(kind, count, tmp_path):
    command = [sys.executable, "-W", "ignore", KILLS, kind, str(count)]
    kept = {"WOLF_CACHE": str(tmp_path)}  # else each child would compile again
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | kept)
    assert done.returncode == 0, done.stderr[-2000:]
    kills, writing, torn = done.stdout.split(", ")
    assert kills == f"{count} kills"
    assert torn.split() == ["0", "torn"]
    if count > 20:  # of fewer kills none may come while a file is written
        assert int(writing.split()[0]) > count // 10  # else nothing was tested
