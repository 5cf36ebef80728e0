"""`Smoothed`, the result of `wolf.smooth`."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from wolf.results.components import Component, Components, component, components, signal
from wolf.results.filtered import Filtered, FrameBackend
from wolf.results.views import data_frame, html, xarray_dataset
from wolf.statespace.names import Names

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True, repr=False)
class Smoothed:
    """Smoothed beliefs, with a leading series axis for many series.

    Attributes:
        means: (T, D).
        covs: (T, D, D).
        filtered: the filtered series.
        weights: w, (T, M), from all other measurements of the series; only with `reweight=True`.
    """

    means: np.ndarray
    covs: np.ndarray
    filtered: Filtered
    weights: np.ndarray | None = None

    def __getitem__(self, series: int) -> "Smoothed":
        """Return one series of many."""
        if self.means.ndim == 2:
            raise TypeError("this is one series; its arrays can be cut, as smoothed.means[:5]")
        filtered = self.filtered[series]
        steps, weights = len(filtered.ys), None if self.weights is None else self.weights[series]
        return Smoothed(
            self.means[series][:steps],
            self.covs[series][:steps],
            filtered,
            None if weights is None else weights[:steps],
        )

    def to_frame(self, backend: FrameBackend = "pandas", *, index: Any = None) -> Any:
        """Return a data frame; arguments as in `Filtered.to_frame`."""
        names = self.filtered.state_names
        if self.means.ndim == 2:
            parts = [_columns(self.means, self.covs, names)]
        else:
            lengths = self.filtered.lengths
            ends = [self.means.shape[1]] * len(self.means) if lengths is None else lengths
            parts = [_columns(self.means[i, :end], self.covs[i, :end], names) for i, end in enumerate(ends)]
        return data_frame.make_frame(parts, backend, self.filtered.index if index is None else index)

    def to_xarray(self) -> "xarray.Dataset":
        """Return an `xarray.Dataset`; axes as in `Filtered.to_xarray`."""
        arrays = {"means": self.means, "covs": self.covs}
        arrays |= {} if self.weights is None else {"weights": self.weights}
        lengths = {} if self.filtered.lengths is None else {"length": np.asarray(self.filtered.lengths)}
        names = {"state": self.filtered.state_names, "coordinate": self.filtered.obs_names}
        return xarray_dataset.make_dataset(arrays, self.means.ndim == 3, self.filtered.index, lengths, names)

    def component(self, name: str, level: float = 0.95) -> "Component":
        """Return the share of one component in the measurement, with its interval, as `Filtered.component` does."""
        self._check_one()
        return component(self.filtered, self.means, self.covs, name, level)

    def components(self, level: float = 0.95) -> "Components":
        """Return all components by name; their means add up to the smoothed signal."""
        self._check_one()
        return components(self.filtered, self.means, self.covs, level)

    def signal(self, level: float = 0.95) -> "Component":
        """Return the smoothed noise-free signal with its interval, as `Filtered.signal` does."""
        self._check_one()
        return signal(self.filtered, self.means, self.covs, level)

    def plot_components(self, **options: Any) -> "Figure":
        """Draw the measurements with the smoothed signal, and a panel for each component.

        Args:
            **options: of `wolf.plots.components`.
        """
        return self.components().plot(**options)

    def _check_one(self) -> None:
        if self.means.ndim == 3:
            raise ValueError("components are those of one series; pick one of many, as smoothed[0]")

    def plot(self, coordinate: int | str = 0, **options: Any) -> "Figure":
        """Draw one state with its measurements; arguments as in `Filtered.plot`."""
        from wolf.plots.series_plot import with_measurements

        return with_measurements(self, coordinate, **options)

    def __repr__(self) -> str:
        """Return the shapes."""
        return f"Smoothed: means {self.means.shape}, covs {self.covs.shape}"

    def _repr_html_(self) -> str:
        """Return the shapes as HTML, with a small chart of the first state."""
        picture, one = "", self.means.ndim == 2
        if one and len(self.means):
            deviation = np.sqrt(np.maximum(self.covs[:, 0, 0], 0.0))
            no_outliers = np.zeros(len(self.means), bool)
            picture = html.sketch(self.means[:, 0], deviation, no_outliers, "the first state, smoothed")
        rows = [("means", f"{self.means.shape}"), ("covs", f"{self.covs.shape}")]
        return html.page("Smoothed", rows, picture)


def _columns(means: np.ndarray, covs: np.ndarray, names: Names) -> dict[str, np.ndarray]:
    variances = np.diagonal(covs, axis1=-2, axis2=-1)
    return {"step": np.arange(len(means))} | data_frame.belief_columns(means, variances, names)
