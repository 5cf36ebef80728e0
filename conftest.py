"""Settings of every test run, made before JAX is imported: fast compilation instead of fast programs.

Nearly all the time of the tests is compilation of programs that run once. Without the optimiser a program compiles in a
seventh of the time, and differs in its last bits. Tests of bits are therefore run with the default compiler by `make
check` (tests/properties/test_default_compiler.py). A run with XLA_FLAGS set, even to nothing, uses it for all tests:
`make check-all` does so.
"""

import os
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# An unknown flag ends the process; the first is known from JAX 0.4.38 to 0.12.
flags = ["backend_optimization_level=0"]
if version("jaxlib").startswith("0.10."):  # with which these were tested
    flags += ["cpu_use_fusion_emitters=false", "cpu_parallel_codegen_split_count=1"]
os.environ.setdefault("XLA_FLAGS", " ".join(f"--xla_{flag}" for flag in flags))

os.environ.setdefault("WOLF_CACHE", "off")  # so that tests do not use programs of other revisions

if os.environ.get("XLA_FLAGS"):
    from wolf.native.execute import llvm_jit

    llvm_jit.OPTIMIZATION_LEVEL = 0  # native code as it stands: the same bits, a tenth of the time to compile

ROOT = Path(__file__).parent
BITS_TEST = "test_tests_of_bits_pass_with_the_default_compiler"
QUICKSTART = ROOT / "docs" / "quickstart.md"  # it compares bits of two ways to run

lenient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("wolf", derandomize=True, max_examples=15, **lenient)
settings.load_profile("wolf")
MAPS = Path("/proc/self/maps")
MAX_MAPS = 25_000  # the compiler crashes at the limit of a process, 65,530, and every program needs some


@pytest.fixture(autouse=True, scope="module")
def drop_programs():
    """Clear compiled programs between two files if there are very many."""
    yield
    if MAPS.exists() and MAPS.read_text().count("\n") > MAX_MAPS:
        import jax

        jax.clear_caches()


def pytest_collect_file(file_path):
    """Import a module of the package by its name: pytest alone would import a second copy, with other classes."""
    if file_path.suffix == ".py" and file_path.stem != "__main__" and file_path.is_relative_to(ROOT / "src"):
        parts = file_path.relative_to(ROOT / "src").with_suffix("").parts
        import_module(".".join(parts).removesuffix(".__init__"))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    """Mark the paper and all pages but the quickstart as thorough; deselect tests of bits that another run makes."""
    for item in items:
        place = item.path.relative_to(ROOT).parts[0]
        if place == "paper" or (place == "docs" and item.path != QUICKSTART):
            item.add_marker(pytest.mark.thorough)
        if item.path == QUICKSTART and os.environ.get("XLA_FLAGS"):
            item.add_marker(
                pytest.mark.skip(reason="run by tests/properties/test_default_compiler.py; or set XLA_FLAGS to nothing")
            )
    result = yield  # -m deselects here
    if os.environ.get("XLA_FLAGS") and any(vars(item).get("originalname") == BITS_TEST for item in items):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("bits")])
        items[:] = [item for item in items if not item.get_closest_marker("bits")]
    return result
