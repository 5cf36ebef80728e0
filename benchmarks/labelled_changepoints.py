"""Scores of `wolf.changepoints(ys)` on the Turing change point data set.

Measures of van den Burg & Williams (2020, arXiv 2003.06222): F1 counts a change as right within 5 steps of one that
somebody marked, with the recall of each annotator on average; the cover is that of the segments of each annotator by
the segments found, on average.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from labelled_data import changepoint_series

MARGIN = 5  # steps


def matches(truth: set[int], found: set[int]) -> int:
    """Count the true changes that have a found one within the margin, each found one used once."""
    rest, count = set(found), 0
    for change in sorted(truth):
        near = min(rest, key=lambda other: (abs(change - other), other), default=None)
        if near is not None and abs(change - near) <= MARGIN:
            rest.remove(near)
            count += 1
    return count


def f1(annotations: list[list[int]], found: list[int]) -> float:
    """Compute F1; the start of the series counts as a change of everybody."""
    marked = [{0, *changes} for changes in annotations]
    given = {0, *found}
    precision = matches(set.union(*marked), given) / len(given)
    recall = float(np.mean([matches(each, given) / len(each) for each in marked]))
    return 2 * precision * recall / (precision + recall)


def cover(annotations: list[list[int]], found: list[int], steps: int) -> float:
    """Compute the mean over annotators of how well their segments are covered by those found."""

    def segments(changes: list[int]) -> list[tuple[int, int]]:
        return list(pairwise(sorted({0, steps, *changes})))

    def overlap(one: tuple[int, int], other: tuple[int, int]) -> float:
        shared = max(0, min(one[1], other[1]) - max(one[0], other[0]))
        return shared / (one[1] - one[0] + other[1] - other[0] - shared)

    own = segments(found)
    covers = [
        sum((one[1] - one[0]) * max(overlap(one, other) for other in own) for one in segments(changes)) / steps
        for changes in annotations
    ]
    return float(np.mean(covers))


def judge(folder: Path, judging: bool) -> None:
    """Print F1 and cover of each series of one part, and their means."""
    import wolf

    lines = {}
    for name, values, annotations in changepoint_series(folder, judging):
        found, marked = wolf.changepoints(values).at.tolist(), list(annotations.values())
        lines[name] = {
            "steps": len(values),
            "found": len(found),
            "marked": float(np.mean([len(each) for each in marked])),
            "F1": f1(marked, found),
            "cover": cover(marked, found, len(values)),
            "F1 of none": f1(marked, []),
            "cover of none": cover(marked, [], len(values)),
        }
    frame = pd.DataFrame(lines).T
    print(frame.round(2).to_string())
    print(frame[["F1", "cover", "F1 of none", "cover of none"]].mean().round(3).to_string())
