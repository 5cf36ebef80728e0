"""Minima of a smooth function of a few numbers in a box, from several starts in step with each other.

Where the curvature is told each step is Newton's, along the directions of the curvature and downhill in all of them
(Nocedal & Wright 2006, section 3.4); where it is not, a quasi-Newton search (BFGS; chapter 6) learns it on the way. A
number at its limit that would leave the box stays there (Bertsekas 1982). All searches ask for values together, because
the score of many points costs hardly more than that of one, and for the same reason a step that is too long is followed
by several shorter ones at once. Nothing here is large enough for a library: its threads would take longer than this.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np

FLAT = 1e-5  # largest slope, per row of data, that counts as none
SMALL_GAIN = 2.2e-9  # relative, of one step: less means that the search is at its end
MOST_STEPS = 200
LONGEST = 2.0  # change of a free number in one step: in a logarithm, a factor of 7; beyond it may lie another valley
MOST_SIDES = 20  # changes of what is held at a side of the box; a few are usual
SHORTER = 0.5 ** np.arange(1, 9)  # what is tried of a step that went too far
HOPELESS = 10.0  # times what a step promises: not enough to come down to where another search ended
SAME = 1e-4  # between values, per row of data: less is no other minimum
ENOUGH = 1e-4  # of the decrease that the slope promises (Armijo 1966)

LEAST_CURVED = 1e-9  # of curvatures: less is rounding
GIVEN_UP = "another search ended lower"

Values = Callable[[np.ndarray], np.ndarray]
Sensitivities = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Minimum(NamedTuple):
    """Where one search ended.

    Attributes:
        x: the numbers, (K,).
        fun: value there.
        success: whether it is a minimum.
        nfev: how often a value with its slope was asked for.
        message: how it ended.
    """

    x: np.ndarray
    fun: float
    success: bool
    nfev: int
    message: str


class _Search:
    """One of the searches: where it is, and what it knows of the curvature."""

    def __init__(self, x: np.ndarray, value: float, slope: np.ndarray, curvature: np.ndarray | None):
        self.x, self.value, self.slope, self.curvature = x, value, slope, curvature
        self.inverse = np.eye(len(x)) / max(1.0, float(np.abs(slope).max()))
        self.fresh, self.evaluations, self.message = True, 1, ""

    def move(self, lows: np.ndarray, highs: np.ndarray) -> np.ndarray | None:
        """Choose where to go; None at the end."""
        stuck = ((self.x <= lows) & (self.slope > 0)) | ((self.x >= highs) & (self.slope < 0))
        slope = np.where(stuck, 0.0, self.slope)
        if np.abs(slope).max() <= FLAT:
            self.message = "the slope is flat"
            return None
        if self.curvature is None:
            # Number by number: one on a plain, with far to go, must not hold the others back.
            free = np.outer(~stuck, ~stuck)
            direction = np.clip(-np.where(free, self.inverse, 0.0) @ slope, -LONGEST, LONGEST)
        else:
            low, high = np.maximum(lows - self.x, -LONGEST), np.minimum(highs - self.x, LONGEST)
            direction = _lowest(self.curvature, self.slope, low, high)
        if direction @ self.slope < 0:
            return direction
        self.forget()  # the curvature misleads
        return -slope / max(1.0, float(np.abs(slope).max()))

    def promised(self, x: np.ndarray) -> np.ndarray:
        """Say how far the value would fall on the way to x, or to many, if the slope stayed."""
        return ((x - self.x) * self.slope).sum(-1)

    def is_idle(self, aim: np.ndarray, ended: float, little: float) -> bool:
        """Say whether to stop: there is little to gain, or another search ended here, or at a value out of reach."""
        if self.curvature is None:  # what a step promises says little then
            return False
        promised = float(self.promised(aim))
        if -0.5 * promised <= little:  # the value of a parabola falls by half of what its slope at the start says
            self.message = "little is left to gain"
        elif self.value + HOPELESS * promised > ended + SAME:
            self.message = GIVEN_UP
        elif self.value <= ended + SAME and self.value + promised > ended - 0.1 * SAME:
            self.message = "another search ended here"
        return bool(self.message)

    def arrive(self, x: np.ndarray, value: float, slope: np.ndarray, curvature: np.ndarray | None) -> None:
        """Go to a better point."""
        if curvature is None:
            self._learn(x - self.x, slope - self.slope)
        gain = self.value - value
        if gain <= SMALL_GAIN * max(abs(value), abs(self.value), 1.0):
            self.message = "the value does not fall any more"
        self.x, self.value, self.slope, self.curvature = x, value, slope, curvature

    def _learn(self, step: np.ndarray, turn: np.ndarray) -> None:
        """Learn of the curvature from how the slope changed."""
        curvature = float(step @ turn)
        if curvature > 1e-10 * float(np.linalg.norm(step) * np.linalg.norm(turn)):
            if self.fresh:
                self.inverse = np.eye(len(step)) * curvature / float(turn @ turn)
            left = np.eye(len(step)) - np.outer(step, turn) / curvature
            self.inverse = left @ self.inverse @ left.T + np.outer(step, step) / curvature
            self.fresh = False
        else:  # the value falls ever faster: go further next time
            self.inverse = 2.0 * self.inverse

    def forget(self) -> None:
        """Begin anew with what is known of the curvature."""
        self.curvature = None
        self.inverse = np.eye(len(self.x)) / max(1.0, float(np.abs(self.slope).max()))
        self.fresh = True

    def told(self) -> Minimum:
        """Say where it ended."""
        done = self.message not in ("", GIVEN_UP)
        return Minimum(self.x, self.value, done, self.evaluations, self.message or "too many steps")


def _lowest(curvature: np.ndarray, slope: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Find the lowest point of a parabola in a box.

    Each number is free, or held at a side of the box: there if the free ones would leave it, and as long as the slope
    presses it on (a primal-dual active set; Hintermüller, Ito & Kunisch 2002).

    Args:
        curvature: (K, K); turned over where it falls away, so that a saddle is left and not gone to.
        slope: (K,), at the origin.
        low: (K,), side of the box, not above 0.
        high: (K,), the other side.
    """
    sizes, axes = np.linalg.eigh(curvature)
    sizes = np.maximum(np.abs(sizes), LEAST_CURVED)
    step = -axes @ ((slope @ axes) / sizes)
    sides = np.where(step < low, -1, np.where(step > high, 1, 0))
    if not sides.any():
        return step
    curvature = (axes * sizes) @ axes.T
    scale = np.diagonal(curvature)
    for _ in range(MOST_SIDES):
        held = (sides != 0).astype(float)
        free, fixed = 1.0 - held, np.where(sides < 0, low, high) * held
        rows = curvature * np.outer(free, free) + np.diag(held)
        step = np.linalg.solve(rows, fixed - free * (slope + curvature @ fixed))
        pressed = step - held * (slope + curvature @ step) / scale
        before, sides = sides, np.where(pressed < low, -1, np.where(pressed > high, 1, 0))
        if np.array_equal(before, sides):
            break
    return np.clip(step, low, high)


TwoSidedTest = tuple[np.ndarray, int]  # points (P, K), and how many derivatives are wanted: 0, 1 or 2
Told = tuple[np.ndarray, Any, Any]  # values (P,); slopes (P, K) or None; curvatures (P, K, K) or None, also if wanted
Limits = list[tuple[float | None, float | None]]


def descend(values: Values, slopes: Sensitivities, starts: list[np.ndarray], limits: Limits) -> list[Minimum]:
    """Go down from every start.

    Args:
        values: of points (P, K) -> (P,).
        slopes: of points (P, K) -> values (P,) and slopes (P, K).
        starts: each (K,).
        limits: lowest and highest of each number, or None.

    Returns:
        A minimum for each start.

    Example:
        >>> def bowl(x):
        ...     return ((x - 1.0) ** 2).sum(1), 2 * (x - 1.0)
        >>> descend(lambda x: bowl(x)[0], bowl, [np.array([5.0, -3.0])], [(None, None), (None, 0.5)])[0].x.round(3)
        array([1. , 0.5])
    """

    def answer(asked: TwoSidedTest) -> Told:
        points, order = asked
        return (*slopes(points), None) if order else (values(points), None, None)

    return drive(asking(starts, limits), answer)  # type: ignore[no-any-return]


def drive(questions: Generator[TwoSidedTest, Told, Any], answer: Callable[[TwoSidedTest], Told]) -> Any:
    """Answer what is asked until there is a result.

    Args:
        questions: asks for values at points.
        answer: gives them.
    """
    try:
        asked = next(questions)
        while True:
            asked = questions.send(answer(asked))
    except StopIteration as end:
        return end.value


def asking(
    starts: list[np.ndarray], limits: Limits, little: float = 0.0
) -> Generator[TwoSidedTest, Told, list[Minimum]]:
    """Do what `descend` does, and leave it to others to find the values: those of many problems at once, say.

    Args:
        starts: as in `descend`.
        limits: as in `descend`.
        little: where curvatures are told, a gain that is not worth another step.
    """
    lows = np.array([-np.inf if low is None else low for low, _ in limits])
    highs = np.array([np.inf if high is None else high for _, high in limits])
    begin = np.clip(np.array(starts), lows, highs)
    searches = [_Search(*each) for each in _told(begin, (yield begin, 2))]
    for _ in range(MOST_STEPS):
        going = [(one, one.move(lows, highs)) for one in searches if not one.message]
        aimed = [(one, np.clip(one.x + step, lows, highs)) for one, step in going if step is not None]
        ended = min((one.value for one in searches if one.message), default=np.inf)
        moves = [(one, aim) for one, aim in aimed if not one.is_idle(aim, ended, little)]
        if not moves:
            break
        aims = np.array([aim for _, aim in moves])
        too_far = []
        for (one, _), found in zip(moves, _told(aims, (yield aims, 2)), strict=True):
            one.evaluations += 1
            if found[1] <= one.value + ENOUGH * one.promised(found[0]):
                one.arrive(*found)
            else:
                too_far.append((one, found[0]))
        if too_far:
            yield from _retreat(too_far)
    return [one.told() for one in searches]


def _told(points: np.ndarray, answer: Told) -> list[tuple]:
    """Give for each point itself, its value, slope and curvature."""
    values, slopes, curvatures = answer
    return list(zip(points, values, slopes, [None] * len(points) if curvatures is None else curvatures, strict=True))


def _retreat(too_far: list[tuple[_Search, np.ndarray]]) -> Generator[TwoSidedTest, Told, None]:
    """Take shorter steps, the longest that are good enough; a search without one is at its end."""
    tried = np.array([one.x + SHORTER[:, None] * (aim - one.x) for one, aim in too_far])
    found, _, _ = yield tried.reshape(-1, tried.shape[-1]), 0
    better = []
    for (one, _), points, values in zip(too_far, tried, found.reshape(len(tried), -1), strict=True):
        good = np.flatnonzero(values <= one.value + ENOUGH * one.promised(points))
        if len(good):
            better.append((one, points[good[0]]))
        elif not one.fresh or one.curvature is not None:
            one.forget()
        else:
            one.message = "no step leads further down"
    if not better:
        return
    points = np.array([point for _, point in better])
    for (one, _), each in zip(better, _told(points, (yield points, 2)), strict=True):
        one.evaluations += 1
        one.arrive(*each)
