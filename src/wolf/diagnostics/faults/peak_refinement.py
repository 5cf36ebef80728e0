"""Refinement of GLR peaks: the pattern, step and length of the fault that best explains each of them."""

from typing import NamedTuple

import numpy as np

from wolf.diagnostics.faults.edge_pairing import DetectedFault
from wolf.diagnostics.faults.glr_scan import MIN_RAMP_STEPS, PATTERN_LENGTHS, FaultCandidate, GlrScan
from wolf.diagnostics.faults.signatures import Pattern

MARGIN_STEPS, MARGIN_SHARE = 3, 0.3  # uncertainty of a first estimate, in steps and as a share of the length
MAX_LENGTH_TRIALS = 6  # lengths that are tried on either side of the first estimate
MIN_LENGTHS = {"run": 1, "ramp": MIN_RAMP_STEPS, "slope": MIN_RAMP_STEPS}
CLEAR_SCORE_SHARE = 0.7  # share of the score of a single outlier below which other patterns are not tried
MAX_REFINEMENTS = 5  # refinements, each by one or two steps
# Score by which a more complex pattern must exceed a simpler one.
COMPLEXITY_PENALTIES = {"step": 0.0, "run": 0.0, "jump": 3.0, "ramp": 2.0, "slope": 8.0}
PENALTY_PER_STEP = 1 / 20  # additional penalty per step of growth: slow growth resembles the dynamics of a state
MIN_PAIR_PROBABILITY = 0.001  # p-value below which the start and end of a run have different sizes
SINGLE_OUTLIER, PERMANENT_STEP = Pattern("run", 1), Pattern("step", 0)  # a single outlier; a permanent error


class PeakWindow(NamedTuple):
    """Step with a significant candidate: its step and length, and the first and last step of its neighbourhood."""

    step: int
    length: int
    first: int
    stop: int


def find_peaks(scan: GlrScan, reach: int) -> list[PeakWindow]:
    """List significant steps, the strongest first, with neighbourhoods that do not overlap."""
    scores, lengths = np.stack(list(scan.best_scores.values())), np.stack(list(scan.best_lengths.values()))
    best_scores = scores.max(axis=0)
    steps = np.flatnonzero(best_scores > 0.0)
    steps = steps[np.argsort(-best_scores[steps], kind="stable")]
    lengths = lengths[scores[:, steps].argmax(axis=0), steps]
    peaks = []
    free = np.ones(scan.num_steps, bool)
    for step, length in zip(steps.tolist(), lengths.tolist(), strict=True):
        if free[step]:
            first, stop = max(step - reach, 0), min(step + length + reach, scan.num_steps)
            if free[first:stop].all():
                peaks.append(PeakWindow(step, length, first, stop))
            free[first:stop] = False
    return peaks


def refine_peaks(scan: GlrScan, peaks: list[PeakWindow], reach: int) -> list[DetectedFault]:
    """Refine all peaks; single outliers without competing patterns are accepted unchanged, in one batch."""
    near = _best_near_peaks(scan, peaks)
    faults, clear = [], []
    for peak, candidates in zip(peaks, near, strict=True):
        limit = CLEAR_SCORE_SHARE * max(candidate.score for candidate in candidates)
        if peak.length == 1 and all(c.pattern == SINGLE_OUTLIER or c.score <= limit for c in candidates):
            clear.append(next(candidate.step for candidate in candidates if candidate.pattern == SINGLE_OUTLIER))
        else:
            neighbours = _candidates_ending_at(scan, peak.step) + _runs_between_shifts(scan, peak.step, reach)
            faults.append(_refine(scan, candidates + neighbours, reach))
    results = scan.candidates(SINGLE_OUTLIER, np.array(clear, int))
    return faults + [DetectedFault(*both) for both in zip(results, scan.sizes(results), strict=True)]


def _best_near_peaks(scan: GlrScan, peaks: list[PeakWindow]) -> list[list[FaultCandidate]]:
    """List the best candidate of each family around each peak."""
    scores = np.stack(list(scan.best_scores.values()))
    steps = np.array([peak.first + scores[:, peak.first : peak.stop].argmax(axis=1) for peak in peaks], int)
    columns = []
    for i, (family, family_steps) in enumerate(zip(scan.best_scores, steps.reshape(-1, len(scores)).T, strict=True)):
        rows = zip(
            scores[i, family_steps].tolist(),
            family_steps.tolist(),
            scan.best_lengths[family][family_steps].tolist(),
            strict=True,
        )
        columns.append([FaultCandidate(score, step, Pattern(family, length), None) for score, step, length in rows])
    return [list(candidates) for candidates in zip(*columns, strict=True)]


def _candidates_ending_at(scan: GlrScan, step: int) -> list[FaultCandidate]:
    """List candidates that started long before a step and ended there, the best of each family.

    The end of a drift is far more significant than its start.
    """
    results = []
    for family in ("run", "ramp"):
        candidates = [
            scan.candidate(pattern, step - pattern.length)
            for pattern in scan.patterns
            if pattern.family == family and MARGIN_STEPS < pattern.length <= step
        ]
        results += [max(candidates, key=lambda candidate: candidate.score)] if candidates else []
    return results


def _runs_between_shifts(scan: GlrScan, step: int, reach: int) -> list[FaultCandidate]:
    """List runs from the most significant earlier shift to a step, and from it to the most significant later one."""
    results = []
    for first, stop in ((max(step - PATTERN_LENGTHS[-1], 0), step - reach), (step + reach, step + PATTERN_LENGTHS[-1])):
        window = scan.best_scores["step"][first : max(stop, 0)]
        if len(window):
            other = first + int(window.argmax())
            start, end = min(step, other), max(step, other)
            results.append(scan.candidate(Pattern("run", end - start), start))
    return results


def _refine(scan: GlrScan, candidates: list[FaultCandidate], reach: int) -> DetectedFault:
    """Optimise the position of the best candidate of each family, and select the best that is a single fault."""
    limit = CLEAR_SCORE_SHARE * max(candidate.score for candidate in candidates)
    strong = [candidate for candidate in candidates if candidate.score > limit]
    if len(strong) == 1 and strong[0].pattern == SINGLE_OUTLIER:
        selected = scan.candidate(SINGLE_OUTLIER, strong[0].step)
    else:
        fitted = [_refine_position(scan, candidate) for candidate in candidates if candidate.score > 0.0]
        single = [candidate for candidate in fitted if not _is_two_faults(scan, candidate, reach)]
        selected = min(single or fitted, key=lambda candidate: _complexity_penalty(candidate.pattern) - candidate.score)
    return DetectedFault(selected, scan.sizes([selected])[0])


def _is_two_faults(scan: GlrScan, candidate: FaultCandidate, reach: int) -> bool:
    """Test whether the edges of a run or ramp belong to two faults, such as steps of different sizes.

    Edges that are farther apart than the signature is long are estimated separately, as steps whose sizes have the
    covariances N⁻¹ and N₂⁻¹. The sum d of the two steps of a run is zero up to noise, and `dᵀ (N⁻¹ + N₂⁻¹)⁻¹ d` is χ².
    Two steps explain less than a drift that returns.
    """
    from scipy.special import gammainccinv

    family, length = candidate.pattern
    end = candidate.step + length
    if (
        family not in ("run", "ramp")
        or length <= reach
        or end >= scan.num_steps
        or scan.signatures.permanent_effect.any()
    ):
        return False
    if family == "ramp":
        before = scan.best_scores["step"][max(candidate.step - MARGIN_STEPS, 0) : max(end - reach, 0)].max(
            initial=-np.inf
        )
        return bool(before > 0.0 and before + scan.best_scores["step"][end] > candidate.score)
    edges = [FaultCandidate(0.0, at, PERMANENT_STEP, candidate.sensor) for at in (candidate.step, end)]
    coordinates = slice(None) if candidate.sensor is None else slice(candidate.sensor, candidate.sensor + 1)
    imbalance = np.sum(scan.sizes(edges), axis=0)[coordinates]
    variance = np.linalg.pinv(scan.grams(edges)[:, coordinates, coordinates], hermitian=True).sum(axis=0)
    statistic = imbalance @ np.linalg.solve(variance, imbalance)
    return bool(statistic > 2.0 * gammainccinv(0.5 * len(imbalance), MIN_PAIR_PROBABILITY))


def _complexity_penalty(pattern: Pattern) -> float:
    return COMPLEXITY_PENALTIES[pattern.family] + (
        PENALTY_PER_STEP * pattern.length if pattern.family in ("ramp", "slope") else 0.0
    )


def _refine_position(scan: GlrScan, candidate: FaultCandidate) -> FaultCandidate:
    """Try starts and lengths around a candidate, then closer ones."""
    length = candidate.pattern.length
    near = max(MARGIN_STEPS, int(MARGIN_SHARE * length)) if length else MARGIN_STEPS
    offsets = (
        np.linspace(-near, near, 2 * min(near, MAX_LENGTH_TRIALS) + 1).round().astype(int).tolist() if length else [0]
    )
    best = _best_nearby(scan, candidate, near, offsets)
    for _ in range(MAX_REFINEMENTS if length > MARGIN_STEPS else 0):
        refined = _best_nearby(scan, best, 2, [-2, -1, 0, 1, 2])
        if refined.score <= best.score:
            break
        best = refined
    return scan.candidate(best.pattern, best.step)


def _best_nearby(scan: GlrScan, candidate: FaultCandidate, near: int, offsets: list[int]) -> FaultCandidate:
    """Return the best of some lengths and starts around a candidate."""
    best = candidate
    for offset in offsets:
        pattern = Pattern(candidate.pattern.family, candidate.pattern.length + offset)
        first, stop = max(candidate.step - near, 0), min(candidate.step + near + 1, scan.num_steps - pattern.length)
        if first < stop and pattern.length >= MIN_LENGTHS.get(pattern.family, 0):
            scores = scan.scores(pattern, slice(first, stop))
            i = int(scores.argmax())
            if scores[i] > best.score:
                best = FaultCandidate(float(scores[i]), first + i, pattern, None)
    return best
