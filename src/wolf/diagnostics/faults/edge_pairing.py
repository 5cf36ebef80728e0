"""Pairing of edges: which start and end belong to the same fault.

Starts and ends of persistent errors are found separately, and may be paired wrongly. A level that shifts at 90 and a
burst from 200 to 214 leave three edges: up, down, up. "Up from 90 to 199, then permanently from 215" explains them as
well if all have similar sizes. Of the pairings that explain the innovations equally well, the one with the fewest
faults is selected, and of those the one with the shortest: faults are rare, and most are short.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from wolf.diagnostics.faults.glr_scan import PATTERN_LENGTHS, FaultCandidate
from wolf.diagnostics.faults.signatures import FaultSignatures, Pattern

LONG_RUN_STEPS = 25  # steps of a run above which its ends may belong to two faults
MAX_DISTANCE_STEPS = 2 * PATTERN_LENGTHS[-1]  # steps between the starts of two faults
STEPS_BEFORE_DRIFT = 100  # steps before a drift in which a fault may have been absorbed by it
MAX_PERSISTENT_FAULTS = 8  # persistent faults near each other; with more, the model is wrong rather than the pairing
MAX_MISFIT_INCREASE = 8.0  # whitened squared errors by which a pairing may be worse than the best


class DetectedFault(NamedTuple):
    """Detected fault.

    Attributes:
        candidate: its pattern, step and sensor.
        size: size of each of its p components, in units of the measurement or of the state.
    """

    candidate: FaultCandidate
    size: np.ndarray


def repair_pairs(
    errors: np.ndarray, signatures: FaultSignatures, faults: Sequence[DetectedFault]
) -> tuple[list[DetectedFault], list[DetectedFault]]:
    """Replace pairs of faults by a pairing of their edges with fewer or shorter faults that explains as much.

    Args:
        errors: whitened innovations without the detected faults, (T, M).
        signatures: fault signatures of the model.
        faults: detected faults.

    Returns:
        The faults that are replaced, and their replacements.
    """
    replaced: list[DetectedFault] = []
    replacements: list[DetectedFault] = []
    used: set[int] = set()
    for i, fault, j, other in _neighbouring_pairs(faults):
        if i not in used and j not in used and _may_share_edges(fault, other):
            alternative = _find_better_pairing(errors, signatures, fault, other)
            if alternative:
                used |= {i, j}
                replaced += [fault, other]
                replacements += alternative
    return replaced, replacements


def _neighbouring_pairs(faults: Sequence[DetectedFault]) -> Iterator[tuple[int, DetectedFault, int, DetectedFault]]:
    """Iterate over pairs of persistent faults that start near each other, with their indices."""
    ordered = sorted((fault.candidate.step, i) for i, fault in enumerate(faults) if _is_lasting(fault))
    for k, (start, i) in enumerate(ordered):
        stop = bisect_right(ordered, (start + MAX_DISTANCE_STEPS, len(faults)))
        if stop - k <= MAX_PERSISTENT_FAULTS:
            for _, j in ordered[k + 1 : stop]:
                yield i, faults[i], j, faults[j]


def faults_near_drifts(faults: Sequence[DetectedFault]) -> list[list[DetectedFault]]:
    """List each drift that was found near other faults, together with them, to be searched again one after the other.

    A slow drift explains a part of every fault near it, and replaces what would otherwise be a shift.
    """
    groups = []
    for fault in faults:
        if fault.candidate.pattern.family in ("ramp", "slope"):
            start, end = _edges(fault)
            others = [
                other
                for other in faults
                if other is not fault and any(start - STEPS_BEFORE_DRIFT <= edge <= end for edge in _edges(other))
            ]
            groups += [[fault, *others]] if 0 < len(others) < MAX_PERSISTENT_FAULTS else []
    return groups


def _is_lasting(fault: DetectedFault) -> bool:
    family, length = fault.candidate.pattern
    return family == "step" or (family == "run" and length > 1)


def _may_share_edges(fault: DetectedFault, other: DetectedFault) -> bool:
    """Return whether the edges of two faults may be paired otherwise: steps, or at least one long run."""
    max_length = max(each.candidate.pattern.length for each in (fault, other))
    return max_length == 0 or max_length > LONG_RUN_STEPS


def _edges(fault: DetectedFault) -> list[int]:
    start, length = fault.candidate.step, fault.candidate.pattern.length
    return [start, start + length] if length else [start]


def _pairings(edges: list[int]) -> Iterator[list[tuple[int, Pattern]]]:
    """Iterate over the ways to read two edges as steps or a run, three as a run and a step, or four as two runs."""
    first, *others = sorted(edges)
    if len(others) == 1:
        yield [(first, Pattern("run", others[0] - first))]
        yield [(at, Pattern("step", 0)) for at in edges]
    elif len(others) == 2:
        second, third = others
        for start, end, step in ((first, second, third), (second, third, first), (first, third, second)):
            yield [(start, Pattern("run", end - start)), (step, Pattern("step", 0))]
    else:
        for i in range(3):
            start, end = others[:i] + others[i + 1 :]
            yield [(first, Pattern("run", others[i] - first)), (start, Pattern("run", end - start))]


def _find_better_pairing(
    errors: np.ndarray, signatures: FaultSignatures, fault: DetectedFault, other: DetectedFault
) -> list[DetectedFault]:
    """Find a pairing of the edges of two faults that explains as much with fewer or shorter faults; empty if none."""
    edges = _edges(fault) + _edges(other)
    if len(set(edges)) < len(edges):
        return []
    sensor = fault.candidate.sensor if fault.candidate.sensor == other.candidate.sensor else None
    coordinates = slice(None) if sensor is None else slice(sensor, sensor + 1)
    first = min(edges)
    stop = min(max(edges) + len(signatures.outlier), len(errors))
    effects = (
        _signature_between(signatures, each.candidate, first, stop, slice(None)) @ each.size for each in (fault, other)
    )
    observed = errors[first:stop] + sum(effects)
    pairings = []
    for pairing in _pairings(edges):
        candidates = [FaultCandidate(fault.candidate.score, step, pattern, sensor) for step, pattern in pairing]
        signature_parts = [_signature_between(signatures, each, first, stop, coordinates) for each in candidates]
        size, misfit = _least_squares(observed, np.concatenate(signature_parts, axis=2))
        sizes = np.zeros((len(candidates), observed.shape[1]))
        sizes[:, coordinates] = size.reshape(len(candidates), -1)
        pairings.append((misfit, [DetectedFault(*each) for each in zip(candidates, sizes, strict=True)]))
    limit = min(misfit for misfit, _ in pairings) + MAX_MISFIT_INCREASE
    simplest = min((faults for misfit, faults in pairings if misfit <= limit), key=_cost)
    return simplest if _cost(simplest) < _cost([fault, other]) else []


def _cost(faults: Sequence[DetectedFault]) -> tuple[int, int]:
    return len(faults), sum(fault.candidate.pattern.length for fault in faults)


def _signature_between(
    signatures: FaultSignatures, candidate: FaultCandidate, first: int, stop: int, coordinates: slice
) -> np.ndarray:
    """Compute the signature of a fault from step `first` to `stop`, (n, M, p)."""
    signature = signatures.signature(candidate.pattern, max(stop - candidate.step, 0))[:, :, coordinates]
    return np.concatenate([np.zeros((candidate.step - first, *signature.shape[1:])), signature])


def _least_squares(errors: np.ndarray, design: np.ndarray) -> tuple[np.ndarray, float]:
    """Fit sizes by least squares; also return the remaining sum of squares."""
    flat = design.reshape(errors.size, -1)
    size = np.linalg.lstsq(flat, errors.ravel(), rcond=1e-9)[0]
    return size, float(((errors.ravel() - flat @ size) ** 2).sum())
