"""Files that outlive a crash: numbers and text in `.npz`, never code, written whole or not at all."""

import io
import json
import os
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import jax
import numpy as np

from wolf.numerics.pytree import plain_functions
from wolf.statespace import Model


def fingerprint(model: Model) -> str:
    """Hash the numbers and shapes of a model, and the names of its functions."""
    leaves = jax.tree.leaves(model)
    names = [getattr(fn, "__qualname__", type(fn).__qualname__) for fn in plain_functions(model)]
    digest = sha256(" ".join([type(model).__name__, *names]).encode())
    for leaf in leaves:
        array = np.ascontiguousarray(leaf, np.float64)
        digest.update(str(array.shape).encode() + array.tobytes())
    return digest.hexdigest()


def write(path: Path, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write numbers and a header of JSON values to an `.npz` file, whole or not at all."""
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(header, default=repr).encode(), np.uint8)
    np.savez(buffer, header=text, **arrays)
    write_atomically(path, buffer.getvalue())


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the target, flush to disk, then rename: a reader sees the old file or the new one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    if hasattr(os, "O_DIRECTORY"):
        directory = os.open(path.parent, os.O_DIRECTORY)
        os.fsync(directory)
        os.close(directory)


def read(path: Path, kind: str, version: int, fields: tuple[str, ...]) -> tuple[dict, dict[str, np.ndarray]]:
    """Read what `write` wrote, or say what the file is instead."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = dict(json.loads(arrays.pop("header").tobytes()))
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"{path} is not a saved wolf filter, or it is damaged ({error})") from error
    if header.get("format") != kind or header.get("version") != version:
        raise ValueError(
            f"{path} has format {header.get('format')} {header.get('version')}; this wolf reads {kind} {version}"
        )
    absent = [field for field in fields if field not in header]
    if absent:
        raise ValueError(f"{path} is damaged: its header lacks {', '.join(absent)}")
    return header, arrays
