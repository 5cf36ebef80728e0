"""What every entry shares: which method is meant, what is checked and said before a run, in which precision it runs."""

import warnings
from typing import Any

import jax
import numpy as np

from wolf import validation
from wolf.engine.recorders import RECORDERS
from wolf.inference import registry
from wolf.inference.filters import ErrorState, GaussianFilter
from wolf.interfaces import Filter, Key, is_a
from wolf.numerics.pytree import plain_functions
from wolf.statespace import Model, ParameterModel, is_curved, time_axes, with_matrices, with_variances

LARGEST_MATRIX = 20_000  # side of a covariance that is written out from its variances: 3 GB in float64
LARGE_OUTPUT = 4e9  # bytes; above this a word of warning comes before the run, and what is not made of data is refused
FRESH_FUNCTIONS = 5  # so many copies of one function mean that it is defined inside a loop

_seen_functions: dict[Any, set[int]] = {}


def resolve_method(method: str | Filter | None, model: Model) -> Any:
    """Find the method that a person means, and check that it suits the model."""
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
        words = 'use method="EKF", or leave it out for the robust one' if method.linearization else "use another method"
        name = "KF" if method.linearization else type(method).__name__
        raise ValueError(f"{name} needs a linear model; for functions {words}")
    return (_around_error(method) if is_curved(model) else method).suited(model)


def _around_error(method: Any) -> ErrorState:
    """Let a Gaussian filter work on the error of a state that cannot be added to."""
    if isinstance(method, ErrorState):
        return method
    if not isinstance(method, GaussianFilter):
        raise ValueError(
            f"{type(method).__name__} adds states, and those of this model cannot be added to: use a Gaussian filter, "
            'as "WoLF", "EKF", "UKF" or the default'
        )
    return ErrorState(method)


def check_model(model: Any) -> None:
    """Refuse what is no model."""
    if not isinstance(model, Model):
        kind = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise ValueError(f"model must be a wolf.LinearModel or wolf.StateSpaceModel; got {kind}")


def adapt_model(model: Any, method: Any, key: Key | None) -> Any:
    """Check that a method and a model go together, and give the model in the form that the method takes.

    Covariances that were given as variances are written out for methods that need matrices; diagonal matrices are cut
    down to variances for methods that want those.
    """
    validation.key(key)
    if method.requirements.key and key is None:
        raise ValueError(f"{type(method).__name__} draws random numbers: pass key=, a seed such as key=0 or a JAX key")
    if isinstance(model, ParameterModel):  # keeps its covariances short by itself
        pass
    elif method.requirements.variances:
        model = with_variances(model)
    else:
        size = max((len(cov) for cov in (model.prior.cov, model.obs_cov) if cov.ndim == 1), default=0)
        if size > LARGEST_MATRIX:
            raise ValueError(
                f"{type(method).__name__} needs {size} x {size} matrices; use an ensemble, as method='ETKF'"
            )
        model = with_matrices(model)
    method.check(model)
    return model


def check_options(dtype: str, save: Any, update_first: bool = False) -> None:
    """Check what does not depend on the model or the data."""
    if not isinstance(dtype, str) or dtype not in ("float64", "float32"):
        raise ValueError(f'dtype must be "float64" or "float32"; got {validation.short_repr(dtype)}')
    validation.boolean("update_first", update_first)
    if not callable(save) and not (isinstance(save, str) and save in RECORDERS):
        raise ValueError(
            f"save must be one of {', '.join(map(repr, RECORDERS))} or a function; got {validation.short_repr(save)}"
        )


def check_time_axes(model: Model, steps: int, update_first: bool, verb: str) -> None:
    """Check that arrays with a time axis reach far enough."""
    for name, length in time_axes(model).items():
        needed = steps - 1 if update_first and name in ("F", "Q", "B", "dynamics_cov") else steps
        if length < needed:
            raise ValueError(
                f"{name} has {length} time steps, and to {verb} up to step {steps} needs {needed}; give a model whose "
                "arrays (or times) reach that far"
            )


def check_functions(model: Model, us: np.ndarray | None) -> None:
    """Evaluate shapes once, outside of any trace of ours, so that a mistake shows as what it is.

    Args:
        model: whose functions are checked.
        us: inputs, (..., U).
    """
    x, y = (jax.ShapeDtypeStruct((size,), np.float32) for size in (model.state_dim, model.obs_dim))
    u = None if us is None else jax.ShapeDtypeStruct(us.shape[-1:], np.float32)
    checked = []
    if not model.linear:
        checked += [("observe", model.obs_dim, lambda x, u: model.projection(u)(x), (x, u))]
        checked += [("dynamics", model.state_dim, lambda x, u: model.transition(u)(x), (x, u))]
    if model.residual is not None:
        checked += [("residual", model.obs_dim, model.residual, (y, y))]
    for name, size, fn, arguments in checked:
        try:
            shape = jax.eval_shape(fn, *arguments).shape
        except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
            raise ValueError(
                f"{name} must be written for JAX: with jax.numpy instead of numpy or math, as jnp.sin, and with "
                f"jnp.where instead of if; it says: {str(error).splitlines()[0]}"
            ) from error
        if shape != (size,):
            raise ValueError(f"{name} must return an array of shape ({size},), to match its covariance; got {shape}")


def warn_if_large(model: Model, rows: int, save: Any, dtype: str, method: Any = None) -> None:
    """Say so before an output of many gigabytes."""
    if save != "all":
        return
    d, m = model.state_dim, model.obs_dim
    covs = 2 * d * d if method.requirements.covariances and model.obs_cov.ndim > 1 else d
    size = rows * (covs + 2 * d + (m * m if model.obs_cov.ndim > 1 else 0) + 2 * m + 4) * np.dtype(dtype).itemsize
    if size > LARGE_OUTPUT:
        words = f'the results will take about {size / 1e9:.0f} GB; save="means" keeps {rows * (d + 3) * 8 / 1e9:.1f} GB'
        warnings.warn(words, stacklevel=3)


def refuse_if_large(name: str, value: int, numbers: float, dtype: str) -> None:
    """Refuse a count that would fill the memory, before anything is allocated.

    Args:
        name: of the argument.
        value: how many were asked for.
        numbers: that each of them takes.
        dtype: of these numbers.
    """
    each = numbers * np.dtype(dtype).itemsize
    most = int(LARGE_OUTPUT // each)
    if value > most:
        raise ValueError(
            f"{name}={value} would take about {value * each / 1e9:,.0f} GB, and {LARGE_OUTPUT / 1e9:.0f} GB is the "
            f"limit; give {most} or fewer"
        )


def warn_if_recompiled(model: Model) -> None:
    """Say so when one function comes as ever new objects, each of which is compiled anew."""
    for fn in plain_functions(model):
        code = getattr(fn, "__code__", None)
        seen = _seen_functions.setdefault(code, set())
        seen.add(id(fn))
        if code is not None and len(seen) == FRESH_FUNCTIONS:
            words = (
                f"{getattr(fn, '__name__', 'a function')} was given as {FRESH_FUNCTIONS} different objects, and each "
                "is compiled anew. Define it once, outside the loop; what changes enters by jax.tree_util.Partial(f, x)"
            )
            warnings.warn(words, stacklevel=3)


def package_version() -> str:
    """Read the installed version."""
    import wolf

    return wolf.__version__


def stack_models(models: tuple[Model, ...]) -> Any:
    """Put models of equal shapes together, with a leading series axis on every leaf."""
    try:
        return jax.tree.map(lambda *leaves: np.stack(leaves), *models)
    except ValueError as error:
        raise ValueError("the models must have equal shapes and share their functions, to be run together") from error
