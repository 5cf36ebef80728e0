"""Noise that lasts: the error of a measurement may be like that of the one before it, and how much is learned.

With ρ, the memory of the noise, and ε new in each measurement,

    v_t = ρ v_{t-1} + ε_t,    ε ~ r R

Nothing is added to the state: once x_{t-1} is known, so is v_{t-1} = y_{t-1} - h(x_{t-1}) (Bryson & Henrikson 1968).
With n = E[v_{t-1}], what is left of a measurement is

    z = y - h(m⁻) - ρ n = (H - ρ g H₁) (x - m⁻) + ε,    H₁ = H F⁻¹

where the second part is the error that x_{t-1} had. F⁻¹ leads back to it, and g is what dynamics noise has left of it,
`1 - H₁ Q H₁ᵀ / H₁ P⁻ H₁ᵀ` for a coordinate: in one dimension the gain of a smoother, and 1 where Q is small beside P.

ρ follows the slope of the log density as levels do, by how the prediction depends on it (recursive prediction errors,
Ljung & Söderström 1983). With d = dm/dρ, and n⁻ = ρ n, dn⁻ = n + ρ dn from one measurement to the next,

    ψ = H d⁻ + dn⁻,    σ = ψᵀ u,    j = ψᵀ S⁻¹ ψ;      then  d = d⁻ - K ψ,  n = y - h(m),  dn = -H d

where n and dn move four fifths of the way to that, since some of the noise of every sensor is new each time.
An R or Q that is off looks like errors that last, and the other way round. So what is heard of ρ is what is left when r
and q go along with it; and that noise is new each time is a hypothesis of its own, with odds that are carried: it takes
much to leave it. Less is known of the noise after an outlier or a gap: κ, its tie to the last one, is ρ to the power of
the steps in between, and what is new in it has the variance (1 - κ²) / (1 - ρ²) r R.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf.beliefs import Affine
from wolf.beliefs.gaussian import spread_out
from wolf.beliefs.updates import MixtureUpdate
from wolf.inference.noise.sensitivities import RQ, Information, inverse_of
from wolf.inference.noise.whitened import Whitened
from wolf.interfaces import UpdateContext
from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, matvec, sum_leading, transpose
from wolf.statespace import LinearMap, Model

FIRST_ODDS, FIRST_ODDS_CURVED = -3.0, -5.0  # in logarithms, that noise lasts; in a model of functions
ODDS = (-7.0, 20.0)  # the least and the largest that they may be
RANGE = (-0.5, 0.97)  # of ρ as estimated; errors that last longer are for the state to have
UNSURE = 12.0  # information about ρ before any measurement: a standard deviation of 0.3
FORGETS = 0.002  # of it, in a measurement
LARGEST_STEP = 0.2  # of ρ in one measurement
LEFT = 0.2  # of the information about ρ, at least, when r and q go along
HEARD = 0.8  # of an error that is taken to last: a part of noise is new in every sensor
RIDGE = 1e-9  # of FᵀF: what a singular F forgets is not led back to


class Ar1State(NamedTuple):
    """What is known of how noise lasts.

    Attributes:
        noise: n, expected of the last measurement, and after a prediction of the next one, (M,).
        noise_slope: dn/dρ, (M,).
        tie: κ, (M,).
        mean_slope: d, (D,).
        memory: ρ as estimated, ().
        information: about ρ, ().
        both: about ρ and b = ln q, ().
        log_odds: that noise lasts at all, ().
        jac: F of the last step of a model of functions, (D, D); None: the model says it.
    """

    noise: Array
    noise_slope: Array
    tie: Array
    mean_slope: Array
    memory: Array
    information: Array
    both: Array
    log_odds: Array
    jac: Array | None


class JointScore(NamedTuple):
    """What a measurement says of a = ln r and b = ln q, which go along with ρ.

    Attributes:
        projected: how what is measured changes with b, in white coordinates, (M,).
        slope: σ of both.
        more: j of both.
        known: information about both before this measurement.
    """

    projected: Array
    slope: RQ
    more: Information
    known: Information


def start(model: Model) -> Ar1State:
    """Take noise to be new each time."""
    mean = jnp.asarray(model.prior.mean)
    nothing, none = jnp.zeros(model.obs_dim, mean.dtype), jnp.zeros((), mean.dtype)
    jac = None if model.linear else jnp.eye(len(mean), dtype=mean.dtype)
    first = nothing, nothing, nothing, jnp.zeros_like(mean)
    odds = none + (FIRST_ODDS if model.linear else FIRST_ODDS_CURVED)
    return Ar1State(*first, none, none + UNSURE, none, odds, jac)


def used(lasting: Ar1State) -> Any:
    """Give the ρ to go by: 0 until noise that lasts is the likelier, then from there to the estimate."""
    xp = linalg.array_namespace(lasting.memory)
    against = xp.exp(-lasting.log_odds)
    return xp.maximum(lasting.memory, 0.0) * xp.maximum((1.0 - against) / (1.0 + against), 0.0)


def push(lasting: Ar1State, jac: Array | None) -> Ar1State:
    """Go forward one step in time, by F; None is the identity."""
    keeps = used(lasting)
    return lasting._replace(
        noise=keeps * lasting.noise,
        noise_slope=lasting.noise + keeps * lasting.noise_slope,
        tie=keeps * lasting.tie,
        mean_slope=lasting.mean_slope if jac is None else matvec(jac, lasting.mean_slope),
        jac=lasting.jac if jac is None or lasting.jac is None else jac,
    )


def forget(lasting: Ar1State) -> Ar1State:
    """Let go of the last measurement, as where the state has jumped; what is known of ρ stays."""
    names = ("noise", "noise_slope", "tie", "mean_slope")
    return lasting._replace(**{name: jnp.zeros_like(getattr(lasting, name)) for name in names})


def predict_measurement(
    lasting: Ar1State, view: Affine, belief: Any, dynamics: Any, noise_cov: Any, scale: Array
) -> Affine:
    """See what will be measured, with the noise that is kept.

    Args:
        lasting: predicted.
        view: the observation function seen by the belief.
        belief: predicted.
        dynamics: of the model at this step, a `LinearMap` or a function. Where matrices change and the update comes
            first, those of this step stand for the ones that led here.
        noise_cov: Q of the model, a matrix, variances, or None for nothing.
        scale: q. More than 1 is not counted: before ρ is found, errors that last are taken for dynamics.
    """
    matrix, tie = dynamics.matrix if isinstance(dynamics, LinearMap) else lasting.jac, lasting.tie
    before = view.jac if matrix is None else _led_back(view.jac, matrix)
    before = jnp.where(jnp.isfinite(before), before, 0.0)
    if noise_cov is not None:
        explained = linalg.diagonal(belief.signal(Affine(None, before)))
        like = jnp.zeros((len(belief.mean), *belief.mean.shape), belief.mean.dtype)
        added = linalg.diagonal(linalg.sandwich(before, spread_out(noise_cov, like)))
        each = 1.0 / jnp.maximum(explained, jnp.finfo(explained.dtype).tiny)
        share = jnp.minimum(scale, 1.0) * added * each
        tie = jnp.where(share < 1.0, 1.0 - share, 0.0) * tie
    return view._replace(mean=view.mean + lasting.noise, jac=view.jac - tie[:, None] * before)


def _led_back(jac: Array, matrix: Array) -> Array:
    """Find H F⁻¹ as H (FᵀF + ridge)⁻¹ Fᵀ; native code does so once for a model of matrices."""
    square = matmul(transpose(matrix), matrix)
    ridge = RIDGE * sum_leading(linalg.diagonal(square)) * linalg.eye(len(square), square)
    return matmul(transpose(linalg.cholesky(square + ridge).solve(transpose(jac))), transpose(matrix))


def freedom(lasting: Ar1State, observed: Array) -> Array:
    """Say how much larger than ε the new part of noise is, (1 - κ²) / (1 - ρ²), on average over what was measured."""
    tied = sum_leading(observed * lasting.tie**2) / jnp.maximum(sum_leading(observed), 1.0)
    return (1.0 - tied) * (1.0 / (1.0 - used(lasting) ** 2))


def learn(
    lasting: Ar1State,
    context: UpdateContext,
    white: Whitened,
    pull: MixtureUpdate,
    jac_cov: Array,
    ordinary: Array,
    sure: Array,
    joint_score: JointScore,
) -> Ar1State:
    """Learn from a measurement: what its noise was, and how much of the last one was in it.

    Args:
        lasting: predicted.
        context: the measurement; what was foreseen is H itself, (M, D).
        white: the same in white coordinates.
        pull: the moments of the mixture of sizes.
        jac_cov: H P⁻ in white coordinates, of what was foreseen, (M, D).
        ordinary: size of ordinary noise.
        sure: how likely the measurement is no outlier; the noise of one is not kept.
        joint_score: what it says of r and q.
    """
    jac, pulled = context.observed[:, None] * context.predicted_measurement, matvec(pull.gain, white.residual)
    leans = white.noise.half(matvec(jac, lasting.mean_slope) + context.observed * lasting.noise_slope)  # ψ
    tells = matvec(inverse_of(white.signal, ordinary), leans)
    slope, more, both = (
        sum_leading(leans * pulled),
        sure * sum_leading(leans * tells),
        sure * sum_leading(joint_score.projected * tells),
    )
    mean_slope = lasting.mean_slope - matvec(transpose(jac_cov), matvec(pull.gain, leans))
    left = context.residual + lasting.noise - matvec(jac, matvec(transpose(jac_cov), pulled))
    part = HEARD * sure * context.observed
    learned = lasting._replace(
        noise=lasting.noise + part * (left - lasting.noise),
        noise_slope=lasting.noise_slope - part * (matvec(jac, mean_slope) + lasting.noise_slope),
        tie=lasting.tie + part * (1.0 - lasting.tie),
        mean_slope=mean_slope,
    )
    return _follow(learned, slope, more, both, joint_score)


def _follow(lasting: Ar1State, slope: Array, more: Array, both: Array, joint_score: JointScore) -> Ar1State:
    """Take a step in ρ with r and q going along, and weigh it against 0: the log density gains `ρ σ + ρ² j / 2`."""
    (aa, ab, bb), keeps, at = joint_score.known, used(lasting), jnp.maximum(lasting.memory, 0.0)
    each = lasting.both / (aa * bb - ab**2)
    noise, dynamics = -each * ab, each * aa  # where r and q go as ρ does
    slope = slope - dynamics * joint_score.slope.dynamics - noise * joint_score.slope.noise
    bent = (
        dynamics * (dynamics * joint_score.more.dynamics + 2.0 * (noise * joint_score.more.both - both))
        + noise**2 * joint_score.more.noise
    )
    bend = more + bent
    information = UNSURE + (1.0 - FORGETS) * (lasting.information - UNSURE) + more
    free = jnp.maximum(information - lasting.both * dynamics, LEFT * information)
    step = jnp.clip((slope + bend * (keeps - lasting.memory)) / free, -LARGEST_STEP, LARGEST_STEP)
    said = at * (slope + bend * (keeps - 0.5 * at))
    return lasting._replace(
        memory=jnp.clip(lasting.memory + step, *RANGE),
        information=information,
        both=(1.0 - FORGETS) * lasting.both + both,
        log_odds=jnp.clip(lasting.log_odds + said, *ODDS),
    )
