"""Names of detected patterns: which kind of cause each of them is, and bursts out of neighbouring short faults."""

import numpy as np

from wolf.diagnostics.faults.edge_pairing import DetectedFault
from wolf.diagnostics.faults.result import Cause, Finding
from wolf.diagnostics.faults.signatures import FaultSignatures
from wolf.diagnostics.faults.variance_changes import VarianceChange
from wolf.engine.jump_backdating import MAX_BURST_LENGTH
from wolf.statespace import LinearModel

MAX_STEPS_BETWEEN = 2  # steps between two false measurements of one burst
SHORT_KINDS = ("outlier", "burst")


def name_fault(
    fault: DetectedFault, deviations: np.ndarray, model: LinearModel, steps: int, signatures: FaultSignatures
) -> Cause:
    """Name a detected pattern.

    Args:
        fault: detected fault, its size in the units of the measurement or state.
        deviations: standard deviations of the measurement noise, (M,).
        model: model with matrices.
        steps: steps of the series.
        signatures: fault signatures of the model.
    """
    candidate, size = fault.candidate, fault.size
    family, length = candidate.pattern
    first, last = candidate.step, min(candidate.step + max(length, 1), steps) - 1
    if family == "jump":
        obs_matrix = np.asarray(model.H)
        relative = np.abs(obs_matrix @ size) / deviations
        if signatures.is_level_shift(size):
            coordinate = int(np.abs(obs_matrix @ size / deviations).argmax())
            offset = float((obs_matrix @ size)[coordinate])
            return Cause("level shift", first, first, None, float(relative.max()), f"permanent shift by {offset:.3g}")
        sentence = f"the state shifted by ({', '.join(f'{value:.3g}' for value in size[:4])})"
        return Cause("jump", first, first, None, float(relative.max()), sentence)
    coordinate = int(np.abs(size / deviations).argmax())
    offset, relative_size = float(size[coordinate]), float(np.abs(size / deviations)[coordinate])
    sensor = candidate.sensor
    if family == "step":
        equals_shift = signatures.step_equals_state_shift
        if equals_shift[sensor] if sensor is not None else equals_shift.all():
            return Cause("level shift", first, first, sensor, relative_size, f"permanent shift by {offset:.3g}")
        return Cause("bias", first, steps - 1, sensor, relative_size, f"offset {offset:.3g} until the end")
    if family in ("ramp", "slope"):
        ending = "then back" if family == "ramp" else "then constant"
        return Cause("drift", first, last, sensor, relative_size, f"drift to {offset:.3g}, {ending}")
    kind = "outlier" if length == 1 else "burst" if length <= MAX_BURST_LENGTH else "bias"
    return Cause(kind, first, last, sensor, relative_size, f"offset {offset:.3g}, then back")


def name_variance_change(change: VarianceChange) -> Cause:
    """Name a change of the noise variance: a burst if it is short and larger, a noise change otherwise."""
    length = change.stop - change.first
    ratio = float(np.sqrt(change.factor))
    if ratio > 1.0 and length <= MAX_BURST_LENGTH + MAX_STEPS_BETWEEN:
        return Cause("burst", change.first, change.stop - 1, None, ratio, "different errors, then back")
    sentence = f"standard deviation of errors {ratio:.2g} times that elsewhere"
    return Cause("noise change", change.first, change.stop - 1, None, ratio, sentence)


def merge_bursts(causes: list[Cause]) -> list[Cause]:
    """Merge short faults that are close to each other into one burst."""
    merged = [cause for cause in causes if cause.kind not in SHORT_KINDS]
    short = sorted((cause for cause in causes if cause.kind in SHORT_KINDS), key=lambda cause: cause.first)
    groups: list[list[Cause]] = []
    end = -np.inf
    for cause in short:
        if cause.first <= end + MAX_STEPS_BETWEEN:
            groups[-1].append(cause)
        else:
            groups.append([cause])
        end = max(end, cause.last)
    for group in groups:
        if len(group) == 1:
            merged.append(group[0])
            continue
        first, last = group[0].first, max(cause.last for cause in group)
        sensors = {cause.sensor for cause in group}
        kind = "outlier" if last == first else "burst"
        sensor = sensors.pop() if len(sensors) == 1 else None
        size = max(cause.size for cause in group)
        merged.append(Cause(kind, first, last, sensor, size, "different errors, then back"))
    return merged


def causes_of_findings(findings: list[Finding]) -> list[Cause]:
    """Group findings about single measurements by interval; for models without fixed matrices."""
    groups: dict[tuple[str, int | None, tuple[int, int]], list[Finding]] = {}
    for finding in findings:
        if finding.kind in ("outlier", "jump", "biased") and np.isfinite(finding.size):
            groups.setdefault((finding.kind, finding.sensor, finding.interval), []).append(finding)
    causes = []
    for (kind, sensor, _), group in groups.items():
        first, last = group[0].step, group[-1].step
        if kind == "biased":
            kind = "burst" if len(group) <= MAX_BURST_LENGTH else "bias"
        elif kind == "jump":
            last = first
        elif len(group) > 1:
            kind = "burst"
        causes.append(Cause(kind, first, last, sensor, max(finding.size for finding in group), group[0].sentence))
    return causes
