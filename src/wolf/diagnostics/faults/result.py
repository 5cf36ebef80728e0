"""What `explain` returns: a finding for each refused or missing measurement, and a table of them."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from wolf.results.views import data_frame

KINDS = ("outlier", "jump", "stuck", "biased", "missing", "false alarm", "unclear")
CAUSES = ("outlier", "burst", "bias", "drift", "stuck", "jump", "level shift", "noise change", "missing")
SHOWN = 25  # lines of a table


@dataclasses.dataclass(frozen=True)
class Finding:
    """One refused or missing measurement.

    Attributes:
        step: when.
        sensor: which coordinate; None for the whole measurement, where it is weighed as one.
        kind: one of `KINDS`.
        size: distance from the prediction in standard deviations; NaN if missing.
        stretch: first and last step of the doubtful stretch that it belongs to.
        sentence: the evidence in words.
        evidence: the evidence in numbers, by name.
    """

    step: int
    sensor: int | None
    kind: str
    size: float
    stretch: tuple[int, int]
    sentence: str
    evidence: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Cause:
    """Something that happened to a series.

    Attributes:
        kind: one of `CAUSES`.
        first: step.
        last: step; that of a jump and of a level shift is the first.
        sensor: which coordinate; None for all of them, or where that cannot be said.
        size: in standard deviations of the noise; of a noise change the factor on them; NaN where there is none.
        sentence: in words.
    """

    kind: str
    first: int
    last: int
    sensor: int | None
    size: float
    sentence: str


@dataclasses.dataclass(frozen=True, repr=False)
class Explanation:
    """What was found, in the order of time.

    Attributes:
        findings: one for each refused or missing measurement.
        steps: of the run.
        causes: what happened, each once.
    """

    findings: tuple[Finding, ...]
    steps: int
    causes: tuple[Cause, ...] = ()

    def __iter__(self) -> Iterator[Finding]:
        """Go through the findings."""
        return iter(self.findings)

    def __len__(self) -> int:
        """Count the findings."""
        return len(self.findings)

    def __getitem__(self, index: int) -> Finding:
        """Take one finding."""
        return self.findings[index]

    @property
    def counts(self) -> dict[str, int]:
        """Number of findings of each kind."""
        found = Counter(finding.kind for finding in self.findings)
        return {kind: found[kind] for kind in KINDS if found[kind]}

    def to_frame(self, backend: str = "pandas") -> Any:
        """Lay the findings out as a data frame; `backend` as in `Filtered.to_frame`."""
        sensors = [-1 if finding.sensor is None else finding.sensor for finding in self]
        columns = {name: np.array([getattr(f, name) for f in self]) for name in ("step", "kind", "size", "sentence")}
        return data_frame.make_frame([{"step": columns.pop("step"), "sensor": np.array(sensors)} | columns], backend)

    def __repr__(self) -> str:
        """Lay the findings out as a table, neighbours of one kind in one line."""
        summary = ", ".join(f"{count} {kind}" for kind, count in self.counts.items()) or "nothing to explain"
        lines = [f"Explained: {self.steps} steps, {summary}"]
        for cause in self.causes[:SHOWN]:
            steps = str(cause.first) if cause.first == cause.last else f"{cause.first}-{cause.last}"
            where = "" if cause.sensor is None else f"sensor {cause.sensor}  "
            lines.append(f"  {steps:<12}{cause.kind:<14}{_deviations(cause.size):<10}{where}{cause.sentence}")
        if len(self.causes) > SHOWN:
            lines.append(f"  ... and {len(self.causes) - SHOWN} more")
        lines += ["measurement by measurement"] if self.findings else []
        rows = _grouped(self.findings)
        for steps, sensor, kind, size, sentence in rows[:SHOWN]:
            where = "" if sensor is None else f"sensor {sensor}  "
            lines.append(f"  {steps:<12}{where}{kind:<12}{_deviations(size):<10}{sentence}")
        if len(rows) > SHOWN:
            lines.append(f"  ... and {len(rows) - SHOWN} more")
        return "\n".join(lines)


def _deviations(size: float) -> str:
    return f"{size:.3g} sd" if np.isfinite(size) else ""


def _grouped(findings: tuple[Finding, ...]) -> list[tuple[str, int | None, str, float, str]]:
    """Put neighbours of one kind, sensor and stretch into one row; missing ones too."""
    rows: list[list[Finding]] = []
    for finding in findings:
        for row in rows[-4:]:
            last = row[-1]
            same = (last.kind, last.sensor) == (finding.kind, finding.sensor)
            near = last.stretch == finding.stretch or (finding.kind == "missing" and last.step == finding.step - 1)
            if same and near:
                row.append(finding)
                break
        else:
            rows.append([finding])
    lines = []
    for row in rows:
        steps = str(row[0].step) if len(row) == 1 else f"{row[0].step}-{row[-1].step}"
        lines.append((steps, row[0].sensor, row[0].kind, max(finding.size for finding in row), row[0].sentence))
    return lines
