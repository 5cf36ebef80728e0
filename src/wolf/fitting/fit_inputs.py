"""What a fit is given, checked: a builder's first model, the filter to score with, the series."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from wolf import validation
from wolf.execution import validate
from wolf.fitting.initial_values import is_many
from wolf.inference.filters import GaussianFilter
from wolf.statespace import Model


def build(builder: Callable[..., Any], values: dict[str, float]) -> Any:
    """Build the first model, and say so where the builder is at fault."""
    try:
        model = builder(**values)
    except ValueError:
        raise
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        raise ValueError(f"the builder failed at {values}; call it like this to see why. It says {words}") from error
    if not isinstance(model, Model):
        kind = type(model).__name__
        raise ValueError(f"builder must return a model, as wolf.models.local_level does; it returned {kind}")
    return model


def base(method: Any, model: Any) -> GaussianFilter:
    """Find the filter whose noise rule the score replaces."""
    method = GaussianFilter() if method is None else validate.resolve_method(method, model)
    if not isinstance(method, GaussianFilter):
        raise ValueError(f"fit runs on Gaussian filters, such as EKF or UKF; got {type(method).__name__}")
    return dataclasses.replace(method, noise=GaussianFilter().noise)


def series(ys: Any, size: int) -> np.ndarray:
    """Turn one series or many into (B, T, M)."""
    if is_many(ys):
        return validation.many_measurements(ys, size)[0]
    array = validation.number_array("ys", ys)
    return (
        validation.measurements(array, size, dims=3) if array.ndim == 3 else validation.measurements(array, size)[None]
    )
