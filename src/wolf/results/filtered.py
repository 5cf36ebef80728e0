"""What `wolf.filter` and `wolf.filter_many` return: NumPy arrays with names, and a `repr` that tells what they are."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from wolf.engine.measurements import is_unusable
from wolf.inference.noise import NoiseEstimate
from wolf.results.lazy_arrays import LazyArrays
from wolf.results.states import States
from wolf.results.views import data_frame, html, xarray_dataset
from wolf.results.views.learned_noise import learned_noise
from wolf.results.views.model_warnings import remarks
from wolf.results.views.text import describe_method, describe_state
from wolf.statespace.array_fields import count

ARRAYS = (
    *("means", "covs", "variances", "predicted_means", "predicted_covs", "residuals", "innovation_covs"),
    *("weights", "outliers", "nis", "log_liks", "weighted_log_liks", "outlier_probabilities", "inflations"),
    *("noise_scales", "dynamics_scales"),
)  # that `save="all"` keeps, of methods that tell them


@dataclasses.dataclass(frozen=True, repr=False)
class Filtered:
    """A filtered series, or many of them.

    Slice a series in time (`out[100:200]`), or pick one of many (`out[3]`).

    Attributes:
        saved: what was kept of each step: arrays by name, each also an attribute (`out.means`), or what your own
            `save` function returned.
        final: state after the last measurement.
        model: as given.
        method: as run.
        settings: how the run was made, with versions.
        ys: the measurements, (T, M), in float64; not a copy, where they were given so.
        missing: how many numbers were missing.
        inputs: as given.
        update_first: order of the steps.
        num_series: None for one series.
        lengths: steps of each series, where they differ.
        index: labels of the steps, where one series came as a pandas Series or DataFrame.
    """

    saved: Any
    final: Any
    model: Any
    method: Any
    settings: dict[str, Any]
    ys: np.ndarray
    missing: int = 0
    inputs: np.ndarray | None = None
    update_first: bool = False
    num_series: int | None = None
    lengths: np.ndarray | None = None
    index: Any = None

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
        """Measurement minus prediction, (T, M); NaN where nothing was measured."""
        return self._kept("residuals")

    @property
    def innovation_covs(self) -> np.ndarray:
        """Covariances of the residuals, (T, M, M)."""
        return self._kept("innovation_covs")

    @property
    def weights(self) -> np.ndarray:
        """w, (T,) for a joint weight or (T, M); 0 where nothing was used."""
        return self._kept("weights")

    @property
    def outliers(self) -> np.ndarray:
        """Where a measurement came and w² < 1/2 (or is probably an outlier), in the shape of the weights."""
        return self._kept("outliers")

    @property
    def nis(self) -> np.ndarray:
        """Normalised innovation squared, (T,); NaN where nothing was measured."""
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
        """Probability of each measurement to be an outlier, (T,), of methods that learn the noise."""
        return self._kept("outlier_probabilities")

    @property
    def inflations(self) -> np.ndarray:
        """Factor on each predicted covariance, (T,), above 1 where the state was found to have jumped."""
        return self._kept("inflations")

    @property
    def noise_scales(self) -> np.ndarray:
        """Size of ordinary noise over R that each measurement was judged by, (T,) or (T, M), where it is learned."""
        return self._kept("noise_scales")

    @property
    def dynamics_scales(self) -> np.ndarray:
        """Factor on Q in each prediction, (T,), of methods that learn it."""
        return self._kept("dynamics_scales")

    @property
    def log_likelihood(self) -> float | np.ndarray:
        """Log density of all measurements under the predictive Gaussians; (B,) for many series."""
        return _total(self.log_liks, self.num_series)

    @property
    def weighted_log_likelihood(self) -> float | np.ndarray:
        """Evidence of generalised Bayes. Not a score to tune by: weights of zero cost nothing."""
        return _total(self.weighted_log_liks, self.num_series)

    @property
    def learned_noise(self) -> NoiseEstimate | Any:
        """Noise estimated by the end of the series, a `wolf.noise.NoiseEstimate`; a list for several sensors.

        A ValueError for a method that learns nothing.
        """
        first = self.final if self.num_series is None else jax.tree.map(lambda leaf: leaf[0], self.final)
        law = learned_noise(self.method, first, self._usable)
        if self.num_series is not None:
            raise ValueError("pick one series, as out[0].learned_noise")
        return law

    @property
    def _usable(self) -> np.ndarray | None:
        """Which numbers could be used, (T, M), by the filter whose final state this is; None for a part of its run."""
        if self.num_series is not None or int(self.final.t) != len(self.ys):
            return None
        return ~(np.isnan(self.ys) | is_unusable(self.ys, self.settings["dtype"]))

    def _kept(self, name: str) -> np.ndarray:
        """Read an array, or say why it is not there; an AttributeError, so that `hasattr` tells."""
        saved = self.saved if isinstance(self.saved, dict) else {}
        if name in saved:
            return saved[name]
        if self.settings["save"] == "all":
            raise AttributeError(f"{describe_method(self.method)} has no {name}; it keeps {', '.join(saved)}")
        raise AttributeError(f'{name} was not kept: the run had save={self.settings["save"]!r}; use save="all"')

    @property
    def states(self) -> States:
        """Final states with what they are of: to go on from, or to keep as bytes; one series is the first of one."""
        if "slice" in self.settings:
            raise ValueError("a slice does not end where its final state does; take the states of the whole result")
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
        """Count the steps of a series, or the series."""
        return len(self.saved["means"] if isinstance(self.saved, LazyArrays) else jax.tree.leaves(self.saved)[0])

    def __getitem__(self, index: Any) -> "Filtered":
        """Slice one series in time, or pick one series of many."""
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
        told: dict[str, Any] = {"ys": ys, "missing": int(np.isnan(ys).sum()), "index": labels}
        return dataclasses.replace(self, saved=saved, settings=settings, **told)

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
        """Go through the series one by one."""
        if self.num_series is None:
            raise TypeError("one series is not a sequence; its arrays are, as out.means")
        return (self[i] for i in range(self.num_series))

    def to_frame(self, backend: data_frame.Backend = "pandas", *, index: Any = None) -> Any:
        """Lay the result out as a data frame, one row for each step; many series below each other, at their lengths.

        Args:
            backend: "pandas", "polars" or "pyarrow".
            index: a label for each step, say its time; default: the index that the measurements came with. It is the
                index of a pandas frame, and the first column of others.
        """
        parts = [self._columns()] if self.num_series is None else [each._columns() for each in self]
        return data_frame.make_frame(parts, backend, self.index if index is None else index)

    def to_xarray(self) -> Any:
        """Lay the result out as an `xarray.Dataset` with named axes.

        Returns:
            All that was saved, and the measurements `ys`, over `step` (labelled by the index that the measurements came
            with), `state` or `coordinate` of a measurement, `other_state` and `other_coordinate` of a covariance, and
            `series` where there are many; a coordinate `length` tells where series of other lengths end.
        """
        if not isinstance(self.saved, dict):
            raise ValueError(f'to_xarray needs arrays by name: filter with save="all", not {self.settings["save"]!r}')
        lengths = {} if self.lengths is None else {"length": np.asarray(self.lengths)}
        return xarray_dataset.make_dataset(
            {"ys": self.ys} | self.saved, self.num_series is not None, self.index, lengths
        )

    def plot(self, coordinate: int = 0, **options: Any) -> Any:
        """Draw one state with what was measured of it; a `matplotlib.figure.Figure`.

        Args:
            coordinate: which state.
            **options: of `wolf.plots.series`, as `truth=`, `ys=` or `ax=`; `with_levels=` draws what was learned about
                R and Q below, as is done anyway where Q was learned.
        """
        from wolf.plots.series_plot import with_measurements

        return with_measurements(self, coordinate, **options)

    def _columns(self) -> dict[str, np.ndarray]:
        if not isinstance(self.saved, dict) or "means" not in self.saved:
            raise ValueError(f'to_frame needs means: filter with save="all", not save={self.settings["save"]!r}')
        variances = self.variances if {"covs", "variances"} & self.saved.keys() else None
        columns = {"step": np.arange(len(self))} | data_frame.belief_columns(self.means, variances)
        titles = {"weights": "weight", "outliers": "outlier", "outlier_probabilities": "outlier_probability"}
        for name, title in (titles | {"residuals": "residual", "nis": "nis"}).items():
            if name in self.saved:
                columns |= data_frame.spread(title, self.saved[name])
        return columns

    def __repr__(self) -> str:
        """Tell the sizes, the method, what was refused and where the state ended."""
        lines = [f"  {words}" if name == "outliers" else f"  {name}: {words}" for name, words in self._facts()]
        more = map("  {}".format, remarks(self) if self.num_series is None else [])
        return "\n".join([self._title(), *lines, *more])

    def _repr_html_(self) -> str:
        """Tell the same in a notebook, with a small picture of the first state."""
        saved = self.saved if isinstance(self.saved, dict) else {}
        picture = ""
        if self.num_series is None and "means" in saved and len(self):
            variances = self.variances[:, 0] if {"covs", "variances"} & saved.keys() else None
            deviation = None if variances is None else np.sqrt(np.maximum(variances, 0.0))
            refused = saved.get("outliers", np.zeros(len(self), bool))
            refused = refused if refused.ndim == 1 else refused.any(axis=1)
            picture = html.sketch(self.means[:, 0], deviation, refused, "the first state, and refused measurements")
        more = remarks(self) if self.num_series is None else []
        return html.page(self._title(), self._facts(), picture, notes=more)

    def _title(self) -> str:
        many = "" if self.num_series is None else f"{self.num_series} series x "
        return f"Filtered: {many}{count(self.settings['steps'], 'step')}, method {describe_method(self.method)}"

    def _facts(self) -> list[tuple[str, str]]:
        """List what there is to tell, by name."""
        rows = []
        saved = self.saved if isinstance(self.saved, dict) else {}
        if "outliers" in saved:
            found = f"{count(saved['outliers'].sum(), 'outlier')} of {saved['outliers'].size}"
            rows.append(("outliers", f"{found}, {count(self.missing, 'missing number')}"))
        if "log_liks" in saved:
            rows.append(("log-likelihood", f"{np.sum(self.log_likelihood):.6g}"))
        named = isinstance(self.saved, dict) and saved.keys() <= set(ARRAYS)
        rows.append(("kept", ", ".join(saved) if named else "what your save function returned, in .saved"))
        if self.num_series is None:
            rows.append(("final state", describe_state(self.final)))
        return rows


def _cut(saved: Any, piece: Callable[[np.ndarray], np.ndarray]) -> Any:
    return saved.cut(piece) if isinstance(saved, LazyArrays) else jax.tree.map(piece, saved)


def _total(values: np.ndarray, num_series: int | None) -> float | np.ndarray:
    return float(values.sum()) if num_series is None else np.nansum(values, axis=1)
