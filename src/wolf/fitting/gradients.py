"""Score of a model and its gradient, in one pass through the filter, by forward-mode differentiation.

One directional derivative per parameter is propagated beside the state: no stored past, and the whole loop is still one
kernel for a small model.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from wolf.engine import scan
from wolf.engine.measurements import preprocess
from wolf.execution.xla_batching import bounded
from wolf.fitting import student_score
from wolf.interfaces import Filter
from wolf.numerics.pytree import PyTree
from wolf.numerics.xla_fusion import one_kernel
from wolf.statespace import Model


@bounded
@partial(jax.jit, static_argnames=("two_part", "update_first", "fused"))
def score_and_gradient(
    point: tuple[PyTree, PyTree],
    directions: tuple[PyTree, PyTree],
    ys: Array,
    inputs: Array | None,
    scored: Array | None = None,
    *,
    two_part: bool,
    update_first: bool = False,
    fused: bool = False,
) -> tuple[Array, Array]:
    """Compute the score over the scored rows of all series, and its derivative along each direction.

    Args:
        point: model and method.
        directions: derivatives of their leaves by each free parameter, along a leading axis.
        ys: measurements, (B, T, M).
        inputs: inputs, (T, U).
        scored: whether the two-part score counts a row, (B, T); all without it.
        two_part: score by the contaminated Gaussian of the method's noise model; otherwise by the Gaussian density.
        update_first: order of update and prediction.
        fused: compile the loop as one kernel.
    """
    before = None if inputs is None else jnp.concatenate([inputs[:1], inputs[:-1]])

    def score_series(data: tuple[Array, Array]) -> tuple[Array, Array]:
        series, counted = data
        arguments = (point, directions, (series, inputs, before))
        run = partial(_run, update_first=update_first)
        outputs, derivatives = one_kernel(run, *arguments) if fused else run(*arguments)
        noise = point[1].noise, directions[1].noise
        return _score_and_derivatives(*noise, outputs, derivatives, series, counted if two_part else None)

    counted = jnp.ones(ys.shape[:2], bool) if scored is None else scored
    if len(ys) == 1:
        return score_series((ys[0], counted[0]))
    values, derivatives = jax.lax.map(score_series, (ys, counted))
    return values.sum(0), derivatives.sum(0)


def _run(
    point: tuple[PyTree, PyTree], directions: tuple[PyTree, PyTree], rows: tuple, update_first: bool
) -> tuple[PyTree, PyTree]:
    """Run the filter; return NIS and log density of each row, (T,), and their derivatives, (T, directions)."""

    def residuals(model: Model, method: Filter) -> tuple[Array, Array]:
        def body(state: PyTree, row: tuple) -> tuple[PyTree, tuple[Array, Array]]:
            y, u, u_before = row
            state, info = scan.step(model, method, state, y, u, update_first=update_first, u_before=u_before)
            return state, (info.nis, info.log_likelihood)

        return jax.lax.scan(body, method.init(model, None), rows)[1]

    def directional(direction: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        return jax.jvp(residuals, point, direction)

    return jax.vmap(directional, out_axes=(None, 1))(directions)


def _score_and_derivatives(
    noise: PyTree, noise_directions: PyTree, outputs: PyTree, derivatives: PyTree, series: Array, scored: Array | None
) -> tuple[Array, Array]:
    nis, log_density = outputs
    if scored is None:
        return log_density.sum(), derivatives[1].sum(0)
    count = jax.vmap(preprocess)(series).num_observed

    def score(nis: Array, log_density: Array, share: Array, widen: Array) -> Array:
        return jnp.where(scored, student_score.log_two_part(log_density, nis, count, share, widen), 0.0).sum()

    value, gradient = jax.value_and_grad(score, (0, 1, 2, 3))(nis, log_density, noise.share, noise.widen)
    derivative = (
        gradient[0] @ derivatives[0]
        + gradient[1] @ derivatives[1]
        + gradient[2] * noise_directions.share
        + gradient[3] * noise_directions.widen
    )
    return value, derivative
