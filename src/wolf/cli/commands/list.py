"""One-line description of every method, from the docstrings of its constructor or of its parts."""

import inspect
from typing import Any

from wolf.inference import registry
from wolf.inference.noise import Weighted
from wolf.interfaces import Filter

DEFAULT_LINEARIZATIONS = ("Linear", "Taylor", "Automatic")  # which the description does not mention


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
    parts = [_linearization(method), _weight(method)]
    return " ".join(part for part in parts if part) or _first_line(type(method))


def _linearization(method: Filter) -> str:
    if getattr(method, "iterations", 1) > 1:
        return "The iterated extended Kalman filter."
    found = method.linearization
    return "" if found is None or type(found).__name__ in DEFAULT_LINEARIZATIONS else _first_line(type(found))


def _weight(method: Filter) -> str:
    rule = method.noise
    if rule is None or rule == registry.EKF().noise:
        return ""
    if not isinstance(rule, Weighted):
        return _first_line(type(rule))
    special = getattr(method, "iterations", 1) > 1 or _linearization(method)
    return "Robust." if special and rule == registry.WoLF().noise else _first_line(type(rule.weight))


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0].replace("`", "")
