"""Padding of series, so that a few compiled programs serve all lengths."""

from collections.abc import Callable

import jax
import numpy as np

from wolf.numerics.pytree import PyTree, field_values
from wolf.statespace import Model, time_axes
from wolf.statespace.array_fields import replace

MIN_STEPS = 16  # that a run is padded to
MIN_PADDED_ROWS = 256  # to which shorter series are padded, so that many of them share a program
FINE_PADDING_STEPS = 1024  # above which there are more lengths, and less padding


def pad_steps(count: int) -> int:
    """Round a number of steps up, so that a few programs serve all lengths.

    By at most a quarter, and a sixteenth where the steps take longer than a call.

    Example:
        >>> [pad_steps(count) for count in (1, 16, 17, 100, 1000, 10_000, 100_000)]
        [16, 16, 32, 112, 1024, 10240, 102400]
    """
    parts = 2 if count <= FINE_PADDING_STEPS else 4  # of an octave, as powers of two
    grain = max(MIN_STEPS, 1 << max((count - 1).bit_length() - 1 - parts, 0))
    return -(-count // grain) * grain


def pad_to_power_of_two(count: int) -> int:
    """Round a number of rows up to a power of two, at least `MIN_PADDED_ROWS`.

    Coarser than `pad_steps`: for short series of many lengths, where compiling takes longer than blank rows.

    Example:
        >>> pad_to_power_of_two(10), pad_to_power_of_two(300)
        (256, 512)
    """
    return max(MIN_PADDED_ROWS, 1 << (count - 1).bit_length())


def pad_rows(array: np.ndarray, count: int, blank: float) -> np.ndarray:
    """Append rows of a constant to an array, up to a number of rows.

    Example:
        >>> pad_rows(np.ones(2), 3, np.nan)
        array([ 1.,  1., nan])
    """
    if len(array) == count:
        return array
    return np.concatenate([array, np.full((count - len(array), *array.shape[1:]), blank)])


def pad(tree: PyTree, axis: int, before: int = 0, after: int = 0) -> PyTree:
    """Pad every array along an axis by copies of its first or last entry."""

    def one(array: np.ndarray) -> np.ndarray:
        width = [(0, 0)] * array.ndim
        width[axis] = (before, after)
        return np.pad(array, width, mode="edge")

    return jax.tree.map(one, tree) if before or after else tree


def stretch(tree: PyTree, extra: int) -> PyTree:
    """Lengthen every array at its end by arbitrary rows, without a copy if it is a view of a longer array.

    Results of a run are such views, since the run was padded.
    """

    def one(array: np.ndarray) -> np.ndarray:
        whole, wanted = array.base, len(array) + extra
        if (
            type(whole) is np.ndarray
            and (whole.shape[1:], whole.strides, whole.dtype) == (array.shape[1:], array.strides, array.dtype)
            and whole.ctypes.data == array.ctypes.data
            and len(whole) >= wanted
        ):
            return whole[:wanted]
        return pad(array, 0, after=extra)  # type: ignore[no-any-return]

    return jax.tree.map(one, tree) if extra else tree


def lengthen(
    model: Model,
    ys: np.ndarray,
    us: np.ndarray | None,
    per_series: bool = False,
    padded: Callable[[int], int] = pad_steps,
) -> tuple[Model, np.ndarray, np.ndarray | None]:
    """Pad measurements with missing ones, and inputs and time-varying arrays to match.

    Args:
        model: that is filtered.
        ys: measurements, (..., T, M).
        us: inputs, (..., T, U), or None.
        per_series: whether the model's arrays begin with a series axis.
        padded: rounds a number of steps up.
    """
    one = jax.tree.map(lambda leaf: leaf[0], model) if per_series else model
    varying = {name: padded(length) - length for name, length in time_axes(one).items()}
    if any(varying.values()):
        fields = field_values(model)
        longer = {name: pad(fields[name], int(per_series), after=more) for name, more in varying.items()}
        model = replace(model, **longer)
    extra = padded(ys.shape[-2]) - ys.shape[-2]
    if not extra:
        return model, ys, us
    blank = np.full((*ys.shape[:-2], extra, ys.shape[-1]), np.nan, ys.dtype)
    return model, np.concatenate([ys, blank], -2), None if us is None else pad(us, us.ndim - 2, after=extra)
