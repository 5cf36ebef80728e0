"""What is done and never undone: output, states and place in the source, named together by one manifest.

An epoch writes its part of the output under a hidden name, the states and the rows that wait, each flushed to disk, and
then replaces the manifest. What the manifest does not name never happened; the next start wipes it away.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from wolf.online.bank import key_index
from wolf.online.bank.bank import Bank
from wolf.runtime import checkpoints
from wolf_fleet.streaming.row_parser import Arrived

FORMAT, SERVICE, VERSION = "wolf-stream", "wolf-service", 1
MANIFEST = "manifest.json"


class Commits:
    """The folder of a stream's state, and that of its output.

    Args:
        state: folder, made if it is not there.
        out: folder of the parts, likewise.
        kind: "parquet" or "csv".
        settings: of the stream; those of an earlier start must be the same.
        owner: format of the manifest: a service does not go on with what a stream left, nor the other way round.
    """

    def __init__(self, state: Path, out: Path, kind: str, settings: dict[str, Any], owner: str = FORMAT):
        self.state, self.out, self.kind, self.owner = state, out, kind, owner
        self.settings = settings | {"kind": kind, "out": str(out.resolve())}
        for folder in (state, out):
            checkpoints.make_folder(folder)
        self._lock = checkpoints.hold(state / "lock", f"another process is running a stream with the state {state}")
        self.manifest: dict[str, Any] = {"epoch": 0, "parts": 0, "oldest": 1}
        try:
            self._recover()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let another process have the folder."""
        if self._lock is not None:
            os.close(self._lock)

    def _check(self) -> None:
        for name, mine in self.settings.items():
            before = self.manifest["settings"].get(name)
            if before != json.loads(json.dumps(mine)):
                raise ValueError(
                    f"{self.state} is the state of a stream with {name} {before!r}, not {mine!r}: go on with the same "
                    "settings, or begin anew with another state folder"
                )

    def _recover(self) -> None:
        """Finish what the manifest names, and wipe away what it does not."""
        if (self.state / MANIFEST).exists():
            self.manifest = {"oldest": 1} | read_manifest(self.state, (self.owner,))
            self._check()
        elif any(self.out.glob("part-*")):
            words = "holds parts of another stream; give an empty folder, or the state that made them"
            raise ValueError(f"{self.out} {words}")
        done = self._part(self.manifest["parts"])
        staged = _hidden(done)
        if staged.exists():
            os.replace(staged, done)
        for left in self.out.glob(".*part-*"):
            left.unlink(missing_ok=True)
        self._sweep()

    def _sweep(self) -> None:
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
        """Files of the output that are committed and kept, in order."""
        return [self._part(number) for number in range(self.manifest["oldest"], self.manifest["parts"] + 1)]

    def _part(self, number: int) -> Path:
        return self.out / f"part-{number:08d}.{self.kind}"

    def restore(self, bank: Bank, width: int) -> Arrived | None:
        """Put back the states of the last epoch; give the rows that waited, or None at the very beginning."""
        epoch = self.manifest["epoch"]
        if not epoch:
            return None
        bank.read(self.state / f"states-{epoch}.npz")
        _, arrays = checkpoints.read(self.state / f"waiting-{epoch}.npz", self.owner, VERSION, ())
        return Arrived(
            [str(key) for key in key_index.unpack(arrays)], arrays["times"], arrays["values"].reshape(-1, width)
        )

    def epoch_on_disk(self) -> int:
        """Read which epoch the manifest names."""
        path = self.state / MANIFEST
        return int(read_manifest(self.state, (self.owner,))["epoch"]) if path.exists() else 0

    def more(self) -> dict[str, np.ndarray]:
        """Read the other arrays of the last epoch; none if it has none."""
        path = self.state / f"more-{self.manifest['epoch']}.npz"
        return checkpoints.read(path, self.owner, VERSION, ())[1] if path.exists() else {}

    def commit(
        self,
        bank: Bank,
        waiting: Arrived,
        table: Any,
        facts: dict[str, Any],
        more: dict[str, np.ndarray] | None = None,
        drop: int = 0,
    ) -> None:
        """Make an epoch happen, or nothing of it.

        Args:
            bank: with the states after it.
            waiting: rows that were not let go yet.
            table: a pyarrow table of the output; None if there is none.
            facts: place in the source, counts.
            more: other arrays that belong to the epoch.
            drop: number of the oldest parts that are not kept any longer.
        """
        epoch = self.manifest["epoch"] + 1
        part = self._part(self.manifest["parts"] + (table is not None))
        if table is not None:
            with checkpoints.atomic(_hidden(part)) as file:
                _write(file, table, self.kind)
        bank.save(self.state / f"states-{epoch}.npz")
        arrays: dict[str, np.ndarray] = {"times": waiting.times, "values": waiting.values}
        header = {"format": self.owner, "version": VERSION}
        checkpoints.write(self.state / f"waiting-{epoch}.npz", header, arrays | key_index.pack(waiting.keys))
        if more is not None:
            checkpoints.write(self.state / f"more-{epoch}.npz", header, more)
        told = {"epoch": epoch, "parts": self.manifest["parts"] + (table is not None), "settings": self.settings}
        told["oldest"] = self.manifest["oldest"] + drop
        with checkpoints.atomic(self.state / MANIFEST) as file:
            file.write(json.dumps(header | told | facts, indent=1).encode())
        self.manifest = header | told | facts
        if table is not None:
            os.replace(_hidden(part), part)
        self._sweep()


def parts(state: str | os.PathLike[str]) -> list[Path]:
    """List the files of the output of a stream or a service that are committed and kept, in order.

    Args:
        state: folder of its state.
    """
    manifest = {"oldest": 1} | read_manifest(Path(state), (FORMAT, SERVICE))
    out, kind = Path(manifest["settings"]["out"]), manifest["settings"]["kind"]
    return [out / f"part-{number:08d}.{kind}" for number in range(manifest["oldest"], manifest["parts"] + 1)]


def read_manifest(state: Path, owners: tuple[str, ...]) -> dict[str, Any]:
    """Read what a stream has committed, or say what the folder is instead."""
    path = state / MANIFEST
    try:
        manifest = dict(json.loads(path.read_text()))
    except FileNotFoundError:
        raise ValueError(f"{state} is no state of a stream: it has no {MANIFEST}") from None
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error})") from error
    if manifest.get("format") not in owners or manifest.get("version") != VERSION:
        found = f"{manifest.get('format')} {manifest.get('version')}"
        raise ValueError(f"{path} has format {found}; expected {' or '.join(owners)} {VERSION}")
    return manifest


def _hidden(part: Path) -> Path:
    return part.with_name(f".{part.name}")


def _write(file: Any, table: Any, kind: str) -> None:
    if kind == "csv":
        from pyarrow import csv

        csv.write_csv(table, file, csv.WriteOptions(quoting_style="needed"))
    else:
        from pyarrow import parquet

        words = [field.name for field in table.schema if str(field.type) == "string"]
        parquet.write_table(table, file, use_dictionary=words)  # to look for repeated numbers takes half the time
