"""Model selection for correlated series: a model for each, joined by the correlation of their disturbances."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from wolf.fitting.joint_correlation import estimate_correlation
from wolf.models.joint import joint
from wolf.statespace import LinearModel

if TYPE_CHECKING:
    from wolf.fitting.select.selection import Choice


def choose_jointly(
    values: np.ndarray, names: tuple[str, ...] | None, select: "Callable[[np.ndarray], Choice]"
) -> "Choice":
    """Select a model for each column, and join them.

    Args:
        values: (T, M), with M at least 2.
        names: of the columns.
        select: one column, (T, 1) -> choice.

    Returns:
        The choice, whose model measures all columns; `parts` are those of the columns.
    """
    if values.shape[1] < 2:
        raise ValueError(f"together=True needs at least two columns; got {values.shape[1]}")
    titles = tuple(f"y{j}" for j in range(values.shape[1])) if names is None else names
    parts = tuple(select(values[:, j : j + 1]) for j in range(values.shape[1]))
    correlation = estimate_correlation([_even(each.model) for each in parts], values)
    first = parts[0]
    return dataclasses.replace(
        first,
        name=" | ".join(each.name for each in parts),
        model=joint([each.model for each in parts], correlation, titles),
        parameters={
            f"{title}_{k}": v for title, each in zip(titles, parts, strict=True) for k, v in each.parameters.items()
        },
        candidates=(),
        verdict=" ".join(f"{title}: {each.verdict}" for title, each in zip(titles, parts, strict=True) if each.verdict),
        outlier_share=float(np.mean([each.outlier_share for each in parts])),
        seconds=sum(each.seconds for each in parts),
        parts=dict(zip(titles, parts, strict=True)),
        correlation=correlation,
    )


def _even(model: LinearModel) -> LinearModel:
    """Return a model of typical steps, where those of a model differ."""
    changes = {
        name: np.median(vars(model)[name], axis=0)
        for name in ("F", "Q", "R")
        if vars(model)[name] is not None and np.ndim(vars(model)[name]) == 3
    }
    return dataclasses.replace(model, **changes) if changes else model
