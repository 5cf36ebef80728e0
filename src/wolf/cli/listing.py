"""One line about every method, put together from the docstrings of its constructor or of its parts."""

import inspect
from typing import Any

from wolf import methods

USUAL_MOMENTS = ("Linear", "Linearised")  # those that a method needs no words for


def describe_methods() -> dict[str, str]:
    """Describe every name that `wolf.filter(method=...)` takes.

    Example:
        >>> describe_methods()["KF"]
        'The Kalman filter, for linear models.'
    """
    return {name: _describe(name) for name in methods.names()}


def _describe(name: str) -> str:
    words = _first_line(methods.TABLE[name])
    if words:
        return words.replace("Make the ", "The ", 1).replace("Make a ", "A ", 1)
    method = methods.make(name)
    parts = [_moments(method), _weight(method)]
    return " ".join(part for part in parts if part) or _first_line(type(method))


def _moments(method: Any) -> str:
    if getattr(method, "iterations", 1) > 1:
        return "The iterated extended Kalman filter."
    moments = getattr(method, "moments", None)
    return "" if moments is None or type(moments).__name__ in USUAL_MOMENTS else _first_line(type(moments))


def _weight(method: Any) -> str:
    rule = getattr(method, "noise", None)
    if rule is not None and not hasattr(rule, "weight"):
        return _first_line(type(rule))
    weight = getattr(rule, "weight", None)
    if weight is None or weight == methods.EKF().noise.weight:
        return ""
    special = getattr(method, "iterations", 1) > 1 or _moments(method)
    return "Robust." if special and weight == methods.WoLF().noise.weight else _first_line(type(weight))


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0].replace("`", "")
