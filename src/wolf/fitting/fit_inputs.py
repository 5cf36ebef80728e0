"""Validation of the arguments of a fit: the builder's first model, the filter that scores, the series."""

import dataclasses
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.execution import validate
from wolf.fitting.initial_values import is_many
from wolf.inference.filters import GaussianFilter
from wolf.interfaces import Filter
from wolf.statespace import Model, is_model


def build(builder: Callable[..., object], values: dict[str, float]) -> Model:
    """Build the first model; raise an error that names the builder if it fails."""
    try:
        model = builder(**values)
    except ValueError:
        raise
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"the builder failed at {values}; call it with these values to see why. Error: {words}"
        ) from error
    if not is_model(model):
        kind = type(model).__name__
        raise ValueError(f"builder must return a model, as wolf.models.local_level does; got {kind}")
    return model


def base_filter(method: str | Filter | None, model: Model) -> GaussianFilter:
    """Return the filter whose noise model is replaced by that of the score."""
    method = GaussianFilter() if method is None else validate.resolve_method(method, model)
    if not isinstance(method, GaussianFilter):
        raise ValueError(f"fit needs a Gaussian filter, such as EKF or UKF; got {type(method).__name__}")
    return dataclasses.replace(method, noise=GaussianFilter().noise)


def as_series(ys: ArrayLike, size: int) -> np.ndarray:
    """Convert one series or many to an array (B, T, M)."""
    if is_many(ys):
        return validation.many_measurements(ys, size)[0]
    array = validation.data_array("ys", ys)
    return (
        validation.measurements(array, size, dims=3) if array.ndim == 3 else validation.measurements(array, size)[None]
    )
