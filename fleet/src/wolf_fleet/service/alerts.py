"""Alerts: each incident that opens or closes is sent to a webhook or given to a command, at least once.

An alert is repeated until it is delivered, with growing pauses, and after a restart too. Because a process may end
between the delivery and the commit that records it, a receiver may see an alert twice: number and state of the incident
identify it.
"""

import hashlib
import hmac
import json
import shlex
import subprocess
import threading
import time as clocks
import urllib.request
from urllib.parse import urlsplit

from wolf_fleet.service.responses import incident_facts
from wolf_fleet.service.service import Service
from wolf_fleet.streaming.row_parser import JsonObject

POLL_SECONDS = 0.5  # between two looks for new incidents
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 300.0  # after a failed delivery
TIMEOUT_SECONDS = 10.0  # of a webhook or a command
SIGNATURE = "X-Wolf-Signature"


class AlertSender:
    """Thread that delivers the alerts of a service.

    Args:
        service: whose incidents are reported.
        url: of a webhook, which gets a POST with the incident as JSON. Any answer below 300 is a delivery.
        command: program with arguments, which gets the incident as JSON on standard input. Exit code 0 is a delivery.
        secret: key of the signature `sha256=HEX` of the body, in the header X-Wolf-Signature; default: no signature.
    """

    def __init__(self, service: Service, url: str | None, command: str | None, secret: str | None = None):
        check(url, command)
        self.service, self.url, self.secret = service, url, secret
        self.command = None if command is None else shlex.split(command)
        self.error = ""  # of the last delivery, for /health
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wolf-alerts", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; what is not delivered is sent after the next start."""
        self._stop.set()
        self._thread.join(TIMEOUT_SECONDS)

    def _run(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._stop.wait(POLL_SECONDS):
            for number, changes, facts in self._pending():
                try:
                    self._deliver(facts)
                except Exception as error:
                    self.error = f"alert of incident {number} was not delivered ({type(error).__name__}: {error})"
                    self._stop.wait(pause)
                    pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                    break
                self.error, pause = "", FIRST_PAUSE_SECONDS
                self._mark(number, changes)

    def _pending(self) -> list[tuple[int, int, JsonObject]]:
        with self.service.lock:
            waiting = self.service.incidents.undelivered()
            return [(each.number, each.changes, incident_facts(self.service, each)) for each in waiting]

    def _mark(self, number: int, changes: int) -> None:
        with self.service.lock:
            for each in self.service.incidents:
                if each.number == number:
                    each.alerts = changes
                    return

    def _deliver(self, facts: JsonObject) -> None:
        body = json.dumps(facts | {"sent": clocks.time()}).encode()
        if self.url is not None:
            headers = {"Content-Type": "application/json", "User-Agent": "wolf-fleet"}
            if self.secret is not None:
                headers[SIGNATURE] = f"sha256={hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()}"
            request = urllib.request.Request(self.url, body, headers)
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
                answer.read(1)
        if self.command is not None:
            done = subprocess.run(self.command, input=body, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
            if done.returncode:
                raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-200:].decode(errors='replace')}")


def check(url: str | None, command: str | None) -> None:
    """Raise a `ValueError` for an address or a command that cannot be used."""
    if url is not None and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
        raise ValueError(f"alert_url must be an address as https://example.org/hook; got {url!r}")
    if command is not None and not shlex.split(command):
        raise ValueError("alert_command must name a program; got nothing")
