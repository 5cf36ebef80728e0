"""Imports follow the layers, and `import wolf` imports nothing heavy."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import wolf

ROOT = Path(wolf.__file__).parent
LAYERS = {  # a module imports from its own layer or from earlier ones; see docs/architecture.md
    "foundations": {"validation", "numerics", "runtime"},
    "beliefs and models": {"beliefs", "statespace", "interfaces", "models"},
    "inference": {"inference"},
    "engine": {"engine"},
    "native code": {"native"},
    "execution": {"execution"},
    "results and public functions": {"results", "api", "online"},
    "tools": {"simulate", "fitting", "diagnostics", "cleaning"},
    "front ends": {"plots", "reports", "integrations", "cli"},
}
CALLED_LATE = {  # methods of results that import what computes them when they are called
    ("diagnostics", "plots"),
    ("fitting", "plots"),
    ("results", "plots"),
    ("results", "online"),  # `out.detectable`
}
LEVEL = {module: level for level, modules in enumerate(LAYERS.values()) for module in modules}
HEAVY = (
    "matplotlib",
    "pandas",
    "scipy.stats",
    "scipy.optimize",
    "scipy.special",
    "scipy.linalg",
    "narwhals",
    "optax",
    "sklearn",
    "pyarrow",
    "starlette",
    "bayes_opt",
    "wolf_paper",
    "pyspark",
)


def module_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports_of(path):
    """List wolf's own modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = inside if node.module == "wolf" else [node.module]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("wolf."))


FILES = sorted(path for path in ROOT.rglob("*.py") if path not in (ROOT / "__init__.py", ROOT / "__main__.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_imports_only_from_its_own_layer_and_below(path):
    module = module_of(path)
    assert module in LEVEL, f"add {module} to LAYERS"
    for imported in set(imports_of(path)) - {module}:
        below = LEVEL.get(imported, -1) <= LEVEL[module]
        assert below or (module, imported) in CALLED_LATE, f"{module} imports {imported}, which is in a later layer"


def test_top_level_has_at_most_24_entries_all_in_a_layer():
    entries = {path.name.removesuffix(".py") for path in ROOT.iterdir() if path.suffix == ".py" or path.is_dir()}
    entries -= {"__pycache__"}
    assert len(entries) <= 24
    assert entries - {"__init__", "__main__"} == set(LEVEL)


def test_imports_have_no_cycle():
    graph = {}
    for path in FILES:
        graph.setdefault(module_of(path), set()).update(
            imported
            for imported in set(imports_of(path)) - {module_of(path)}
            if (module_of(path), imported) not in CALLED_LATE
        )
    assert list(TopologicalSorter(graph).static_order())  # raises CycleError


def test_import_wolf_imports_nothing_heavy():
    code = f"import sys, wolf; print([name for name in {HEAVY!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_import_wolf_does_not_change_the_settings_of_jax():
    code = "import jax; before = dict(jax.config.values); import wolf; print(before == dict(jax.config.values))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "True"


def test_public_functions_are_not_hidden_by_modules():
    for name in ("filter", "filter_many", "smooth", "forecast", "Online", "WoLF", "KF", "IMQ", "LinearModel"):
        assert callable(getattr(wolf, name))
    assert callable(wolf.report)
    for name in ("certify", "attack", "explain"):  # brought in when they are asked for
        assert callable(getattr(wolf, name))  # the function, not the package with that name
    assert not any((ROOT / f"{name}.py").exists() for name in ("filter", "smooth", "forecast", "fit", "step"))


def test_explain_imports_no_other_diagnostics_and_no_fitting():
    """`wolf.explain` must not load attacks, certificates or the optimiser."""
    unrelated = ("wolf.diagnostics.attack", "wolf.diagnostics.certificate", "wolf.fitting", "wolf.cleaning")
    for path in sorted((ROOT / "diagnostics" / "faults").glob("*.py")):
        assert not [name for name in unrelated if name in path.read_text()], path.name
    assert not list(imports_of(ROOT / "diagnostics" / "__init__.py"))
