"""The service without HTTP: rows are made durable and filtered; states, forecasts and key health are returned.

Requests since the last commit are in a write-ahead log. A commit writes states, pending rows, key health, responses and
an output part, bound together by one manifest. A start loads what the manifest names and replays the log: the same rows
of a key in the same order give the same bits.
"""

import time as clocks
from collections import deque
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import NamedTuple

import numpy as np

from wolf import validation
from wolf.online.bank.bank import Bank
from wolf.results import count
from wolf.runtime import files
from wolf.statespace import LinearModel
from wolf_fleet.service import request_parsing
from wolf_fleet.service.idempotency import IdempotencyConflict, IdempotencyStore
from wolf_fleet.service.output_parts import OutputParts
from wolf_fleet.service.recent_rows import RecentRows
from wolf_fleet.service.write_ahead_log import Journal, Record
from wolf_fleet.streaming import future_rows
from wolf_fleet.streaming.checkpoint import SERVICE_FORMAT, CheckpointStore
from wolf_fleet.streaming.incidents.facts import incident_facts
from wolf_fleet.streaming.incidents.incident_log import IncidentLog, KeyIncident
from wolf_fleet.streaming.incidents.key_health import KeyHealth
from wolf_fleet.streaming.incidents.row_view import RowView, make_view
from wolf_fleet.streaming.key_models import ModelLearner
from wolf_fleet.streaming.pipeline import FilteredRows, Pipeline, StreamSummary, make_columns, warm_up_settings
from wolf_fleet.streaming.row_parser import JsonObject, RowBatch
from wolf_fleet.streaming.sinks.delivery import PartDelivery

BATCH_ROWS = 100_000  # rows per commit
COMMIT_SECONDS = 60.0  # after which rows are committed if fewer have arrived; until then the log has them
HISTORY_ROWS = 2_000_000  # recent rows in memory, about 45 bytes each
MAX_KEYS = 1_000_000  # filters, so that a client cannot exhaust the memory
MAX_WAITING_ROWS = 5_000_000  # in the reorder buffer
MAX_LATEST_OUTLIERS = 50  # kept for the page


class FlaggedRow(NamedTuple):
    """An outlier: its key, its number among all outliers, and the row as a `RowView` of length one."""

    key: str
    number: int
    row: RowView


class Service:
    """A durable bank: what it has accepted survives a crash of the process.

    Args:
        bank: with the model and the method; the model is linear. Or a `WarmUp`, which learns the model of each key.
        state: folder for the states and the write-ahead log, created if missing.
        key: name of the field that identifies the series of a row.
        values: name of the field to filter, or names.
        time: name of the field of times: numbers, or dates, which count as seconds. Without it rows are filtered in
            order of arrival.
        allowed_lateness: how much older than the newest row a row may be and still be put in order, in the unit of the
            times.
        step: length of a model step, in that unit.
        idle_timeout: a key without rows for longer than this, in that unit, is dropped, and starts from the prior when
            it returns.
        level: probability of the intervals.
        out: folder for all rows with their results, in the format of `wolf_fleet.stream`. By default only recent rows
            are kept, in the state folder.
        batch_rows: number of rows per commit.
        commit_interval: seconds after which rows are committed if fewer have arrived.
        history_rows: number of recent rows in memory, of all keys together.
        max_keys: largest number of keys, with those of waiting rows.
        max_ahead: how far a row may be ahead of the clock and of the newest row; see `Pipeline`.
        recover: start although files are damaged or missing, with what is intact; `losses` lists the rest. By default
            that is an error, since acknowledged rows may be lost.

    Example:
        >>> import tempfile, wolf
        >>> bank = wolf.Bank(wolf.models.local_level(level_var=0.1, obs_var=1.0))
        >>> with Service(bank, tempfile.mkdtemp(), key="sensor", values="celsius") as service:
        ...     service.post("json", b'{"sensor": "hall", "celsius": 20.5}')["used"]
        1
    """

    def __init__(
        self,
        bank: Bank | ModelLearner,
        state: str | PathLike[str],
        *,
        key: str,
        values: str | Sequence[str],
        time: str | None = None,
        allowed_lateness: float = 0.0,
        step: float = 1.0,
        idle_timeout: float | None = None,
        level: float = 0.95,
        out: str | PathLike[str] | None = None,
        batch_rows: int = BATCH_ROWS,
        commit_interval: float = COMMIT_SECONDS,
        history_rows: int = HISTORY_ROWS,
        max_keys: int = MAX_KEYS,
        max_ahead: float | None = None,
        recover: bool = False,
    ):
        for name, number in (("batch_rows", batch_rows), ("history_rows", history_rows), ("max_keys", max_keys)):
            validation.count(name, number)
        validation.positive_number("commit_interval", commit_interval)
        validation.path("state", state)
        self.columns = make_columns(key, values, time)
        self.pipeline = Pipeline(bank, self.columns, allowed_lateness, step, level, idle_timeout, max_ahead)
        model = self.pipeline.bank.model
        if not isinstance(model, LinearModel):
            raise ValueError(
                f"a service needs a linear model, whose signal has an interval; got {type(model).__name__}"
            )
        self.level, self.batch_rows, self.commit_interval = level, batch_rows, commit_interval
        self.max_keys = max_keys
        self.lock, self.since, self.version = RLock(), clocks.time(), 0
        self._started, self._is_replaying = clocks.monotonic(), True
        num_values = len(self.columns.values)
        self.recent_rows, self.health = RecentRows(history_rows, num_values), KeyHealth(num_values)
        self.incidents = IncidentLog()
        self.responses, self.num_flags = IdempotencyStore(), 0
        self.latest = deque[FlaggedRow](maxlen=MAX_LATEST_OUTLIERS)
        self.deliveries: list[PartDelivery] = []
        self._closed, self.is_dated = False, time is None  # whether times are dates or seconds since 1970
        self.broken, self.warning = "", ""  # why no rows are accepted any more; what needs attention
        self._parts = OutputParts(self.columns, history_rows, retain=out is not None)
        self._commit_at, self._tried_at = self.since, clocks.monotonic()
        settings: dict[str, object] = {"key": key, "values": list(self.columns.values), "time": time}
        settings |= {"allowed_lateness": allowed_lateness, "step": step, "level": level, "idle_timeout": idle_timeout}
        settings |= warm_up_settings(bank)
        folder = Path(state)
        out = folder / "out" if out is None else Path(out)
        self._journal: Journal | None = None
        self._checkpoint = CheckpointStore(folder, out, "parquet", settings, SERVICE_FORMAT, recover)
        try:
            self._recover()
        except BaseException:
            self._close_files()
            raise

    def __enter__(self) -> "Service":
        """Return the service."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the service."""
        self.close()

    def close(self) -> None:
        """Commit, and release the state folder."""
        with self.lock:
            if self._closed:
                return
            self._closed = True
            try:
                if self.pipeline.counts.rows > self._checkpoint.manifest.get("rows", 0) and not self.broken:
                    self.commit()
            finally:
                self._close_files()

    def _close_files(self) -> None:
        if self._journal is not None:
            self._journal.close()
        self._checkpoint.close()

    def deliver_to(self, address: str) -> PartDelivery:
        """Return the delivery of committed rows to a sink; parts are kept until it has them."""
        delivery = PartDelivery(address, self._checkpoint.state, self.writer, self.columns.key, self._committed_parts)
        with self.lock:
            self.deliveries.append(delivery)
        return delivery

    def _committed_parts(self) -> list[tuple[int, Path]]:
        with self.lock:
            return self._checkpoint.numbered_parts

    @property
    def writer(self) -> str:
        """Identity of the state folder, by which sinks know what they have."""
        return str(self._checkpoint.manifest["id"])

    @property
    def has_dates(self) -> bool:
        """Whether times are sent as dates."""
        return bool(self.pipeline.dated) or self.columns.time is None

    @property
    def losses(self) -> list[str]:
        """List what was damaged or missing at a start with `recover`."""
        return self._checkpoint.losses

    # Start.

    def _recover(self) -> None:
        checkpoint, pipeline = self._checkpoint, self.pipeline
        pipeline.add_learned_models(checkpoint.manifest)
        pipeline.resume(checkpoint.restore(pipeline.bank, len(self.columns.values)), checkpoint.manifest)
        extra = checkpoint.extra_arrays()
        if extra:
            self.health.unpack(extra, self.since)
            self.incidents.unpack(extra)
            self.responses.unpack(extra)
        for keys, rows in self._parts.recall(checkpoint.parts):
            self._remember(keys, rows)
            self.is_dated = self.columns.time is None or self._is_unix_time(rows.times, self.since)
        if checkpoint.manifest["epoch"]:
            self._replay()
        self._is_replaying = False
        if self._journal is None or self.losses:
            self.commit()
        self._delete_old_journals()
        self.commit_if_due()

    def _replay(self) -> None:
        """Apply the requests since the last commit."""
        path = self._journal_path(self._checkpoint.manifest["epoch"])
        if not path.exists():
            self._checkpoint.damaged(f"{path} is missing")
            return
        self._journal = Journal(path)
        for record in self._journal.records(self._checkpoint.damaged):
            # These requests were acknowledged, so the present limit of keys does not apply to them.
            self._apply(record, *self._parse(record, self.max_keys + len(record.body)))

    def _journal_path(self, epoch: int) -> Path:
        return self._checkpoint.state / f"journal-{epoch}.log"

    def _delete_old_journals(self) -> None:
        """Delete logs of other epochs, whose requests are in the states or were never acknowledged."""
        present = self._journal_path(self._checkpoint.manifest["epoch"])
        for path in self._checkpoint.state.glob("journal-*.log"):
            if path != present:
                files.delete(path)

    # Requests.

    def post(self, format: str, body: bytes, request_id: str = "") -> JsonObject:
        """Apply one request durably; like `post_many`, but raises the error of a rejected request.

        Args:
            format: of the body: "json", "lines" (JSON lines) or "csv".
            body: rows.
            request_id: a request with a known id is not applied again; "" for none.

        Returns:
            Counts of rows, outliers and so on.
        """
        answer = self.post_many([Record(request_id, format, clocks.time(), body)])[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def post_many(self, records: Iterable[Record]) -> list[JsonObject | Exception]:
        """Apply requests in order; on return, the accepted ones are on disk.

        Args:
            records: requests.

        Returns:
            Per request its counts, or the error for which it was rejected as a whole.
        """
        with self.lock:
            if self.broken:
                raise OSError(self.broken)
            answers: list[JsonObject | Exception] = []
            accepted: list[Record] = []
            try:
                for record in records:
                    answer, is_new = self._answer(record)
                    answers.append(answer)
                    accepted += [record] if is_new else []
                if accepted:
                    assert self._journal is not None
                    self._journal.append(accepted)
            except Exception as error:  # memory is ahead of the disk, or half of a request was applied
                self.broken = (
                    f"requests cannot be stored ({type(error).__name__}: {error}); repair the cause and restart the "
                    "service: no acknowledged request is lost"
                )
                raise OSError(self.broken) from error
            self.commit_if_due()
            return answers

    def _answer(self, record: Record) -> tuple[JsonObject | Exception, bool]:
        """Return the response to a request, and whether it was applied."""
        try:
            known = self.responses.find(record.request_id, record.body)
            if known is not None:
                return known | {"duplicate": True}, False
            rows, dated = self._parse(record, self.max_keys)
        except ValueError as error:
            # A new error: the traceback and the context of this one refer to the body of the request.
            kind = IdempotencyConflict if isinstance(error, IdempotencyConflict) else ValueError
            return kind(str(error)), False
        except Exception as error:  # a defect of parsing; no state has moved, so only this request is refused
            return ValueError(f"the body cannot be read ({type(error).__name__}: {error})"), False
        return self._apply(record, rows, dated), True

    def _parse(self, record: Record, max_keys: int) -> tuple[RowBatch, bool | None]:
        """Parse and check a request before any state changes, or raise a `ValueError`."""
        pipeline = self.pipeline
        rows, dated = request_parsing.parse(record.format, record.body, self.columns, pipeline.dated)
        known, waiting = pipeline.bank, pipeline.num_waiting
        room = max_keys - len(known)
        if len(rows.keys) + waiting > room:
            held = {key for key in pipeline.waiting_keys if key not in known}
            fresh, room = len({key for key in rows.keys if key not in known} - held), max(room - len(held), 0)
            if fresh > room:
                words = f"{count(fresh, 'new key')} in the request, and {room:,} of at most {max_keys:,} keys are free"
                raise ValueError(f"no rows were accepted: {words}")
        if waiting + len(rows.keys) > MAX_WAITING_ROWS:
            raise ValueError(
                f"no rows were accepted: {waiting:,} rows wait for earlier ones or for a model, of at most "
                f"{MAX_WAITING_ROWS:,}; use a smaller allowed lateness or warm-up"
            )
        for key in dict.fromkeys(rows.keys) if pipeline.bank.has_models_by_key and pipeline.warm_up is None else ():
            pipeline.bank.model_of(key)  # raises for a key that has none
        return rows, dated

    def _apply(self, record: Record, rows: RowBatch, dated: bool | None) -> JsonObject:
        """Filter the rows of a request."""
        pipeline = self.pipeline
        before = pipeline.summary(0)
        pipeline.dated = dated
        filtered = pipeline.process(rows, record.at)
        counts = _difference(before, pipeline.summary(0))
        view = None if filtered is None else self._store(filtered, record.at)
        self.responses.add(record.request_id, record.body, dict(counts))
        self.version += 1
        return counts if filtered is None or view is None else counts | {"filtered": (filtered.rows.keys, view)}

    def _store(self, filtered: FilteredRows, at: float) -> RowView:
        """Add filtered rows to the next output part, the key health and the recent rows."""
        rows = make_view(filtered, self.pipeline.num_deviations, at, self.columns.time is not None)
        self._parts.add(self.pipeline.table(filtered), at)
        self.is_dated = self.columns.time is None or self._is_unix_time(rows.times, at)
        # What the clock was set by since the start is not time that has passed.
        arrived = min(at, self.since) if self._is_replaying else at - (clocks.time() - self.steady_time())
        present = self.health.add(
            filtered.rows.keys, rows, at, arrived, self.is_dated and self.columns.time is not None
        )
        self.incidents.update(self.health, present, arrived, self.since)
        self._remember(filtered.rows.keys, rows)
        return rows

    def _is_unix_time(self, times: np.ndarray, at: float) -> bool:
        """Return whether the times of rows are dates or seconds since 1970."""
        return future_rows.is_unix_time(float(times[-1]), at, self.pipeline.dated)

    def steady_time(self) -> float:
        """Return the time since 1970 by the clock at the start, and from then on by one that is never set."""
        return self.since + (clocks.monotonic() - self._started)

    def find_silent(self) -> None:
        """Open incidents of keys from which no row has come for several usual intervals."""
        with self.lock:
            now = self.steady_time()
            silent = np.flatnonzero(self.health.silent(now, self.since))
            if len(silent):
                self.incidents.update(self.health, silent, now, self.since)

    def acknowledge(self, number: int) -> KeyIncident:
        """Acknowledge an incident durably; raise a `KeyError` for an unknown number."""
        with self.lock:
            found = self.incidents.acknowledge(number)
            self.version += 1
            self.commit()
            return found

    def set_alert_targets(self, names: list[str]) -> None:
        """Set the targets of alerts, durably; a new one gets the open incidents."""
        with self.lock:
            if self.incidents.set_targets(names):
                self.commit()  # or a crash would make them new again, without the incidents that close meanwhile

    def undelivered_alerts(self, target: str) -> list[tuple[int, int, JsonObject]]:
        """List what a target does not have: number of the incident, number of its changes, and its facts."""
        with self.lock:
            waiting = self.incidents.undelivered(target)
            return [(each.number, each.changes, incident_facts(each, self.has_dates)) for each in waiting]

    def alert_delivered(self, number: int, target: str, changes: int) -> None:
        """Record that a target has the first changes of an incident."""
        with self.lock:
            self.incidents.delivered(number, target, changes)

    def mute(self, key: str, seconds: float) -> None:
        """Alert nobody of a key for a while, durably; raise a `KeyError` for an unknown key."""
        with self.lock:
            if self.health.index(key) < 0:
                raise KeyError(f"there is no key {key!r}")
            if not 0 <= validation.number("seconds", seconds) < np.inf:
                raise ValueError(f"seconds must be finite and at least 0, which ends muting; got {seconds!r}")
            self.incidents.mute(key, self.steady_time() + seconds)
            self.version += 1
            self.commit()

    def _remember(self, keys: list[str], rows: RowView) -> None:
        self.recent_rows.add(keys, rows)
        where = np.flatnonzero(rows.outliers.any(axis=1))
        for i in where[-MAX_LATEST_OUTLIERS:].tolist():
            self.latest.append(FlaggedRow(keys[i], self.num_flags, RowView(*(each[i : i + 1] for each in rows))))
            self.num_flags += 1

    # Commits.

    def commit_if_due(self) -> None:
        """Commit if there are enough rows or the interval is over; if it fails, the log still has all requests."""
        with self.lock:
            new = self.pipeline.counts.rows > self._checkpoint.manifest.get("rows", 0)
            old = clocks.monotonic() - self._tried_at > self.commit_interval
            full = self._parts.rows >= self.batch_rows and not self.warning
            if new and (full or old) and not self.broken:
                try:
                    self.commit()
                except OSError as error:
                    self.warning = f"the last commit failed ({error}); requests are kept in the write-ahead log"

    def commit(self) -> None:
        """Commit all requests as an epoch."""
        with self.lock:
            self._tried_at = clocks.monotonic()
            expired = self.pipeline.drop_expired()
            if expired:
                self.health.forget(expired)
                self.recent_rows.forget(expired)
                self.incidents.forget(expired)
            oldest = self._checkpoint.manifest["oldest"]
            limit = min((each.done - oldest + 1 for each in self.deliveries), default=np.inf)
            table, drop = self._parts.next_part(limit)
            pipeline, extra = self.pipeline, self.health.pack() | self.responses.pack() | self.incidents.pack()
            epoch = self._checkpoint.manifest["epoch"]
            # The next log exists before the manifest that names it, so a missing log is always damage.
            journal = Journal(self._journal_path(epoch + 1), create=True)
            try:
                self._checkpoint.commit(pipeline.bank, pipeline.waiting, table, pipeline.facts, extra, drop)
            except BaseException as error:
                journal.close()
                if self._checkpoint.epoch_on_disk() != epoch:  # committed, but memory does not know how far
                    self.broken = f"a commit was interrupted ({error}); restart the service: no request is lost"
                raise
            self._parts.committed(drop)
            self._commit_at, self.warning = clocks.time(), ""
            if self._journal is not None:
                self._journal.close()
            self._journal = journal
            self._delete_old_journals()

    @property
    def counts(self) -> StreamSummary:
        """Counts since the state was created."""
        return self.pipeline.summary(self._checkpoint.manifest["epoch"])

    @property
    def committed_at(self) -> float:
        """Time of the last commit, or of the start, in seconds since 1970."""
        return self._commit_at

    @property
    def journal_size(self) -> int:
        """Size of the write-ahead log in bytes."""
        return 0 if self._journal is None else self._journal.size


def _difference(before: StreamSummary, after: StreamSummary) -> dict[str, object]:
    names = ("rows", "used", "outliers", "late", "repeated", "ahead")
    return {name: vars(after)[name] - vars(before)[name] for name in names} | {"waiting": after.waiting}
