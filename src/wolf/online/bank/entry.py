"""The filter of one key of a bank."""

from typing import Any, NamedTuple

import numpy as np

from wolf.inference.noise import NoiseEstimate
from wolf.interfaces import Filter
from wolf.numerics.pytree import PyTree
from wolf.results import count, describe_state
from wolf.results.views.learned_noise import learned_noise


class BankEntry(NamedTuple):
    """State of the filter of one key.

    Attributes:
        state: of the filter, as `out.final` of `wolf.filter`.
        time: of the last row of the key; NaN if its rows had no times.
        method: of the bank.
    """

    state: PyTree
    time: float
    method: Filter

    @property
    def mean(self) -> np.ndarray:
        """Mean of the state, (D,)."""
        return np.asarray(self.state.mean)

    @property
    def cov(self) -> np.ndarray:
        """Covariance of the state, (D, D)."""
        return np.asarray(self.state.cov)

    @property
    def t(self) -> int:
        """Number of measurements so far."""
        return int(self.state.t)

    @property
    def learned_noise(self) -> NoiseEstimate | Any:
        """Noise estimated for this key so far, a `wolf.noise.NoiseEstimate`; a list for several sensors.

        Raises a ValueError if the method does not estimate noise.
        """
        return learned_noise(self.method, self.state)

    def __repr__(self) -> str:
        """Summarise the state."""
        return f"BankEntry: {count(self.t, 'measurement')}, state {describe_state(self.state)}"
