"""Apply one mutation at a time to a copy of the library, and check that a test fails.

python tests/attack/mutate.py                     all of `mutations.toml`: about an hour
python tests/attack/mutate.py run-first jump      those whose name starts with one of the words

A mutation that no test detects is printed as SURVIVED; the last line has the counts.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPIED = (
    "src",
    "tests",
    "fleet",
    "paper",
    "conftest.py",
    "pyproject.toml",
    "README.md",
    "docs",
    "examples",
    "CHANGELOG.md",
)


def mutations():
    """Read the mutations by name."""
    return tomllib.loads((ROOT / "tests" / "attack" / "mutations.toml").read_text(encoding="utf-8"))


def copy_to(folder):
    """Copy the files that the tests need."""
    for name in COPIED:
        place = ROOT / name
        shutil.copytree(place, folder / name) if place.is_dir() else shutil.copy(place, folder / name)


def source_of(entry):
    """Return the path of the mutated file below the root; one of wolf-fleet begins with "fleet:"."""
    inside = entry["file"].removeprefix("fleet:")
    return Path("src/wolf", inside) if inside == entry["file"] else Path("fleet/src/wolf_fleet", inside)


def path_of_tests(name):
    """Return the path of a test module below the root from its short name, (fleet:)FOLDER/NAME or ...::test_NAME."""
    inside = name.removeprefix("fleet:").partition("::")[0]
    folder, _, module = inside.rpartition("/")
    return Path("fleet/tests" if name.startswith("fleet:") else "tests", folder, f"test_{module}.py")


def node_of_tests(name):
    """Return what pytest runs for a short name: a module, or one test of it."""
    _, mark, test = name.partition("::")
    return f"{path_of_tests(name)}{mark}{test}"


def first_failure(folder, entry):
    """Apply a mutation, run its tests, revert it; return the first test that failed, or None."""
    path = folder / source_of(entry)
    original = path.read_text(encoding="utf-8")
    path.write_text(original.replace(entry["old"], entry["new"]), encoding="utf-8")
    files = [node_of_tests(name) for name in entry["tests"]]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", *files]
    env = os.environ | {
        "PYTHONPATH": f"{folder}/src:{folder}/fleet/src:{folder}/paper/src",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    finally:
        path.write_text(original, encoding="utf-8")
    if not done.returncode:
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0].split(" ", 1)[1] if failed else done.stdout[-200:] + done.stderr[-200:]


def main():
    """Apply the chosen mutations."""
    wanted = tuple(sys.argv[1:]) or ("",)
    chosen = {name: entry for name, entry in mutations().items() if name.startswith(wanted)}
    caught = 0
    with tempfile.TemporaryDirectory() as folder:
        copy_to(Path(folder))
        for name, entry in chosen.items():
            failure = first_failure(Path(folder), entry)
            caught += failure is not None
            print(name, "SURVIVED" if failure is None else f"caught by {failure}", flush=True)
    print(f"{caught} of {len(chosen)} caught")


if __name__ == "__main__":
    main()
