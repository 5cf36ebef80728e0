"""Joint model of correlated series: one model each, with correlated disturbances (seemingly unrelated time series).

Each series keeps its own model, x_j' = F_j x_j + L_j ε_j with L_j L_jᵀ = Q_j. The entries of ε_i and ε_j that belong to
states of the same name, such as the levels, have the correlation C_ij of the two series; all others have none. Harvey
(1989), Forecasting, Structural Time Series Models and the Kalman Filter, section 8.2.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.models.discretization import block_diagonal
from wolf.statespace import LinearModel

MAX_CORRELATION = 0.999


def joint(models: Sequence[LinearModel], correlation: ArrayLike, names: Sequence[str] | None = None) -> LinearModel:
    """Join the models of several series, whose disturbances are correlated.

    A series is then estimated and filled from the others too. The measurement noises stay independent.

    Args:
        models: linear, one for each series, of one measurement each.
        correlation: of the disturbances of the series, (M, M).
        names: of the series, which the names of the states begin with; default: y0, y1 and so on.

    Example:
        >>> import wolf
        >>> level = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> both = joint([level, level], [[1.0, 0.8], [0.8, 1.0]])
        >>> both.Q.round(3).tolist(), both.state_names
        ([[0.1, 0.08], [0.08, 0.1]], ('y0_level', 'y1_level'))
    """
    models = list(models)
    count = len(models)
    if count < 2 or not all(isinstance(each, LinearModel) and each.obs_dim == 1 for each in models):
        raise ValueError("models must be at least two linear models with one measurement each")
    matrix = validation.number_array("correlation", correlation)
    if matrix.shape != (count, count) or not np.allclose(matrix, matrix.T) or not np.allclose(np.diag(matrix), 1.0):
        raise ValueError(f"correlation must be symmetric with ones on its diagonal, ({count}, {count}); got {matrix}")
    if np.linalg.eigvalsh(matrix)[0] < -1e-9:
        raise ValueError(f"correlation must have no negative eigenvalue; got {matrix}")
    titles = [f"y{j}" for j in range(count)] if names is None else list(map(str, names))
    if len(titles) != count:
        raise ValueError(f"names must have one name for each of {count} models; got {titles}")
    sizes = [each.state_dim for each in models]
    dynamics = [
        np.eye(size) if each.F is None else np.asarray(each.F) for each, size in zip(models, sizes, strict=True)
    ]
    return LinearModel(
        F=block_diagonal(dynamics),
        H=_joint_rows(models),
        Q=_joint_noise(models, matrix),
        R=block_diagonal([np.asarray(each.R).reshape(*np.shape(each.R)[:-2], 1, 1) for each in models]),
        mean=np.concatenate([np.asarray(each.mean) for each in models]),
        cov=block_diagonal([_matrix(each.cov) for each in models]),
        state_names=tuple(
            f"{title}_{name}" for title, each in zip(titles, models, strict=True) for name in state_labels(each)
        ),
        obs_names=tuple(titles),
    )


def _joint_rows(models: list[LinearModel]) -> np.ndarray:
    """Place the row of each model at its states, (..., M, D)."""
    rows = [np.asarray(each.H) for each in models]
    lead = np.broadcast_shapes(*(row.shape[:-2] for row in rows))
    whole, first = np.zeros((*lead, len(rows), sum(row.shape[-1] for row in rows))), 0
    for j, row in enumerate(rows):
        whole[..., j, first : first + row.shape[-1]] = row[..., 0, :]
        first += row.shape[-1]
    return whole


def state_labels(model: LinearModel) -> tuple[str, ...]:
    """Return the names of the states of a model, or their numbers."""
    return tuple(model.state_names or map(str, range(model.state_dim)))


def cross_noise(first: LinearModel, second: LinearModel) -> np.ndarray:
    """Compute the covariance of the disturbances of two models whose correlation is 1, (..., D_1, D_2)."""
    same = np.array([[a == b for b in state_labels(second)] for a in state_labels(first)], float)
    return np.asarray(_root(first.Q) @ same @ np.swapaxes(_root(second.Q), -1, -2))


def nearest_correlation(matrix: np.ndarray) -> np.ndarray:
    """Return a correlation matrix near a symmetric matrix: eigenvalues are clipped, and the diagonal is set to 1."""
    clipped = np.clip(matrix, -MAX_CORRELATION, MAX_CORRELATION)
    np.fill_diagonal(clipped, 1.0)
    values, vectors = np.linalg.eigh(clipped)
    whole = (vectors * np.maximum(values, 1.0 - MAX_CORRELATION)) @ vectors.T
    scale = np.sqrt(np.diag(whole))
    return np.asarray(whole / np.outer(scale, scale))


def _joint_noise(models: list[LinearModel], correlation: np.ndarray) -> np.ndarray:
    rows = [
        [
            _matrix(first.Q) if i == j else correlation[i, j] * cross_noise(first, second)
            for j, second in enumerate(models)
        ]
        for i, first in enumerate(models)
    ]
    lead = np.broadcast_shapes(*(block.shape[:-2] for row in rows for block in row))
    full = [[np.broadcast_to(block, (*lead, *block.shape[-2:])) for block in row] for row in rows]
    whole = np.concatenate([np.concatenate(row, axis=-1) for row in full], axis=-2)
    return np.asarray(0.5 * (whole + np.swapaxes(whole, -1, -2)))


def _matrix(cov: ArrayLike) -> np.ndarray:
    array = np.asarray(cov, float)
    return np.diag(array) if array.ndim == 1 else array


def _root(cov: ArrayLike) -> np.ndarray:
    """Compute the symmetric root of covariances, (..., D, D)."""
    values, vectors = np.linalg.eigh(_matrix(cov))
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]) @ np.swapaxes(vectors, -1, -2))
