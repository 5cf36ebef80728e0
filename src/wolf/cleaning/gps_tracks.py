"""Tracks on the globe: latitude and longitude as metres on a plane, cleaned there, and back.

Positions are drawn on the plane that touches the ellipsoid in the middle of a track. With the radii of curvature of
WGS 84 in the meridian, M = a (1 - e²) / w³, and across it, N = a / w, w² = 1 - e² sin² latitude,

    east = N cos(latitude₀) (longitude - longitude₀),    north = M (latitude - latitude₀).

The way back is exact. Distances are right in the middle; at Δ radians of latitude from it those to the east are off by
the factor cos(latitude₀ + Δ) / cos(latitude₀), which is 1.02 at 100 km from 52° N. Constants: NIMA TR8350.2 (2000),
table 3.1.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from wolf import api, fitting, validation
from wolf.beliefs.density import deviations
from wolf.cleaning.options import Options, Series
from wolf.cleaning.pipeline import choose_method, clean
from wolf.cleaning.prepared_series import longest_rows
from wolf.cleaning.retrospective import KINDS, RETROSPECTIVE
from wolf.cleaning.runs import filter_retrospectively, fit_window, project
from wolf.cleaning.sampling import Order, gaps_of
from wolf.fitting.initial_values import DYNAMICS_SHARE, OBS_SHARE, difference_var
from wolf.models.registry import parse
from wolf.models.structural import Sum

SEMI_MAJOR = 6_378_137.0  # m
FLATTENING = 1 / 298.257223563
MOST_LATITUDE, MOST_LONGITUDE = 90.0, 360.0  # degrees
POLAR = 85.0  # degrees of latitude beyond which no plane has east and north
STRETCHED = 0.05  # share by which distances may be off before a person is told
WILDEST = 30.0  # times as inaccurate as usual, at most: what is worse is refused by the filter anyway
MODEL = "wiener-velocity"
TWO_SIDED = 5.991464547107979  # 95 % of χ² with two degrees of freedom: a circle that holds 95 %


class LocalPlane(NamedTuple):
    """The plane around a place, in metres to the east and to the north.

    Attributes:
        latitude: of the place, in degrees.
        longitude: of the place, in degrees.

    Example:
        >>> plane = LocalPlane(0.0, 180.0)
        >>> plane.to_plane(np.array([0.0, 1.0]), np.array([-179.0, 180.0])).round(0).tolist()
        [[111319.0, 0.0], [0.0, 110574.0]]
    """

    latitude: float
    longitude: float

    def to_plane(self, latitude: np.ndarray, longitude: np.ndarray) -> np.ndarray:
        """Turn degrees into metres, (T, 2)."""
        east, north = self._scales()
        turned = (np.asarray(longitude, float) - self.longitude + 180.0) % 360.0 - 180.0  # the short way round
        return np.stack([east * turned, north * (np.asarray(latitude, float) - self.latitude)], axis=-1)

    def to_globe(self, metres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Turn metres, (T, 2), into latitude and longitude in degrees, the latter from -180 to 180."""
        east, north = self._scales()
        longitude = (self.longitude + metres[..., 0] / east + 180.0) % 360.0 - 180.0
        return self.latitude + metres[..., 1] / north, longitude

    def _scales(self) -> tuple[float, float]:
        """Metres in a degree to the east, and in one to the north."""
        squared = FLATTENING * (2.0 - FLATTENING)
        sine = np.sin(np.radians(self.latitude))
        curved = 1.0 - squared * sine**2
        across = SEMI_MAJOR / np.sqrt(curved)
        along = SEMI_MAJOR * (1.0 - squared) / curved**1.5
        degree = np.pi / 180.0
        return float(across * np.cos(np.radians(self.latitude)) * degree), float(along * degree)


def plane_around(latitude: np.ndarray, longitude: np.ndarray) -> LocalPlane:
    """Find the plane for a track: around its median, on whichever side of the date line.

    Args:
        latitude: (T,), in degrees; NaN where missing.
        longitude: (T,), in degrees.
    """
    known = np.isfinite(latitude) & np.isfinite(longitude)
    if not known.any():
        raise ValueError("there is no position with a latitude and a longitude")
    middle = float(np.median(latitude[known]))
    if abs(middle) > POLAR:
        raise ValueError(
            f"the track is at a latitude of {middle:.4g}, where east and north turn within a few steps; project it "
            f"yourself, by a polar stereographic map for instance, and filter its coordinates with --model {MODEL}"
        )
    turned = np.radians(longitude[known])
    around = np.degrees(np.arctan2(np.median(np.sin(turned)), np.median(np.cos(turned))))
    return LocalPlane(middle, float(around))


@dataclasses.dataclass(frozen=True)
class CleanTrack:
    """A clean track.

    Attributes:
        series: east and north in metres on the plane, as filtered.
        plane: that they are on.
        latitude: cleaned, (T,), in the order of time.
        longitude: cleaned.
        radius: of the circle that holds the true place with 95 %, in metres, (T,).
        altitude: filtered by itself, if it was given.
        notes: what a person should know.
    """

    series: Series
    plane: LocalPlane
    latitude: np.ndarray
    longitude: np.ndarray
    radius: np.ndarray
    altitude: Series | None
    notes: list[str]


def clean_track(
    latitude: Any,
    longitude: Any,
    times: Any = None,
    *,
    altitude: Any = None,
    accuracy: Any = None,
    options: Options | None = None,
    label: str = "",
) -> CleanTrack:
    """Clean positions on the globe.

    Args:
        latitude: (T,), in degrees; NaN where missing.
        longitude: (T,), in degrees.
        times: (T,), numbers; None for even steps.
        altitude: (T,), in metres; filtered by itself, as its errors come by themselves.
        accuracy: (T,), how inaccurate each position is said to be, in any unit (metres, hdop): its noise has a standard
            deviation in proportion; what is usual is fitted.
        options: how; its model is that of a track, `wiener-velocity` unless it says another. In hindsight unless they
            name a method, or what could be known at the time.
        label: of the track.

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
    given = [validation.number_array("latitude", latitude), validation.number_array("longitude", longitude)]
    stamps = None if times is None else validation.number_array("times", times)
    rows = Order(stamps)(np.arange(len(given[0])))
    assert rows is not None
    latitude, longitude = (array[rows] for array in given)
    stamps = None if stamps is None else stamps[rows]
    latitude, longitude, notes = _on_globe(latitude, longitude)
    plane = plane_around(latitude, longitude)
    metres = plane.to_plane(latitude, longitude)
    noise = None if accuracy is None else _noise(validation.number_array("accuracy", accuracy)[rows])
    series, radius = _filter(metres, stamps, noise, options, label, rows)
    cleaned = plane.to_globe(series.mean)
    height = None
    if altitude is not None:
        above = validation.number_array("altitude", altitude)[rows]
        height = _altitude(above, stamps, options, label) if np.isfinite(above).sum() > 3 else None
    return CleanTrack(series, plane, *cleaned, radius, height, [*notes, *_stretch(plane, latitude)])


def _on_globe(latitude: np.ndarray, longitude: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Take what is no place on the globe as missing; an error if most is none."""
    known = np.isfinite(latitude) & np.isfinite(longitude)
    with np.errstate(invalid="ignore"):
        off = known & ((np.abs(latitude) > MOST_LATITUDE) | (np.abs(longitude) > MOST_LONGITUDE))
    if 2 * off.sum() > known.sum():
        row = int(np.argmax(off))
        raise ValueError(
            f"latitudes lie between -90 and 90 degrees and longitudes between -360 and 360; got {latitude[row]:g} and "
            f"{longitude[row]:g}. Are they in another unit, or the wrong way round?"
        )
    notes = [f"{int(off.sum())} positions are no place on the globe: taken as missing"] if off.any() else []
    return np.where(off, np.nan, latitude), np.where(off, np.nan, longitude), notes


def _noise(accuracy: np.ndarray) -> np.ndarray:
    """Turn accuracies into factors on the usual standard deviation; one where nothing usable is said."""
    usable = np.isfinite(accuracy) & (accuracy > 0)
    if not usable.any():
        return np.ones(len(accuracy))
    usual = float(np.median(accuracy[usable]))
    return np.where(usable, np.clip(np.where(usable, accuracy, usual) / usual, 1 / WILDEST, WILDEST), 1.0)


def _stretch(plane: LocalPlane, latitude: np.ndarray) -> list[str]:
    known = np.radians(latitude[np.isfinite(latitude)])
    off = np.abs(np.cos(known) / np.cos(np.radians(plane.latitude)) - 1.0).max()
    words = f"the track is so long that distances on its plane are off by up to {off:.0%} at its ends"
    return [words] if off > STRETCHED else []


def _filter(
    metres: np.ndarray, times: np.ndarray | None, noise: np.ndarray | None, options: Options, label: str, rows: Any
) -> tuple[Series, np.ndarray]:
    """Fit and filter on the plane, each row with its own noise."""
    named = parse(MODEL if options.model == "auto" else options.model)
    named = named if named.columns is None else parse(MODEL)  # a level or a season is no way to move
    unit, gaps = gaps_of(times)
    window = slice(*fit_window(len(metres)))
    step_var = difference_var(metres[window])
    prior = named.start(metres, step_var)
    known = named.given | dict(options.parameters)
    free = [name for name in named.parameters if name not in known]

    def build(part: slice, start: Any, **variances: Any) -> Any:
        model = named.builder(None if gaps is None else gaps[part], start, metres.shape[1])(**known, **variances)
        if noise is None:
            return model
        return dataclasses.replace(model, R=model.R * (noise[part] ** 2)[:, None, None])

    found = None
    if free:
        start = named.start(metres[window], step_var) if window.start else prior
        guesses = {name: (OBS_SHARE if name == "obs_var" else DYNAMICS_SHARE) * step_var for name in free}
        fit = lambda **variances: build(window, start, **variances)  # noqa: E731
        found = fitting.fit(fit, metres[window], start=guesses, restarts=options.restarts, affine=True)
    parameters = known | (found.parameters if found else {})
    parameters = {name: parameters[name] for name in named.parameters}
    kept: dict[str, Any]
    if isinstance(named, Sum) and options.method is None and not (options.causal or options.smooth):
        ratio = 1.0 if noise is None else noise**2
        longest = longest_rows(options, unit, len(metres))
        kept, _ = filter_retrospectively(named, parameters, metres, gaps, longest, options.level, ratio=ratio)
        kept["fault"], method = np.array(KINDS)[kept["fault"]], RETROSPECTIVE
        around = kept.pop("prediction_half")
        kept |= {"prediction_lower": kept["mean"] - around, "prediction_upper": kept["mean"] + around}
    else:
        model = build(slice(None), prior, **{name: parameters[name] for name in free})
        chosen, method = choose_method(options, free, unit, model)
        kept = _by_method(model, metres, chosen, options)
    variance = kept.pop("variance")
    half = deviations(options.level) * np.sqrt(variance)
    series = Series(
        label=label,
        rows=rows,
        columns=(0, 1),
        times=times,
        values=metres,
        lower=kept["mean"] - half,
        upper=kept["mean"] + half,
        parameters=parameters,
        fit=found,
        fit_rows=(window.start, window.stop),
        future=None,
        model=named.name,
        method=method,
        even=gaps is None,
        unit=unit,
        **kept,
    )
    return series, np.sqrt(TWO_SIDED * variance.max(axis=1))


def _by_method(model: Any, metres: np.ndarray, method: Any, options: Options) -> dict[str, Any]:
    """Filter, or smooth, by a method."""
    out = api.filter(model, metres, method=method)
    belief: Any = api.smooth(out) if options.smooth or not options.causal else out
    mean, variance = project(model, belief.means, belief.covs)
    spreads = np.sqrt(np.diagonal(out.innovation_covs, axis1=1, axis2=2))
    kept = {"mean": mean, "variance": variance, "weight": out.weights, "outlier": out.outliers}
    return kept | {"standardised": out.residuals / spreads, "nis": out.nis, "log_density": out.log_liks}


def _altitude(altitude: np.ndarray, times: np.ndarray | None, options: Options, label: str) -> Series | None:
    """Filter the altitude by itself; None for one that says nothing, as a constant."""
    own = dataclasses.replace(options, model="local-level", parameters={}, diagnostics=False, forecast=0)
    try:
        return clean(altitude[:, None], times, own, names=[f"{label} altitude".strip()])[0]
    except ValueError:
        return None
