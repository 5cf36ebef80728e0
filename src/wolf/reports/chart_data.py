"""The numbers behind a report, small enough for a page: arrays as base64, tests of the residuals as short lists."""

import base64
from typing import Any

import numpy as np

from wolf.cleaning import Series
from wolf.numerics.robust import MAD_TO_STD
from wolf.numerics.rolling import running_median
from wolf.reports.flag_table import kinds_of

MOST = 100_000  # points of all series together; more are thinned, flagged ones last
BINS = np.linspace(-5.0, 5.0, 51)  # of standardised residuals; what lies beyond is counted at the ends
LAGS = 40
NEAR = 101  # errors around a moment that tell how large they are there
NOISE_POINTS = 600  # of its picture: it changes slowly
FEWEST = 3 * NEAR  # errors of a series whose noise is followed


def pack(array: np.ndarray, kind: str) -> dict[str, Any]:
    """Write an array for the browser.

    Args:
        array: (T,).
        kind: "f8", "f4" or "u1".

    Example:
        >>> pack(np.array([1.0]), "u1")
        {'kind': 'u1', 'data': 'AQ=='}
    """
    return {"kind": kind, "data": base64.b64encode(np.ascontiguousarray(array, f"<{kind}").tobytes()).decode()}


def thin(outlier: np.ndarray, most: int) -> np.ndarray:
    """Choose rows to show: all, or evenly spaced ones and as many flagged ones as there is room for.

    Example:
        >>> thin(np.array([False, True, False, False]), 3).tolist()
        [0, 1, 3]
    """
    count = len(outlier)
    if count <= most:
        return np.arange(count)
    flagged = np.flatnonzero(outlier)
    flagged = flagged[:: max(1, -(-len(flagged) // (most // 2)))]
    even = np.unique(np.linspace(0, count - 1, most - len(flagged)).astype(int))
    return np.unique(np.concatenate([even, flagged]))[:most]


def series_numbers(each: Series, names: list[str], origin: int | None, most: int) -> list[dict[str, Any]]:
    """Describe one series, a picture for each of its columns."""
    outlier = each.outlier if each.outlier.ndim == 2 else each.outlier[:, None]
    weight = each.weight if each.weight.ndim == 2 else each.weight[:, None]
    rows = thin(np.asarray(outlier.any(axis=1)), most)
    times = np.arange(len(each.values), dtype=float) if each.times is None else each.times
    times = times if origin is None else times + origin / 1e9
    pictures = []
    for k, j in enumerate(each.columns):
        own = min(k, outlier.shape[1] - 1)
        label = " ".join(filter(None, [each.label, names[j] if len(each.columns) > 1 or not each.label else ""]))
        pictures.append(
            {
                "label": label,
                "shown": len(rows),
                "count": len(each.values),
                "time": pack(times[rows], "f8"),
                "value": pack(_bounded(each.values[rows, k]), "f4"),
                "mean": pack(each.mean[rows, k], "f4"),
                "half": pack((each.upper - each.mean)[rows, k], "f4"),
                "weight": pack(np.round(255 * np.clip(weight[rows, own], 0, 1)), "u1"),
                "outlier": pack(outlier[rows, own], "u1"),
                "nis": pack(_bounded(each.nis[rows]), "f4"),
                "future": _future(each, k, origin),
            }
            | _kinds(each, rows, k)
            | _of_readings(each, rows, k)
            | _noise(each.standardised[:, k], outlier[:, own], times)
            | residual_tests(each, k)
        )
    return pictures


def residual_tests(each: Series, column: int) -> dict[str, Any]:
    """Compare the residuals of a column with what a right model would leave."""
    outlier = each.outlier if each.outlier.ndim == 2 else each.outlier[:, None]
    own = outlier[:, min(column, outlier.shape[1] - 1)]
    return _tests(each.standardised[:, column], own, each.nis[~outlier.any(1)], len(each.columns))


def _kinds(each: Series, rows: np.ndarray, column: int) -> dict[str, Any]:
    """Number the kinds of faults, if they were told; 0 is none."""
    found = kinds_of(each)
    if found is None:
        return {}
    own = found[rows] if found.ndim == 1 else found[rows, min(column, found.shape[1] - 1)]
    names = [name for name in np.unique(own).tolist() if name]
    number = {name: i + 1 for i, name in enumerate(names)}
    return {"kinds": names, "kind": pack(np.array([number.get(name, 0) for name in own.tolist()]), "u1")}


def _of_readings(each: Series, rows: np.ndarray, column: int) -> dict[str, Any]:
    """Give half the width of the interval of a reading, if it is known."""
    if each.prediction_upper is None:
        return {}
    return {"prediction_half": pack(_bounded((each.prediction_upper - each.mean)[rows, column]), "f4")}


def _noise(residuals: np.ndarray, outlier: np.ndarray, times: np.ndarray) -> dict[str, Any]:
    """Follow how large errors are around each moment, beside what the model says; nothing for a short series."""
    usable = np.isfinite(residuals) & ~outlier
    if usable.sum() < FEWEST:
        return {"noise": None, "loudest": None}
    sizes = MAD_TO_STD * running_median(np.abs(residuals[usable]), NEAR, "reflect")
    noise = np.interp(np.arange(len(residuals)), np.flatnonzero(usable), sizes)
    rows = thin(np.zeros(len(noise), bool), NOISE_POINTS)
    return {"noise": {"time": pack(times[rows], "f8"), "size": pack(noise[rows], "f4")}, "loudest": _loudest(noise)}


def _loudest(noise: np.ndarray) -> dict[str, Any]:
    """Say where the noise is largest, and how many times as large as usual."""
    row = int(np.argmax(noise))
    return {"row": row, "times": float(noise[row]) / max(float(np.median(noise)), 1e-300)}


def _tests(residuals: np.ndarray, outlier: np.ndarray, nis: np.ndarray, columns: int) -> dict[str, Any]:
    """Compare residuals with what a right model would leave: a histogram, correlations in time, and NIS (unflagged)."""
    from scipy.special import gammaincinv

    measured = np.isfinite(residuals)
    good = residuals[measured & ~outlier]
    counts = np.histogram(np.clip(residuals[measured], BINS[0], BINS[-1]), BINS)[0]
    flagged = np.histogram(np.clip(residuals[measured & outlier], BINS[0], BINS[-1]), BINS)[0]
    band = [2.0 * float(gammaincinv(0.5 * columns, p)) for p in (0.025, 0.975)]
    told = nis[np.isfinite(nis)]
    return {
        "bins": (0.5 * (BINS[1:] + BINS[:-1])).round(3).tolist(),
        "counts": counts.tolist(),
        "flagged_counts": flagged.tolist(),
        "measured": int(measured.sum()),
        "correlations": correlations(good, LAGS).round(4).tolist(),
        "unflagged": len(good),
        "bias": float(good.mean()) if good.size else 0.0,
        "band": band,
        "inside": float(np.mean((told >= band[0]) & (told <= band[1]))) if told.size else float("nan"),
    }


def correlations(residuals: np.ndarray, lags: int) -> np.ndarray:
    """Compute the autocorrelation at lags 1, 2, ...

    Example:
        >>> correlations(np.array([1.0, -1.0] * 50), 2).round(2).tolist()
        [-0.99, 0.98]
    """
    centred = residuals - residuals.mean() if residuals.size else residuals
    total = float(np.sum(centred**2))
    most = min(lags, len(residuals) - 1)
    if total == 0.0 or most < 1:
        return np.zeros(0)
    return np.array([float(np.sum(centred[lag:] * centred[:-lag])) for lag in range(1, most + 1)]) / total


def _future(each: Series, column: int, origin: int | None) -> dict[str, Any] | None:
    if each.future is None:
        return None
    times = each.future.times if origin is None else each.future.times + origin / 1e9
    half = (each.future.upper - each.future.mean)[:, column]
    return {"time": pack(times, "f8"), "mean": pack(each.future.mean[:, column], "f4"), "half": pack(half, "f4")}


def _bounded(array: np.ndarray) -> np.ndarray:
    """Keep within what float32 can hold; infinite stays visible as very large."""
    top = float(np.finfo(np.float32).max)
    return np.clip(array, -top, top)
