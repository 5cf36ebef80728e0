"""`explain`: the diagnosis of each rejected measurement of a finished run, with its evidence.

Later measurements distinguish what a single step cannot. A rejected measurement is compared with the prediction from
the measurements after it (`local_smoother.py`): if they agree with it and not with the earlier ones, the state jumped;
if earlier and later ones agree with each other and not with it, it was false, and its neighbours decide whether it was
an isolated outlier, or part of a stuck or biased interval. Where the filter accepts jumps after consistent rejections,
the accepted jumps are backdated (`wolf.engine.jump_backdating`): jumps to their first step, and bursts that came back.
A sensor that repeats one value is stuck, whether it was rejected or not.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from wolf.api import backdate_jumps
from wolf.diagnostics.faults.explanation import find_causes
from wolf.diagnostics.faults.innovations import (
    MIN_AGREEMENT_PROBABILITY,
    InnovationRecord,
    Interval,
    constant_bias,
    innovation_record,
    is_self_consistent,
    returns_to_start,
)
from wolf.diagnostics.faults.isolated_outliers import SENTENCE, isolated_outliers
from wolf.diagnostics.faults.result import Explanation, Finding
from wolf.diagnostics.faults.two_sided_test import TwoSidedTest, two_sided_tests
from wolf.numerics.precision import precision
from wolf.results import Filtered

MAX_ACCEPTED_BETWEEN = 2  # accepted steps between two rejected measurements of one interval
MAX_INTERVAL_STEPS = 1000  # steps of an interval; longer ones are split
MAX_LATER_INTERVALS = 6  # later intervals that are considered as the end of an excursion
MAX_EXCURSION_STEPS = 100  # steps between an interval and the end of its excursion


class IntervalDiagnosis(NamedTuple):
    """Diagnosis of one interval of rejected measurements.

    Attributes:
        interval: the interval.
        findings: one per rejected measurement.
        shift: estimated shift of the state at its start, (D,).
    """

    interval: Interval
    findings: list[Finding]
    shift: np.ndarray


def explain(out: Filtered) -> Explanation:
    """Diagnose every rejected measurement of a run, and the faults and events of the series.

    Args:
        out: one series, from `wolf.filter` with `save="all"`, by a Gaussian filter.

    Returns:
        An `Explanation`: findings with their evidence, and causes. Its `repr` is a table.

    Example:
        >>> import numpy as np, wolf
        >>> model = wolf.models.local_level(level_var=0.01, obs_var=1.0)
        >>> ys = np.random.default_rng(0).normal(size=60)
        >>> ys[20] += 30.0
        >>> ys[40:] += 30.0
        >>> found = wolf.explain(wolf.filter(model, ys, method="WoLF-TMD"))
        >>> found[0].step, found[0].kind, found[1].step, found[1].kind
        (20, 'outlier', 40, 'jump')
    """
    _check_result(out)
    out = backdate_jumps(out.model, out)
    dtype = out.settings["dtype"]
    with precision(dtype):
        record = innovation_record(out, dtype)
        isolated = isolated_outliers(record, out)
        intervals = [Interval(j, *ends) for j in record.channels for ends in _rejected_intervals(record, j, isolated)]
        diagnoses = _merge_excursions(record, _diagnose_all(record, intervals))
    findings = [
        *_isolated_outliers(record, isolated),
        *_missing_findings(record),
        *(finding for diagnosis in diagnoses for finding in diagnosis.findings),
        *_accepted_jumps(record, out),
    ]
    findings += _accepted_stuck_values(record, {(finding.step, finding.sensor) for finding in findings})
    ordered = sorted(findings, key=lambda f: (f.step, -1 if f.sensor is None else f.sensor))
    causes = tuple(find_causes(record, out, ordered, isolated))
    return Explanation(tuple(ordered), len(out), causes, out.index, out.obs_names)


def _check_result(out: object) -> None:
    if not isinstance(out, Filtered):
        raise ValueError(f"explain needs a result of wolf.filter; got {type(out).__name__}")
    if out.num_series is not None:
        raise ValueError("explain needs one series, such as out[0]; got several")
    if out.settings["save"] != "all":
        raise ValueError(f'explain needs the predictions: filter with save="all", not save={out.settings["save"]!r}')
    if "slice" in out.settings:
        raise ValueError("explain needs the whole result; a slice lacks the measurements after it")
    if int(out.final.t) != out.settings["steps"]:
        raise ValueError("explain needs a whole series; got a later chunk of one")
    if out.method.linearization is None:
        raise ValueError(f"explain needs a Gaussian filter, such as method='WoLF'; got {type(out.method).__name__}")


def _missing_findings(record: InnovationRecord) -> Iterator[Finding]:
    """List missing measurements: whole ones, and single coordinates."""
    missing = np.isnan(record.ys)
    for t in np.flatnonzero(missing.all(axis=1)):
        yield Finding(int(t), None, "missing", np.nan, (int(t), int(t)), "no measurement", {})
    for t, j in np.argwhere(missing & ~missing.all(axis=1, keepdims=True)):
        yield Finding(int(t), int(j), "missing", np.nan, (int(t), int(t)), "this coordinate is missing", {})


def _accepted_jumps(record: InnovationRecord, out: Filtered) -> Iterator[Finding]:
    """List the jumps that the filter accepted after consistent rejections, each at its first step."""
    inflations = out.saved.get("inflations", np.ones(len(out)))
    stuck = record.repeats.max(axis=1) > 0  # repeated values are consistent with themselves
    for t in np.flatnonzero((inflations > 1.0) & ~stuck).tolist():
        shift = out.means[t] - out.predicted_means[t]
        sentence = f"measurements from here on agree with each other: the state shifted by ({_numbers(shift)})"
        size = float(np.sqrt(record.nis[t])) if np.isfinite(record.nis[t]) else np.nan
        yield Finding(t, None, "jump", size, (t, t), sentence, {"inflation": float(inflations[t])})


def _accepted_stuck_values(record: InnovationRecord, known: set[tuple[int, int | None]]) -> Iterator[Finding]:
    """List repeated values that were accepted; they may be close to the prediction for a long time."""
    for channel in record.channels:
        repeats = record.repeats[:, record.coordinates(channel)].max(axis=1)
        groups = np.split(np.arange(len(repeats)), np.flatnonzero(np.diff(repeats) != 0) + 1)
        for group in groups:
            ends = (int(group[0]), int(group[-1]))
            for t in group[repeats[group] > 0].tolist():
                if (t, channel) not in known:
                    sentence = f"the same value for {repeats[t]} steps"
                    evidence = {"repeats": float(repeats[t])}
                    yield Finding(t, channel, "stuck", record.size(channel, t), ends, sentence, evidence)


def _isolated_outliers(record: InnovationRecord, isolated: np.ndarray) -> Iterator[Finding]:
    """List outliers that need no further test."""
    for channel in record.channels:
        for t in np.flatnonzero(isolated[:, record.coordinates(channel)].any(axis=1)).tolist():
            yield Finding(t, channel, "outlier", record.size(channel, t), (t, t), SENTENCE, {"rejected_steps": 1.0})


def _rejected_intervals(record: InnovationRecord, channel: int | None, known: np.ndarray) -> Iterator[tuple[int, int]]:
    """Group rejected steps that are close to each other, not counting missing and known steps between them."""
    columns = record.coordinates(channel)
    present = np.flatnonzero((~np.isnan(record.ys[:, columns]) & ~known[:, columns]).any(axis=1))
    rejected = np.flatnonzero(record.rejected_steps(channel)[present])
    if not len(rejected):
        return
    breaks = np.flatnonzero(np.diff(rejected) > MAX_ACCEPTED_BETWEEN + 1)
    for part in np.split(present[rejected], breaks + 1):
        for first in range(0, len(part), MAX_INTERVAL_STEPS):
            group = part[first : first + MAX_INTERVAL_STEPS]
            yield int(group[0]), int(group[-1])


def _diagnose_all(record: InnovationRecord, intervals: list[Interval]) -> list[IntervalDiagnosis]:
    """Smooth the surroundings of intervals, and diagnose their rejected measurements."""
    return [
        IntervalDiagnosis(test.interval, list(_diagnose(record, test)), test.shift)
        for test in two_sided_tests(record, intervals)
    ]


def _merge_excursions(record: InnovationRecord, diagnoses: list[IntervalDiagnosis]) -> list[IntervalDiagnosis]:
    """Merge two intervals if the state before the first equals the state after the second.

    A filter follows a sensor's bias after a while, and the end of the bias then looks like a jump back.
    """
    pairs = []
    for i, diagnosis in enumerate(diagnoses):
        channel, first, last = diagnosis.interval
        for k in range(i + 1, min(i + 1 + MAX_LATER_INTERVALS, len(diagnoses))):
            other = diagnoses[k]
            near = other.interval.channel == channel and other.interval.first - last <= MAX_EXCURSION_STEPS
            if near and any(finding.kind == "jump" for finding in other.findings):
                pairs.append((i, k, Interval(channel, first, other.interval.last)))
    found: dict[int, tuple[int, IntervalDiagnosis]] = {}
    for (i, k, merged), test in zip(pairs, two_sided_tests(record, [merged for _, _, merged in pairs]), strict=True):
        if i not in found and returns_to_start(record, merged, test.later_only, diagnoses[k].shift):
            found[i] = k, IntervalDiagnosis(merged, list(_diagnose(record, test)), diagnoses[i].shift)
    result: list[IntervalDiagnosis] = []
    merged_up_to = -1
    for i, diagnosis in enumerate(diagnoses):
        if i > merged_up_to:
            merged_up_to, diagnosis = found.get(i, (i, diagnosis))
            result.append(diagnosis)
    return result


def _diagnose(record: InnovationRecord, test: TwoSidedTest) -> Iterator[Finding]:
    """Diagnose each rejected measurement of an interval."""
    channel, first, last = test.interval
    steps, probability = test.steps, test.agreement_probability
    state_jumped = probability < MIN_AGREEMENT_PROBABILITY
    outlying = steps[~test.agrees_with_both]
    biased, offset = constant_bias(record, test.interval, outlying, test.two_sided)
    continues = test.own is not None and is_self_consistent(record, test.interval, steps, test.own)
    rows = (steps, test.agrees_with_both, test.agrees_with_later, test.distances, test.informative)
    for t, agrees_with_both, agrees_with_later, distance, informative in zip(
        *(row.tolist() for row in rows), strict=True
    ):
        repeats = int(record.repeats[t, record.coordinates(channel)].max())
        kind = "outlier"
        if not np.isfinite(record.ys[t, record.measured_coordinates(channel, t, include_infinite=True)]).all():
            sentence = "non-finite or too large"
        elif repeats:
            kind, sentence = "stuck", f"the same value for {repeats} steps"
        elif continues:
            kind = "jump"
            sentence = f"from step {first} to the end, measurements agree with each other and not with the filter"
        elif not informative:
            kind, sentence = "unclear", "too few later measurements to compare with"
        elif state_jumped and agrees_with_later:
            kind = "jump"
            sentence = f"{distance:.2g} sd from later measurements: the state shifted by ({_numbers(test.shift)})"
        elif state_jumped:
            sentence = f"{distance:.3g} sd from later measurements, too; the state shifted nearby"
        elif agrees_with_both:
            kind = "false alarm"
            sentence = "agrees with earlier and later measurements: a chance rejection, or the filter had diverged"
        elif biased:
            kind, sentence = "biased", f"offset {offset:.3g} for {len(outlying)} measurements, then back"
        else:
            sentence = f"{distance:.3g} sd from later measurements, which agree with the earlier ones"
        evidence = {
            "distance_from_later": distance,
            "agreement_probability": probability,
            "rejected_steps": float(len(steps)),
            "repeats": float(repeats),
        }
        yield Finding(t, channel, kind, record.size(channel, t), (first, last), sentence, evidence)


def _numbers(values: np.ndarray, limit: int = 4) -> str:
    return ", ".join(f"{value:.3g}" for value in values[:limit]) + (", ..." if len(values) > limit else "")
