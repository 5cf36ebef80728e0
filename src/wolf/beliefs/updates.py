"""The few ways in which a measurement changes a belief: what a noise rule asks for.

Each kind has `apply(belief, view, residual, obs_cov, form)`, which gives the posterior and the log density of the
weighted residual; `masked(observed)`, which leaves out what was not measured; and `readable(obs_cov, observed)`, the
weight w that people read. Which kind it is, is known when a filter is traced.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf.beliefs.affine import Affine
from wolf.beliefs.density import log_density
from wolf.beliefs.gaussian import Gaussian, Step, joseph
from wolf.beliefs.mixture_sqrt_update import MixtureComponents
from wolf.beliefs.sqrt_gaussian import SqrtGaussian
from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, sum_leading, transpose


class WeightedUpdate(NamedTuple):
    """Believe the measurement to the power w²: the weighted likelihood of generalised Bayes.

    Attributes:
        weight: w. A number for the whole measurement, (M,) for each coordinate, or a matrix (M, M) that maps the
            measurement to whitened coordinates and weighs them there, so that its information is `Wᵀ W`.
        spread: root (D, K) of a positive term that the posterior covariance gains. None stands for zero.

    Example:
        >>> one = jnp.eye(1)
        >>> belief, view = Gaussian(jnp.zeros(1), one), Affine(jnp.zeros(1), one)
        >>> posterior, _ = WeightedUpdate(jnp.ones(())).apply(belief, view, jnp.ones(1), one)
        >>> float(posterior.mean[0]), float(posterior.cov[0, 0])
        (0.5, 0.5)
    """

    weight: Array
    spread: Array | None = None

    def apply(
        self, belief: Any, view: Affine, residual: Array, obs_cov: Array, form: str = "auto"
    ) -> tuple[Any, Array]:
        """Condition the belief."""
        return belief.condition(view, residual, obs_cov, self, form)

    def masked(self, observed: Array) -> "WeightedUpdate":
        """Set the weight of what was not measured to zero."""
        return self._replace(weight=mask(self.weight, observed))

    def readable(self, obs_cov: Array, observed: Array) -> Array:
        """Say one number, or one for each coordinate."""
        return share_of_precision(self.weight, obs_cov, observed)


class InformationRoots(NamedTuple):
    """Roots of what a `MixtureUpdate` says, where they are known already.

    Attributes:
        information: W, (M, M), with `Wᵀ W = Ω`.
        doubt: (M, K), with `Σ = doubt doubtᵀ`.
    """

    information: Array
    doubt: Array


class KnownTerms(NamedTuple):
    """Two numbers of a `MixtureUpdate`, where they are known without a factor of `rest`.

    Attributes:
        log_rest: log |C|.
        kept: the trace of Ω over what was measured.
    """

    log_rest: Array
    kept: Array


class MixtureUpdate(NamedTuple):
    """Average over several noises, each with its own gain: `K = P Hᵀ A`, in white coordinates.

    Attributes:
        whitening: V, (M, M), which maps the measurement to coordinates where R is the identity.
        gain: A, (M, M), the inverse of the covariance that the residual has for the rule, noise included.
        rest: `C = I - A S`, with S what the state explains of that covariance; found without a difference.
        doubt: Σ, (M, M): the posterior covariance gains `P Hᵀ Σ H P`, since it is open which noise it was.
        sizes: the noises themselves, by which a belief that is far wider than they are is conditioned.
        roots: of Ω and Σ, where they cost nothing; None: to be taken when they are needed.
        told: what is known of C and Ω; None: to be found from them.
    """

    whitening: Array
    gain: Array
    rest: Array
    doubt: Array
    sizes: MixtureComponents | None = None
    roots: InformationRoots | None = None
    told: KnownTerms | None = None

    def apply(
        self, belief: Any, view: Affine, residual: Array, obs_cov: Array, form: str = "auto"
    ) -> tuple[Any, Array]:
        """Condition the belief."""
        return belief.condition_on_mixture(view, residual, obs_cov, self, form)

    def masked(self, observed: Array) -> "MixtureUpdate":
        """Leave out what was not measured."""
        return self._replace(whitening=mask(self.whitening, observed))

    def readable(self, obs_cov: Array, observed: Array) -> Array:
        """Say one size for the whole measurement: the share of all of its information."""
        kept = sum_leading(self._of_each() * observed) if self.told is None else self.told.kept
        # Noise below R tells more than R says; that is in what was learned, and a weight is at most 1.
        return jnp.minimum(linalg.safe_sqrt(kept / jnp.maximum(sum_leading(observed), 1.0)), 1.0)

    def _of_each(self) -> Array:
        """Give the diagonal of Ω."""
        if self.roots is None:
            return linalg.diagonal(self.information())
        return (self.roots.information**2).sum(0)  # type: ignore[no-any-return]

    def log_rest(self) -> Array:
        """Give log |C|."""
        return linalg.cholesky(self.rest).log_det() if self.told is None else self.told.log_rest

    def information(self) -> Array:
        """Give the information Ω of the one noise that this stands for, `Ω = C⁻¹ A`, in white coordinates."""
        if self.roots is not None:
            return linalg.gram(transpose(self.roots.information))
        return linalg.symmetrise(linalg.cholesky(self.rest).solve(self.gain))

    def as_weight(self, jac_cov: Array) -> WeightedUpdate:
        """Say it as a weight and a spread: information Ω has the same gain.

        Args:
            jac_cov: H P, (M, D).
        """
        information, doubt = self.roots or (
            transpose(linalg.psd_root(self.information())),
            linalg.psd_root(self.doubt),
        )
        spread = matmul(transpose(matmul(self.whitening, jac_cov)), doubt)
        return WeightedUpdate(matmul(information, self.whitening), spread)


class RevisedPriorUpdate(NamedTuple):
    """Learn from another belief than the predicted one, for rules that doubt the dynamics too.

    Attributes:
        prior: to learn from.
        weight: w, as in `WeightedUpdate`.
    """

    prior: Gaussian
    weight: Array

    def apply(
        self, belief: Any, view: Affine, residual: Array, obs_cov: Array, form: str = "auto"
    ) -> tuple[Any, Array]:
        """Condition the other belief, in the form of the predicted one."""
        if isinstance(belief, Gaussian):
            return condition_by_root(self.prior, view, residual, obs_cov, WeightedUpdate(self.weight), form)
        return belief.replaced(self.prior).condition(view, residual, obs_cov, WeightedUpdate(self.weight), form)

    def masked(self, observed: Array) -> "RevisedPriorUpdate":
        """Set the weight of what was not measured to zero."""
        return self._replace(weight=mask(self.weight, observed))

    def readable(self, obs_cov: Array, observed: Array) -> Array:
        """Say one number, or one for each coordinate."""
        return share_of_precision(self.weight, obs_cov, observed)


class NominalCovUpdate(NamedTuple):
    """Update the mean as `RevisedPriorUpdate` does, with the covariance of that estimate under the nominal model.

    Attributes:
        prior: that the gain is found from.
        weight: w, as in `WeightedUpdate`.
    """

    prior: Gaussian
    weight: Array

    def apply(
        self, belief: Any, view: Affine, residual: Array, obs_cov: Array, form: str = "auto"
    ) -> tuple[Any, Array]:
        """Find the gain from the other belief, and the covariance from the predicted one by Joseph's form."""
        step = Step.of(self.prior, view, residual, obs_cov, self.weight)
        gain_t, noise_cov = step.weigh.back(step.gain_t), obs_cov if step.excess is None else obs_cov + step.excess
        cov = joseph(belief.cov, view.jac, gain_t, matmul(transpose(gain_t), noise_cov))
        return belief.replaced(Gaussian(step.mean, cov)), log_density(step.error, step.factor)

    def masked(self, observed: Array) -> "NominalCovUpdate":
        """Set the weight of what was not measured to zero."""
        return self._replace(weight=mask(self.weight, observed))

    def readable(self, obs_cov: Array, observed: Array) -> Array:
        """Say one number, or one for each coordinate."""
        return share_of_precision(self.weight, obs_cov, observed)


class PosteriorUpdate(NamedTuple):
    """Take over the posterior of a rule that learned by itself, say from one sensor after the other.

    Attributes:
        belief: posterior.
        log_density: of the weighted residual.
        weight: w, (M,), for people to read.
    """

    belief: Any
    log_density: Array
    weight: Array

    def apply(
        self, belief: Any, view: Affine, residual: Array, obs_cov: Array, form: str = "auto"
    ) -> tuple[Any, Array]:
        """Give the posterior."""
        return self.belief, self.log_density

    def masked(self, observed: Array) -> "PosteriorUpdate":
        """Keep it: the rule knew what was measured."""
        return self

    def readable(self, obs_cov: Array, observed: Array) -> Array:
        """Say one number for each coordinate."""
        return self.weight * observed


Update = WeightedUpdate | MixtureUpdate | RevisedPriorUpdate | NominalCovUpdate | PosteriorUpdate


def condition_by_root(
    prior: Gaussian, view: Affine, residual: Array, obs_cov: Array, update: WeightedUpdate, form: str = "auto"
) -> tuple[Gaussian, Array]:
    """Condition by square roots if that needs no LAPACK: a prior that a rule doubts may be as wide as an error is."""
    if len(prior.mean) > linalg.SMALL:
        return prior.condition(view, residual, obs_cov, update, form)
    roots = SqrtGaussian(prior.mean, linalg.psd_root(prior.cov))
    posterior, log_weighted = roots.condition(view, residual, obs_cov, update)
    return Gaussian(posterior.mean, posterior.cov), log_weighted


def mask(weight: Array, observed: Array) -> Array:
    """Set the weight of what was not measured to zero."""
    return weight * observed[None] if weight.ndim > observed.ndim else weight * observed


def share_of_precision(weight: Array, obs_cov: Array, observed: Array) -> Array:
    """Say a weight as one number, or as the root of the share of each coordinate's own precision that is kept."""
    kind = weight.ndim - observed.ndim + 1
    if kind == 0:
        return weight
    if kind == 1:
        return weight * observed
    # 1 where WᵀW is R⁻¹, finite where it is 0.
    nominal = linalg.cholesky(obs_cov).half(linalg.eye(obs_cov.shape[0], obs_cov))
    return linalg.safe_sqrt((weight**2).sum(0) / (nominal**2).sum(0)) * observed
