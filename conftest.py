"""Settings of every test run, set before JAX is imported: a compiler that is quick rather than good.

Nearly all the time of the tests is compilation, of programs that run once. Without the optimiser a program takes a
seventh of the time to compile, and differs in its last bits. What holds bit for bit is therefore asked of the usual
compiler by `make check` (tests/properties/test_default_compiler.py), which is used throughout where XLA_FLAGS is set,
if only to nothing: `make check-all` does so.
"""

import os
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A flag that the compiler does not know ends the process; the first is known from JAX 0.4.38 to 0.12.
quick = ["backend_optimization_level=0"]
if version("jaxlib").startswith("0.10."):  # which these were tried with
    quick += ["cpu_use_fusion_emitters=false", "cpu_parallel_codegen_split_count=1"]
os.environ.setdefault("XLA_FLAGS", " ".join(f"--xla_{flag}" for flag in quick))

os.environ.setdefault("WOLF_CACHE", "off")  # what is tested is compiled here and now

if os.environ.get("XLA_FLAGS"):
    from wolf.native.execute import llvm_jit

    llvm_jit.OPTIMIZATION_LEVEL = 0  # native code as it stands: the same bits, a tenth of the time to compile

ROOT = Path(__file__).parent
ASKS_FOR_BITS = "test_what_agrees_bit_for_bit_does_so_with_the_usual_compiler"
QUICKSTART = ROOT / "docs" / "quickstart.md"  # it shows that two ways to run have the same bits

patience = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("wolf", derandomize=True, max_examples=15, **patience)
settings.load_profile("wolf")
MAPS = Path("/proc/self/maps")
MOST_MAPS = 25_000  # a process may have 65,530; the compiler dies at the limit, and every program takes some


@pytest.fixture(autouse=True, scope="module")
def drop_programs():
    """Forget compiled programs when there are very many, between two files."""
    yield
    if MAPS.exists() and MAPS.read_text().count("\n") > MOST_MAPS:
        import jax

        jax.clear_caches()


def pytest_collect_file(file_path):
    """Import a module of the package as everybody does: pytest alone would make a second one, with other classes."""
    if file_path.suffix == ".py" and file_path.stem != "__main__" and file_path.is_relative_to(ROOT / "src"):
        parts = file_path.relative_to(ROOT / "src").with_suffix("").parts
        import_module(".".join(parts).removesuffix(".__init__"))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    """Leave the paper and all pages but the first to `make check`, and bits to the usual compiler if it is asked."""
    for item in items:
        place = item.path.relative_to(ROOT).parts[0]
        if place == "paper" or (place == "docs" and item.path != QUICKSTART):
            item.add_marker(pytest.mark.thorough)
        if item.path == QUICKSTART and os.environ.get("XLA_FLAGS"):
            item.add_marker(
                pytest.mark.skip(reason="run by tests/properties/test_default_compiler.py; or set XLA_FLAGS to nothing")
            )
    result = yield  # in which those that -m leaves out go
    if os.environ.get("XLA_FLAGS") and any(item.name == ASKS_FOR_BITS for item in items):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("bits")])
        items[:] = [item for item in items if not item.get_closest_marker("bits")]
    return result
