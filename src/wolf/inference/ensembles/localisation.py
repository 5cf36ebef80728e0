"""Localisation: removal of spurious correlations over long distances from small ensembles (Gaspari & Cohn 1999).

A geometry has the distances: `cross` from observations to states, `between` observations, and `near`, the observations
within reach of each state, for analyses that do not form the others.
"""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf import validation
from wolf.interfaces import Number
from wolf.numerics.pytree import pytree, static

GAUSSIAN_SCALE = math.sqrt(10.0 / 3.0)  # gives the curvature at 0 of a Gaussian whose standard deviation is the radius
TAPER_REACH = 2.0 * GAUSSIAN_SCALE  # in units of the radius: beyond it the taper is exactly zero


def gaspari_cohn(distance: ArrayLike, radius: Number) -> Array:
    """Evaluate the fifth-order taper of compact support, from 1 to 0 (Gaspari & Cohn 1999, equation 4.10).

    Args:
        distance: any shape.
        radius: standard deviation of the Gaussian that it approximates; it is zero beyond 3.65 radii. `inf` gives 1.

    Example:
        >>> [round(float(gaspari_cohn(d, 4.0)), 3) for d in (0.0, 4.0, 8.0, 15.0)]
        [1.0, 0.635, 0.147, 0.0]
    """
    z = jnp.abs(jnp.asarray(distance)) / (GAUSSIAN_SCALE * radius)
    near = 1.0 + z**2 * (-5.0 / 3.0 + z * (5.0 / 8.0 + z * (0.5 - 0.25 * z)))
    safe = jnp.clip(z, 1.0, 2.0)
    far = 4.0 + safe * (-5.0 + safe * (5.0 / 3.0 + safe * (5.0 / 8.0 + safe * (-0.5 + safe / 12.0)))) - 2.0 / 3.0 / safe
    return jnp.where(z <= 1.0, near, jnp.where(z < 2.0, jnp.maximum(far, 0.0), 0.0))


class _Geometry:
    """States and observations at positions in a space that may be periodic; subclasses define the positions."""

    radius: Number
    reach: float | None

    def _set_reach(self) -> None:
        validation.positive("radius", self.radius)
        radius = np.asarray(self.radius, np.float64)
        if self.reach is None and np.all(np.isfinite(radius)):
            object.__setattr__(self, "reach", float(TAPER_REACH * radius.max()))

    def positions(self, state_dim: int, obs_dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the positions of states (D, K) and observations (M, K), and the periods (K,), 0 for none."""
        raise NotImplementedError

    def cross(self, state_dim: int, obs_dim: int) -> Array | np.ndarray:
        """Compute the distances from observations to states, (M, D)."""
        states, observations, periods = self.positions(state_dim, obs_dim)
        return _separation(observations[:, None], states[None], periods)

    def between(self, state_dim: int, obs_dim: int) -> Array | np.ndarray:
        """Compute the distances between observations, (M, M)."""
        _, observations, periods = self.positions(state_dim, obs_dim)
        return _separation(observations[:, None], observations[None], periods)

    def near(self, state_dim: int, obs_dim: int) -> tuple[Array | np.ndarray, Array | np.ndarray]:
        """Return indices and distances of the observations within reach of each state, (D, K), padded by far ones."""
        if self.reach is None:
            indices = np.broadcast_to(np.arange(obs_dim), (state_dim, obs_dim))
            return indices, np.asarray(self.cross(state_dim, obs_dim)).T
        from scipy.spatial import cKDTree

        states, observations, periods = self.positions(state_dim, obs_dim)
        tree = cKDTree(observations, boxsize=periods)
        width = max(1, int(np.max(tree.query_ball_point(states, self.reach, return_length=True))))
        distances, numbers = tree.query(states, np.arange(1, width + 1), distance_upper_bound=self.reach)
        return np.minimum(numbers, obs_dim - 1), distances  # padding has infinite distances

    def taper(self, distance: ArrayLike, like: Array) -> Array:
        """Evaluate the taper at distances."""
        far = jnp.minimum(jnp.asarray(distance, like.dtype), jnp.finfo(like.dtype).max ** 0.1)
        return gaspari_cohn(far, self.radius)


@pytree
class Ring(_Geometry):
    """States on a circle, one unit apart, as those of Lorenz96.

    Args:
        radius: of the taper, in units of the distance between neighbours; `inf` for none.
        observed: position of each observation on the circle, with state 0 at 0; default: evenly spaced.
        reach: distance beyond which local analyses ignore observations; default: where the taper ends.

    Example:
        >>> Ring(radius=2.0).near(state_dim=40, obs_dim=40)[0].shape
        (40, 15)
    """

    radius: Number
    observed: tuple[float, ...] | None = static(default=None)
    reach: float | None = static(default=None)

    def __post_init__(self) -> None:
        """Validate the radius and convert positions to hashable tuples."""
        self._set_reach()
        if self.observed is not None:
            object.__setattr__(self, "observed", tuple(float(position) for position in self.observed))

    def positions(self, state_dim: int, obs_dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return positions along the circle."""
        spread = np.arange(obs_dim) * (state_dim / obs_dim)
        observed = spread if self.observed is None else np.array(self.observed) % state_dim
        _check_count(observed, obs_dim)
        return np.arange(float(state_dim))[:, None], observed[:, None], np.array([float(state_dim)])


@pytree
class Grid(_Geometry):
    """States on a grid of any dimension, one unit apart, numbered row by row as by `reshape`.

    Args:
        shape: of the grid, as (20, 30).
        radius: of the taper, in units of the distance between neighbours; `inf` for none.
        periodic: whether each direction is periodic; one value for all, or one per direction.
        observed: position of each observation, (M, len(shape)); default: one at each grid point.
        reach: as in `Ring`.

    Example:
        >>> Grid((4, 5), radius=1.0).cross(20, 20)[0, [1, 5, 6]].round(3).tolist()
        [1.0, 1.0, 1.414]
    """

    shape: tuple[int, ...] = static()
    radius: Number
    periodic: bool | tuple[bool, ...] = static(default=False)
    observed: tuple[tuple[float, ...], ...] | None = static(default=None)
    reach: float | None = static(default=None)

    def __post_init__(self) -> None:
        """Validate the radius and convert positions to hashable tuples."""
        self._set_reach()
        object.__setattr__(self, "shape", tuple(int(side) for side in self.shape))
        if self.observed is not None:
            rows = np.asarray(self.observed, np.float64).reshape(-1, len(self.shape)).tolist()
            object.__setattr__(self, "observed", tuple(map(tuple, rows)))
        if isinstance(self.periodic, list | tuple):
            object.__setattr__(self, "periodic", tuple(bool(closed) for closed in self.periodic))

    def positions(self, state_dim: int, obs_dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return positions on the grid."""
        if np.prod(self.shape) != state_dim:
            raise ValueError(f"shape must hold {state_dim} states; got {self.shape}")
        states = np.indices(self.shape).reshape(len(self.shape), -1).T.astype(float)
        observed = states if self.observed is None else np.array(self.observed)
        _check_count(observed, obs_dim)
        periods = np.where(np.broadcast_to(self.periodic, len(self.shape)), self.shape, 0.0)
        return states, np.where(periods > 0, observed % np.where(periods > 0, periods, 1.0), observed), periods


@pytree
class Distances(_Geometry):
    """States and observations at given distances.

    Args:
        state_obs: from each state to each observation, (D, M).
        obs_obs: between observations, (M, M); None for `LETKF`, which does not use them.
        radius: of the taper, in the unit of the distances; `inf` for none.
        reach: as in `Ring`.

    Example:
        >>> stations, cells = np.array([10.0, 60.0]), np.arange(100.0)
        >>> Distances(np.abs(cells[:, None] - stations), None, radius=5.0).near(100, 2)[0].shape
        (100, 1)
    """

    state_obs: np.ndarray
    obs_obs: np.ndarray | None
    radius: Number
    reach: float | None = static(default=None)
    numbers: np.ndarray | None = dataclasses.field(default=None, init=False, repr=False)
    nearest: np.ndarray | None = dataclasses.field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Validate shapes and the radius, and find the observations within reach of each state."""
        self._set_reach()
        for name, value in (("state_obs", self.state_obs), ("obs_obs", self.obs_obs)):
            if value is not None:
                object.__setattr__(self, name, validation.number_array(name, value))
        size = np.shape(self.state_obs)[-1:]
        if np.ndim(self.state_obs) != 2 or (self.obs_obs is not None and np.shape(self.obs_obs) != size + size):
            other = None if self.obs_obs is None else np.shape(self.obs_obs)
            raise ValueError(
                f"state_obs must have shape (D, M) and obs_obs (M, M); got {np.shape(self.state_obs)} and {other}"
            )
        if self.reach is not None and not validation.is_traced(self.state_obs):
            self._find_near(self.state_obs <= self.reach)

    def _find_near(self, within: np.ndarray) -> None:
        """Store numbers and distances of the observations within reach of each state, (D, K) each."""
        width = max(1, int(within.sum(1).max(initial=0)))
        distances = np.where(within, self.state_obs, np.inf)
        numbers = np.argpartition(distances, width - 1, axis=1)[:, :width]
        object.__setattr__(self, "numbers", numbers)
        object.__setattr__(self, "nearest", np.take_along_axis(distances, numbers, axis=1))

    def cross(self, state_dim: int, obs_dim: int) -> Array | np.ndarray:
        """Return the distances from observations to states, (M, D)."""
        self._check_shape(state_dim, obs_dim)
        return jnp.asarray(self.state_obs).T

    def between(self, state_dim: int, obs_dim: int) -> Array | np.ndarray:
        """Return the distances between observations, (M, M)."""
        if self.obs_obs is None:
            raise ValueError("obs_obs, the distances between observations, is needed by all analyses except LETKF")
        return self.obs_obs

    def near(self, state_dim: int, obs_dim: int) -> tuple[Array | np.ndarray, Array | np.ndarray]:
        """Return indices and distances of the observations within reach of each state, (D, K)."""
        self._check_shape(state_dim, obs_dim)
        if self.numbers is None or self.nearest is None:
            return np.broadcast_to(np.arange(obs_dim), (state_dim, obs_dim)), jnp.asarray(self.state_obs)
        return self.numbers, self.nearest

    def _check_shape(self, state_dim: int, obs_dim: int) -> None:
        if self.state_obs.shape != (state_dim, obs_dim):
            raise ValueError(f"state_obs must have shape ({state_dim}, {obs_dim}); got {self.state_obs.shape}")


def _separation(a: np.ndarray, b: np.ndarray, periods: np.ndarray) -> np.ndarray:
    gap = np.abs(a - b)
    gap = np.where(periods > 0, np.minimum(gap, periods - gap), gap)
    return np.sqrt((gap**2).sum(-1))


def _check_count(observed: np.ndarray, obs_dim: int) -> None:
    if len(observed) != obs_dim:
        raise ValueError(
            f"the localisation must have {obs_dim} positions of observations; got {len(observed)}: pass observed="
        )
