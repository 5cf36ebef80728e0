"""The driver: the only caller of filters, in halves or whole steps; unusable measurements."""

import ast
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wolf
from wolf.engine import scan
from wolf.engine.measurements import is_unusable, preprocess

ROOT = Path(wolf.__file__).parent
CALLERS = ("engine", "inference")  # the driver; filters and noise models that wrap others
FEWEST = {"predict": 2, "update": 3}  # arguments; a dict's update and an estimator's predict(X) have fewer


def calls_of_filters(source):
    """List the lines that call a filter's `predict` or `update`, not the driver's."""
    tree = ast.parse(source)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "wolf.engine"]
    driver = {alias.asname or alias.name for node in imports for alias in node.names if alias.name == "scan"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FEWEST:
            own = isinstance(node.func.value, ast.Name) and node.func.value.id in driver
            unpacked = any(isinstance(argument, ast.Starred) for argument in node.args)
            if not own and (unpacked or len(node.args) >= FEWEST[node.func.attr]):
                yield node.lineno


def test_only_the_driver_and_wrappers_call_filters():
    paths = [path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] not in CALLERS]
    found = [f"{path.relative_to(ROOT)}:{line}" for path in paths for line in calls_of_filters(path.read_text())]
    assert not found, f"use wolf.engine.scan (step, run_filter, or predict and update) in {', '.join(found)}"


def test_check_of_callers_finds_a_body_and_passes_the_rest():
    body = "state, info = method.update(now, method.predict(now, state, None, None), preprocess(y), None, None)"
    unpacked = "ahead = plain.predict(*rows)"
    fine = "from wolf.engine import scan\nvalues.update(more)\nmodel.predict(X, return_std=True)\nscan.predict(a, b, c)"
    assert list(calls_of_filters(body)) == [1, 1]
    assert list(calls_of_filters(unpacked)) == [1]
    assert list(calls_of_filters(fine)) == []


@pytest.mark.parametrize("update_first", [False, True])
@pytest.mark.parametrize("name", ["WoLF-IMQ", "EnKF"])
def test_predict_then_update_is_step(x64, name, update_first):
    F = np.stack([np.array([[1.0, 0.1 * t], [0.0, 1.0]]) for t in range(3)])
    model = wolf.LinearModel(F, np.eye(1, 2), 0.1 * np.eye(2), np.eye(1), np.zeros(2), np.eye(2))
    method, key = wolf.methods.make(name), jax.random.key(0)
    whole = halves = scan.init(model, method, key)
    for y in jnp.array([[1.0], [jnp.nan], [jnp.inf]]):
        whole, _ = scan.step(model, method, whole, y, key=key, update_first=update_first)
        ahead = scan.predict(model, method, halves, key=key, update_first=update_first)
        halves, _ = scan.update(model, method, ahead, y, key=key)
    jax.tree.map(np.testing.assert_array_equal, whole, halves)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_is_wild_agrees_for_numpy_jax_and_the_driver(x64, dtype):
    edge = np.finfo(dtype).max ** 0.5
    values = np.array([0.0, -1.0, edge, -edge, np.nextafter(edge, edge * 2), np.inf, -np.inf, np.nan], dtype)
    expected = [False, False, False, False, True, True, True, False]
    assert is_unusable(values).tolist() == is_unusable(jnp.asarray(values)).tolist() == expected
    assert is_unusable(values.astype("float64"), dtype).tolist() == expected
    np.testing.assert_array_equal(preprocess(jnp.asarray(values)).observed, ~(np.array(expected) | np.isnan(values)))
