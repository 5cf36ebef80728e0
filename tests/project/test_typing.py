"""Type checkers report common mistakes, and no error in correct code.

Each checks both files of `tests/typing` once. A line that ends in `# wrong` must have an error, and no other may.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "tests" / "typing" / name for name in ("mistakes.py", "right.py")]


def expected_errors():
    """List the lines that must have an error, as (file, number)."""
    lines = [(path.name, *line) for path in FILES for line in enumerate(path.read_text().splitlines(), 1)]
    return {(name, number) for name, number, text in lines if text.endswith("# wrong")}


def run(*command):
    return subprocess.run([sys.executable, "-m", *command, *FILES], cwd=ROOT, capture_output=True, text=True).stdout


def mypy(_):
    for line in run("mypy", "--output", "json").splitlines():
        found = json.loads(line)
        if found["severity"] == "error":
            yield Path(found["file"]).name, found["line"]


def pyright(_):
    pytest.importorskip("pyright", reason='pyright comes with the extra "dev"')
    for found in json.loads(run("pyright", "--outputjson", "--pythonpath", sys.executable))["generalDiagnostics"]:
        if found["severity"] == "error":
            yield Path(found["file"]).name, found["range"]["start"]["line"] + 1


@pytest.mark.thorough
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_checkers_report_every_mistake_and_nothing_else(checker, tmp_path):
    found, expected = set(checker(tmp_path)), expected_errors()
    assert sorted(expected - found) == []
    assert sorted(found - expected) == []
    assert len(expected) > 50
