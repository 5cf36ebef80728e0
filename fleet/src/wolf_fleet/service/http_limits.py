"""Limits of a connection before a request is complete: size of the headers, and time until they have arrived."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES = 65_536
MAX_HEADER_SECONDS = 10.0
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class LimitedProtocol(HttpToolsProtocol):
    """HTTP protocol of uvicorn that closes connections whose headers are too large or too slow."""

    def connection_made(self, transport: Any) -> None:
        """Start to wait for the headers of the first request."""
        super().connection_made(transport)
        self._header_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Count the bytes of headers that are not complete."""
        if self._header_bytes == 0 and self._timer is None:
            self._timer = self.loop.call_later(MAX_HEADER_SECONDS, self._refuse, TOO_SLOW)
        self._header_bytes += len(data)
        super().data_received(data)
        if self._timer is not None and self._header_bytes > MAX_HEADER_BYTES:
            self._refuse(TOO_LARGE)

    def on_headers_complete(self) -> None:
        """Stop the clock."""
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Reset the count for the next request of the connection."""
        self._header_bytes = 0
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_timer()
        super().connection_lost(exc)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _refuse(self, answer: bytes) -> None:
        self._stop_timer()
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()
