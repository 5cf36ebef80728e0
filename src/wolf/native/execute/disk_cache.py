"""Disk cache of machine code, in the folder of `wolf.runtime.cache_folder`.

An entry is identified by everything that the code depends on: structure, shapes, pattern of zeros, and the versions of
all components. Code with a user's own functions is not stored: they have no name that identifies them.
"""

import dataclasses
import hashlib
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from wolf.native.execute import facts_json
from wolf.native.frontend.signature import Signature
from wolf.native.frontend.trace import StepFacts
from wolf.numerics.pytree import plain_functions
from wolf.runtime import cache_folder


def cache_key(signature: Signature, part: str) -> str | None:
    """Return the file name of a part of a signature's code; None if it is not to be stored."""
    known = _description(signature)
    return None if known is None else hashlib.sha256(f"{known} {part}".encode()).hexdigest()


def get_or_compile(key: str | None, make: Callable[[], bytes]) -> bytes:
    """Return stored code, or compile and store it."""
    folder = None if key is None else _folder()
    if folder is None:
        return make()
    path = folder / f"{key}.o"
    code = cache_folder.read_checked(path)
    if code is None:
        code = make()
        cache_folder.write_checked(path, code)
    return code


def store_metadata(key: str | None, facts: StepFacts) -> None:
    """Store the properties of a step that running it needs."""
    folder = None if key is None else _folder()
    if folder is not None:
        with suppress(TypeError):  # a state with parts of another library
            cache_folder.write_checked(folder / f"{key}.facts", facts_json.encode(facts))


def load_metadata(key: str | None) -> StepFacts | None:
    """Return the stored properties of a step, or None."""
    folder = None if key is None else _folder()
    content = None if folder is None else cache_folder.read_checked(folder / f"{key}.facts")
    with suppress(TypeError, ValueError, KeyError, AttributeError, ImportError):
        return None if content is None else facts_json.decode(content)
    return None


@cache
def _folder() -> Path | None:
    found = cache_folder.folder()
    return None if found is None else Path(found)


@cache
def _versions() -> str:
    import llvmlite

    import wolf.native.execute.llvm_jit as machine

    packages = [f"{each.__name__} {each.__version__}" for each in (jax, llvmlite, np)]
    return " ".join([*packages, machine.processor(), _sources()])


@cache
def _sources() -> str:
    """Hash the sizes and times of wolf's source files: edited code must not use code compiled from old sources."""
    root = str(Path(__file__).parents[2])
    stamps = sorted((path.removeprefix(root), size, time) for path, size, time in _stamps(root))
    return hashlib.sha256(repr(stamps).encode()).hexdigest()


def _stamps(folder: str) -> Iterator[tuple[str, int, int]]:
    """List the Python files below a folder with sizes and times; every process does, so not by `Path.rglob`."""
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _stamps(entry.path)
        elif entry.name.endswith(".py"):
            found = entry.stat()
            yield entry.path, found.st_size, found.st_mtime_ns


def _description(signature: Signature) -> str | None:
    return None if _folder() is None else _describe(signature)


# Keyed by equality, not by hash: JAX ignores static fields in hashes, such as a weight's metric.
@lru_cache(maxsize=1024)
def _describe(signature: Signature) -> str | None:
    """Describe a signature by a unique text; None where that is impossible."""
    model, method = jax.tree.unflatten(signature.structure, [np.float64(0)] * signature.structure.num_leaves)
    save = _recorder_name(signature.save)
    if save is None or plain_functions(model) or plain_functions(method) or _is_foreign(signature.structure):
        return None
    parts = [
        str(signature.structure),
        save,
        repr([signature.shapes, signature.varying, signature.pattern, signature.dtype]),
    ]
    parts += [repr((signature.update_first, signature.inputs, signature.general, signature.back))]
    parts += [str(signature.state), _versions()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _recorder_name(save: object) -> str | None:
    """Name a recorder; None for one that is not part of wolf, or has no name."""
    if isinstance(save, str):
        return save
    if inspect.isfunction(save):
        named = save.__module__.startswith("wolf.") and "<" not in save.__qualname__
        return f"{save.__module__}.{save.__qualname__}" if named else None
    if not type(save).__module__.startswith("wolf."):
        return None
    return repr(save) if dataclasses.is_dataclass(save) else type(save).__qualname__


def _is_foreign(structure: PyTreeDef) -> bool:
    """Return whether a structure contains anything that is not part of wolf, or an address."""
    text = str(structure)
    return " at 0x" in text or "<function" in text or "<lambda>" in text
