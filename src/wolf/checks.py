"""Errors at the door: what was expected, what came, what to do. Nothing here runs inside a trace."""

from typing import Any

import jax
import numpy as np

SYMMETRY_TOLERANCE = 1e-6  # relative; what was symmetrised in float32 passes
PSD_TOLERANCE = 1e-10  # relative to the largest eigenvalue: rounding of a rank-deficient Q passes


def number_array(name: str, value: Any) -> Any:
    """Turn a value into a float NumPy array, or say what it was."""
    if isinstance(value, jax.core.Tracer):
        return value
    try:
        if value is None or np.asarray(value).dtype.kind in "cmM":  # complex numbers and dates would be cut silently
            raise TypeError
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of numbers; got {type(value).__name__}") from error


def positive(name: str, value: Any) -> None:
    """Check a positive hyper-parameter (a number, or an array of them for a sweep)."""
    if value is None or isinstance(value, jax.core.Tracer):
        return
    array = number_array(name, value)
    if not np.all(array > 0):  # NaN fails as well
        raise ValueError(f"{name} must be positive; got {value!r}")


def weight(value: Any) -> None:
    """Check a weight function: a value or a function, not its class."""
    if isinstance(value, type) or not callable(value):
        raise ValueError(f"weight must be a weight such as wolf.IMQ(c=4.0); got {value!r}")


def not_negative(name: str, value: Any) -> None:
    """Check a hyper-parameter that may be zero."""
    if not isinstance(value, jax.core.Tracer) and not np.all(number_array(name, value) >= 0):
        raise ValueError(f"{name} must not be negative; got {value!r}")


def probability(name: str, value: Any) -> None:
    """Check a probability."""
    if not isinstance(value, jax.core.Tracer) and not np.all((np.asarray(value) >= 0) & (np.asarray(value) <= 1)):
        raise ValueError(f"{name} must be between 0 and 1; got {value!r}")


def count(name: str, value: Any) -> None:
    """Check a number of things."""
    if not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}")


def groups(name: str, value: Any) -> tuple[int, ...]:
    """Refuse what does not name a group for each coordinate, as (0, 0, 1)."""
    listed = isinstance(value, tuple | list | np.ndarray)
    if not listed or not all(isinstance(group, int | np.integer) for group in value):
        raise ValueError(f"{name} must be one whole number for each coordinate, as (0, 0, 1); got {value!r}")
    return tuple(int(group) for group in value)


def variances(**values: Any) -> None:
    """Check numbers that are variances; only `obs_var` must not be zero."""
    for name, value in values.items():
        number = number_array(name, value)
        if number.ndim != 0 or not np.isfinite(number) or number < 0 or (name == "obs_var" and number == 0):
            kind = "a positive number" if name == "obs_var" else "a number of at least 0"
            raise ValueError(f"{name} is a variance and must be {kind}; got {value!r}")


def matrix(name: str, value: Any, shape: tuple[int, int]) -> None:
    """Check the shape of a matrix that may have a leading time axis, and that it is finite."""
    if value is None or isinstance(value, jax.core.Tracer):
        return
    if value.ndim not in (2, 3) or value.shape[-2:] != shape:
        wanted = f"{shape} or (T, {shape[0]}, {shape[1]})"
        raise ValueError(f"{name} must have shape {wanted}; got {value.shape}.{_hint(value, shape)}")
    if not np.all(np.isfinite(value)):
        raise ValueError(f"{name} must be finite; got NaN or inf in it")


def covariance(name: str, value: Any, size: int, definite: bool = False, diagonal: bool = False) -> None:
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
    smallest = np.linalg.eigvalsh(value)
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


def _variance_vector(name: str, value: Any, size: int, definite: bool) -> None:
    if value.shape != (size,):
        raise ValueError(f"{name} must have shape ({size}, {size}), or ({size},) for variances; got {value.shape}")
    if isinstance(value, jax.core.Tracer):
        return
    if not np.all(np.isfinite(value)) or not np.all(value > 0 if definite else value >= 0):
        kind = "positive" if definite else "at least 0"
        raise ValueError(f"{name} holds variances, which must be finite and {kind}; its smallest is {value.min():.3g}")


def model(prior: Any, dynamics_cov: Any, obs_cov: Any, names: tuple[str, str, str], diagonal: bool = False) -> None:
    """Check what every model has; the names are what the person called them.

    Args:
        prior: belief at time 0.
        dynamics_cov: Q.
        obs_cov: R.
        names: of Q, R and the prior covariance.
        diagonal: whether vectors of variances will do.
    """
    if prior.mean.ndim != 1:
        raise ValueError(
            f"the prior mean must have shape (D,); got {np.shape(prior.mean)}. One column? Use mean.ravel()"
        )
    if isinstance(prior.mean, jax.core.Tracer):
        return
    if not np.all(np.isfinite(prior.mean)):
        raise ValueError("the prior mean must be finite; got NaN or inf in it")
    size = prior.mean.shape[0]
    covariance(names[2], prior.cov, size, diagonal=diagonal)
    covariance(names[0], dynamics_cov, size, diagonal=diagonal)
    if obs_cov.ndim < (1 if diagonal else 2):
        raise ValueError(
            f"{names[1]} must have shape (M, M) or (T, M, M); got {obs_cov.shape}. Use np.diag for variances"
        )
    covariance(names[1], obs_cov, obs_cov.shape[-1], definite=True, diagonal=diagonal)


def measurements(ys: Any, size: int, dims: int = 2) -> np.ndarray:
    """Turn measurements into a float array (T, M), or (B, T, M) for `dims=3`; masked entries become NaN."""
    masked = np.ma.isMaskedArray(ys)
    array = number_array("ys", np.ma.filled(np.ma.asarray(ys, dtype=np.float64), np.nan) if masked else ys)
    if array.ndim == dims - 1 and size == 1:
        array = array[..., None]
    if array.ndim != dims or array.shape[-1] != size:
        lead = "T" if dims == 2 else "series, T"
        wanted = f"({lead}, {size})" + (f" or ({lead},)" if size == 1 else "")
        advice = " Did you mean ys.T?" if dims == array.ndim == 2 and array.shape[0] == size else ""
        raise ValueError(f"ys must have shape {wanted} to match the model's obs_cov; got {array.shape}.{advice}")
    if array.shape[-2] == 0:
        raise ValueError("ys must hold at least one time step; got none")
    return array


def many_measurements(ys: Any, size: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Turn many series into (B, T, M); a list of different lengths is padded, and its lengths are told."""
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


def inputs(us: Any, steps: int, model: Any, series: int | None = None) -> np.ndarray | None:
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
    if model.linear and array.shape[-1] != model.B.shape[-1]:
        raise ValueError(f"inputs must have {model.B.shape[-1]} columns to match B; got shape {np.shape(us)}")
    features = getattr(getattr(model, "observe", None), "features", None)
    if isinstance(features, int) and array.shape[-1] != features:
        raise ValueError(f"inputs must have {features} columns, the model's features; got shape {np.shape(us)}")
    if not np.all(np.isfinite(array)):
        raise ValueError("inputs must be finite; a missing input has no meaning: fill it in")
    return array


def _hint(value: Any, shape: tuple[int, int]) -> str:
    if value.ndim == 2 and value.shape[::-1] == shape:
        return " Did you mean its transpose?"
    if value.ndim == 1 and value.size == shape[0] == shape[1]:
        return " Use np.diag for variances"
    if value.ndim == 0 and shape[0] == shape[1]:
        return f" Use value * np.eye({shape[0]})"
    return ""
