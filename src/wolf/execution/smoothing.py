"""The smoother on the backend that suits it: native code where it is supported and its result is finite, else XLA."""

import dataclasses
from typing import Any

import jax
import numpy as np

from wolf import native
from wolf.beliefs import Gaussian
from wolf.execution import validate, xla_batching
from wolf.execution.backend_selection import compile_backward
from wolf.execution.padding import pad, pad_steps, stretch
from wolf.execution.xla_batching import bound_programs
from wolf.interfaces import Linearization
from wolf.numerics.linalg import SMALL
from wolf.numerics.precision import precision, to_dtype
from wolf.numerics.pytree import cast
from wolf.statespace import Model, with_matrices


@dataclasses.dataclass(frozen=True)
class SmootherTask:
    """Input of a smoother.

    Args:
        models: one for all series, or one for each.
        per_series: whether each series has a model of its own.
        linearization: of the filter.
        filtered: means (T, D) and covariances (T, D, D); with a leading series axis for many series.
        predicted: the same before each measurement.
        start: the step before the first row; above 0 for a chunk. One number, or (B,).
        dtype: precision.
        update_first: order of a step.
        inputs: (T, U) or (B, T, U), or None.
        scales: factor on Q of each step, for methods that estimate it.
        lengths: steps of each series, (B,), where they differ.
    """

    models: tuple[Model, ...]
    per_series: bool
    linearization: Linearization
    filtered: Gaussian
    predicted: Gaussian
    start: int | np.ndarray
    dtype: str
    update_first: bool
    inputs: np.ndarray | None = None
    scales: np.ndarray | None = None
    lengths: np.ndarray | None = None

    @property
    def many(self) -> bool:
        """Whether there is a series axis."""
        return self.filtered.mean.ndim == 3

    @property
    def steps(self) -> int:
        """Rows of the longest series."""
        return int(self.filtered.mean.shape[-2])


def run(task: SmootherTask, allow_native: bool = True) -> Gaussian:
    """Smooth one series or many.

    Args:
        task: what the smoother reads.
        allow_native: False for a run on XLA that was requested.

    Returns:
        Smoothed means and covariances, in the shapes of the filtered ones.
    """
    found = run_native(task) if allow_native else None
    return run_xla(task) if found is None else found


def run_native(task: SmootherTask) -> Gaussian | None:
    """Smooth by native code; None where XLA has to do it."""
    start = np.asarray(task.start)
    if start.min() < start.max() or task.steps < 2:
        return None
    models = tuple(map(with_matrices, task.models))
    spec = native.SmootherSpec(task.scales is not None, task.lengths is not None)
    inputs = None if task.inputs is None else task.inputs.shape[-1]
    program = compile_backward(models, task.linearization, task.dtype, inputs, spec)
    if program is None:
        return None
    arrays = (task.filtered, task.predicted), task.scales
    (filtered, predicted), scales = jax.tree.map(lambda a: to_dtype(a if task.many else a[None], task.dtype), arrays)
    us, first = to_dtype(task.inputs, task.dtype), int(start.min())
    found = run_program(program, filtered, predicted, us, task.lengths, first, scales, task.update_first)
    return found if found is None or task.many else Gaussian(found.mean[0], found.cov[0])


def run_program(program: native.NativeProgram, filtered: Gaussian, predicted: Gaussian, *rest: Any) -> Gaussian | None:
    """Smooth by a compiled program; None where a predicted covariance is singular, which takes XLA's eigenvectors.

    Args:
        program: of `compile_backward`.
        filtered: as in `native.run_smoother`, with a leading series axis.
        predicted: as there.
        rest: the remaining arguments of `native.run_smoother`.
    """
    found = native.run_smoother(program, filtered, predicted, *rest)
    return found if np.isfinite(found.cov[:, 0]).all() else None


def run_xla(task: SmootherTask) -> Gaussian:
    """Smooth by XLA, padded to one of few lengths."""
    whole = with_matrices(task.models[0])
    if task.per_series:
        whole = validate.stack_models(tuple(map(with_matrices, task.models)))
    how: Any = {"many": task.many, "per_series_model": task.per_series, "update_first": task.update_first}
    axis, steps, dtype = int(task.many), task.steps, task.dtype
    beliefs, scales, us, lengths = (task.filtered, task.predicted), task.scales, task.inputs, task.lengths
    extra = pad_steps(steps) - steps
    # One program serves several lengths. A loop that can start at the end of a series is padded after it; for the
    # others there are steps before the first, which change nothing.
    if axis == 0 and task.filtered.mean.shape[-1] > SMALL:
        before, lengths = 0, np.asarray(steps, np.int32)
        beliefs, scales, us = stretch((beliefs, scales, us), extra)
    else:
        before, lengths = extra, None if lengths is None else lengths + extra
        beliefs, scales = pad((beliefs, scales), axis, extra)
        us = None if us is None else pad(us, us.ndim - 2, extra)
    bound_programs()
    with precision(dtype):
        arguments = cast(whole, dtype), cast(task.linearization, dtype), *cast(beliefs, dtype), to_dtype(us, dtype)
        found = xla_batching.smooth(*arguments, lengths, task.start - before, cast(scales, dtype), **how)
    rows = slice(before, before + steps)
    cut = (array[rows] if axis == 0 else array[:, rows] for array in (found.mean, found.cov))
    return Gaussian(*cut)
