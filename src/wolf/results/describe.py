"""Methods and states in a few words, for a person to read."""

from typing import Any

import numpy as np

from wolf.noise import LearnedLevels, LearnedScales, Weighted
from wolf.noise.recovery import Recovering


def describe_state(state: Any, limit: int = 8) -> str:
    """Write the first coordinates of a state, with their standard deviations if it has them."""
    variances = state.variances if state.cov is None else np.diagonal(state.cov)
    shown = [f"{mean:.4g}" for mean in state.mean[:limit]]
    if variances is not None:
        spreads = np.sqrt(np.maximum(variances[:limit], 0.0))
        shown = [f"{mean} ± {spread:.2g}" for mean, spread in zip(shown, spreads, strict=True)]
    return ", ".join(shown) + (", ..." if len(state.mean) > limit else "")


def describe_method(method: Any) -> str:
    """Write a method as a person names it: `Learned` and `Adaptive`, or its class with its weight or noise rule."""
    rule = method.noise
    if isinstance(rule, Recovering) and type(rule.rule) in (LearnedScales, LearnedLevels):
        name = "Learned" if isinstance(rule.rule, LearnedScales) else "Adaptive"
        return f"{name}, patience {rule.patience:g}"
    shown = rule.weight if isinstance(rule, Weighted) else rule
    return type(method).__name__ if shown is None else f"{type(method).__name__} with {shown!r}"
