"""The properties of a step as JSON: numbers, names and the structure of pytrees, never code."""

import dataclasses
import importlib
import json
from typing import Any

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from wolf.native.frontend.trace import StepFacts


def encode(facts: StepFacts) -> bytes:
    """Write facts as JSON; raise a TypeError where a structure has nodes of other libraries."""
    state = facts.state._replace(structure=_template(facts.state.structure))
    named = vars(facts) | {"state": state, "saved": _template(facts.saved)}
    return json.dumps({name: _encode(value) for name, value in named.items()}).encode()


def decode(content: bytes) -> StepFacts:
    """Read facts that `encode` wrote; raise an error for anything else."""
    facts = StepFacts(**{name: _decode(value) for name, value in json.loads(content).items()})
    state = facts.state._replace(structure=jax.tree.structure(facts.state.structure))
    return dataclasses.replace(facts, state=state, saved=jax.tree.structure(facts.saved))


def _template(structure: PyTreeDef) -> Any:
    """Return a pytree of this structure, whose leaves are numbers."""
    return jax.tree.unflatten(structure, range(structure.num_leaves))


def _encode(node: Any) -> Any:
    """Encode a tuple as a list, and other containers as an object with their kind."""
    kind = type(node)
    if node is None or kind in (int, str, bool):
        return node
    if isinstance(node, np.dtype):
        return {"dtype": node.str}
    if kind is dict:
        return {"dict": {name: _encode(each) for name, each in node.items()}}
    if kind in (tuple, list):
        items = [_encode(each) for each in node]
        return items if kind is tuple else {"list": items}
    if isinstance(node, tuple) and kind.__module__.startswith("wolf."):  # a NamedTuple
        return {"class": [kind.__module__, kind.__qualname__], "fields": [_encode(each) for each in node]}
    raise TypeError(f"{kind.__qualname__} is not part of wolf")


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(each) for each in value)
    if not isinstance(value, dict):
        return value
    if "dtype" in value:
        return np.dtype(value["dtype"])
    if "dict" in value:
        return {name: _decode(each) for name, each in value["dict"].items()}
    if "list" in value:
        return [_decode(each) for each in value["list"]]
    module, name = value["class"]
    found = getattr(importlib.import_module(module), name) if module.startswith("wolf.") else None
    if not isinstance(found, type) or not issubclass(found, tuple):
        raise TypeError(f"{module}.{name} is not a named tuple of wolf")
    return found(*(_decode(each) for each in value["fields"]))
