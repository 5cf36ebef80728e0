"""Folders and files by path or URI: local disks, and every file system that `pyarrow.fs` opens."""

import dataclasses
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from wolf import validation
from wolf.runtime import checkpoints

if TYPE_CHECKING:
    from pyarrow import fs

SPARK_SCHEMES = {"s3a": "s3", "s3n": "s3"}  # schemes of Spark that Arrow knows by another name


@dataclasses.dataclass(frozen=True)
class Location:
    """A folder or a file; can be sent to other processes.

    Attributes:
        given: as named by the caller, for messages, without credentials of a URI.
        path: absolute, or within `system`.
        system: a `pyarrow.fs.FileSystem`; None for local disks.
    """

    given: str
    path: str
    system: "fs.FileSystem | None" = None

    def __str__(self) -> str:
        """Return the name given by the caller."""
        return self.given

    def __truediv__(self, name: str) -> "Location":
        """Return the location of a file or folder within this folder."""
        return Location(f"{self.given.rstrip('/')}/{name}", f"{self.path.rstrip('/')}/{name}", self.system)

    @cached_property
    def files(self) -> "fs.FileSystem":
        """The file system that contains the location."""
        from pyarrow import fs

        return self.system or fs.LocalFileSystem()

    def is_folder(self) -> bool:
        """Check whether the location is an existing folder."""
        return bool(self.files.get_file_info(self.path).type.name == "Directory")

    def exists(self) -> bool:
        """Check whether the location exists."""
        return bool(self.files.get_file_info(self.path).type.name != "NotFound")

    def list(self, deep: bool = False) -> list[tuple[str, int, int]]:
        """List the files of a folder: relative name, size in bytes and modification time in nanoseconds."""
        from pyarrow import fs

        found = self.files.get_file_info(fs.FileSelector(self.path, recursive=deep, allow_not_found=True))
        start = len(self.path.rstrip("/")) + 1
        return sorted((info.path[start:], info.size, info.mtime_ns) for info in found if info.is_file)

    def make(self) -> None:
        """Create a folder and its parents."""
        if self.system is None:
            checkpoints.make_folder(Path(self.path))
        else:
            self.system.create_dir(self.path, recursive=True)

    def read(self) -> bytes:
        """Read a file."""
        with self.files.open_input_stream(self.path) as file:
            return bytes(file.read())

    def remove(self) -> None:
        """Delete a file."""
        self.files.delete_file(self.path)

    @contextmanager
    def writing(self) -> Iterator[BinaryIO]:
        """Open a file for writing; it replaces an older one only after all of it was written without an error.

        Only local disks can rename cheaply. Elsewhere the content is held in memory and sent at once.
        """
        if self.system is None:
            with checkpoints.atomic(Path(self.path)) as file:
                yield file
            return
        held = io.BytesIO()
        yield held
        with self.system.open_output_stream(self.path) as sent:
            sent.write(held.getbuffer())


def locate(place: str | os.PathLike[str]) -> Location:
    """Resolve a path or URI such as `s3://bucket/readings`; it need not exist.

    Example:
        >>> print(locate("readings") / "part-00000.parquet", locate("s3://me:secret@bucket/readings?region=eu-west-1"))
        readings/part-00000.parquet s3://bucket/readings
    """
    if not isinstance(place, str | os.PathLike):
        raise ValueError(f"a folder must be a path or a URI; got {validation.short_repr(place)}")
    given = os.fspath(place)
    scheme, separator, rest = given.partition("://")
    if not separator:
        return Location(given, os.path.abspath(given).replace(os.sep, "/"))
    from pyarrow import ArrowException, fs

    shown = f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"  # without credentials and options
    try:
        system, path = fs.FileSystem.from_uri(f"{SPARK_SCHEMES.get(scheme, scheme)}://{rest}")
    except (ArrowException, OSError) as error:
        raise ValueError(f"{shown} cannot be opened: {error}") from error
    if isinstance(system, fs.LocalFileSystem):
        return Location(path, path)
    return Location(shown, path, system)
