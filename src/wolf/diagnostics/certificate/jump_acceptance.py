"""Effect of consistent errors on a filter that accepts jumps after consecutive consistent rejections.

The influence of a single error is bounded. But if as many consecutive errors as the patience agree with each other, the
jump test accepts them and the filter follows. This is the purpose of the test: only later measurements distinguish
consistent errors from a true jump.
"""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.diagnostics.certificate.certificate import CertificateEntry, format_number
from wolf.diagnostics.certificate.operating_point import OperatingPoint
from wolf.engine import scan
from wolf.inference.noise.divergence_recovery import MAX_JUMP_DEVIATIONS, MAX_PATIENCE_GROWTH, JumpRecovery
from wolf.interfaces import Filter
from wolf.numerics import linalg
from wolf.numerics.pytree import PyTree
from wolf.statespace import Model

ERROR_SIZES = (10.0, 100.0, 1000.0)  # sizes of the errors, in standard deviations of the predicted measurement


def accepted_jump_entry(
    model: Model, method: Filter, point: OperatingPoint, innovation_cov: np.ndarray
) -> list[CertificateEntry]:
    """Make the entry about equal errors that are accepted as a jump; no entry for a method without a jump test.

    Args:
        model: any model.
        method: a Gaussian filter.
        point: operating point at the first of the errors.
        innovation_cov: innovation covariance S there, (M, M).
    """
    rule = method.noise
    if not isinstance(rule, JumpRecovery):
        return []
    # Equal errors stand for nearly equal ones, which are not removed as repetitions of a stuck sensor.
    method = dataclasses.replace(method, noise=dataclasses.replace(rule, detect_stuck=False))
    directions = np.linalg.cholesky(innovation_cov).T
    errors = np.concatenate([size * directions for size in ERROR_SIZES])
    max_errors = int(np.ceil(np.max(rule.patience) * (MAX_PATIENCE_GROWTH if rule.grows else 1.0)))
    shifts, accepted = map(np.asarray, after_equal_errors(model, method, point, errors, count=max_errors))
    count = 1 + int(np.where(accepted.any(axis=1), accepted.argmax(axis=1), -1).max())
    if count == 0:
        return []
    largest = shifts[:, :count].max(axis=1).reshape(len(ERROR_SIZES), -1).max(axis=1)
    shift_text = ", ".join(
        f"{format_number(shift)} at {format_number(size)} sd" for size, shift in zip(ERROR_SIZES, largest, strict=True)
    )
    limit = f"up to {format_number(MAX_JUMP_DEVIATIONS)} sd"
    description = f"{count} equal errors in a row are accepted as a jump of {limit}; the mean shifts by {shift_text}"
    details = {"errors": count, "sizes": list(ERROR_SIZES), "shifts": largest.tolist()}
    return [CertificateEntry("accepted jump", np.inf, "sd", "searched", description, details=details)]


@partial(jax.jit, static_argnames=("count",))
def after_equal_errors(
    model: Model, method: Filter, point: OperatingPoint, errors: Array, *, count: int
) -> tuple[Array, Array]:
    """Compute the shift of the mean when several measurements equal their predictions plus the same error.

    Args:
        model: any model.
        method: a Gaussian filter.
        point: operating point at the first measurement.
        errors: errors ε, (N, M).
        count: number of measurements.

    Returns:
        Shifts after each measurement, in standard deviations of the clean posterior, and whether it was accepted as a
        jump, (N, count) each.
    """

    def simulate(error: Array) -> tuple[Array, Array]:
        def body(states: tuple[PyTree, PyTree], _: None) -> tuple[tuple[PyTree, PyTree], tuple[Array, Array]]:
            clean, contaminated = states
            _, info = scan.update(model, method, clean, jnp.zeros_like(point.y))
            y = -info.residual  # the predicted measurement
            clean = scan.update(model, method, clean, y)[0]
            contaminated, info = scan.update(model, method, contaminated, y + error)
            shift = linalg.cholesky(clean.cov).half(contaminated.mean - clean.mean)
            predicted = scan.predict(model, method, clean), scan.predict(model, method, contaminated)
            return predicted, (jnp.sqrt(linalg.sum_leading(shift**2)), info.inflation > 1.0)

        return jax.lax.scan(body, (point.state, point.state), None, length=count)[1]

    return jax.vmap(simulate)(jnp.asarray(errors, point.y.dtype))
