"""What `wolf.forecast` returns."""

import dataclasses

import numpy as np

from wolf.statespace.arrays import count


@dataclasses.dataclass(frozen=True, repr=False)
class Forecast:
    """The future of a series.

    Attributes:
        means: of the states, (steps, D).
        covs: (steps, D, D).
        obs_means: of the measurements, (steps, M).
        obs_covs: (steps, M, M), noise included.
        lower: lower end of the interval of each measured coordinate, (steps, M).
        upper: upper end.
        level: probability of the interval.
    """

    means: np.ndarray
    covs: np.ndarray
    obs_means: np.ndarray
    obs_covs: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    level: float

    def __repr__(self) -> str:
        """Tell the size."""
        steps = count(self.means.shape[-2], "step")
        return f"Forecast: {steps}, {self.level:.0%} intervals in .lower and .upper"
