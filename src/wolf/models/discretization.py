"""Matrices of a step of any length: how a state moves over a gap, and what noise the gap adds.

Gaps are counted in steps, (T,); None stands for one step each, and then there is no time axis. A gap of k steps is what
k steps would have been: rows left out and rows without a value are the same thing, and a part has one meaning on even
and on uneven times. A motion is a `partial` of a function of this file, so that models can be pickled.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

Gaps = np.ndarray | None
Motion = Callable[[Gaps], np.ndarray]

WHOLE = 1e-3  # share of a gap by which it may differ from whole steps and still be called whole


def resting(size: int) -> Motion:
    """Keep a state where it is."""
    return partial(_rest, np.eye(size))


def _rest(matrix: np.ndarray, gaps: Gaps) -> np.ndarray:
    return matrix


def growing(matrix: np.ndarray) -> Motion:
    """Add noise in proportion to the gap."""
    return partial(_grow, matrix)


def _grow(matrix: np.ndarray, gaps: Gaps) -> np.ndarray:
    return matrix if gaps is None else np.multiply.outer(gaps, matrix)


def shear(dt: float = 1.0) -> Motion:
    """Move a position on by its velocity, for a time `dt` in each step."""
    return partial(_shear, np.array([[0.0, dt], [0.0, 0.0]]))


def _shear(moved: np.ndarray, gaps: Gaps) -> np.ndarray:
    return np.eye(2) + np.multiply.outer(np.ones(()) if gaps is None else gaps, moved)


def integrated(gaps: Gaps) -> np.ndarray:
    """Integrate white noise on the velocity (Bar-Shalom, Li & Kirubarajan 2001, eq. 6.2.2-10)."""
    g = np.ones(()) if gaps is None else gaps
    return _matrices([[g**3 / 3, g**2 / 2], [g**2 / 2, g]])


def walked(level: float, slope: float, dt: float = 1.0) -> Motion:
    """Add up the noise of steps that shake the level, and a slope that moves the level on.

    Over k steps, `Σ_{j<k} Fʲ diag(level, slope) Fʲᵀ` with F the shear: polynomials in k, which between whole steps are
    the covariance of a stochastic differential equation as long as `level >= dt² slope / 12`. Where they are none, for
    gaps below one step only, the level has the smallest variance that is one.

    Args:
        level: variance of a step of the level.
        slope: variance of a step of the slope.
        dt: time of a step.

    Example:
        >>> walked(0.0, 1.0)(np.array([3.0])).tolist()
        [[[5.0, 3.0], [3.0, 3.0]]]
    """
    return partial(_walk, level, slope, dt)


def _walk(level: float, slope: float, dt: float, gaps: Gaps) -> np.ndarray:
    if gaps is None:
        return np.diag([level, slope])
    g, tilt = gaps, slope * dt
    both = tilt * g * (g - 1) / 2
    exact = level * g + tilt * dt * g * (g - 1) * (2 * g - 1) / 6
    least = tilt * dt * g * (g - 1) ** 2 / 4
    return _matrices([[np.maximum(exact, least), both], [both, slope * g]])


def turning(angle: float, damping: float = 1.0) -> Motion:
    """Turn a pair of states by an angle in each step, and let them fade."""
    return partial(_turn, angle, damping)


def _turn(angle: float, damping: float, gaps: Gaps) -> np.ndarray:
    if gaps is None:
        cosine, sine = np.cos(angle), np.sin(angle)
        return damping * np.array([[cosine, sine], [-sine, cosine]])
    cosine, sine = np.cos(angle * gaps), np.sin(angle * gaps)
    return (damping**gaps)[:, None, None] * _matrices([[cosine, sine], [-sine, cosine]])


def fading(damping: float, size: int = 2) -> Motion:
    """Add up the noise of states that fade, a pair that turns or one; turning leaves it as it is."""
    return growing(np.eye(size)) if damping == 1 else partial(_fade, damping, np.eye(size))


def _fade(damping: float, shape: np.ndarray, gaps: Gaps) -> np.ndarray:
    share = 1 - damping**2
    return shape if gaps is None else np.multiply.outer((1 - damping ** (2 * gaps)) / share, shape)


def shrinking(damping: float) -> Motion:
    """Let one state fade."""
    return lambda gaps: _matrices([[damping ** (np.ones(()) if gaps is None else gaps)]])


def fading_shear(damping: float) -> Motion:
    """Move a level on by a slope that fades: over k steps by φ + φ² + ... + φᵏ of it."""

    def move(gaps: Gaps) -> np.ndarray:
        g = np.ones(()) if gaps is None else gaps
        left = damping**g
        return _matrices([[np.ones_like(left), damping * (1 - left) / (1 - damping)], [np.zeros_like(left), left]])

    return move


def faded(damping: float) -> Motion:
    """Add up what shocks of a fading slope do to it and to the level, over k steps: geometric sums.

    A shock j steps ago has left φʲ on the slope and a = φ (1 - φʲ) / (1 - φ) on the level.

    Example:
        >>> faded(0.5)(np.array([2.0])).tolist()
        [[[0.25, 0.25], [0.25, 1.25]]]
    """
    f, ratio = damping, damping / (1 - damping)

    def noise(gaps: Gaps) -> np.ndarray:
        if gaps is None:
            return np.diag([0.0, 1.0])
        once, twice = (1 - f**gaps) / (1 - f), (1 - f ** (2 * gaps)) / (1 - f**2)
        # Below one step the sums are no covariance any more: bring them back to one.
        both = ratio * (once - twice)
        least = both**2 / np.where(twice > 0, twice, 1.0)
        return _matrices([[np.maximum(ratio**2 * (gaps - 2 * once + twice), least), both], [both, twice]])

    return noise


def stepping(dynamics: np.ndarray) -> Motion:
    """Repeat a matrix as often as there are steps in a gap; gaps are taken as whole."""
    return partial(_step, dynamics)


def _step(dynamics: np.ndarray, gaps: Gaps) -> np.ndarray:
    return dynamics if gaps is None else _repeated(dynamics, np.zeros_like(dynamics), gaps)[0]


def stepping_noise(dynamics: np.ndarray, noise: np.ndarray) -> Motion:
    """Add up the noise of as many steps as there are in a gap; gaps are taken as whole."""
    return partial(_step_noise, dynamics, noise)


def _step_noise(dynamics: np.ndarray, noise: np.ndarray, gaps: Gaps) -> np.ndarray:
    return noise if gaps is None else _repeated(dynamics, noise, gaps)[1]


def side_by_side(moves: list[Motion]) -> Motion:
    """Let parts of a state move each by itself."""
    return partial(_side_by_side, moves)


def _side_by_side(moves: list[Motion], gaps: Gaps) -> np.ndarray:
    return diagonal([move(gaps) for move in moves])


def diagonal(blocks: list[np.ndarray]) -> np.ndarray:
    """Put matrices along the diagonal; if one has a time axis, all of it has."""
    shape = np.broadcast_shapes(*(block.shape[:-2] for block in blocks))
    size, start = sum(block.shape[-1] for block in blocks), 0
    whole = np.zeros((*shape, size, size))
    for block in blocks:
        stop = start + block.shape[-1]
        whole[..., start:stop, start:stop] = block
        start = stop
    return whole


def along_axes(matrix: np.ndarray, count: int) -> np.ndarray:
    """Copy what happens along one axis to several, all positions first: the Kronecker product with the identity.

    Example:
        >>> along_axes(np.array([[1.0, 2.0], [3.0, 4.0]]), 2)[0].tolist()
        [1.0, 0.0, 2.0, 0.0]
    """
    if count == 1:
        return matrix
    *lead, rows, columns = matrix.shape
    whole = np.zeros((*lead, rows, count, columns, count))
    for axis in range(count):  # three times as quick as np.kron for many steps, which multiplies by all the zeros
        whole[..., axis, :, axis] = matrix
    return whole.reshape(*lead, rows * count, columns * count)


def not_whole(gaps: np.ndarray) -> np.ndarray:
    """List the rows whose gaps are not whole steps.

    Example:
        >>> not_whole(np.array([1.0, 2.5, 3.0])).tolist()
        [1]
    """
    return np.flatnonzero(np.abs(gaps - np.rint(gaps)) > WHOLE * np.maximum(gaps, 1.0))


def _matrices(rows: list[list[np.ndarray]]) -> np.ndarray:
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def _repeated(dynamics: np.ndarray, noise: np.ndarray, gaps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Take many steps at once, each number of steps once."""
    counts, which = np.unique(np.rint(gaps).astype(int), return_inverse=True)
    done = [_leap(dynamics, noise, int(count)) for count in counts]
    return np.stack([each[0] for each in done])[which], np.stack([each[1] for each in done])[which]


def _leap(dynamics: np.ndarray, noise: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Put single steps together by doubling: log2(count) products, however long the gap."""
    moved, added = np.eye(len(dynamics)), np.zeros_like(noise)
    while count:
        if count % 2:
            moved, added = dynamics @ moved, dynamics @ added @ dynamics.T + noise
        count //= 2
        if count:
            dynamics, noise = dynamics @ dynamics, dynamics @ noise @ dynamics.T + noise
    return moved, added
