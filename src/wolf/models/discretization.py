"""Discretization: transition and noise covariance matrices over time steps of any length.

Gaps are counted in steps, (T,); None stands for one step each, without a time axis. A gap of k steps is equivalent to k
single steps: omitted rows and rows without a value are the same, and a component has the same meaning on even and
uneven times. A motion is a `partial` of a function of this module, so that models can be pickled.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from wolf.numerics.pytree import array_module

Gaps = np.ndarray | None
Motion = Callable[[Gaps], np.ndarray]

INTEGER_TOLERANCE = 1e-3  # relative difference from a whole number of steps up to which a gap counts as whole


def constant(size: int) -> Motion:
    """Return the identity for every gap."""
    return partial(_constant, np.eye(size))


def _constant(matrix: np.ndarray, gaps: Gaps) -> np.ndarray:
    return matrix


def linear_growth(matrix: np.ndarray) -> Motion:
    """Return a covariance proportional to the gap."""
    return partial(_linear_growth, matrix)


def _linear_growth(matrix: np.ndarray, gaps: Gaps) -> np.ndarray:
    return matrix if gaps is None else gaps[:, None, None] * matrix


def shear(dt: float = 1.0) -> Motion:
    """Return the transition of position and velocity, for a time `dt` per step."""
    return partial(_shear, array_module(dt).array([[0.0, dt], [0.0, 0.0]]))


def _shear(drift: np.ndarray, gaps: Gaps) -> np.ndarray:
    return np.eye(2) + (drift if gaps is None else gaps[:, None, None] * drift)


def integrated_white_noise(gaps: Gaps) -> np.ndarray:
    """Compute the covariance of integrated white noise on the velocity (Bar-Shalom et al. 2001, eq. 6.2.2-10)."""
    g = np.ones(()) if gaps is None else gaps
    return _matrices([[g**3 / 3, g**2 / 2], [g**2 / 2, g]])


def random_walk_noise(level: float, slope: float, dt: float = 1.0) -> Motion:
    """Return the noise covariance of a random-walk level with a random-walk slope.

    Over k steps, `Σ_{j<k} Fʲ diag(level, slope) Fʲᵀ` with F the shear: polynomials in k, which between whole steps are
    the covariance of a stochastic differential equation if `level >= dt² slope / 12`. Where they are not a covariance,
    for gaps below one step only, the level has the smallest variance that makes them one.

    Args:
        level: variance of a step of the level.
        slope: variance of a step of the slope.
        dt: time of a step.

    Example:
        >>> random_walk_noise(0.0, 1.0)(np.array([3.0])).tolist()
        [[[5.0, 3.0], [3.0, 3.0]]]
    """
    return partial(_random_walk_noise, level, slope, dt)


def _random_walk_noise(level: float, slope: float, dt: float, gaps: Gaps) -> np.ndarray:
    if gaps is None:
        return diagonal([level, slope])
    g, tilt = gaps, slope * dt
    both = tilt * g * (g - 1) / 2
    exact = level * g + tilt * dt * g * (g - 1) * (2 * g - 1) / 6
    least = tilt * dt * g * (g - 1) ** 2 / 4
    return _matrices([[array_module(exact, least).maximum(exact, least), both], [both, slope * g]])


def rotation(angle: float, damping: float = 1.0) -> Motion:
    """Return the rotation of a pair of states by an angle per step, with damping."""
    return partial(_rotation, angle, damping)


def _rotation(angle: float, damping: float, gaps: Gaps) -> np.ndarray:
    xp = array_module(angle, damping)
    if gaps is None:
        cosine, sine = xp.cos(angle), xp.sin(angle)
        return damping * xp.array([[cosine, sine], [-sine, cosine]])
    cosine, sine = xp.cos(angle * gaps), xp.sin(angle * gaps)
    return (damping**gaps)[:, None, None] * _matrices([[cosine, sine], [-sine, cosine]])


def damped_noise(damping: float, size: int = 2) -> Motion:
    """Return the noise covariance of damped states, a rotating pair or one; it is invariant to the rotation."""
    undamped = array_module(damping) is np and damping == 1
    return linear_growth(np.eye(size)) if undamped else partial(_damped_noise, damping, np.eye(size))


def _damped_noise(damping: float, shape: np.ndarray, gaps: Gaps) -> np.ndarray:
    share = 1 - damping**2
    return shape if gaps is None else ((1 - damping ** (2 * gaps)) / share)[:, None, None] * shape


def decay(damping: float) -> Motion:
    """Return the transition of one damped state."""
    return lambda gaps: _matrices([[damping ** (np.ones(()) if gaps is None else gaps)]])


def damped_shear(damping: float) -> Motion:
    """Return the transition of a level with a damped slope: over k steps by φ + φ² + ... + φᵏ times the slope."""

    def move(gaps: Gaps) -> np.ndarray:
        g = np.ones(()) if gaps is None else gaps
        factor = damping**g
        one = np.ones(np.shape(factor))
        return _matrices([[one, damping * (1 - factor) / (1 - damping)], [0.0 * one, factor]])

    return move


def damped_slope_noise(damping: float) -> Motion:
    """Return the covariance of level and damped slope due to slope shocks over k steps: geometric sums.

    A shock j steps ago contributes φʲ to the slope and a = φ (1 - φʲ) / (1 - φ) to the level.

    Example:
        >>> damped_slope_noise(0.5)(np.array([2.0])).tolist()
        [[[0.25, 0.25], [0.25, 1.25]]]
    """
    f, ratio = damping, damping / (1 - damping)

    def noise(gaps: Gaps) -> np.ndarray:
        if gaps is None:
            return np.diag([0.0, 1.0])
        once, twice = (1 - f**gaps) / (1 - f), (1 - f ** (2 * gaps)) / (1 - f**2)
        # Below one step the sums are not a covariance: increase the level variance until they are.
        both = ratio * (once - twice)
        xp = array_module(damping)
        least = both**2 / xp.where(twice > 0, twice, 1.0)
        return _matrices([[xp.maximum(ratio**2 * (gaps - 2 * once + twice), least), both], [both, twice]])

    return noise


def matrix_power(dynamics: np.ndarray) -> Motion:
    """Return the power of a transition matrix for the number of steps in a gap, rounded to whole steps."""
    return partial(_matrix_power, dynamics)


def _matrix_power(dynamics: np.ndarray, gaps: Gaps) -> np.ndarray:
    return dynamics if gaps is None else _iterated(dynamics, np.zeros(dynamics.shape), gaps)[0]


def matrix_power_noise(dynamics: np.ndarray, noise: np.ndarray) -> Motion:
    """Return the accumulated noise covariance of the steps in a gap, rounded to whole steps."""
    return partial(_matrix_power_noise, dynamics, noise)


def _matrix_power_noise(dynamics: np.ndarray, noise: np.ndarray, gaps: Gaps) -> np.ndarray:
    return noise if gaps is None else _iterated(dynamics, noise, gaps)[1]


def block_motion(moves: list[Motion]) -> Motion:
    """Return the block-diagonal transition of independent components."""
    return partial(_block_motion, moves)


def _block_motion(moves: list[Motion], gaps: Gaps) -> np.ndarray:
    return block_diagonal([move(gaps) for move in moves])


def block_diagonal(blocks: list[np.ndarray]) -> np.ndarray:
    """Build a block-diagonal matrix; if a block has a time axis, the result has one."""
    blocks = [array_module(block).asarray(block) for block in blocks]
    shape = np.broadcast_shapes(*(block.shape[:-2] for block in blocks))
    size, start = sum(block.shape[-1] for block in blocks), 0
    whole: Any = np.zeros((*shape, size, size))
    traced = array_module(*blocks) is jnp
    for block in blocks:
        stop = start + block.shape[-1]
        if traced:
            whole = jnp.asarray(whole).at[..., start:stop, start:stop].set(block)
        else:
            whole[..., start:stop, start:stop] = block
        start = stop
    return whole  # type: ignore[no-any-return]


def axis_names(count: int) -> tuple[str, ...]:
    """Name the axes of space: x, y, z, or numbers where there are more.

    Example:
        >>> axis_names(2)
        ('x', 'y')
    """
    return tuple("xyz"[:count]) if count <= len("xyz") else tuple(map(str, range(count)))


def along_axes(matrix: np.ndarray, count: int) -> np.ndarray:
    """Extend a matrix from one axis to several, all positions first: the Kronecker product with the identity.

    Example:
        >>> along_axes(np.array([[1.0, 2.0], [3.0, 4.0]]), 2)[0].tolist()
        [1.0, 0.0, 2.0, 0.0]
    """
    if count == 1:
        return matrix
    if array_module(matrix) is jnp:
        return jnp.kron(matrix, jnp.eye(count))  # type: ignore[return-value]
    *lead, rows, columns = matrix.shape
    whole = np.zeros((*lead, rows, count, columns, count))
    for axis in range(count):  # three times as fast as np.kron for many steps, which multiplies by all the zeros
        whole[..., axis, :, axis] = matrix
    return whole.reshape(*lead, rows * count, columns * count)


def diagonal(entries: Sequence[Any]) -> Any:
    """Build a diagonal matrix of numbers, some of which may be traced."""
    xp = array_module(*entries)
    return xp.diag(xp.array(entries))


def non_integer_gaps(gaps: np.ndarray) -> np.ndarray:
    """Return the indices of gaps that are not whole steps.

    Example:
        >>> non_integer_gaps(np.array([1.0, 2.5, 3.0])).tolist()
        [1]
    """
    return np.flatnonzero(np.abs(gaps - np.rint(gaps)) > INTEGER_TOLERANCE * np.maximum(gaps, 1.0))


def _matrices(rows: list[list[np.ndarray]]) -> Any:
    xp = array_module(*(entry for row in rows for entry in row))
    return xp.moveaxis(xp.array(rows), (0, 1), (-2, -1))


def _iterated(dynamics: np.ndarray, noise: np.ndarray, gaps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute transition and noise of many gaps, once per distinct number of steps."""
    counts, which = np.unique(np.rint(gaps).astype(int), return_inverse=True)
    done = [_power_by_doubling(dynamics, noise, int(count)) for count in counts]
    xp = array_module(dynamics, noise)
    return xp.stack([each[0] for each in done])[which], xp.stack([each[1] for each in done])[which]


def _power_by_doubling(dynamics: np.ndarray, noise: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Compose single steps by doubling, with log2(count) products."""
    transition, cov = np.eye(len(dynamics)), np.zeros(noise.shape)
    while count:
        if count % 2:
            transition, cov = dynamics @ transition, dynamics @ cov @ dynamics.T + noise
        count //= 2
        if count:
            dynamics, noise = dynamics @ dynamics, dynamics @ noise @ dynamics.T + noise
    return transition, cov
