"""Operating point of a filter: a predicted state and a clean measurement that an error will be added to.

All one-step entries of a certificate are computed through the filter's own `update`, so they hold for every Gaussian
filter, whatever its state contains.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.beliefs import Gaussian
from wolf.beliefs.density import kl
from wolf.engine import scan
from wolf.interfaces import Filter, StepInfo
from wolf.numerics import linalg
from wolf.numerics.pytree import PyTree
from wolf.statespace import Model


class OperatingPoint(NamedTuple):
    """Filter before a measurement update; several have a leading axis.

    Attributes:
        state: predicted state.
        y: clean measurement, (M,).
    """

    state: PyTree
    y: Array


class Expectation(NamedTuple):
    """Moments of the clean update at an operating point.

    Attributes:
        predicted: predicted mean and covariance of the state.
        innovation_cov: S, (M, M).
        obs_cov: R, (M, M).
        posterior: posterior after the clean measurement.
        residual: residual of the clean measurement, (M,).
    """

    predicted: Gaussian
    innovation_cov: Array
    obs_cov: Array
    posterior: Gaussian
    residual: Array


@jax.jit
def at_prediction(model: Model, method: Filter, state: PyTree) -> OperatingPoint:
    """Make the operating point whose clean measurement equals its prediction, i.e. has a residual of zero.

    Args:
        model: any model.
        method: a Gaussian filter.
        state: state after the previous measurement.
    """
    predicted = scan.predict(model, method, state)
    _, info = scan.update(model, method, predicted, jnp.zeros(model.obs_dim, predicted.mean.dtype))
    return OperatingPoint(predicted, -info.residual)


@jax.jit
def expect(model: Model, method: Filter, point: OperatingPoint) -> Expectation:
    """Compute the moments of the clean update from the filter's own step information."""
    state, y = point
    after, info = scan.update(model, method, state, y)
    obs_cov = model.at(state.t).obs_cov_at(info.predicted.mean, None)
    posterior = Gaussian(after.mean, after.cov)
    return Expectation(info.predicted, info.innovation_cov, obs_cov, posterior, info.residual)


@jax.jit
def respond(model: Model, method: Filter, point: OperatingPoint, errors: Array) -> tuple[Array, Array]:
    """Compute the change of the posterior caused by errors in the measurement.

    The influence of Duran-Martin et al. (2024, section 3.4) is `KL(contaminated ‖ clean) = ½ ‖shift‖² + spread`.

    Args:
        model: any model.
        method: a Gaussian filter.
        point: operating point.
        errors: errors ε, (N, M).

    Returns:
        Shifts of the mean in standard deviations of the clean posterior, (N, D), and the contribution of the
        covariance, (N,).
    """

    def posterior(y: Array) -> Gaussian:
        after, _ = scan.update(model, method, point.state, y)
        return Gaussian(after.mean, after.cov)

    base = posterior(point.y)
    factor = linalg.cholesky(base.cov)

    def one(error: Array) -> tuple[Array, Array]:
        new = posterior(point.y + error)
        # Kept apart: in a sum, the square of a huge shift would absorb the contribution of the covariance.
        return factor.half(new.mean - base.mean), kl(new._replace(mean=base.mean), base)

    return jax.vmap(one)(errors)


expect_each = jax.jit(jax.vmap(expect, in_axes=(None, None, 0)))
respond_each = jax.jit(jax.vmap(respond, in_axes=(None, None, 0, 0)))


@partial(jax.jit, static_argnames=("steps",))
def along_series(model: Model, method: Filter, ys: Array, *, steps: tuple[int, ...]) -> OperatingPoint:
    """Filter a series and return the operating points at the given steps.

    Args:
        model: any model.
        method: a Gaussian filter.
        ys: measurements, (T, M).
        steps: steps of the operating points.
    """
    kept = np.asarray(steps)
    first = scan.init(model, method)
    _, after = scan.run_filter(model, ys, method, save=_save_state)
    before = jax.tree.map(lambda start, rest: jnp.concatenate([start[None], rest[:-1]])[kept], first, after)
    return OperatingPoint(jax.vmap(lambda state: scan.predict(model, method, state))(before), ys[kept])


def _save_state(state: PyTree, info: StepInfo) -> PyTree:
    return state
