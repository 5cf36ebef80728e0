"""Short texts for methods and states."""

import dataclasses
from typing import Any

import numpy as np

from wolf.inference import registry
from wolf.inference.filters import GaussianFilter
from wolf.inference.filters.imm import IMM
from wolf.inference.filters.run_length import RunLength
from wolf.inference.filters.wrapper import FilterWrapper
from wolf.inference.noise import Weighted
from wolf.interfaces import Filter
from wolf.numerics.pytree import PyTree
from wolf.statespace.names import Names

AUTOMATIC_FORM = "sqrt"  # which a filter chooses where a covariance would lose digits


def describe_state(state: PyTree, names: Names = None, limit: int = 8) -> str:
    """Return the first coordinates of a state as text, with names and standard deviations where it has them."""
    variances = state.variances if state.cov is None else np.diagonal(state.cov)
    shown = [f"{mean:.4g}" for mean in state.mean[:limit]]
    if variances is not None:
        spreads = np.sqrt(np.maximum(variances[:limit], 0.0))
        shown = [f"{mean} ± {spread:.2g}" for mean, spread in zip(shown, spreads, strict=True)]
    if names is not None:
        shown = [f"{name} {each}" for name, each in zip(names, shown, strict=False)]
    return ", ".join(shown) + (", ..." if len(state.mean) > limit else "")


def describe_method(method: Filter) -> str:
    """Return the name of a method with its options, or else its class and its weight or noise model."""
    plain = _before_adaptation(method)
    name = registry.name_of(plain) or registry.constructor_call(plain)
    if name is not None:
        return name
    if isinstance(method, FilterWrapper):
        return f"{type(method).__name__} with {describe_method(method.filter)}"
    rule = method.noise
    shown = rule.weight if isinstance(rule, Weighted) else rule
    return type(method).__name__ if shown is None else f"{type(method).__name__} with {shown!r}"


def _before_adaptation(method: Filter) -> Filter:
    """Return a method as it was before it was adapted to a model: with the covariance form "auto"."""
    if isinstance(method, GaussianFilter) and method.form == AUTOMATIC_FORM:
        return dataclasses.replace(method, form="auto")
    if isinstance(method, FilterWrapper | IMM | RunLength) and isinstance(method.filter, GaussianFilter):
        outer: Any = method
        return dataclasses.replace(outer, filter=_before_adaptation(method.filter))
    return method
