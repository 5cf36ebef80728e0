"""Folders and files, by path or by URI: the disks of this machine, and whatever `pyarrow.fs` opens."""

import dataclasses
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from wolf import validation
from wolf.runtime import checkpoints

SPARKS = {"s3a": "s3", "s3n": "s3"}  # Spark's names of what Arrow calls otherwise


@dataclasses.dataclass(frozen=True)
class Location:
    """A folder or a file, which other processes can be told about.

    Attributes:
        given: as it was named, for words, without rights that a URI may carry.
        path: absolute, or within `system`.
        system: a `pyarrow.fs.FileSystem`; None is the disks of this machine.
    """

    given: str
    path: str
    system: Any = None

    def __str__(self) -> str:
        """Give it as it was named."""
        return self.given

    def __truediv__(self, name: str) -> "Location":
        """Go down into a folder."""
        return Location(f"{self.given.rstrip('/')}/{name}", f"{self.path.rstrip('/')}/{name}", self.system)

    @cached_property
    def files(self) -> Any:
        """The file system that it is in."""
        from pyarrow import fs

        return self.system or fs.LocalFileSystem()

    def is_folder(self) -> bool:
        """Say whether a folder is there."""
        return bool(self.files.get_file_info(self.path).type.name == "Directory")

    def exists(self) -> bool:
        """Say whether anything is there."""
        return bool(self.files.get_file_info(self.path).type.name != "NotFound")

    def list(self, deep: bool = False) -> list[tuple[str, int, int]]:
        """List the files of a folder: name within it, bytes, and when they were changed, in nanoseconds."""
        from pyarrow import fs

        found = self.files.get_file_info(fs.FileSelector(self.path, recursive=deep, allow_not_found=True))
        start = len(self.path.rstrip("/")) + 1
        return sorted((info.path[start:], info.size, info.mtime_ns) for info in found if info.is_file)

    def make(self) -> None:
        """Make a folder, and those above it."""
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
    def writing(self) -> Iterator[Any]:
        """Open a file that takes the place of an older one when all of it is written, as long as nothing fails before.

        Elsewhere than on a disk nothing can be renamed cheaply: what is written is held in memory, and sent at once.
        """
        if self.system is None:
            with checkpoints.atomic(Path(self.path)) as file:
                yield file
            return
        held = io.BytesIO()
        yield held
        with self.system.open_output_stream(self.path) as sent:
            sent.write(held.getbuffer())


def find(place: str | os.PathLike[str]) -> Location:
    """Find a place by its path or URI, as `s3://bucket/readings`; it need not be there yet.

    Example:
        >>> print(find("readings") / "part-00000.parquet", find("s3://me:secret@bucket/readings?region=eu-west-1"))
        readings/part-00000.parquet s3://bucket/readings
    """
    if not isinstance(place, str | os.PathLike):
        raise ValueError(f"a folder is named by its path or URI; got {validation.told(place)}")
    given = os.fspath(place)
    scheme, apart, rest = given.partition("://")
    if not apart:
        return Location(given, os.path.abspath(given).replace(os.sep, "/"))
    from pyarrow import ArrowException, fs

    shown = f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"  # without rights and options
    try:
        system, path = fs.FileSystem.from_uri(f"{SPARKS.get(scheme, scheme)}://{rest}")
    except (ArrowException, OSError) as error:
        raise ValueError(f"{shown} cannot be opened: {error}") from error
    if isinstance(system, fs.LocalFileSystem):
        return Location(path, path)
    return Location(shown, path, system)
