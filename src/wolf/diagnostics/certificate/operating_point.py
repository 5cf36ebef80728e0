"""A moment in the life of a filter: what it predicted, and the clean measurement that one bad one will replace.

Whatever a certificate says about one step it finds out by calling the filter's own `update`, so it holds for every
Gaussian filter, with whatever it remembers.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.beliefs import Gaussian
from wolf.beliefs.density import kl
from wolf.engine import scan
from wolf.interfaces import StepInfo
from wolf.numerics import linalg
from wolf.statespace import Model


class OperatingPoint(NamedTuple):
    """A filter just before a measurement; a leading axis holds several.

    Attributes:
        state: predicted.
        y: clean measurement, (M,).
    """

    state: Any
    y: Array


class Expectation(NamedTuple):
    """What a filter expects in a situation.

    Attributes:
        predicted: mean and covariance of the state.
        innovation_cov: S, (M, M).
        obs_cov: R, (M, M).
        posterior: after the clean measurement.
        residual: of the clean measurement, (M,).
    """

    predicted: Gaussian
    innovation_cov: Array
    obs_cov: Array
    posterior: Gaussian
    residual: Array


@jax.jit
def at_prediction(model: Model, method: Any, state: Any) -> OperatingPoint:
    """Take the prediction itself as the clean measurement: a clean residual of zero.

    Args:
        model: any.
        method: a Gaussian filter.
        state: after the previous measurement.
    """
    ahead = scan.predict(model, method, state)
    _, info = scan.update(model, method, ahead, jnp.zeros(model.obs_dim, ahead.mean.dtype))
    return OperatingPoint(ahead, -info.residual)


@jax.jit
def expect(model: Model, method: Any, situation: OperatingPoint) -> Expectation:
    """Read what a filter expects, through its own report."""
    state, y = situation
    after, info = scan.update(model, method, state, y)
    obs_cov = model.at(state.t).obs_cov_at(info.predicted.mean, None)
    posterior = Gaussian(after.mean, after.cov)
    return Expectation(info.predicted, info.innovation_cov, obs_cov, posterior, info.residual)


@jax.jit
def respond(model: Model, method: Any, situation: OperatingPoint, errors: Array) -> tuple[Array, Array]:
    """Find what errors in the measurement do to the posterior.

    The influence of Duran-Martin et al. (2024, section 3.3) is `KL(contaminated ‖ clean) = ½ ‖shift‖² + spread`.

    Args:
        model: any.
        method: a Gaussian filter.
        situation: one.
        errors: ε, (N, M).

    Returns:
        Shifts of the mean in standard deviations of the clean posterior, (N, D), and what the covariance adds, (N,).
    """

    def posterior(y: Array) -> Gaussian:
        after, _ = scan.update(model, method, situation.state, y)
        return Gaussian(after.mean, after.cov)

    base = posterior(situation.y)
    factor = linalg.cholesky(base.cov)

    def one(error: Array) -> tuple[Array, Array]:
        new = posterior(situation.y + error)
        # Apart from each other, or the square of a huge shift would swallow what the covariance says.
        return factor.half(new.mean - base.mean), kl(new._replace(mean=base.mean), base)

    return jax.vmap(one)(errors)


expect_each = jax.jit(jax.vmap(expect, in_axes=(None, None, 0)))
respond_each = jax.jit(jax.vmap(respond, in_axes=(None, None, 0, 0)))


@partial(jax.jit, static_argnames=("steps",))
def along(model: Model, method: Any, ys: Array, *, steps: tuple[int, ...]) -> OperatingPoint:
    """Run a filter over a series and stop before some of its measurements.

    Args:
        model: any.
        method: a Gaussian filter.
        ys: (T, M).
        steps: where to stop.
    """
    kept = np.asarray(steps)
    first = scan.init(model, method)
    _, after = scan.run_filter(model, method, ys, save=_save_state)
    before = jax.tree.map(lambda start, rest: jnp.concatenate([start[None], rest[:-1]])[kept], first, after)
    return OperatingPoint(jax.vmap(lambda state: scan.predict(model, method, state))(before), ys[kept])


def _save_state(state: Any, info: StepInfo) -> Any:
    return state
