"""Kinds of measurement update that a noise model can request.

Each kind has `apply(belief, view, residual, obs_cov, form)`, which returns the posterior and the log density of the
weighted residual; `masked(observed)`, which leaves out coordinates that were not measured; and
`readable(obs_cov, observed)`, the weight w that is reported. The kind is known when a filter is traced.
"""

from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf.beliefs.affine import Affine
from wolf.beliefs.density import log_density
from wolf.beliefs.gaussian import Gaussian, InflatedGaussian, UpdateTerms, joseph
from wolf.beliefs.mixture_sqrt_update import MixtureComponents
from wolf.beliefs.sqrt_gaussian import SqrtGaussian
from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, sum_leading, transpose

if TYPE_CHECKING:
    from wolf.beliefs import Belief


class WeightedUpdate(NamedTuple):
    """Update with the likelihood raised to the power w²: the weighted likelihood of generalised Bayes.

    Attributes:
        weight: w. A scalar for the whole measurement, (M,) per coordinate, or a matrix (M, M) that maps the measurement
            to whitened coordinates and scales them, so that its information is `Wᵀ W`.
        spread: root (D, K) of a positive semi-definite term added to the posterior covariance. None stands for zero.
        shift: added to the residual, (M,), by losses that are no power of the likelihood. None stands for zero.

    Example:
        >>> one = jnp.eye(1)
        >>> belief, view = Gaussian(jnp.zeros(1), one), Affine(jnp.zeros(1), one)
        >>> posterior, _ = WeightedUpdate(jnp.ones(())).apply(belief, view, jnp.ones(1), one)
        >>> float(posterior.mean[0]), float(posterior.cov[0, 0])
        (0.5, 0.5)
    """

    weight: Array
    spread: Array | None = None
    shift: Array | None = None

    def apply(
        self, belief: "Belief", view: Affine, residual: Array, obs_cov: Array, form: str = "auto"
    ) -> tuple["Belief", Array]:
        """Condition the belief on the weighted measurement."""
        shifted = residual if self.shift is None else residual + self.shift
        return belief.condition(view, shifted, obs_cov, self, form)

    def masked(self, observed: Array) -> "WeightedUpdate":
        """Set the weight of coordinates that were not measured to zero."""
        shift = None if self.shift is None else self.shift * observed
        return self._replace(weight=mask(self.weight, observed), shift=shift)

    def readable(self, obs_cov: Array, observed: Array) -> Array:
        """Return the weight as a scalar, or one value per coordinate."""
        return share_of_precision(self.weight, obs_cov, observed)


class NoiseFactorUpdate(NamedTuple):
    """Update with a scalar weight w > 0 in the form of R / w², by the factor 1 / w² and without w.

    Attributes:
        factor: 1 / w², finite.
        limit: factor from which the residual has no influence left.
        weight: w, as reported.
        observed: 1 for coordinates that take part; None before `masked`.
    """

    factor: Array
    limit: float
    weight: Array
    observed: Array | None = None

    def apply(
        self, belief: "Belief", view: Affine, residual: Array, obs_cov: Array, form: str = "auto"
    ) -> tuple["Belief", Array]:
        """Condition the belief with the noise `obs_cov` times the factor."""
        near = jnp.where(self.factor < self.limit, residual, 0.0)  # finite, as the gain times 1e300 is not zero
        update = WeightedUpdate(jnp.ones_like(residual) if self.observed is None else self.observed)
        posterior, log_weighted = update.apply(belief, view, near, self.factor * obs_cov, form)
        return posterior, log_weighted + 0.5 * len(residual) * jnp.log(self.factor)

    def masked(self, observed: Array) -> "NoiseFactorUpdate":
        """Leave out coordinates that were not measured."""
        return self._replace(observed=observed)

    def readable(self, obs_cov: Array, observed: Array) -> Array:
        """Return w."""
        return self.weight


class GateUpdate(NamedTuple):
    """Update with a scalar weight that is 0 or 1: that of the Kalman filter, or none.

    Attributes:
        weight: w, 0 or 1.
        observed: 1 for coordinates that take part; None before `masked`.
    """

    weight: Array
    observed: Array | None = None

    def apply(
        self, belief: "Belief", view: Affine, residual: Array, obs_cov: Array, form: str = "auto"
    ) -> tuple["Belief", Array]:
        """Select the conditioned belief, or the belief itself."""
        accepted = self.weight > 0
        near = jnp.where(accepted, residual, 0.0)
        update = WeightedUpdate(jnp.ones_like(residual) if self.observed is None else self.observed)
        posterior, log_weighted = update.apply(belief, view, near, obs_cov, form)
        at_zero = log_density(jnp.zeros_like(residual), linalg.cholesky(obs_cov))
        kept = Gaussian(belief.mean, belief.cov) if isinstance(belief, InflatedGaussian) else belief
        return posterior.where(accepted, kept), jnp.where(accepted, log_weighted, at_zero)

    def masked(self, observed: Array) -> "GateUpdate":
        """Leave out coordinates that were not measured."""
        return self._replace(observed=observed)

    def readable(self, obs_cov: Array, observed: Array) -> Array:
        """Return w."""
        return self.weight


class InformationRoots(NamedTuple):
    """Roots of the matrices of a `MixtureUpdate`, where they are known already.

    Attributes:
        information: W, (M, M), with `Wᵀ W = Ω`.
        doubt: (M, K), with `Σ = doubt doubtᵀ`.
    """

    information: Array
    doubt: Array


class KnownTerms(NamedTuple):
    """Two scalars of a `MixtureUpdate`, where they are known without factorising `rest`.

    Attributes:
        log_rest: log |C|.
        kept: trace of Ω over the measured coordinates.
    """

    log_rest: Array
    kept: Array


class MixtureUpdate(NamedTuple):
    """Update with a Gaussian scale mixture, averaged over its components: `K = P Hᵀ A`, in white coordinates.

    Attributes:
        whitening: V, (M, M), which maps the measurement to coordinates where R is the identity.
        gain: A, (M, M), inverse of the residual covariance under the noise model, noise included.
        rest: `C = I - A S`, where S is the signal part of that covariance; computed without cancellation.
        doubt: Σ, (M, M): `P Hᵀ Σ H P` is added to the posterior covariance, as the component is uncertain.
        sizes: components of the mixture, for the update of a belief that is far wider than the noise.
        roots: roots of Ω and Σ, where they cost nothing; None: computed when needed.
        known_terms: scalars of C and Ω where they are known; None: computed from them.
    """

    whitening: Array
    gain: Array
    rest: Array
    doubt: Array
    sizes: MixtureComponents | None = None
    roots: InformationRoots | None = None
    known_terms: KnownTerms | None = None

    def apply(
        self, belief: "Belief", view: Affine, residual: Array, obs_cov: Array, form: str = "auto"
    ) -> tuple["Belief", Array]:
        """Condition the belief on the measurement with mixture noise."""
        return belief.condition_on_mixture(view, residual, obs_cov, self, form)

    def masked(self, observed: Array) -> "MixtureUpdate":
        """Leave out coordinates that were not measured."""
        return self._replace(whitening=mask(self.whitening, observed))

    def readable(self, obs_cov: Array, observed: Array) -> Array:
        """Return one weight for the whole measurement, from the share of its information that is used."""
        kept = (
            sum_leading(self._information_diagonal() * observed) if self.known_terms is None else self.known_terms.kept
        )
        # Noise below R has more information than R; the update uses it, but a reported weight is at most 1.
        return jnp.minimum(linalg.safe_sqrt(kept / jnp.maximum(sum_leading(observed), 1.0)), 1.0)

    def _information_diagonal(self) -> Array:
        """Compute the diagonal of Ω."""
        if self.roots is None:
            return linalg.diagonal(self.information())
        return (self.roots.information**2).sum(0)  # type: ignore[no-any-return]

    def log_rest(self) -> Array:
        """Compute log |C|."""
        return linalg.cholesky(self.rest).log_det() if self.known_terms is None else self.known_terms.log_rest

    def information(self) -> Array:
        """Compute the information Ω of the equivalent single noise, `Ω = C⁻¹ A`, in white coordinates."""
        if self.roots is not None:
            return linalg.gram(transpose(self.roots.information))
        return linalg.symmetrise(linalg.cholesky(self.rest).solve(self.gain))

    def as_weight(self, jac_cov: Array) -> WeightedUpdate:
        """Convert to a weight and a spread: information Ω has the same gain.

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
    """Update of another prior than the predicted belief, for noise models that revise the dynamics too.

    Attributes:
        prior: revised prior.
        weight: w, as in `WeightedUpdate`.
    """

    prior: Gaussian
    weight: Array

    def apply(
        self, belief: "Belief", view: Affine, residual: Array, obs_cov: Array, form: str = "auto"
    ) -> tuple["Belief", Array]:
        """Condition the revised prior, in the form of the predicted belief."""
        if isinstance(belief, Gaussian):
            return condition_by_root(self.prior, view, residual, obs_cov, WeightedUpdate(self.weight), form)
        return belief.replaced(self.prior).condition(view, residual, obs_cov, WeightedUpdate(self.weight), form)

    def masked(self, observed: Array) -> "RevisedPriorUpdate":
        """Set the weight of coordinates that were not measured to zero."""
        return self._replace(weight=mask(self.weight, observed))

    def readable(self, obs_cov: Array, observed: Array) -> Array:
        """Return the weight as a scalar, or one value per coordinate."""
        return share_of_precision(self.weight, obs_cov, observed)


class NominalCovUpdate(NamedTuple):
    """Mean of a `RevisedPriorUpdate`, with the covariance of that estimate under the nominal model.

    Attributes:
        prior: revised prior, which determines the gain.
        weight: w, as in `WeightedUpdate`.
    """

    prior: Gaussian
    weight: Array

    def apply(
        self, belief: "Belief", view: Affine, residual: Array, obs_cov: Array, form: str = "auto"
    ) -> tuple["Belief", Array]:
        """Compute the gain from the revised prior, and the covariance from the predicted belief in Joseph form."""
        step = UpdateTerms.of(self.prior, view, residual, obs_cov, self.weight)
        gain_t, noise_cov = step.weigh.back(step.gain_t), obs_cov if step.excess is None else obs_cov + step.excess
        cov = joseph(belief.cov, view.jac, gain_t, matmul(transpose(gain_t), noise_cov))
        return belief.replaced(Gaussian(step.mean, cov)), log_density(step.error, step.factor)

    def masked(self, observed: Array) -> "NominalCovUpdate":
        """Set the weight of coordinates that were not measured to zero."""
        return self._replace(weight=mask(self.weight, observed))

    def readable(self, obs_cov: Array, observed: Array) -> Array:
        """Return the weight as a scalar, or one value per coordinate."""
        return share_of_precision(self.weight, obs_cov, observed)


class PosteriorUpdate(NamedTuple):
    """Posterior that the noise model has computed itself, for example sensor by sensor.

    Attributes:
        belief: posterior.
        log_density: of the weighted residual.
        weight: w, (M,), as reported.
    """

    belief: "Belief"
    log_density: Array
    weight: Array

    def apply(
        self, belief: "Belief", view: Affine, residual: Array, obs_cov: Array, form: str = "auto"
    ) -> tuple["Belief", Array]:
        """Return the posterior."""
        return self.belief, self.log_density

    def masked(self, observed: Array) -> "PosteriorUpdate":
        """Return the update unchanged: the noise model has masked the measurement."""
        return self

    def readable(self, obs_cov: Array, observed: Array) -> Array:
        """Return one weight per coordinate."""
        return self.weight * observed


Update = (
    WeightedUpdate
    | NoiseFactorUpdate
    | GateUpdate
    | MixtureUpdate
    | RevisedPriorUpdate
    | NominalCovUpdate
    | PosteriorUpdate
)


def condition_by_root(
    prior: Gaussian, view: Affine, residual: Array, obs_cov: Array, update: WeightedUpdate, form: str = "auto"
) -> tuple[Gaussian, Array]:
    """Condition by square roots if that needs no LAPACK: a revised prior may be as wide as the error."""
    if len(prior.mean) > linalg.SMALL:
        return prior.condition(view, residual, obs_cov, update, form)
    roots = SqrtGaussian(prior.mean, linalg.psd_root(prior.cov))
    posterior, log_weighted = roots.condition(view, residual, obs_cov, update)
    return Gaussian(posterior.mean, posterior.cov), log_weighted


def mask(weight: Array, observed: Array) -> Array:
    """Set the weight of what was not measured to zero."""
    return weight * observed[None] if weight.ndim > observed.ndim else weight * observed


def share_of_precision(weight: Array, obs_cov: Array, observed: Array) -> Array:
    """Return a scalar weight, or the root of the share of each coordinate's precision that is kept."""
    kind = weight.ndim - observed.ndim + 1
    if kind == 0:
        return weight
    if kind == 1:
        return weight * observed
    # 1 where WᵀW equals R⁻¹, finite where it is 0.
    nominal = linalg.cholesky(obs_cov).half(linalg.eye(obs_cov.shape[0], obs_cov))
    return linalg.safe_sqrt((weight**2).sum(0) / (nominal**2).sum(0)) * observed
