"""How what we measured compares with what was reported: ``expected.toml`` read, and one verdict for each entry.

An entry stands under the name of its experiment and of its measure::

    [tracking-student.kf_j0]
    source = "paper, figure 3"
    value = 91.7            # and tolerance = 0.03, relative; or range = [90, 93]; or claim = true
    note = "why it differs, if it does"
    ours = [40, 42]         # where our figure must lie for the note to explain it
    scale = "paper"         # judged at that scale only
    afterwards = true       # the limit was set when the result was known: met, it is counted by itself

``measure = "..."`` names the measure where two entries speak of the same one. A `claim` holds if the measure is
above 0. An entry with neither of these says that the paper gives no number.
"""

import math
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

AGREES = "agrees"
AFTERWARDS = "within a limit set afterwards"
DIFFERS = "differs because"
UNEXPLAINED = "differs, unexplained"
NO_NUMBER = "paper gives no number"
NO_DATA = "not run: no data"
MATCH = 0.1  # a method matches another if its error is at most so much larger: the tolerance of the published tables
KEYS = {"source", "measure", "value", "tolerance", "range", "claim", "note", "ours", "scale", "afterwards"}
FILE = Path(__file__).with_name("expected.toml")


@dataclass(frozen=True)
class Expected:
    """One entry of ``expected.toml``; see there."""

    name: str
    measure: str
    source: str
    value: float | None = None
    tolerance: float = 0.0
    range: tuple[float, float] | None = None
    claim: bool = False
    note: str = ""
    ours: tuple[float, float] | None = None
    scale: str | None = None
    afterwards: bool = False

    def text(self) -> str:
        """Say what was expected."""
        if self.claim:
            return "holds"
        if self.range is not None:
            return f"{self.range[0]:g} to {self.range[1]:g}"
        return "" if self.value is None else f"{self.value:.4g} ± {100 * self.tolerance:.3g} %"

    def met_by(self, measured: float) -> bool:
        """Say whether a figure of ours is what was expected."""
        if self.claim:
            return measured > 0
        if self.range is not None:
            return self.range[0] <= measured <= self.range[1]
        assert self.value is not None
        return abs(measured - self.value) <= self.tolerance * abs(self.value)


@dataclass(frozen=True)
class Verdict:
    """What became of one entry.

    Attributes:
        name: of the entry.
        source: who reported it.
        expected: what, in words.
        measured: ours; NaN if there is none.
        status: one of `AGREES`, `AFTERWARDS`, `DIFFERS`, `UNEXPLAINED`, `NO_NUMBER`, `NO_DATA`.
        note: why it differs.
    """

    name: str
    source: str
    expected: str
    measured: float
    status: str
    note: str = ""

    @property
    def text(self) -> str:
        """Write it out."""
        return f"{DIFFERS} {self.note}" if self.status == DIFFERS else self.status


def matches(ours: float, rivals: Iterable[float]) -> float:
    """Say by how much an error matches the smallest of others, or outperforms it; below 0 it does neither.

    Example:
        >>> matches(1.05, [1.0, 3.0]) > 0, matches(1.2, [1.0, 3.0]) > 0
        (True, False)
    """
    return (1.0 + MATCH) * min(rivals) / ours - 1.0


def judge(
    experiment: str,
    measured: dict[str, float],
    scale: str,
    *,
    complete: bool = True,
    sized: bool = True,
    entries: list[Expected] | None = None,
) -> list[Verdict]:
    """Compare the figures of an experiment with the entries of ``expected.toml``.

    Args:
        experiment: its name.
        measured: figures by name.
        scale: that it was run at.
        complete: whether all parts had their data; if not, a figure that is missing was not run.
        sized: whether it was run with the trials of its scale; if not, entries of one scale are left out.
        entries: instead of those in the file.
    """
    chosen = expected().get(experiment, []) if entries is None else entries
    return [
        _judge(entry, measured, complete) for entry in chosen if entry.scale is None or (sized and entry.scale == scale)
    ]


def _judge(entry: Expected, measured: dict[str, float], complete: bool) -> Verdict:
    figure = float(measured.get(entry.measure, math.nan))

    def say(status: str, note: str = "") -> Verdict:
        return Verdict(entry.name, entry.source, entry.text(), figure, status, note)

    if entry.measure not in measured and not complete:
        return say(NO_DATA)
    if entry.value is None and entry.range is None and not entry.claim:
        return say(NO_NUMBER, entry.note)
    if entry.measure not in measured:
        return say(UNEXPLAINED, "nothing was measured under this name")
    if entry.met_by(figure):
        return say(AFTERWARDS if entry.afterwards else AGREES)
    explained = bool(entry.note) and (entry.ours is None or entry.ours[0] <= figure <= entry.ours[1])
    return say(DIFFERS, entry.note) if explained and not math.isnan(figure) else say(UNEXPLAINED)


@cache
def expected() -> dict[str, list[Expected]]:
    """Read ``expected.toml``: entries by experiment."""
    return parse(tomllib.loads(FILE.read_text(encoding="utf-8")))


def parse(tables: dict[str, Any]) -> dict[str, list[Expected]]:
    """Turn tables into entries, refusing what is not known.

    Example:
        >>> parse({"intro": {"error": {"source": "paper", "value": 2.0, "tolerance": 0.1}}})["intro"][0].met_by(2.1)
        True
    """
    return {
        experiment: [_entry(f"{experiment}.{name}", name, dict(entry)) for name, entry in table.items()]
        for experiment, table in tables.items()
    }


def _entry(where: str, name: str, entry: dict[str, Any]) -> Expected:
    unknown = sorted(entry.keys() - KEYS)
    if unknown or "source" not in entry:
        raise ValueError(f"{where} in expected.toml: {f'unknown {unknown}' if unknown else 'it needs a source'}")
    if len({"value", "range", "claim"} & entry.keys()) > 1:
        raise ValueError(f"{where} in expected.toml: give one of value, range and claim")
    for key in {"range", "ours"} & entry.keys():
        entry[key] = (float(entry[key][0]), float(entry[key][1]))
    return Expected(name, entry.pop("measure", name), **entry)
