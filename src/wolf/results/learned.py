"""What a method has learned about the noise, read out of its state."""

from typing import Any

from wolf.filters import GaussianState
from wolf.filters.multiple import MultipleState
from wolf.noise import NoiseLaw
from wolf.results.describe import describe_method


def learned_noise(method: Any, state: Any) -> NoiseLaw | Any:
    """Say what a method has learned about the noise, or that it learns nothing.

    Args:
        method: as run.
        state: of one series.

    Returns:
        A `wolf.noise.NoiseLaw`, or a list of them for several sensors.
    """
    law = _law(method.noise, state)
    if law is not None:
        return law
    if isinstance(state, MultipleState) and _law(method.filter.noise, state.modes[0]) is not None:
        raise ValueError(
            f"each mode of {type(method).__name__} learns the noise for itself, and none of it is told; filter by the "
            "method of its modes alone to see what that learns"
        )
    raise ValueError(f"{describe_method(method)} learns nothing about the noise; 'Adaptive' and 'Learned' do")


def _law(rule: Any, state: Any) -> Any:
    return None if rule is None or not isinstance(state, GaussianState) else rule.law(state.memory)
