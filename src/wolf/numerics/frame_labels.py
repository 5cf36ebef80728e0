"""Index and column names of data frames, without an import of their library."""

from typing import Any

FRAME_LIBRARIES = ("pandas", "polars")


def index_of(frame: Any) -> Any:
    """Return the index of a pandas Series or DataFrame; None for everything else."""
    return frame.index if _library(frame) == "pandas" and frame.ndim in (1, 2) else None


def columns_of(frame: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a DataFrame, or of a Series; None if there are none, or not all differ."""
    if _library(frame) not in FRAME_LIBRARIES or type(frame).__name__ not in ("DataFrame", "Series"):
        return None
    given = list(frame.columns) if type(frame).__name__ == "DataFrame" else [frame.name]
    named = all(isinstance(each, str) and each for each in given) and len(set(given)) == len(given)
    return tuple(given) if named else None


def _library(value: object) -> str:
    return type(value).__module__.partition(".")[0]
