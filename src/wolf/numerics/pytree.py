"""Frozen configs that are JAX pytrees.

`@pytree` turns a class into a frozen dataclass whose fields are leaves, so that a new value of `c`, `Q` or `R` never
recompiles. A field marked `static()` is part of the structure instead (a name, a flag, a shape). A field marked
`function()` holds a callable: a plain function is structure, a callable pytree keeps its parameters as leaves. A field
marked `label()` describes the others, as names do: it is not part of the pytree.

JAX rebuilds such objects inside every trace. `__post_init__` runs only when a user constructs an object, not for those
rebuilds, and is therefore the place for checks.
"""

import dataclasses
import pickle
from collections.abc import Callable, Iterable
from typing import Any, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

PyTree = Any  # any nesting of arrays

_REGISTRY: dict[str, type] = {}


def static(**kwargs: Any) -> Any:
    """Declare a field that is part of the structure: hashable, compared by value; a new value recompiles."""
    return dataclasses.field(metadata={"kind": "static"}, **kwargs)


def function(**kwargs: Any) -> Any:
    """Declare a field that holds a callable: a plain function or a callable pytree."""
    return dataclasses.field(metadata={"kind": "function"}, **kwargs)


def label(**kwargs: Any) -> Any:
    """Declare a field that describes others, as names do: a new value never recompiles, and copies by JAX reset it."""
    return dataclasses.field(metadata={"kind": "label"}, **kwargs)


@dataclass_transform(frozen_default=True, field_specifiers=(static, function, dataclasses.field))
def pytree(cls: Any) -> Any:
    """Turn a class into a frozen, printable, comparable dataclass that is a pytree.

    Example:
        >>> @pytree
        ... class Gain:
        ...     value: float
        ...     unit: str = static(default="dB")
        >>> jax.tree.map(lambda x: 2 * x, Gain(3.0))
        Gain(value=6.0, unit='dB')
    """
    cls = dataclasses.dataclass(frozen=True, eq=False)(cls)
    fields = dataclasses.fields(cls)
    names = tuple(f.name for f in fields if f.metadata.get("kind") not in ("static", "label"))
    fixed = tuple(f.name for f in fields if f.metadata.get("kind") == "static")
    callables = frozenset(f.name for f in fields if f.metadata.get("kind") == "function")

    def flatten_with_keys(obj: object) -> tuple:
        children, aux = flatten(obj)
        keys = [jax.tree_util.GetAttrKey(name) for name in names]
        return tuple(zip(keys, children, strict=True)), aux

    def flatten(obj: object) -> tuple:
        values = vars(obj)
        children, plain = [], []
        for name in names:
            value = values[name]
            if name in callables and is_plain_function(value):
                plain.append((name, value))
                value = None
            children.append(value)
        return tuple(children), (tuple(values[name] for name in fixed), tuple(plain))

    def unflatten(aux: tuple, children: Iterable[object]) -> object:
        obj = object.__new__(cls)  # not through __init__: traced values cannot be checked
        values = vars(obj)
        values.update(zip(names, children, strict=True))
        values.update(zip(fixed, aux[0], strict=True))
        values.update(aux[1])
        return obj

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    cls.__eq__ = _equal
    cls.__hash__ = _hash
    if callables:
        cls.__getstate__, cls.__setstate__ = _pickled_state, _restore_state
    _REGISTRY[_full_name(cls)] = cls
    return cls


def plain_functions(tree: object) -> list[Callable]:
    """List the plain functions that are part of a config's structure."""
    found: list[Callable] = []
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        for field in dataclasses.fields(tree):
            value = getattr(tree, field.name)
            if field.metadata.get("kind") == "function" and is_plain_function(value):
                found.append(value)
            else:
                found.extend(plain_functions(value))
    return found


def field_values(obj: Any) -> dict[str, Any]:
    """Return the values of the fields of a dataclass by name, without labels."""
    fields = (field for field in dataclasses.fields(obj) if field.metadata.get("kind") != "label")
    return {field.name: getattr(obj, field.name) for field in fields}


def array_module(*values: object) -> Any:
    """Return `jax.numpy` where one of the values is traced, and NumPy otherwise.

    Example:
        >>> array_module(1.0, np.ones(2)).__name__
        'numpy'
    """
    return jnp if any(isinstance(value, jax.core.Tracer) for value in values) else np


def cast(tree: PyTree, dtype: npt.DTypeLike) -> PyTree:
    """Convert every leaf to a NumPy array of one dtype, so that 4, 4.5 and np.float64(5) share a compiled program."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, dtype), tree)


def to_dict(obj: object) -> Any:
    """Describe a config as JSON values. Classes from outside the package are rejected by `from_dict`.

    Example:
        >>> from wolf.inference.weights import IMQ
        >>> to_dict(IMQ(c=4.0))
        {'class': 'wolf.inference.weights.functions.IMQ', 'c': 4.0}
    """
    if dataclasses.is_dataclass(obj) and not isinstance(obj, type):
        described = {name: to_dict(value) for name, value in field_values(obj).items()}
        return {"class": _full_name(type(obj)), **described}
    if isinstance(obj, tuple | list):
        return [to_dict(item) for item in obj]
    if isinstance(obj, np.ndarray | np.generic | jax.Array):
        return np.asarray(obj).tolist() if np.ndim(obj) == 0 else {"array": np.asarray(obj).tolist()}
    if obj is None or isinstance(obj, str | int | float | bool):
        return obj
    return {"class": getattr(obj, "__qualname__", type(obj).__qualname__)}  # by name only; `from_dict` rejects it


def from_dict(described: Any) -> Any:
    """Rebuild a config from the description of `to_dict`; only classes of this package are accepted."""
    if isinstance(described, dict) and "array" in described:
        return np.asarray(described["array"])
    if isinstance(described, dict):
        name = described["class"]
        if not name.startswith("wolf.") or name not in _REGISTRY:
            raise ValueError(f"{name!r} is not part of wolf and was not saved; pass the method yourself, as method=")
        given = {field.name for field in dataclasses.fields(_REGISTRY[name]) if field.init}
        return _REGISTRY[name](**{key: from_dict(value) for key, value in described.items() if key in given})
    if isinstance(described, list):
        return tuple(from_dict(item) for item in described)
    return described


class FunctionByValue:
    """A function that pickle cannot find by its name, such as a lambda; cloudpickle stores its code.

    Args:
        function: of any kind.
    """

    def __init__(self, function: Callable):
        self.function = function

    def __reduce__(self) -> tuple[Callable, tuple[bytes]]:
        """Return the function as cloudpickle stores it; raise a PicklingError where that is not installed."""
        try:
            import cloudpickle
        except ImportError:
            raise pickle.PicklingError(
                f"pickle stores functions by their names, and {self.function!r} has none that it can find. Define the "
                "function at the top level of a module, or install cloudpickle, which stores its code: "
                "pip install cloudpickle"
            ) from None
        return cloudpickle.loads, (cloudpickle.dumps(self.function),)

    def __deepcopy__(self, memo: dict) -> "FunctionByValue":
        """Return the same object: functions are not copied."""
        return self


def _pickled_state(self: Any) -> dict[str, object]:
    """Return the attributes of a config for pickle, with functions that it cannot find by name wrapped."""
    data = {field.name for field in dataclasses.fields(self) if field.metadata.get("kind") != "function"}
    return {name: v if name in data or _can_be_pickled(v) else FunctionByValue(v) for name, v in vars(self).items()}


def _restore_state(self: object, state: dict[str, object]) -> None:
    vars(self).update({k: v.function if isinstance(v, FunctionByValue) else v for k, v in state.items()})


def _can_be_pickled(value: object) -> bool:
    try:
        pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def is_plain_function(value: object) -> bool:
    """Return whether a value is a callable without leaves, which is part of a config's structure."""
    return callable(value) and jax.tree_util.all_leaves([value])


def _equal(self: object, other: object) -> bool:
    if type(self) is not type(other):
        return NotImplemented
    mine, theirs = jax.tree.leaves(self), jax.tree.leaves(other)
    same: bool = jax.tree.structure(self) == jax.tree.structure(other)  # type: ignore[operator]
    return same and all(np.array_equal(a, b, equal_nan=True) for a, b in zip(mine, theirs, strict=True))


def _hash(self: object) -> int:
    """Hash the structure alone: equal configs have equal structures, and leaves may be arrays."""
    return hash(jax.tree.structure(self))
