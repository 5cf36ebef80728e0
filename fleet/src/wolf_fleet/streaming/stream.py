"""`wolf_fleet.stream`: source, bank and output, committed together."""

import time as clocks
from collections.abc import Callable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from wolf import validation
from wolf.online.bank.bank import Bank
from wolf_fleet.streaming.brokers import is_address, open_broker
from wolf_fleet.streaming.brokers.base import Messages
from wolf_fleet.streaming.checkpoint import Commits
from wolf_fleet.streaming.pipeline import Flow, Passed, Streamed, name_columns
from wolf_fleet.streaming.row_parser import Parser
from wolf_fleet.streaming.sources import Source

BATCH = 100_000  # rows of an epoch: a commit of 10⁵ states then costs less than the rows
EVERY = 5.0  # seconds after which rows are committed, if fewer have come
KINDS = ("parquet", "csv")


def stream(
    source: str | PathLike[str],
    bank: Bank,
    out: str | PathLike[str],
    *,
    state: str | PathLike[str],
    key: str,
    values: str | Sequence[str],
    time: str | None = None,
    lateness: float = 0.0,
    step: float = 1.0,
    forget: float | None = None,
    batch: int = BATCH,
    every: float = EVERY,
    follow: bool = False,
    level: float = 0.95,
    kind: str = "parquet",
    told: Callable[[Streamed], None] | None = None,
) -> Streamed:
    """Filter rows as they come, exactly once: whatever happens to the process, call it again and it goes on.

    Output and states are those of a run that nothing disturbed, bit for bit, for a source that can be read again: a
    file, a stream of NATS or Redis, a topic of Kafka. Of standard input and MQTT, what was not committed is lost with
    the process; where the sender repeats it and rows have times, what was used before is recognised.

    Args:
        source: file of CSV with a header, or of JSON lines; "-" is standard input. Or the address of a broker, whose
            messages are JSON objects: `nats://localhost:4222/STREAM`, `redis://localhost:6379/STREAM`,
            `kafka://localhost:9092/TOPIC`, `mqtt://localhost:1883/TOPIC`.
        bank: with the model and the method; its states are replaced by those of an earlier start.
        out: folder for the output, in files `part-00000001.parquet` and so on: key, time, values, then mean and
            interval of the signal, weight and outlier. Rows of a key are in the order of time.
        state: folder for the states and the place in the source. Its `manifest.json` tells what is done.
        key: name of the column that says whose a row is.
        values: name of the column that is filtered, or names.
        time: name of the column of times: numbers, or dates, which count as seconds. Rows are taken as they come
            without it.
        lateness: how much older than the newest row one may be and still be put in order, in the unit of the times.
        step: length of a step of the model, in that unit.
        forget: a key that was silent for longer than this, in that unit, starts anew, and takes no room meanwhile.
        batch: number of rows after which there is a commit.
        every: seconds after which there is a commit if some rows have come.
        follow: wait for more at the end of a file, for ever. Without it rows that wait are let go at the end.
        level: probability of the intervals.
        kind: "parquet" or "csv".
        told: called after each commit.
    """
    columns = name_columns(key, values, time)
    validation.choice("kind", kind, KINDS)
    validation.count("batch", batch)
    validation.positive_number("every", every)
    flow = Flow(bank, columns, lateness, step, level, forget)
    settings = {"key": key, "values": list(columns.values), "time": time, "lateness": lateness, "step": step}
    commits = Commits(Path(state), Path(out), kind, settings | {"level": level, "forget": forget})
    try:
        return _Running(fspath(source), flow, commits, follow, told).run(batch, every)
    finally:
        commits.close()


class _Running:
    """A stream under way."""

    def __init__(self, path: str, flow: Flow, commits: Commits, follow: bool, told: Callable[[Streamed], None] | None):
        self.flow, self.commits, self.told = flow, commits, told
        done = commits.manifest
        flow.resume(commits.restore(flow.bank, len(flow.columns.values)), done)
        place = 0 if path == "-" else done.get("place", 0)
        self.source: Source | Messages = (
            open_broker(path, place, follow) if is_address(path) else Source(path, place, follow)
        )
        if done.get("head", "") not in ("", self.source.head(done.get("place", 0))) and path != "-":
            raise ValueError(f"{path} does not begin as the file that was read before: it was replaced. {ANEW}")

    def run(self, batch: int, every: float) -> Streamed:
        try:
            head = self.source.first_line()
            if not head and not self.source.follow:
                raise ValueError(f"{self.source.name} is empty: expected a header, or JSON lines")
            self.parser = Parser(head, self.flow.columns, self.source.name)
            self.parser.dated = self.flow.dated
            if self.parser.skips_head and self.source.place == 0:
                self.source.take(1, every)
            while not self.source.over:
                self._epoch(batch, every)
        finally:
            self.source.close()
        return self._counted()

    def _epoch(self, batch: int, every: float) -> None:
        """Read until there are enough rows, or time is up, and commit."""
        begun, lines = clocks.monotonic(), 0
        passed: list[Passed | None] = []
        while lines < batch:
            left = every - (clocks.monotonic() - begun)
            some = self.source.take(batch - lines, max(left, 0.0))
            lines += len(some)
            if some:
                passed.append(self._take(some))
            if self.source.over or left <= 0:
                break
        if self.source.over and len(self.flow.reorder.pending.keys):
            passed.append(self.flow.flush())
        if lines or passed:
            self._commit([self.flow.table(each) for each in passed if each is not None])

    def _take(self, lines: list[str]) -> Passed | None:
        rows, unreadable = self.parser.parse(lines)
        self.flow.count.unreadable += unreadable
        self.flow.count.example, self.flow.dated = self.parser.example, self.parser.dated
        return self.flow.take(rows)

    def _commit(self, tables: list[Any]) -> None:
        import pyarrow

        place = self.source.place
        self.flow.tidy()
        facts = {"place": place, "head": self.source.head(place)} | self.flow.facts
        table = pyarrow.concat_tables(tables) if tables else None
        self.commits.commit(self.flow.bank, self.flow.reorder.pending, table, facts)
        if self.told is not None:
            self.told(self._counted())

    def _counted(self) -> Streamed:
        return self.flow.counted(self.commits.manifest["epoch"])


ANEW = "Give the file as it was, or begin anew with another state folder"
