"""One thread that takes requests in the order in which they came: those that wait share one flush to disk."""

import queue
import threading
import time as clocks
from concurrent.futures import Future
from typing import Any

from wolf_fleet.service.service import Service
from wolf_fleet.service.write_ahead_log import Record

WAITING = 1000  # requests that may wait; more are sent away
TOGETHER = 64  # requests of one flush
BEAT = 1.0  # seconds between two looks whether a commit is due


class Busy(Exception):  # noqa: N818
    """Too many requests wait."""


class Worker:
    """The thread, and the queue before it.

    Args:
        service: that nobody else posts to.
    """

    def __init__(self, service: Service):
        self.service = service
        self._queue: queue.Queue[tuple[Record, Future[dict[str, Any]]] | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._run, name="wolf-serve", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether requests are taken."""
        return self._thread.is_alive()

    def post(self, record: Record) -> "Future[dict[str, Any]]":
        """Hand in a request; the result is there when it is on disk."""
        done: Future[dict[str, Any]] = Future()
        try:
            self._queue.put_nowait((record, done))
        except queue.Full:
            raise Busy(f"{WAITING:,} requests wait already; try again in a second") from None
        return done

    def close(self) -> None:
        """Take what waits, and end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        looked = clocks.monotonic()
        while True:
            try:
                some = [self._queue.get(timeout=BEAT)]
            except queue.Empty:
                some = []
            while some and some[-1] is not None and len(some) < TOGETHER and not self._queue.empty():
                some.append(self._queue.get_nowait())
            self._post([each for each in some if each is not None])
            if clocks.monotonic() - looked > BEAT:
                looked = clocks.monotonic()
                self.service.commit_if_due()
            if some and some[-1] is None:
                return

    def _post(self, some: list[tuple[Record, "Future[dict[str, Any]]"]]) -> None:
        if not some:
            return
        try:
            answers = self.service.post_many([record for record, _ in some])
        except Exception as error:  # the thread must outlive what it is given
            answers = [error] * len(some)
        for (_, done), answer in zip(some, answers, strict=True):
            if isinstance(answer, Exception):
                done.set_exception(answer)
            else:
                done.set_result(answer)
