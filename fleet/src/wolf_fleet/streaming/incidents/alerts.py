"""Alerts: each incident that opens, changes its kind or closes is sent to its targets, at least once to each.

A target is a webhook, a command or a sink. An alert is repeated until it is delivered, with growing pauses, and after
a restart too; an alert that a target rejects does not hold up the others. Because a process may end between the
delivery and the commit that records it, a receiver may see an alert twice: number, state and kind identify it.
"""

import json
import shlex
import subprocess
import threading
import time as clocks
from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit

from wolf_fleet.streaming.incidents.incident_log import SINK
from wolf_fleet.streaming.row_parser import JsonObject
from wolf_fleet.streaming.sinks import check_address, open_sink
from wolf_fleet.streaming.sinks.base import Sink, incident_id
from wolf_fleet.streaming.sinks.http_endpoint import post

POLL_SECONDS = 0.25  # between two looks for new incidents
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 300.0  # after a failed delivery
TIMEOUT_SECONDS = 10.0  # of a webhook or a command
WEBHOOK, COMMAND = "webhook", "command"


class AlertSource(Protocol):
    """A stream or a service: what has incidents."""

    @property
    def writer(self) -> str:
        """Identity of the state folder."""
        ...

    def set_alert_targets(self, names: list[str]) -> None:
        """Set the targets of alerts; a new one gets the open incidents."""
        ...

    def undelivered_alerts(self, target: str) -> list[tuple[int, int, JsonObject]]:
        """List what a target does not have: number of the incident, number of its changes, and its facts."""
        ...

    def alert_delivered(self, number: int, target: str, changes: int) -> None:
        """Record that a target has the first changes of an incident."""
        ...


class AlertSender:
    """Threads that deliver the alerts of a stream or a service, one for each target.

    Args:
        source: whose incidents are reported.
        url: of a webhook, which gets a POST with the incident as JSON. Any answer below 300 is a delivery.
        command: program with arguments, which gets the incident as JSON on standard input. Exit code 0 is a delivery.
        secret: key of the signature `sha256=HEX` of the body, in the header X-Wolf-Signature; default: no signature.
        sink: address of a sink of incidents, which gets those of muted keys too.
    """

    def __init__(
        self,
        source: AlertSource,
        url: str | None,
        command: str | None,
        secret: str | None = None,
        sink: str | None = None,
    ):
        check(url, command, sink)
        self._source, self._sink_address = source, sink
        self._sink: Sink | None = None
        self.errors: dict[str, str] = {}  # of the last delivery to each target, for /health
        targets: dict[str, Callable[[JsonObject], None]] = {}
        if url is not None:
            targets[WEBHOOK] = lambda facts: _post(url, facts, secret)
        if command is not None:
            targets[COMMAND] = lambda facts: _run(shlex.split(command), facts)
        if sink is not None:
            targets[SINK] = self._write
        self._targets = list(targets)
        source.set_alert_targets(self._targets)
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._loop, args=(name, deliver), name=f"wolf-{name}", daemon=True)
            for name, deliver in targets.items()
        ]
        for thread in self._threads:
            thread.start()

    @property
    def error(self) -> str:
        """The first error of a target; empty if all are well."""
        return next((error for error in self.errors.values() if error), "")

    def wait(self, seconds: float) -> None:
        """Wait until all alerts are delivered, one has failed, or the time is over."""
        until = clocks.monotonic() + seconds
        while clocks.monotonic() < until and not self.error:
            if not any(self._source.undelivered_alerts(name) for name in self._targets):
                break
            self._stop.wait(POLL_SECONDS / 5)

    def close(self) -> None:
        """Stop; what is not delivered is sent after the next start."""
        self._stop.set()
        for thread in self._threads:
            thread.join(TIMEOUT_SECONDS)
        if self._sink is not None:
            self._sink.close()

    def _loop(self, target: str, deliver: Callable[[JsonObject], None]) -> None:
        """Deliver; after a failure an alert waits twice as long as before, and those of other incidents go on."""
        waits: dict[int, tuple[float, float]] = {}  # by incident: not before, pause
        while not self._stop.wait(POLL_SECONDS):
            for number, changes, facts in self._source.undelivered_alerts(target):
                not_before, pause = waits.get(number, (0.0, FIRST_PAUSE_SECONDS))
                if clocks.monotonic() < not_before:
                    continue
                try:
                    deliver(facts)
                except Exception as error:
                    words = f"the alert of incident {number} was not delivered to the {target}"
                    self.errors[target] = f"{words} ({type(error).__name__}: {error})"
                    waits[number] = clocks.monotonic() + pause, min(2 * pause, LONGEST_PAUSE_SECONDS)
                    if isinstance(error, TimeoutError):
                        break
                    continue
                waits.pop(number, None)
                self.errors[target] = "" if not waits else self.errors.get(target, "")
                self._source.alert_delivered(number, target, changes)
                if self._stop.is_set():
                    return

    def _write(self, facts: JsonObject) -> None:
        sink = self._sink
        if sink is None:
            assert self._sink_address is not None
            sink = self._sink = open_sink(self._sink_address, self._source.writer + "-incidents")
        try:
            sink.write_incident(facts)
        except BaseException:
            self._sink = None
            sink.close()
            raise


def _post(url: str, facts: JsonObject, secret: str | None) -> None:
    post(url, _encode(facts), incident_id(facts), secret, TIMEOUT_SECONDS)


def _run(command: list[str], facts: JsonObject) -> None:
    done = subprocess.run(command, input=_encode(facts), capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-200:].decode(errors='replace')}")


def _encode(facts: JsonObject) -> bytes:
    return json.dumps(facts | {"sent": clocks.time()}).encode()


def check(url: str | None, command: str | None, sink: str | None = None) -> None:
    """Raise a `ValueError` for an address or a command that cannot be used."""
    if url is not None and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
        raise ValueError(f"alert_url must be an address as https://example.org/hook; got {url!r}")
    if command is not None and not shlex.split(command):
        raise ValueError("alert_command must name a program; got nothing")
    if sink is not None:
        check_address(sink)
