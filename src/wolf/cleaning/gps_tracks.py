"""Cleaning of tracks of latitude and longitude, in metres on a local plane.

Positions are projected on the plane tangent to the ellipsoid in the middle of a track. With the meridional radius of
curvature of WGS 84, M = a (1 - e²) / w³, and that of the prime vertical, N = a / w, w² = 1 - e² sin² latitude,

    east = N cos(latitude₀) (longitude - longitude₀),    north = M (latitude - latitude₀).

The inverse is exact. Distances are exact in the middle; at Δ radians of latitude from it those to the east are wrong by
the factor cos(latitude₀ + Δ) / cos(latitude₀), which is 1.02 at 100 km from 52° N. Constants: NIMA TR8350.2 (2000),
table 3.1.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolf import api, fitting, validation
from wolf.beliefs import Gaussian
from wolf.beliefs.density import deviations
from wolf.cleaning.options import AUTO, Options
from wolf.cleaning.pipeline import clean, select_method
from wolf.cleaning.prepared_series import max_fault_rows
from wolf.cleaning.reported_noise import noise_ratio
from wolf.cleaning.result import CleanedSeries
from wolf.cleaning.retrospective import FAULTS, RETROSPECTIVE
from wolf.cleaning.runs import filter_retrospectively, fit_window, project
from wolf.cleaning.sampling import Order, gaps_of
from wolf.fitting.initial_values import DYNAMICS_SHARE, OBS_SHARE, difference_var
from wolf.interfaces import Filter
from wolf.models.registry import Named, parse
from wolf.models.structural import Sum
from wolf.results import Filtered, Smoothed
from wolf.statespace import LinearModel

SEMI_MAJOR = 6_378_137.0  # m
FLATTENING = 1 / 298.257223563
MAX_LATITUDE, MAX_LONGITUDE = 90.0, 360.0  # degrees
MAX_PLANE_LATITUDE = 85.0  # degrees; beyond it the directions east and north turn within a few steps
MAX_DISTORTION = 0.05  # relative error of distances that is not reported
MODEL = "wiener-velocity"
CHI2_95_2D = 5.991464547107979  # 95 % quantile of χ² with two degrees of freedom


class LocalPlane(NamedTuple):
    """Local tangent plane around a position, in metres to the east and to the north.

    Attributes:
        latitude: of the origin, in degrees.
        longitude: of the origin, in degrees.

    Example:
        >>> plane = LocalPlane(0.0, 180.0)
        >>> plane.to_plane(np.array([0.0, 1.0]), np.array([-179.0, 180.0])).round(0).tolist()
        [[111319.0, 0.0], [0.0, 110574.0]]
    """

    latitude: float
    longitude: float

    def to_plane(self, latitude: np.ndarray, longitude: np.ndarray) -> np.ndarray:
        """Project degrees to metres, (T, 2)."""
        east, north = self._scales()
        wrapped = (
            np.asarray(longitude, float) - self.longitude + 180.0
        ) % 360.0 - 180.0  # the shorter way round the globe
        return np.stack([east * wrapped, north * (np.asarray(latitude, float) - self.latitude)], axis=-1)

    def to_globe(self, metres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Convert metres, (T, 2), to latitude and longitude in degrees, the latter from -180 to 180."""
        east, north = self._scales()
        longitude = (self.longitude + metres[..., 0] / east + 180.0) % 360.0 - 180.0
        return self.latitude + metres[..., 1] / north, longitude

    def _scales(self) -> tuple[float, float]:
        """Compute the metres per degree to the east and to the north."""
        squared = FLATTENING * (2.0 - FLATTENING)
        sine = np.sin(np.radians(self.latitude))
        curved = 1.0 - squared * sine**2
        across = SEMI_MAJOR / np.sqrt(curved)
        along = SEMI_MAJOR * (1.0 - squared) / curved**1.5
        degree = np.pi / 180.0
        return float(across * np.cos(np.radians(self.latitude)) * degree), float(along * degree)


def plane_around(latitude: np.ndarray, longitude: np.ndarray) -> LocalPlane:
    """Compute the local plane of a track, around its median; tracks may cross the date line.

    Args:
        latitude: (T,), in degrees; NaN where missing.
        longitude: (T,), in degrees.
    """
    known = np.isfinite(latitude) & np.isfinite(longitude)
    if not known.any():
        raise ValueError("there is no position with a latitude and a longitude")
    middle = float(np.median(latitude[known]))
    if abs(middle) > MAX_PLANE_LATITUDE:
        raise ValueError(
            f"the track is at a latitude of {middle:.4g}, where the directions east and north turn within a few steps; "
            f"project it first, for example by a polar stereographic map, and filter the coordinates with "
            f"--model {MODEL}"
        )
    angle = np.radians(longitude[known])
    around = np.degrees(np.arctan2(np.median(np.sin(angle)), np.median(np.cos(angle))))
    return LocalPlane(middle, float(around))


@dataclasses.dataclass(frozen=True)
class CleanedTrack:
    """A cleaned track.

    Attributes:
        series: filtered coordinates, in metres east and north on the plane.
        plane: the local plane.
        latitude: cleaned, (T,), in the order of time.
        longitude: cleaned, (T,).
        radius: of the circle that contains the true position with 95 % probability, in metres, (T,).
        altitude: filtered by itself, if given.
        notes: remarks about the data.
    """

    series: CleanedSeries
    plane: LocalPlane
    latitude: np.ndarray
    longitude: np.ndarray
    radius: np.ndarray
    altitude: CleanedSeries | None
    notes: list[str]


def clean_track(
    latitude: ArrayLike,
    longitude: ArrayLike,
    times: ArrayLike | None = None,
    *,
    altitude: ArrayLike | None = None,
    accuracy: ArrayLike | None = None,
    options: Options | None = None,
    label: str = "",
) -> CleanedTrack:
    """Clean a track of latitudes and longitudes.

    Args:
        latitude: (T,), in degrees; NaN where missing.
        longitude: (T,), in degrees.
        times: (T,), numbers; None for even steps.
        altitude: (T,), in metres; filtered by itself, since its errors are independent of the others.
        accuracy: (T,), reported inaccuracy of each position, in any unit (metres, hdop). The standard deviation of its
            noise is proportional to it; the factor is fitted.
        options: how to clean. The model is that of a track, `wiener-velocity` by default. The search for faults is
            retrospective unless the options name a method, or are causal.
        label: name of the track.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> north = 52.5 + 1e-5 * np.arange(100) + 2e-5 * rng.normal(size=100)
        >>> north[50] += 0.01
        >>> known = Options(parameters={"accel_rate": 0.01, "obs_var": 4.0})  # otherwise fitted
        >>> track = clean_track(north, np.full(100, 13.4) + 2e-5 * rng.normal(size=100), options=known)
        >>> np.flatnonzero(track.series.outlier).tolist(), bool(abs(track.latitude[50] - 52.5005) < 1e-4)
        ([50], True)
    """
    options = Options() if options is None else options
    positions = [validation.number_array("latitude", latitude), validation.number_array("longitude", longitude)]
    stamps = None if times is None else validation.number_array("times", times)
    rows = Order(stamps)(np.arange(len(positions[0])))
    assert rows is not None
    stamps = None if stamps is None else stamps[rows]
    lat, lon, notes = _blank_impossible(*(array[rows] for array in positions))
    plane = plane_around(lat, lon)
    metres = plane.to_plane(lat, lon)
    noise = None if accuracy is None else noise_ratio(validation.number_array("accuracy", accuracy)[rows])
    series, radius = _filter(metres, stamps, noise, options, label, rows)
    cleaned = plane.to_globe(series.mean)
    height = None
    if altitude is not None:
        above = validation.number_array("altitude", altitude)[rows]
        height = _clean_altitude(above, stamps, options, label) if np.isfinite(above).sum() > 3 else None
    return CleanedTrack(series, plane, *cleaned, radius, height, [*notes, *_distortion_notes(plane, lat)])


def _blank_impossible(latitude: np.ndarray, longitude: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Set impossible positions to missing; an error if most are impossible."""
    known = np.isfinite(latitude) & np.isfinite(longitude)
    with np.errstate(invalid="ignore"):
        off = known & ((np.abs(latitude) > MAX_LATITUDE) | (np.abs(longitude) > MAX_LONGITUDE))
    if 2 * off.sum() > known.sum():
        row = int(np.argmax(off))
        raise ValueError(
            f"latitudes must be between -90 and 90 degrees and longitudes between -360 and 360; got {latitude[row]:g} "
            f"and {longitude[row]:g}. Are they in another unit, or interchanged?"
        )
    notes = [f"{int(off.sum())} impossible positions are treated as missing"] if off.any() else []
    return np.where(off, np.nan, latitude), np.where(off, np.nan, longitude), notes


def _distortion_notes(plane: LocalPlane, latitude: np.ndarray) -> list[str]:
    known = np.radians(latitude[np.isfinite(latitude)])
    off = np.abs(np.cos(known) / np.cos(np.radians(plane.latitude)) - 1.0).max()
    note = f"the track is so long that distances on its plane are wrong by up to {off:.0%} at its ends"
    return [note] if off > MAX_DISTORTION else []


class _FittedTrack(NamedTuple):
    """Model of a track with its fitted parameters, and what the fit used."""

    named: Named
    build: Callable[..., LinearModel]
    prior: Gaussian
    parameters: dict[str, float]
    free: list[str]
    fit: fitting.Fit | None
    window: slice
    unit: float
    gaps: np.ndarray | None


def _fit(metres: np.ndarray, times: np.ndarray | None, noise: np.ndarray | None, options: Options) -> _FittedTrack:
    """Fit the unknown variances on the plane, each row with its own noise."""
    named = parse(MODEL if options.model == AUTO else options.model)
    named = named if named.columns is None else parse(MODEL)  # a level or a season is no model of motion
    unit, gaps = gaps_of(times)
    window = slice(*fit_window(len(metres)))
    step_var = difference_var(metres[window])
    prior = named.start(metres, step_var)
    known = named.given | dict(options.parameters)
    free = [name for name in named.parameters if name not in known]

    def build(part: slice, start: Gaussian, **variances: float) -> LinearModel:
        model = named.builder(None if gaps is None else gaps[part], start, metres.shape[1])(**known, **variances)
        if noise is None:
            return model
        return dataclasses.replace(model, R=model.R * (noise[part] ** 2)[:, None, None])

    found = None
    if free:
        start = named.start(metres[window], step_var) if window.start else prior
        guesses = {name: (OBS_SHARE if name == "obs_var" else DYNAMICS_SHARE) * step_var for name in free}
        builder = partial(build, window, start)
        found = fitting.fit(builder, metres[window], start=guesses, restarts=options.restarts, affine=True)
    parameters = known | (found.parameters if found else {})
    parameters = {name: parameters[name] for name in named.parameters}
    return _FittedTrack(named, build, prior, parameters, free, found, window, unit, gaps)


def _filter(
    metres: np.ndarray,
    times: np.ndarray | None,
    noise: np.ndarray | None,
    options: Options,
    label: str,
    rows: np.ndarray,
) -> tuple[CleanedSeries, np.ndarray]:
    """Fit and filter on the plane; the series, and the radius of the circle around each position."""
    track = _fit(metres, times, noise, options)
    arrays: dict[str, Any]
    if isinstance(track.named, Sum) and options.method is None and not (options.causal or options.smooth):
        ratio = 1.0 if noise is None else noise**2
        longest = max_fault_rows(options, track.unit, len(metres))
        arrays, _ = filter_retrospectively(
            track.named, track.parameters, metres, track.gaps, longest, options.level, ratio=ratio
        )
        arrays["fault"], method = np.array(FAULTS)[arrays["fault"]], RETROSPECTIVE
        half = arrays.pop("prediction_half")
        arrays |= {"prediction_lower": arrays["mean"] - half, "prediction_upper": arrays["mean"] + half}
    else:
        model = track.build(slice(None), track.prior, **{name: track.parameters[name] for name in track.free})
        chosen, method = select_method(options, track.free, track.unit, model)
        arrays = _run_method(model, metres, chosen, options)
    variance = arrays.pop("variance")
    half = deviations(options.level) * np.sqrt(variance)
    series = CleanedSeries(
        label=label,
        rows=rows,
        columns=(0, 1),
        times=times,
        values=metres,
        lower=arrays["mean"] - half,
        upper=arrays["mean"] + half,
        parameters=track.parameters,
        fit=track.fit,
        fit_rows=(track.window.start, track.window.stop),
        model=track.named.name,
        method=method,
        even=track.gaps is None,
        unit=track.unit,
        **arrays,
    )
    return series, np.sqrt(CHI2_95_2D * variance.max(axis=1))


def _run_method(model: LinearModel, metres: np.ndarray, method: Filter, options: Options) -> dict[str, Any]:
    """Filter by a method, and smooth unless causal."""
    out = api.filter(model, metres, method=method)
    belief: Smoothed | Filtered = api.smooth(out) if options.smooth or not options.causal else out
    mean, variance = project(model, belief.means, belief.covs)
    spreads = np.sqrt(np.diagonal(out.innovation_covs, axis1=1, axis2=2))
    arrays = {"mean": mean, "variance": variance, "weight": out.weights, "outlier": out.outliers}
    return arrays | {"standardised": out.residuals / spreads, "nis": out.nis, "log_density": out.log_liks}


def _clean_altitude(
    altitude: np.ndarray, times: np.ndarray | None, options: Options, label: str
) -> CleanedSeries | None:
    """Filter the altitude by itself; None if it cannot be fitted, such as a constant."""
    own = dataclasses.replace(options, model="local-level", parameters={}, diagnostics=False, forecast=0)
    try:
        return clean(altitude[:, None], times, own, names=[f"{label} altitude".strip()])[0]
    except ValueError:
        return None
