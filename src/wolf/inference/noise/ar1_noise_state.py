"""AR(1) measurement noise without augmenting the state; its coefficient is estimated online.

With ρ the AR(1) coefficient and ε white,

    v_t = ρ v_{t-1} + ε_t,    ε ~ r R

Nothing is added to the state: given x_{t-1}, v_{t-1} = y_{t-1} - h(x_{t-1}) is known (Bryson & Henrikson 1968). With
n = E[v_{t-1}], the innovation of a measurement is

    z = y - h(m⁻) - ρ n = (H - ρ g H₁) (x - m⁻) + ε,    H₁ = H F⁻¹

where the second term is the error of x_{t-1}. F⁻¹ maps it back, and g is the share of it that dynamics noise leaves,
`1 - H₁ Q H₁ᵀ / H₁ P⁻ H₁ᵀ` by coordinate: in one dimension the gain of a smoother, and 1 where Q is small beside P.

ρ follows the score of the log density as the scale factors do, by the sensitivity of the prediction to it (recursive
prediction errors, Ljung & Söderström 1983). With d = dm/dρ, and n⁻ = ρ n, dn⁻ = n + ρ dn from one measurement to the
next,

    ψ = H d⁻ + dn⁻,    σ = ψᵀ u,    j = ψᵀ S⁻¹ ψ;      then  d = d⁻ - K ψ,  n = y - h(m),  dn = -H d

where n and dn move four fifths of the way to that, since part of the noise of any sensor is white.
A wrong R or Q resembles autocorrelated noise, and the other way round. So the score of ρ is the part left when r and q
move along with it; and white noise is a hypothesis of its own, whose log-odds are carried: strong evidence is
needed to reject it. Less is known of the noise after an outlier or a gap: κ, its correlation with the last one, is ρ to
the power of the steps in between, and its innovation has the variance (1 - κ²) / (1 - ρ²) r R.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf.beliefs import Affine, Belief
from wolf.beliefs.gaussian import spread_out
from wolf.beliefs.updates import MixtureUpdate
from wolf.inference.noise.sensitivities import RQ, Information, inverse_of
from wolf.inference.noise.whitened import Whitened
from wolf.interfaces import UpdateContext
from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, matvec, sum_leading, transpose
from wolf.statespace import Bound, LinearMap, Model

FIRST_LOG_ODDS, FIRST_LOG_ODDS_NONLINEAR = -3.0, -5.0  # that the noise is autocorrelated
LOG_ODDS_RANGE = (-7.0, 20.0)
COEFFICIENT_RANGE = (-0.5, 0.97)  # of ρ as estimated; slower errors look like a change of the state
PRIOR_INFORMATION = 12.0  # about ρ: a standard deviation of 0.3
FORGETTING = 0.002  # of the information about ρ, per measurement
MAX_STEP = 0.2  # of ρ in one measurement
MIN_CONDITIONAL_SHARE = 0.2  # of the information about ρ that is left, at least, when r and q move along
PERSISTENT_SHARE = 0.8  # of an error that enters n: part of the noise of any sensor is white
RIDGE = 1e-9  # relative, added to FᵀF: what a singular F removes is not mapped back


class Ar1State(NamedTuple):
    """Estimate of the autocorrelated noise.

    Attributes:
        noise: n, the expected noise of the last measurement, and after a prediction of the next one, (M,).
        noise_sensitivity: dn/dρ, (M,).
        correlation: κ, (M,).
        mean_sensitivity: d, (D,).
        coefficient: ρ as estimated, ().
        information: about ρ, ().
        cross_information: about ρ and b = ln q, ().
        log_odds: that the noise is autocorrelated at all, ().
        jac: F of the last step of a nonlinear model, (D, D); None for a linear one, which has it as a matrix.
    """

    noise: Array
    noise_sensitivity: Array
    correlation: Array
    mean_sensitivity: Array
    coefficient: Array
    information: Array
    cross_information: Array
    log_odds: Array
    jac: Array | None


class JointScore(NamedTuple):
    """Score and information of a measurement about a = ln r and b = ln q, which move along with ρ.

    Attributes:
        projected: sensitivity of the predicted measurement to b, in white coordinates, (M,).
        score: σ of both.
        information: j of both.
        prior_information: about both before this measurement.
    """

    projected: Array
    score: RQ
    information: Information
    prior_information: Information


def initial_state(model: Model) -> Ar1State:
    """Return the state of white noise."""
    mean = jnp.asarray(model.prior.mean)
    zeros, zero = jnp.zeros(model.obs_dim, mean.dtype), jnp.zeros((), mean.dtype)
    jac = None if model.linear else jnp.eye(len(mean), dtype=mean.dtype)
    first = zeros, zeros, zeros, jnp.zeros_like(mean)
    odds = zero + (FIRST_LOG_ODDS if model.linear else FIRST_LOG_ODDS_NONLINEAR)
    return Ar1State(*first, zero, zero + PRIOR_INFORMATION, zero, odds, jac)


def coefficient_in_use(ar1: Ar1State) -> Array:
    """Compute the ρ that the filter uses: 0 until autocorrelation is the likelier, then from there to the estimate."""
    xp = linalg.array_namespace(ar1.coefficient)
    against = xp.exp(-ar1.log_odds)
    rho: Array = xp.maximum(ar1.coefficient, 0.0) * xp.maximum((1.0 - against) / (1.0 + against), 0.0)
    return rho


def predict(ar1: Ar1State, jac: Array | None) -> Ar1State:
    """Predict one time step.

    Args:
        ar1: after the last measurement.
        jac: F; None for the identity.
    """
    rho = coefficient_in_use(ar1)
    return ar1._replace(
        noise=rho * ar1.noise,
        noise_sensitivity=ar1.noise + rho * ar1.noise_sensitivity,
        correlation=rho * ar1.correlation,
        mean_sensitivity=ar1.mean_sensitivity if jac is None else matvec(jac, ar1.mean_sensitivity),
        jac=ar1.jac if jac is None or ar1.jac is None else jac,
    )


def after_jump(ar1: Ar1State) -> Ar1State:
    """Discard the noise of the last measurement, after a jump of the state; the estimate of ρ is kept."""
    return ar1._replace(
        noise=jnp.zeros_like(ar1.noise),
        noise_sensitivity=jnp.zeros_like(ar1.noise_sensitivity),
        correlation=jnp.zeros_like(ar1.correlation),
        mean_sensitivity=jnp.zeros_like(ar1.mean_sensitivity),
    )


def predict_measurement(
    ar1: Ar1State, view: Affine, belief: Belief, dynamics: LinearMap | Bound, noise_cov: Array | None, q: Array
) -> Affine:
    """Compute the affine approximation of the measurement with its predictable noise.

    Args:
        ar1: predicted.
        view: of the observation function, under the belief.
        belief: predicted.
        dynamics: of the model at this step, a `LinearMap` or a function. Where matrices change and the update comes
            first, those of this step stand for the ones that led here.
        noise_cov: Q of the model, a matrix, variances, or None for zero.
        q: factor on Q. More than 1 is not counted: before ρ is found, autocorrelated noise is attributed to dynamics.
    """
    matrix, correlation = dynamics.matrix if isinstance(dynamics, LinearMap) else ar1.jac, ar1.correlation
    before = view.jac if matrix is None else _mapped_back(view.jac, matrix)
    before = jnp.where(jnp.isfinite(before), before, 0.0)
    if noise_cov is not None:
        explained = linalg.diagonal(belief.signal(Affine(None, before)))
        like = jnp.zeros((len(belief.mean), *belief.mean.shape), belief.mean.dtype)
        added = linalg.diagonal(linalg.sandwich(before, spread_out(noise_cov, like)))
        each = 1.0 / jnp.maximum(explained, jnp.finfo(explained.dtype).tiny)
        share = jnp.minimum(q, 1.0) * added * each
        correlation = jnp.where(share < 1.0, 1.0 - share, 0.0) * correlation
    return view._replace(mean=view.mean + ar1.noise, jac=view.jac - correlation[:, None] * before)


def _mapped_back(jac: Array, matrix: Array) -> Array:
    """Compute H F⁻¹ as H (FᵀF + ridge)⁻¹ Fᵀ; native code does so once for a linear model."""
    square = matmul(transpose(matrix), matrix)
    ridge = RIDGE * sum_leading(linalg.diagonal(square)) * linalg.eye(len(square), square)
    return matmul(transpose(linalg.cholesky(square + ridge).solve(transpose(jac))), transpose(matrix))


def innovation_scale(ar1: Ar1State, observed: Array) -> Array:
    """Compute the variance of the noise innovation over that of ε, (1 - κ²) / (1 - ρ²), averaged over coordinates.

    Args:
        ar1: predicted.
        observed: (M,), 1 where there is a number, 0 elsewhere.
    """
    squared = sum_leading(observed * ar1.correlation**2) / jnp.maximum(sum_leading(observed), 1.0)
    return (1.0 - squared) * (1.0 / (1.0 - coefficient_in_use(ar1) ** 2))


def update(
    ar1: Ar1State,
    context: UpdateContext,
    white: Whitened,
    mixture: MixtureUpdate,
    jac_cov: Array,
    ordinary: Array,
    inlier: Array,
    joint_score: JointScore,
) -> Ar1State:
    """Update with a measurement: estimate its noise, and the share of the last one in it.

    Args:
        ar1: predicted.
        context: the measurement; its `predicted_measurement` is H itself, (M, D).
        white: the same in white coordinates.
        mixture: the moments of the scale mixture.
        jac_cov: H P⁻ in white coordinates, of the predicted measurement, (M, D).
        ordinary: scale of ordinary noise.
        inlier: probability that the measurement is no outlier; the noise of one is not kept.
        joint_score: about r and q.
    """
    jac, pull = context.observed[:, None] * context.predicted_measurement, matvec(mixture.gain, white.residual)
    psi = white.noise.half(matvec(jac, ar1.mean_sensitivity) + context.observed * ar1.noise_sensitivity)
    solved = matvec(inverse_of(white.signal, ordinary), psi)
    gradient, more, cross = (
        sum_leading(psi * pull),
        inlier * sum_leading(psi * solved),
        inlier * sum_leading(joint_score.projected * solved),
    )
    mean_sensitivity = ar1.mean_sensitivity - matvec(transpose(jac_cov), matvec(mixture.gain, psi))
    left = context.residual + ar1.noise - matvec(jac, matvec(transpose(jac_cov), pull))
    part = PERSISTENT_SHARE * inlier * context.observed
    updated = ar1._replace(
        noise=ar1.noise + part * (left - ar1.noise),
        noise_sensitivity=ar1.noise_sensitivity - part * (matvec(jac, mean_sensitivity) + ar1.noise_sensitivity),
        correlation=ar1.correlation + part * (1.0 - ar1.correlation),
        mean_sensitivity=mean_sensitivity,
    )
    return _update_coefficient(updated, gradient, more, cross, joint_score)


def _update_coefficient(ar1: Ar1State, gradient: Array, more: Array, cross: Array, joint_score: JointScore) -> Ar1State:
    """Step in ρ with r and q moving along, and update its odds against 0: the log density gains `ρ σ + ρ² j / 2`.

    Args:
        ar1: with the old estimate of ρ.
        gradient: σ of ρ.
        more: j of ρ.
        cross: j of ρ and b.
        joint_score: about r and q.
    """
    (aa, ab, bb), rho = joint_score.prior_information, coefficient_in_use(ar1)
    at = jnp.maximum(ar1.coefficient, 0.0)
    each = ar1.cross_information / (aa * bb - ab**2)
    noise, dynamics = -each * ab, each * aa  # by which r and q move per ρ
    gradient = gradient - dynamics * joint_score.score.dynamics - noise * joint_score.score.noise
    of_scales = (
        dynamics * (dynamics * joint_score.information.dynamics + 2.0 * (noise * joint_score.information.cross - cross))
        + noise**2 * joint_score.information.noise
    )
    curvature = more + of_scales
    information = PRIOR_INFORMATION + (1.0 - FORGETTING) * (ar1.information - PRIOR_INFORMATION) + more
    conditional = jnp.maximum(information - ar1.cross_information * dynamics, MIN_CONDITIONAL_SHARE * information)
    step = jnp.clip((gradient + curvature * (rho - ar1.coefficient)) / conditional, -MAX_STEP, MAX_STEP)
    gain = at * (gradient + curvature * (rho - 0.5 * at))
    return ar1._replace(
        coefficient=jnp.clip(ar1.coefficient + step, *COEFFICIENT_RANGE),
        information=information,
        cross_information=(1.0 - FORGETTING) * ar1.cross_information + cross,
        log_odds=jnp.clip(ar1.log_odds + gain, *LOG_ODDS_RANGE),
    )
