"""Student-t noise whose scale matrix and degrees of freedom are estimated online (Huang, Zhang, Li & Chambers 2016).

Model: y ~ N(Hx, R/λ), λ ~ Gamma(ν/2, ν/2), R ~ inverse Wishart(U, u), ν ~ Gamma(a, b). One step of the filter discounts
the past, (u, U, a, b) <- ρ (u, U, a, b), and alternates between the state, λ, R and ν. Estimates are carried in the
coordinates where the model's R is white, so that R may change with time.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import digamma

from wolf import validation
from wolf.beliefs.updates import WeightedUpdate
from wolf.inference.noise.whitened import expected_square, iterate, whiten, whitening_root
from wolf.interfaces import NoiseModel, Number, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.linalg import sum_leading
from wolf.numerics.pytree import pytree, static
from wolf.statespace import Model

FORGETTING = 1.0 - float(np.exp(-4.0))  # as in the variational filters of the same authors


class StudentNoiseMemory(NamedTuple):
    """Posterior of R and ν.

    Attributes:
        weight: u, degrees of freedom of R.
        scale: U, (M, M), in white coordinates: R is about U/u.
        dof_shape: a.
        dof_rate: b; ν is about a/b.
    """

    weight: Array
    scale: Array
    dof_shape: Array
    dof_rate: Array


@pytree
class UnknownStudentNoise(NoiseModel[StudentNoiseMemory]):
    """Estimate R and the degrees of freedom of Student-t noise.

    Args:
        dof: prior mean of ν.
        dof_strength: weight of that prior, in measurements.
        strength: weight of the model's R, in measurements.
        forgetting: ρ, the share kept from step to step.
        iterations: number of variational iterations I.
    """

    dof: Number = 5.0
    dof_strength: Number = 10.0
    strength: Number = 10.0
    forgetting: Number = FORGETTING
    iterations: int = static(default=5)

    def __post_init__(self) -> None:
        """Validate the prior."""
        for name, value in (("dof", self.dof), ("dof_strength", self.dof_strength), ("strength", self.strength)):
            validation.positive(name, value)
        validation.probability("forgetting", self.forgetting)
        validation.count("iterations", self.iterations)

    def start(self, model: Model) -> StudentNoiseMemory:
        """Return the prior around the model's R."""
        dtype = jnp.asarray(model.prior.mean).dtype
        strength, shape = jnp.asarray(self.strength, dtype), jnp.asarray(0.5 * self.dof_strength, dtype)
        return StudentNoiseMemory(strength, strength * jnp.eye(model.obs_dim, dtype=dtype), shape, shape / self.dof)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Infer λ, R and ν by variational Bayes."""
        white = whiten(context)
        known, scale, shape, rate = (self.forgetting * old for old in context.memory)
        # A missing coordinate leaves the estimate of its noise unchanged.
        unseen = linalg.eye(len(scale), scale) * ((1.0 - context.observed) * linalg.diagonal(scale) / known)[None]

        def update(values: tuple) -> tuple:
            power, noise, dof = values
            square = expected_square(white, noise / power)
            precision = linalg.cholesky(noise).solve(square)
            gamma_shape = 0.5 * (dof + white.num_observed)
            gamma_rate = 0.5 * (dof + sum_leading(linalg.diagonal(precision)))
            power = gamma_shape / gamma_rate
            log_power = digamma(gamma_shape) - jnp.log(gamma_rate)
            dof = (shape + 0.5) / (rate + 0.5 * (power - 1.0 - log_power))
            return power, (scale + power * square + unseen) / (known + 1.0), dof

        start = (jnp.ones_like(white.num_observed), scale / known, shape / rate)
        power, noise, dof = iterate(update, start, self.iterations)
        new = StudentNoiseMemory(known + 1.0, noise * (known + 1.0), shape + 0.5, (shape + 0.5) / dof)
        return UpdateDecision(WeightedUpdate(jnp.sqrt(power) * whitening_root(white, noise)), memory=new)
