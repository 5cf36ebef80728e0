"""Worker thread that applies requests in order of arrival; requests that wait together share one flush to disk."""

import math
import queue
import threading
import time as clocks
from concurrent.futures import Future
from typing import NamedTuple

from wolf_fleet.service.service import Service
from wolf_fleet.service.write_ahead_log import Record
from wolf_fleet.streaming.row_parser import JsonObject

MAX_QUEUED_REQUESTS = 1000  # further requests are rejected
MAX_REQUESTS_PER_FLUSH = 64
MAX_WAIT_SECONDS = 5.0  # of the oldest queued request, beyond which further requests are rejected
ENDED = "the worker thread has ended; restart the service: no acknowledged request is lost"
COMMIT_CHECK_SECONDS = 1.0  # between two checks whether a commit is due


class QueueFull(Exception):  # noqa: N818
    """Too many requests are queued."""


class Queued(NamedTuple):
    """A request, the future of its response, and when it was queued, on the monotonic clock."""

    record: Record
    done: "Future[JsonObject]"
    at: float


class Worker:
    """Worker thread with its queue.

    Args:
        service: only this worker may post to it.
    """

    def __init__(self, service: Service):
        self.service = service
        self._queue: queue.Queue[Queued | None] = queue.Queue(MAX_QUEUED_REQUESTS)
        self._queued = math.inf  # when the first of the requests that are being applied was queued
        self._thread = threading.Thread(target=self._run, name="wolf-serve", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    def post(self, record: Record) -> "Future[JsonObject]":
        """Queue a request; the result is set once it is on disk."""
        if not self.alive:
            raise OSError(ENDED)
        done: Future[JsonObject] = Future()
        now = clocks.monotonic()
        if now - self._queued > MAX_WAIT_SECONDS and not self._queue.empty():
            raise QueueFull(f"requests wait longer than {MAX_WAIT_SECONDS:g} s; try again in a second")
        try:
            self._queue.put_nowait(Queued(record, done, now))
        except queue.Full:
            raise QueueFull(f"{MAX_QUEUED_REQUESTS:,} requests are queued; try again in a second") from None
        return done

    def close(self) -> None:
        """Apply the queued requests and stop."""
        while self.alive:
            try:
                self._queue.put(None, timeout=COMMIT_CHECK_SECONDS)
                break
            except queue.Full:
                continue
        self._thread.join()

    def _run(self) -> None:
        """Run until the service is closed; whatever ends the thread, no request is left without an answer."""
        try:
            self._loop()
        finally:
            while not self._queue.empty():
                waiting = self._queue.get_nowait()
                if waiting is not None:
                    waiting.done.set_exception(OSError(ENDED))

    def _loop(self) -> None:
        checked = clocks.monotonic()
        while True:
            try:
                some = [self._queue.get(timeout=COMMIT_CHECK_SECONDS)]
            except queue.Empty:
                some = []
            while some and some[-1] is not None and len(some) < MAX_REQUESTS_PER_FLUSH and not self._queue.empty():
                some.append(self._queue.get_nowait())
            self._queued = math.inf if not some or some[0] is None else some[0].at
            self._post([each for each in some if each is not None])
            self._queued = math.inf
            if clocks.monotonic() - checked > COMMIT_CHECK_SECONDS:
                checked = clocks.monotonic()
                self._commit_if_due()
            if some and some[-1] is None:
                return

    def _commit_if_due(self) -> None:
        try:
            self.service.find_silent()
            self.service.commit_if_due()
        except Exception as error:  # a failed commit is a warning of the service; anything else is a defect
            self.service.broken = f"a commit failed ({type(error).__name__}: {error}); restart the service"

    def _post(self, some: list[Queued]) -> None:
        if not some:
            return
        try:
            responses = self.service.post_many([each.record for each in some])
        except Exception as error:  # the thread must survive any error
            # Without its traceback, which refers to the bodies of the requests.
            responses = [error.with_traceback(None)] * len(some)
        for each, response in zip(some, responses, strict=True):
            if isinstance(response, Exception):
                each.done.set_exception(response)
            else:
                each.done.set_result(response)
