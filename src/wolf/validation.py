"""Validation of arguments. Errors state what was expected, what was given and what to do; nothing runs in a trace."""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from numbers import Real
from os import PathLike
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

Array = np.ndarray | jax.Array

SYMMETRY_TOLERANCE = 1e-6  # relative; a matrix that is symmetric to float32 precision passes
PSD_TOLERANCE = 1e-10  # relative to the largest eigenvalue: rounding of a rank-deficient Q passes
MAX_COUNT = 2**31 - 1  # steps are counted in 32 bits
SEED_RANGE = (-(2**63), 2**63)  # of JAX
MAX_REPR_LENGTH = 100  # characters of a value in a message
MAX_TIME = 2.0**63  # nanoseconds since 1970 until 2262, as the times of pandas; larger ones are mistakes
CATEGORIES = ("category", "categorical", "enum", "dictionary")  # how dtypes of data frame libraries begin
MASKABLE = (np.ma.MaskedArray, list, tuple)  # types that may hold masked values
ADVICE_BY_KIND = {
    "c": ", of complex numbers; give their parts as two columns",
    "M": ", of dates; use numbers, such as seconds since the first",
    "m": ", of time spans; use numbers, such as seconds",
    **dict.fromkeys("SUT", ", of text; turn it into numbers first, NaN for missing"),
}  # by kind of a NumPy dtype


def is_traced(*values: object) -> bool:
    """Return whether one of the values is only known when a compiled program runs, as inside `jax.grad`."""
    return any(isinstance(value, jax.core.Tracer) for value in values)


def short_repr(value: object) -> str:
    """Return the repr of a value on one line, shortened."""
    if isinstance(value, jax.core.Tracer):
        return f"a traced value of shape {value.shape}: give a plain number, outside of jax.grad, jit and vmap"
    text = " ".join(repr(value).split())
    if len(text) <= MAX_REPR_LENGTH:
        return text
    if isinstance(value, str):
        return f"{value[: MAX_REPR_LENGTH // 2]!r}... of {len(value):,} characters"
    shape = f" of shape {np.shape(value)}" if isinstance(value, np.ndarray) else ""
    return f"{type(value).__name__}{shape}"


def number_array(name: str, value: object) -> Any:
    """Convert a value to a float NumPy array; None and masked values among numbers become NaN."""
    if isinstance(value, jax.core.Tracer):
        return value
    array: np.ndarray | None = None
    try:
        array = np.asarray(_unmasked(value))
        if array.dtype.kind == "O":
            return np.array([_cell(cell, array.ndim) for cell in array.flat], np.float64).reshape(array.shape)
        if (
            array.dtype.kind in ADVICE_BY_KIND or array.dtype.names
        ):  # NumPy would convert dates and drop imaginary parts silently
            raise TypeError
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        advice = ADVICE_BY_KIND.get(
            "" if array is None else array.dtype.kind, "; use a list or an array, NaN for missing"
        )
        raise ValueError(f"{name} must be an array of numbers; got {type(value).__name__}{advice}") from error


def data_array(name: str, value: object) -> Any:
    """Convert measurements or times as `number_array`; booleans and categories are an error, not 0, 1 and codes."""
    array = number_array(name, value)
    kind = _kind_of_data(value)
    if kind is not None:
        raise ValueError(f"{name} must hold numbers; got {kind}. Use .astype(float) if they are meant as numbers")
    return array


def _kind_of_data(value: object) -> str | None:
    """Name booleans and categories of any library; None for other data."""
    if isinstance(value, list | tuple):
        while isinstance(value, list | tuple) and value:
            value = value[0]
    if isinstance(value, bool | np.bool_):
        return "booleans"
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":  # as pandas returns nullable booleans
        return "booleans" if any(isinstance(cell, bool | np.bool_) for cell in value.flat) else None
    # A data frame has dtypes, a series or an array of pandas, polars or NumPy a dtype, and one of pyarrow a type.
    found = getattr(value, "dtypes", None) if hasattr(value, "columns") else None
    kinds = list(found) if found is not None else [getattr(value, "dtype", getattr(value, "type", ""))]
    names = [str(kind).lower() for kind in kinds]
    if any(name.startswith("bool") for name in names):
        return "booleans"
    return "categories" if any(name.startswith(CATEGORIES) for name in names) else None


def check_times(name: str, times: np.ndarray) -> None:
    """Raise an error for times too far apart to subtract and square."""
    far = np.abs(times) > MAX_TIME
    if np.any(far):
        row = int(np.flatnonzero(far)[0])
        raise ValueError(f"{name} must be within ±{MAX_TIME:.2g}; got {times[row]:.3g} in row {row + 1}")


def one_number(value: object) -> float | None:
    """Return a value as a float; None for anything but one number, such as text, lists, complex numbers, booleans."""
    try:
        array = number_array("value", value)
    except ValueError:
        return None
    return None if array.ndim or isinstance(value, bool | np.bool_) else float(array)


def _unmasked(value: object) -> Any:
    """Replace masked values, also inside lists, by NaN; NumPy would drop the mask."""
    if np.ma.isMaskedArray(value):
        return np.ma.filled(value.astype(np.float64), np.nan) if value.dtype.kind in "biuf" else value.data
    if isinstance(value, list | tuple) and any(issubclass(t, MASKABLE) for t in set(map(type, value))):
        return [_unmasked(each) for each in value]
    return value


def _cell(cell: Any, dims: int) -> float:
    """Convert one number of an object array; text is an error even where it could be parsed."""
    if (cell is None and dims) or type(cell).__name__ == "NAType":  # pandas.NA
        return np.nan
    if isinstance(cell, Real | Decimal | np.bool_):
        return float(cell)
    if getattr(cell, "ndim", None) == 0 and np.asarray(cell).dtype.kind in "biuf":  # a scalar of another library
        return float(cell)
    raise TypeError


def callable_name(fn: Callable) -> str:
    """Return the name of a function; a callable object, such as a partial, has none and gives its repr."""
    return getattr(fn, "__name__", repr(fn))


def number(name: str, value: object) -> float:
    """Return one finite number; a traced one as it is."""
    array = number_array(name, value)
    if is_traced(array) and not array.ndim:
        return array  # type: ignore[no-any-return]
    if array.ndim or is_traced(array) or not np.isfinite(array) or isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be one finite number; got {short_repr(value)}")
    return float(array)


def known_number(name: str, value: object) -> float:
    """Return one finite number that determines the shape or the form of a model, and so must not be traced."""
    if is_traced(value):
        raise ValueError(f"{name} must be one finite number; got {short_repr(value)}")
    return number(name, value)


def fraction(name: str, value: object) -> float:
    """Return a number strictly between 0 and 1; a traced one as it is."""
    found = number(name, value)
    if not is_traced(found) and not 0 < found < 1:
        raise ValueError(f"{name} must be between 0 and 1; got {value!r}")
    return found


def nonempty(name: str, value: object) -> Any:
    """Return a number, or an array of numbers for a sweep; an empty array is an error."""
    array = number_array(name, value)
    if not array.size:
        raise ValueError(f"{name} must hold a number; got {short_repr(value)}")
    return array


def finite(name: str, value: object) -> Any:
    """Return a finite number, or an array of them for a sweep."""
    array = nonempty(name, value)
    if not isinstance(array, jax.core.Tracer) and not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite; got {short_repr(value)}")
    return array


def positive(name: str, value: object, needed: bool = False) -> None:
    """Check a positive hyper-parameter (a number, or an array of them for a sweep); None means the default."""
    if (value is None and not needed) or isinstance(value, jax.core.Tracer):
        return
    array = number_array(name, value)
    if not array.size or not np.all(array > 0) or isinstance(value, bool | np.bool_):  # NaN fails as well
        raise ValueError(f"{name} must be positive; got {short_repr(value)}")


def positive_number(name: str, value: object) -> float:
    """Return one positive, finite number."""
    found = number(name, value)
    if not is_traced(found) and found <= 0:
        raise ValueError(f"{name} must be positive; got {short_repr(value)}")
    return found


def weight(value: object) -> None:
    """Check a weight function: an instance or a function, not a class."""
    if isinstance(value, type) or not callable(value):
        raise ValueError(f"weight must be a weight such as wolf.IMQ(c=4.0); got {short_repr(value)}")


def not_negative(name: str, value: object) -> None:
    """Check a hyper-parameter that must be at least zero."""
    if isinstance(value, jax.core.Tracer):
        return
    array = number_array(name, value)
    if not array.size or not np.all(array >= 0):
        raise ValueError(f"{name} must not be negative; got {short_repr(value)}")


def probability(name: str, value: object) -> None:
    """Check a probability."""
    if isinstance(value, jax.core.Tracer):
        return
    array = number_array(name, value)
    if not array.size or not np.all((array >= 0) & (array <= 1)):
        raise ValueError(f"{name} must be between 0 and 1; got {short_repr(value)}")


def confidence_level(value: object, name: str = "level") -> float:
    """Return the probability of an interval, strictly between 0 and 1."""
    array = number_array(name, value)
    if array.ndim or not 0 < array < 1:
        raise ValueError(f"{name} must be a probability between 0 and 1; got {short_repr(value)}")
    return float(array)


def integer(name: str, value: object, least: int = 0, most: int = MAX_COUNT) -> int:
    """Return an integer in a range."""
    reach = f"at least {least}"
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if least <= value <= most:
            return int(value)
        reach = f"at most {most}" if value > most else reach
    raise ValueError(f"{name} must be a whole number of {reach}; got {short_repr(value)}")


def count(name: str, value: object) -> int:
    """Return a positive integer."""
    return integer(name, value, least=1)


def boolean(name: str, value: object) -> None:
    """Check a boolean."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False; got {short_repr(value)}")


def choice(name: str, value: object, options: Iterable[str]) -> None:
    """Check that a text is one of the options."""
    options = list(options)
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}; got {short_repr(value)}")


def key(value: object, needed: bool = False) -> None:
    """Check a seed or a JAX key, without creating a key."""
    if value is None and not needed:
        return
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        good = SEED_RANGE[0] <= value < SEED_RANGE[1]
    elif isinstance(value, np.ndarray | jax.Array | jax.core.Tracer):
        typed = jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key)
        good = value.shape == () if typed else value.dtype == np.uint32 and value.shape == (2,)
    else:
        good = False
    if not good:
        raise ValueError(f"key must be a seed such as 0, or a JAX key; got {short_repr(value)}")


def path(name: str, value: object) -> None:
    """Check a path."""
    if not isinstance(value, str | PathLike):
        raise ValueError(f"{name} must be a path; got {short_repr(value)}")


def mapping(name: str, value: object, example: str) -> dict:
    """Return a dict of named values; an empty one for None."""
    if value is not None and not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a dict, as {example}; got {short_repr(value)}")
    return dict(value or {})


def function(name: str, value: object, example: str) -> None:
    """Check that a value is callable."""
    if not callable(value):
        raise ValueError(f"{name} must be a function, as {example}; got {short_repr(value)}")


def prior(value: object, size: int, name: str = "prior", variances: bool = False) -> tuple[Any, Any]:
    """Return mean and covariance of a Gaussian over `size` states; `variances` allows a vector of variances."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise ValueError(f"{name} must be wolf.Gaussian(mean, cov); got {short_repr(value)}")
    mean, cov = number_array(f"the mean of {name}", value[0]), number_array(f"the covariance of {name}", value[1])
    if mean.shape != (size,) or not (isinstance(mean, jax.core.Tracer) or np.all(np.isfinite(mean))):
        raise ValueError(f"the mean of {name} must be finite and of shape ({size},); got {short_repr(value[0])}")
    covariance(f"the covariance of {name}", cov, size, diagonal=variances)
    return mean, cov


def groups(name: str, value: object) -> tuple[int, ...]:
    """Return a group number for each coordinate, as (0, 0, 1)."""
    found = list(value) if isinstance(value, tuple | list | np.ndarray) and np.ndim(value) == 1 else []
    if not found or not all(isinstance(group, int | np.integer) and not isinstance(group, bool) for group in found):
        raise ValueError(f"{name} must be one whole number for each coordinate, as (0, 0, 1); got {short_repr(value)}")
    return tuple(int(group) for group in found)


def variances(**values: object) -> None:
    """Check variances; only `obs_var` must not be zero."""
    for name, value in values.items():
        found = number_array(name, value)
        if is_traced(found) and found.ndim == 0:
            continue
        if found.ndim != 0 or not np.isfinite(found) or found < 0 or (name == "obs_var" and found == 0):
            kind = "a positive number" if name == "obs_var" else "a number of at least 0"
            raise ValueError(f"{name} is a variance and must be {kind}; got {short_repr(value)}")


def matrix(name: str, value: Array | None, shape: tuple[int, int]) -> None:
    """Check the shape of a matrix that may have a leading time axis, and that it is finite."""
    if value is None:
        return
    if value.ndim not in (2, 3) or value.shape[-2:] != shape:
        wanted = f"{shape} or (T, {shape[0]}, {shape[1]})"
        raise ValueError(f"{name} must have shape {wanted}; got {value.shape}.{_hint(value, shape)}")
    if not is_traced(value) and not np.all(np.isfinite(value)):
        raise ValueError(f"{name} must be finite; got NaN or inf in it")


def covariance(name: str, value: Array, size: int, definite: bool = False, diagonal: bool = False) -> None:
    """Check a covariance that may have a leading time axis: shape, symmetry, sign; or variances, if `diagonal`."""
    if diagonal and value.ndim == 1:
        return _variance_vector(name, value, size, definite)
    matrix(name, value, (size, size))
    if isinstance(value, jax.core.Tracer):
        return
    scale = np.abs(value).max()
    if np.abs(value - np.swapaxes(value, -1, -2)).max() > SYMMETRY_TOLERANCE * scale:
        raise ValueError(
            f"{name} must be symmetric; got\n{value}\nUse ({name} + {name}.T) / 2 if that is what you mean"
        )
    smallest = value[..., 0] if size == 1 else np.linalg.eigvalsh(value)
    if definite and not np.all(smallest[..., 0] > 0):
        raise ValueError(
            f"{name} must be positive definite; its smallest eigenvalue is {smallest.min():.3g}. "
            "A sensor without noise has no weight to give: use a small positive variance"
        )
    if not definite and not np.all(smallest[..., 0] >= -PSD_TOLERANCE * scale):
        raise ValueError(
            f"{name} must be positive semi-definite; its smallest eigenvalue is {smallest.min():.3g}. "
            "Variances cannot be negative: check the sign and the off-diagonal entries"
        )


def _variance_vector(name: str, value: Array, size: int, definite: bool) -> None:
    if value.shape != (size,):
        raise ValueError(f"{name} must have shape ({size}, {size}), or ({size},) for variances; got {value.shape}")
    if isinstance(value, jax.core.Tracer):
        return
    if not np.all(np.isfinite(value)) or not np.all(value > 0 if definite else value >= 0):
        kind = "positive" if definite else "at least 0"
        raise ValueError(f"{name} holds variances, which must be finite and {kind}; its smallest is {value.min():.3g}")


def model(prior: Any, dynamics_cov: Array, obs_cov: Array, names: tuple[str, str, str], diagonal: bool = False) -> None:
    """Check the prior and the covariances of a model.

    Args:
        prior: belief at time 0.
        dynamics_cov: Q.
        obs_cov: R.
        names: of Q, R and the prior covariance in messages.
        diagonal: whether vectors of variances are allowed.
    """
    if prior.mean.ndim != 1 or not prior.mean.size:
        raise ValueError(
            f"the prior mean must have shape (D,); got {np.shape(prior.mean)}. One column? Use mean.ravel()"
        )
    if not is_traced(prior.mean) and not np.all(np.isfinite(prior.mean)):
        raise ValueError("the prior mean must be finite; got NaN or inf in it")
    size = prior.mean.shape[0]
    covariance(names[2], prior.cov, size, diagonal=diagonal)
    covariance(names[0], dynamics_cov, size, diagonal=diagonal)
    if obs_cov.ndim < (1 if diagonal else 2) or not obs_cov.shape[-1]:
        raise ValueError(
            f"{names[1]} must have shape (M, M) or (T, M, M); got {obs_cov.shape}. Use np.diag for variances"
        )
    covariance(names[1], obs_cov, obs_cov.shape[-1], definite=True, diagonal=diagonal)


def measurements(ys: object, size: int, dims: int = 2) -> np.ndarray:
    """Return measurements as a float array (T, M), or (B, T, M) for `dims=3`; masked entries become NaN."""
    if is_traced(ys):
        raise ValueError("ys is traced by jax.jit, grad or vmap; inside of JAX programs use wolf.run_filter")
    return measurement_rows(data_array("ys", ys), size, dims)


def measurement_rows(array: Any, size: int, dims: int = 2) -> Any:
    """Check the shape of measurements, (T, M) or (B, T, M) for `dims=3`; the axis of one coordinate may be left out."""
    if array.ndim == dims - 1 and size == 1:
        array = array[..., None]
    if array.ndim != dims or array.shape[-1] != size:
        lead = "T" if dims == 2 else "series, T"
        wanted = f"({lead}, {size})" + (f" or ({lead},)" if size == 1 else "")
        advice = " Did you mean ys.T?" if dims == array.ndim == 2 and array.shape[0] == size else ""
        raise ValueError(f"ys must have shape {wanted} to match the model's obs_cov; got {array.shape}.{advice}")
    if array.shape[0] == 0 and dims == 3:
        raise ValueError("ys must hold at least one series; got none")
    if array.shape[-2] == 0:
        raise ValueError("ys must hold at least one time step; got none")
    return array


def many_measurements(ys: object, size: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return many series as (B, T, M), and their lengths where they differ, padded with NaN."""
    if not isinstance(ys, list | tuple):
        return measurements(ys, size, dims=3), None
    series = [measurements(each, size) for each in ys]
    if not series:
        raise ValueError("ys must hold at least one series; got none")
    lengths = np.array([len(each) for each in series])
    if np.all(lengths == lengths[0]):
        return np.stack(series), None
    padded = np.full((len(series), lengths.max(), size), np.nan)
    for row, each in zip(padded, series, strict=True):
        row[: len(each)] = each
    return padded, lengths


def inputs(us: npt.ArrayLike | None, steps: int, model: Any, series: int | None = None) -> np.ndarray | None:
    """Check inputs (T, U), or (B, T, U) for many series, against the measurements and the model."""
    takes, dims = model.takes_inputs, 2 if series is None else 3
    if us is None:
        if takes:
            raise ValueError("the model takes inputs (f(x, u), h(x, u) or B); pass inputs= with shape (T, U)")
        return None
    array = number_array("inputs", us)
    if array.ndim == 1:
        array = array[:, None]
    if not takes:
        raise ValueError("inputs were given, but the model takes none: its functions are f(x), h(x) and B is None")
    if array.ndim not in (2, dims) or array.shape[-2] != steps:
        raise ValueError(f"inputs must have one row for each of the {steps} steps; got shape {np.shape(us)}")
    if array.ndim == 3 and len(array) != series:
        raise ValueError(f"inputs must have one block for each of the {series} series; got shape {np.shape(us)}")
    if model.input_dim not in (None, array.shape[-1]):
        why = "to match B" if model.linear else "the number that the model states"
        raise ValueError(f"inputs must have {model.input_dim} columns, {why}; got shape {np.shape(us)}")
    if not isinstance(array, jax.core.Tracer) and not np.all(np.isfinite(array)):
        raise ValueError("inputs must be finite; missing inputs are not supported: fill them in")
    return array


def _hint(value: Array, shape: tuple[int, int]) -> str:
    if value.ndim == 2 and value.shape[::-1] == shape:
        return " Did you mean its transpose?"
    if value.ndim == 1 and value.size == shape[0] == shape[1]:
        return " Use np.diag for variances"
    if value.ndim == 0 and shape[0] == shape[1]:
        return f" Use value * np.eye({shape[0]})"
    return ""


def names(argument: str, given: Any, size: int) -> tuple[str, ...] | None:
    """Validate names, one for each of `size` things and all different; None stays None."""
    if given is None:
        return None
    each = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else ()
    if len(each) != size or not all(isinstance(name, str) and name for name in each):
        raise ValueError(f"{argument} must be {size} texts, one for each; got {short_repr(given)}")
    if len(set(each)) != size:
        double = sorted({name for name in each if each.count(name) > 1})
        raise ValueError(f"{argument} must be different from each other; {', '.join(double)} occurs twice")
    return each
