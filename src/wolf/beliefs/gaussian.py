"""Belief by mean and covariance: propagation through the dynamics, conditioning on a weighted measurement.

With weights w in [0, 1]^M and R' = R + w excess w,

    H = w * jac      e = w * residual            # WoLF, in `wolf.beliefs.likelihood_weighting`
    S = H P Hᵀ + R'  ;  K = P Hᵀ S⁻¹  ;  m = m + K e  ;  P = (I - K H) P (I - K H)ᵀ + K R' Kᵀ

so a weight of zero is exact and has finite gradients.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from wolf.beliefs import mixture_sqrt_update
from wolf.beliefs.affine import Affine
from wolf.beliefs.density import LOG_2PI, log_density
from wolf.beliefs.likelihood_weighting import Scaling
from wolf.numerics import linalg
from wolf.numerics.linalg import Cholesky, matmul, matvec, transpose

if TYPE_CHECKING:
    from wolf.beliefs import Belief
    from wolf.beliefs.updates import MixtureUpdate, WeightedUpdate

JOSEPH_UP_TO = 16  # number of states above which the O(D² M) form is the automatic choice
FORMS = ("auto", "joseph", "symmetric", "sqrt")


class Gaussian(NamedTuple):
    """Normal distribution by mean (D,) and covariance (D, D)."""

    mean: Any
    cov: Any

    def propagate(self, view: Affine, noise_cov: Array | None) -> "Gaussian":
        """Propagate the belief through affine dynamics and add process noise.

        Args:
            view: affine approximation of the dynamics under this belief; `jac=None` is the identity and costs no
                product.
            noise_cov: Q, (D, D); a number or (D,) for the variances of a diagonal one, None for zero.

        Example:
            >>> Gaussian(jnp.zeros(1), jnp.eye(1)).propagate(Affine(jnp.ones(1), None), jnp.eye(1)).cov.tolist()
            [[2.0]]
        """
        added = None if noise_cov is None else spread_out(noise_cov, self.cov)
        if view.root is not None:
            excess = linalg.gram(view.root)
            added = excess if added is None else added + excess
        if view.jac is None:
            return Gaussian(view.mean, self.cov if added is None else self.cov + added)
        jac_cov = matmul(view.jac, self.cov)
        return Gaussian(view.mean, linalg.matmul_symmetric(jac_cov, transpose(view.jac), add=added))

    def cross_covariance(self, jac: Array) -> Array:
        """Compute `jac P`, (M, D)."""
        return matmul(jac, self.cov)

    def signal(self, view: Affine) -> Array:
        """Compute the covariance of a function of the state, `jac P jacᵀ + root rootᵀ`."""
        explained = linalg.matmul_symmetric(self.cross_covariance(view.jac), transpose(view.jac))
        return explained if view.root is None else explained + linalg.gram(view.root)

    def innovation(self, view: Affine, obs_cov: Array, observed: Array) -> Cholesky:
        """Factorise the covariance of the residual, `S = jac P jacᵀ + root rootᵀ + R`.

        Args:
            view: affine approximation of the observation function under this belief.
            obs_cov: R, after `hide_noise`.
            observed: (M,), 1 or 0; coordinates that were not measured have unit variance.
        """
        return linalg.cholesky(Scaling(observed, observed).both(self.signal(view)) + obs_cov)

    def inflate(self, factor: Array) -> "Gaussian":
        """Multiply the covariance by a factor.

        Example:
            >>> Gaussian(jnp.zeros(1), jnp.eye(1)).inflate(4.0).cov.tolist()
            [[4.0]]
        """
        return self._replace(cov=self.cov * factor)

    def where(self, used: Array, other: "Belief") -> "Gaussian":
        """Select this belief where `used` is true, and the other elsewhere."""
        return Gaussian(*(jnp.where(used, a, b) for a, b in zip(self, other, strict=True)))

    def replaced(self, dense: "Gaussian") -> "Gaussian":
        """Convert a mean and covariance to the form of this belief."""
        return dense

    def condition(
        self, view: Affine, residual: Array, obs_cov: Array, update: "WeightedUpdate", form: str = "auto"
    ) -> tuple["Gaussian", Array]:
        """Condition on a measurement whose likelihood is raised to the power w².

        Args:
            view: affine approximation of the observation function under this belief.
            residual: `y - view.mean`, (M,), by the model's subtraction.
            obs_cov: R, (M, M), positive definite.
            update: weight and spread.
            form: "joseph", "symmetric" or "auto".

        Returns:
            The posterior, and `log N(e; 0, S)` of the weighted residual e under its covariance S.
        """
        symmetric = form == "symmetric" or (form == "auto" and self.cov.shape[0] > JOSEPH_UP_TO)
        step = UpdateTerms.of(self, view, residual, obs_cov, update.weight, gain=not symmetric)
        if symmetric:
            cov = linalg.downdate(self.cov, step.half)
        else:
            noise_cov = step.noise if view.root is None else step.noise + step.weigh.both(step.excess)
            cov = joseph(self.cov, step.weigh(view.jac), step.gain_t, matmul(transpose(step.gain_t), noise_cov))
        if update.spread is not None:
            cov = cov + linalg.gram(update.spread)
        return Gaussian(step.mean, cov), log_density(step.error, step.factor)

    def condition_on_mixture(
        self, view: Affine, residual: Array, obs_cov: Array, update: "MixtureUpdate", form: str = "auto"
    ) -> tuple["Gaussian", Array]:
        """Condition with a given gain: K = P Hᵀ A, and K N = P Hᵀ C for the equivalent single noise N."""
        weigh, gain, rest = Scaling(update.whitening, residual), update.gain, update.rest
        error, jac_cov = weigh(residual), weigh(self.cross_covariance(view.jac))
        constant = update.log_rest() - residual.shape[0] * LOG_2PI
        if form == "symmetric" or self.cov.shape[0] > JOSEPH_UP_TO:
            # Information gained and doubt in one product: P - P Hᵀ (A - Σ) H P
            gain_error = matvec(gain, error)
            reduction = linalg.matmul_symmetric(transpose(jac_cov), matmul(gain - update.doubt, jac_cov))
            mean = self.mean + matvec(transpose(jac_cov), gain_error)
            return Gaussian(mean, self.cov - reduction), 0.5 * (constant - linalg.sum_leading(error * gain_error))
        jac = weigh(view.jac)
        if view.root is not None:
            rest = rest + matmul(gain, linalg.gram(weigh(view.root)))
        # Joseph form and doubt in one product: X - (X Hᵀ - K N) A H P + P Hᵀ Σ H P
        cross_t = transpose(jac_cov)
        short = matmul(linalg.eye(self.cov.shape[0], self.cov) - matmul(matmul(cross_t, gain), jac), self.cov)
        left = matmul(matmul(cross_t, rest) - matmul(short, transpose(jac)), gain) + matmul(cross_t, update.doubt)
        cov = linalg.matmul_symmetric(left, jac_cov, add=short)
        gain_error = matvec(gain, error)
        mean = self.mean + matvec(cross_t, gain_error)
        usual = Gaussian(mean, cov), 0.5 * (constant - linalg.sum_leading(error * gain_error))
        # With no more sensors than states only a wide prior loses digits, and the public API uses square roots then.
        if (
            update.sizes is None
            or not mixture_sqrt_update.can_lose_precision(len(mean), len(error))
            or len(error) <= len(mean)
        ):
            return usual
        sizes = update.sizes

        def exact() -> tuple[Gaussian, Array]:
            root = linalg.psd_root(self.cov)
            design = mixture_sqrt_update.whiten_rows(weigh, view, root)
            mean, root, log_weighted = mixture_sqrt_update.mix(self.mean, root, design, error, sizes)
            return Gaussian(mean, linalg.gram(root)), log_weighted

        # A branch: few steps need it, and the others pay nothing.
        wide = mixture_sqrt_update.is_wide(linalg.matmul_symmetric(jac_cov, transpose(jac)))
        return jax.lax.cond(wide, exact, lambda: usual)


class InflatedGaussian(NamedTuple):
    """Inflated Gaussian within a step: covariance `factor base`, whose products are those of the base times the factor.

    The noise model that chose the factor has computed the products of the base already, so they are computed once.
    """

    mean: Array
    base: Array
    factor: Array

    @property
    def cov(self) -> Array:
        """Covariance."""
        return self.factor * self.base  # type: ignore[no-any-return]

    def cross_covariance(self, jac: Array) -> Array:
        """Compute `jac P`, (M, D)."""
        return self.factor * matmul(jac, self.base)  # type: ignore[no-any-return]

    def replaced(self, dense: Gaussian) -> Gaussian:
        """Return the given mean and covariance."""
        return dense

    def condition(self, *measured: Any) -> tuple[Gaussian, Array]:
        """Condition as `Gaussian.condition`."""
        return Gaussian.condition(self, *measured)  # type: ignore[arg-type]

    def condition_on_mixture(self, *measured: Any) -> tuple[Gaussian, Array]:
        """Condition as `Gaussian.condition_on_mixture`."""
        return Gaussian.condition_on_mixture(self, *measured)  # type: ignore[arg-type]


class UpdateTerms(NamedTuple):
    """Quantities of a weighted update that all covariance forms share.

    Attributes:
        weigh: scaling of the measured coordinates.
        error: weighted residual, (M,).
        noise: R of the weighted coordinates, (M, M).
        excess: covariance of the linearization error, (M, M), unweighted; None for zero.
        factor: Cholesky factor of S.
        half: L⁻¹ H P, (M, D); the covariance decreases by `halfᵀ half`.
        gain_t: Kᵀ, (M, D), for forms that need it.
        mean: posterior mean, (D,).
    """

    weigh: Scaling
    error: Array
    noise: Array
    excess: Any
    factor: Cholesky
    half: Array
    gain_t: Any
    mean: Array

    @classmethod
    def of(
        cls,
        prior: "Belief | InflatedGaussian",
        view: Affine,
        residual: Array,
        obs_cov: Array,
        weight: Array,
        gain: bool = True,
    ) -> "UpdateTerms":
        """Compute the quantities, with weights on the products and not on their factors.

        The unweighted products are those of `innovation`, so they are computed once.

        Args:
            prior: belief before the measurement.
            view: affine approximation of the observation function under it.
            residual: (M,).
            obs_cov: R, (M, M).
            weight: w.
            gain: whether Kᵀ is needed; without it the mean needs one triangular solve less, K e = halfᵀ L⁻¹ e.
        """
        unweighted = prior.cross_covariance(view.jac)
        spread = linalg.matmul_symmetric(unweighted, transpose(view.jac))
        excess = None if view.root is None else linalg.gram(view.root)
        if excess is not None:
            spread = spread + excess
        weigh = Scaling(weight, residual)
        error, jac_cov, noise = weigh(residual), weigh(unweighted), weigh.noise(obs_cov)
        factor = linalg.cholesky(weigh.both(spread) + noise)
        half = factor.half(jac_cov)
        gain_t = factor.back(half) if gain else None
        shift = matvec(transpose(half), factor.half(error)) if gain_t is None else matvec(transpose(gain_t), error)
        mean = prior.mean + shift
        return cls(weigh, error, noise, excess, factor, half, gain_t, mean)


def joseph(cov: Array, jac: Array, gain_t: Array, gain_noise: Array) -> Array:
    """Compute the Joseph form (I - K H) P (I - K H)ᵀ + K R Kᵀ with one D³ product instead of two.

    With X = (I - K H) P and K R given it equals X - (X Hᵀ - K R) Kᵀ. The bracket vanishes for the exact gain, so it
    corrects the rounding error of K: for a prior of 1e10 and noise of 1e-14, X is 0 and the bracket restores the 1e-14.
    """
    gain = transpose(gain_t)
    # X as P - K (H P) would be cheaper, but loses positive definiteness with nearly collinear sensors.
    short = matmul(linalg.eye(cov.shape[0], cov) - matmul(gain, jac), cov)
    return linalg.matmul_symmetric(gain_noise - matmul(short, transpose(jac)), gain_t, add=short)


def spread_out(noise_cov: Array, cov: Array) -> Array:
    """Return a covariance matrix, from a matrix or from variances, a number or (D,)."""
    if noise_cov.ndim >= 2:
        return noise_cov
    return linalg.eye(cov.shape[0], cov) * (noise_cov if noise_cov.ndim == 0 else noise_cov[:, None])
