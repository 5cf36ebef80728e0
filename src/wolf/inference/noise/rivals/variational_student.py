"""Variational robust Kalman filters: a Student-t loss on every whitened coordinate of prediction and measurement.

Li, Shi, Yu & Shi, "Variational Robust Kalman Filters: A Unified Framework" (2025, arXiv 2512.15419). In the regression
of `robust_regression`, with residual ε_i of a row, degrees of freedom ν_i and scale τ_i²,

    w_i² = ν_i / (ν_i τ_i² + ε_i²)

STKF keeps ν and τ² = 1. STKF-A forgets at rate ρ and estimates the scales online:

    ν <- ρ ν          before a step
    τ² <- (ν τ² + ε² + W P⁺ Wᵀ) / (ν + 1),  ν <- ν + 1          after it

so that ν tends to 1/(1 - ρ). STKF-AR does not learn from outliers: with p the probability that ε came from N(0, 9 τ²)
and not from N(0, τ²), the new scale is (1 - p) times that of STKF-A and p times the old one. That formula and the prior
probability are not in the text that we have; both are choices of ours.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from wolf import validation
from wolf.beliefs.updates import NominalCovUpdate, RevisedPriorUpdate
from wolf.inference.noise.rivals.robust_regression import (
    PriorRevisingNoise,
    Regression,
    iterate_weights,
    regression_of,
    revise,
    solve,
)
from wolf.interfaces import Number, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, matvec, transpose
from wolf.numerics.pytree import pytree, static
from wolf.statespace import Model

GAUSSIAN_DOF = 1e8  # degrees of freedom that the authors use for coordinates without outliers
OUTLIER_VARIANCE = 9.0  # of an outlier, over that of ordinary errors


class RowScales(NamedTuple):
    """Degrees of freedom and scales of the rows: those of the prediction, then those of the measurement.

    Attributes:
        dof: ν, (D + M,).
        scale: τ², (D + M,).
    """

    dof: Array
    scale: Array


@pytree
class VariationalStudent(PriorRevisingNoise[RowScales]):
    """Weight the rows of prediction and measurement by Student-t losses, with fixed or estimated scales.

    Args:
        dof: ν of the measurement; 0.5 to 5 where there are outliers, 100 as the start of an estimated scale.
        prior_dof: ν of the prediction.
        forgetting: ρ of the measurement, above 0 and below 1; None keeps its scales.
        prior_forgetting: ρ of the prediction.
        outlier_prob: prior probability of an outlier in a row, for STKF-AR; None learns from every residual.
        iterations: number of updates of the state; the authors' code has 2, and 4 with estimated scales.
        nominal_cov: whether the covariance is that of the robust gain under nominal noise, as in the authors' code of
            August 2025; otherwise the one of the revised prior and noise, as in the paper's proof of its Theorem 4.
    """

    dof: Number = 4.0
    prior_dof: Number = GAUSSIAN_DOF
    forgetting: Number | None = None
    prior_forgetting: Number | None = None
    outlier_prob: Number | None = None
    iterations: int = static(default=4)
    nominal_cov: bool = static(default=False)

    def __post_init__(self) -> None:
        """Validate the options."""
        validation.positive("dof", self.dof)
        validation.positive("prior_dof", self.prior_dof)
        shares = {"forgetting": self.forgetting, "prior_forgetting": self.prior_forgetting}
        for name, value in (shares | {"outlier_prob": self.outlier_prob}).items():
            if value is not None:
                validation.probability(name, value)
        validation.count("iterations", self.iterations)
        validation.boolean("nominal_cov", self.nominal_cov)

    def start(self, model: Model) -> RowScales:
        """Return the given degrees of freedom, with unit scales."""
        dtype = jnp.asarray(model.prior.mean).dtype
        dof = _by_row(self.prior_dof, self.dof, model.state_dim, model.obs_dim, dtype)
        return RowScales(dof, jnp.ones_like(dof))

    def __call__(self, context: UpdateContext[RowScales]) -> UpdateDecision[RowScales]:
        """Iterate the regression, then update the scales."""
        size, old = context.belief.mean.shape[0], context.memory
        kept = _by_row(_rate(self.prior_forgetting), _rate(self.forgetting), size, len(context.residual), old.dof.dtype)
        dof, regression = kept * old.dof, regression_of(context)

        def rule(rows: slice) -> Callable[[Array], Array]:
            return lambda error: dof[rows] / (dof[rows] * old.scale[rows] + error**2)

        powers = iterate_weights(regression, rule(slice(None, size)), rule(slice(size, None)), self.iterations)
        revised = revise(regression, context.belief, *powers)
        update = NominalCovUpdate(*revised) if self.nominal_cov else RevisedPriorUpdate(*revised)
        if self.forgetting is None and self.prior_forgetting is None:
            return UpdateDecision(update, old)
        error, variance = _residuals(regression, *powers)
        scale = (dof * old.scale + error**2 + variance) / (dof + 1.0)
        if self.outlier_prob is not None:
            outlier = _outlier_probability(error**2 / old.scale, self.outlier_prob)
            scale = outlier * old.scale + (1.0 - outlier) * scale
        seen = jnp.concatenate([jnp.ones(size, dof.dtype), context.observed])
        learns = (kept < 1.0) & (seen > 0)
        new = RowScales(jnp.where(learns, dof + 1.0, old.dof), jnp.where(learns, scale, old.scale))
        return UpdateDecision(update, new)


def _rate(forgetting: Number | None) -> Number:
    return 1.0 if forgetting is None else forgetting


def _by_row(prior: Number, measured: Number, size: int, count: int, dtype: DTypeLike) -> Array:
    """Return a number for each row: one for those of the prediction, one for those of the measurement."""
    return jnp.concatenate([jnp.full(size, prior, dtype), jnp.full(count, measured, dtype)])


def _residuals(regression: Regression, prior_power: Array, power: Array) -> tuple[Array, Array]:
    """Compute the residual of every row at the solution, and the posterior variance of its value, (D + M,)."""
    size = regression.root.shape[0]
    unknowns = solve(regression, prior_power, power)
    weighted = linalg.safe_sqrt(power)[:, None] * regression.design / prior_power[None, :]
    inner = matmul(weighted, transpose(linalg.safe_sqrt(power)[:, None] * regression.design))
    half = linalg.cholesky(inner + linalg.eye(len(power), inner)).half(weighted)  # C = D⁻¹ - halfᵀ half
    own = 1.0 / prior_power - (half**2).sum(0)
    seen = (regression.design**2 / prior_power[None, :]).sum(1) - (matmul(regression.design, transpose(half)) ** 2).sum(
        1
    )
    error = jnp.concatenate([-unknowns[:size], regression.residual - matvec(regression.design, unknowns)])
    return error, jnp.concatenate([own[:size], seen])


def _outlier_probability(square: Array, prior: Number) -> Array:
    """Compute the probability that a residual comes from N(0, 9 τ²) and not from N(0, τ²).

    Args:
        square: ε² / τ².
        prior: probability of an outlier.
    """
    log_ratio = 0.5 * square * (1.0 - 1.0 / OUTLIER_VARIANCE) - 0.5 * math.log(OUTLIER_VARIANCE)
    return jax.nn.sigmoid(log_ratio + jnp.log(prior) - jnp.log1p(-prior))
