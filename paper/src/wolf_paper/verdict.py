"""How what we measured compares with what was reported: ``expected.toml`` read, and one verdict for each entry.

A line stands in the table of its experiment, under the name of its measure::

    [sources]
    table-2 = {kind = "paper", title = "paper, table 2", where = "tab:2d-ssm-running-time"}

    [reasons]
    broadcast = {cause = "paper", text = "why figures differ"}

    [tracking-student]
    "KF J0" = {source = "table-2", value = 91.7, tolerance = 0.03, reason = "broadcast", ours = [40, 42]}

The tolerance is relative; instead of a value there may be `range = [90, 93]`, or `claim = true`, which holds if the
measure is above 0; an entry with none of these says that no number was reported. `ours` is where our figure must lie
for the reason to explain it. `scale = "paper"`: judged at that scale only. `afterwards = true`: the limit was set when
the result was known; met, it is counted by itself. `measure = "..."` names the measure where two entries share it.
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
KINDS = ("paper", "repository", "rerun", "theory", "ours")
CAUSES = {"paper": "an error in the paper or its code", "choice": "a choice of ours", "noise": "noise"}
KEYS = {"source", "measure", "value", "tolerance", "range", "claim", "reason", "ours", "scale", "afterwards"}
FILE = Path(__file__).with_name("expected.toml")


@dataclass(frozen=True)
class Source:
    """Who reported a figure: one of `KINDS`, a title, and where it stands."""

    kind: str
    title: str
    where: str


@dataclass(frozen=True)
class Reason:
    """Why figures differ: one of `CAUSES`, in a sentence."""

    cause: str
    text: str


@dataclass(frozen=True)
class Expected:
    """One entry of ``expected.toml``; see there."""

    name: str
    measure: str
    source: Source
    value: float | None = None
    tolerance: float = 0.0
    range: tuple[float, float] | None = None
    claim: bool = False
    reason: Reason | None = None
    ours: tuple[float, float] | None = None
    scale: str | None = None
    afterwards: bool = False

    def text(self) -> str:
        """Format what was expected."""
        if self.claim:
            return "holds"
        if self.range is not None:
            return f"{self.range[0]:g} to {self.range[1]:g}"
        return "" if self.value is None else f"{self.value:.4g} ± {100 * self.tolerance:.3g} %"

    def met_by(self, measured: float) -> bool:
        """Return whether a figure of ours is what was expected."""
        if self.claim:
            return measured > 0
        if self.range is not None:
            return self.range[0] <= measured <= self.range[1]
        assert self.value is not None
        return abs(measured - self.value) <= self.tolerance * abs(self.value)


@dataclass(frozen=True)
class Verdict:
    """Result of one entry.

    Attributes:
        name: of the entry.
        source: its title.
        kind: of the source, one of `KINDS`.
        where: the figure stands there.
        expected: what, in words.
        measured: ours; NaN if there is none.
        status: one of `AGREES`, `AFTERWARDS`, `DIFFERS`, `UNEXPLAINED`, `NO_NUMBER`, `NO_DATA`.
        cause: of a difference, one of `CAUSES`.
        note: why it differs.
    """

    name: str
    source: str
    kind: str
    where: str
    expected: str
    measured: float
    status: str
    cause: str = ""
    note: str = ""

    @property
    def text(self) -> str:
        """Format it."""
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
    source, reason = entry.source, entry.reason

    def verdict(status: str, because: Reason | None = None) -> Verdict:
        cause, text = ("", "") if because is None else (because.cause, because.text)
        return Verdict(entry.name, source.title, source.kind, source.where, entry.text(), figure, status, cause, text)

    if entry.measure not in measured and not complete:
        return verdict(NO_DATA)
    if entry.value is None and entry.range is None and not entry.claim:
        return verdict(NO_NUMBER, reason)
    if entry.measure not in measured:
        return verdict(UNEXPLAINED, Reason("", "nothing was measured under this name"))
    if entry.met_by(figure):
        return verdict(AFTERWARDS if entry.afterwards else AGREES)
    explained = reason is not None and (entry.ours is None or entry.ours[0] <= figure <= entry.ours[1])
    return verdict(DIFFERS, reason) if explained and not math.isnan(figure) else verdict(UNEXPLAINED)


@cache
def expected() -> dict[str, list[Expected]]:
    """Read ``expected.toml``: entries by experiment."""
    return parse(tomllib.loads(FILE.read_text(encoding="utf-8")))


def parse(tables: dict[str, Any]) -> dict[str, list[Expected]]:
    """Convert tables to entries; unknown keys, sources and reasons are errors.

    Example:
        >>> sources = {"paper": {"kind": "paper", "title": "paper", "where": ""}}
        >>> tables = {"sources": sources, "intro": {"error": {"source": "paper", "value": 2.0, "tolerance": 0.1}}}
        >>> parse(tables)["intro"][0].met_by(2.1)
        True
    """
    tables = dict(tables)
    sources = {name: Source(**fields) for name, fields in tables.pop("sources", {}).items()}
    reasons = {name: Reason(**fields) for name, fields in tables.pop("reasons", {}).items()}
    if not {each.kind for each in sources.values()} <= set(KINDS) or not {
        each.cause for each in reasons.values()
    } <= set(CAUSES):
        raise ValueError(f"expected.toml: a kind is one of {KINDS}, a cause one of {tuple(CAUSES)}")
    return {
        experiment: [
            _entry(f"{experiment}.{name}", name, dict(entry), sources, reasons) for name, entry in table.items()
        ]
        for experiment, table in tables.items()
    }


def _entry(
    where: str, name: str, entry: dict[str, Any], sources: dict[str, Source], reasons: dict[str, Reason]
) -> Expected:
    unknown = sorted(entry.keys() - KEYS)
    if unknown or entry.get("source") not in sources:
        wrong = f"unknown {unknown}" if unknown else f"source must be one of {sorted(sources)}"
        raise ValueError(f"{where} in expected.toml: {wrong}")
    if len({"value", "range", "claim"} & entry.keys()) > 1:
        raise ValueError(f"{where} in expected.toml: give one of value, range and claim")
    if "reason" in entry and entry["reason"] not in reasons:
        raise ValueError(f"{where} in expected.toml: reason must be one of {sorted(reasons)}")
    for key in {"range", "ours"} & entry.keys():
        entry[key] = (float(entry[key][0]), float(entry[key][1]))
    entry["source"] = sources[entry["source"]]
    if "reason" in entry:
        entry["reason"] = reasons[entry["reason"]]
    return Expected(name, entry.pop("measure", name), **entry)
