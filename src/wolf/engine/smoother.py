"""Rauch-Tung-Striebel smoothing (1965) and backward sampling.

Given its weights, a WoLF filter on a linear model is a Kalman filter with modified noise, so the smoother is exact for
it; it needs no weights, only the filtered and predicted beliefs. On nonlinear models it is the usual approximation by
linearization.
"""

from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from wolf.beliefs import Gaussian
from wolf.beliefs.gaussian import JOSEPH_UP_TO
from wolf.interfaces import Linearization
from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, matvec, transpose
from wolf.numerics.xla_fusion import one_kernel
from wolf.statespace import Model

TreeT = TypeVar("TreeT")


@partial(jax.jit, static_argnames=("update_first", "fused"))
def run_smoother(
    model: Model,
    linearization: Linearization,
    filtered: Gaussian,
    predicted: Gaussian,
    inputs: Array | None = None,
    length: Array | None = None,
    start: Array | int = 0,
    scales: Array | None = None,
    *,
    update_first: bool = False,
    fused: bool = False,
) -> Gaussian:
    """Smooth a filtered series.

    Args:
        model: as in the filter.
        linearization: of the filter, for the dynamics.
        filtered: means (T, D) and covariances (T, D, D) after each measurement.
        predicted: the same before each measurement.
        inputs: (T, U).
        length: number of rows that belong to the series; later rows are returned unchanged. With a length, a program
            that is not fused runs only so many steps, and has no gradient.
        start: clock of the model at the first row; above 0 for a later chunk of a series.
        scales: factor on Q in the prediction of each row, (T,), for filters that estimate it.
        update_first: as in the filter.
        fused: compile the loop into one CPU kernel where possible; for small models; cannot be vmapped.

    Returns:
        Smoothed means and covariances.
    """
    steps = filtered.mean.shape[0]
    # The dynamics from t to t + 1 are indexed by their start or by their end.
    leads = jnp.arange(steps - 1) + (0 if update_first else 1)
    us = None if inputs is None else inputs[leads]
    leads = leads + start
    fused = fused and model.state_dim <= linalg.SMALL
    if length is not None and not fused:
        return _smooth_in_place(model, linearization, length, filtered, predicted, (leads, us, scales))

    def walk(model: Model, linearization: Linearization, length: Array | None, last: Gaussian, rows: tuple) -> Gaussian:
        def back(later: Gaussian, row: tuple) -> tuple[Gaussian, Gaussian]:
            t, here, ahead, lead, u, scale = row
            smoothed, _ = step_back(model.at(lead), linearization, here, ahead, later, u, scale)
            if length is not None:
                smoothed = jax.tree.map(lambda new, old: jnp.where(t < length - 1, new, old), smoothed, here)
            return smoothed, smoothed

        return jax.lax.scan(back, last, rows, reverse=True)[1]

    last = jax.tree.map(lambda x: x[-1], filtered)
    here, ahead = jax.tree.map(lambda x: x[:-1], filtered), jax.tree.map(lambda x: x[1:], predicted)
    rows = (jnp.arange(steps - 1), here, ahead, leads, us, None if scales is None else scales[1:])
    arguments = (model, linearization, length, last, rows)
    # XLA removes a loop of one step, as in the filter.
    earlier = one_kernel(walk, *arguments) if fused and steps > 2 else walk(*arguments)
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), earlier, last)


def _smooth_in_place(
    model: Model,
    linearization: Linearization,
    length: Array,
    filtered: Gaussian,
    predicted: Gaussian,
    others: tuple[Array, Array | None, Array | None],
) -> Gaussian:
    """Smooth in place, in a copy of the filtered beliefs: large beliefs are written once, and not sliced before."""
    leads, us, scales = others

    def row(tree: TreeT, i: Array) -> TreeT:
        return jax.tree.map(  # type: ignore[no-any-return]
            lambda leaf: jax.lax.dynamic_index_in_dim(leaf, i, 0, keepdims=False), tree
        )

    def back(carry: tuple[Array, Gaussian, Gaussian]) -> tuple[Array, Gaussian, Gaussian]:
        i, later, kept = carry
        u, scale = row(us, i), row(scales, i + 1)
        smoothed, _ = step_back(
            model.at(row(leads, i)), linearization, row(kept, i), row(predicted, i + 1), later, u, scale
        )
        put = partial(jax.lax.dynamic_update_index_in_dim, index=i, axis=0)
        return i - 1, smoothed, jax.tree.map(put, kept, smoothed)

    begin = (jnp.asarray(length, leads.dtype) - 2, row(filtered, length - 1), filtered)
    return jax.lax.while_loop(lambda carry: carry[0] >= 0, back, begin)[2]  # type: ignore[no-any-return]


@partial(jax.jit, static_argnames=("update_first", "fused", "per_series_model"))
def run_smoothers(
    model: Model,
    linearization: Linearization,
    filtered: Gaussian,
    predicted: Gaussian,
    inputs: Array | None,
    lengths: Array | None,
    starts: Array,
    scales: Array | None = None,
    *,
    update_first: bool = False,
    fused: bool = False,
    per_series_model: bool = False,
) -> Gaussian:
    """Smooth many series, one after the other: vmapped they would evaluate both branches of every condition.

    The arguments are those of `run_smoother` with a leading series axis; `inputs` may be (T, U) for all series, and the
    model has a series axis on every leaf if `per_series_model`.
    """
    own = inputs is not None and inputs.ndim == 3
    rows = (model if per_series_model else None, filtered, predicted, inputs if own else None, lengths, starts, scales)

    def one(row: tuple) -> Gaussian:
        mine, filtered, predicted, us, length, start, scale = row
        mine, us = mine if per_series_model else model, us if own else inputs
        return run_smoother(  # type: ignore[no-any-return]
            mine,
            linearization,
            filtered,
            predicted,
            us,
            length,
            start,
            scale,
            update_first=update_first,
            fused=fused,
        )

    return jax.lax.map(one, rows)  # type: ignore[no-any-return]


@partial(jax.jit, static_argnames=("update_first", "num"))
def run_sampler(
    model: Model,
    linearization: Linearization,
    filtered: Gaussian,
    predicted: Gaussian,
    key: Array,
    inputs: Array | None = None,
    start: Array | int = 0,
    scales: Array | None = None,
    *,
    num: int,
    update_first: bool = False,
) -> Array:
    """Sample paths of the state given the whole series: forward filtering, backward sampling.

    Carter & Kohn (1994), Frühwirth-Schnatter (1994).

    Args:
        model: as in the filter.
        linearization: of the filter.
        filtered: as in `run_smoother`.
        predicted: as in `run_smoother`.
        key: of the random numbers.
        inputs: (T, U).
        start: as in `run_smoother`.
        scales: as in `run_smoother`.
        num: number of paths.
        update_first: as in the filter.

    Returns:
        Paths, (num, T, D).
    """
    steps, size = filtered.mean.shape
    leads = jnp.arange(steps - 1) + (0 if update_first else 1)
    us = None if inputs is None else inputs[leads]
    leads = leads + start
    draws = jax.random.normal(key, (steps, size, num), filtered.mean.dtype)

    def back(later: Array, row: tuple) -> tuple[Array, Array]:
        here, ahead, lead, u, draw, scale = row
        # Given the next state, this one is Gaussian: smooth with a belief of zero covariance.
        exact = Gaussian(ahead.mean, jnp.zeros_like(ahead.cov))
        belief, gain = step_back(model.at(lead), linearization, here, ahead, exact, u, scale)
        shift = matmul(gain, later - ahead.mean[:, None])
        path = belief.mean[:, None] + shift + matmul(linalg.psd_root(belief.cov), draw)
        return path, path

    last = filtered.mean[-1][:, None] + matmul(linalg.psd_root(filtered.cov[-1]), draws[-1])
    here, ahead = jax.tree.map(lambda x: x[:-1], filtered), jax.tree.map(lambda x: x[1:], predicted)
    rows = (here, ahead, leads, us, draws[:-1], None if scales is None else scales[1:])
    _, earlier = jax.lax.scan(back, last, rows, reverse=True)
    return jnp.moveaxis(jnp.concatenate([earlier, last[None]]), -1, 0)


def step_back(
    now: Model,
    linearization: Linearization,
    here: Gaussian,
    ahead: Gaussian,
    later: Gaussian,
    u: Array | None,
    scale: Array | None = None,
) -> tuple[Gaussian, Array]:
    """Compute one smoothed belief from a filtered one and the smoothed belief of the next step.

    With `G = P Fᵀ (P⁻)⁻¹` the covariance is written as `(I - G F) P (I - G F)ᵀ + G (Q + P_later) Gᵀ`, a sum of positive
    terms; Q is larger where the filter inflated its prediction. A singular prediction (Q = 0) is solved in its range.
    """
    view = linearization(now.transition(u), here)
    size = here.mean.shape[0]
    jac = jnp.eye(size, dtype=here.mean.dtype) if view.jac is None else view.jac
    moved = matmul(jac, here.cov)
    noise = now.dynamics_cov if scale is None else scale * now.dynamics_cov
    noise = noise if view.root is None else noise + linalg.gram(view.root)
    nominal_trace = (moved * jac).sum() + jnp.trace(noise)

    def by_positive_terms() -> tuple[Gaussian, Array]:
        gain = transpose(linalg.psd_solve(ahead.cov, moved))
        mean = here.mean + matvec(gain, later.mean - ahead.mean)
        added = noise + _inflation_surplus(nominal_trace, ahead.cov)
        keep = jnp.eye(size, dtype=gain.dtype) - matmul(gain, jac)
        return Gaussian(mean, linalg.sandwich(keep, here.cov) + linalg.sandwich(gain, added + later.cov)), gain

    if size <= JOSEPH_UP_TO or linalg.mode.scalar_code:
        return by_positive_terms()
    accurate, difference = _by_difference(here, ahead, later, moved, nominal_trace)
    return jax.lax.cond(accurate, lambda: difference, by_positive_terms)  # type: ignore[no-any-return]


def _by_difference(
    here: Gaussian, ahead: Gaussian, later: Gaussian, moved: Array, nominal_trace: Array
) -> tuple[Array, tuple[Gaussian, Array]]:
    """Smooth a large belief by `P + G (P_later - P⁻) Gᵀ`, with half as many products, and test its accuracy.

    It is accurate where the difference loses at most four of sixteen digits: no direction of the prediction is nearly
    singular, no variance shrinks by more, and the prediction is the one of the model, or a wider one.

    Args:
        here: filtered.
        ahead: predicted from it.
        later: smoothed, of the next step.
        moved: F P.
        nominal_trace: trace of the model's own P⁻.
    """
    factor = linalg.cholesky(ahead.cov)
    gain_t = factor.solve(moved)
    mean = here.mean + matvec(transpose(gain_t), later.mean - ahead.mean)
    cov = here.cov + linalg.sandwich(transpose(gain_t), later.cov - ahead.cov)
    tolerance = jnp.finfo(cov.dtype).eps ** 0.25
    # A failed factorisation is NaN, for which the comparison is false.
    accurate = (factor.diagonal() ** 2 > tolerance * linalg.diagonal(ahead.cov)).all()
    accurate &= (linalg.diagonal(cov) > tolerance * linalg.diagonal(here.cov)).all()
    accurate &= jnp.trace(ahead.cov) > nominal_trace * (1.0 - jnp.finfo(cov.dtype).eps ** 0.5)
    return accurate, (Gaussian(mean, cov), transpose(gain_t))


def _inflation_surplus(nominal_trace: Array, used: Array) -> Array:
    """Compute what a jump added to the prediction, (κ - 1) P⁻; exactly zero where there was none.

    Args:
        nominal_trace: trace of P⁻.
        used: κ P⁻.
    """
    factor = jnp.trace(used) / jnp.where(nominal_trace > 0, nominal_trace, 1.0)
    return jnp.where(factor > 1.0 + jnp.finfo(used.dtype).eps ** 0.5, 1.0 - 1.0 / factor, 0.0) * used
