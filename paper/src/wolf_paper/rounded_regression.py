"""The regression filters with the operands of every product rounded to bfloat16, as they seem to have been published.

All products count: the network and its Jacobian, F P Fᵀ of the prediction (which with F = I rounds the covariance once
in every step), H P, and K S Kᵀ. Sums are float32. With `rounding=False` the same code is a float32 filter. It shows
what rounding does, and is not a filter to use. EKF-IW is left out: its update multiplies rounded D x D matrices.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import digamma

from wolf_paper import learning, search
from wolf_paper.learning import Tell, Trials
from wolf_paper.protocol import Rows
from wolf_paper.rounded import UNWEIGHTED, shortened
from wolf_paper.uci_data import HIDDEN

METHODS = ("EKF", "EKF-B", "WoLF-IMQ", "WoLF-TMD")
TOLERANCE = 1e-7  # of the probability that a target is good, in EKF-B


def tune(start: np.ndarray, trial: Trials, options: Mapping[str, Any], obs_var: float, tell: Tell) -> Rows:
    """Choose the hyper-parameters of every method on one trial, in bfloat16; a row for each.

    Args:
        start: initial weights, in the order of `wolf.models.mlp`.
        trial: one trial.
        options: of `search.maximise`.
        obs_var: R.
        tell: receives the progress.
    """
    rows: Rows = []
    for place, name in enumerate(METHODS):

        def score(name: str = name, **values: float) -> float:
            return -float(errors(name, values, start, trial, True, obs_var)[0] ** 2)

        found = search.maximise(score, learning.BOUNDS[name], **options)
        rows.append({"method": name, "evaluations": found.evaluations, "rmedse": float(np.sqrt(-found.score))})
        rows[-1] |= found.values
        tell(place + 1, len(METHODS))
    return rows


def errors(
    name: str, values: Mapping[str, float], start: np.ndarray, trials: Trials, rounding: bool, obs_var: float
) -> np.ndarray:
    """Run trials and compute their RMedSE, (B,); c of both weights is a distance."""
    c, inner = values.get("c", 0.0), int(values.get("iterations", 1))
    soft, gate = (c if name == "WoLF-IMQ" else UNWEIGHTED), (c if name == "WoLF-TMD" else np.inf)
    counts = values.get("alpha", 1.0), values.get("beta", 1.0)
    numbers = jnp.asarray([np.exp(values["log_lr"]), soft, gate, obs_var, *counts], jnp.float32)
    first = jnp.asarray(start, jnp.float32)
    options: dict[str, Any] = {"rounding": rounding, "inner": inner if name == "EKF-B" else 0}
    found = []
    for features, targets in zip(trials.features, trials.targets, strict=True):
        data = jnp.asarray(features, jnp.float32), jnp.asarray(targets, jnp.float32)
        residuals = np.asarray(_residuals(first, *data, numbers, **options), np.float64)
        found.append(float(learning.root_median_square(residuals)))
    return np.array(found)


@partial(jax.jit, static_argnames=("rounding", "inner"))
def _residuals(start: Array, features: Array, targets: Array, numbers: Array, *, rounding: bool, inner: int) -> Array:
    variance, soft, gate, obs_var, alpha, beta = numbers
    short: Callable[[Any], Array] = shortened if rounding else (lambda a: a)

    def body(belief: Any, step: tuple[Array, Array]) -> tuple[Any, Array]:
        mean, cov, good, bad = belief
        cov = short(cov)  # F P Fᵀ
        predicted, jac = _observe(mean, step[0], short)
        residual = step[1] - predicted
        cross = (short(jac)[:, None] * cov).sum(0)
        signal = (short(cross) * short(jac)).sum()

        def gain_of(power: Array) -> tuple[Array, Array]:
            innovation = signal + obs_var / power
            return cross / innovation, innovation

        def believe(_: int, values: tuple[Array, Array]) -> tuple[Array, Array]:
            power = values[1]  # of the update; then that of the next one
            used = jnp.where(power < TOLERANCE, 0.0, 1.0)
            moved = used * short(gain_of(jnp.maximum(power, TOLERANCE))[0]) * short(residual)
            rest = residual - (short(jac) * short(moved)).sum()
            return power, jax.nn.sigmoid(digamma(good) - digamma(bad + 1.0) - 0.5 * rest**2 / obs_var)

        power, last = jax.lax.fori_loop(0, inner, believe, (jnp.ones(()), jnp.ones(())))
        used = jnp.where((jnp.abs(residual) < gate * jnp.sqrt(obs_var)) & (power >= TOLERANCE), 1.0, 0.0)
        gain, innovation = gain_of(jnp.maximum(power, TOLERANCE) * soft**2 / (soft**2 + residual**2))
        scaled = short(short(used * gain) * short(innovation))
        mean = mean + short(used * gain) * short(residual)
        return (mean, cov - scaled[:, None] * short(gain)[None], alpha + last, beta + 1.0 - last), residual

    one = jnp.ones((), jnp.float32)
    cov = variance * jnp.eye(len(start), dtype=jnp.float32)
    return jax.lax.scan(body, (start, cov, one, one), (features, targets))[1]


def _observe(theta: Array, x: Array, short: Callable[[Any], Array]) -> tuple[Array, Array]:
    """Evaluate the network and its gradient, product by product."""
    size = len(x) * HIDDEN
    kernel, offset = theta[:size].reshape(len(x), HIDDEN), theta[size : size + HIDDEN]
    out, bias = theta[size + HIDDEN : -1], theta[-1]
    hidden = jnp.maximum((short(x)[:, None] * short(kernel)).sum(0) + offset, 0.0)
    active = jnp.where(hidden > 0, short(out), 0.0)
    to_kernel = short(x)[:, None] * active[None]
    jac = jnp.concatenate([to_kernel.ravel(), active, short(hidden), jnp.ones(1, x.dtype)])
    return (short(hidden) * short(out)).sum() + bias, jac
