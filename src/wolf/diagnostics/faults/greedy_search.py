"""Take faults out of the errors of a filter, the strongest first, until what is left is chance.

A fault leaves traces in the errors after it, and another pattern at another step would explain part of them. So the one
that explains most is taken, at the step and with the length that fit best, its answer is subtracted, and the search
begins anew. What lies far enough apart is taken in one round.
"""

from typing import NamedTuple

import numpy as np

from wolf.diagnostics.faults.edge_pairing import Hit, beside_drifts, repaired
from wolf.diagnostics.faults.glr_scan import LENGTHS, SHORTEST_RAMP, Spot, Sums
from wolf.diagnostics.faults.signatures import Pattern, Responses
from wolf.diagnostics.faults.variance_changes import runs_of

ROUNDS = 25
SETTLED = 0.99  # share of an answer after which a place is far enough from the next
AROUND, STRETCHED = 3, 0.3  # steps, and share of the length, that the first look may be off
FINEST = 6  # lengths that are tried on either side of the first look
SHORTEST = {"run": 1, "ramp": SHORTEST_RAMP, "slope": SHORTEST_RAMP}
CLEAR = 0.7  # share of the score of a single outlier, below which nothing else is tried
POLISHES = 5  # further looks, one or two steps around the last
MORE = {"step": 0.0, "run": 0.0, "jump": 3.0, "ramp": 2.0, "slope": 8.0}  # what a less simple one must explain more
SLOW = 1 / 20  # of that, for each step that something grows: the slower, the more it looks like what a state does
UNLIKE = 0.001  # chance of a run to come back by another size than it left by
ALONE, STEP = Pattern("run", 1), Pattern("step", 0)  # a single outlier; an error without end


class Peak(NamedTuple):
    """A place where something explains more than chance: its step, and the first and last step of what is near it."""

    step: int
    length: int
    first: int
    stop: int


class Search:
    """What was found in white errors, and the errors without it; goes on where errors are not what they seemed.

    Args:
        errors: white, (T, M).
        answers: of the model.
    """

    def __init__(self, errors: np.ndarray, answers: Responses) -> None:
        self.answers, self.rest, self.hits = answers, errors.copy(), list[Hit]()
        self._reach = 2 + int(np.searchsorted(_share(answers.outlier), SETTLED))
        self._sums = Sums(errors, answers)
        self._go_on()

    def _go_on(self) -> None:
        self._take()
        self._replace(*repaired(self.rest, self.answers, self.hits))
        for group in beside_drifts(self.hits):
            for hit in group:
                if any(hit is one for one in self.hits):  # it may be of two groups
                    self._replace([hit], [])
        self._replace(*repaired(self.rest, self.answers, self.hits))
        self.hits = _merged(self.hits)

    def _replace(self, wrong: list[Hit], right: list[Hit]) -> None:
        """Put others in the place of some hits, and search anew."""
        if wrong:
            changed = [_put_back(self.rest, self.answers, hit) for hit in wrong]
            changed += [_take_out(self.rest, self.answers, hit) for hit in right]
            self.hits = [hit for hit in self.hits if not any(hit is one for one in wrong)] + right
            self._sums.look(self.rest, changed)
            self._take()

    def _take(self) -> None:
        for _ in range(ROUNDS):
            peaks = _peaks(self._sums, self._reach)
            hits = _apart(_refine_all(self._sums, peaks, self._reach), self._reach) if peaks else []
            if not hits:
                break
            self._sums.look(self.rest, [_take_out(self.rest, self.answers, hit) for hit in hits])
            self.hits += hits

    def again(self, errors: np.ndarray, changed: list[tuple[int, int]]) -> None:
        """Search anew around steps [(first, stop), ...] whose errors have changed."""
        margin = len(self.answers.outlier) + LENGTHS[-1]
        near = np.zeros(len(errors) + 1, bool)
        for first, stop in changed:
            near[max(first - margin, 0) : stop + margin] = True
        far = [hit for hit in self.hits if not near[[hit.spot.step, _end(hit, errors)]].any()]
        before, self.rest, self.hits = self.rest, errors.copy(), far
        for hit in far:
            _take_out(self.rest, self.answers, hit)
        self._sums.look(self.rest, runs_of((self.rest != before).any(axis=1)))
        self._go_on()


def _merged(hits: list[Hit]) -> list[Hit]:
    """Add up what was found in two goes, the same pattern at the same step."""
    found: dict[tuple[int, Pattern], Hit] = {}
    for hit in hits:
        place = hit.spot.step, hit.spot.pattern
        if place in found:
            first = found[place]
            sensor = first.spot.sensor if first.spot.sensor == hit.spot.sensor else None
            hit = Hit(first.spot._replace(sensor=sensor), first.size + hit.size)
        found[place] = hit
    return list(found.values())


def _end(hit: Hit, errors: np.ndarray) -> int:
    return min(hit.spot.step + hit.spot.pattern.length, len(errors))


def _take_out(errors: np.ndarray, answers: Responses, hit: Hit) -> tuple[int, int]:
    """Subtract a fault's answer from the errors, and say from where to where that was."""
    step = hit.spot.step
    answer = answers.of(hit.spot.pattern, min(len(errors) - step, _lasts(answers, hit.spot.pattern)))
    errors[step : step + len(answer)] -= answer @ hit.size
    return step, step + len(answer)


def _put_back(errors: np.ndarray, answers: Responses, hit: Hit) -> tuple[int, int]:
    return _take_out(errors, answers, hit._replace(size=-hit.size))


def _apart(hits: list[Hit], reach: int) -> list[Hit]:
    """Keep hits, the strongest first, that are no echo of each other."""
    kept: list[Hit] = []
    taken = np.zeros(max((hit.spot.step + hit.spot.pattern.length for hit in hits), default=0) + reach + 1, bool)
    for hit in sorted(hits, key=lambda hit: -hit.spot.score):
        first, last = hit.spot.step, hit.spot.step + hit.spot.pattern.length
        if hit.spot.score > 0.0 and not taken[first : last + 1].any():
            taken[max(first - reach, 0) : last + reach + 1] = True
            kept.append(hit)
    return kept


def _share(answer: np.ndarray) -> np.ndarray:
    """Say what share of an answer has been seen after each step."""
    energy = np.cumsum((answer**2).sum((1, 2)))
    return energy / energy[-1]


def _lasts(answers: Responses, pattern: Pattern) -> int:
    """Count the steps of an answer; one that never dies down is followed to the end."""
    return 10**9 if answers.tail(pattern).any() else len(answers.outlier) + pattern.length


def _peaks(sums: Sums, reach: int) -> list[Peak]:
    """List places where something explains more than chance, the strongest first, that do not touch each other."""
    scores, lengths = np.stack(list(sums.best.values())), np.stack(list(sums.lengths.values()))
    top = scores.max(axis=0)
    places = np.flatnonzero(top > 0.0)
    places = places[np.argsort(-top[places], kind="stable")]
    chosen = lengths[scores[:, places].argmax(axis=0), places]
    peaks = []
    free = np.ones(sums.steps, bool)
    for step, length in zip(places.tolist(), chosen.tolist(), strict=True):
        if free[step]:
            first, stop = max(step - reach, 0), min(step + length + reach, sums.steps)
            if free[first:stop].all():
                peaks.append(Peak(step, length, first, stop))
            free[first:stop] = False
    return peaks


def _refine_all(sums: Sums, peaks: list[Peak], reach: int) -> list[Hit]:
    """Look closer at every place; single outliers that nothing else comes near are taken as they are, all at once."""
    near = _best_near(sums, peaks)
    hits, clear = [], []
    for peak, spots in zip(peaks, near, strict=True):
        top = max(spot.score for spot in spots)
        if peak.length == 1 and all(spot.pattern == ALONE or spot.score <= CLEAR * top for spot in spots):
            clear.append(next(spot.step for spot in spots if spot.pattern == ALONE))
        else:
            more = _ending_at(sums, peak.step) + _between(sums, peak.step, reach)
            hits.append(_refine(sums, spots + more, reach))
    found = sums.spots(ALONE, np.array(clear, int))
    return hits + [Hit(*both) for both in zip(found, sums.sizes(found), strict=True)]


def _best_near(sums: Sums, peaks: list[Peak]) -> list[list[Spot]]:
    """List the best spot of each family around each peak."""
    scores = np.stack(list(sums.best.values()))
    steps = np.array([peak.first + scores[:, peak.first : peak.stop].argmax(axis=1) for peak in peaks], int)
    columns = []
    for i, (family, mine) in enumerate(zip(sums.best, steps.reshape(-1, len(scores)).T, strict=True)):
        rows = zip(scores[i, mine].tolist(), mine.tolist(), sums.lengths[family][mine].tolist(), strict=True)
        columns.append([Spot(score, step, Pattern(family, length), None) for score, step, length in rows])
    return [list(spots) for spots in zip(*columns, strict=True)]


def _ending_at(sums: Sums, step: int) -> list[Spot]:
    """List what may have begun long before a step and ended there, the best of each family.

    The end of a drift shows in the errors far more clearly than its beginning.
    """
    found = []
    for family in ("run", "ramp"):
        spots = [
            sums.spot(pattern, step - pattern.length)
            for pattern in sums.patterns
            if pattern.family == family and AROUND < pattern.length <= step
        ]
        found += [max(spots, key=lambda spot: spot.score)] if spots else []
    return found


def _between(sums: Sums, step: int, reach: int) -> list[Spot]:
    """List runs from the likeliest shift before a step up to it, and from it up to the likeliest one after it."""
    found = []
    for first, stop in ((max(step - LENGTHS[-1], 0), step - reach), (step + reach, step + LENGTHS[-1])):
        window = sums.best["step"][first : max(stop, 0)]
        if len(window):
            other = first + int(window.argmax())
            start, end = min(step, other), max(step, other)
            found.append(sums.spot(Pattern("run", end - start), start))
    return found


def _refine(sums: Sums, spots: list[Spot], reach: int) -> Hit:
    """Move the best spot of each family to where it fits best, and take the best of them that is one fault."""
    good = [spot for spot in spots if spot.score > CLEAR * max(spot.score for spot in spots)]
    if len(good) == 1 and good[0].pattern == ALONE:
        chosen = sums.spot(ALONE, good[0].step)
    else:
        fitted = [_fit(sums, spot) for spot in spots if spot.score > 0.0]
        single = [spot for spot in fitted if not _are_two(sums, spot, reach)]
        chosen = min(single or fitted, key=lambda spot: _price(spot.pattern) - spot.score)
    return Hit(chosen, sums.sizes([chosen])[0])


def _are_two(sums: Sums, spot: Spot, reach: int) -> bool:
    """Say whether the ends of what lasts are of two faults: of a run that comes back by another size than it left by.

    Ends that lie farther apart than errors remember are measured by themselves, as steps whose sizes have the variances
    N⁻¹ and N₂⁻¹. Of a run, their sum d is 0 but for chance, and `dᵀ (N⁻¹ + N₂⁻¹)⁻¹ d` is χ². Of a drift that goes back,
    two steps explain less than it does.
    """
    from scipy.special import gammainccinv

    family, length = spot.pattern
    end = spot.step + length
    if family not in ("run", "ramp") or length <= reach or end >= sums.steps or sums.answers.left.any():
        return False
    if family == "ramp":
        before = sums.best["step"][max(spot.step - AROUND, 0) : max(end - reach, 0)].max(initial=-np.inf)
        return bool(before > 0.0 and before + sums.best["step"][end] > spot.score)
    edges = [Spot(0.0, at, STEP, spot.sensor) for at in (spot.step, end)]
    which = slice(None) if spot.sensor is None else slice(spot.sensor, spot.sensor + 1)
    missing = np.sum(sums.sizes(edges), axis=0)[which]
    variance = np.linalg.pinv(sums.grams(edges)[:, which, which], hermitian=True).sum(axis=0)
    left = missing @ np.linalg.solve(variance, missing)
    return bool(left > 2.0 * gammainccinv(0.5 * len(missing), UNLIKE))


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
            scores = sums.scores(pattern, slice(first, stop))
            i = int(scores.argmax())
            if scores[i] > best.score:
                best = Spot(float(scores[i]), first + i, pattern, None)
    return best
