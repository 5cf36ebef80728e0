"""Methods and states in a few words, for a person to read."""

import dataclasses
from typing import Any

import numpy as np

from wolf.inference import registry
from wolf.inference.filters import GaussianFilter
from wolf.inference.filters.wrapper import FilterWrapper
from wolf.inference.noise import Weighted

SUITED = "sqrt"  # form that a filter takes by itself where a covariance would lose digits


def describe_state(state: Any, limit: int = 8) -> str:
    """Write the first coordinates of a state, with their standard deviations if it has them."""
    variances = state.variances if state.cov is None else np.diagonal(state.cov)
    shown = [f"{mean:.4g}" for mean in state.mean[:limit]]
    if variances is not None:
        spreads = np.sqrt(np.maximum(variances[:limit], 0.0))
        shown = [f"{mean} ± {spread:.2g}" for mean, spread in zip(shown, spreads, strict=True)]
    return ", ".join(shown) + (", ..." if len(state.mean) > limit else "")


def describe_method(method: Any) -> str:
    """Write a method by its name, with options that it was given, or else as its class and its weight or noise rule."""
    plain = _by_itself(method)
    name = registry.name_of(plain) or registry.constructor_call(plain)
    if name is not None:
        return name
    if isinstance(method, FilterWrapper):
        return f"{type(method).__name__} with {describe_method(method.filter)}"
    rule = method.noise
    shown = rule.weight if isinstance(rule, Weighted) else rule
    return type(method).__name__ if shown is None else f"{type(method).__name__} with {shown!r}"


def _by_itself(method: Any) -> Any:
    """Give a method as it is before it is suited to a model: with the form that is chosen by itself."""
    if isinstance(method, GaussianFilter) and method.form == SUITED:
        return dataclasses.replace(method, form="auto")
    inner = getattr(method, "filter", None)
    return dataclasses.replace(method, filter=_by_itself(inner)) if isinstance(inner, GaussianFilter) else method
