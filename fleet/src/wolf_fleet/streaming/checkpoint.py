"""Atomic checkpoints: output part, filter states and source position, bound together by one manifest.

A commit writes its output part under a hidden name, then the states and the pending rows, each flushed to disk, and
then replaces the manifest. Anything that the manifest does not name was not committed, and the next start deletes it.
"""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from wolf.online.bank import key_index
from wolf.online.bank.bank import Bank
from wolf.runtime import checkpoints
from wolf_fleet.streaming.row_parser import JsonObject, RowBatch

if TYPE_CHECKING:
    import pyarrow as pa

STREAM_FORMAT, SERVICE_FORMAT, VERSION = "wolf-stream", "wolf-service", 2
MANIFEST = "manifest.json"


class CheckpointStore:
    """Checkpoints of a stream or a service, and its output parts.

    Args:
        state: folder of the checkpoints, created if missing.
        out: folder of the output parts, likewise.
        format: format of the parts, "parquet" or "csv".
        settings: of the stream; an earlier run with this state must have had the same.
        owner: format name in the manifest, so that a service does not resume the state of a stream or vice versa.
    """

    def __init__(self, state: Path, out: Path, format: str, settings: JsonObject, owner: str = STREAM_FORMAT):
        self.state, self.out, self.format, self.owner = state, out, format, owner
        self.settings = settings | {"format": format, "out": str(out.resolve())}
        for folder in (state, out):
            checkpoints.make_folder(folder)
        self._lock = checkpoints.hold(state / "lock", f"another process is running a stream with the state {state}")
        self.manifest: JsonObject = {"epoch": 0, "parts": 0, "oldest": 1}
        try:
            self._recover()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the lock on the state folder."""
        if self._lock is not None:
            os.close(self._lock)

    def _check_settings(self) -> None:
        for name, mine in self.settings.items():
            before = self.manifest["settings"].get(name)
            if before != json.loads(json.dumps(mine)):
                raise ValueError(
                    f"{self.state} is the state of a stream with {name} {before!r}, not {mine!r}: use the same "
                    "settings, or start with an empty state folder"
                )

    def _recover(self) -> None:
        """Complete the commit that the manifest names, and delete files that it does not name."""
        if (self.state / MANIFEST).exists():
            self.manifest = {"oldest": 1} | read_manifest(self.state, (self.owner,))
            self._check_settings()
        elif any(self.out.glob("part-*")):
            words = "holds output of another stream; give an empty folder, or the state folder of that stream"
            raise ValueError(f"{self.out} {words}")
        done = self._part(self.manifest["parts"])
        staged = _hidden(done)
        if staged.exists():
            os.replace(staged, done)
        for left in self.out.glob(".*part-*"):
            left.unlink(missing_ok=True)
        self._delete_old_files()

    def _delete_old_files(self) -> None:
        epoch = self.manifest["epoch"]
        kept = {MANIFEST, "lock", *(f"{name}-{epoch}.npz" for name in ("states", "waiting", "more"))}
        ours = [path for pattern in ("*.npz", ".*.part") for path in self.state.glob(pattern)]
        for path in ours:
            if path.name not in kept:
                path.unlink(missing_ok=True)
        dropped = self.manifest["oldest"] - 1
        while dropped > 0 and self._part(dropped).exists():
            self._part(dropped).unlink()
            dropped -= 1

    @property
    def parts(self) -> list[Path]:
        """Output files that are committed and kept, in order."""
        return [self._part(number) for number in range(self.manifest["oldest"], self.manifest["parts"] + 1)]

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
        bank.read(self.state / f"states-{epoch}.npz")
        _, arrays = checkpoints.read(self.state / f"waiting-{epoch}.npz", self.owner, VERSION, ())
        return RowBatch(
            [str(key) for key in key_index.unpack(arrays)], arrays["times"], arrays["values"].reshape(-1, num_values)
        )

    def epoch_on_disk(self) -> int:
        """Read the epoch that the manifest on disk names."""
        path = self.state / MANIFEST
        return int(read_manifest(self.state, (self.owner,))["epoch"]) if path.exists() else 0

    def extra_arrays(self) -> dict[str, np.ndarray]:
        """Read the additional arrays of the last epoch; empty if there are none."""
        path = self.state / f"more-{self.manifest['epoch']}.npz"
        return checkpoints.read(path, self.owner, VERSION, ())[1] if path.exists() else {}

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
        if table is not None:
            with checkpoints.atomic(_hidden(part)) as file:
                _write(file, table, self.format)
        bank.save(self.state / f"states-{epoch}.npz")
        arrays: dict[str, np.ndarray] = {"times": pending.times, "values": pending.values}
        header = {"format": self.owner, "version": VERSION}
        checkpoints.write(self.state / f"waiting-{epoch}.npz", header, arrays | key_index.pack(pending.keys))
        if extra is not None:
            checkpoints.write(self.state / f"more-{epoch}.npz", header, extra)
        numbers = {"epoch": epoch, "parts": self.manifest["parts"] + (table is not None), "settings": self.settings}
        numbers["oldest"] = self.manifest["oldest"] + drop
        with checkpoints.atomic(self.state / MANIFEST) as file:
            file.write(json.dumps(header | numbers | facts, indent=1).encode())
        self.manifest = header | numbers | facts
        if table is not None:
            os.replace(_hidden(part), part)
        self._delete_old_files()


def parts(state: str | os.PathLike[str]) -> list[Path]:
    """List the output files of a stream or a service that are committed and kept, in order.

    Args:
        state: folder of its state.
    """
    manifest: JsonObject = {"oldest": 1} | read_manifest(Path(state), (STREAM_FORMAT, SERVICE_FORMAT))
    out, suffix = Path(manifest["settings"]["out"]), manifest["settings"]["format"]
    return [out / f"part-{number:08d}.{suffix}" for number in range(manifest["oldest"], manifest["parts"] + 1)]


def read_manifest(state: Path, owners: tuple[str, ...]) -> JsonObject:
    """Read the manifest of a state folder; raise a `ValueError` if it is missing, damaged or of another format."""
    path = state / MANIFEST
    try:
        manifest = dict(json.loads(path.read_text()))
    except FileNotFoundError:
        raise ValueError(f"{state} is not the state folder of a stream: it has no {MANIFEST}") from None
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error})") from error
    if manifest.get("format") not in owners or manifest.get("version") != VERSION:
        found = f"{manifest.get('format')} {manifest.get('version')}"
        raise ValueError(f"{path} has format {found}; expected {' or '.join(owners)} {VERSION}")
    return manifest


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
