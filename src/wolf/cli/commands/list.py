"""One line about every method, put together from the docstrings of its constructor or of its parts."""

import inspect
from typing import Any

from wolf.inference import registry
from wolf.inference.noise import Weighted
from wolf.interfaces import Filter

USUAL_MOMENTS = ("Linear", "Taylor", "Automatic")  # those that a method needs no words for


def describe_methods() -> dict[str, str]:
    """Describe every name that `wolf.filter(method=...)` takes.

    Example:
        >>> describe_methods()["KF"]
        'The Kalman filter, for linear models.'
    """
    return {name: _describe(name) for name in registry.names()}


def _describe(name: str) -> str:
    words = _first_line(registry.TABLE[name])
    if words:
        return words.replace("Make the ", "The ", 1).replace("Make a ", "A ", 1)
    method = registry.make(name)
    parts = [_moments(method), _weight(method)]
    return " ".join(part for part in parts if part) or _first_line(type(method))


def _moments(method: Filter) -> str:
    if getattr(method, "iterations", 1) > 1:
        return "The iterated extended Kalman filter."
    moments = method.linearization
    return "" if moments is None or type(moments).__name__ in USUAL_MOMENTS else _first_line(type(moments))


def _weight(method: Filter) -> str:
    rule = method.noise
    if rule is None or rule == registry.EKF().noise:
        return ""
    if not isinstance(rule, Weighted):
        return _first_line(type(rule))
    special = getattr(method, "iterations", 1) > 1 or _moments(method)
    return "Robust." if special and rule == registry.WoLF().noise else _first_line(type(rule.weight))


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0].replace("`", "")
