"""Noise that a method estimated, read out of its state."""

from typing import Any

import numpy as np

from wolf.inference.filters import GaussianState
from wolf.inference.filters.imm import IMM, ImmState
from wolf.inference.noise import NoiseEstimate
from wolf.interfaces import Filter, NoiseModel
from wolf.numerics.pytree import PyTree
from wolf.results.views.text import describe_method


def learned_noise(method: Filter, state: PyTree, usable: np.ndarray | None = None) -> NoiseEstimate | Any:
    """Return the noise that a method estimated; a ValueError where it estimates none.

    Args:
        method: as run.
        state: of one series.
        usable: which numbers that came could be used, (T, M); None if that is not known.

    Returns:
        A `wolf.noise.NoiseEstimate`, or a list of them for several sensors.
    """
    law = _law(method.noise, state)
    if law is not None:
        return _counted(law, method.noise, state, usable)
    if (
        isinstance(method, IMM)
        and isinstance(state, ImmState)
        and _law(method.filter.noise, state.modes[0]) is not None
    ):
        raise ValueError(
            f"each mode of {type(method).__name__} learns the noise for itself; filter by the "
            "method of its modes alone to see what that learns"
        )
    raise ValueError(f"{describe_method(method)} learns nothing about the noise; 'Adaptive' and 'Learned' do")


def describe_noise(method: Filter, learned: PyTree) -> list[str]:
    """Describe the estimated noise and the remarks on it, by sensor where there are several.

    Args:
        method: as run.
        learned: by `learned_noise`.
    """
    laws = learned if isinstance(learned, list) else [learned]
    assert method.noise is not None
    numbers = method.noise.sensor_numbers(len(laws))
    first = f"{laws[0]!r}" + (f", of sensor {numbers[0]}" if len(laws) > 1 else "")
    who: dict[str, list[int]] = {}
    for number, law in zip(numbers, laws, strict=True):
        for remark in law.remarks:
            who.setdefault(remark, []).append(number)
    # There is one Q: what all of them say is not about one.
    return [
        first,
        *(remark if len(some) == len(laws) else f"{_called(some)}: {remark}" for remark, some in who.items()),
    ]


def _called(numbers: list[int]) -> str:
    return f"sensor{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _counted(law: Any, rule: NoiseModel | None, state: PyTree, usable: np.ndarray | None) -> Any:
    """Add to laws how many measurements they are of, as far as that is known."""
    laws = law if isinstance(law, list) else [law]
    counts: list[int | None] = [None if int(state.t) else 0] * len(laws)
    if usable is not None and rule is not None:
        counts = [int(usable[:, rows].any(1).sum()) for rows in rule.sensor_slices(usable.shape[1])]
    if len(counts) != len(laws) or not all(isinstance(each, NoiseEstimate) for each in laws):  # a rule of one's own
        return law
    laws = [each._replace(measured=count) for each, count in zip(laws, counts, strict=True)]
    return laws if isinstance(law, list) else laws[0]


def _law(rule: NoiseModel | None, state: PyTree) -> Any:
    return None if rule is None or not isinstance(state, GaussianState) else rule.noise_estimate(state.memory)
