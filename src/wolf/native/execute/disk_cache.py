"""Machine code that was made before, kept for the next process in the folder of `numerics.compiled`.

A kind of model and method is found again by all that its code depends on: structure, shapes, pattern of zeros, and the
versions of everything that takes part. What holds a person's own functions is not kept: they have no name that tells
one from another.
"""

import dataclasses
import hashlib
import inspect
import os
import pickle
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from wolf.native.frontend.signature import Signature
from wolf.numerics.pytree import plain_functions
from wolf.runtime import compilation_cache


def cache_key(kind: Signature, part: str) -> str | None:
    """Name the file of a part of a kind's code; None if it is not to be kept."""
    known = _name_of(kind)
    return None if known is None else hashlib.sha256(f"{known} {part}".encode()).hexdigest()


def get_or_compile(place: str | None, make: Callable[[], bytes]) -> bytes:
    """Give code that was made before, or make it and keep it."""
    folder = None if place is None else _folder()
    if folder is None:
        return make()
    path = folder / f"{place}.o"
    with suppress(OSError):
        found = path.read_bytes()
        check, code = found[:32], found[32:]
        if hashlib.sha256(code).digest() == check:  # a file that is damaged is as good as none
            return code
    code = make()
    _write(path, hashlib.sha256(code).digest() + code)
    return code


def store_metadata(place: str | None, facts: Any) -> None:
    """Keep what running a step needs to know of it."""
    folder = None if place is None else _folder()
    if folder is not None:
        state = facts.state._replace(structure=_template(facts.state.structure))
        kept = dataclasses.replace(facts, state=state, saved=_template(facts.saved))
        with suppress(pickle.PicklingError, AttributeError, TypeError):
            code = pickle.dumps(kept)
            _write(folder / f"{place}.facts", hashlib.sha256(code).digest() + code)


def load_metadata(place: str | None) -> Any:
    """Give what was kept of a step, or None."""
    folder = None if place is None else _folder()
    if folder is None:
        return None
    with suppress(OSError, pickle.UnpicklingError, AttributeError, ImportError, EOFError):
        found = (folder / f"{place}.facts").read_bytes()
        if hashlib.sha256(found[32:]).digest() == found[:32]:
            facts = pickle.loads(found[32:])  # the folder is the user's alone, and holds code that is run anyway
            state = facts.state._replace(structure=jax.tree.structure(facts.state.structure))
            return dataclasses.replace(facts, state=state, saved=jax.tree.structure(facts.saved))
    return None


def _template(structure: Any) -> Any:
    """Give a pytree of this structure: JAX's own description cannot be written down."""
    return jax.tree.unflatten(structure, range(structure.num_leaves))


@cache
def _folder() -> Path | None:
    found = compilation_cache.folder()
    return None if found is None else Path(found)


@cache
def _versions() -> str:
    import llvmlite

    import wolf.native.execute.llvm_jit as machine

    packages = [f"{each.__name__} {each.__version__}" for each in (jax, llvmlite, np)]
    return " ".join([*packages, machine.processor(), _sources()])


@cache
def _sources() -> str:
    """Tell one state of wolf's own source from another: an edited file must not meet code of the old one."""
    root = str(Path(__file__).parents[2])
    stamps = sorted((path.removeprefix(root), size, time) for path, size, time in _stamps(root))
    return hashlib.sha256(repr(stamps).encode()).hexdigest()


def _stamps(folder: str) -> Iterator[tuple[str, int, int]]:
    """List the Python files below a folder with their sizes and times; every process does, so not by `Path.rglob`."""
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _stamps(entry.path)
        elif entry.name.endswith(".py"):
            found = entry.stat()
            yield entry.path, found.st_size, found.st_mtime_ns


def _name_of(kind: Signature) -> str | None:
    return None if _folder() is None else _describe(kind)


@lru_cache(maxsize=1024)  # by the kind, not by its hash: in JAX's no static field counts, such as a weight's metric
def _describe(kind: Signature) -> str | None:
    """Write down a kind; None where that does not tell it from others."""
    model, method = jax.tree.unflatten(kind.structure, [np.float64(0)] * kind.structure.num_leaves)
    save = _saver_name(kind.save)
    if save is None or plain_functions(model) or plain_functions(method) or _foreign(kind.structure):
        return None
    told = [
        str(kind.structure),
        save,
        repr([getattr(kind, name) for name in ("shapes", "varying", "pattern", "dtype")]),
    ]
    told += [repr((kind.update_first, kind.inputs, kind.general, kind.back)), str(kind.state), _versions()]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def _saver_name(save: Any) -> str | None:
    """Name what is kept of each step; None for what is not wolf's own, or has no name."""
    if isinstance(save, str):
        return save
    if inspect.isfunction(save):
        named = save.__module__.startswith("wolf.") and "<" not in save.__qualname__
        return f"{save.__module__}.{save.__qualname__}" if named else None
    if not type(save).__module__.startswith("wolf."):
        return None
    return repr(save) if dataclasses.is_dataclass(save) else type(save).__qualname__


def _foreign(structure: Any) -> bool:
    """Say whether there is anything in a structure that is not wolf's own, or shows an address."""
    text = str(structure)
    return " at 0x" in text or "<function" in text or "<lambda>" in text


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; a disk that is full is no reason to fail."""
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    with suppress(OSError):
        try:
            beside.write_bytes(content)
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)
