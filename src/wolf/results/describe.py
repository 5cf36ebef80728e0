"""Methods and states in a few words, for a person to read."""

from typing import Any

import numpy as np

from wolf import methods
from wolf.noise import Weighted

LEARNING = ("Learned", "Adaptive")  # methods whose parts say less to a person than their names


def describe_state(state: Any, limit: int = 8) -> str:
    """Write the first coordinates of a state, with their standard deviations if it has them."""
    variances = state.variances if state.cov is None else np.diagonal(state.cov)
    shown = [f"{mean:.4g}" for mean in state.mean[:limit]]
    if variances is not None:
        spreads = np.sqrt(np.maximum(variances[:limit], 0.0))
        shown = [f"{mean} ± {spread:.2g}" for mean, spread in zip(shown, spreads, strict=True)]
    return ", ".join(shown) + (", ..." if len(state.mean) > limit else "")


def describe_method(method: Any) -> str:
    """Write a method as its class and its weight, or another noise rule; those that learn, by their names."""
    for name in LEARNING:
        if method == methods.make(name):
            return name
    rule = method.noise
    shown = rule.weight if isinstance(rule, Weighted) else rule
    return type(method).__name__ if shown is None else f"{type(method).__name__} with {shown!r}"
