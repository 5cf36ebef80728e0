"""HTTP endpoints as sinks: `https://example.org/rows`; a POST for a batch of rows.

At least once: an answer below 300 is a delivery, and anything else is repeated with the same `Idempotency-Key`. A
receiver that keeps these keys, such as another `wolf serve`, has every row exactly once.
"""

import hashlib
import hmac
import json
import urllib.request

from wolf_fleet.streaming.row_parser import JsonObject
from wolf_fleet.streaming.sinks.base import Position, Sink, incident_id, plain

TIMEOUT_SECONDS = 30.0
SIGNATURE = "X-Wolf-Signature"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST would arrive as a GET without its body."""

    def redirect_request(self, *_: object) -> None:
        """Raise the answer as an error."""


_opener = urllib.request.build_opener(_NoRedirects)


def post(url: str, body: bytes, request_id: str, secret: str | None, timeout: float) -> None:
    """Send JSON; return if the answer is below 300, raise an `OSError` otherwise.

    Args:
        url: http or https.
        body: JSON.
        request_id: sent as `Idempotency-Key`.
        secret: key of the signature `sha256=HEX` of the body; None for none.
        timeout: in seconds.
    """
    headers = {"Content-Type": "application/json", "User-Agent": "wolf-fleet", "Idempotency-Key": request_id}
    if secret is not None:
        headers[SIGNATURE] = f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"
    with _opener.open(urllib.request.Request(url, body, headers), timeout=timeout) as answer:
        answer.read(1)


class HttpSink(Sink):
    """An HTTP endpoint; arguments as in `Sink`."""

    keeps_position = False

    def write(self, rows: list[JsonObject], key: str, after: Position) -> None:
        """Send rows as a JSON list."""
        self._post([{name: plain(cell) for name, cell in row.items()} for row in rows], after.text)

    def write_incident(self, facts: JsonObject) -> None:
        """Send an incident as a JSON object."""
        self._post(facts, incident_id(facts))

    def _post(self, content: object, name: str) -> None:
        try:
            post(self.address, json.dumps(content).encode(), f"{self.writer}-{name}", None, TIMEOUT_SECONDS)
        except (OSError, ValueError) as error:
            raise self.error(error) from error
