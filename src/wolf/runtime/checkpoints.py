"""Files that survive a crash: numbers and text in `.npz`, never code, written atomically."""

import io
import json
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from wolf.runtime import files, npz_bytes, signals
from wolf.runtime.hashing import fingerprint

Header = dict[str, Any]  # JSON values

HEADER_FIELDS = ("dtype", "fingerprints", "method", "python")  # what the header of every saved filter has


def write(path: Path, header: Header, arrays: Mapping[str, npt.ArrayLike]) -> None:
    """Write arrays and a header of JSON values to an `.npz` file, atomically."""
    packed = pack(header, arrays)
    with atomic(path) as file:
        file.write(packed)  # in one piece, without a copy


def pack(header: Header, arrays: Mapping[str, npt.ArrayLike]) -> memoryview:
    """Serialize arrays and a header to the bytes of an `.npz` file."""
    text = np.frombuffer(json.dumps(header, default=repr).encode(), np.uint8)
    return npz_bytes.pack({"header": text} | dict(arrays))


def make_header(kind: str, version: int, model: object, method: object, settings: Header) -> Header:
    """Describe a checkpoint: its format, the fingerprints of model and method, and the settings of the filter.

    Args:
        kind: name of the format.
        version: of the format.
        model: that was run; only its fingerprint is written.
        method: likewise.
        settings: JSON values that a filter is made from, such as "dtype".
    """
    import wolf  # for its version only; every other import of this module points down

    return {"format": kind, "version": version, "wolf": wolf.__version__} | settings | identity(model, method)


def identity(model: object, method: object) -> Header:
    """Identify a model and a method by fingerprints, with the code of their functions and with only their names."""
    parts = {"model": model, "method": method}
    prints = {name: {"names": fingerprint(each, code=False), "all": fingerprint(each)} for name, each in parts.items()}
    return {"fingerprints": prints, "python": list(sys.version_info[:2])}


def check_identity(where: str | os.PathLike[str], header: Header, model: object, method: object) -> None:
    """Raise an error for a checkpoint of another model or method.

    Functions are compared by their code. Where the checkpoint was written by another version of Python, which compiles
    the same function to other code, they are compared by their names.

    Args:
        where: the path or the argument that the header was read from.
        header: from `make_header`.
        model: to continue with.
        method: to continue with.
    """
    mine = identity(model, method)
    kind = "all" if header["python"] == mine["python"] else "names"
    for name, prints in mine["fingerprints"].items():
        if prints[kind] != header["fingerprints"][name][kind]:
            raise ValueError(f"{where} was saved with another {name}; load it with the {name} it was saved with")


@contextmanager
def atomic(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside the target, flush it to disk and rename it: readers see the old file or the new one.

    A symbolic link is kept, and the file it points to is replaced. A pipe or a device is written to directly.

    Args:
        path: of the target.
    """
    if is_special(path):
        with open(path, "wb") as file:
            yield file
        return
    path = Path(os.path.realpath(path))
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file in it")
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with beside.open("xb") as file:
            signals.unfinished[str(beside)] = file.fileno()
            yield file
            file.flush()
            files.flush(file.fileno())
        files.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            files.delete(beside)
        raise
    finally:
        signals.unfinished.pop(str(beside), None)
    files.flush_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents if they do not exist; raise if a file has the name."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"{folder} must be a folder, or a new name; a file is in its place") from None


def is_special(path: str | Path) -> bool:
    """Return whether a path is a pipe, a device or a socket, which cannot be replaced or read twice.

    Example:
        >>> is_special("nowhere"), is_special(os.devnull)
        (False, True)
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def read(path: Path, kind: str, version: int, fields: tuple[str, ...]) -> tuple[dict, dict[str, np.ndarray]]:
    """Read a file of `write`; raise an error that says what the file is instead."""
    return _read(path, path.open, kind, version, fields)


def unpack(
    name: str, data: bytes | bytearray | memoryview, kind: str, version: int, fields: tuple[str, ...]
) -> tuple[dict, dict[str, np.ndarray]]:
    """Deserialize the bytes of `pack`; raise an error that says what they are instead."""
    return _read(name, lambda _: io.BytesIO(data), kind, version, fields)


def _read(
    path: str | Path, opener: Callable[[str], Any], kind: str, version: int, fields: tuple[str, ...]
) -> tuple[dict, dict[str, np.ndarray]]:
    try:
        with opener("rb") as opened:
            arrays = npz_bytes.read(opened)
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
