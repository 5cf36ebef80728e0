"""Data of the charts of a report: arrays as base64, tests of the residuals as short lists."""

import base64
from typing import Any

import numpy as np

from wolf.cleaning import CleanedSeries
from wolf.cleaning.result import columnwise
from wolf.diagnostics.faults.incidents import MIN_GAP_ROWS
from wolf.numerics.robust import MAD_TO_STD
from wolf.numerics.rolling import running_median
from wolf.numerics.runs import runs_of

ChartData = dict[str, Any]  # of one chart, for JSON

MAX_POINTS = 100_000  # of all series together; more are thinned, outliers last
BINS = np.linspace(-5.0, 5.0, 51)  # of standardised residuals; larger ones are counted at the ends
MAX_LAG = 40
NOISE_WINDOW = 101  # errors of the running median of the noise level
MAX_NOISE_POINTS = 600  # of the chart of the noise level, which changes slowly
MAX_GAPS = 2_000  # that are drawn
MIN_NOISE_ERRORS = 3 * NOISE_WINDOW  # of a series with such a chart


def pack(array: np.ndarray, kind: str) -> ChartData:
    """Encode an array for the browser.

    Args:
        array: (T,).
        kind: "f8", "f4" or "u1".

    Example:
        >>> pack(np.array([1.0]), "u1")
        {'kind': 'u1', 'data': 'AQ=='}
    """
    return {"kind": kind, "data": base64.b64encode(np.ascontiguousarray(array, f"<{kind}").tobytes()).decode()}


def thin(outlier: np.ndarray, max_points: int) -> np.ndarray:
    """Select rows to show: all, or evenly spaced ones and as many outliers as fit.

    Example:
        >>> thin(np.array([False, True, False, False]), 3).tolist()
        [0, 1, 3]
    """
    count = len(outlier)
    if count <= max_points:
        return np.arange(count)
    flagged = np.flatnonzero(outlier)
    flagged = flagged[:: max(1, -(-len(flagged) // (max_points // 2)))]
    even = np.unique(np.linspace(0, count - 1, max_points - len(flagged)).astype(int))
    return np.unique(np.concatenate([even, flagged]))[:max_points]


def series_numbers(each: CleanedSeries, names: list[str], origin: int | None, max_points: int) -> list[ChartData]:
    """Compute the data of the charts of one series, one set per column."""
    outlier, weight = each.outliers_by_column, columnwise(each.weight)
    rows = thin(each.outlier_rows, max_points)
    times = np.arange(len(each.values), dtype=float) if each.times is None else each.times
    times = times if origin is None else times + origin / 1e9
    pictures = []
    for k, j in enumerate(each.columns):
        own = min(k, outlier.shape[1] - 1)
        label = " ".join(filter(None, [each.label, names[j] if len(each.columns) > 1 or not each.label else ""]))
        pictures.append(
            {
                "label": label,
                "column": names[j] if len(each.columns) == 1 or outlier.shape[1] > 1 else "",
                "series": each.label.removesuffix(names[j]).rstrip() if len(each.columns) == 1 else each.label,
                "rows": each.times is None,
                "shown": len(rows),
                "count": len(each.values),
                "time": pack(times[rows], "f8"),
                "value": pack(_bounded(each.values[rows, k]), "f4"),
                "mean": pack(each.mean[rows, k], "f4"),
                "half": pack((each.upper - each.mean)[rows, k], "f4"),
                "weight": pack(np.round(255 * np.clip(weight[rows, own], 0, 1)), "u1"),
                "outlier": pack(outlier[rows, own], "u1"),
                "nis": pack(_bounded(each.nis[rows]), "f4"),
                "forecast": _encode_forecast(each, k, origin),
                "gaps": gap_ranges(each, k, times),
            }
            | _encode_faults(each, rows, k)
            | _prediction_half(each, rows, k)
            | _noise_level(each.standardised[:, k], outlier[:, own], times)
            | residual_tests(each, k)
        )
    return pictures


def gap_ranges(each: CleanedSeries, column: int, times: np.ndarray) -> list[list[float]]:
    """List the gaps of a column, each with the times of the last row before it and of the first row after it.

    Args:
        each: cleaned series.
        column: of the series.
        times: of the chart, (T,).
    """
    last = len(times) - 1
    runs = [run for run in runs_of(np.isnan(each.values[:, column])) if run[1] - run[0] >= MIN_GAP_ROWS]
    found = [(max(first - 1, 0), min(stop, last)) for first, stop in runs]
    if each.times is not None:
        jumps = np.flatnonzero(np.diff(each.times) > MIN_GAP_ROWS * each.unit)
        found += [(row, row + 1) for row in jumps.tolist()]
    found = sorted(found, key=lambda ends: times[ends[0]] - times[ends[1]])[:MAX_GAPS]
    return [[float(times[first]), float(times[stop])] for first, stop in sorted(found)]


def residual_tests(each: CleanedSeries, column: int) -> ChartData:
    """Compare the residuals of a column with those of a correct model."""
    outlier = each.outliers_by_column
    own = outlier[:, min(column, outlier.shape[1] - 1)]
    return _tests(each.standardised[:, column], own, each.nis[~each.outlier_rows], len(each.columns))


def _encode_faults(each: CleanedSeries, rows: np.ndarray, column: int) -> ChartData:
    """Encode the faults as numbers, if they were classified; 0 is none."""
    if each.fault is None:
        return {}
    found = np.asarray(each.fault).astype(str)
    own = found[rows] if found.ndim == 1 else found[rows, min(column, found.shape[1] - 1)]
    names = [name for name in np.unique(own).tolist() if name]
    number = {name: i + 1 for i, name in enumerate(names)}
    return {"kinds": names, "kind": pack(np.array([number.get(name, 0) for name in own.tolist()]), "u1")}


def _prediction_half(each: CleanedSeries, rows: np.ndarray, column: int) -> ChartData:
    """Compute half the width of the prediction interval, if there is one."""
    if each.prediction_upper is None:
        return {}
    return {"prediction_half": pack(_bounded((each.prediction_upper - each.mean)[rows, column]), "f4")}


def _noise_level(residuals: np.ndarray, outlier: np.ndarray, times: np.ndarray) -> ChartData:
    """Estimate the size of the errors over time, relative to the model; none for a short series."""
    usable = np.isfinite(residuals) & ~outlier
    if usable.sum() < MIN_NOISE_ERRORS:
        return {"noise": None, "noise_peak": None}
    level = MAD_TO_STD * running_median(np.abs(residuals[usable]), NOISE_WINDOW, "reflect")
    noise = np.interp(np.arange(len(residuals)), np.flatnonzero(usable), level)
    rows = thin(np.zeros(len(noise), bool), MAX_NOISE_POINTS)
    return {
        "noise": {"time": pack(times[rows], "f8"), "size": pack(noise[rows], "f4")},
        "noise_peak": _noise_peak(noise),
    }


def _noise_peak(noise: np.ndarray) -> ChartData:
    """Find the row with the largest noise, and its ratio to the median."""
    row = int(np.argmax(noise))
    return {"row": row, "ratio": float(noise[row]) / max(float(np.median(noise)), 1e-300)}


def _tests(residuals: np.ndarray, outlier: np.ndarray, nis: np.ndarray, columns: int) -> ChartData:
    """Compute the histogram and autocorrelation of residuals, and the share of NIS (no outliers) in its 95 % band."""
    from scipy.special import gammaincinv

    measured = np.isfinite(residuals)
    good = residuals[measured & ~outlier]
    counts = np.histogram(np.clip(residuals[measured], BINS[0], BINS[-1]), BINS)[0]
    flagged = np.histogram(np.clip(residuals[measured & outlier], BINS[0], BINS[-1]), BINS)[0]
    band = [2.0 * float(gammaincinv(0.5 * columns, p)) for p in (0.025, 0.975)]
    finite_nis = nis[np.isfinite(nis)]
    return {
        "bins": (0.5 * (BINS[1:] + BINS[:-1])).round(3).tolist(),
        "counts": counts.tolist(),
        "flagged_counts": flagged.tolist(),
        "measured": int(measured.sum()),
        "correlations": correlations(good, MAX_LAG).round(4).tolist(),
        "unflagged": len(good),
        "bias": float(good.mean()) if good.size else 0.0,
        "band": band,
        "inside": float(np.mean((finite_nis >= band[0]) & (finite_nis <= band[1])))
        if finite_nis.size
        else float("nan"),
    }


def correlations(residuals: np.ndarray, lags: int) -> np.ndarray:
    """Compute the autocorrelation at lags 1, 2, ...

    Example:
        >>> correlations(np.array([1.0, -1.0] * 50), 2).round(2).tolist()
        [-0.99, 0.98]
    """
    centred = residuals - residuals.mean() if residuals.size else residuals
    total = float(np.sum(centred**2))
    last = min(lags, len(residuals) - 1)
    if total == 0.0 or last < 1:
        return np.zeros(0)
    return np.array([float(np.sum(centred[lag:] * centred[:-lag])) for lag in range(1, last + 1)]) / total


def _encode_forecast(each: CleanedSeries, column: int, origin: int | None) -> ChartData | None:
    if each.forecast is None:
        return None
    times = each.forecast.times if origin is None else each.forecast.times + origin / 1e9
    half = (each.forecast.upper - each.forecast.mean)[:, column]
    return {"time": pack(times, "f8"), "mean": pack(each.forecast.mean[:, column], "f4"), "half": pack(half, "f4")}


def _bounded(array: np.ndarray) -> np.ndarray:
    """Clip to the range of float32; infinite numbers stay visible as very large ones."""
    top = float(np.finfo(np.float32).max)
    return np.clip(array, -top, top)
