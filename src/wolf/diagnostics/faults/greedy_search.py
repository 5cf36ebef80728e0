"""Greedy search: subtract fault signatures from the innovations, the strongest first, until none is significant.

A fault affects the innovations after it, and other patterns at other steps explain a part of them. Therefore the
pattern with the highest score is selected, with its step and length optimised, its signature is subtracted, and the
search is repeated. Faults that are far enough apart are selected in the same round.
"""

import numpy as np

from wolf.diagnostics.faults.edge_pairing import DetectedFault, faults_near_drifts, repair_pairs
from wolf.diagnostics.faults.glr_scan import PATTERN_LENGTHS, GlrScan
from wolf.diagnostics.faults.peak_refinement import find_peaks, refine_peaks
from wolf.diagnostics.faults.signatures import FaultSignatures, Pattern
from wolf.numerics.runs import runs_of

MAX_ROUNDS = 25
SIGNATURE_ENERGY_SHARE = 0.99  # share of a signature's energy that defines the distance of separate faults


class GreedySearch:
    """Detected faults, and the innovations without them; can be updated where the innovations change.

    Args:
        errors: whitened innovations, (T, M).
        signatures: fault signatures of the model.
    """

    def __init__(self, errors: np.ndarray, signatures: FaultSignatures) -> None:
        self.signatures, self.residual, self.faults = signatures, errors.copy(), list[DetectedFault]()
        self._reach = 2 + int(np.searchsorted(_energy_share(signatures.outlier), SIGNATURE_ENERGY_SHARE))
        self._scan = GlrScan(errors, signatures)
        self._search()

    def _search(self) -> None:
        self._extract_faults()
        self._replace(*repair_pairs(self.residual, self.signatures, self.faults))
        for group in faults_near_drifts(self.faults):
            for fault in group:
                if any(fault is other for other in self.faults):  # a fault may be in two groups
                    self._replace([fault], [])
        self._replace(*repair_pairs(self.residual, self.signatures, self.faults))
        self.faults = _merge_duplicates(self.faults)

    def _replace(self, replaced: list[DetectedFault], replacements: list[DetectedFault]) -> None:
        """Replace some faults by others, and repeat the search around them."""
        if replaced:
            changed = [_restore_fault(self.residual, self.signatures, fault) for fault in replaced]
            changed += [_subtract_fault(self.residual, self.signatures, fault) for fault in replacements]
            self.faults = [
                fault for fault in self.faults if not any(fault is other for other in replaced)
            ] + replacements
            self._scan.update(self.residual, changed)
            self._extract_faults()

    def _extract_faults(self) -> None:
        for _ in range(MAX_ROUNDS):
            peaks = find_peaks(self._scan, self._reach)
            faults = _select_separate(refine_peaks(self._scan, peaks, self._reach), self._reach) if peaks else []
            if not faults:
                break
            self._scan.update(
                self.residual, [_subtract_fault(self.residual, self.signatures, fault) for fault in faults]
            )
            self.faults += faults

    def update(self, errors: np.ndarray, changed: list[tuple[int, int]]) -> None:
        """Repeat the search around steps [(first, stop), ...] whose innovations have changed."""
        margin = len(self.signatures.outlier) + PATTERN_LENGTHS[-1]
        near = np.zeros(len(errors) + 1, bool)
        for first, stop in changed:
            near[max(first - margin, 0) : stop + margin] = True
        far = [fault for fault in self.faults if not near[[fault.candidate.step, _end(fault, errors)]].any()]
        before, self.residual, self.faults = self.residual, errors.copy(), far
        for fault in far:
            _subtract_fault(self.residual, self.signatures, fault)
        self._scan.update(self.residual, runs_of((self.residual != before).any(axis=1)))
        self._search()


def _merge_duplicates(faults: list[DetectedFault]) -> list[DetectedFault]:
    """Add up faults with the same pattern at the same step."""
    results: dict[tuple[int, Pattern], DetectedFault] = {}
    for fault in faults:
        key = fault.candidate.step, fault.candidate.pattern
        if key in results:
            first = results[key]
            sensor = first.candidate.sensor if first.candidate.sensor == fault.candidate.sensor else None
            fault = DetectedFault(first.candidate._replace(sensor=sensor), first.size + fault.size)
        results[key] = fault
    return list(results.values())


def _end(fault: DetectedFault, errors: np.ndarray) -> int:
    return min(fault.candidate.step + fault.candidate.pattern.length, len(errors))


def _subtract_fault(errors: np.ndarray, signatures: FaultSignatures, fault: DetectedFault) -> tuple[int, int]:
    """Subtract the signature of a fault from the innovations; return the range of affected steps."""
    step = fault.candidate.step
    pattern = fault.candidate.pattern
    signature = signatures.signature(pattern, min(len(errors) - step, _signature_steps(signatures, pattern)))
    errors[step : step + len(signature)] -= signature @ fault.size
    return step, step + len(signature)


def _restore_fault(errors: np.ndarray, signatures: FaultSignatures, fault: DetectedFault) -> tuple[int, int]:
    return _subtract_fault(errors, signatures, fault._replace(size=-fault.size))


def _select_separate(faults: list[DetectedFault], reach: int) -> list[DetectedFault]:
    """Select faults that do not overlap, the strongest first."""
    kept: list[DetectedFault] = []
    end = max((fault.candidate.step + fault.candidate.pattern.length for fault in faults), default=0)
    occupied = np.zeros(end + reach + 1, bool)
    for fault in sorted(faults, key=lambda fault: -fault.candidate.score):
        first, last = fault.candidate.step, fault.candidate.step + fault.candidate.pattern.length
        if fault.candidate.score > 0.0 and not occupied[first : last + 1].any():
            occupied[max(first - reach, 0) : last + reach + 1] = True
            kept.append(fault)
    return kept


def _energy_share(signature: np.ndarray) -> np.ndarray:
    """Compute the share of the energy of a signature up to each step."""
    energy = np.cumsum((signature**2).sum((1, 2)))
    return energy / energy[-1]


def _signature_steps(signatures: FaultSignatures, pattern: Pattern) -> int:
    """Return the length of a signature; unlimited if it does not decay."""
    return 10**9 if signatures.gram_growth(pattern).any() else len(signatures.outlier) + pattern.length
