"""`wolf.report(out, path)`: an HTML report of a result of `wolf.filter`."""

from os import PathLike

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.beliefs.density import deviations
from wolf.cleaning import CleanedSeries, Options
from wolf.cleaning.sampling import gaps_of
from wolf.numerics.precision import precision
from wolf.reports.page import write_report
from wolf.results import Filtered, Smoothed, describe_method


def report(
    out: Filtered | Smoothed,
    path: str | PathLike[str],
    *,
    times: ArrayLike | None = None,
    names: list[str] | None = None,
    title: str = "A filtered series",
    level: float = 0.95,
) -> None:
    """Write an HTML report of a result: the series with its intervals, outliers with reasons, and checks.

    Args:
        out: from `wolf.filter` or `wolf.filter_many` with `save="all"`, or from `wolf.smooth`.
        path: of the HTML file.
        times: (T,), numbers or dates. Default: the index of the measurements, or 0, 1, ...
        names: of the M measured coordinates. Default: `out.obs_names`.
        title: of the page.
        level: probability of the intervals.

    Example:
        >>> import numpy as np, os, tempfile, wolf
        >>> out = wolf.filter(wolf.models.local_level(level_var=0.1, obs_var=1.0), np.arange(9.0))
        >>> path = os.path.join(tempfile.mkdtemp(), "report.html")
        >>> wolf.report(out, path)
        >>> os.path.getsize(path) > 10_000
        True
    """
    if not isinstance(out, Filtered | Smoothed):
        raise ValueError(f"report needs a result of wolf.filter or wolf.smooth; got {validation.short_repr(out)}")
    filtered = out.filtered if isinstance(out, Smoothed) else out
    if filtered.settings["save"] != "all":
        raise ValueError(
            f'report needs the predictions: filter with save="all", not save={filtered.settings["save"]!r}'
        )
    stamps, origin = _times(_index(filtered) if times is None else times)
    many = [filtered] if filtered.num_series is None else list(filtered)
    means = [out.means] if filtered.num_series is None else list(out.means)
    covs = [_covs(out)] if filtered.num_series is None else list(_covs(out))
    series = [
        _series(each, mean[: len(each)], cov[: len(each)], stamps, level, f"series {i}" if len(many) > 1 else "")
        for i, (each, mean, cov) in enumerate(zip(many, means, covs, strict=True))
    ]
    count = series[0].values.shape[1]
    if names is None:
        plain = [f"y{j}" for j in range(count)] if count > 1 else ["measurement"]
        names = list(filtered.obs_names or plain)
    if len(names) != count:
        raise ValueError(f"names must be one for each of the {count} measured coordinates; got {len(names)}")
    past = not isinstance(out, Smoothed)
    options = Options(smooth=not past, causal=past, level=level, method=filtered.method)
    runs = dict(zip((id(each) for each in series), many, strict=True))
    write_report(str(path), title, series, options, names=names, origin=origin, runs=runs, past=past, labels=False)


def _covs(out: Filtered | Smoothed) -> np.ndarray:
    try:
        return np.asarray(out.covs)
    except AttributeError as error:
        raise ValueError(f"report needs covariances, and so a Gaussian filter: {error}") from error


def _index(out: Filtered) -> np.ndarray | None:
    """Return the index of the measurements, if it has numbers or dates in order."""
    labels = None if out.index is None or out.num_series is not None else np.asarray(out.index)
    if labels is None or labels.dtype.kind not in "iufM" or not len(labels) or np.any(labels[1:] < labels[:-1]):
        return None
    return labels


def _times(times: ArrayLike | None) -> tuple[np.ndarray | None, int | None]:
    """Convert times to numbers, and dates to seconds since the first of them."""
    if times is None:
        return None, None
    stamps = np.asarray(times)
    if stamps.dtype.kind == "M":
        nanoseconds = stamps.astype("datetime64[ns]").astype(np.int64)
        return (nanoseconds - nanoseconds[0]) / 1e9, int(nanoseconds[0])
    return validation.number_array("times", times), None


def _series(
    out: Filtered, means: np.ndarray, covs: np.ndarray, times: np.ndarray | None, level: float, label: str
) -> CleanedSeries:
    """Convert a result to a cleaned series: the signal in place of the state."""
    if times is not None and len(times) != len(out):
        raise ValueError(f"times must have one entry for each of the {len(out)} steps; got {len(times)}")
    mean, variance = _signal(out, means, covs)
    half = deviations(level) * np.sqrt(variance)
    with np.errstate(invalid="ignore"):
        standardised = out.residuals / np.sqrt(np.diagonal(out.innovation_covs, axis1=1, axis2=2))
    unit, gaps = gaps_of(times)
    return CleanedSeries(
        label=label,
        rows=np.arange(len(out)),
        columns=tuple(range(out.ys.shape[1])),
        times=times,
        values=out.ys,
        mean=mean,
        lower=mean - half,
        upper=mean + half,
        weight=out.weights,
        outlier=out.outliers,
        standardised=np.where(np.isfinite(out.ys), standardised, np.nan),
        nis=out.nis,
        log_density=out.log_liks,
        parameters={},
        fit=None,
        fit_rows=(0, len(out)),
        model=repr(out.model).splitlines()[0],
        method=describe_method(out.method),
        even=gaps is None,
        unit=unit,
    )


def _signal(out: Filtered, means: np.ndarray, covs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute mean and variance of the signal, (T, M) each, to first order for a nonlinear measurement."""

    def one(t: jax.Array, mean: jax.Array, cov: jax.Array, u: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        observe = out.model.at(t).projection(u)
        jacobian = jax.jacfwd(observe)(mean)
        return observe(mean), jnp.sum((jacobian @ cov) * jacobian, axis=1)

    with precision("float64"):
        inputs = None if out.inputs is None else jnp.asarray(out.inputs)
        steps = (jnp.arange(len(out)), jnp.asarray(means), jnp.asarray(covs), inputs)
        mean, variance = jax.vmap(one, in_axes=(0, 0, 0, None if inputs is None else 0))(*steps)
        return np.asarray(mean), np.asarray(variance)
