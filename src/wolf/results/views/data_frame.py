"""Results as data frames of pandas, polars or pyarrow, through narwhals."""

from typing import Any, Literal, get_args

import numpy as np

from wolf import validation

Backend = Literal["pandas", "polars", "pyarrow"]
BACKENDS = get_args(Backend)
NORMAL_95 = 1.959963984540054  # standard deviations that a 95 % interval reaches to either side
MISSING_NARWHALS = "Data frames need narwhals, a dependency of wolf-filter that is missing here: pip install narwhals"


def narwhals() -> Any:
    """Import narwhals, or name the extra that brings it."""
    try:
        import narwhals
    except ImportError as error:
        raise ModuleNotFoundError(MISSING_NARWHALS, name="narwhals") from error
    return narwhals


def make_frame(parts: list[dict[str, np.ndarray]], backend: str, index: Any = None) -> Any:
    """Make a frame of the kind that is asked for.

    Args:
        parts: arrays (rows,) by name, of one series or of several; several are numbered in a column `series`.
        backend: "pandas", "polars" or "pyarrow".
        index: a label for each step, as long as the longest part; the index of a pandas frame, a column of others.
    """
    validation.choice("backend", backend, BACKENDS)
    sizes = [len(next(iter(part.values()))) for part in parts]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if len(parts) > 1:
        columns = {"series": np.repeat(np.arange(len(parts)), sizes)} | columns
    if index is not None:
        if np.ndim(index) == 0 or len(index) != max(sizes):
            told = validation.short_repr(index) if np.ndim(index) == 0 else f"{len(index)} of them"
            raise ValueError(f"index must hold a label for each of the {max(sizes)} steps; got {told}")
        index = _take(index, np.concatenate([np.arange(size) for size in sizes]))
    if index is not None and backend != "pandas":
        columns = {str(getattr(index, "name", None) or "index"): np.asarray(index)} | columns
    try:
        frame = narwhals().from_dict(columns, backend=backend).to_native()
    except ImportError as error:
        if "wolf-filter" in str(error):
            raise
        raise ModuleNotFoundError(f"{backend} is not installed: pip install {backend}", name=backend) from error
    if index is not None and backend == "pandas":
        frame.index = index
    return frame


def index_of(ys: Any) -> Any:
    """Give the index that measurements came with, as a pandas Series or DataFrame; None for everything else."""
    return ys.index if hasattr(ys, "iloc") else None


def index_ahead(index: Any, steps: int) -> Any:
    """Go on with an index of dates or numbers, by its own frequency or its last step; None where it has no next."""
    if index is None or len(index) < 2 or getattr(index, "nlevels", 1) > 1:
        return None
    own: Any = getattr(index, "freq", None)
    try:
        step = index[-1] - index[-2] if own is None else own
        labels: Any = [index[-1] + k * step for k in range(1, steps + 1)]
        labels = range(labels[0], labels[-1] + step, step) if type(index).__name__ == "RangeIndex" else labels
        return type(index)(labels, name=index.name, **({} if own is None else {"freq": own}))
    except TypeError:  # names, categories: what comes after them nobody knows
        return None


def _take(index: Any, rows: np.ndarray) -> Any:
    return index.take(rows) if hasattr(index, "take") else np.asarray(index)[rows]


def belief_columns(means: np.ndarray, variances: np.ndarray | None) -> dict[str, np.ndarray]:
    """Name mean, standard deviation and 95 % interval of each state; numbered unless there is only one.

    Args:
        means: (rows, D).
        variances: (rows, D), or None if they were not kept.
    """
    columns: dict[str, np.ndarray] = {}
    for j in range(means.shape[1]):
        tail = "" if means.shape[1] == 1 else f"_{j}"
        columns[f"mean{tail}"] = means[:, j]
        if variances is not None:
            deviation = np.sqrt(variances[:, j])
            columns[f"sd{tail}"] = deviation
            columns[f"lower{tail}"] = means[:, j] - NORMAL_95 * deviation
            columns[f"upper{tail}"] = means[:, j] + NORMAL_95 * deviation
    return columns


def spread(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """Name one array, or one for each of its columns."""
    if array.ndim == 1 or array.shape[1] == 1:
        return {name: array.reshape(len(array))}
    return {f"{name}_{j}": array[:, j] for j in range(array.shape[1])}
