"""Bits: what holds to the last of them holds with the compiler that users have, and not only with the tests' own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not os.environ.get("XLA_FLAGS"), reason="this run has the usual compiler")


ROOT = Path(__file__).parents[2]


def run_tests(*arguments):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, env=os.environ | {"XLA_FLAGS": ""}, capture_output=True, text=True)


def test_quickstart_runs_as_it_stands():
    done = run_tests("docs/quickstart.md")
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.thorough
def test_what_agrees_bit_for_bit_does_so_with_the_usual_compiler():
    # These files alone: to collect all tests takes ten seconds more.
    files = [path for path in ROOT.glob("tests/test_*.py") if "mark.bits" in path.read_text()]
    done = run_tests("-m", "bits and not slow", *files)
    assert done.returncode == 0, done.stdout[-3000:]
