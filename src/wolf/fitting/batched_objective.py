"""The score at many points at once: native code runs one series under eight models in the time of one.

A slope is then a difference of scores. Differentiating the filter takes a program several times its size, which a
model of a dozen states has no place for in a cache; differences take more runs of the same small one.
"""

from typing import Any

import numpy as np

from wolf import native
from wolf.engine.measurements import is_unusable
from wolf.execution import backend_selection
from wolf.fitting.affine_in_parameters import AffineArrays
from wolf.interfaces import StepInfo
from wolf.native.execute.executable import LANES, NativeProgram
from wolf.native.frontend.signature import Arguments, flatten_model

GENERIC = 4  # points that tell what is equal or 0 everywhere
AT_ONCE = 512  # points with a series each: their rows and what is kept of them stay in a cache
ROWS = 80_000  # points times steps, for one series: likewise
LARGEST = 4_000_000  # numbers in the arrays of all points; matrices that vary in time may take more


class Batch:
    """Scores of one or many series under many points.

    Args:
        affine: points from numbers, (K,): model and method.
        generic: numbers of several points, (B, K), that have nothing in common: what is equal or 0 in all of them is so
            everywhere, and folded.
        ys: (series, T, M).
        inputs: (T, U).
        two_part: score by the two parts of the method's noise rule; by the Gaussian density otherwise.
        update_first: order of the steps.

    Raises:
        native.UnsupportedModelError, native.UnsupportedOperationError: where the model is not for native code.
    """

    def __init__(
        self,
        affine: AffineArrays,
        generic: np.ndarray,
        ys: np.ndarray,
        inputs: np.ndarray | None,
        two_part: bool,
        update_first: bool,
    ):
        self.affine, self.two_part, self.inputs = affine, two_part, inputs
        size = sum(fixed.size for fixed in affine.fixed)
        if size * _padded(len(generic)) > LARGEST:
            raise native.UnsupportedModelError("the arrays of all points take too much room")
        points = [affine.at(numbers) for numbers in generic[:GENERIC]]
        (model, method), models = points[0], [model for model, _ in points]
        reason = backend_selection.unsupported_reason("auto", model, method, None)
        if reason is not None:
            raise native.UnsupportedModelError(reason.detail)
        width = None if inputs is None else inputs.shape[-1]
        self.kind = flatten_model(models, method, "float64", update_first, width, _told).signature
        whole = zip(affine.moving, self.kind.varying, strict=True)
        self.still = None if any(moves and varies for moves, varies in whole) else self._take_sums()
        self.ys = np.ascontiguousarray(ys, float)
        self.count = (np.isfinite(self.ys) & ~is_unusable(self.ys)).sum(-1).astype(float)

    def scores(self, numbers: np.ndarray) -> np.ndarray:
        """Add the score up over all rows of all series, at each of some points.

        Args:
            numbers: (B, K); the last two are the share and the width of outliers, if these are scored.

        Returns:
            (B,).
        """
        most = LANES * max(1, ROWS // (LANES * self.ys.shape[1]))
        if len(numbers) > most:
            return np.concatenate([self.scores(numbers[i : i + most]) for i in range(0, len(numbers), most)])
        blank = _padded(len(numbers)) - len(numbers)
        numbers = np.concatenate([numbers, numbers[-1:].repeat(blank, axis=0)])  # whole registers, and one program
        ready = self._prepared(numbers)
        total = np.zeros(len(numbers))
        for series, count in zip(self.ys, self.count, strict=True):
            same = np.broadcast_to(series, (len(numbers), *series.shape))
            nis, log_density = native.run_many(ready, same, self.inputs, None, threads=1)[1]
            if self.two_part:
                log_density = _two_part(log_density, nis, count, *numbers[:, -2:].T[..., None])
            total += np.where(count > 0, log_density, 0.0).sum(1)
        return total[: len(numbers) - blank]

    def scores_of(self, numbers: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Add the score up over all rows of one of the series, at each of some points; on all cores.

        Args:
            numbers: (B, K), as in `scores`.
            which: (B,), the series of each point.

        Returns:
            (B,).
        """
        found = [np.zeros(0)]
        for first in range(0, len(numbers), AT_ONCE):
            some, series = numbers[first : first + AT_ONCE], which[first : first + AT_ONCE]
            ready = self._prepared(some)
            nis, log_density = native.run_many(ready, self.ys[series], self.inputs, None, threads=None)[1]
            count = self.count[series]
            if self.two_part:
                log_density = _two_part(log_density, nis, count, *some[:, -2:].T[..., None])
            found.append(np.where(count > 0, log_density, 0.0).sum(1))
        return np.concatenate(found)

    def _take_sums(self) -> tuple[Arguments, np.ndarray, np.ndarray]:
        """Make the vector of parameters of native code a sum too: a fixed one, and one for each number."""
        fixed = Arguments(self.kind, [np.asarray(leaf, float)[None] for leaf in self.affine.fixed])
        return fixed, fixed.parameters(), Arguments(self.kind, self.affine.slopes).parameters()

    def _prepared(self, numbers: np.ndarray) -> NativeProgram:
        """Get a model for each of some points, (B, K), ready to run."""
        if self.still is not None:
            given, fixed, slopes = self.still
            return NativeProgram(given, parameters=fixed + numbers @ slopes)
        whole = zip(self.affine.leaves(numbers), self.affine.moving, strict=True)
        each = [leaf if moves else np.broadcast_to(leaf, (len(numbers), *leaf.shape)) for leaf, moves in whole]
        return NativeProgram(Arguments(self.kind, each))


def _padded(count: int) -> int:
    return -(-count // LANES) * LANES


def _told(state: Any, info: StepInfo) -> tuple[Any, Any]:
    return info.nis, info.log_likelihood


def _two_part(
    log_density: np.ndarray, nis: np.ndarray, count: np.ndarray, share: np.ndarray, widen: np.ndarray
) -> np.ndarray:
    """Do what `scores.log_two_part` does, in NumPy."""
    # log(good + bad) = log good + log(1 + bad / good), and the ratio is bounded where the other way round is taken.
    # NumPy's log runs in registers and its log1p does not; what the sum with 1 loses is beyond the digits of a score.
    odds = nis * (0.5 - 0.5 / widen)
    odds += np.log(share) - np.log1p(-share) - 0.5 * count * np.log(widen)
    rest = np.abs(odds)
    np.exp(np.negative(rest, out=rest), out=rest)
    rest += 1.0
    np.log(rest, out=rest)
    rest += np.maximum(odds, 0.0, out=odds)
    rest += log_density
    rest += np.log1p(-share)
    return rest
