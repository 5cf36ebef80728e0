"""What errors do that agree with each other, to a filter that lets refused measurements vote.

The influence of one error is bounded, also of the one that comes last: but if as many as the patience have said the
same before, the last of them wins a vote, and the filter goes where they say. That is what a vote is for, and a true
jump can be told from it only by what comes later.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.diagnostics.certificate.certificate import Entry, neat
from wolf.diagnostics.certificate.operating_point import OperatingPoint
from wolf.engine import scan
from wolf.inference.noise.divergence_recovery import MAX_JUMP_DEVIATIONS, MAX_PATIENCE_GROWTH, JumpRecovery
from wolf.numerics import linalg
from wolf.statespace import Model

SIZES = (10.0, 100.0, 1000.0)  # of the errors, in standard deviations of the predicted measurement


def won_vote(model: Model, method: Any, situation: OperatingPoint, innovation_cov: np.ndarray) -> list[Entry]:
    """Write down what as many equal errors do as win a vote; nothing for a method without votes.

    Args:
        model: any.
        method: a Gaussian filter.
        situation: where the first of them comes.
        innovation_cov: S there, (M, M).
    """
    rule = method.noise
    if not isinstance(rule, JumpRecovery):
        return []
    ways = np.linalg.cholesky(innovation_cov).T
    errors = np.concatenate([size * ways for size in SIZES])
    most = int(np.ceil(np.max(rule.patience) * (MAX_PATIENCE_GROWTH if rule.grows else 1.0)))
    shifts, won = map(np.asarray, after_equal_errors(model, method, situation, errors, count=most))
    count = 1 + int(np.where(won.any(axis=1), won.argmax(axis=1), -1).max())
    if count == 0:
        return []
    largest = shifts[:, :count].max(axis=1).reshape(len(SIZES), -1).max(axis=1)
    told = ", ".join(f"{neat(shift)} at {neat(size)} sd" for size, shift in zip(SIZES, largest, strict=True))
    words = f"{count} equal errors in a row are followed up to {neat(MAX_JUMP_DEVIATIONS)} sd; the mean moves by {told}"
    details = {"errors": count, "sizes": list(SIZES), "shifts": largest.tolist()}
    return [Entry("won vote", np.inf, "sd", "searched", words, details=details)]


@partial(jax.jit, static_argnames=("count",))
def after_equal_errors(
    model: Model, method: Any, situation: OperatingPoint, errors: Array, *, count: int
) -> tuple[Array, Array]:
    """Add an error to each of several measurements that are otherwise as predicted, and measure how far the mean goes.

    Args:
        model: any.
        method: a Gaussian filter.
        situation: one.
        errors: ε, (N, M).
        count: how many measurements.

    Returns:
        Shifts after each, in standard deviations of the clean posterior, and whether it won a vote, (N, count).
    """

    def lead(error: Array) -> tuple[Array, Array]:
        def body(states: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], tuple[Array, Array]]:
            clean, lied = states
            _, info = scan.update(model, method, clean, jnp.zeros_like(situation.y))
            y = -info.residual  # what is predicted
            clean = scan.update(model, method, clean, y)[0]
            lied, info = scan.update(model, method, lied, y + error)
            shift = linalg.cholesky(clean.cov).half(lied.mean - clean.mean)
            ahead = scan.predict(model, method, clean), scan.predict(model, method, lied)
            return ahead, (jnp.sqrt(linalg.sum_leading(shift**2)), info.inflation > 1.0)

        return jax.lax.scan(body, (situation.state, situation.state), None, length=count)[1]

    return jax.vmap(lead)(jnp.asarray(errors, situation.y.dtype))
