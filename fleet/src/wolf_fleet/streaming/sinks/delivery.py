"""Delivery of committed output parts to a sink: the parts are the queue, so nothing is lost while a sink is away."""

import hashlib
import json
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

from wolf.runtime import checkpoints
from wolf_fleet.streaming.row_parser import JsonObject
from wolf_fleet.streaming.sinks import open_sink
from wolf_fleet.streaming.sinks.base import START, Position, Sink, split

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0  # after a failed delivery
POLL_SECONDS = 0.2  # between two looks for new parts

Parts = Callable[[], list[tuple[int, Path]]]  # numbers and files of the committed parts, in order


class PartDelivery:
    """Delivery of the output of a state folder to one sink.

    Args:
        address: of the sink.
        state: folder of the state, where the position is kept if the sink does not keep it.
        writer: identity of the state folder.
        key: name of the column of keys.
        parts: returns the committed parts.

    Attributes:
        done: number of the last part that was delivered completely, in this process.
    """

    def __init__(self, address: str, state: Path, writer: str, key: str, parts: Parts):
        self.address, self.writer, self.key, self._parts = address, writer, key, parts
        self._path = state / f"sink-{hashlib.sha256(address.encode()).hexdigest()[:12]}.json"
        self._sink: Sink | None = None
        self._begun, self.done = START, 0

    def deliver(self) -> None:
        """Write all committed rows that the sink does not have; raise an `OSError` if it does not take them."""
        try:
            sink = self._open()
            for number, path in self._parts():
                if number > self.done:
                    self._write(sink, number, path)
        except BaseException:
            self.close()  # its position is read again after the next connection
            raise

    def _open(self) -> Sink:
        if self._sink is None:
            self._sink = open_sink(self.address, self.writer)
            found = self._sink.position() if self._sink.keeps_position else self._read()
            self._begun = found or START
            self.done = max(self._begun.part - 1, 0)
        return self._sink

    def _write(self, sink: Sink, number: int, path: Path) -> None:
        begun = self._begun if self._begun.part == number else Position(number, 0)
        for some, after in split(read_rows(path, self.key), begun):
            sink.write(some, self.key, after)
            if not sink.keeps_position:
                self._keep(after)
        self.done = number

    def _keep(self, position: Position) -> None:
        text = position.text
        with checkpoints.atomic(self._path) as file:
            file.write(json.dumps({"position": text, "checksum": _checksum(text)}).encode())

    def _read(self) -> Position:
        """Read the position file; the start if it is missing or damaged: rows then come twice, and none is lost."""
        try:
            facts = json.loads(self._path.read_text(encoding="utf-8"))
            return Position.parse(facts["position"]) if facts["checksum"] == _checksum(facts["position"]) else START
        except (OSError, ValueError, KeyError, TypeError):
            return START

    def close(self) -> None:
        """Disconnect."""
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.close()


class SinkThread:
    """Thread that delivers the parts of a service.

    Args:
        delivery: of one sink.
    """

    def __init__(self, delivery: PartDelivery):
        self.delivery, self.error = delivery, ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wolf-sink", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Deliver what is committed, if the sink takes it, and stop."""
        self._stop.set()
        self._thread.join(2 * LONGEST_PAUSE_SECONDS)

    def _run(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            is_last = self._stop.is_set()
            try:
                self.delivery.deliver()
                self.error, pause, wait = "", FIRST_PAUSE_SECONDS, POLL_SECONDS
            except Exception as error:  # the thread must survive any error
                self.error, wait, pause = str(error), pause, min(2 * pause, LONGEST_PAUSE_SECONDS)
            if is_last:
                self.delivery.close()
                return
            self._stop.wait(wait)


def read_rows(path: Path, key: str) -> list[JsonObject]:
    """Read the rows of an output part; keys are text."""
    if path.suffix == ".csv":
        from pyarrow import csv, string

        table = csv.read_csv(path, convert_options=csv.ConvertOptions(column_types={key: string()}))
        return table.to_pylist()  # type: ignore[no-any-return]
    from pyarrow import parquet

    return parquet.read_table(path).to_pylist()  # type: ignore[no-any-return]


def _checksum(text: str) -> int:
    return zlib.crc32(text.encode())
