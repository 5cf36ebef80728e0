"""`Forecast`, the result of `wolf.forecast`."""

import dataclasses
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np

from wolf.results.filtered import Filtered, FrameBackend
from wolf.results.views import data_frame, html
from wolf.statespace.array_fields import count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ARRAYS = ("means", "covs", "obs_means", "obs_covs", "lower", "upper")  # with a leading axis for many series


@dataclasses.dataclass(frozen=True, repr=False)
class Forecast:
    """Forecast states and measurements of a series.

    Attributes:
        means: of the states, (steps, D).
        covs: (steps, D, D).
        obs_means: of the measurements, (steps, M); medians if they were transformed.
        obs_covs: (steps, M, M), with the measurement noise, on the scale of the model.
        lower: lower limit of the prediction interval of each coordinate, (steps, M).
        upper: upper limit.
        level: probability of the interval.
        index: labels of the steps, where the index of the series can be continued.
        filtered: the filtered series.
    """

    means: np.ndarray
    covs: np.ndarray
    obs_means: np.ndarray
    obs_covs: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    level: float
    index: Any = None
    filtered: Filtered | None = None

    def __getitem__(self, series: int) -> "Forecast":
        """Return one series of many."""
        if self.obs_means.ndim == 2:
            raise TypeError("this is the forecast of one series; its arrays can be cut, as ahead.obs_means[:5]")
        if not isinstance(series, int | np.integer):
            raise TypeError(f"pick one series by its number, as ahead[0]; got {series!r}")
        every = vars(self)
        arrays = {name: every[name][series] for name in ARRAYS}
        filtered = None if self.filtered is None else self.filtered[series]
        return dataclasses.replace(self, **arrays, filtered=filtered)

    def to_frame(self, backend: FrameBackend = "pandas", *, index: Any = None) -> Any:
        """Return a data frame with the mean, standard deviation and prediction interval of each step.

        Args:
            backend: as in `Filtered.to_frame`.
            index: a label for each step; default: the continued index of the measurements.
        """
        many = self.obs_means.ndim == 3
        parts = [self._columns(i) for i in range(len(self.obs_means))] if many else [self._columns(...)]
        return data_frame.make_frame(parts, backend, self.index if index is None else index)

    def _columns(self, series: int | EllipsisType) -> dict[str, np.ndarray]:
        means = self.obs_means[series]
        deviations = self._deviations(series)
        columns = {"step": np.arange(1, len(means) + 1)}
        names = None if self.filtered is None else self.filtered.obs_names
        for j in range(means.shape[1]):
            tail = "" if means.shape[1] == 1 else f"_{names[j] if names else j}"
            columns |= {f"mean{tail}": means[:, j], f"sd{tail}": deviations[:, j]}
            columns |= {f"lower{tail}": self.lower[series][:, j], f"upper{tail}": self.upper[series][:, j]}
        return columns

    def _deviations(self, series: int | EllipsisType) -> np.ndarray:
        """Return the standard deviations of the measurements, (steps, M), on their own scale."""
        deviations = np.sqrt(np.diagonal(self.obs_covs[series], axis1=-2, axis2=-1))
        scale = None if self.filtered is None else self.filtered.transform
        return deviations if scale is None else scale.undo_deviation(scale.apply(self.obs_means[series]), deviations)

    def plot(self, coordinate: int | str = 0, **options: Any) -> "Figure":
        """Draw past and forecast of one coordinate; returns a `matplotlib.figure.Figure`.

        Args:
            coordinate: of the measurements, by its number or name.
            **options: of `wolf.plots.forecast`: `past=` steps before, `ax=`.
        """
        from wolf.plots.forecast_plot import forecast

        return forecast(self, coordinate, **options)

    def __repr__(self) -> str:
        """Return the number of steps and the level."""
        steps = count(self.means.shape[-2], "step")
        return f"Forecast: {steps}, {self.level:.0%} intervals in .lower and .upper"

    def _repr_html_(self) -> str:
        """Return the first and the last step as HTML, with a small chart of the first coordinate."""
        if self.obs_means.ndim == 3:
            return html.page(repr(self), [])
        means, steps = self.obs_means[:, 0], len(self.obs_means)
        picture = html.sketch(
            means, self._deviations(...)[:, 0], np.zeros(steps, bool), "forecast of the first coordinate"
        )
        rows = [
            (f"{step + 1} ahead", f"{means[step]:.4g}", f"{self.lower[step, 0]:.4g} to {self.upper[step, 0]:.4g}")
            for step in sorted({0, steps - 1})
        ]
        return html.page(repr(self), rows, picture)
