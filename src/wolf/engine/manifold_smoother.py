"""Rauch-Tung-Striebel smoothing of states on a manifold, such as attitudes, by their errors.

At each step the smoother of vectors runs on the error δ of the filtered state x, with mean zero: the dynamics are
δ ↦ between(f(x), f(retract(x, δ))), the smoothed next state is the error from the predicted one, and the smoothed error
is applied to x. As in the filter, covariances keep their tangent space, which is correct to first order in the error.
"""

import jax
import jax.numpy as jnp
from jax import Array

from wolf.beliefs import Gaussian
from wolf.engine.smoother import step_back
from wolf.interfaces import Linearization
from wolf.statespace import Model
from wolf.statespace.array_fields import replace


@jax.jit
def run_manifold_smoother(
    model: Model,
    linearization: Linearization,
    filtered: Gaussian,
    predicted: Gaussian,
    inputs: Array | None = None,
    start: Array | int = 0,
    scales: Array | None = None,
) -> Gaussian:
    """Smooth a filtered series of states on a manifold; arguments as in `run_smoother`.

    Args:
        model: whose dynamics have `retract` and `between`.
        linearization: of the filter of the error.
        filtered: states (T, D) and covariances of their errors (T, D, D) after each measurement.
        predicted: the same before each measurement.
        inputs: (T, U), of the transition to each step.
        start: clock of the model at the first row.
        scales: factor on Q in the prediction of each row, (T,).

    Returns:
        Smoothed states and covariances of their errors.
    """
    manifold = model.dynamics

    def back(later: Gaussian, row: tuple) -> tuple[Gaussian, Gaussian]:
        here, ahead, clock, u, scale = row
        now, still = model.at(clock), jnp.zeros_like(here.mean)
        transition = now.transition(u)

        def local(error: Array) -> Array:
            return manifold.between(ahead.mean, transition(manifold.retract(here.mean, error)))

        error_model = replace(now, dynamics=local)
        error = Gaussian(manifold.between(ahead.mean, later.mean), later.cov)
        beliefs = Gaussian(still, here.cov), Gaussian(still, ahead.cov), error
        smoothed, _ = step_back(error_model, linearization, *beliefs, u, scale)
        smoothed = Gaussian(manifold.retract(here.mean, smoothed.mean), smoothed.cov)
        return smoothed, smoothed

    last = jax.tree.map(lambda leaf: leaf[-1], filtered)
    here, ahead = jax.tree.map(lambda leaf: leaf[:-1], filtered), jax.tree.map(lambda leaf: leaf[1:], predicted)
    clocks = jnp.arange(1, filtered.mean.shape[0]) + start
    later = None if inputs is None else inputs[1:]
    rows = (here, ahead, clocks, later, None if scales is None else scales[1:])
    _, earlier = jax.lax.scan(back, last, rows, reverse=True)
    return jax.tree.map(lambda rest, end: jnp.concatenate([rest, end[None]]), earlier, last)
