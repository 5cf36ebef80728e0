"""Results as pandas, polars or pyarrow tables, through narwhals."""

from types import ModuleType
from typing import Any, get_args

import numpy as np

from wolf import validation
from wolf.results.filtered import FrameBackend
from wolf.statespace.names import Names

BACKENDS = get_args(FrameBackend)
NORMAL_95 = 1.959963984540054  # standard deviations that a 95 % interval reaches to either side
MISSING_NARWHALS = "data frames need narwhals: pip install narwhals"


def narwhals() -> ModuleType:
    """Import narwhals; raise an ImportError that says how to install it where it is missing."""
    try:
        import narwhals
    except ImportError as error:
        raise ModuleNotFoundError(MISSING_NARWHALS, name="narwhals") from error
    return narwhals


def make_frame(parts: list[dict[str, np.ndarray]], backend: str, index: Any = None) -> Any:
    """Return a data frame of the given library.

    Args:
        parts: arrays (rows,) by name, of one series or of several; several are numbered in a column `series`.
        backend: "pandas", "polars" or "pyarrow".
        index: a label for each step, of the length of the longest part; the index of a pandas frame, a column of
            others.
    """
    validation.choice("backend", backend, BACKENDS)
    sizes = [len(next(iter(part.values()))) for part in parts]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if len(parts) > 1:
        columns = {"series": np.repeat(np.arange(len(parts)), sizes)} | columns
    if index is not None:
        if np.ndim(index) == 0 or len(index) != max(sizes):
            given = validation.short_repr(index) if np.ndim(index) == 0 else f"{len(index)} of them"
            raise ValueError(f"index must hold a label for each of the {max(sizes)} steps; got {given}")
        index = _take(index, np.concatenate([np.arange(size) for size in sizes]))
    if index is not None and backend != "pandas":
        # A list of labels has no name, one of pandas may have none.
        columns = {str(getattr(index, "name", None) or "index"): np.asarray(index)} | columns
    try:
        frame = narwhals().from_dict(columns, backend=backend).to_native()
    except ImportError as error:
        if error.name == "narwhals":
            raise
        raise ModuleNotFoundError(f"{backend} is not installed: pip install {backend}", name=backend) from error
    if index is not None and backend == "pandas":
        frame.index = index
    return frame


def index_ahead(index: Any, steps: int) -> Any:
    """Continue an index of pandas, of dates or numbers, by its frequency or last step; None where that is impossible.

    Only some of its classes have levels or a frequency.
    """
    if index is None or len(index) < 2 or getattr(index, "nlevels", 1) > 1:
        return None
    own: Any = getattr(index, "freq", None)
    try:
        step = index[-1] - index[-2] if own is None else own
        labels: Any = [index[-1] + k * step for k in range(1, steps + 1)]
        labels = range(labels[0], labels[-1] + step, step) if type(index).__name__ == "RangeIndex" else labels
        return type(index)(labels, name=index.name, **({} if own is None else {"freq": own}))
    except TypeError:  # names and categories have no successor
        return None


def _take(index: Any, rows: np.ndarray) -> Any:
    return index.take(rows) if hasattr(index, "take") else np.asarray(index)[rows]  # pandas, or a list


def belief_columns(means: np.ndarray, variances: np.ndarray | None, names: Names = None) -> dict[str, np.ndarray]:
    """Return columns with the mean, standard deviation and 95 % interval of each state.

    Args:
        means: (rows, D).
        variances: (rows, D), or None if they were not saved.
        names: of the states, which the columns of several end in (`mean_slope`); None for numbers.
    """
    columns: dict[str, np.ndarray] = {}
    for j in range(means.shape[1]):
        tail = "" if means.shape[1] == 1 else f"_{names[j] if names else j}"
        columns[f"mean{tail}"] = means[:, j]
        if variances is not None:
            deviation = np.sqrt(variances[:, j])
            columns[f"sd{tail}"] = deviation
            columns[f"lower{tail}"] = means[:, j] - NORMAL_95 * deviation
            columns[f"upper{tail}"] = means[:, j] + NORMAL_95 * deviation
    return columns


def spread(name: str, array: np.ndarray, names: Names = None) -> dict[str, np.ndarray]:
    """Return one named column, or one for each coordinate, with its name or number."""
    if array.ndim == 1 or array.shape[1] == 1:
        return {name: array.reshape(len(array))}
    return {f"{name}_{names[j] if names else j}": array[:, j] for j in range(array.shape[1])}
