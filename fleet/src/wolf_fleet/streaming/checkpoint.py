"""Atomic checkpoints: output part, filter states and source position, bound together by one manifest.

A commit writes its output part under a hidden name, then the states and the pending rows, each flushed to disk, and
then replaces the manifest. Anything that the manifest does not name was not committed, and the next start deletes it.
Every file has a checksum, and a start verifies all of them: a file that is missing, shortened or changed is an error,
unless the start is asked to recover what is intact.
"""

import json
import os
import secrets
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from wolf.online.bank import key_index, serialization
from wolf.online.bank.bank import Bank
from wolf.runtime import checkpoints, files
from wolf_fleet.streaming.part_index import PartIndex, measure
from wolf_fleet.streaming.row_parser import JsonObject, RowBatch, empty_batch

if TYPE_CHECKING:
    import pyarrow as pa

STREAM_FORMAT, SERVICE_FORMAT, VERSION = "wolf-stream", "wolf-service", 3
MANIFEST, INDEX, LOCK = "manifest.json", "parts.index", "lock"


class DamagedState(ValueError):  # noqa: N818
    """Files of a state folder are missing or damaged, and acknowledged rows may be lost."""


class CheckpointStore:
    """Checkpoints of a stream or a service, and its output parts.

    Args:
        state: folder of the checkpoints, created if missing.
        out: folder of the output parts, likewise.
        format: format of the parts, "parquet" or "csv".
        settings: of the stream; an earlier run with this state must have had the same.
        owner: format name in the manifest, so that a service does not resume the state of a stream or vice versa.
        recover: continue with what is intact, and list the rest in `losses`, instead of raising `DamagedState`.
    """

    def __init__(
        self,
        state: Path,
        out: Path,
        format: str,
        settings: JsonObject,
        owner: str = STREAM_FORMAT,
        recover: bool = False,
    ):
        self.state, self.out, self.format, self.owner, self.recover = state, out, format, owner, recover
        self.losses: list[str] = []
        self.settings = settings | {"format": format, "out": str(out.resolve())}
        for folder in (state, out):
            checkpoints.make_folder(folder)
        self._lock = files.hold(state / LOCK, f"another process is running a stream with the state {state}")
        self.index = PartIndex(state / INDEX)
        self.manifest: JsonObject = {"epoch": 0, "parts": 0, "oldest": 1, "lost_parts": [], "settings": self.settings}
        self.manifest["id"] = secrets.token_hex(8)
        try:
            self._load()
            self._complete_commit()
            self._verify_parts()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the lock on the state folder."""
        files.release(self._lock)

    def _check_settings(self) -> None:
        for name, mine in self.settings.items():
            before = self.manifest["settings"].get(name)
            if before != json.loads(json.dumps(mine)):
                raise ValueError(
                    f"{self.state} is the state of a stream with {name} {before!r}, not {mine!r}: use the same "
                    "settings, or start with an empty state folder"
                )

    def damaged(self, words: str) -> None:
        """Raise an error for damage, or list it as a loss if the start is to recover."""
        if not self.recover:
            raise DamagedState(f"{words}: acknowledged rows may be lost. Restore the file, or start with --recover")
        self.losses.append(words)

    def _load(self) -> None:
        """Read the manifest, or write the first one of an empty folder."""
        if (self.state / MANIFEST).exists():
            try:
                self.manifest = read_manifest(self.state, (self.owner,))
            except DamagedState as error:
                self.damaged(str(error))
                self.manifest = self._older_manifest()
        elif any(path.name != LOCK and path.is_file() for path in self.state.iterdir()):
            self.damaged(f"{self.state / MANIFEST} is missing")
            self.manifest = self._older_manifest()
        elif any(self.out.glob("part-*")):
            words = "holds output of another stream; give an empty folder, or the state folder of that stream"
            raise ValueError(f"{self.out} {words}")
        else:
            self._write_manifest(self.manifest | {"format": self.owner, "version": VERSION})
        self._check_settings()

    def _older_manifest(self) -> JsonObject:
        """Return the copy of the manifest in the newest file of pending rows, or the manifest of an empty folder."""
        for path in sorted(self.state.glob("waiting-*.npz"), key=lambda path: path.stat().st_mtime, reverse=True):
            try:
                return dict(checkpoints.read(path, self.owner, VERSION, ())[0]["manifest"])
            except (ValueError, KeyError):
                self.losses.append(f"{path} is damaged")
        return self.manifest

    def _complete_commit(self) -> None:
        """Rename the part of the last commit, if a crash prevented it, and delete files of unfinished commits."""
        done = self._part(self.manifest["parts"])
        staged = _hidden(done)
        if staged.exists():
            files.replace(staged, done)
        for left in self.out.glob(".*part-*"):
            files.delete(left)
        self._delete_old_files()

    def _verify_parts(self) -> None:
        """Compare all output parts with their checksums; damaged ones are put aside when recovering."""
        for number in self._numbers:
            part, stated = self._part(number), self.index.stated(number)
            if stated is None and part.exists():
                self.damaged(f"{self.index.path} is damaged or missing: {part.name} cannot be verified")
                self.index.append(number, part)
            elif not part.exists() or measure(part) != stated:
                self.damaged(f"{part} was changed or shortened" if part.exists() else f"{part} is missing")
                self.manifest["lost_parts"] = [*self.manifest["lost_parts"], number]
                if part.exists():
                    files.replace(part, part.with_name(f"{part.name}.damaged"))

    def _delete_old_files(self) -> None:
        epoch = self.manifest["epoch"]
        kept = {MANIFEST, LOCK, *(f"{name}-{epoch}.npz" for name in ("states", "waiting", "more"))}
        ours = [path for pattern in ("*.npz", ".*.part") for path in self.state.glob(pattern)]
        for path in ours:
            if path.name not in kept:
                files.delete(path)
        dropped = self.manifest["oldest"] - 1
        while dropped > 0 and self._part(dropped).exists():
            files.delete(self._part(dropped))
            dropped -= 1

    @property
    def parts(self) -> list[Path]:
        """Output files that are committed and kept, in order."""
        return [self._part(number) for number in self._numbers]

    @property
    def numbered_parts(self) -> list[tuple[int, Path]]:
        """Output files that are committed and kept, with their numbers."""
        return [(number, self._part(number)) for number in self._numbers]

    @property
    def _numbers(self) -> list[int]:
        every = range(self.manifest["oldest"], self.manifest["parts"] + 1)
        return [number for number in every if number not in self.manifest["lost_parts"]]

    def _part(self, number: int) -> Path:
        return self.out / f"part-{number:08d}.{self.format}"

    def restore(self, bank: Bank, num_values: int) -> RowBatch | None:
        """Load the states of the last epoch into a bank.

        Args:
            bank: whose states are replaced.
            num_values: values per row.

        Returns:
            The rows that were pending, or None if nothing was committed yet.
        """
        epoch = self.manifest["epoch"]
        if not epoch:
            return None
        states = self.state / f"states-{epoch}.npz"
        try:
            bank.read(states)
        except (FileNotFoundError, ValueError) as error:
            if _is_intact(states):
                raise  # states of another model
            self.damaged(f"the states of all keys cannot be read ({error}); they start from the prior")
        arrays = self._read(f"waiting-{epoch}.npz")
        if arrays is None:
            return empty_batch(num_values)
        return RowBatch(
            [str(key) for key in key_index.unpack(arrays)], arrays["times"], arrays["values"].reshape(-1, num_values)
        )

    def _read(self, name: str) -> dict[str, np.ndarray] | None:
        """Read the arrays of a file of the last epoch; None if it is damaged and the start is to recover."""
        try:
            return checkpoints.read(self.state / name, self.owner, VERSION, ())[1]
        except (FileNotFoundError, ValueError) as error:
            self.damaged(str(error))
            return None

    def epoch_on_disk(self) -> int:
        """Read the epoch that the manifest on disk names."""
        path = self.state / MANIFEST
        return int(read_manifest(self.state, (self.owner,))["epoch"]) if path.exists() else 0

    def extra_arrays(self) -> dict[str, np.ndarray]:
        """Read the additional arrays of the last epoch; empty if there are none."""
        return (self._read(f"more-{self.manifest['epoch']}.npz") or {}) if self.manifest.get("extra") else {}

    def commit(
        self,
        bank: Bank,
        pending: RowBatch,
        table: "pa.Table",
        facts: JsonObject,
        extra: dict[str, np.ndarray] | None = None,
        drop: int = 0,
    ) -> None:
        """Commit an epoch, completely or not at all.

        Args:
            bank: with the states after the epoch.
            pending: rows that the reorder buffer still holds.
            table: a pyarrow table of the output; None if there is none.
            facts: source position and counts.
            extra: additional arrays of the epoch.
            drop: number of the oldest output parts to delete.
        """
        epoch = self.manifest["epoch"] + 1
        part = self._part(self.manifest["parts"] + (table is not None))
        number = self.manifest["parts"] + (table is not None)
        if table is not None:
            with checkpoints.atomic(_hidden(part)) as file:
                _write(file, table, self.format)
            self.index.append(number, _hidden(part))
        oldest = self.manifest["oldest"] + drop
        lost = [each for each in self.manifest["lost_parts"] if each >= oldest]
        header = {"format": self.owner, "version": VERSION}
        numbers = {"epoch": epoch, "parts": number, "oldest": oldest, "lost_parts": lost, "extra": extra is not None}
        manifest = header | numbers | {"settings": self.settings, "id": self.manifest["id"]} | facts
        bank.save(self.state / f"states-{epoch}.npz")
        arrays: dict[str, np.ndarray] = {"times": pending.times, "values": pending.values}
        copy = header | {"manifest": manifest}
        checkpoints.write(self.state / f"waiting-{epoch}.npz", copy, arrays | key_index.pack(pending.keys))
        if extra is not None:
            checkpoints.write(self.state / f"more-{epoch}.npz", header, extra)
        self._write_manifest(manifest)
        if table is not None:
            files.replace(_hidden(part), part)
        self._delete_old_files()

    def _write_manifest(self, manifest: JsonObject) -> None:
        with checkpoints.atomic(self.state / MANIFEST) as file:
            file.write(json.dumps(manifest | {"checksum": _checksum(manifest)}, indent=1).encode())
        self.manifest = manifest


def parts(state: str | os.PathLike[str]) -> list[Path]:
    """List the output files of a stream or a service that are committed and kept, in order.

    Args:
        state: folder of its state.
    """
    manifest = read_manifest(Path(state), (STREAM_FORMAT, SERVICE_FORMAT))
    out, suffix = Path(manifest["settings"]["out"]), manifest["settings"]["format"]
    every = range(manifest["oldest"], manifest["parts"] + 1)
    return [out / f"part-{number:08d}.{suffix}" for number in every if number not in manifest["lost_parts"]]


def read_manifest(state: Path, owners: tuple[str, ...]) -> JsonObject:
    """Read the manifest of a state folder; raise a `ValueError` if it is missing, damaged or of another format."""
    path = state / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{state} is not the state folder of a stream: it has no {MANIFEST}") from None
    except (ValueError, RecursionError) as error:
        raise DamagedState(f"{path} is damaged ({error})") from error
    if not isinstance(manifest, dict):
        raise DamagedState(f"{path} is damaged: it holds a {type(manifest).__name__}, not an object")
    found = manifest.get("format"), manifest.get("version")
    if manifest.pop("checksum", None) != _checksum(manifest):
        raise DamagedState(f"{path} is damaged: its checksum does not match its contents")
    if found[0] not in owners or found[1] != VERSION:
        raise ValueError(f"{path} has format {found[0]} {found[1]}; expected {' or '.join(owners)} {VERSION}")
    return manifest


def _checksum(manifest: JsonObject) -> int:
    return zlib.crc32(json.dumps(manifest, sort_keys=True).encode())


def _is_intact(states: Path) -> bool:
    try:
        serialization.read(states)
    except (FileNotFoundError, ValueError):
        return False
    return True


def _hidden(part: Path) -> Path:
    return part.with_name(f".{part.name}")


def _write(file: BinaryIO, table: "pa.Table", format: str) -> None:
    if format == "csv":
        from pyarrow import csv

        csv.write_csv(table, file, csv.WriteOptions(quoting_style="needed"))
    else:
        from pyarrow import parquet

        # Dictionary encoding of text only: searching numbers for repeats would take half of the write time.
        text_columns = [field.name for field in table.schema if str(field.type) == "string"]
        parquet.write_table(table, file, use_dictionary=text_columns)
