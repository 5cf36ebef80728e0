"""Imports of wolf-fleet point one way, and `import wolf_fleet` loads nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import wolf
import wolf_fleet

ROOT, CORE = Path(wolf_fleet.__file__).parent, Path(wolf.__file__).parent
LAYERS = {"datasets": 0, "streaming": 0, "service": 1, "spark": 2, "cli": 3}  # imports only from lower layers
HEAVY = ("jax", "pyarrow", "pyspark", "starlette", "uvicorn", "click", "pandas")


def imports_of(path):
    """List the modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_from_its_package_and_lower_layers(path):
    package = path.relative_to(ROOT).parts[0]
    for name in imports_of(path):
        parts = name.split(".")
        if parts[0] == "wolf_fleet" and len(parts) > 1 and parts[1] != package:
            assert LAYERS[parts[1]] < LAYERS[package], f"{package} imports {name}, which is not in a lower layer"
        assert parts[:2] != ["wolf", "cli"] or package == "cli", f"{package} imports {name}; only cli may"


def test_the_core_does_not_import_the_fleet():
    for path in CORE.rglob("*.py"):
        assert not [name for name in imports_of(path) if name.split(".")[0] == "wolf_fleet"], path


def test_import_wolf_fleet_loads_nothing_heavy():
    code = f"import sys, wolf_fleet; print([name for name in {HEAVY!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_stream_needs_no_web_server():
    code = "import sys, wolf_fleet; wolf_fleet.stream; print('starlette' in sys.modules, 'pyspark' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False False"


def test_public_names_are_importable():
    for name in wolf_fleet.__all__:
        assert getattr(wolf_fleet, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        wolf_fleet.nothing
