"""Minima of a smooth function of a few numbers in a box, from several starts in step with each other.

A quasi-Newton search (BFGS; Nocedal & Wright 2006, chapter 6) on the numbers that are free to move: one at its limit
that would leave the box stays there (Bertsekas 1982). All searches ask for values together, because the score of many
points costs hardly more than that of one, and for the same reason a step that is too long is followed by several
shorter ones at once. Nothing here is large enough for a library: its threads would take longer than the work.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np

FLAT = 1e-5  # largest slope, per row of data, that counts as none
SMALL_GAIN = 2.2e-9  # relative, of one step: less means that the search is at its end
MOST_STEPS = 200
LONGEST = 2.0  # change of a free number in one step: in a logarithm, a factor of 7; beyond it may lie another valley
SHORTER = 0.5 ** np.arange(1, 9)  # what is tried of a step that went too far
ENOUGH = 1e-4  # of the decrease that the slope promises (Armijo 1966)

Values = Callable[[np.ndarray], np.ndarray]
Slopes = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


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

    def __init__(self, x: np.ndarray, value: float, slope: np.ndarray):
        self.x, self.value, self.slope = x, value, slope
        self.inverse = np.eye(len(x)) / max(1.0, float(np.abs(slope).max()))
        self.fresh, self.evaluations, self.message = True, 1, ""

    def move(self, lows: np.ndarray, highs: np.ndarray) -> np.ndarray | None:
        """Choose where to go; None at the end."""
        stuck = ((self.x <= lows) & (self.slope > 0)) | ((self.x >= highs) & (self.slope < 0))
        slope = np.where(stuck, 0.0, self.slope)
        if np.abs(slope).max() <= FLAT:
            self.message = "the slope is flat"
            return None
        free = np.outer(~stuck, ~stuck)
        direction = -(np.where(free, self.inverse, 0.0) * slope).sum(1)
        # Number by number: one on a plain, with far to go, must not hold the others back.
        direction = np.clip(direction, -LONGEST, LONGEST)
        if direction @ slope < 0:
            return direction
        self.forget()  # the curvature misleads
        return -slope / max(1.0, float(np.abs(slope).max()))

    def promised(self, x: np.ndarray) -> np.ndarray:
        """Say how far the value would fall on the way to x, or to many, if the slope stayed."""
        return ((x - self.x) * self.slope).sum(-1)

    def arrive(self, x: np.ndarray, value: float, slope: np.ndarray) -> None:
        """Go to a better point, and learn from how the slope changed."""
        step, turn = x - self.x, slope - self.slope
        curvature = float(step @ turn)
        if curvature > 1e-10 * float(np.linalg.norm(step) * np.linalg.norm(turn)):
            if self.fresh:
                self.inverse = np.eye(len(x)) * curvature / float(turn @ turn)
            left = np.eye(len(x)) - np.outer(step, turn) / curvature
            self.inverse = left @ self.inverse @ left.T + np.outer(step, step) / curvature
            self.fresh = False
        else:  # the value falls ever faster: go further next time
            self.inverse = 2.0 * self.inverse
        gain = self.value - value
        if gain <= SMALL_GAIN * max(abs(value), abs(self.value), 1.0):
            self.message = "the value does not fall any more"
        self.x, self.value, self.slope = x, value, slope

    def forget(self) -> None:
        """Begin anew with what is known of the curvature."""
        self.inverse = np.eye(len(self.x)) / max(1.0, float(np.abs(self.slope).max()))
        self.fresh = True

    def told(self) -> Minimum:
        """Say where it ended."""
        done = bool(self.message)
        return Minimum(self.x, self.value, done, self.evaluations, self.message or "too many steps")


Asked = tuple[np.ndarray, bool]  # points (P, K), and whether slopes are wanted with their values
Told = tuple[np.ndarray, Any]  # values (P,), and slopes (P, K) or None
Limits = list[tuple[float | None, float | None]]


def descend(values: Values, slopes: Slopes, starts: list[np.ndarray], limits: Limits) -> list[Minimum]:
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
    return drive(asking(starts, limits), lambda asked: slopes(asked[0]) if asked[1] else (values(asked[0]), None))


def drive(questions: Generator[Asked, Told, Any], answer: Callable[[Asked], Told]) -> Any:
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


def asking(starts: list[np.ndarray], limits: Limits) -> Generator[Asked, Told, list[Minimum]]:
    """Do what `descend` does, and leave it to others to find the values: those of many problems at once, say."""
    lows = np.array([-np.inf if low is None else low for low, _ in limits])
    highs = np.array([np.inf if high is None else high for _, high in limits])
    begin = np.clip(np.array(starts), lows, highs)
    searches = [_Search(*each) for each in zip(begin, *(yield begin, True), strict=True)]
    for _ in range(MOST_STEPS):
        going = [(one, one.move(lows, highs)) for one in searches if not one.message]
        moves = [(one, np.clip(one.x + step, lows, highs)) for one, step in going if step is not None]
        if not moves:
            break
        told = yield np.array([aim for _, aim in moves]), True
        for (one, aim), value, slope in zip(moves, *told, strict=True):
            one.evaluations += 1
            if value <= one.value + ENOUGH * one.promised(aim):
                one.arrive(aim, value, slope)
            else:
                yield from _retreat(one, aim)
    return [one.told() for one in searches]


def _retreat(one: _Search, aim: np.ndarray) -> Generator[Asked, Told, None]:
    """Take a shorter step, the longest that is good enough; without one the search is at its end."""
    tried = one.x + SHORTER[:, None] * (aim - one.x)
    found, _ = yield tried, False
    good = np.flatnonzero(found <= one.value + ENOUGH * one.promised(tried))
    if len(good):
        value, slope = yield tried[good[:1]], True
        one.evaluations += 1
        one.arrive(tried[good[0]], float(value[0]), slope[0])
    elif not one.fresh:
        one.forget()
    else:
        one.message = "no step leads further down"
