"""A belief by mean and a root of its covariance: half the digits are enough, and no variance can become negative."""

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
    from wolf.beliefs.updates import MixtureUpdate, WeightedUpdate


class SqrtGaussian(NamedTuple):
    """A normal distribution by mean (D,) and a lower triangular root (D, D) of its covariance.

    The methods are those of `Gaussian`; the form of an update is always the square root.
    """

    mean: Any
    root: Any

    @property
    def cov(self) -> Any:
        """The covariance, multiplied out."""
        if isinstance(self.root, np.ndarray) and self.root.ndim == 2:  # JAX would cut float64 outside of our context
            return self.root @ self.root.T
        return linalg.gram(self.root)

    def propagate(self, view: Affine, noise_cov: Array | None) -> "SqrtGaussian":
        """Orthogonalise the rows of [F L, Q½, root]."""
        blocks = [self.root if view.jac is None else matmul(view.jac, self.root)]
        if noise_cov is not None:
            blocks.append(root_of(noise_cov, self.root))
        if view.root is not None:
            blocks.append(view.root)
        # A root that nothing was added to is a root still.
        return SqrtGaussian(view.mean, blocks[0] if len(blocks) == 1 else linalg.lq(_join(blocks, axis=1)))

    def cross_covariance(self, jac: Array) -> Array:
        """Multiply `jac P`, (M, D)."""
        return matmul(matmul(jac, self.root), transpose(self.root))

    def signal(self, view: Affine) -> Array:
        """Compute the covariance of a function of the state."""
        known = linalg.gram(matmul(view.jac, self.root))
        return known if view.root is None else known + linalg.gram(view.root)

    def innovation(self, view: Affine, obs_cov: Array, observed: Array) -> Cholesky:
        """Factorise S, not through P: with nearly collinear sensors it has no Cholesky factor in floating point."""
        weigh = Scaling(observed, observed)
        blocks = [linalg.cholesky(obs_cov).matrix(), matmul(weigh(view.jac), self.root)]
        if view.root is not None:
            blocks.insert(1, weigh(view.root))
        return linalg.from_lower(linalg.lq(_join(blocks, axis=1)))

    def inflate(self, factor: Array) -> "SqrtGaussian":
        """Multiply the covariance by a factor."""
        return self._replace(root=self.root * jnp.sqrt(factor))

    def where(self, used: Array, other: Any) -> "SqrtGaussian":
        """Keep this belief where it is used, take the other where not."""
        return SqrtGaussian(*(jnp.where(used, a, b) for a, b in zip(self, other, strict=True)))

    def replaced(self, dense: Gaussian) -> "SqrtGaussian":
        """Take a root of another belief's covariance."""
        return SqrtGaussian(dense.mean, linalg.psd_root(dense.cov))

    def condition(
        self, view: Affine, residual: Array, obs_cov: Array, update: "WeightedUpdate", form: str = "sqrt"
    ) -> tuple["SqrtGaussian", Array]:
        """Orthogonalise the rows of [[R½, root, jac L], [0, 0, L]] into [[S½, 0], [K S½, P½]]."""
        weigh = Scaling(update.weight, residual)
        jac, error, noise_cov = weigh(view.jac), weigh(residual), weigh.noise(obs_cov)
        if view.root is None and self.root.ndim == 2 and self.root.shape[0] > JOSEPH_UP_TO:
            mean, root, log_weighted = _condition_large(self, jac, error, noise_cov)
        else:
            left = None if view.root is None else weigh(view.root)
            mean, root, log_weighted = _condition_small(self, jac, error, noise_cov, left)
        if update.spread is not None:
            root = linalg.lq(_join([root, update.spread], axis=1))
        return SqrtGaussian(mean, root), log_weighted

    def condition_on_mixture(
        self, view: Affine, residual: Array, obs_cov: Array, update: "MixtureUpdate", form: str = "sqrt"
    ) -> tuple["SqrtGaussian", Array]:
        """Condition with a gain that is known already, said as a weight; size by size if the belief is wide."""
        usual = self.condition(view, residual, obs_cov, update.as_weight(self.cross_covariance(view.jac)))
        if update.sizes is None or not mixture_sqrt_update.may_lose(len(self.mean), len(residual)):
            return usual
        weigh, sizes = Scaling(update.whitening, residual), update.sizes
        design = mixture_sqrt_update.whiten_rows(weigh, view, self.root)

        def exact() -> tuple[SqrtGaussian, Array]:
            mean, root, log_weighted = mixture_sqrt_update.mix(self.mean, self.root, design, weigh(residual), sizes)
            return SqrtGaussian(mean, root), log_weighted

        return jax.lax.cond(mixture_sqrt_update.is_wide(linalg.gram(design)), exact, lambda: usual)


def root_of(cov: Array, like: Array) -> Array:
    """Take a root (D, D) of a covariance that may be short: variances need no factorisation.

    Args:
        cov: (D, D), or variances, a number or (D,).
        like: any (D, D) array of the size and dtype wanted.
    """
    return linalg.psd_root(cov) if cov.ndim >= 2 else jnp.sqrt(spread_out(cov, like))


def _condition_small(
    belief: SqrtGaussian, jac: Array, error: Array, noise_cov: Array, left: Array | None
) -> tuple[Array, Array, Array]:
    """Orthogonalise all rows at once; `left` is a root of what a straight line leaves of h."""
    size = error.shape[0]
    noise = linalg.cholesky(noise_cov).matrix()
    if left is not None:
        noise = _join([noise, left], axis=1)
    top = _join([noise, matmul(jac, belief.root)], axis=1)
    blank = jnp.zeros((belief.root.shape[0], noise.shape[1], *belief.root.shape[2:]), noise.dtype)
    lower = linalg.lq(_join([top, _join([blank, belief.root], axis=1)], axis=0))
    factor = linalg.from_lower(lower[:size, :size])
    mean = belief.mean + matvec(lower[size:, :size], factor.half(error))
    return mean, lower[size:, size:], log_density(error, factor)


def _condition_large(belief: SqrtGaussian, jac: Array, error: Array, noise_cov: Array) -> tuple[Array, Array, Array]:
    """Update any square root in O(D² M), without orthogonalising (Potter 1963; Andrews 1968 for M > 1).

    With φ = (H L)ᵀ and S½, R½ lower triangular, L⁺ = L (I - φ S^(-T/2) (S½ + R½)⁻¹ φᵀ). The new root is not
    triangular; where one has to be, the next drift or dynamics make it so.
    """
    seen = matmul(jac, belief.root)
    noise_root = linalg.cholesky(noise_cov).matrix()
    root_of_cov = linalg.lq(_join([noise_root, seen], axis=1))
    factor = linalg.from_lower(root_of_cov)
    cross = matmul(belief.root, transpose(seen))
    mean = belief.mean + matvec(cross, factor.solve(error))
    joint = linalg.from_lower(root_of_cov + noise_root)
    root = belief.root - matmul(cross, factor.back(joint.half(seen)))
    return mean, root, log_density(error, factor)


def _join(blocks: list[Array], axis: int) -> Array:
    trailing = jnp.broadcast_shapes(*(block.shape[2:] for block in blocks))
    return jnp.concatenate([jnp.broadcast_to(b, b.shape[:2] + trailing) for b in blocks], axis=axis)
