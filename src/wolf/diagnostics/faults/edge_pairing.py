"""Which edges belong together? Beginnings and ends of errors are found one by one, and may be paired wrong.

A level that shifts at 90 and a burst from 200 to 214 leave three edges: up, down, up. "Up from 90 to 199, then for good
from 215" explains them as well if all are of like size. Of what explains errors equally well, the fewest faults are
taken, and of as many those that last the shortest: faults are rare, and most are short.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from wolf.diagnostics.faults.glr_scan import LENGTHS, Spot
from wolf.diagnostics.faults.signatures import Pattern, Responses

LONG = 25  # steps of a run, from which its ends may be of two faults
NEAR = 2 * LENGTHS[-1]  # steps from one beginning to the other
BESIDE = 100  # steps before a drift, in which a fault may have been taken for a part of it
MOST = 8  # errors that last near each other; where there are more the model is wrong, and not how they are paired
EQUAL = 8.0  # squared errors, white, by which a pairing may be worse than the best


class Hit(NamedTuple):
    """A fault that was found.

    Attributes:
        spot: where, and which pattern.
        size: of each of its p numbers, in units of the measurement or of the state.
    """

    spot: Spot
    size: np.ndarray


def repaired(errors: np.ndarray, answers: Responses, hits: Sequence[Hit]) -> tuple[list[Hit], list[Hit]]:
    """Pair edges anew where fewer or shorter faults explain as much.

    Args:
        errors: white, without what was found, (T, M).
        answers: of the model.
        hits: what was found.

    Returns:
        Hits that were wrong, and what there is in their place.
    """
    wrong: list[Hit] = []
    right: list[Hit] = []
    taken: set[int] = set()
    for i, hit, j, other in _neighbours(hits):
        if i not in taken and j not in taken and _may_be_one(hit, other):
            better = _better(errors, answers, hit, other)
            if better:
                taken |= {i, j}
                wrong += [hit, other]
                right += better
    return wrong, right


def _neighbours(hits: Sequence[Hit]) -> Iterator[tuple[int, Hit, int, Hit]]:
    """List pairs of errors that last, with their places among the hits, that begin near each other."""
    order = sorted((hit.spot.step, i) for i, hit in enumerate(hits) if _lasts(hit))
    for k, (start, i) in enumerate(order):
        stop = bisect_right(order, (start + NEAR, len(hits)))
        if stop - k <= MOST:
            for _, j in order[k + 1 : stop]:
                yield i, hits[i], j, hits[j]


def beside_drifts(hits: Sequence[Hit]) -> list[list[Hit]]:
    """List drifts that were found where other faults are: each with these, to be looked at anew one after the other.

    A slow drift explains a little of whatever lies near it, and is taken for what would be a shift without that.
    """
    found = []
    for hit in hits:
        if hit.spot.pattern.family in ("ramp", "slope"):
            start, end = _edges(hit)
            others = [
                one for one in hits if one is not hit and any(start - BESIDE <= edge <= end for edge in _edges(one))
            ]
            found += [[hit, *others]] if 0 < len(others) < MOST else []
    return found


def _lasts(hit: Hit) -> bool:
    family, length = hit.spot.pattern
    return family == "step" or (family == "run" and length > 1)


def _may_be_one(hit: Hit, other: Hit) -> bool:
    """Say whether two faults may have edges of one: steps, or a run that is long."""
    longest = max(one.spot.pattern.length for one in (hit, other))
    return longest == 0 or longest > LONG


def _edges(hit: Hit) -> list[int]:
    start, length = hit.spot.step, hit.spot.pattern.length
    return [start, start + length] if length else [start]


def _pairings(edges: list[int]) -> Iterator[list[tuple[int, Pattern]]]:
    """List the ways to read two edges as steps or a run, three as a run and a step, or four as two runs."""
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


def _better(errors: np.ndarray, answers: Responses, hit: Hit, other: Hit) -> list[Hit]:
    """Look for a pairing of the edges of two faults that explains as much with less; nothing if there is none."""
    edges = _edges(hit) + _edges(other)
    if len(set(edges)) < len(edges):
        return []
    same = hit.spot.sensor if hit.spot.sensor == other.spot.sensor else None
    which = slice(None) if same is None else slice(same, same + 1)
    first = min(edges)
    stop = min(max(edges) + len(answers.outlier), len(errors))
    both = errors[first:stop] + sum(_answer(answers, h.spot, first, stop, slice(None)) @ h.size for h in (hit, other))
    found = []
    for pairing in _pairings(edges):
        spots = [Spot(hit.spot.score, step, pattern, same) for step, pattern in pairing]
        design = np.concatenate([_answer(answers, spot, first, stop, which) for spot in spots], axis=2)
        size, left = _fitted(both, design)
        sizes = np.zeros((len(spots), both.shape[1]))
        sizes[:, which] = size.reshape(len(spots), -1)
        found.append((left, [Hit(spot, mine) for spot, mine in zip(spots, sizes, strict=True)]))
    best = min(left for left, _ in found)
    least = min((hits for left, hits in found if left <= best + EQUAL), key=_cost)
    return least if _cost(least) < _cost([hit, other]) else []


def _cost(hits: Sequence[Hit]) -> tuple[int, int]:
    return len(hits), sum(hit.spot.pattern.length for hit in hits)


def _answer(answers: Responses, spot: Spot, first: int, stop: int, which: slice) -> np.ndarray:
    """Answer to a fault from step `first` to `stop`, (n, M, p)."""
    answer = answers.of(spot.pattern, max(stop - spot.step, 0))[:, :, which]
    return np.concatenate([np.zeros((spot.step - first, *answer.shape[1:])), answer])


def _fitted(errors: np.ndarray, design: np.ndarray) -> tuple[np.ndarray, float]:
    """Fit sizes by least squares: these, and the squares that are left."""
    flat = design.reshape(errors.size, -1)
    size = np.linalg.lstsq(flat, errors.ravel(), rcond=1e-9)[0]
    return size, float(((errors.ravel() - flat @ size) ** 2).sum())
