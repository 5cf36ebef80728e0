"""What is known about one key of a bank."""

from typing import Any, NamedTuple

import numpy as np

from wolf.inference.noise import NoiseEstimate
from wolf.results import count, describe_state
from wolf.results.views.learned_noise import learned_noise


class BankEntry(NamedTuple):
    """What is known about one key.

    Attributes:
        state: of its filter, as `out.final` of `wolf.filter`.
        time: of its last row; NaN where no times were told.
        method: of the bank.
    """

    state: Any
    time: float
    method: Any = None

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

        A ValueError for a method that learns nothing.
        """
        return learned_noise(self.method, self.state)

    def __repr__(self) -> str:
        """Tell where the filter stands."""
        return f"Held: {count(self.t, 'measurement')}, state {describe_state(self.state)}"
