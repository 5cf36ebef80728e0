"""Accuracy that comes with each reading: a factor on the standard deviation of its noise."""

import dataclasses

import numpy as np

from wolf.statespace import LinearModel

MAX_NOISE_RATIO = 30.0  # of the standard deviation to the usual one; larger errors are rejected by the filter anyway


def noise_ratio(accuracy: np.ndarray) -> np.ndarray:
    """Convert accuracies to factors on the usual standard deviation; 1 where there is no usable accuracy.

    Example:
        >>> noise_ratio(np.array([2.0, 4.0, np.nan, 4.0])).tolist()
        [0.5, 1.0, 1.0, 1.0]
    """
    usable = np.isfinite(accuracy) & (accuracy > 0)
    if not usable.any():
        return np.ones(len(accuracy))
    usual = float(np.median(accuracy[usable]))
    return np.where(
        usable, np.clip(np.where(usable, accuracy, usual) / usual, 1 / MAX_NOISE_RATIO, MAX_NOISE_RATIO), 1.0
    )


def with_noise(model: LinearModel, ratio: np.ndarray | None) -> LinearModel:
    """Return a model whose measurement noise has its own variance in each row.

    Args:
        model: with an R that is fixed in time.
        ratio: variance of each row's measurements over the model's, (T,); None for 1.
    """
    return model if ratio is None else dataclasses.replace(model, R=np.asarray(model.R) * ratio[:, None, None])
