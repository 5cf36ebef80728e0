"""The score of a model and its slope, in one pass through the filter.

Derivatives ride along beside the state (forward mode): one for each parameter, no memory of the past, and the whole
loop is still one kernel for a small model.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from wolf.engine import scan
from wolf.engine.measurements import preprocess
from wolf.execution.xla_batching import bounded
from wolf.fitting import student_score
from wolf.numerics.xla_fusion import one_kernel


@bounded
@partial(jax.jit, static_argnames=("two_part", "update_first", "fused"))
def score_and_slope(
    point: tuple[Any, Any],
    directions: tuple[Any, Any],
    ys: Array,
    inputs: Array | None,
    *,
    two_part: bool,
    update_first: bool = False,
    fused: bool = False,
) -> tuple[Array, Array]:
    """Add the score up over all rows of all series, with its slope along each direction.

    Args:
        point: model and method.
        directions: how their leaves move with each free number; a leading axis counts those.
        ys: (B, T, M).
        inputs: (T, U).
        two_part: score by the two parts of the method's noise rule; by the Gaussian density otherwise.
        update_first: order of the steps.
        fused: compile the loop as one kernel.
    """
    before = None if inputs is None else jnp.concatenate([inputs[:1], inputs[:-1]])

    def one(series: Array) -> tuple[Array, Array]:
        arguments = (point, directions, (series, inputs, before))
        walk = partial(_walk, update_first=update_first)
        told, slopes = one_kernel(walk, *arguments) if fused else walk(*arguments)
        return _total(point[1].noise, directions[1].noise, told, slopes, series, two_part)

    if len(ys) == 1:
        return one(ys[0])
    values, slopes = jax.lax.map(one, ys)
    return values.sum(0), slopes.sum(0)


def _walk(point: tuple[Any, Any], directions: tuple[Any, Any], rows: tuple, update_first: bool) -> tuple[Any, Any]:
    """Run the filter; return NIS and log-density of each row, (T,), and how they move, (T, directions)."""

    def residuals(model: Any, method: Any) -> tuple[Array, Array]:
        def body(state: Any, row: tuple) -> tuple[Any, tuple[Array, Array]]:
            y, u, u_before = row
            state, info = scan.step(model, method, state, y, u, update_first=update_first, u_before=u_before)
            return state, (info.nis, info.log_likelihood)

        return jax.lax.scan(body, method.init(model, None), rows)[1]

    def along(direction: tuple[Any, Any]) -> tuple[Any, Any]:
        return jax.jvp(residuals, point, direction)

    return jax.vmap(along, out_axes=(None, 1))(directions)


def _total(noise: Any, moves: Any, told: Any, slopes: Any, series: Array, two_part: bool) -> tuple[Array, Array]:
    nis, log_density = told
    if not two_part:
        return log_density.sum(), slopes[1].sum(0)
    count = jax.vmap(preprocess)(series).num_observed

    def score(nis: Array, log_density: Array, share: Array, widen: Array) -> Array:
        return student_score.log_two_part(log_density, nis, count, share, widen).sum()

    value, gradient = jax.value_and_grad(score, (0, 1, 2, 3))(nis, log_density, noise.share, noise.widen)
    slope = gradient[0] @ slopes[0] + gradient[1] @ slopes[1] + gradient[2] * moves.share + gradient[3] * moves.widen
    return value, slope
