"""What `wolf.smooth` returns."""

import dataclasses
from typing import Any

import numpy as np

from wolf.results import tabular
from wolf.results.filtered import Filtered


@dataclasses.dataclass(frozen=True, repr=False)
class Smoothed:
    """Smoothed beliefs, with a leading series axis for many series.

    Attributes:
        means: (T, D).
        covs: (T, D, D).
        filtered: the run that was smoothed.
        weights: w, (T, M), in the light of what came before and after; only with `reweigh=True`.
    """

    means: np.ndarray
    covs: np.ndarray
    filtered: Filtered
    weights: np.ndarray | None = None

    def to_frame(self, backend: tabular.Backend = "pandas") -> Any:
        """Lay one series out as a data frame; `backend` as in `Filtered.to_frame`."""
        if self.means.ndim == 3:
            raise ValueError("to_frame takes one series here; make frames of the arrays of many")
        variances = np.diagonal(self.covs, axis1=-2, axis2=-1)
        columns = {"step": np.arange(len(self.means))} | tabular.belief_columns(self.means, variances)
        return tabular.make_frame(columns, backend)

    def __repr__(self) -> str:
        """Tell the size."""
        return f"Smoothed: means {self.means.shape}, covs {self.covs.shape}"
