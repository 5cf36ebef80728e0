"""Validation of a model and a method before a run, and their adaptation to each other."""

import sys
import warnings

import jax
import numpy as np

from wolf import validation
from wolf.engine.recorders import RECORDERS
from wolf.execution.function_checks import check_functions as check_functions
from wolf.execution.function_checks import check_weights
from wolf.inference import registry
from wolf.inference.filters import ErrorState, GaussianFilter
from wolf.interfaces import Filter, Key, Save, is_a
from wolf.numerics.pytree import plain_functions
from wolf.statespace import Model, ParameterModel, is_curved, is_model, time_axes, with_matrices, with_variances

MAX_DENSE_DIM = 20_000  # of a covariance matrix that is built from variances: 3 GB in float64
LARGE_OUTPUT_BYTES = 4e9  # above this a run warns, and a request that does not depend on data is rejected
MAX_FUNCTION_COPIES = 5  # so many copies of one function mean that it is defined inside a loop
MAX_TRACKED_FUNCTIONS = 1_000

_seen_functions: dict[object, set[int]] = {}


def resolve_method(method: str | Filter | None, model: Model) -> Filter:
    """Return the filter that a name, a value or None stands for, in the form that suits the model."""
    check_model(model)
    if method is None:
        method = registry.default(model)
    elif isinstance(method, str):
        method = registry.make(method)
    if not is_a(method, Filter):
        raise ValueError(
            "method must be a name or a value such as wolf.WoLF(wolf.IMQ(c=4.0)); "
            f"got {validation.short_repr(method)}. A filter of your own is a subclass of wolf.interfaces.Filter"
        )
    if jax.tree_util.all_leaves([method]):
        raise ValueError(f"decorate {type(method).__name__} with @wolf.numerics.pytree.pytree, for JAX to look inside")
    if method.requirements.linear and not model.linear:
        name = registry.name_of(method) or ("KF" if method.linearization else type(method).__name__)
        other = f"E{name}" if f"E{name}" in registry.TABLE else "EKF"
        words = (
            f'use method="{other}", or leave it out for the robust one'
            if method.linearization
            else "use another method"
        )
        raise ValueError(f"{name} needs a linear model; for functions {words}")
    check_weights(method, model)
    return (_around_error(method) if is_curved(model) else method).suited(model)


def _around_error(method: Filter) -> ErrorState:
    """Wrap a Gaussian filter so that it estimates the error of a state on a manifold."""
    if isinstance(method, ErrorState):
        return method
    if not isinstance(method, GaussianFilter):
        raise ValueError(
            f"{type(method).__name__} adds states, but those of this model lie on a manifold: use a Gaussian filter, "
            'such as "WoLF", "EKF", "UKF" or the default'
        )
    return ErrorState(method)


def check_model(model: object) -> None:
    """Raise a ValueError for anything but a model."""
    if not is_model(model):
        kind = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise ValueError(f"model must be a wolf.LinearModel or wolf.StateSpaceModel; got {kind}")


def adapt_model(model: Model, method: Filter, key: Key | None) -> Model:
    """Check that a method supports a model, and return the model in the form that the method takes.

    Variances become diagonal matrices for methods that need matrices; diagonal matrices become variances for methods
    that need those.
    """
    validation.key(key)
    if method.requirements.key and key is None:
        raise ValueError(f"{type(method).__name__} draws random numbers: pass key=, a seed such as key=0 or a JAX key")
    if isinstance(model, ParameterModel):  # stores diagonal covariances as variances already
        pass
    elif method.requirements.variances:
        model = with_variances(model)
    else:
        size = max((len(cov) for cov in (model.prior.cov, model.obs_cov) if cov.ndim == 1), default=0)
        if size > MAX_DENSE_DIM:
            raise ValueError(
                f"{type(method).__name__} needs {size} x {size} matrices; use an ensemble, as method='ETKF'"
            )
        model = with_matrices(model)
    method.check(model)
    return model


def check_options(dtype: str, save: Save, update_first: bool = False) -> None:
    """Check options that do not depend on the model or the data."""
    if not isinstance(dtype, str) or dtype not in ("float64", "float32"):
        raise ValueError(f'dtype must be "float64" or "float32"; got {validation.short_repr(dtype)}')
    validation.boolean("update_first", update_first)
    if not callable(save) and not (isinstance(save, str) and save in RECORDERS):
        raise ValueError(
            f"save must be one of {', '.join(map(repr, RECORDERS))} or a function; got {validation.short_repr(save)}"
        )


def check_time_axes(model: Model, steps: int, update_first: bool, verb: str) -> None:
    """Check that arrays with a time axis have enough steps."""
    for name, length in time_axes(model).items():
        needed = steps - 1 if update_first and name in ("F", "Q", "B", "dynamics_cov") else steps
        if length < needed:
            raise ValueError(
                f"{name} has {length} time steps, but {verb} up to step {steps} needs {needed}; use a model whose "
                "arrays (or times) have that many"
            )


def bytes_per_row(model: Model, save: Save, dtype: str, method: Filter) -> int:
    """Return the bytes that one step takes in a result with `save="all"`; 0 for everything else."""
    if save != "all":
        return 0
    d, m = model.state_dim, model.obs_dim
    covs = 2 * d * d if method.requirements.covariances and model.obs_cov.ndim > 1 else d
    numbers = covs + 2 * d + (m * m if model.obs_cov.ndim > 1 else 0) + 2 * m + 4
    return int(numbers * np.dtype(dtype).itemsize)


def warn_of_size(size: float, rows: int, state_dim: int) -> None:
    """Warn before a result of many gigabytes."""
    small = rows * (state_dim + 3) * 8 / 1e9
    words = f'the results will take about {size / 1e9:.0f} GB; save="means" keeps {small:.1f} GB'
    warnings.warn(words, stacklevel=_level_of_caller())


def refuse_if_large(name: str, value: int, numbers: float, dtype: str) -> None:
    """Raise a ValueError for a count whose result would fill the memory.

    Args:
        name: of the argument.
        value: the count.
        numbers: that each item takes.
        dtype: of these numbers.
    """
    each = numbers * np.dtype(dtype).itemsize
    most = int(LARGE_OUTPUT_BYTES // each)
    if value > most:
        size, limit = f"{value * each / 1e9:,.0f} GB", f"{LARGE_OUTPUT_BYTES / 1e9:.0f} GB"
        raise ValueError(f"{name}={value} would take about {size}, and {limit} is the limit; give {most} or fewer")


def warn_if_recompiled(model: Model) -> None:
    """Warn when one function is given as many different objects, each of which compiles again."""
    for fn in plain_functions(model):
        code = getattr(fn, "__code__", None)  # a built-in function has none
        if len(_seen_functions) >= MAX_TRACKED_FUNCTIONS:
            _seen_functions.clear()
        seen = _seen_functions.setdefault(code, set())
        seen.add(id(fn))
        if code is not None and len(seen) == MAX_FUNCTION_COPIES:
            words = (
                f"{validation.callable_name(fn)} was given as {MAX_FUNCTION_COPIES} objects, each of "
                "which compiles again. Define it once, outside the loop; pass changing values by "
                "jax.tree_util.Partial(f, x)"
            )
            warnings.warn(words, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """Return the `stacklevel` at which a warning of the function that calls this points outside of the package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("wolf."):
        frame, level = frame.f_back, level + 1
    return level


def package_version() -> str:
    """Return the installed version."""
    import wolf

    return wolf.__version__


def stack_models(models: tuple[Model, ...]) -> Model:
    """Stack models of equal shapes, with a leading series axis on every leaf."""
    try:
        return jax.tree.map(lambda *leaves: np.stack(leaves), *models)
    except ValueError as error:
        raise ValueError("the models must have equal shapes and share their functions, to be run together") from error
