"""Result of `explain`: a finding per rejected or missing measurement, causes per series, and a table of both."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from wolf.results.views import data_frame

KINDS = ("outlier", "jump", "stuck", "biased", "missing", "false alarm", "unclear")
CAUSES = ("outlier", "burst", "bias", "drift", "stuck", "jump", "level shift", "noise change", "missing")
MAX_ROWS_IN_REPR = 25  # rows of a table


@dataclasses.dataclass(frozen=True)
class Finding:
    """Diagnosis of one rejected or missing measurement.

    Attributes:
        step: step of the measurement.
        sensor: coordinate; None for the whole measurement, if the method weights it as a whole.
        kind: one of `KINDS`.
        size: distance from the prediction in standard deviations; NaN if missing.
        interval: first and last step of the interval of rejected measurements that contains it.
        sentence: the evidence in words.
        evidence: the evidence in numbers, by name.
    """

    step: int
    sensor: int | None
    kind: str
    size: float
    interval: tuple[int, int]
    sentence: str
    evidence: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Cause:
    """A fault or event in a series.

    Attributes:
        kind: one of `CAUSES`.
        first: first step.
        last: last step; for a jump and a level shift, the first.
        sensor: coordinate; None for all of them, or if it cannot be identified.
        size: size in standard deviations of the noise; for a noise change, the factor on them; NaN where undefined.
        sentence: description in words.
    """

    kind: str
    first: int
    last: int
    sensor: int | None
    size: float
    sentence: str


@dataclasses.dataclass(frozen=True, repr=False)
class Explanation:
    """Findings and causes of a run, in the order of time.

    Attributes:
        findings: one per rejected or missing measurement.
        steps: number of steps of the run.
        causes: faults and events of the series.
    """

    findings: tuple[Finding, ...]
    steps: int
    causes: tuple[Cause, ...] = ()

    def __iter__(self) -> Iterator[Finding]:
        """Iterate over the findings."""
        return iter(self.findings)

    def __len__(self) -> int:
        """Count the findings."""
        return len(self.findings)

    def __getitem__(self, index: int) -> Finding:
        """Return one finding."""
        return self.findings[index]

    @property
    def counts(self) -> dict[str, int]:
        """Number of findings of each kind."""
        found = Counter(finding.kind for finding in self.findings)
        return {kind: found[kind] for kind in KINDS if found[kind]}

    def to_frame(self, backend: str = "pandas") -> Any:
        """Return the findings as a data frame; `backend` as in `Filtered.to_frame`."""
        sensors = [-1 if finding.sensor is None else finding.sensor for finding in self]
        columns = {
            "step": np.array([finding.step for finding in self]),
            "sensor": np.array(sensors),
            "kind": np.array([finding.kind for finding in self]),
            "size": np.array([finding.size for finding in self]),
            "sentence": np.array([finding.sentence for finding in self]),
        }
        return data_frame.make_frame([columns], backend)

    def __repr__(self) -> str:
        """Format causes and findings as a table, with neighbouring findings of one kind in one row."""
        summary = ", ".join(f"{count} {kind}" for kind, count in self.counts.items()) or "nothing to explain"
        lines = [f"Explanation: {self.steps} steps, {summary}"]
        for cause in self.causes[:MAX_ROWS_IN_REPR]:
            steps = str(cause.first) if cause.first == cause.last else f"{cause.first}-{cause.last}"
            where = "" if cause.sensor is None else f"sensor {cause.sensor}  "
            lines.append(f"  {steps:<12}{cause.kind:<14}{_format_size(cause.size):<10}{where}{cause.sentence}")
        if len(self.causes) > MAX_ROWS_IN_REPR:
            lines.append(f"  ... and {len(self.causes) - MAX_ROWS_IN_REPR} more")
        lines += ["measurement by measurement"] if self.findings else []
        rows = _group_findings(self.findings)
        for steps, sensor, kind, size, sentence in rows[:MAX_ROWS_IN_REPR]:
            where = "" if sensor is None else f"sensor {sensor}  "
            lines.append(f"  {steps:<12}{where}{kind:<12}{_format_size(size):<10}{sentence}")
        if len(rows) > MAX_ROWS_IN_REPR:
            lines.append(f"  ... and {len(rows) - MAX_ROWS_IN_REPR} more")
        return "\n".join(lines)


def _format_size(size: float) -> str:
    return f"{size:.3g} sd" if np.isfinite(size) else ""


def _group_findings(findings: tuple[Finding, ...]) -> list[tuple[str, int | None, str, float, str]]:
    """Group neighbouring findings of one kind, sensor and interval; also consecutive missing ones."""
    rows: list[list[Finding]] = []
    for finding in findings:
        for row in rows[-4:]:
            last = row[-1]
            same = (last.kind, last.sensor) == (finding.kind, finding.sensor)
            near = last.interval == finding.interval or (finding.kind == "missing" and last.step == finding.step - 1)
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
