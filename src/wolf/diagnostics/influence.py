"""Posterior influence function (PIF): effect of one contaminated measurement on the posterior.

Duran-Martin et al. (2024, section 3.4): `KL(contaminated ‖ clean)` between the posteriors after the last measurement,
as a function of the error added to it. It is unbounded for the Kalman filter, and bounded for every weight with
`sup w ‖y‖ < ∞`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.beliefs.density import kl
from wolf.engine import scan
from wolf.execution import validate
from wolf.interfaces import Dtype, Filter, WeightFunction
from wolf.numerics.precision import precision, to_dtype
from wolf.numerics.pytree import cast
from wolf.statespace import Model


def pif(
    model: Model,
    method: str | Filter | None,
    ys: ArrayLike,
    contaminations: ArrayLike,
    *,
    dtype: Dtype = "float64",
) -> np.ndarray:
    """Compute the influence of an error in the last measurement on the posterior.

    Args:
        model: state space model, as in `wolf.filter`.
        method: filtering method, as in `wolf.filter`.
        ys: clean measurements, (T, M).
        contaminations: errors ε added to the last measurement, (..., M); a grid of any shape.
        dtype: precision, "float64" or "float32".

    Returns:
        `KL(p(x | y_T + ε) ‖ p(x | y_T))`, (...).

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> pif(model, "KF", np.zeros(10), [[0.0], [1.0], [10.0]]).round(3).tolist()
        [0.0, 0.136, 13.567]
    """
    method = validate.resolve_method(method, model)
    validate.check_options(dtype, "final")
    if model.takes_inputs:
        raise ValueError("pif does not support models with inputs; got a model that takes inputs")
    validate.adapt_model(model, method, None)
    validate.check_functions(model, None)
    array = validation.measurements(ys, model.obs_dim)
    errors = validation.number_array("contaminations", contaminations)
    if errors.shape[-1:] != (model.obs_dim,):
        raise ValueError(f"contaminations must have shape (..., {model.obs_dim}); got {errors.shape}")
    with precision(dtype):
        flat = to_dtype(errors.reshape(-1, model.obs_dim), dtype)
        values = _pif(cast(model, dtype), cast(method, dtype), to_dtype(array, dtype), flat)
        return np.asarray(values).reshape(errors.shape[:-1])


@jax.jit
def _pif(model: Model, method: Filter, ys: Array, errors: Array) -> Array:
    before = method.init(model, None)
    if len(ys) > 1:
        before, _ = scan.run_filter(model, ys[:-1], method, save="final")

    def posterior(y: Array) -> Gaussian:
        after, _ = scan.step(model, method, before, y)
        return Gaussian(after.mean, after.cov)

    clean = posterior(ys[-1])
    return jax.vmap(lambda error: kl(posterior(ys[-1] + error), clean))(errors)


def wasserstein2(first: ArrayLike, second: ArrayLike) -> float:
    """Compute the exact 2-Wasserstein distance between two ensembles of equal size.

    Args:
        first: members, (N, D).
        second: members, (N, D).

    Example:
        >>> wasserstein2([[0.0], [1.0]], [[1.0], [2.0]])
        1.0
    """
    from scipy.optimize import linear_sum_assignment

    a, b = validation.number_array("first", first), validation.number_array("second", second)
    for name, array in (("first", a), ("second", b)):
        if array.ndim != 2 or a.shape != b.shape or not array.size or not np.all(np.isfinite(array)):
            shapes = f"got {a.shape} for first, {b.shape} for second"
            raise ValueError(f"{name} must be finite members, with the same shape for both (N, D); {shapes}")
    costs = ((a[:, None] - b[None]) ** 2).sum(-1)
    return float(np.sqrt(costs[linear_sum_assignment(costs)].mean()))


def weight_map(
    weight: WeightFunction, obs_cov: ArrayLike, innovation_cov: ArrayLike, residuals: ArrayLike
) -> np.ndarray:
    """Evaluate a weight function on a grid of residuals, for plots.

    Args:
        weight: weight function from `wolf.weights`.
        obs_cov: measurement noise covariance R, (M, M).
        innovation_cov: innovation covariance S, (M, M).
        residuals: grid of residuals, (..., M).
    """
    validation.weight(weight)
    grid = validation.number_array("residuals", residuals)
    if not grid.ndim or not grid.size:
        raise ValueError(f"residuals must have shape (..., M); got {grid.shape}")
    covariances = []
    for name, cov in (("obs_cov", obs_cov), ("innovation_cov", innovation_cov)):
        covariances.append(validation.number_array(name, cov))
        validation.covariance(name, covariances[-1], grid.shape[-1], definite=True)
    with precision("float64"):
        covs = [jnp.asarray(cov) for cov in covariances]
        flat = jnp.asarray(grid.reshape(-1, grid.shape[-1]))
        values = jax.vmap(lambda e: weight(e, *covs))(flat)
        return np.asarray(values).reshape(grid.shape[:-1] + values.shape[1:])
