"""What a person sees while they wait: nothing for two seconds, then one line that says what is being done."""

import shutil
import sys
import threading
import time
from types import TracebackType
from typing import Any

SILENT = 2.0  # seconds before anything is shown
BEAT = 0.5  # seconds between two looks
BAR = 20  # letters of a bar


class Progress:
    """Say on a terminal what is being done, once it takes longer than two seconds; the line is wiped at the end.

    Nothing is written where standard error is not a terminal.

    Args:
        label: what is being done.
        total: steps that it takes; 0 if nobody knows.
        quiet: say nothing.
        unit: what the steps are, where their number a second is worth telling: "rows".

    Example:
        >>> with Progress("Filtering", total=10) as progress:
        ...     progress(3)
        ...     progress.done
        3
    """

    def __init__(self, label: str, total: int = 0, quiet: bool = False, unit: str = ""):
        self.unit = unit
        self.label, self.total, self.done = label, total, 0
        self.file: Any = sys.stderr
        self.shown = not quiet and self.file is not None and self.file.isatty()
        self._over, self._begun, self._thread = (
            threading.Event(),
            0.0,
            threading.Thread(target=self._watch, daemon=True),
        )

    def __call__(self, steps: int = 1) -> None:
        """Count steps that were done."""
        self.done += steps

    def say(self, label: str, total: int = 0) -> None:
        """Go on to something else."""
        self.label, self.total, self.done, self._begun = label, total, 0, time.monotonic()

    def __enter__(self) -> "Progress":
        """Begin to watch."""
        self._begun = time.monotonic()
        if self.shown:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wipe the line."""
        self._over.set()
        if self.shown:
            self._thread.join()

    def _watch(self) -> None:
        wait = SILENT
        while not self._over.wait(wait):
            wait = BEAT
            width = shutil.get_terminal_size().columns - 1
            self.file.write("\r\x1b[K" + self.line(time.monotonic() - self._begun)[:width])
            self.file.flush()
        if wait == BEAT:
            self.file.write("\r\x1b[K")
            self.file.flush()

    def line(self, seconds: float) -> str:
        """Write the line.

        Args:
            seconds: since it began.

        Example:
            >>> Progress("Fitting").line(3.2)
            'Fitting ... 3 s'
            >>> progress = Progress("Filtering", total=4000, unit="rows")
            >>> progress(1000)
            >>> progress.line(2.0)
            'Filtering [#####               ] 25%, 500 rows/s, 2 s, about 6 s left'
        """
        if not self.total or not self.done:
            return f"{self.label} ... {seconds:.0f} s"
        share = min(self.done / self.total, 1.0)
        bar = ("#" * round(BAR * share)).ljust(BAR)
        left = seconds * (1.0 - share) / share
        rate = f"{self.done / seconds:,.0f} {self.unit}/s, " if self.unit and seconds else ""
        return f"{self.label} [{bar}] {share:.0%}, {rate}{seconds:.0f} s, about {left:.0f} s left"
