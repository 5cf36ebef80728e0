"""`wolf_fleet.stream`: source, filter states and output, committed together."""

import time as clocks
from collections.abc import Callable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from wolf import validation
from wolf.online.bank.bank import Bank
from wolf.statespace import LinearModel
from wolf_fleet.streaming.brokers import is_address, open_broker
from wolf_fleet.streaming.brokers.base import BrokerSource
from wolf_fleet.streaming.checkpoint import CheckpointStore
from wolf_fleet.streaming.incidents import alerts
from wolf_fleet.streaming.incidents.stream_incidents import StreamIncidents
from wolf_fleet.streaming.key_models import ModelLearner
from wolf_fleet.streaming.pipeline import FilteredRows, Pipeline, StreamSummary, make_columns, warm_up_settings
from wolf_fleet.streaming.row_parser import RowParser
from wolf_fleet.streaming.sinks import check_address
from wolf_fleet.streaming.sinks.delivery import PartDelivery
from wolf_fleet.streaming.sources import Source

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 100_000  # rows per commit: writing 1e5 states then costs less than filtering the rows
COMMIT_SECONDS = 5.0  # after which rows are committed if fewer have arrived
FORMATS = ("parquet", "csv")


def stream(
    source: str | PathLike[str],
    bank: Bank | ModelLearner,
    out: str | PathLike[str],
    *,
    state: str | PathLike[str],
    key: str,
    values: str | Sequence[str],
    time: str | None = None,
    allowed_lateness: float = 0.0,
    step: float = 1.0,
    idle_timeout: float | None = None,
    batch_rows: int = BATCH_ROWS,
    commit_interval: float = COMMIT_SECONDS,
    follow: bool = False,
    level: float = 0.95,
    format: str = "parquet",
    max_ahead: float | None = None,
    recover: bool = False,
    sinks: Sequence[str] = (),
    alert_url: str | None = None,
    alert_command: str | None = None,
    alert_secret: str | None = None,
    incident_sink: str | None = None,
    on_progress: Callable[[StreamSummary], None] | None = None,
) -> StreamSummary:
    """Filter the rows of a stream exactly once; after a crash, the same call resumes from the last commit.

    Output and states are bit for bit those of an uninterrupted run if the source can be read again: a file, a stream
    of NATS or Redis, a topic of Kafka. From standard input and MQTT, rows that were not committed are lost with the
    process; if the sender repeats them and rows have times, rows that were used before are recognised.

    Args:
        source: file of CSV with a header, or of JSON lines; "-" is standard input. Or the address of a broker, whose
            messages are JSON objects: `nats://localhost:4222/STREAM`, `redis://localhost:6379/STREAM`,
            `kafka://localhost:9092/TOPIC`, `mqtt://localhost:1883/TOPIC`.
        bank: with the model and the method; its states are replaced by those of an earlier run. Or a `WarmUp`, which
            learns the model of each key from its first rows.
        out: folder for the output, files `part-00000001.parquet` and so on: key, time, values, then mean and interval
            of the signal, weight and outlier. Rows of a key are in the order of time.
        state: folder for the states and the position in the source; its `manifest.json` lists what is committed.
        key: name of the column that identifies the series of a row, such as a sensor.
        values: name of the column to filter, or names.
        time: name of the column of times: numbers, or dates, which count as seconds. Without it rows are filtered in
            order of arrival.
        allowed_lateness: how much older than the newest row a row may be and still be put in order, in the unit of the
            times.
        step: length of a model step, in that unit.
        idle_timeout: a key without rows for longer than this, in that unit, is dropped, and starts from the prior when
            it returns.
        batch_rows: number of rows per commit.
        commit_interval: seconds after which rows are committed if fewer have arrived.
        follow: wait for more at the end of a file, without limit. Without it the reorder buffer is flushed at the end.
        level: probability of the intervals.
        format: format of the output, "parquet" or "csv".
        max_ahead: a row whose time is further ahead than this, in the unit of the times, is counted and discarded:
            ahead of the clock where times are dates or seconds since 1970 (default: a day), otherwise ahead of the
            newest row (default: no limit).
        recover: start with what is intact although files of the state or output are damaged or missing; by default
            that is an error.
        sinks: addresses where the rows of each commit are sent too, such as `redis://localhost:6379/results`. One
            that does not take them ends the stream with an error; the next start sends them.
        alert_url: webhook that gets each incident as JSON after the commit of its rows, at least once; needs a linear
            model. With this or one of the following, incidents are found and stored with the states.
        alert_command: program with arguments that gets it on standard input.
        alert_secret: key of the signature of the webhook's body, in the header X-Wolf-Signature.
        incident_sink: address of a sink of incidents, as in `sinks`.
        on_progress: called with the counts after each commit.

    Returns:
        Counts of rows, outliers, and late, repeated and unreadable rows.
    """
    columns = make_columns(key, values, time)
    validation.choice("format", format, FORMATS)
    validation.count("batch_rows", batch_rows)
    validation.positive_number("commit_interval", commit_interval)
    pipeline = Pipeline(bank, columns, allowed_lateness, step, level, idle_timeout, max_ahead)
    settings = {"key": key, "values": list(columns.values), "time": time, "allowed_lateness": allowed_lateness}
    settings |= {"step": step, "level": level, "idle_timeout": idle_timeout} | warm_up_settings(bank)
    for address in sinks:
        check_address(address)
    alerts.check(alert_url, alert_command, incident_sink)
    checkpoint = CheckpointStore(Path(state), Path(out), format, settings, recover=recover)
    deliveries = [
        PartDelivery(address, Path(state), checkpoint.manifest["id"], key, lambda: checkpoint.numbered_parts)
        for address in sinks
    ]
    sender = None
    try:
        run = _StreamRun(fspath(source), pipeline, checkpoint, follow, deliveries, on_progress)
        if alert_url or alert_command or incident_sink:
            sender = alerts.AlertSender(run.watch(), alert_url, alert_command, alert_secret, incident_sink)
        summary = run.run(batch_rows, commit_interval)
        if sender is not None:
            sender.wait(alerts.TIMEOUT_SECONDS)
            run.commit_if_delivered()
        return summary
    finally:
        if sender is not None:
            sender.close()
        for each in deliveries:
            each.close()
        checkpoint.close()


class _StreamRun:
    """One run of a stream, from its last commit to the end of the source."""

    def __init__(
        self,
        path: str,
        pipeline: Pipeline,
        checkpoint: CheckpointStore,
        follow: bool,
        deliveries: list[PartDelivery],
        on_progress: Callable[[StreamSummary], None] | None,
    ):
        self.deliveries = deliveries
        self.incidents: StreamIncidents | None = None
        self.pipeline, self.checkpoint, self.on_progress = pipeline, checkpoint, on_progress
        manifest = checkpoint.manifest
        pipeline.add_learned_models(manifest)
        pipeline.resume(checkpoint.restore(pipeline.bank, len(pipeline.columns.values)), manifest)
        position = 0 if path == "-" else manifest.get("position", 0)
        self.source: Source | BrokerSource = (
            open_broker(path, position, follow) if is_address(path) else Source(path, position, follow)
        )
        known = manifest.get("fingerprint", "")
        if known not in ("", self.source.fingerprint(manifest.get("position", 0))) and path != "-":
            raise ValueError(
                f"{path} does not begin like the file that was read earlier: it was replaced. "
                "Restore the file, or start with an empty state folder"
            )

    def watch(self) -> StreamIncidents:
        """Find incidents from now on, and return what has them."""
        model = self.pipeline.bank.model
        if not isinstance(model, LinearModel):
            raise ValueError(f"incidents need a linear model, whose signal has an interval; got {type(model).__name__}")
        writer = str(self.checkpoint.manifest["id"])
        self.incidents = StreamIncidents(self.pipeline, writer, self.checkpoint.extra_arrays())
        return self.incidents

    def commit_if_delivered(self) -> None:
        """Store which alerts were delivered, or the next run would send them again."""
        if self.incidents is not None and self.incidents.is_changed:
            self._commit([])

    def run(self, batch_rows: int, commit_interval: float) -> StreamSummary:
        try:
            self._deliver()  # what an earlier run has committed
            head = self.source.first_line()
            if not head and not self.source.follow:
                raise ValueError(f"{self.source.name} is empty: expected a CSV header, or JSON lines")
            self.parser = RowParser(head, self.pipeline.columns, self.source.name)
            self.parser.dated = self.pipeline.dated
            if self.parser.has_header and self.source.position == 0:
                self.source.take(1, commit_interval)
            while not self.source.exhausted:
                self._run_epoch(batch_rows, commit_interval)
        finally:
            self.source.close()
        return self._summary()

    def _run_epoch(self, batch_rows: int, commit_interval: float) -> None:
        """Read until there are enough rows or the time is up, and commit."""
        begun, num_lines = clocks.monotonic(), 0
        filtered: list[FilteredRows | None] = []
        while num_lines < batch_rows:
            left = commit_interval - (clocks.monotonic() - begun)
            lines = self.source.take(batch_rows - num_lines, max(left, 0.0))
            num_lines += len(lines)
            if lines:
                filtered.append(self._process(lines))
            if self.source.exhausted or left <= 0:
                break
        if self.source.exhausted and self.pipeline.num_waiting:
            filtered.append(self._judge(self.pipeline.flush()))
        if self.incidents is not None and self.source.follow:
            self.incidents.find_silent()
        if num_lines or filtered or (self.incidents is not None and self.incidents.is_changed):
            self._commit([self.pipeline.table(each) for each in filtered if each is not None])

    def _process(self, lines: list[str]) -> FilteredRows | None:
        rows, unreadable = self.parser.parse(lines)
        counts = self.pipeline.counts
        counts.unreadable += unreadable
        counts.example, self.pipeline.dated = self.parser.example, self.parser.dated
        return self._judge(self.pipeline.process(rows, clocks.time()))

    def _judge(self, filtered: FilteredRows | None) -> FilteredRows | None:
        """Find incidents in filtered rows."""
        if self.incidents is not None and filtered is not None:
            self.incidents.add(filtered, clocks.time())
        return filtered

    def _commit(self, tables: list["pa.Table"]) -> None:
        import pyarrow

        position = self.source.position
        expired, extra = self.pipeline.drop_expired(), None
        if self.incidents is not None:
            self.incidents.forget(expired)
            extra = self.incidents.pack()
        facts = {"position": position, "fingerprint": self.source.fingerprint(position)} | self.pipeline.facts
        table = pyarrow.concat_tables(tables) if tables else None
        self.checkpoint.commit(self.pipeline.bank, self.pipeline.waiting, table, facts, extra)
        if self.incidents is not None:
            self.incidents.commit()
        self._deliver()
        if self.on_progress is not None:
            self.on_progress(self._summary())

    def _deliver(self) -> None:
        for each in self.deliveries:
            each.deliver()

    def _summary(self) -> StreamSummary:
        return self.pipeline.summary(self.checkpoint.manifest["epoch"])
