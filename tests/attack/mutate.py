"""Break the library in one place at a time, in a copy, and see whether its tests notice.

python tests/attack/mutate.py                     all of `mutations.toml`: about half an hour
python tests/attack/mutate.py run-first vote      those whose name begins so

A mutation that no test notices is printed as SURVIVED; the last line has the counts.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "paper", "conftest.py", "pyproject.toml", "README.md", "docs", "examples", "CHANGELOG.md")


def mutations():
    """Read the list: entries by name."""
    return tomllib.loads((ROOT / "tests" / "attack" / "mutations.toml").read_text(encoding="utf-8"))


def copy_to(folder):
    """Copy what the tests need."""
    for name in COPIED:
        place = ROOT / name
        shutil.copytree(place, folder / name) if place.is_dir() else shutil.copy(place, folder / name)


def test_file(name):
    """Return the path of a test module, below the root, from its short name FOLDER/NAME."""
    folder, _, module = name.rpartition("/")
    return Path("tests", folder, f"test_{module}.py")


def noticed_by(folder, entry):
    """Apply a mutation, run its tests, take it back; give the first test that failed, or None."""
    path = folder / "src" / "wolf" / entry["file"]
    original = path.read_text(encoding="utf-8")
    path.write_text(original.replace(entry["old"], entry["new"]), encoding="utf-8")
    files = [str(test_file(name)) for name in entry["tests"]]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", *files]
    env = os.environ | {"PYTHONPATH": f"{folder}/src:{folder}/paper/src", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    finally:
        path.write_text(original, encoding="utf-8")
    if not done.returncode:
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0].split(" ", 1)[1] if failed else done.stdout[-200:] + done.stderr[-200:]


def main():
    """Try the mutations that were asked for."""
    wanted = tuple(sys.argv[1:]) or ("",)
    chosen = {name: entry for name, entry in mutations().items() if name.startswith(wanted)}
    caught = 0
    with tempfile.TemporaryDirectory() as folder:
        copy_to(Path(folder))
        for name, entry in chosen.items():
            by = noticed_by(Path(folder), entry)
            caught += by is not None
            print(name, "SURVIVED" if by is None else f"caught by {by}", flush=True)
    print(f"{caught} of {len(chosen)} caught")


if __name__ == "__main__":
    main()
