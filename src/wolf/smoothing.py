"""Smoothing: what the whole series says about each moment (Rauch, Tung & Striebel 1965).

Given its weights, a WoLF filter on a linear model is an ordinary Kalman filter with other noise, so this smoother is
exact for it; it needs no weights, only the filtered and predicted beliefs. On nonlinear models it is the usual
approximation by tangents.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from wolf import linalg
from wolf.linalg import matmul, matvec, transpose
from wolf.model import Model
from wolf.types import Gaussian


@partial(jax.jit, static_argnames=("update_first",))
def run_smoother(
    model: Model,
    moments: Any,
    filtered: Gaussian,
    predicted: Gaussian,
    inputs: Array | None = None,
    *,
    update_first: bool = False,
) -> Gaussian:
    """Walk back through a filtered series.

    Args:
        model: that was filtered.
        moments: of the filter, how it saw the dynamics.
        filtered: means (T, D) and covariances (T, D, D) after each measurement.
        predicted: the same before each measurement.
        inputs: (T, U).
        update_first: as in the filter.

    Returns:
        Smoothed means and covariances.
    """
    steps = filtered.mean.shape[0]
    # The dynamics that lead from t to t + 1 are indexed by where they start or by where they end.
    leads = jnp.arange(steps - 1) + (0 if update_first else 1)
    us = None if inputs is None else inputs[leads]

    def back(later: Gaussian, row: tuple) -> tuple[Gaussian, Gaussian]:
        here, ahead, lead, u = row
        smoothed = _step_back(model.at(lead), moments, here, ahead, later, u)
        return smoothed, smoothed

    last = jax.tree.map(lambda x: x[-1], filtered)
    rows = (jax.tree.map(lambda x: x[:-1], filtered), jax.tree.map(lambda x: x[1:], predicted), leads, us)
    _, earlier = jax.lax.scan(back, last, rows, reverse=True)
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), earlier, last)


def _step_back(now: Model, moments: Any, here: Gaussian, ahead: Gaussian, later: Gaussian, u: Array | None) -> Gaussian:
    """Correct one filtered belief by what was learned after it.

    With `G = P Fᵀ (P⁻)⁻¹` the covariance is written as `(I - G F) P (I - G F)ᵀ + G (Q + P_later) Gᵀ`, a sum of positive
    terms. A prediction without spread in some direction (Q = 0) is solved in the directions that it has.
    """
    view = moments(now.transition(u), here)
    size = here.mean.shape[0]
    jac = jnp.eye(size, dtype=here.mean.dtype) if view.jac is None else view.jac
    gain = transpose(linalg.psd_solve(ahead.cov, matmul(jac, here.cov)))
    mean = here.mean + matvec(gain, later.mean - ahead.mean)
    noise = now.dynamics_cov if view.root is None else now.dynamics_cov + linalg.gram(view.root)
    keep = jnp.eye(size, dtype=gain.dtype) - matmul(gain, jac)
    return Gaussian(mean, linalg.sandwich(keep, here.cov) + linalg.sandwich(gain, noise + later.cov))
