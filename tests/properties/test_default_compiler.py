"""Tests of bits, and the quickstart, with the compiler flags that users have instead of those of the tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not os.environ.get("XLA_FLAGS"), reason="this run has the default compiler")


ROOT = Path(__file__).parents[2]


def run_tests(*arguments):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, env=os.environ | {"XLA_FLAGS": ""}, capture_output=True, text=True)


def test_the_quickstart_runs():
    done = run_tests("docs/quickstart.md")
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.thorough
@pytest.mark.parametrize("tier", ["not thorough", pytest.param("thorough", marks=pytest.mark.slow)])
def test_tests_of_bits_pass_with_the_default_compiler(tier):
    # Only these files: to collect all tests takes ten seconds more.
    files = [path for path in ROOT.glob("tests/**/test_*.py") if "mark.bits" in path.read_text()]
    assert files
    done = run_tests("-m", f"bits and not slow and {tier}", *files)
    assert done.returncode == 0, done.stdout[-3000:]
