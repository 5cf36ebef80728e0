"""Checks of users' functions and weights before a run, so that a mistake in them is explained in words.

A function is traced once in the precision of the run. A weight is also evaluated at a set of residuals, since outside
of [0, 1] it is no weight. What passed is remembered by function object, as compiled programs are.
"""

import dataclasses
import linecache
import os
import re
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import validation
from wolf.execution.xla_batching import bounded
from wolf.inference import weights
from wolf.inference.filters import EnsembleFilter
from wolf.inference.noise import Weighted
from wolf.interfaces import Filter, WeightFunction
from wolf.numerics.jax_compat import with_own_arrays
from wolf.numerics.precision import precision
from wolf.numerics.pytree import PyTree, cast, field_values, is_plain_function
from wolf.statespace import LinearModel, Model, ParameterModel, StateSpaceModel
from wolf.statespace.bound_functions import num_arguments

MAX_CHECKED = 256  # function objects that are remembered
ROUNDING = 1e-6  # by which a weight may exceed [0, 1]
RESIDUAL_SIZES = (0.0, 1e-3, 0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 100.0, 1e3, 1e6)  # standard deviations of R
MAX_PROBED_COORDINATES = 100  # of a measurement; a weight is given two matrices of that size for each residual
MAX_LINE_LENGTH = 80  # characters of a line of code in a message
NUMPY_CALL = re.compile(r"\b(?:np|numpy|math)\.((?:linalg\.|random\.)?\w+)\(")
PYTHON_CHOICE = re.compile(r"\b(?:if|while|and|or|not|assert|max|min|sorted|any|all|in)\b")
CONVERSION = re.compile(r"\b(float|int|bool|round)\(|\.(item|tolist)\(")
INTERNAL = re.compile(r"tracer|traced|jax\._src|jaxpr|ShapedArray|\baval\b|abstract|concrete", re.IGNORECASE)
FOREIGN = tuple(
    os.path.join(str(path), "")
    for path in (Path(__file__).parents[1], *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")))
)  # folders of wolf, of Python and of installed packages


def check_functions(model: Model, us: Any, dtype: str | None = "float64") -> None:
    """Trace the functions of a model, and raise a ValueError that explains a mistake in one of them.

    Args:
        model: whose functions are checked.
        us: inputs, (..., U), or None.
        dtype: precision of the run; None for the caller's own JAX settings.
    """
    size, measured = model.state_dim, model.obs_dim
    columns = None if us is None else us.shape[-1]
    checked: list[tuple[str, Callable, tuple[int, int | None], int]] = []
    if isinstance(model, StateSpaceModel):
        checked += [("observe", model.observe, (size, columns), measured)]
        checked += [] if model.dynamics is None else [("dynamics", model.dynamics, (size, columns), size)]
    if isinstance(model, ParameterModel):
        checked += [("observe", model.observe, (size, columns), model.family.outputs)]
    if isinstance(model, LinearModel | StateSpaceModel) and model.residual is not None:
        checked += [("residual", model.residual, (measured, measured), measured)]
    for name, fn, sizes, wanted in checked:
        (_check_once if is_plain_function(fn) else _check)(name, fn, sizes, wanted, dtype)


def _check(name: str, fn: Callable, sizes: tuple[int, int | None], size: int, dtype: str | None) -> None:
    """Trace f(x), f(x, u) or residual(y, prediction), and check that it returns a vector of a size.

    Args:
        name: of the function.
        fn: the function.
        sizes: of its arguments.
        size: of its result.
        dtype: precision.
    """
    if dtype is not None and not validation.is_traced(*jax.tree.leaves(fn)):
        fn = fn if is_plain_function(fn) else cast(fn, dtype)  # as the run does
    with precision(dtype) if dtype else nullcontext():
        kind = dtype or jnp.result_type(float)
        alone = name != "residual" and (sizes[1] is None or num_arguments(fn) < 2)
        given = sizes[:1] if alone else sizes
        arguments = [jax.ShapeDtypeStruct((each,), kind) for each in given]

        def result(*values: Array) -> Array:
            value = _as_array(name, with_own_arrays(fn)(*values), f"({size},)")
            if value.shape != (size,) and not (size == 1 and value.shape == ()):
                raise _RefusedResultError(
                    f"{name} must return an array of shape ({size},), to match its covariance; got {value.shape}"
                    f"{_shape_advice(value.shape, size)}"
                )
            return value

        trace(name, "a function h(x) or h(x, u) written for JAX", result, *arguments)


_check_once = lru_cache(maxsize=MAX_CHECKED)(_check)


@contextmanager
def explained() -> Iterator[None]:
    """Turn an error of JAX in a user's recorder, noise model or filter into a ValueError in words."""
    try:
        yield
    except (TypeError, IndexError) as error:  # the base classes of JAX's errors about traced values
        if not type(error).__module__.startswith("jax"):
            raise
        raise ValueError(_explanation("a function of the model, the method or save=", "", "", error)) from None


def check_weights(method: Filter, model: Model) -> None:
    """Evaluate the weights that are not of wolf at a set of residuals; raise a ValueError for one outside of [0, 1].

    Args:
        method: a filter.
        model: whose measurements it weights.
    """
    for weight, pooled in _own_weights(method):
        if validation.is_traced(*jax.tree.leaves(weight)) or (pooled and model.obs_dim > MAX_PROBED_COORDINATES):
            continue  # its parameters are not known yet, or its matrices are large
        cov = _noise_cov(model) if pooled else np.eye(1)
        shape = cov.shape[0]
        check: Callable = _check_weight_once if is_plain_function(weight) else _check_weight
        check(weight, shape, cov.tobytes())


def _own_weights(tree: object, pooled: bool = True) -> Iterator[tuple[WeightFunction, bool]]:
    """List the outermost weights with a part that is not of wolf, and whether they weight a measurement as a whole."""
    if not dataclasses.is_dataclass(tree) or isinstance(tree, type):
        return
    if isinstance(tree, EnsembleFilter):
        pooled = tree.scope == "pooled"
    for name, value in field_values(tree).items():
        if name == "weight" and callable(value):
            if not _is_of_wolf(value):
                yield value, pooled
        else:
            yield from _own_weights(value, pooled)


def _is_of_wolf(weight: object) -> bool:
    inner = getattr(weight, "weight", None)  # of weights that wrap another one
    return type(weight).__module__.startswith("wolf.") and (inner is None or _is_of_wolf(inner))


def _noise_cov(model: Model) -> np.ndarray:
    """Return R of the first step; the identity where it is not known yet."""
    cov = None if isinstance(model, ParameterModel) else model.obs_cov
    if not isinstance(cov, np.ndarray):
        return np.eye(model.obs_dim)
    return np.diag(cov) if cov.ndim == 1 else np.ascontiguousarray(cov[0] if cov.ndim == 3 else cov)


def _check_weight(weight: WeightFunction, size: int, noise: bytes) -> None:
    """Trace a weight, evaluate it at residuals of all sizes, and check that it is in [0, 1]."""
    cov = np.frombuffer(noise).reshape(size, size)
    with precision("float64"), jax.ensure_compile_time_eval():
        arguments = [jax.ShapeDtypeStruct(shape, np.float64) for shape in ((size,), (size, size), (size, size))]

        def result(*values: Array) -> Array:
            value = _as_array("weight", with_own_arrays(weight)(*values), f"() or ({size},)")  # type: ignore[arg-type]
            if value.shape not in ((), (size,)):
                raise _RefusedResultError(
                    f"weight must return one number, or one for each coordinate, ({size},); got {value.shape}"
                )
            return value

        trace("weight", "a function weight(residual, obs_cov, innovation_cov) written for JAX", result, *arguments)
        residuals = _residuals(size) * np.sqrt(np.diag(cov))[:, None]
        found = np.asarray(_evaluate(Weighted(weight), residuals, cov))
    found = np.broadcast_to(found, residuals.shape)
    wrong = ~((found >= -ROUNDING) & (found <= 1.0 + ROUNDING)).all(0)
    if wrong.any():
        at = int(np.argmax(wrong))
        value, residual = found[:, at], residuals[:, at].round(6).tolist()
        worst = value[~((value >= -ROUNDING) & (value <= 1.0 + ROUNDING))][0]
        advice = (
            "a division by 0 or an overflow? jnp.where(d > 0, w, 1.0) takes another value there"
            if np.isnan(worst)
            else "return w, not a distance or a cost; jnp.clip(w, 0.0, 1.0) keeps it inside"
        )
        raise ValueError(f"weight must be between 0 and 1; got {worst:.6g} for the residual {residual}: {advice}")


_check_weight_once = lru_cache(maxsize=MAX_CHECKED)(_check_weight)


def _residuals(size: int) -> np.ndarray:
    """Return residuals of all sizes in a few directions, in standard deviations, (M, K)."""
    alternating = np.where(np.arange(size) % 2, -1.0, 1.0)
    directions = [np.ones(size), np.eye(1, size)[0], np.eye(1, size, size - 1)[0], alternating]
    return np.array([sign * s * d for d in directions for s in RESIDUAL_SIZES for sign in (1.0, -1.0)]).T


@bounded
@jax.jit
def _evaluate(noise: Weighted, residuals: Array, cov: Array) -> Array:
    """Evaluate a weight at many residuals, with an innovation covariance of 2 R."""
    return weights.evaluate(noise.weight, residuals, cov[..., None], 2.0 * cov[..., None], jnp.ones_like(residuals))


class _RefusedResultError(ValueError):
    """What a function returned is wrong; raised inside of a trace, and outside of it as a ValueError."""


def _as_array(name: str, value: PyTree, shape: str) -> Array:
    """Convert what a function returned to an array; refuse what is no array of real numbers."""
    if value is None:
        raise _RefusedResultError(
            f"{name} must return an array of shape {shape}; it returned None: end it with a return statement"
        )
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError):
        raise _RefusedResultError(
            f"{name} must return an array of shape {shape}; it returned a {type(value).__name__}: return "
            "jnp.array([...]) of numbers"
        ) from None
    if not (jnp.issubdtype(array.dtype, jnp.floating) or array.dtype.kind in "iub"):
        raise _RefusedResultError(f"{name} must return real numbers; got {array.dtype}")
    return array


def _shape_advice(shape: tuple[int, ...], size: int) -> str:
    return ". Use .ravel()" if len(shape) > 1 and int(np.prod(shape)) == size else ""


def trace(name: str, expected: str, fn: Callable, *arguments: PyTree) -> None:
    """Trace a function; an error in it becomes a ValueError that names the line of the user's code and what to write.

    Args:
        name: of the function.
        expected: what it must be.
        fn: to trace.
        *arguments: shapes and types of its arguments.
    """
    try:
        jax.eval_shape(fn, *arguments)
    except _RefusedResultError as error:
        raise ValueError(str(error)) from None
    except Exception as error:
        shapes = ", ".join(str(each.shape) for each in arguments)
        raise ValueError(_explanation(name, expected, shapes, error)) from None


def _explanation(name: str, expected: str, shapes: str, error: Exception) -> str:
    """Explain an error of a traced function in words, without the text of JAX where that speaks of its internals."""
    where, line = _user_line(error)
    text = str(error).splitlines()[0] if str(error) else ""
    if "immutable" in text:
        return f"{name} must not change an array in place{where}; write x = x.at[i].set(value)"
    if type(error).__module__.startswith("jax"):
        return (
            f"{name} must be written for JAX: with jax.numpy instead of numpy or math, as jnp.sin, and with "
            f"jnp.where instead of if{where}{_replacement(line)}"
        )
    shown = "" if not text or INTERNAL.search(text) else f": {text}"
    return f"{name} must be {expected}; for arguments of shape {shapes} it raised {type(error).__name__}{shown}{where}"


def _replacement(line: str) -> str:
    """Return the words that say what to write instead of a line."""
    call = NUMPY_CALL.search(line)
    if call:
        return f": write jnp.{call.group(1)} for {call.group(0)[:-1]}"
    if CONVERSION.search(line):
        return ": leave out the conversion to a Python number"
    if PYTHON_CHOICE.search(line):
        return ": write jnp.where, jnp.logical_and, jnp.maximum ... for the choice by value"
    return ""


def _user_line(error: Exception) -> tuple[str, str]:
    """Find the last line of the user's code in a traceback, as words and as it is; empty where there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(FOREIGN):
            line = linecache.getline(frame.filename, frame.lineno or 0).strip()
            shown = f", `{line[:MAX_LINE_LENGTH]}`" if line else ""
            return f" (line {frame.lineno} of {os.path.basename(frame.filename)}{shown})", line
    return "", ""
