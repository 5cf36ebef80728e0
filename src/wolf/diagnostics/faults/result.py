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
MIN_TIME_WIDTH = 12  # characters of the first column


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
        index: labels of the steps, such as dates, which texts and tables then use.
        names: of the sensors.
    """

    findings: tuple[Finding, ...]
    steps: int
    causes: tuple[Cause, ...] = ()
    index: Any = None
    names: tuple[str, ...] | None = None

    def label(self, step: int) -> str:
        """Return the label of a step: its date or number in the index, or the number of the step."""
        return str(step if self.index is None else self.index[step]).removesuffix(" 00:00:00")

    def sensor_name(self, sensor: int | None) -> str:
        """Return the name of a sensor; empty for all of them."""
        return "" if sensor is None else self.names[sensor] if self.names else f"sensor {sensor}"

    def _span(self, first: int, last: int) -> str:
        between = "-" if self.index is None else " to "
        return self.label(first) if first == last else f"{self.label(first)}{between}{self.label(last)}"

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
        if self.index is not None:
            columns = {"time": np.asarray(self.index)[columns["step"].astype(int)]} | columns
        if self.names is not None:
            columns["sensor"] = np.array([self.sensor_name(finding.sensor) for finding in self])
        return data_frame.make_frame([columns], backend)

    def __repr__(self) -> str:
        """Format causes and findings as a table, with neighbouring findings of one kind in one row."""
        summary = ", ".join(f"{count} {kind}" for kind, count in self.counts.items()) or "nothing to explain"
        lines = [f"Explanation: {self.steps} steps, {summary}"]
        causes = self.causes[:MAX_ROWS_IN_REPR]
        spans = [self._span(cause.first, cause.last) for cause in causes]
        rows = _group_findings(self.findings)
        shown = rows[:MAX_ROWS_IN_REPR]
        when = [self._span(row[0].step, row[-1].step) for row in shown]
        width = max([MIN_TIME_WIDTH, *(len(each) + 2 for each in [*spans, *when])])
        for span, cause in zip(spans, causes, strict=True):
            where = "" if cause.sensor is None else f"{self.sensor_name(cause.sensor)}  "
            lines.append(f"  {span:<{width}}{cause.kind:<14}{_format_size(cause.size):<10}{where}{cause.sentence}")
        if len(self.causes) > MAX_ROWS_IN_REPR:
            lines.append(f"  ... and {len(self.causes) - MAX_ROWS_IN_REPR} more")
        lines += ["measurement by measurement"] if self.findings else []
        for span, row in zip(when, shown, strict=True):
            first, size = row[0], max(finding.size for finding in row)
            where = "" if first.sensor is None else f"{self.sensor_name(first.sensor)}  "
            lines.append(f"  {span:<{width}}{where}{first.kind:<12}{_format_size(size):<10}{first.sentence}")
        if len(rows) > MAX_ROWS_IN_REPR:
            lines.append(f"  ... and {len(rows) - MAX_ROWS_IN_REPR} more")
        return "\n".join(lines)


def _format_size(size: float) -> str:
    return f"{size:.3g} sd" if np.isfinite(size) else ""


def _group_findings(findings: tuple[Finding, ...]) -> list[list[Finding]]:
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
    return rows
