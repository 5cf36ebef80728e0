"""The parts of a jaxpr that wolf reads; JAX's own types do not say that its variables are arrays."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np


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


def inner_jaxprs(equation: Equation) -> Iterator[Jaxpr]:
    """Iterate over the programs that an equation calls, such as the body of a loop."""
    for value in equation.params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            program: Any = getattr(item, "jaxpr", item)  # JAX moves its classes between modules
            if hasattr(program, "eqns"):
                yield program


def array_shapes(variables: Iterable[Variable]) -> list[tuple[int, ...]]:
    """List the shapes of arrays; a token, which orders callbacks, has none."""
    return [variable.aval.shape for variable in variables if hasattr(variable.aval, "shape")]
