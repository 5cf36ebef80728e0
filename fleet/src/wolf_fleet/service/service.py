"""The service itself, without HTTP: rows in, kept before they are acknowledged; states, forecasts and troubles out.

Requests since the last commit are in a journal; a commit writes states, waiting rows, watch and answers, and the rows
that passed as a part of the output, named together by one manifest. A start reads what the manifest names, and then
takes the requests of the journal again: rows of a key in the same order have the same bits.
"""

import time as clocks
from collections import deque
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from wolf import validation
from wolf.online.bank.bank import Bank
from wolf.results import count
from wolf.statespace import LinearModel
from wolf_fleet.service import request_parsing
from wolf_fleet.service.idempotency import Answered
from wolf_fleet.service.key_health import KeyWatch
from wolf_fleet.service.output_parts import Parts
from wolf_fleet.service.recent_rows import History, Shown, lay_out
from wolf_fleet.service.write_ahead_log import Journal, Record
from wolf_fleet.streaming.checkpoint import SERVICE, Commits
from wolf_fleet.streaming.pipeline import Flow, Passed, Streamed, name_columns

BATCH = 100_000  # rows after which there is a commit
EVERY = 60.0  # seconds after which there is one, if some have come; until then the journal has them
KEEP = 2_000_000  # rows of the history, about 45 bytes each
KEYS = 1_000_000  # filters at most: who can send rows must not be able to fill the memory
LATEST = 50  # flagged rows that are remembered for the page


class Flagged(NamedTuple):
    """A flagged row: its key, its number in the order of flags, and what it came to, as `Shown` of one."""

    key: str
    number: int
    row: Shown


class Service:
    """A bank that outlives its process.

    Args:
        bank: with the model and the method; the model is linear.
        state: folder for states and journal; made if it is not there.
        key: name of the field that says whose a row is.
        values: name of the field that is filtered, or names.
        time: name of the field of times: numbers, or dates, which count as seconds. Rows are taken as they come
            without it.
        lateness: how much older than the newest row one may be and still be put in order, in the unit of the times.
        step: length of a step of the model, in that unit.
        forget: a key that was silent for longer than this, in that unit, starts anew, and takes no room meanwhile.
        level: probability of the intervals.
        out: folder for all rows with what they came to, as `wolf_fleet.stream` writes them. By default only those that
        the
            history needs are kept, in the state's folder.
        batch: number of rows after which there is a commit.
        every: seconds after which there is a commit if some rows have come.
        keep: rows of the history, of all keys together.
        most_keys: filters at most.

    Example:
        >>> import tempfile, wolf
        >>> bank = wolf.Bank(wolf.models.local_level(level_var=0.1, obs_var=1.0))
        >>> with Service(bank, tempfile.mkdtemp(), key="sensor", values="celsius") as service:
        ...     service.post("json", b'{"sensor": "hall", "celsius": 20.5}')["used"]
        1
    """

    def __init__(
        self,
        bank: Bank,
        state: str | PathLike[str],
        *,
        key: str,
        values: str | Sequence[str],
        time: str | None = None,
        lateness: float = 0.0,
        step: float = 1.0,
        forget: float | None = None,
        level: float = 0.95,
        out: str | PathLike[str] | None = None,
        batch: int = BATCH,
        every: float = EVERY,
        keep: int = KEEP,
        most_keys: int = KEYS,
    ):
        for name, number in (("batch", batch), ("keep", keep), ("most_keys", most_keys)):
            validation.count(name, number)
        validation.positive_number("every", every)
        validation.path("state", state)
        self.columns = name_columns(key, values, time)
        self.flow, self.level = Flow(bank, self.columns, lateness, step, level, forget), level
        if not isinstance(bank.model, LinearModel):
            raise ValueError(
                "a service is for linear models: it shows what a perfect sensor would say, with an interval"
            )
        self.batch, self.every, self.keep, self.most_keys = batch, every, keep, most_keys
        self.lock, self.since, self.version = RLock(), clocks.time(), 0
        self.history, self.watch = History(keep, len(self.columns.values)), KeyWatch(len(self.columns.values))
        self.answered, self.latest, self.flags = Answered(), deque[Flagged](maxlen=LATEST), 0
        self._closed = False
        self.broken, self.warning = "", ""  # why nothing is taken any more; what somebody should look after
        self._parts = Parts(self.columns, keep, retain=out is not None)
        self._commit_at = self._tried_at = self.since
        settings = {"key": key, "values": list(self.columns.values), "time": time, "lateness": lateness, "step": step}
        settings |= {"level": level, "forget": forget}
        folder = Path(state)
        self._commits = Commits(folder, folder / "out" if out is None else Path(out), "parquet", settings, SERVICE)
        try:
            self._recover()
        except BaseException:
            self._commits.close()
            raise

    def __enter__(self) -> "Service":
        """Begin."""
        return self

    def __exit__(self, *error: object) -> None:
        """End, with a commit."""
        self.close()

    def close(self) -> None:
        """Commit what came, and let another process have the folder."""
        with self.lock:
            if self._closed:
                return
            self._closed = True
            try:
                if self.flow.count.rows > self._commits.manifest.get("rows", 0) and not self.broken:
                    self.commit()
            finally:
                self._journal.close()
                self._commits.close()

    # What a start does.

    def _recover(self) -> None:
        commits, flow = self._commits, self.flow
        flow.resume(commits.restore(flow.bank, len(self.columns.values)), commits.manifest)
        more = commits.more()
        if more:
            self.watch.unpack(more)
            self.answered.unpack(more)
        for keys, rows in self._parts.recall(commits.parts):
            self._remember(keys, rows)
        self._journal = self._open_journal()
        for record in self._journal.records():
            self._take(record, self.most_keys + len(record.body))  # it was acknowledged: whatever the limit is now
        if not commits.manifest["epoch"]:
            self.commit()  # from now on the settings are those of the state
        self.commit_if_due()

    def _open_journal(self) -> Journal:
        """Open the journal of this epoch; those of others are in its states, or never began."""
        path = self._commits.state / f"journal-{self._commits.manifest['epoch']}.log"
        for other in self._commits.state.glob("journal-*.log"):
            if other != path:
                other.unlink()
        return Journal(path)

    # What comes in.

    def post(self, kind: str, body: bytes, name: str = "") -> dict[str, Any]:
        """Take one request, and keep it; as `post_many`, but what is refused is raised."""
        answer = self.post_many([Record(name, kind, clocks.time(), body)])[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def post_many(self, records: Iterable[Record]) -> list[dict[str, Any] | Exception]:
        """Take requests in order; when this returns, what was taken is on disk.

        Args:
            records: with kinds of `wolf_fleet.service.request_parsing`.

        Returns:
            Of each what it came to, or why it was refused, whole.
        """
        with self.lock:
            if self.broken:
                raise OSError(self.broken)
            answers: list[dict[str, Any] | Exception] = []
            taken: list[Record] = []
            for record in records:
                try:
                    known = self.answered.find(record.name, record.body)
                    answers.append(self._take(record, self.most_keys) if known is None else known | {"again": True})
                    taken += [record] if known is None else []
                except ValueError as error:
                    answers.append(error)
            if taken:
                self._keep(taken)
            self.commit_if_due()
            return answers

    def _keep(self, taken: list[Record]) -> None:
        """Write requests to the journal. If that fails, memory is ahead of the disk, and nothing more may be taken."""
        try:
            self._journal.append(taken)
        except OSError as error:
            self.broken = (
                f"the journal cannot be written ({error}); mend it and start again: nothing acknowledged is lost"
            )
            raise OSError(self.broken) from error

    def _take(self, record: Record, most_keys: int) -> dict[str, Any]:
        """Filter the rows of a request, or refuse them all."""
        flow = self.flow
        rows, dated = request_parsing.read(record.kind, record.body, self.columns, flow.dated)
        room = max(most_keys - len(flow.bank), 0)
        if len(rows.keys) > room:
            fresh = sum(key not in flow.bank for key in set(rows.keys))
            if fresh > room:
                words = f"it has {count(fresh, 'new key')}, and there is room for {room:,} of {most_keys:,}"
                raise ValueError(f"nothing was taken: {words}")
        before = flow.counted(0)
        flow.dated = dated
        passed = flow.take(rows)
        told = _difference(before, flow.counted(0))
        laid = None if passed is None else self._show(passed, record.at)
        self.answered.add(record.name, record.body, dict(told))
        self.version += 1
        return told if passed is None or laid is None else told | {"passed": (passed.rows.keys, laid)}

    def _show(self, passed: Passed, at: float) -> Shown:
        """Put rows that passed into the history, the watch and the part to come."""
        rows = lay_out(passed, self.flow.reach, at, self.columns.time is not None)
        self._parts.add(self.flow.table(passed), at)
        self.watch.add(passed.rows.keys, rows, at)
        self._remember(passed.rows.keys, rows)
        return rows

    def _remember(self, keys: list[str], rows: Shown) -> None:
        self.history.add(keys, rows)
        where = np.flatnonzero(rows.outliers.any(axis=1))
        for i in where[-LATEST:].tolist():
            self.latest.append(Flagged(keys[i], self.flags, Shown(*(each[i : i + 1] for each in rows))))
            self.flags += 1

    # Commits.

    def commit_if_due(self) -> None:
        """Commit if there are enough rows, or the time has come; if it fails, the journal has everything."""
        with self.lock:
            new = self.flow.count.rows > self._commits.manifest.get("rows", 0)
            old = clocks.time() - self._tried_at > self.every
            full = self._parts.rows >= self.batch and not self.warning
            if new and (full or old) and not self.broken:
                try:
                    self.commit()
                except OSError as error:
                    self.warning = f"the last commit failed ({error}); the journal keeps what came"

    def commit(self) -> None:
        """Make everything that came part of an epoch."""
        with self.lock:
            self._tried_at = clocks.time()
            gone = self.flow.tidy()
            if gone:
                self.watch.forget(gone)
                self.history.forget(gone)
            table, drop = self._parts.next_part()
            flow, more, epoch = self.flow, self.watch.pack() | self.answered.pack(), self._commits.manifest["epoch"]
            try:
                self._commits.commit(flow.bank, flow.reorder.pending, table, flow.facts, more, drop)
            except OSError as error:
                if self._commits.epoch_on_disk() != epoch:  # done, but not to the end: what is in memory is not sure
                    self.broken = f"a commit was cut short ({error}); start again: nothing acknowledged is lost"
                raise
            self._parts.committed(drop)
            self._commit_at, self.warning = clocks.time(), ""
            self._journal.close()
            self._journal = self._open_journal()

    @property
    def counts(self) -> Streamed:
        """What was done since the state began."""
        return self.flow.counted(self._commits.manifest["epoch"])

    @property
    def committed_at(self) -> float:
        """When the last commit was, or the start, in seconds since 1970."""
        return self._commit_at

    @property
    def journal_size(self) -> int:
        """Bytes of requests that no commit has yet."""
        return self._journal.size


def _difference(before: Streamed, after: Streamed) -> dict[str, Any]:
    names = ("rows", "used", "outliers", "late", "repeated")
    return {name: getattr(after, name) - getattr(before, name) for name in names} | {"waiting": after.waiting}
