"""Exponential families: distributions of a measurement other than Gaussian.

The function of a model returns the linear predictor η of each step. A family has the expectation λ = E[T(y) | η] of a
sufficient statistic T(y), and its covariance V. The filter then updates as if T(y) were Gaussian with these moments,
linearised at the prior mean: the extended Kalman filter of Ollivier (2018), which is one step of natural gradient. WoLF
raises that Gaussian to the power w² (Duran-Martin et al. 2024, appendix on exponential families).

The recommended weight is a function of the Pearson residual at the prior mean, `MahalanobisIMQ(metric="R")` with V in
place of R. The S metric, whose covariance includes the uncertainty of the parameters, accepts gross counts while that
uncertainty is large.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf import validation
from wolf.numerics.pytree import pytree, static

MAX_LOG_RATE = 30.0  # exp(30) is 1e13, and its square is finite in float32
MIN_INDICATOR_VARIANCE = 1e-6  # below it 1 - λ has no significant digits in float32


class Family:
    """Base of the families.

    A family has `dim`, the number of statistics M, and `outputs`, the number of linear predictors η; `statistic(y)`
    converts NumPy data, `mean(eta)` -> (M,) and `variance(eta)` -> (M, M) are called by the filter.
    """

    @property
    def dim(self) -> int:
        """Number of statistics, M."""
        return 1

    @property
    def outputs(self) -> int:
        """Number of linear predictors that the function must return."""
        return self.dim

    def statistic(self, y: ArrayLike) -> np.ndarray:
        """Convert data (T,) to statistics (T, M), the measurements for `wolf.filter`. NaN remains missing."""
        return validation.number_array("y", y).reshape(-1, self.dim)

    def mean(self, eta: Array) -> Array:
        """Compute λ = E[T(y)], (M,)."""
        raise NotImplementedError

    def variance(self, eta: Array) -> Array:
        """Compute V = Cov[T(y)], (M, M)."""
        raise NotImplementedError


@pytree
class Normal(Family):
    """One or M real numbers with Gaussian noise: λ = η, V = R.

    Args:
        obs_cov: R, (M, M), positive definite; a number for M = 1.
    """

    obs_cov: Any

    def __post_init__(self) -> None:
        """Validate R and store it as a matrix."""
        if isinstance(self.obs_cov, jax.core.Tracer):
            return
        array = np.atleast_2d(validation.nonempty("obs_cov", self.obs_cov))
        validation.covariance("obs_cov", array, array.shape[-1], definite=True)
        object.__setattr__(self, "obs_cov", array)

    @property
    def dim(self) -> int:
        """Number of coordinates, M."""
        return self.obs_cov.shape[-1]

    def mean(self, eta: Array) -> Array:
        """Return η."""
        return eta

    def variance(self, eta: Array) -> Array:
        """Return R."""
        return jnp.asarray(self.obs_cov, eta.dtype)


@pytree
class Bernoulli(Family):
    """Binary outcomes, 1 or 0: λ = 1 / (1 + exp(-η)), V = λ (1 - λ).

    Example:
        >>> Bernoulli().mean(jnp.zeros(1)).tolist(), Bernoulli().variance(jnp.zeros(1)).tolist()
        ([0.5], [[0.25]])
    """

    def statistic(self, y: ArrayLike) -> np.ndarray:
        """Convert 0, 1, False, True to numbers; other values raise an error, NaN is missing."""
        values = super().statistic(y)
        _check("Bernoulli takes 0 and 1", values, np.isin(values, (0.0, 1.0)))
        return values

    def mean(self, eta: Array) -> Array:
        """Compute the probability of 1."""
        return jax.nn.sigmoid(eta)

    def variance(self, eta: Array) -> Array:
        """Compute λ (1 - λ), bounded away from zero so that a Pearson residual is finite."""
        return jnp.maximum(jax.nn.sigmoid(eta) * jax.nn.sigmoid(-eta), MIN_INDICATOR_VARIANCE)[:, None]


@pytree
class Categorical(Family):
    """One of K classes: λ = the first K - 1 entries of softmax(η), V = diag(λ) - λ λᵀ.

    There are K predictors, so the prior treats all classes alike; the last indicator is left out because it is one
    minus the others, and V would be singular.

    Args:
        classes: K, at least 2.

    Example:
        >>> Categorical(3).statistic([0, 2]).tolist()
        [[1.0, 0.0], [0.0, 0.0]]
    """

    classes: int = static()

    def __post_init__(self) -> None:
        """Validate K."""
        object.__setattr__(self, "classes", validation.integer("classes", self.classes, least=2))

    @property
    def dim(self) -> int:
        """Number of indicators, K - 1."""
        return self.classes - 1

    @property
    def outputs(self) -> int:
        """Number of predictors, K."""
        return self.classes

    def statistic(self, y: ArrayLike) -> np.ndarray:
        """Convert classes 0 ... K - 1 to indicators of all but the last."""
        labels = validation.number_array("y", y).reshape(-1)
        _check(f"Categorical takes 0 ... {self.classes - 1}", labels, np.isin(labels, np.arange(self.classes)))
        indicators = (labels[:, None] == np.arange(self.dim)).astype(np.float64)
        return np.where(np.isnan(labels)[:, None], np.nan, indicators)

    def mean(self, eta: Array) -> Array:
        """Compute the probabilities of all classes but the last."""
        return jax.nn.softmax(eta)[:-1]

    def variance(self, eta: Array) -> Array:
        """Compute the covariance of the indicators, bounded away from singularity."""
        mean = self.mean(eta)
        return jnp.diag(mean + MIN_INDICATOR_VARIANCE) - mean[:, None] * mean[None, :]


@pytree
class Poisson(Family):
    """Counts: λ = exp(η), V = λ."""

    def statistic(self, y: ArrayLike) -> np.ndarray:
        """Convert counts, which must not be negative."""
        values = super().statistic(y)
        _check("Poisson takes counts of at least 0", values, values >= 0)
        return values

    def mean(self, eta: Array) -> Array:
        """Compute the rate."""
        return jnp.exp(jnp.clip(eta, -MAX_LOG_RATE, MAX_LOG_RATE))

    def variance(self, eta: Array) -> Array:
        """Compute the variance, equal to the rate."""
        return self.mean(eta)[:, None]


@pytree
class Gamma(Family):
    """Positive numbers with a known shape k: λ = exp(η), V = λ² / k (k = 1 is the exponential distribution).

    Args:
        shape: k; the relative standard deviation is 1 / √k.
    """

    shape: Any

    def __post_init__(self) -> None:
        """Validate the shape."""
        validation.positive("shape", self.shape, needed=True)

    def statistic(self, y: ArrayLike) -> np.ndarray:
        """Convert positive numbers."""
        values = super().statistic(y)
        _check("Gamma takes numbers above 0", values, values > 0)
        return values

    def mean(self, eta: Array) -> Array:
        """Compute the expectation."""
        return jnp.exp(jnp.clip(eta, -MAX_LOG_RATE, MAX_LOG_RATE))

    def variance(self, eta: Array) -> Array:
        """Compute the squared expectation over the shape."""
        return (self.mean(eta) ** 2 / self.shape)[:, None]


@pytree
class Beta(Family):
    """Shares between 0 and 1 with expectation μ = 1 / (1 + exp(-η)) and known precision φ.

    With φ fixed the sufficient statistic is logit(y): λ = ψ(μφ) - ψ((1 - μ)φ), V = ψ'(μφ) + ψ'((1 - μ)φ). A share of
    exactly 0 or 1 has density zero and an infinite statistic, and is treated as an outlier.

    Args:
        precision: φ; the variance of y is μ (1 - μ) / (1 + φ).
    """

    precision: Any

    def __post_init__(self) -> None:
        """Validate the precision."""
        validation.positive("precision", self.precision, needed=True)

    def statistic(self, y: ArrayLike) -> np.ndarray:
        """Convert shares to their logits."""
        values = super().statistic(y)
        _check("Beta takes numbers from 0 to 1", values, (values >= 0) & (values <= 1))
        with np.errstate(divide="ignore"):
            return np.log(values) - np.log1p(-values)

    def _counts(self, eta: Array) -> tuple[Array, Array]:
        eta = jnp.clip(eta, -MAX_LOG_RATE / 2, MAX_LOG_RATE / 2)
        return self.precision * jax.nn.sigmoid(eta), self.precision * jax.nn.sigmoid(-eta)

    def mean(self, eta: Array) -> Array:
        """Compute the expectation of the logit."""
        first, second = self._counts(eta)
        return jax.scipy.special.digamma(first) - jax.scipy.special.digamma(second)

    def variance(self, eta: Array) -> Array:
        """Compute the variance of the logit."""
        first, second = self._counts(eta)
        return (jax.scipy.special.polygamma(1, first) + jax.scipy.special.polygamma(1, second))[:, None]


def _check(wanted: str, values: np.ndarray, good: np.ndarray) -> None:
    bad = ~(good | np.isnan(values))
    if bad.any():
        raise ValueError(f"{wanted}; got {values[bad].ravel()[0]!r}")
