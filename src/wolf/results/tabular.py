"""Results as data frames of any kind, through narwhals (the extra `frames`)."""

from typing import Any, Literal, get_args

import numpy as np

from wolf import checks

Backend = Literal["pandas", "polars", "pyarrow"]
BACKENDS = get_args(Backend)
NORMAL_95 = 1.959963984540054  # standard deviations that a 95 % interval reaches to either side
MISSING_NARWHALS = (
    'Data frames need narwhals: pip install "wolf-filter[frames]" (in a clone of wolf: pip install ".[frames]")'
)


def narwhals() -> Any:
    """Import narwhals, or name the extra that brings it."""
    try:
        import narwhals
    except ImportError as error:
        raise ModuleNotFoundError(MISSING_NARWHALS, name="narwhals") from error
    return narwhals


def make_frame(columns: dict[str, np.ndarray], backend: str) -> Any:
    """Make a frame of the kind that is asked for.

    Args:
        columns: arrays (rows,) by name.
        backend: "pandas", "polars" or "pyarrow".
    """
    checks.choice("backend", backend, BACKENDS)
    try:
        return narwhals().from_dict(columns, backend=backend).to_native()
    except ImportError as error:
        if "wolf-filter" in str(error):
            raise
        raise ModuleNotFoundError(f"{backend} is not installed: pip install {backend}", name=backend) from error


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
