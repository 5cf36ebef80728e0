"""Belief by mean and square root of the covariance: half the digits suffice, and no variance can become negative."""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.beliefs import mixture_sqrt_update
from wolf.beliefs.affine import Affine
from wolf.beliefs.density import log_density
from wolf.beliefs.gaussian import JOSEPH_UP_TO, Gaussian, spread_out
from wolf.beliefs.likelihood_weighting import Scaling
from wolf.numerics import linalg
from wolf.numerics.linalg import Cholesky, matmul, matvec, transpose

if TYPE_CHECKING:
    from wolf.beliefs import Belief
    from wolf.beliefs.updates import MixtureUpdate, WeightedUpdate


class SqrtGaussian(NamedTuple):
    """Normal distribution by mean (D,) and lower triangular root (D, D) of the covariance.

    The methods are those of `Gaussian`; the form of an update is always the square root.
    """

    mean: Array
    root: Any

    @property
    def cov(self) -> Any:
        """Covariance, (D, D)."""
        if isinstance(self.root, np.ndarray) and self.root.ndim == 2:  # JAX would round to float32 outside x64 mode
            return self.root @ self.root.T
        return linalg.gram(self.root)

    def propagate(self, view: Affine, noise_cov: Array | None) -> "SqrtGaussian":
        """Propagate by orthogonalising the rows of [F L, Q½, root]."""
        blocks = [self.root if view.jac is None else matmul(view.jac, self.root)]
        if noise_cov is not None:
            blocks.append(root_of(noise_cov, self.root))
        if view.root is not None:
            blocks.append(view.root)
        # A single block is a root already.
        return SqrtGaussian(view.mean, blocks[0] if len(blocks) == 1 else linalg.lq(_join(blocks, axis=1)))

    def cross_covariance(self, jac: Array) -> Array:
        """Compute `jac P`, (M, D)."""
        return matmul(matmul(jac, self.root), transpose(self.root))

    def signal(self, view: Affine) -> Array:
        """Compute the covariance of a function of the state."""
        explained = linalg.gram(matmul(view.jac, self.root))
        return explained if view.root is None else explained + linalg.gram(view.root)

    def innovation(self, view: Affine, obs_cov: Array, observed: Array) -> Cholesky:
        """Factorise S without forming it: with nearly collinear sensors it has no Cholesky factor in floating point."""
        weigh = Scaling(observed, observed)
        blocks = [linalg.cholesky(obs_cov).matrix(), matmul(weigh(view.jac), self.root)]
        if view.root is not None:
            blocks.insert(1, weigh(view.root))
        return linalg.from_lower(linalg.lq(_join(blocks, axis=1)))

    def inflate(self, factor: Array) -> "SqrtGaussian":
        """Multiply the covariance by a factor."""
        return self._replace(root=self.root * jnp.sqrt(factor))

    def where(self, used: Array, other: "Belief") -> "SqrtGaussian":
        """Select this belief where `used` is true, and the other elsewhere."""
        return SqrtGaussian(*(jnp.where(used, a, b) for a, b in zip(self, other, strict=True)))

    def replaced(self, dense: Gaussian) -> "SqrtGaussian":
        """Convert a mean and covariance to square-root form."""
        return SqrtGaussian(dense.mean, linalg.psd_root(dense.cov))

    def condition(
        self, view: Affine, residual: Array, obs_cov: Array, update: "WeightedUpdate", form: str = "sqrt"
    ) -> tuple["SqrtGaussian", Array]:
        """Condition by orthogonalising the rows of [[R½, root, jac L], [0, 0, L]] into [[S½, 0], [K S½, P½]]."""
        weigh = Scaling(update.weight, residual)
        jac, error, noise_cov = weigh(view.jac), weigh(residual), weigh.noise(obs_cov)
        if view.root is None and self.root.ndim == 2 and self.root.shape[0] > JOSEPH_UP_TO:
            mean, root, log_weighted = _condition_large(self, jac, error, noise_cov)
        else:
            excess_root = None if view.root is None else weigh(view.root)
            mean, root, log_weighted = _condition_small(self, jac, error, noise_cov, excess_root)
        if update.spread is not None:
            root = linalg.lq(_join([root, update.spread], axis=1))
        return SqrtGaussian(mean, root), log_weighted

    def condition_on_mixture(
        self, view: Affine, residual: Array, obs_cov: Array, update: "MixtureUpdate", form: str = "sqrt"
    ) -> tuple["SqrtGaussian", Array]:
        """Condition with a given gain, expressed as a weight, or component by component if the belief is wide."""
        usual = self.condition(view, residual, obs_cov, update.as_weight(self.cross_covariance(view.jac)))
        if update.sizes is None or not mixture_sqrt_update.can_lose_precision(len(self.mean), len(residual)):
            return usual
        weigh, sizes = Scaling(update.whitening, residual), update.sizes
        design = mixture_sqrt_update.whiten_rows(weigh, view, self.root)

        def exact() -> tuple[SqrtGaussian, Array]:
            mean, root, log_weighted = mixture_sqrt_update.mix(self.mean, self.root, design, weigh(residual), sizes)
            return SqrtGaussian(mean, root), log_weighted

        return jax.lax.cond(mixture_sqrt_update.is_wide(linalg.gram(design)), exact, lambda: usual)


def root_of(cov: Array, like: Array) -> Array:
    """Compute a root (D, D) of a covariance; variances need no factorisation.

    Args:
        cov: (D, D), or variances, a number or (D,).
        like: any (D, D) array of the required size and dtype.
    """
    return linalg.psd_root(cov) if cov.ndim >= 2 else jnp.sqrt(spread_out(cov, like))


def _condition_small(
    belief: SqrtGaussian, jac: Array, error: Array, noise_cov: Array, excess_root: Array | None
) -> tuple[Array, Array, Array]:
    """Orthogonalise all rows at once; `excess_root` is a root of the covariance of the linearization error."""
    size = error.shape[0]
    noise = linalg.cholesky(noise_cov).matrix()
    if excess_root is not None:
        noise = _join([noise, excess_root], axis=1)
    top = _join([noise, matmul(jac, belief.root)], axis=1)
    blank = jnp.zeros((belief.root.shape[0], noise.shape[1], *belief.root.shape[2:]), noise.dtype)
    lower = linalg.lq(_join([top, _join([blank, belief.root], axis=1)], axis=0))
    factor = linalg.from_lower(lower[:size, :size])
    mean = belief.mean + matvec(lower[size:, :size], factor.half(error))
    return mean, lower[size:, size:], log_density(error, factor)


def _condition_large(belief: SqrtGaussian, jac: Array, error: Array, noise_cov: Array) -> tuple[Array, Array, Array]:
    """Update the square root in O(D² M), without orthogonalisation (Potter 1963; Andrews 1968 for M > 1).

    With φ = (H L)ᵀ and S½, R½ lower triangular, L⁺ = L (I - φ S^(-T/2) (S½ + R½)⁻¹ φᵀ). The new root is not
    triangular; the next propagation makes it so where that is needed.
    """
    jac_root = matmul(jac, belief.root)
    noise_root = linalg.cholesky(noise_cov).matrix()
    innovation_root = linalg.lq(_join([noise_root, jac_root], axis=1))
    factor = linalg.from_lower(innovation_root)
    cross = matmul(belief.root, transpose(jac_root))
    mean = belief.mean + matvec(cross, factor.solve(error))
    joint = linalg.from_lower(innovation_root + noise_root)
    root = belief.root - matmul(cross, factor.back(joint.half(jac_root)))
    return mean, root, log_density(error, factor)


def _join(blocks: list[Array], axis: int) -> Array:
    trailing = jnp.broadcast_shapes(*(block.shape[2:] for block in blocks))
    return jnp.concatenate([jnp.broadcast_to(b, b.shape[:2] + trailing) for b in blocks], axis=axis)
