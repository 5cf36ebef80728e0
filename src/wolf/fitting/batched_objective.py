"""Score at many points at once: native code runs one series under eight models in the time of one.

Gradients are then finite differences of scores. Differentiating the filter takes a program several times its size,
which does not fit a cache for a model of a dozen states; differences take more runs of the same small program.
"""

import numpy as np

from wolf import native
from wolf.engine.measurements import is_unusable
from wolf.execution import backend_selection
from wolf.fitting.affine_in_parameters import AffineArrays
from wolf.interfaces import StepInfo
from wolf.native.execute.executable import LANES, NativeProgram
from wolf.native.frontend.signature import Arguments, flatten_model
from wolf.numerics.pytree import PyTree

NUM_GENERIC_POINTS = 4  # points that determine which entries are equal or 0 everywhere
POINTS_PER_BATCH = 512  # points with one series each, whose rows and results stay in a cache
ROWS_PER_BATCH = 80_000  # points times steps for one series, likewise
MAX_ARRAY_ENTRIES = 4_000_000  # entries of the arrays of all points; time-varying matrices may exceed it


class BatchedScore:
    """Scores of one or many series at many points, by native code.

    Args:
        affine: model and method as affine functions of the parameters, (K,).
        generic: several generic points, (B, K): entries that are equal or 0 at all of them are constants of the code.
        ys: measurements, (series, T, M).
        inputs: inputs, (T, U).
        two_part: score by the contaminated Gaussian of the method's noise model; otherwise by the Gaussian density.
        update_first: order of update and prediction.
        unscored: number of first rows of each series that are not scored, (series,).

    Raises:
        native.UnsupportedModelError, native.UnsupportedOperationError: if native code does not support the model.
    """

    def __init__(
        self,
        affine: AffineArrays,
        generic: np.ndarray,
        ys: np.ndarray,
        inputs: np.ndarray | None,
        two_part: bool,
        update_first: bool,
        unscored: np.ndarray,
    ):
        self.affine, self.two_part, self.inputs = affine, two_part, inputs
        size = sum(fixed.size for fixed in affine.fixed)
        if size * _pad_to_lanes(len(generic)) > MAX_ARRAY_ENTRIES:
            raise native.UnsupportedModelError("the arrays of all points exceed the memory limit")
        points = [affine.at(numbers) for numbers in generic[:NUM_GENERIC_POINTS]]
        (model, method), models = points[0], [model for model, _ in points]
        reason = backend_selection.unsupported_reason("auto", model, method, None)
        if reason is not None:
            raise native.UnsupportedModelError(reason.detail)
        width = None if inputs is None else inputs.shape[-1]
        self.kind = flatten_model(models, method, "float64", update_first, width, _record_score).signature
        parts = zip(affine.varies, self.kind.varying, strict=True)
        self.affine_parameters = None if any(moves and varies for moves, varies in parts) else self._affine_parameters()
        self.ys = np.ascontiguousarray(ys, float)
        self.count = (np.isfinite(self.ys) & ~is_unusable(self.ys)).sum(-1).astype(float)
        self.scored = (self.count > 0) & (np.arange(self.ys.shape[1]) >= unscored[:, None])

    def scores(self, numbers: np.ndarray) -> np.ndarray:
        """Compute the score over the scored rows of all series at each of some points.

        Args:
            numbers: points, (B, K); the last two parameters are the share and width of outliers, if these are scored.

        Returns:
            Scores, (B,).
        """
        max_points = LANES * max(1, ROWS_PER_BATCH // (LANES * self.ys.shape[1]))
        if len(numbers) > max_points:
            return np.concatenate(
                [self.scores(numbers[i : i + max_points]) for i in range(0, len(numbers), max_points)]
            )
        padding = _pad_to_lanes(len(numbers)) - len(numbers)
        # A multiple of the SIMD width, so that one program serves all.
        numbers = np.concatenate([numbers, numbers[-1:].repeat(padding, axis=0)])
        program = self._prepare(numbers)
        total = np.zeros(len(numbers))
        for series, count, scored in zip(self.ys, self.count, self.scored, strict=True):
            repeated = np.broadcast_to(series, (len(numbers), *series.shape))
            nis, log_density = native.run_many(program, repeated, self.inputs, None, threads=1)[1]
            if self.two_part:
                log_density = _two_part(log_density, nis, count, *numbers[:, -2:].T[..., None])
            total += np.where(scored, log_density, 0.0).sum(1)
        return total[: len(numbers) - padding]

    def scores_by_series(self, numbers: np.ndarray, series_index: np.ndarray) -> np.ndarray:
        """Compute the score over the scored rows of one series per point; on all cores.

        Args:
            numbers: points, (B, K), as in `scores`.
            series_index: series of each point, (B,).

        Returns:
            Scores, (B,).
        """
        scores = [np.zeros(0)]
        for first in range(0, len(numbers), POINTS_PER_BATCH):
            batch, series = numbers[first : first + POINTS_PER_BATCH], series_index[first : first + POINTS_PER_BATCH]
            program = self._prepare(batch)
            nis, log_density = native.run_many(program, self.ys[series], self.inputs, None, threads=None)[1]
            count = self.count[series]
            if self.two_part:
                log_density = _two_part(log_density, nis, count, *batch[:, -2:].T[..., None])
            scores.append(np.where(self.scored[series], log_density, 0.0).sum(1))
        return np.concatenate(scores)

    def residuals(self, numbers: np.ndarray, series: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute eᵀ S⁻¹ e, the log density, and the number of measured coordinates of scored rows, (rows,) each.

        Args:
            numbers: one point, (K,).
            series: which series.
        """
        ys, count, scored = self.ys[series], self.count[series], self.scored[series]
        program = self._prepare(np.repeat(numbers[None], len(ys), axis=0))
        nis, log_density = native.run_many(program, ys, self.inputs, None, threads=1)[1]
        return nis[scored], log_density[scored], count[scored]

    def _affine_parameters(self) -> tuple[Arguments, np.ndarray, np.ndarray]:
        """Return the parameter vector of native code as an affine function: constant part, and coefficients."""
        fixed = Arguments(self.kind, [np.asarray(leaf, float)[None] for leaf in self.affine.fixed])
        return fixed, fixed.parameters(), Arguments(self.kind, self.affine.coefficients).parameters()

    def _prepare(self, numbers: np.ndarray) -> NativeProgram:
        """Prepare the native program for models at some points, (B, K)."""
        if self.affine_parameters is not None:
            arguments, fixed, coefficients = self.affine_parameters
            return NativeProgram(arguments, parameters=fixed + numbers @ coefficients)
        parts = zip(self.affine.leaves(numbers), self.affine.varies, strict=True)
        leaves = [leaf if varying else np.broadcast_to(leaf, (len(numbers), *leaf.shape)) for leaf, varying in parts]
        return NativeProgram(Arguments(self.kind, leaves))


def _pad_to_lanes(count: int) -> int:
    return -(-count // LANES) * LANES


def _record_score(state: PyTree, info: StepInfo) -> tuple[PyTree, PyTree]:
    return info.nis, info.log_likelihood


def _two_part(
    log_density: np.ndarray, nis: np.ndarray, count: np.ndarray, share: np.ndarray, widen: np.ndarray
) -> np.ndarray:
    """Compute `student_score.log_two_part` in NumPy."""
    # log(good + bad) = log good + log(1 + bad / good), or with exchanged roles where the ratio exceeds 1.
    # NumPy vectorises log but not log1p; the rounding of the sum with 1 is below the precision of a score.
    odds = nis * (0.5 - 0.5 / widen)
    odds += np.log(share) - np.log1p(-share) - 0.5 * count * np.log(widen)
    exponential = np.abs(odds)
    np.exp(np.negative(exponential, out=exponential), out=exponential)
    exponential += 1.0
    np.log(exponential, out=exponential)
    exponential += np.maximum(odds, 0.0, out=odds)
    exponential += log_density
    exponential += np.log1p(-share)
    return exponential
