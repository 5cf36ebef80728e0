"""What all measurements of speed share: CPU time in turn, agreement, a store of rows, and tables in the documentation.

CPU time of the process, all threads, the smallest of several runs that take turns: a busy machine slows all alike, so
read the ratios.
"""

import json
import os
import platform
import textwrap
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
RESULTS = Path(__file__).parent / "results"  # of tables that are too long for a page
STORE = Path(__file__).parents[1] / "build" / "bench.json"
OURS = ("KF", "WoLF", "default")
OTHERS = ("C++", "OpenCV", "filterpy", "simdkalman", "statsmodels", "dynamax", "pykalman")
WIDTH = 120  # of lines in the documentation
CLOSE = 1e-6  # of the largest number, within which those who compute the same must agree


class Run(NamedTuple):
    """Something to time.

    Attributes:
        call: does it.
        count: how many units (steps, keys) it does.
        start: makes ready, outside of the clock; `call` takes what it gives.
    """

    call: Callable[..., Any]
    count: int = 1
    start: Callable[[], Any] | None = None


def cpu_times(runs: dict[str, Run], rounds: int, pause: float = 0.0) -> dict[str, float]:
    """Give CPU seconds for each unit of every run: all in turn, after a warm-up, the smallest of all rounds.

    Args:
        runs: by name.
        rounds: how often.
        pause: seconds before each run, in which the threads of the one before go to sleep.
    """
    best = dict.fromkeys(runs, np.inf)
    for name in [*runs] * (rounds + 1):  # the first round warms up: its times are never the smallest
        run = runs[name]
        given = () if run.start is None else (run.start(),)
        time.sleep(pause)
        begun = time.process_time()
        result = run.call(*given)
        best[name] = min(best[name], (time.process_time() - begun) / run.count)
        del result  # after the clock: handing a large result back to the system is not part of making it
    return best


def check_agreement(label: str, expected: np.ndarray, found: dict[str, np.ndarray]) -> None:
    """End the run if somebody who should compute the same does not."""
    size = np.abs(expected).max()
    for name, values in found.items():
        apart = np.abs(np.asarray(values) - expected[: len(values)]).max() / size
        if not apart < CLOSE:
            raise SystemExit(f"{label}: {name} differs from wolf by {apart:.1e} of the largest value")


class Section(NamedTuple):
    """A part of the table.

    Attributes:
        title: of the part.
        unit: of its numbers.
        factor: from seconds to that.
        rows: label -> who -> seconds.
        note: what is to be said of it.
    """

    title: str
    unit: str
    factor: float
    rows: dict[str, dict[str, float]]
    note: str = ""


class Others:
    """How much of the machine's time others take from here on; the load average where that is not available."""

    def __init__(self) -> None:
        self.begun = self._seconds()

    def _seconds(self) -> tuple[float, float, float] | None:
        """Give the CPU seconds of all processes, those there were, and our own."""
        if not Path("/proc/stat").exists():
            return None
        counts = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        ticks, idle = os.sysconf("SC_CLK_TCK"), counts[3] + counts[4]
        return (sum(counts) - idle) / ticks, sum(counts) / ticks, sum(os.times()[:4])

    def share(self) -> str:
        """Say it in words."""
        now = self._seconds()
        if self.begun is None or now is None:
            return f"load {os.getloadavg()[0]:.1f}"
        busy, whole, own = (b - a for a, b in zip(self.begun, now, strict=True))
        return f"{100 * max(busy - own, 0.0) / max(whole, 1e-9):.0f} %"


def keep(name: str, section: Section, load: str) -> None:
    """Put a part into the store, and show it."""
    STORE.parent.mkdir(exist_ok=True)
    known = json.loads(STORE.read_text()) if STORE.exists() else {}
    known[name] = {**section._asdict(), "load": load, "date": date.today().isoformat()}
    STORE.write_text(json.dumps(known, indent=1))
    print("\n".join(part_lines(section)), flush=True)


def part_lines(section: Section) -> list[str]:
    """Write a part as rows of the table."""
    lines = [f"| **{section.title}**, {section.unit} |" + " |" * len(OURS + OTHERS)]
    for label, row in section.rows.items():
        cells = [number(row[name] * section.factor) if name in row else "" for name in OURS]
        base = row.get("KF")
        for name in OTHERS:
            if name not in row:
                cells.append("")
            elif base is None:
                cells.append(number(row[name] * section.factor))
            else:
                cells.append(f"{number(row[name] * section.factor)} ({number(row[name] / base)}x)")
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return lines


def number(value: float) -> str:
    """Write a number with two digits, or all those before its point."""
    if value >= 9.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def table(known: dict[str, Any], order: list[str]) -> list[str]:
    """Put the parts together to one table, with what is to be said below it."""
    lines = ["| | " + " | ".join(OURS + OTHERS) + " |", "|---|" + "---|" * len(OURS + OTHERS)]
    notes = []
    for name in order:
        if name in known:
            section = Section(**{field: known[name][field] for field in Section._fields})
            lines += part_lines(section)
            notes += [*wrapped(f"**{section.title}.** {section.note}"), ""] if section.note else []
    return [*lines, "", *notes]


def wrapped(text: str) -> list[str]:
    """Break a paragraph into lines."""
    return textwrap.wrap(text, WIDTH, break_on_hyphens=False)


def machine(versions: dict[str, str]) -> str:
    """Describe the machine and what ran on it."""
    processor = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            processor = line.split(":")[1].strip()
            break
    listed = ", ".join(f"{name} {number}" for name, number in versions.items())
    return f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}; {listed}"


def write_page(name: str, lines: list[str], page: Path = PAGE) -> None:
    """Put lines between the two marks of a name in the page."""
    first, last = f"<!-- bench: {name} -->", f"<!-- end of bench: {name} -->"
    text = page.read_text()
    before, found, rest = text.partition(first)
    _, ended, after = rest.partition(last)
    if not found or not ended:
        raise SystemExit(f"{page} lacks the marks {first} and {last}")
    page.write_text(f"{before}{first}\n\n" + "\n".join(lines).strip() + f"\n\n{last}{after}")
