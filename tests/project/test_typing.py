"""Type checkers find the mistakes that people make, and nothing wrong in what is right.

Each runs once on both files of `tests/typing`. A line that ends in `# wrong` must have an error, and no other may.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "tests" / "typing" / name for name in ("mistakes.py", "right.py")]


def marked():
    """List the lines that must have an error, as (file, number)."""
    lines = [(path.name, *line) for path in FILES for line in enumerate(path.read_text().splitlines(), 1)]
    return {(name, number) for name, number, text in lines if text.endswith("# wrong")}


def run(*command):
    return subprocess.run([sys.executable, "-m", *command, *FILES], cwd=ROOT, capture_output=True, text=True).stdout


def mypy(folder):
    for line in run("mypy", "--output", "json", "--cache-dir", folder).splitlines():
        told = json.loads(line)
        if told["severity"] == "error":
            yield Path(told["file"]).name, told["line"]


def pyright(_):
    pytest.importorskip("pyright", reason='pyright comes with the extra "dev"')
    for told in json.loads(run("pyright", "--outputjson", "--pythonpath", sys.executable))["generalDiagnostics"]:
        if told["severity"] == "error":
            yield Path(told["file"]).name, told["range"]["start"]["line"] + 1


@pytest.mark.thorough
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_checkers_find_every_mistake_and_no_other(checker, tmp_path):
    found, expected = set(checker(tmp_path)), marked()
    assert sorted(expected - found) == []
    assert sorted(found - expected) == []
    assert len(expected) > 50
