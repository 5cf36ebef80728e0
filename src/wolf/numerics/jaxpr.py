"""The parts of a jaxpr that wolf reads; JAX's own types do not say that its variables are arrays."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, cast

import numpy as np
from jax.extend import core


class ArrayType(Protocol):
    """Shape and type of an array."""

    shape: tuple[int, ...]
    dtype: np.dtype


class Variable(Protocol):
    """An input or a result of an equation."""

    aval: ArrayType


class Equation(Protocol):
    """One operation."""

    primitive: Any
    invars: list[Variable]
    outvars: list[Variable]
    params: dict[str, Any]


class Jaxpr(Protocol):
    """A program."""

    constvars: list[Variable]
    invars: list[Variable]
    outvars: list[Variable]
    eqns: list[Equation]


class ClosedJaxpr(Protocol):
    """A program with the values of its constants."""

    jaxpr: Jaxpr
    consts: list[np.ndarray]


def literal_value(variable: object) -> np.ndarray | None:
    """Return the value of an input that is a number written in the program; None for a variable."""
    if not isinstance(variable, core.Literal):
        return None
    return np.asarray(variable.val, cast("Variable", variable).aval.dtype)


def is_closed(program: object) -> bool:
    """Return whether a program comes with its constants; versions of JAX differ in which they nest."""
    return isinstance(program, core.ClosedJaxpr)


def inner_jaxprs(equation: Equation) -> Iterator[Jaxpr]:
    """Iterate over the programs that an equation calls, such as the body of a loop."""
    for value in equation.params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            program = item.jaxpr if isinstance(item, core.ClosedJaxpr) else item
            if isinstance(program, core.Jaxpr):
                yield cast("Jaxpr", program)


def array_shapes(variables: Iterable[Variable]) -> list[tuple[int, ...]]:
    """List the shapes of arrays; a token, which orders callbacks, has none."""
    return [variable.aval.shape for variable in variables if hasattr(variable.aval, "shape")]
