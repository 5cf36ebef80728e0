"""The only Kalman algebra in the package: push a Gaussian forward, condition it on a weighted measurement.

With weights w in [0, 1]^M and R' = R + w excess w,

    H = w * jac      e = w * residual            # the whole of WoLF
    S = H P Hᵀ + R'  ;  K = P Hᵀ S⁻¹  ;  m = m + K e  ;  P = (I - K H) P (I - K H)ᵀ + K R' Kᵀ

so that a weight of zero is exact and has finite gradients. Dividing R by w² would give the same posterior for w > 0
(Duran-Martin et al. 2024, Proposition 3.1) and NaN at w = 0.
"""

import math

import jax.numpy as jnp
from jax import Array

from wolf import linalg
from wolf.linalg import Cholesky, matmul, matvec, transpose
from wolf.types import Affine, Believed, Gaussian, RootGaussian

JOSEPH_UP_TO = 16  # state size above which the O(D² M) form is the automatic choice
FORMS = ("auto", "joseph", "symmetric", "sqrt")
LOG_2PI = math.log(2 * math.pi)


def push(belief: Gaussian | RootGaussian, view: Affine, noise_cov: Array) -> Gaussian | RootGaussian:
    """Send a belief through an affine view of the dynamics and add noise.

    Args:
        belief: over the state before the step.
        view: the dynamics seen by that belief; `jac=None` is the identity and costs no product.
        noise_cov: Q, (D, D).

    Example:
        >>> push(Gaussian(jnp.zeros(1), jnp.eye(1)), Affine(jnp.ones(1), None), jnp.eye(1)).cov.tolist()
        [[2.0]]
    """
    if isinstance(belief, RootGaussian):
        blocks = [belief.root if view.jac is None else matmul(view.jac, belief.root), linalg.psd_root(noise_cov)]
        if view.root is not None:
            blocks.append(view.root)
        return RootGaussian(view.mean, linalg.lq(_join(blocks, axis=1)))
    cov = belief.cov if view.jac is None else matmul(matmul(view.jac, belief.cov), transpose(view.jac))
    if view.root is not None:
        cov = cov + linalg.gram(view.root)
    return Gaussian(view.mean, cov + noise_cov)


def reweight(view: Affine, weight: Array) -> Affine:
    """Scale an affine view row by row, which raises the likelihood of each coordinate to the power `weight**2`.

    Args:
        view: h(x) seen by the predicted belief.
        weight: (M,), in [0, 1]; 0 drops a coordinate, 1 keeps it.

    Example:
        >>> float(reweight(Affine(jnp.ones(1), jnp.eye(1)), jnp.zeros(1)).jac[0, 0])
        0.0
    """
    # Multiply, never divide R by w**2: at w = 0 that gives NaN gradients and covariances.
    root = None if view.root is None else weight[:, None] * view.root
    return Affine(weight * view.mean, weight[:, None] * view.jac, root)


def condition(
    belief: Gaussian | RootGaussian,
    view: Affine,
    residual: Array,
    obs_cov: Array,
    believed: Believed,
    form: str = "auto",
) -> tuple[Gaussian | RootGaussian, Array]:
    """Condition a belief on a measurement that is believed to the power w².

    Args:
        belief: predicted, over the state.
        view: the observation function seen by that belief.
        residual: `y - view.mean`, (M,), by whatever subtraction suits y.
        obs_cov: R, (M, M), positive definite.
        believed: weight and spread, from a noise rule.
        form: "joseph", "symmetric" or "auto"; a `RootGaussian` is always updated in square-root form.

    Returns:
        The posterior, and `log N(e; 0, S)` of the weighted residual e under its covariance S.

    Example:
        >>> one = jnp.eye(1)
        >>> post, _ = condition(Gaussian(jnp.zeros(1), one), Affine(jnp.zeros(1), one), jnp.ones(1), one,
        ...                     Believed(jnp.ones(())))
        >>> float(post.mean[0]), float(post.cov[0, 0])
        (0.5, 0.5)
    """
    view, error, obs_cov = _weigh(view, residual, obs_cov, believed.weight)
    if isinstance(belief, RootGaussian):
        return _condition_root(belief, view, error, obs_cov, believed.spread)
    if view.root is not None:
        obs_cov = obs_cov + linalg.gram(view.root)
    jac_cov = matmul(view.jac, belief.cov)
    factor = linalg.cholesky(linalg.matmul_symmetric(jac_cov, transpose(view.jac)) + obs_cov)
    half = factor.half(jac_cov)
    gain_t = factor.back(half)
    mean = belief.mean + matvec(transpose(gain_t), error)
    if form == "symmetric" or (form == "auto" and belief.cov.shape[0] > JOSEPH_UP_TO):
        cov = belief.cov - linalg.gram(transpose(half))
    else:
        cov = _joseph(belief.cov, view.jac, jac_cov, gain_t, obs_cov)
    if believed.spread is not None:
        cov = cov + linalg.gram(believed.spread)
    return Gaussian(mean, cov), log_density(error, factor)


def _joseph(cov: Array, jac: Array, jac_cov: Array, gain_t: Array, obs_cov: Array) -> Array:
    """Form (I - K H) P (I - K H)ᵀ + K R Kᵀ in O(D² M).

    With X = P - K (H P) it equals X - (X Hᵀ - K R) Kᵀ. The bracket vanishes for the exact gain, so it takes back what
    rounding did to K: when a prior of 1e10 meets noise of 1e-14, X is 0 and the bracket puts the 1e-14 back.
    """
    gain = transpose(gain_t)
    short = cov - matmul(gain, jac_cov)
    return linalg.symmetrise(short - matmul(matmul(short, transpose(jac)) - matmul(gain, obs_cov), gain_t))


def _condition_root(
    belief: RootGaussian, view: Affine, error: Array, obs_cov: Array, spread: Array | None
) -> tuple[RootGaussian, Array]:
    """Orthogonalise the rows of [[R½, root, jac L], [0, 0, L]] into [[S½, 0], [K S½, P½]]."""
    size = error.shape[0]
    noise = linalg.cholesky(obs_cov).matrix()
    if view.root is not None:
        noise = _join([noise, view.root], axis=1)
    top = _join([noise, matmul(view.jac, belief.root)], axis=1)
    blank = jnp.zeros((belief.root.shape[0], noise.shape[1], *belief.root.shape[2:]), noise.dtype)
    lower = linalg.lq(_join([top, _join([blank, belief.root], axis=1)], axis=0))
    factor = linalg.from_lower(lower[:size, :size])
    mean = belief.mean + matvec(lower[size:, :size], factor.half(error))
    root = lower[size:, size:]
    if spread is not None:
        root = linalg.lq(_join([root, spread], axis=1))
    return RootGaussian(mean, root), log_density(error, factor)


def innovation(belief: Gaussian | RootGaussian, view: Affine, obs_cov: Array) -> Cholesky:
    """Factorise the covariance of the residual, `S = jac P jacᵀ + root rootᵀ + R`."""
    if isinstance(belief, RootGaussian):
        # Not through P: with nearly collinear sensors S has no Cholesky factor in floating point.
        blocks = [linalg.cholesky(obs_cov).matrix(), matmul(view.jac, belief.root)]
        if view.root is not None:
            blocks.insert(1, view.root)
        return linalg.from_lower(linalg.lq(_join(blocks, axis=1)))
    cov = linalg.sandwich(view.jac, belief.cov) + obs_cov
    if view.root is not None:
        cov = cov + linalg.gram(view.root)
    return linalg.cholesky(cov)


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


def weigh_constant(weight: Array, obs_cov: Array) -> Array:
    """Find what turns `log N(w e; 0, S_w)` into `log ∫ p(y|x)^{w²} p(x) dx`: `½ Σ (1 - w²) (log 2π + log R)`."""
    log_var = 2.0 * jnp.log(linalg.cholesky(obs_cov).diagonal())
    return 0.5 * linalg.total((1.0 - weight**2) * (LOG_2PI + log_var))


def _weigh(view: Affine, residual: Array, obs_cov: Array, weight: Array) -> tuple[Affine, Array, Array]:
    if weight.ndim <= residual.ndim:
        weight = jnp.broadcast_to(weight, residual.shape)
        return reweight(view, weight), weight * residual, obs_cov
    # A matrix whitens as it weighs: the noise that is left has unit covariance.
    root = None if view.root is None else matmul(weight, view.root)
    view = Affine(matvec(weight, view.mean), matmul(weight, view.jac), root)
    return view, matvec(weight, residual), jnp.broadcast_to(linalg.eye(residual.shape[0], obs_cov), weight.shape)


def _join(blocks: list[Array], axis: int) -> Array:
    trailing = jnp.broadcast_shapes(*(block.shape[2:] for block in blocks))
    return jnp.concatenate([jnp.broadcast_to(b, b.shape[:2] + trailing) for b in blocks], axis=axis)
