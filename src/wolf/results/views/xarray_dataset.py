"""Results as `xarray.Dataset` with named axes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from wolf.statespace.names import Names

if TYPE_CHECKING:
    import xarray

STATES = ("means", "covs", "variances", "predicted_means", "predicted_covs")  # arrays whose last axes are states
MISSING = "to_xarray needs xarray: pip install xarray"


def make_dataset(
    arrays: dict[str, np.ndarray],
    many: bool,
    index: Sequence[object] | None,
    coords: dict[str, np.ndarray],
    names: Mapping[str, Names],
) -> "xarray.Dataset":
    """Return a dataset of arrays with named axes.

    Args:
        arrays: by name: (T, ...), or (series, T, ...).
        many: whether there are several series.
        index: labels of the steps; None for numbers.
        coords: other labels, of the series.
        names: of the states and coordinates, by axis; None for numbers.
    """
    try:
        import xarray
    except ImportError as error:
        raise ModuleNotFoundError(MISSING, name="xarray") from error
    leading = ("series", "step") if many else ("step",)
    named = {}
    for name, array in arrays.items():
        axis = "state" if name in STATES else "coordinate"
        tail = (axis, f"other_{axis}")[: array.ndim - len(leading)]
        named[name] = ((*leading, *tail), array)
    steps = next(iter(arrays.values())).shape[len(leading) - 1]
    labels = np.arange(steps) if index is None else np.asarray(index)
    used = {axis for axes, _ in named.values() for axis in axes}
    called = {f"{start}{axis}": list(each) for axis, each in names.items() if each for start in ("", "other_")}
    axes = {"step": labels} | {axis: each for axis, each in called.items() if axis in used}
    return xarray.Dataset(named, coords=axes | {name: (("series",), each) for name, each in coords.items()})
