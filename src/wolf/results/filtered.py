"""`Filtered`, the result of `wolf.filter` and `wolf.filter_many`: named NumPy arrays."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from wolf import validation
from wolf.beliefs.density import deviations
from wolf.interfaces import Filter
from wolf.numerics.pytree import PyTree
from wolf.results.conformal import ConformalIntervals, innovation_variances
from wolf.results.lazy_arrays import LazyArrays
from wolf.results.states import States
from wolf.statespace import names
from wolf.statespace.names import Names

if TYPE_CHECKING:  # views are imported when they are used: a result is data
    import xarray
    from matplotlib.figure import Figure

    from wolf.inference.noise import NoiseEstimate
    from wolf.numerics.measurement_transforms import MeasurementTransform
    from wolf.results.components import Component, Components

FrameBackend = Literal["pandas", "polars", "pyarrow"]

ARRAYS = (
    *("means", "covs", "variances", "predicted_means", "predicted_covs", "residuals", "innovation_covs"),
    *("weights", "outliers", "nis", "log_liks", "weighted_log_liks", "outlier_probabilities", "inflations"),
    *("noise_scales", "dynamics_scales", "stuck"),
)  # saved by `save="all"`, as far as the method computes them


@dataclasses.dataclass(frozen=True, repr=False)
class Filtered:
    """A filtered series, or many of them.

    Slice a series in time (`out[100:200]`), or pick one of many (`out[3]`).

    Attributes:
        saved: saved values of each step: arrays by name, each also an attribute (`out.means`), or what your own `save`
            function returned.
        final: state after the last measurement.
        model: as given.
        method: as run.
        settings: options, backend and versions of the run.
        ys: the measurements, (T, M), in float64; not a copy, where they were given so.
        missing: number of missing values.
        inputs: as given.
        update_first: order of the steps.
        num_series: None for one series.
        lengths: steps of each series, where they differ.
        index: labels of the steps, where one series came as a pandas Series or DataFrame.
        columns: names of the measurements, where they came so.
    """

    saved: PyTree
    final: PyTree
    model: Any
    method: Filter
    settings: dict[str, Any]
    ys: np.ndarray
    missing: int = 0
    inputs: np.ndarray | None = None
    update_first: bool = False
    num_series: int | None = None
    lengths: np.ndarray | None = None
    index: Any = None
    columns: tuple[str, ...] | None = None

    @property
    def state_names(self) -> Names:
        """Names of the states, as the model has them; None if it has none."""
        return names.state_names(self.model)

    @property
    def obs_names(self) -> Names:
        """Names of the measured coordinates: the columns of a DataFrame, or those of the model; None without."""
        return names.obs_names(self.model) if self.columns is None else self.columns

    @property
    def means(self) -> np.ndarray:
        """Filtered means, (T, D)."""
        return self._kept("means")

    @property
    def covs(self) -> np.ndarray:
        """Filtered covariances, (T, D, D)."""
        return self._kept("covs")

    @property
    def variances(self) -> np.ndarray:
        """Diagonals of the filtered covariances, (T, D)."""
        if isinstance(self.saved, dict) and "covs" in self.saved and "variances" not in self.saved:
            return np.diagonal(self.saved["covs"], axis1=-2, axis2=-1)
        return self._kept("variances")

    @property
    def predicted_means(self) -> np.ndarray:
        """Means before each measurement, (T, D)."""
        return self._kept("predicted_means")

    @property
    def predicted_covs(self) -> np.ndarray:
        """Covariances before each measurement, (T, D, D)."""
        return self._kept("predicted_covs")

    @property
    def residuals(self) -> np.ndarray:
        """Measurement minus prediction, (T, M); NaN where the measurement is missing."""
        return self._kept("residuals")

    @property
    def innovation_covs(self) -> np.ndarray:
        """Covariances of the residuals, (T, M, M)."""
        return self._kept("innovation_covs")

    @property
    def weights(self) -> np.ndarray:
        """w, (T,) for a joint weight or (T, M); 0 where no value was used."""
        return self._kept("weights")

    @property
    def outliers(self) -> np.ndarray:
        """Where w² < 1/2 (or the outlier probability is > 1/2) and a value is present, in the shape of the weights."""
        return self._kept("outliers")

    @property
    def nis(self) -> np.ndarray:
        """Normalised innovation squared, (T,); NaN where the measurement is missing."""
        return self._kept("nis")

    @property
    def log_liks(self) -> np.ndarray:
        """Log density of each measurement under its prediction, (T,)."""
        return self._kept("log_liks")

    @property
    def weighted_log_liks(self) -> np.ndarray:
        """Generalised evidence of each measurement, (T,)."""
        return self._kept("weighted_log_liks")

    @property
    def outlier_probabilities(self) -> np.ndarray:
        """Outlier probability of each measurement, (T,), of methods that estimate the noise."""
        return self._kept("outlier_probabilities")

    @property
    def inflations(self) -> np.ndarray:
        """Factor on each predicted covariance, (T,), above 1 where a jump of the state was accepted."""
        return self._kept("inflations")

    @property
    def noise_scales(self) -> np.ndarray:
        """Scale factor of R applied to each measurement, (T,) or (T, M), of methods that estimate it."""
        return self._kept("noise_scales")

    @property
    def dynamics_scales(self) -> np.ndarray:
        """Scale factor of Q in each prediction, (T,), of methods that estimate it."""
        return self._kept("dynamics_scales")

    @property
    def stuck(self) -> np.ndarray:
        """Which numbers repeat the value of a stuck sensor and were treated as missing, (T, M), of the default."""
        return self._kept("stuck")

    @property
    def conformal_radius(self) -> np.ndarray:
        """Radius of the calibrated interval of each measurement, in standard deviations of its innovation, (T, M).

        Saved by `calibrate="conformal"`; it depends on earlier measurements only.
        """
        return self._kept("conformal_radius")

    def prediction_interval(self, level: float = 0.95, *, calibrated: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the interval of each measurement given those before it: lower and upper limits, (T, M).

        Limits are NaN where the measurement is missing or infinite.

        Args:
            level: probability under the model; a calibrated interval has the level of `calibrate` instead.
            calibrated: use `conformal_radius` instead of the normal quantile.

        Example:
            >>> import wolf
            >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
            >>> ys = 10.0 * np.random.default_rng(0).normal(size=2000)
            >>> out = wolf.filter(model, ys, method="KF", calibrate="conformal")
            >>> lower, upper = out.prediction_interval()
            >>> bool(np.mean((lower[:, 0] < ys) & (ys < upper[:, 0])) < 0.2)
            True
            >>> lower, upper = out.prediction_interval(calibrated=True)
            >>> bool(0.93 < np.mean((lower[:, 0] < ys) & (ys < upper[:, 0])) < 0.97)
            True
        """
        radius = self.conformal_radius if calibrated else deviations(validation.confidence_level(level))
        prediction = np.where(np.isfinite(self.ys), self.ys, np.nan) - self.residuals
        half = radius * np.sqrt(innovation_variances(self.innovation_covs))
        lower, upper = prediction - half, prediction + half
        return (lower, upper) if self.transform is None else (self.transform.undo(lower), self.transform.undo(upper))

    @property
    def transform(self) -> "MeasurementTransform | None":
        """Transform of the measurements to the scale of the model; None without."""
        return self.settings.get("transform")

    def signal(self, level: float = 0.95) -> "Component":
        """Return the noise-free signal with its interval, on the scale of the measurements; the median if transformed.

        Args:
            level: probability of the interval.

        Example:
            >>> import wolf
            >>> model = wolf.models.local_level(level_var=0.01, obs_var=0.1)
            >>> signal = wolf.filter(model, [20.0, 26.0, 18.0, 1000.0], transform="log").signal()
            >>> bool(signal.lower.min() > 0.0), bool(15.0 < signal.mean[-1] < 30.0)
            (True, True)
        """
        from wolf.results.components import signal

        return signal(self, self.means, self.covs, level)

    @property
    def detectable(self) -> np.ndarray:
        """Smallest fault of each measurement that would have been flagged with probability 0.95, (T, M).

        inf for methods that flag nothing. Computed when it is read, by some fifty steps for each measured number; for
        the next measurement alone use `wolf.Online(model, method, state=out.final).detectable`.

        Example:
            >>> import wolf
            >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
            >>> out = wolf.filter(model, np.zeros(30), method="WoLF")
            >>> bool(out.detectable[0, 0] > out.detectable[-1, 0])  # the prior is wide: only a larger fault shows
            True
        """
        from wolf.online.detectability import faults_of_series

        return faults_of_series(self)

    @property
    def log_likelihood(self) -> float | np.ndarray:
        """Log density of all measurements under the predictive Gaussians; (B,) for many series."""
        return _total(self.log_liks, self.num_series)

    @property
    def weighted_log_likelihood(self) -> float | np.ndarray:
        """Evidence of generalised Bayes. Not a score to tune by: weights of zero cost nothing."""
        return _total(self.weighted_log_liks, self.num_series)

    @property
    def learned_noise(self) -> "NoiseEstimate | Any":
        """Noise estimated by the end of the series, a `wolf.noise.NoiseEstimate`; a list for several sensors.

        Raises a ValueError for a method that does not estimate the noise.
        """
        from wolf.results.views.learned_noise import learned_noise

        first = self.final if self.num_series is None else jax.tree.map(lambda leaf: leaf[0], self.final)
        found = learned_noise(self.method, first, self._usable)
        if self.num_series is not None:
            raise ValueError("pick one series, as out[0].learned_noise")
        return found

    @property
    def _usable(self) -> np.ndarray | None:
        """Which numbers were usable, (T, M), by the filter whose final state this is; None for a part of its run."""
        from wolf.engine.measurements import is_unusable

        if self.num_series is not None or int(self.final.t) != len(self.ys):
            return None
        return ~(np.isnan(self.ys) | is_unusable(self.ys, self.settings["dtype"]))

    def _kept(self, name: str) -> np.ndarray:
        """Return a saved array; raises an AttributeError, so that `hasattr` works, where it was not saved."""
        saved = self.saved if isinstance(self.saved, dict) else {}
        if name in saved:
            return saved[name]
        from wolf.results.views.text import describe_method

        if self.settings["save"] == "all":
            raise AttributeError(f"{describe_method(self.method)} has no {name}; it keeps {', '.join(saved)}")
        raise AttributeError(f'{name} was not kept: the run had save={self.settings["save"]!r}; use save="all"')

    def calibrate(self, intervals: ConformalIntervals) -> "Filtered":
        """Return the result with the radius of calibrated prediction intervals added."""
        saved = self.saved if isinstance(self.saved, dict) else {}
        if not {"residuals", "innovation_covs"} <= saved.keys():
            raise ValueError(
                f'calibrate needs residuals and their covariances: a method that has them, and save="all"; got '
                f"save={self.settings['save']!r}"
            )
        variances = innovation_variances(self.innovation_covs)
        radius = intervals.track(self.residuals, variances, saved.get("outliers"))[..., :-1, :]
        settings = self.settings | {"calibrate": intervals}
        return dataclasses.replace(self, saved=saved | {"conformal_radius": radius}, settings=settings)

    @property
    def states(self) -> States:
        """Final states with model and method, to continue from or to serialize; of one series, an axis of length 1."""
        if "slice" in self.settings:
            raise ValueError("a slice does not end at its final state; use the states of the whole result")
        final, before = self.final, None
        if self.num_series is None:
            final = jax.tree.map(lambda leaf: np.asarray(leaf)[None], final)
        if self.inputs is not None and self.update_first:
            series = self.num_series or 1
            each = np.broadcast_to(self.inputs, (series, *self.inputs.shape[-2:]))
            before = each[np.arange(series), -1 if self.lengths is None else self.lengths - 1]
        return States(final, self.model, self.method, self.settings["dtype"], self.update_first, before)

    @property
    def backend(self) -> str:
        """The backend that ran the filter: "native" or "xla"."""
        return str(self.settings["backend"].backend)

    @property
    def backend_reason(self) -> str:
        """Why XLA ran the filter; empty for native code."""
        return str(self.settings["backend"].detail)

    def __len__(self) -> int:
        """Return the number of steps of a series, or the number of series."""
        return len(self.saved["means"] if isinstance(self.saved, LazyArrays) else jax.tree.leaves(self.saved)[0])

    def __getitem__(self, index: int | np.integer | slice) -> "Filtered":
        """Return a slice of one series in time, or one series of many."""
        if self.num_series is not None:
            if not isinstance(index, int | np.integer):
                raise TypeError(f"pick one series by its number, as out[0]; got {index!r}")
            return self._series(int(index))
        if not isinstance(index, slice):
            raise TypeError(f"slice in time, as out[100:200]; got {index!r}")
        saved = _cut(self.saved, lambda leaf: leaf[index])
        steps = len(range(*index.indices(len(self))))
        settings = self.settings | {"steps": steps, "slice": f"{index.start}:{index.stop}:{index.step}"}
        ys = self.ys[index]
        labels = None if self.index is None else self.index[index]
        measured: dict[str, Any] = {"ys": ys, "missing": int(np.isnan(ys).sum()), "index": labels}
        return dataclasses.replace(self, saved=saved, settings=settings, **measured)

    def _series(self, index: int) -> "Filtered":
        steps = self.settings["steps"] if self.lengths is None else int(self.lengths[index])
        saved = _cut(self.saved, lambda leaf: leaf[index][:steps])
        ys = self.ys[index][:steps]
        inputs = self.inputs if self.inputs is None or self.inputs.ndim == 2 else self.inputs[index]
        return dataclasses.replace(
            self,
            saved=saved,
            final=jax.tree.map(lambda leaf: leaf[index], self.final),
            model=self.model[index] if isinstance(self.model, tuple) else self.model,
            settings=self.settings | {"steps": steps},
            ys=ys,
            missing=int(np.isnan(ys).sum()),
            inputs=None if inputs is None else inputs[:steps],
            num_series=None,
            lengths=None,
        )

    def __iter__(self) -> Iterator["Filtered"]:
        """Iterate over the series."""
        if self.num_series is None:
            raise TypeError("one series is not a sequence; its arrays are, as out.means")
        return (self[i] for i in range(self.num_series))

    def to_frame(self, backend: FrameBackend = "pandas", *, index: Any = None) -> Any:
        """Return a data frame with one row for each step; many series below each other, at their lengths.

        Args:
            backend: "pandas", "polars" or "pyarrow".
            index: a label for each step, such as its time; default: the index of the measurements. It becomes the
                index of a pandas frame, and the first column of others.
        """
        from wolf.results.views import data_frame, filtered_summary

        parts = [filtered_summary.columns(each) for each in ([self] if self.num_series is None else self)]
        return data_frame.make_frame(parts, backend, self.index if index is None else index)

    def to_xarray(self) -> "xarray.Dataset":
        """Return an `xarray.Dataset` with named axes.

        Returns:
            All saved arrays and the measurements `ys`, over `step` (labelled by the index of the measurements), `state`
            or `coordinate` of a measurement (labelled by their names), `other_state` and `other_coordinate` of a
            covariance, and `series` for many series; the coordinate `length` holds the number of steps where it differs
            between series.
        """
        from wolf.results.views import xarray_dataset

        if not isinstance(self.saved, dict):
            raise ValueError(f'to_xarray needs arrays by name: filter with save="all", not {self.settings["save"]!r}')
        lengths = {} if self.lengths is None else {"length": np.asarray(self.lengths)}
        return xarray_dataset.make_dataset(
            {"ys": self.ys} | self.saved,
            self.num_series is not None,
            self.index,
            lengths,
            {"state": self.state_names, "coordinate": self.obs_names},
        )

    def component(self, name: str, level: float = 0.95) -> "Component":
        """Return the share of one component in the measurement, with its interval.

        Args:
            name: of a component ("seasonal_24"), the start of its name ("seasonal"), or a state ("slope").
            level: probability of the interval.

        Example:
            >>> import wolf
            >>> model = wolf.models.structural(wolf.models.trend(0.1, 0.01), wolf.models.seasonal(4, 0.1), obs_var=1.0)
            >>> out = wolf.filter(model, np.arange(12.0))
            >>> out.component("seasonal").mean.shape, list(out.components())
            ((12,), ['level', 'seasonal_4'])
        """
        from wolf.results.components import component

        return component(self, self.means, self.covs, name, level)

    def components(self, level: float = 0.95) -> "Components":
        """Return all components by name; their means add up to the signal. `wolf.smooth(out)` has those in retrospect.

        Args:
            level: probability of their intervals.
        """
        from wolf.results.components import components

        return components(self, self.means, self.covs, level)

    def plot_components(self, **options: Any) -> "Figure":
        """Draw the measurements with the signal, and a panel for each component.

        Args:
            **options: of `wolf.plots.components`.
        """
        return self.components().plot(**options)

    def plot(self, coordinate: int | str = 0, **options: Any) -> "Figure":
        """Draw one state with its measurements; returns a `matplotlib.figure.Figure`.

        Args:
            coordinate: which state, by its number or name.
            **options: of `wolf.plots.series`, as `truth=`, `ys=` or `ax=`; `with_levels=` adds a panel with the
                estimated scale factors of R and Q, which is the default where Q was estimated.
        """
        from wolf.plots.series_plot import with_measurements

        return with_measurements(self, coordinate, **options)

    def __repr__(self) -> str:
        """Return the sizes, the method, the outliers, the final state and remarks on the model."""
        from wolf.results.views import filtered_summary

        return filtered_summary.text(self)

    def _repr_html_(self) -> str:
        """Return the same as HTML for notebooks, with a small chart of the first state."""
        from wolf.results.views import filtered_summary

        return filtered_summary.html_page(self)


def _cut(saved: PyTree, piece: Callable[[np.ndarray], np.ndarray]) -> PyTree:
    return saved.cut(piece) if isinstance(saved, LazyArrays) else jax.tree.map(piece, saved)


def _total(values: np.ndarray, num_series: int | None) -> float | np.ndarray:
    return float(values.sum()) if num_series is None else np.nansum(values, axis=1)
