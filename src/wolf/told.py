"""What an online step tells about itself: one vector out of the compiled step, cut into fields where they are read."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wolf.types import Gaussian, Info


def pack(info: Info, dtype: Any) -> Any:
    """Put a step's report into one vector: handing out ten small arrays would take longer than the step."""
    return jnp.concatenate([jnp.ravel(leaf).astype(dtype) for leaf in jax.tree.leaves(info)])


class Report:
    """What one online step tells about itself: the fields of `wolf.types.Info`, cut out of one vector when read.

    Cutting them all at every step would take longer than the step.
    """

    __slots__ = ("_obs_dim", "_packed", "_state_dim")

    def __init__(self, packed: np.ndarray, state_dim: int, obs_dim: int):
        self._packed, self._state_dim, self._obs_dim = packed, state_dim, obs_dim

    @property
    def predicted(self) -> Gaussian:
        """Read mean and covariance before the measurement."""
        d = self._state_dim
        return Gaussian(self._packed[:d], self._packed[d : d + d * d].reshape(d, d))

    @property
    def residual(self) -> np.ndarray:
        """Read measurement minus prediction, (M,)."""
        return self._packed[self._start : self._start + self._obs_dim]

    @property
    def innovation_cov(self) -> np.ndarray:
        """Read the covariance of the residual, (M, M)."""
        m = self._obs_dim
        return self._packed[self._start + m : self._start + m + m * m].reshape(m, m)

    @property
    def weight(self) -> Any:
        """Read w: one number, or one for each coordinate."""
        return self._pair(0)

    @property
    def outlier(self) -> Any:
        """Say whether a measurement came and w² < 1/2."""
        return self._pair(1) != 0

    @property
    def nis(self) -> float:
        """Read the normalised innovation squared."""
        return self._packed[-3]

    @property
    def log_likelihood(self) -> float:
        """Read the log density of the measurement under its prediction."""
        return self._packed[-2]

    @property
    def weighted_log_likelihood(self) -> float:
        """Read the evidence of generalised Bayes."""
        return self._packed[-1]

    def __eq__(self, other: object) -> bool:
        """Compare all that was reported."""
        return isinstance(other, Report) and np.array_equal(self._packed, other._packed, equal_nan=True)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Tell the weight and what became of the measurement."""
        return f"Report(weight={self.weight}, outlier={self.outlier}, residual={self.residual}, nis={self.nis:.4g})"

    @property
    def _start(self) -> int:
        return self._state_dim + self._state_dim**2

    def _pair(self, which: int) -> Any:
        first = self._start + self._obs_dim + self._obs_dim**2
        count = (len(self._packed) - first - 3) // 2  # one weight, or one for each coordinate
        values = self._packed[first + which * count : first + (which + 1) * count]
        return values if count > 1 else values[0]
