"""Measurement likelihoods of particle filters, which can use any density."""

from typing import Protocol

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import gammaln, logsumexp

from wolf import validation
from wolf.beliefs.density import log_density
from wolf.interfaces import Number
from wolf.numerics import linalg
from wolf.numerics.linalg import Cholesky
from wolf.numerics.pytree import pytree


class ParticleLikelihood(Protocol):
    """Density of a measurement given the state."""

    def log_weight(self, residual: Array, prediction: Array, noise: Cholesky, count: Array) -> Array:
        """Evaluate the log density, or its generalised form."""
        ...


@pytree
class GaussianLikelihood:
    """y ~ N(h(x), R)."""

    def log_weight(self, residual: Array, prediction: Array, noise: Cholesky, count: Array) -> Array:
        """Evaluate the log density.

        Args:
            residual: y - h(x), (M,), zero where y is missing.
            prediction: h(x), (M,), likewise.
            noise: factor of R.
            count: number of measured coordinates.
        """
        return log_density(residual, noise, count)


@pytree
class BetaLikelihood:
    """Generalised Bayesian likelihood by the β-divergence, Boustati et al. (2020).

    The log weight is `(p(y|x)^β - 1) / β`, up to a constant: log p(y|x) as β -> 0, and bounded below for every β > 0,
    so no measurement removes all particles. As in the paper, p is the density in the units of y.

    Args:
        beta: β; 0 is the ordinary particle filter.
    """

    beta: Number = 0.1

    def __post_init__(self) -> None:
        """Validate β."""
        validation.not_negative("beta", self.beta)

    def log_weight(self, residual: Array, prediction: Array, noise: Cholesky, count: Array) -> Array:
        """Evaluate the generalised log-likelihood."""
        usual = log_density(residual, noise, count)
        safe = jnp.where(self.beta > 0, self.beta, 1.0)
        return jnp.where(self.beta > 0, jnp.expm1(safe * usual) / safe, usual)


@pytree
class StudentLikelihood:
    """y ~ Student-t around h(x) with scale matrix R.

    Args:
        dof: degrees of freedom ν.
    """

    dof: Number

    def __post_init__(self) -> None:
        """Validate ν."""
        validation.positive("dof", self.dof)

    def log_weight(self, residual: Array, prediction: Array, noise: Cholesky, count: Array) -> Array:
        """Evaluate the log density."""
        distance = linalg.sum_leading(noise.half(residual) ** 2)
        half = 0.5 * (self.dof + count)
        constant = gammaln(half) - gammaln(0.5 * self.dof) - 0.5 * count * jnp.log(jnp.pi * self.dof)
        return constant - 0.5 * noise.log_det() - half * jnp.log1p(distance / self.dof)


@pytree
class MixtureLikelihood:
    """y ~ N(h(x), R), or N(factor h(x), R) with probability `prob`: the outliers of `wolf.simulate.Mixture`.

    Args:
        prob: of an outlier.
        factor: on the mean.
    """

    prob: Number
    factor: Number = 2.0

    def __post_init__(self) -> None:
        """Validate the probability."""
        validation.probability("prob", self.prob)

    def log_weight(self, residual: Array, prediction: Array, noise: Cholesky, count: Array) -> Array:
        """Evaluate the log density."""
        shifted = residual - (self.factor - 1.0) * prediction
        usual = log_density(residual, noise, count) + jnp.log1p(-self.prob)
        return logsumexp(jnp.stack([usual, log_density(shifted, noise, count) + jnp.log(self.prob)]))
