"""Fingerprints: short hashes of numbers, configs, and functions by their code.

Numbers are hashed by value, whatever type holds them (4, 4.0 and a NumPy float64 are equal), sequences by their items.
A function is hashed by its name, its code with all constants, its defaults, its closure, and the numbers and functions
of its module that it uses. Objects that cannot be inspected (builtins, extension types) are hashed by name; so is code
of wolf itself, which may be written differently in another version.
"""

import dataclasses
import functools
import inspect
import types
from collections.abc import Iterator
from hashlib import sha256

import jax
import jax.numpy as jnp
import numpy as np

NUMBERS = (int, float, np.ndarray, np.generic, jax.Array)


def fingerprint(value: object, code: bool = True) -> str:
    """Hash a value.

    Args:
        value: numbers, arrays, text, configs, functions, and containers of them.
        code: hash the code of functions; otherwise only their names and the values that they hold.

    Example:
        >>> fingerprint([1, 2]) == fingerprint((1.0, np.float64(2.0)))
        True
        >>> fingerprint(max) == fingerprint(min)
        False
    """
    digest = sha256()
    for part in _parts(value, code, set()):
        digest.update(len(part).to_bytes(8, "little"))  # length first: "ab", "c" differs from "a", "bc"
        digest.update(part)
    return digest.hexdigest()


def _parts(value: object, code: bool, seen: set[int]) -> Iterator[bytes | memoryview]:
    value = bool(value) if isinstance(value, np.bool_) else value
    if value is None or isinstance(value, str | bytes | bool | complex):
        yield f"{type(value).__name__} {value!r}".encode()
    elif isinstance(value, NUMBERS):
        yield from _number_parts(value)
    elif isinstance(value, dict):
        yield b"dict"
        for key in sorted(value, key=repr):
            yield repr(key).encode()
            yield from _parts(value[key], code, seen)
    elif isinstance(value, set | frozenset):
        yield repr(sorted(map(repr, value))).encode()
    elif isinstance(value, tuple | list):
        yield f"sequence {len(value)}".encode()
        for item in value:
            yield from _parts(item, code, seen)
    elif id(value) not in seen:  # functions may be recursive, and objects may contain themselves
        yield from _object_parts(value, code, seen | {id(value)})


def _number_parts(value: object) -> Iterator[bytes | memoryview]:
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    array = np.asarray(value)
    if array.dtype.kind in "iuf" and (array.dtype.kind == "f" or np.all(np.abs(array) < 2**53)):
        array = array.astype(np.float64)
    yield f"{array.dtype} {array.shape}".encode()
    if array.dtype.hasobject:
        yield repr(array.tolist()).encode()
    else:
        yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data  # a view without a copy: states are large


def _object_parts(value: object, code: bool, seen: set[int]) -> Iterator[bytes | memoryview]:
    yield _name(value).encode()
    inside: list[object] = []
    if isinstance(value, functools.partial):
        inside = [value.func, value.args, value.keywords]
    elif isinstance(value, types.MethodType):
        inside = [value.__func__, value.__self__]
    elif isinstance(value, types.FunctionType):
        inside = _function_inside(value, code)
    elif isinstance(value, types.CodeType):
        inside = [value.co_code, value.co_consts, value.co_names, value.co_freevars]
    elif hasattr(value, "__wrapped__"):  # jax.jit and similar wrappers
        inside = [value.__wrapped__]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        inside = [
            [field.name, getattr(value, field.name)]
            for field in dataclasses.fields(value)
            if field.metadata.get("kind") != "label"  # names of states do not change results
        ]
    elif not isinstance(value, type | types.ModuleType | types.BuiltinFunctionType):
        inside = (
            [jax.tree.leaves(value)] if not jax.tree_util.all_leaves([value]) else [getattr(value, "__dict__", None)]
        )
    called = inspect.getattr_static(type(value), "__call__", None)
    # The behaviour of a callable object is defined by its class.
    if isinstance(called, types.FunctionType) and not _is_wolf_code(called):
        inside.append(called)
    for part in inside:
        yield from _parts(part, code, seen)


def _function_inside(fn: types.FunctionType, code: bool) -> list[object]:
    cells = []
    for cell in fn.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            cells.append(None)
    used = {name: fn.__globals__[name] for name in sorted(_global_names(fn.__code__)) if name in fn.__globals__}
    own = {name: value for name, value in used.items() if isinstance(value, NUMBERS) or _is_same_module(value, fn)}
    return [fn.__code__ if code and not _is_wolf_code(fn) else None, fn.__defaults__, fn.__kwdefaults__, cells, own]


def _is_same_module(value: object, fn: types.FunctionType) -> bool:
    return isinstance(value, types.FunctionType) and value.__module__ == fn.__module__


def _is_wolf_code(fn: types.FunctionType) -> bool:
    return fn.__module__.startswith("wolf.")


def _global_names(code: types.CodeType) -> set[str]:
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return set(code.co_names).union(*map(_global_names, inner))


def _name(value: object) -> str:
    usual = value.__name__ if isinstance(value, types.ModuleType) else type(value).__qualname__
    return f"{type(value).__name__} {getattr(value, '__qualname__', usual)}"  # functions and classes have one
