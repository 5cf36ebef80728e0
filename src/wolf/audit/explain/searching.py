"""Take faults out of the errors of a filter, the strongest first, until what is left is chance.

A fault leaves traces in the errors after it, and another pattern at another step would explain part of them. So the one
that explains most is taken, at the step and with the length that fit best, its answer is subtracted, and the search
begins anew. What lies far enough apart is taken in one round.
"""

from typing import NamedTuple

import numpy as np

from wolf.audit.explain.responses import Pattern, Responses
from wolf.audit.explain.scanning import LENGTHS, SHORTEST_RAMP, Spot, Sums, patterns

ROUNDS = 25
SETTLED = 0.99  # share of an answer after which a place is far enough from the next
AROUND, STRETCHED = 3, 0.3  # steps, and share of the length, that the first look may be off
FINEST = 6  # lengths that are tried on either side of the first look
SHORTEST = {"run": 1, "ramp": SHORTEST_RAMP, "slope": SHORTEST_RAMP}
CLEAR = 0.7  # share of the score of a single outlier, below which nothing else is tried
POLISHES = 5  # further looks, one or two steps around the last
MORE = {"step": 0.0, "run": 0.0, "jump": 3.0, "ramp": 2.0, "slope": 8.0}  # what a less simple one must explain more
SLOW = 1 / 20  # of that, for each step that something grows: the slower, the more it looks like what a state does


class Hit(NamedTuple):
    """A fault that was found.

    Attributes:
        spot: where, and which pattern.
        size: of each of its p numbers, in units of the measurement or of the state.
        rival: score of the best pattern of another family at that place.
    """

    spot: Spot
    size: np.ndarray
    rival: float


def search(errors: np.ndarray, answers: Responses) -> tuple[list[Hit], np.ndarray]:
    """Find faults in white errors, (T, M); return them, and the errors without them."""
    errors, found = errors.copy(), []
    reach = 2 + int(np.searchsorted(_share(answers.outlier), SETTLED))
    sums = None
    for _ in range(ROUNDS):
        sums = Sums(errors, answers, sums)
        hits = _apart([_refine(sums, spots) for spots in _peaks(sums, reach)], reach)
        if not hits:
            break
        for hit in hits:
            step = hit.spot.step
            answer = answers.of(hit.spot.pattern, min(len(errors) - step, _lasts(answers, hit.spot.pattern)))
            errors[step : step + len(answer)] -= answer @ hit.size
        found += hits
    return found, errors


def _apart(hits: list[Hit], reach: int) -> list[Hit]:
    """Keep hits, the strongest first, that are no echo of each other."""
    kept: list[Hit] = []
    for hit in sorted(hits, key=lambda hit: -hit.spot.score):
        first, last = hit.spot.step, hit.spot.step + hit.spot.pattern.length
        if hit.spot.score > 0.0 and not any(
            first <= one.spot.step + one.spot.pattern.length + reach and one.spot.step <= last + reach for one in kept
        ):
            kept.append(hit)
    return kept


def _share(answer: np.ndarray) -> np.ndarray:
    """Say what share of an answer has been seen after each step."""
    energy = np.cumsum((answer**2).sum((1, 2)))
    return energy / energy[-1]


def _lasts(answers: Responses, pattern: Pattern) -> int:
    """Count the steps of an answer; one that never dies down is followed to the end."""
    return 10**9 if answers.tail(pattern).any() else len(answers.outlier) + pattern.length


def _peaks(sums: Sums, reach: int) -> list[list[Spot]]:
    """List places where something explains more than chance, and there the best spot of each family."""
    best: dict[str, np.ndarray] = {}
    which: dict[str, np.ndarray] = {}
    for pattern in patterns(sums.steps):
        scores = sums.scores(pattern, 0, sums.steps - pattern.length)
        mine = best.setdefault(pattern.family, np.full(sums.steps, -np.inf))[: len(scores)]
        lengths = which.setdefault(pattern.family, np.zeros(sums.steps, int))[: len(scores)]
        better = scores > mine
        mine[better], lengths[better] = scores[better], pattern.length
    top = np.max(list(best.values()), axis=0)
    peaks = []
    free = np.ones(sums.steps, bool)
    for step in np.argsort(-top, kind="stable")[: np.count_nonzero(top > 0.0)].tolist():
        if not free[step]:
            continue
        chosen = max(best, key=lambda family: best[family][step])
        length = int(which[chosen][step])
        first, last = max(step - reach, 0), min(step + length + reach, sums.steps)
        if free[first:last].all():
            near = [_best_near(best[family], which[family], family, first, last) for family in best]
            if length != 1 or any(spot.score > CLEAR * top[step] for spot in near if spot.pattern != ("run", 1)):
                near += _ending_at(sums, step) + _between(sums, best["step"], step, reach)
            peaks.append(near)
        free[first:last] = False
    return peaks


def _best_near(scores: np.ndarray, lengths: np.ndarray, family: str, first: int, last: int) -> Spot:
    step = first + int(scores[first:last].argmax())
    return Spot(float(scores[step]), step, Pattern(family, int(lengths[step])), None)


def _ending_at(sums: Sums, step: int) -> list[Spot]:
    """List what may have begun long before a step and ended there, the best of each family.

    The end of a drift shows in the errors far more clearly than its beginning.
    """
    found = []
    for family in ("run", "ramp"):
        spots = [
            sums.spot(pattern, step - pattern.length)
            for pattern in patterns(sums.steps)
            if pattern.family == family and AROUND < pattern.length <= step
        ]
        found += [max(spots, key=lambda spot: spot.score)] if spots else []
    return found


def _between(sums: Sums, shifts: np.ndarray, step: int, reach: int) -> list[Spot]:
    """List runs from the likeliest shift before a step up to it, and from it up to the likeliest one after it."""
    found = []
    for first, stop in ((max(step - LENGTHS[-1], 0), step - reach), (step + reach, step + LENGTHS[-1])):
        window = shifts[first : max(stop, 0)]
        if len(window):
            other = first + int(window.argmax())
            start, end = min(step, other), max(step, other)
            found.append(sums.spot(Pattern("run", end - start), start))
    return found


def _refine(sums: Sums, spots: list[Spot]) -> Hit:
    """Move the best spot of each family to where it fits best, and take the best of them."""
    good = [spot for spot in spots if spot.score > CLEAR * max(spot.score for spot in spots)]
    if len(good) == 1 and good[0].pattern == ("run", 1):
        fitted = [sums.spot(good[0].pattern, good[0].step)]
    else:
        fitted = [_fit(sums, spot) for spot in spots if spot.score > 0.0]
    fitted.sort(key=lambda spot: _price(spot.pattern) - spot.score)
    chosen = fitted[0]
    return Hit(chosen, sums.size(chosen), max((spot.score for spot in fitted[1:]), default=-np.inf))


def _price(pattern: Pattern) -> float:
    return MORE[pattern.family] + (SLOW * pattern.length if pattern.family in ("ramp", "slope") else 0.0)


def _fit(sums: Sums, spot: Spot) -> Spot:
    """Try first steps and lengths around a spot, then ever closer ones."""
    length = spot.pattern.length
    near = max(AROUND, int(STRETCHED * length)) if length else AROUND
    offsets = np.linspace(-near, near, 2 * min(near, FINEST) + 1).round().astype(int).tolist() if length else [0]
    best = _best_of(sums, spot, near, offsets)
    for _ in range(POLISHES if length > AROUND else 0):
        better = _best_of(sums, best, 2, [-2, -1, 0, 1, 2])
        if better.score <= best.score:
            break
        best = better
    return sums.spot(best.pattern, best.step)


def _best_of(sums: Sums, spot: Spot, near: int, offsets: list[int]) -> Spot:
    """Take the best of some lengths and first steps around a spot."""
    best = spot
    for offset in offsets:
        pattern = Pattern(spot.pattern.family, spot.pattern.length + offset)
        first, stop = max(spot.step - near, 0), min(spot.step + near + 1, sums.steps - pattern.length)
        if first < stop and pattern.length >= SHORTEST.get(pattern.family, 0):
            scores = sums.scores(pattern, first, stop)
            i = int(scores.argmax())
            if scores[i] > best.score:
                best = Spot(float(scores[i]), first + i, pattern, None)
    return best
