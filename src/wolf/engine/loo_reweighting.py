"""Judge each measurement by what came before *and after* it: leave-one-out weights for smoothing again.

While it filters, a filter cannot tell an outlier from a turn. Afterwards it can. Leaving a measurement out of the
smoothed belief gives the cavity; with S_p, S_f, S_s the covariances of H x before the measurement, after it and after
all, the information that the filter took from it is

    Γ = S_p⁻¹ (S_p - S_f) S_p⁻¹,   Ω = Γ (I - S_p Γ)⁻¹,   cavity covariance C = (I - S_s Ω)⁻¹ S_s

whatever rule it followed. The same rule, asked about the cavity's residual, gives the new weights, and the series is
filtered and smoothed once more with these.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from wolf.beliefs import Affine, Gaussian
from wolf.beliefs.affine import hide_noise
from wolf.beliefs.updates import MixtureUpdate, WeightedUpdate
from wolf.engine.measurements import preprocess
from wolf.inference.noise import AdaptiveNoiseScales, PerSensorNoise, per_sensor
from wolf.inference.noise.divergence_recovery import JumpRecovery
from wolf.interfaces import NoiseModel, UpdateContext, UpdateDecision, at_step
from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, matvec, transpose
from wolf.numerics.pytree import pytree
from wolf.statespace import Model


class Cavity(NamedTuple):
    """What all other measurements say about one of them.

    Attributes:
        residual: measurement minus what they say, (M,).
        cov: of what they say, (M, M).
    """

    residual: Array
    cov: Array


@pytree
class Given(NoiseModel):
    """A noise rule that was told everything before.

    Args:
        weights: W with information Wᵀ W, (T, M, M).
        inflations: of the predicted covariance, (T,).
        scales: factors on Q, (T,).
    """

    weights: Any = dataclasses.field(repr=False)
    inflations: Any = dataclasses.field(repr=False)
    scales: Any = dataclasses.field(repr=False)

    @property
    def time_varying_fields(self) -> tuple[str, ...]:
        """All fields have a row for each step."""
        return ("weights", "inflations", "scales")

    def predict(self, memory: Any, view: Affine, noise_cov: Any, t: Any) -> tuple[Any, Any]:
        """Look up the factor on Q."""
        return None if noise_cov is None else at_step(self.scales, t, 0) * noise_cov, memory

    def __call__(self, seen: UpdateContext) -> UpdateDecision:
        """Look up what was told."""
        scale, inflation = (at_step(rows, seen.t, 0) for rows in (self.scales, self.inflations))
        weight = at_step(self.weights, seen.t, 2)
        return UpdateDecision(WeightedUpdate(weight), inflation=inflation, scales=(jnp.ones_like(scale), scale))


@jax.jit
def reweight_leave_one_out(
    model: Model,
    linearization: Any,
    rule: Any,
    memory: Any,
    ys: Array,
    beliefs: tuple[Gaussian, Gaussian, Gaussian],
    inputs: Array | None = None,
    sizes: Array | None = None,
) -> Array:
    """Weigh each measurement by its cavity.

    Args:
        model: that was filtered.
        linearization: of the filter.
        rule: its noise rule.
        memory: what the rule knew in the end.
        ys: measurements, (T, M), NaN where there was none.
        beliefs: predicted, filtered and smoothed, each with means (T, D) and covariances (T, D, D).
        inputs: (T, U).
        sizes: of ordinary noise when each of them came, (T,) or (T, M), where the rule learns it; the last of them is
            what the memory says.

    Returns:
        W for each, (T, M, M).
    """
    steps = jnp.arange(len(ys))
    change = changes(ys, sizes)

    def one(t: Array, y: Array, belief: tuple, u: Array | None, change: Array) -> Array:
        return weigh_one(model.at(t), linearization, rule, memory, y, belief, u, change)

    axes = (0, 0, 0, None if inputs is None else 0, 0)
    return jax.vmap(one, in_axes=axes)(steps, ys, beliefs, inputs, change)


def weigh_one(
    now: Model, linearization: Any, rule: Any, memory: Any, y: Array, belief: tuple, u: Array | None, change: Array
) -> Array:
    """Weigh one measurement by its cavity, with the model of its step and `change` in the deviations of its noise."""
    cavity, observed, obs_cov = look(now, linearization, y, belief, u)
    obs_cov = hide_noise(obs_cov * linalg.outer(change, change), observed)
    seen = UpdateContext(
        cavity.residual,
        Affine(jnp.zeros_like(y), linalg.eye(len(y), cavity.cov)),
        Gaussian(jnp.zeros_like(y), cavity.cov),
        obs_cov,
        observed,
        linalg.cholesky(cavity.cov + obs_cov),
        memory,
        jnp.zeros((), jnp.int32),
    )
    return _root_of_information(rule, seen) * observed[None]


def changes(ys: Any, sizes: Any) -> Any:
    """Say how far the deviation of ordinary noise was from that in the end, (T, M)."""
    xp = linalg.array_namespace(ys)
    change = xp.ones_like(ys) if sizes is None else xp.sqrt(sizes / sizes[-1])
    return xp.broadcast_to(change if change.ndim == 2 else change[:, None], ys.shape)


def look(now: Model, linearization: Any, y: Array, belief: tuple, u: Array | None) -> tuple[Cavity, Array, Array]:
    """Leave one measurement out.

    Returns:
        The cavity, which coordinates were measured, and R for these.
    """
    before, after, whole = belief
    usable = preprocess(y)
    view = linearization(now.projection(u), whole).with_jac()
    obs_cov = hide_noise(now.obs_cov_at(whole.mean, u), usable.observed)
    jac = usable.observed[:, None] * view.jac
    prior, post, smooth = (linalg.sandwich(jac, each.cov) for each in belief)
    lost = linalg.symmetrise(linalg.psd_solve(prior, transpose(linalg.psd_solve(prior, prior - post))))
    # With S_p = A Aᵀ and S_s = B Bᵀ, symmetric matrices do: Γ may have either sign where a rule left it open what came.
    root = linalg.psd_root(prior)
    seen = matmul(lost, root)
    taken = lost + linalg.gram(transpose(_less_than_all(root, seen).half(transpose(seen))))
    root = linalg.psd_root(smooth)
    cov = linalg.gram(transpose(_less_than_all(root, matmul(taken, root)).half(transpose(root))))
    pull = linalg.psd_solve(prior, matvec(jac, after.mean - before.mean)[:, None])[:, 0]
    # H m_c = H m_s + C (Ω H (m_s - m_p) - (I + Ω S_p) g)
    shift = matvec(taken, matvec(jac, whole.mean - before.mean)) - pull - matvec(taken, matvec(prior, pull))
    error = usable.observed * now.subtract(jnp.where(usable.observed > 0, y, view.mean), view.mean)
    return Cavity(error - matvec(cov, shift), cov), usable.observed, obs_cov


def _less_than_all(root: Array, seen: Array) -> linalg.Cholesky:
    """Factorise I - Aᵀ Γ A, given A and Γ A."""
    return linalg.cholesky(linalg.eye(len(root), root) - linalg.symmetrise(matmul(transpose(root), seen)))


def _root_of_information(rule: Any, seen: UpdateContext) -> Array:
    """Ask a rule for W, (M, M), with information Wᵀ W."""
    if isinstance(rule, JumpRecovery):  # nothing is locked out once the future is known
        return _root_of_information(rule.rule, seen._replace(memory=seen.memory.rule))
    if isinstance(rule, PerSensorNoise):
        root = jnp.zeros_like(seen.obs_cov)
        for rows, memory in zip(rule.rows(len(seen.residual)), rule.each(seen.memory), strict=True):
            part = per_sensor.look(seen, rows, seen.belief)._replace(memory=memory)
            root = root.at[jnp.ix_(rows, rows)].set(_root_of_information(rule.rule, part))
        return root
    if isinstance(rule, AdaptiveNoiseScales):  # a cavity has no dynamics, and so no slopes
        seen = seen._replace(memory=rule.settled(seen.memory))
    update = rule(seen).update
    weight = update.as_weight(seen.belief.cov).weight if isinstance(update, MixtureUpdate) else update.weight
    if weight.ndim == 2:
        return weight
    whitening = linalg.cholesky(seen.obs_cov).half(linalg.eye(len(seen.residual), seen.obs_cov))
    return whitening * weight
