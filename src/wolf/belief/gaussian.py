"""The only Kalman algebra in the package: push a Gaussian forward, condition it on a weighted measurement.

With weights w in [0, 1]^M and R' = R + w excess w,

    H = w * jac      e = w * residual            # the whole of WoLF
    S = H P Hᵀ + R'  ;  K = P Hᵀ S⁻¹  ;  m = m + K e  ;  P = (I - K H) P (I - K H)ᵀ + K R' Kᵀ

so that a weight of zero is exact and has finite gradients. Dividing R by w² would give the same posterior for w > 0
(Duran-Martin et al. 2024, Proposition 3.1) and NaN at w = 0.
"""

import math
from typing import Any

import jax.numpy as jnp
from jax import Array

from wolf.belief import deferred
from wolf.belief.kinds import DeferredGaussian, Gaussian, RootGaussian
from wolf.numerics import linalg
from wolf.numerics.linalg import Cholesky, matmul, matvec, transpose
from wolf.protocols import Affine, Believed, Pull

JOSEPH_UP_TO = 16  # state size above which the O(D² M) form is the automatic choice
FORMS = ("auto", "joseph", "symmetric", "sqrt")
LOG_2PI = math.log(2 * math.pi)

Belief = Gaussian | RootGaussian | DeferredGaussian


def push(belief: Belief, view: Affine, noise_cov: Array | None) -> Belief:
    """Send a belief through an affine view of the dynamics and add noise.

    Args:
        belief: over the state before the step.
        view: the dynamics seen by that belief; `jac=None` is the identity and costs no product.
        noise_cov: Q, (D, D); a number or (D,) for the variances of a diagonal one, None for nothing.

    Example:
        >>> push(Gaussian(jnp.zeros(1), jnp.eye(1)), Affine(jnp.ones(1), None), jnp.eye(1)).cov.tolist()
        [[2.0]]
    """
    if isinstance(belief, DeferredGaussian):
        return deferred.push(belief, noise_cov)
    if isinstance(belief, RootGaussian):
        blocks = [belief.root if view.jac is None else matmul(view.jac, belief.root)]
        if noise_cov is not None:
            blocks.append(root_of(noise_cov, belief.root))
        if view.root is not None:
            blocks.append(view.root)
        # A root that nothing was added to is a root still.
        return RootGaussian(view.mean, blocks[0] if len(blocks) == 1 else linalg.lq(_join(blocks, axis=1)))
    added = None if noise_cov is None else _spread_out(noise_cov, belief.cov)
    if view.root is not None:
        excess = linalg.gram(view.root)
        added = excess if added is None else added + excess
    if view.jac is None:
        return Gaussian(view.mean, belief.cov if added is None else belief.cov + added)
    moved = matmul(view.jac, belief.cov)
    return Gaussian(view.mean, linalg.matmul_symmetric(moved, transpose(view.jac), add=added))


def inflate(belief: Belief, factor: Array) -> Belief:
    """Multiply the covariance by a factor.

    Example:
        >>> inflate(Gaussian(jnp.zeros(1), jnp.eye(1)), 4.0).cov.tolist()
        [[4.0]]
    """
    if isinstance(belief, RootGaussian):
        return belief._replace(root=belief.root * jnp.sqrt(factor))
    if isinstance(belief, DeferredGaussian):
        return deferred.inflate(belief, factor)
    return belief._replace(cov=belief.cov * factor)


def choose(used: Array, new: Any, old: Any) -> Any:
    """Take the new belief if it is used, else the old one."""
    if isinstance(new, DeferredGaussian):
        return deferred.choose(used, new, old)
    return type(new)(*(jnp.where(used, a, b) for a, b in zip(new, old, strict=True)))


def condition(
    belief: Belief,
    view: Affine,
    residual: Array,
    obs_cov: Array,
    believed: Believed,
    form: str = "auto",
) -> tuple[Belief, Array]:
    """Condition a belief on a measurement that is believed to the power w².

    Args:
        belief: predicted, over the state.
        view: the observation function seen by that belief.
        residual: `y - view.mean`, (M,), by whatever subtraction suits y.
        obs_cov: R, (M, M), positive definite.
        believed: weight and spread, from a noise rule.
        form: "joseph", "symmetric" or "auto"; a `RootGaussian` is always updated in square-root form, and what a
            `DeferredGaussian` learns waits.

    Returns:
        The posterior, and `log N(e; 0, S)` of the weighted residual e under its covariance S.

    Example:
        >>> one = jnp.eye(1)
        >>> post, _ = condition(Gaussian(jnp.zeros(1), one), Affine(jnp.zeros(1), one), jnp.ones(1), one,
        ...                     Believed(jnp.ones(())))
        >>> float(post.mean[0]), float(post.cov[0, 0])
        (0.5, 0.5)
    """
    if isinstance(belief, RootGaussian):
        return _condition_root(belief, view, residual, obs_cov, believed)
    prior = belief if believed.prior is None else believed.prior
    # Weigh the products, not their factors: the unweighted ones are those of `innovation`, and computed once.
    if isinstance(belief, DeferredGaussian) and believed.prior is not None:
        prior = deferred.restart(belief, believed.prior)
    seen = cross(prior, view.jac)
    spread = linalg.matmul_symmetric(seen, transpose(view.jac))
    if view.root is not None:
        excess = linalg.gram(view.root)
        spread = spread + excess
    if believed.pull is not None:
        if isinstance(prior, Gaussian) and form != "symmetric" and prior.cov.shape[0] <= JOSEPH_UP_TO:
            return _condition_pull(prior, view, residual, seen, believed, believed.pull)
        believed = as_weight(believed, seen)
    weigh = _Weigh(believed.weight, residual)
    error, jac_cov, nominal, obs_cov = weigh(residual), weigh(seen), obs_cov, weigh.noise(obs_cov)
    factor = linalg.cholesky(weigh.both(spread) + obs_cov)
    half = factor.half(jac_cov)
    gain_t = factor.back(half)
    mean = prior.mean + matvec(transpose(gain_t), error)
    if isinstance(prior, DeferredGaussian) and believed.nominal is None:
        return deferred.learn(prior, mean, half, believed.spread), log_density(error, factor)
    if believed.nominal is not None:
        gain_t, noise_cov = weigh.back(gain_t), nominal if view.root is None else nominal + excess
        cov = _joseph(belief.cov, view.jac, gain_t, matmul(transpose(gain_t), noise_cov))
    elif form == "symmetric" or (form == "auto" and prior.cov.shape[0] > JOSEPH_UP_TO):
        cov = linalg.downdate(prior.cov, half)
    else:
        noise_cov = obs_cov if view.root is None else obs_cov + weigh.both(excess)
        cov = _joseph(prior.cov, weigh(view.jac), gain_t, matmul(transpose(gain_t), noise_cov))
    if believed.spread is not None:
        cov = cov + linalg.gram(believed.spread)
    posterior = Gaussian(mean, cov)
    if isinstance(belief, DeferredGaussian):
        return deferred.restart(belief, posterior), log_density(error, factor)
    return posterior, log_density(error, factor)


def _condition_pull(
    prior: Gaussian, view: Affine, residual: Array, jac_cov: Array, believed: Believed, pull: Pull
) -> tuple[Gaussian, Array]:
    """Condition with a gain that is known already: K = P Hᵀ A, and K N = P Hᵀ C for the noise N that it stands for."""
    weigh, (gain, rest, doubt) = _Weigh(believed.weight, residual), pull
    error, jac, jac_cov = weigh(residual), weigh(view.jac), weigh(jac_cov)
    constant = linalg.cholesky(rest).log_det() - residual.shape[0] * LOG_2PI
    if view.root is not None:
        rest = rest + matmul(gain, linalg.gram(weigh(view.root)))
    # Joseph's form and the doubt in one product: X - (X Hᵀ - K N) A H P + P Hᵀ Σ H P
    cross_t = transpose(jac_cov)
    short = matmul(linalg.eye(prior.cov.shape[0], prior.cov) - matmul(matmul(cross_t, gain), jac), prior.cov)
    left = matmul(matmul(cross_t, rest) - matmul(short, transpose(jac)), gain) + matmul(cross_t, doubt)
    cov = linalg.matmul_symmetric(left, jac_cov, add=short)
    pulled = matvec(gain, error)
    mean = prior.mean + matvec(cross_t, pulled)
    return Gaussian(mean, cov), 0.5 * (constant - linalg.total(error * pulled))


def as_weight(believed: Believed, jac_cov: Array) -> Believed:
    """Say a pull as a weight and a spread: information Ω = C⁻¹ A has the same gain.

    Args:
        believed: with a pull, or without one, when nothing changes.
        jac_cov: H P, (M, D).
    """
    if believed.pull is None:
        return believed
    root = linalg.psd_root(information(believed.pull))
    spread = matmul(transpose(matmul(believed.weight, jac_cov)), linalg.psd_root(believed.pull.doubt))
    return believed._replace(weight=matmul(transpose(root), believed.weight), spread=spread, pull=None)


def information(pull: Pull) -> Array:
    """Give the information Ω of the one noise that a pull stands for, `Ω = C⁻¹ A`, in the coordinates of its weight."""
    return linalg.symmetrise(linalg.cholesky(pull.rest).solve(pull.gain))


def _joseph(cov: Array, jac: Array, gain_t: Array, gain_noise: Array) -> Array:
    """Form (I - K H) P (I - K H)ᵀ + K R Kᵀ with one D³ product instead of two.

    With X = (I - K H) P and K R given it equals X - (X Hᵀ - K R) Kᵀ. The bracket vanishes for the exact gain, so it
    takes back what rounding did to K: when a prior of 1e10 meets noise of 1e-14, X is 0 and the bracket puts the 1e-14
    back.
    """
    gain = transpose(gain_t)
    # X as P - K (H P) would be cheaper still, and lose positive definiteness with nearly collinear sensors.
    short = matmul(linalg.eye(cov.shape[0], cov) - matmul(gain, jac), cov)
    return linalg.matmul_symmetric(gain_noise - matmul(short, transpose(jac)), gain_t, add=short)


def _condition_root(
    belief: RootGaussian, view: Affine, residual: Array, obs_cov: Array, believed: Believed
) -> tuple[RootGaussian, Array]:
    """Orthogonalise the rows of [[R½, root, jac L], [0, 0, L]] into [[S½, 0], [K S½, P½]]."""
    believed = as_weight(believed, matmul(matmul(view.jac, belief.root), transpose(belief.root)))
    if believed.nominal is not None:
        dense, log_lik = condition(Gaussian(belief.mean, belief.cov), view, residual, obs_cov, believed, "joseph")
        return RootGaussian(dense.mean, linalg.psd_root(dense.cov)), log_lik
    if believed.prior is not None:
        belief = RootGaussian(believed.prior.mean, linalg.psd_root(believed.prior.cov))
    weigh = _Weigh(believed.weight, residual)
    if view.root is None and belief.root.ndim == 2 and belief.root.shape[0] > JOSEPH_UP_TO:
        return _condition_large_root(belief, weigh(view.jac), weigh(residual), weigh.noise(obs_cov), believed.spread)
    size = residual.shape[0]
    noise = linalg.cholesky(weigh.noise(obs_cov)).matrix()
    if view.root is not None:
        noise = _join([noise, weigh(view.root)], axis=1)
    top = _join([noise, matmul(weigh(view.jac), belief.root)], axis=1)
    blank = jnp.zeros((belief.root.shape[0], noise.shape[1], *belief.root.shape[2:]), noise.dtype)
    lower = linalg.lq(_join([top, _join([blank, belief.root], axis=1)], axis=0))
    factor, error = linalg.from_lower(lower[:size, :size]), weigh(residual)
    mean = belief.mean + matvec(lower[size:, :size], factor.half(error))
    root = lower[size:, size:]
    if believed.spread is not None:
        root = linalg.lq(_join([root, believed.spread], axis=1))
    return RootGaussian(mean, root), log_density(error, factor)


def _condition_large_root(
    belief: RootGaussian, jac: Array, error: Array, obs_cov: Array, spread: Array | None
) -> tuple[RootGaussian, Array]:
    """Update any square root in O(D² M), without orthogonalising (Potter 1963; Andrews 1968 for M > 1).

    With φ = (H L)ᵀ and S½, R½ lower triangular, L⁺ = L (I - φ S^(-T/2) (S½ + R½)⁻¹ φᵀ). The new root is not
    triangular; where one has to be, the next drift or dynamics make it so.
    """
    seen = matmul(jac, belief.root)
    noise_root = linalg.cholesky(obs_cov).matrix()
    root_of_cov = linalg.lq(_join([noise_root, seen], axis=1))
    factor = linalg.from_lower(root_of_cov)
    cross = matmul(belief.root, transpose(seen))
    mean = belief.mean + matvec(cross, factor.solve(error))
    joint = linalg.from_lower(root_of_cov + noise_root)
    root = belief.root - matmul(cross, factor.back(joint.half(seen)))
    if spread is not None:
        root = linalg.lq(_join([root, spread], axis=1))
    return RootGaussian(mean, root), log_density(error, factor)


def hide(view: Affine, observed: Array) -> Affine:
    """Zero the rows of a view that were not measured.

    Example:
        >>> hide(Affine(jnp.ones(2), jnp.eye(2)), jnp.array([1.0, 0.0])).jac.tolist()
        [[1.0, 0.0], [0.0, 0.0]]
    """
    root = None if view.root is None else observed[:, None] * view.root
    return Affine(view.mean, observed[:, None] * view.jac, root)


def hide_noise(obs_cov: Array, observed: Array) -> Array:
    """Give coordinates that were not measured unit noise of their own.

    A weight of 0 alone would keep the noise of the others *given* the missing one, which is right for a rejected
    measurement and wrong for one that never came.
    """
    seen = observed > 0
    both = seen[:, None] & seen[None, :]
    return jnp.where(both, obs_cov, linalg.eye(observed.shape[0], obs_cov))


def innovation(belief: Belief, view: Affine, obs_cov: Array, observed: Array) -> Cholesky:
    """Factorise the covariance of the residual, `S = jac P jacᵀ + root rootᵀ + R`.

    Args:
        belief: predicted.
        view: the observation function seen by it.
        obs_cov: R, with `hide_noise` done.
        observed: (M,), 1 or 0; what was not measured has unit variance.
    """
    weigh = _Weigh(observed, observed)
    if isinstance(belief, RootGaussian):
        # Not through P: with nearly collinear sensors S has no Cholesky factor in floating point.
        blocks = [linalg.cholesky(obs_cov).matrix(), matmul(weigh(view.jac), belief.root)]
        if view.root is not None:
            blocks.insert(1, weigh(view.root))
        return linalg.from_lower(linalg.lq(_join(blocks, axis=1)))
    return linalg.cholesky(weigh.both(signal(belief, view)) + obs_cov)


def signal(belief: Belief, view: Affine) -> Array:
    """Compute the covariance of a function of the state, `jac P jacᵀ + root rootᵀ`."""
    if isinstance(belief, RootGaussian):
        known = linalg.gram(matmul(view.jac, belief.root))
    else:
        known = linalg.matmul_symmetric(cross(belief, view.jac), transpose(view.jac))
    return known if view.root is None else known + linalg.gram(view.root)


def root_of(cov: Array, like: Array) -> Array:
    """Take a root (D, D) of a covariance that may be short: variances need no factorisation.

    Args:
        cov: (D, D), or variances, a number or (D,).
        like: any (D, D) array of the size and dtype wanted.
    """
    return linalg.psd_root(cov) if cov.ndim >= 2 else jnp.sqrt(_spread_out(cov, like))


def log_density(residual: Array, factor: Cholesky, size: Array | int | None = None) -> Array:
    """Evaluate `log N(residual; 0, L Lᵀ)`.

    Args:
        residual: (M,).
        factor: of the covariance.
        size: how many coordinates count towards `log 2π`; all of them unless told.

    Example:
        >>> round(float(log_density(jnp.zeros(1), linalg.cholesky(jnp.eye(1)))), 4)
        -0.9189
    """
    count = residual.shape[0] if size is None else size
    return -0.5 * (linalg.total(factor.half(residual) ** 2) + factor.log_det() + count * LOG_2PI)


def kl(first: Gaussian, second: Gaussian) -> Array:
    """Compute the Kullback-Leibler divergence `KL(first ‖ second)` between two Gaussians.

    Example:
        >>> one = Gaussian(jnp.zeros(1), jnp.eye(1))
        >>> float(kl(Gaussian(jnp.ones(1), jnp.eye(1)), one))
        0.5
    """
    factor, other = linalg.cholesky(second.cov), linalg.cholesky(first.cov)
    spread = (factor.half(other.matrix()) ** 2).sum((0, 1))
    distance = linalg.total(factor.half(first.mean - second.mean) ** 2)
    return 0.5 * (spread + distance - first.mean.shape[0] + factor.log_det() - other.log_det())


def weigh_constant(weight: Array, obs_cov: Array) -> Array:
    """Find what turns `log N(w e; 0, S_w)` into `log ∫ p(y|x)^{w²} p(x) dx`: `½ Σ (1 - w²) (log 2π + log R)`."""
    log_deviation = jnp.log(linalg.cholesky(obs_cov).diagonal())
    return linalg.total((1.0 - weight**2) * (0.5 * LOG_2PI + log_deviation))


class _Weigh:
    """Scale measured coordinates by a weight: a number, one for each, or a matrix that whitens as it weighs."""

    def __init__(self, weight: Array, residual: Array):
        self.whitens = weight.ndim > residual.ndim
        self.weight = weight if self.whitens else jnp.broadcast_to(weight, residual.shape)

    def __call__(self, a: Array) -> Array:
        """Weigh the rows of a vector or a matrix."""
        # Multiply, never divide R by w**2: at w = 0 that gives NaN gradients and covariances.
        if self.whitens:
            return matvec(self.weight, a) if a.ndim < self.weight.ndim else matmul(self.weight, a)
        return self.weight * a if a.ndim == self.weight.ndim else self.weight[:, None] * a

    def back(self, gain_t: Array) -> Array:
        """Turn the gain of weighed coordinates, transposed, into that of the measurement itself."""
        return matmul(transpose(self.weight), gain_t) if self.whitens else self.weight[:, None] * gain_t

    def both(self, a: Array) -> Array:
        """Weigh the rows and the columns of a symmetric matrix."""
        if self.whitens:
            return linalg.sandwich(self.weight, a)
        return linalg.outer(self.weight, self.weight) * a

    def noise(self, obs_cov: Array) -> Array:
        """Give the noise that belongs to weighed coordinates: R as it is, or a unit matrix once they are whitened."""
        if self.whitens:
            return jnp.broadcast_to(linalg.eye(obs_cov.shape[0], self.weight), self.weight.shape)
        return obs_cov


def cross(belief: Belief, jac: Array) -> Array:
    """Multiply `jac P`."""
    return deferred.cross(belief, jac) if isinstance(belief, DeferredGaussian) else matmul(jac, belief.cov)


def _spread_out(noise_cov: Array, cov: Array) -> Array:
    """Write variances on a diagonal; a matrix is one already."""
    if noise_cov.ndim >= 2:
        return noise_cov
    return linalg.eye(cov.shape[0], cov) * (noise_cov if noise_cov.ndim == 0 else noise_cov[:, None])


def _join(blocks: list[Array], axis: int) -> Array:
    trailing = jnp.broadcast_shapes(*(block.shape[2:] for block in blocks))
    return jnp.concatenate([jnp.broadcast_to(b, b.shape[:2] + trailing) for b in blocks], axis=axis)
