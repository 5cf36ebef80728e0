"""Static pictures of the report, as SVG: sparklines, the map of a track, the seasonal pattern."""

import re
from html import escape

import numpy as np

from wolf.cleaning import CleanedSeries
from wolf.results.views.svg import REPORT, sparkline, value_range

MAX_MAP_POINTS = 3000


def overview_sparkline(each: CleanedSeries, label: str) -> str:
    """Draw the first column of a series as a sparkline, with a tick for each outlier."""
    return sparkline(each.mean[:, 0], None, each.outlier_rows, label, REPORT)


def track_map(each: CleanedSeries, names: list[str]) -> str:
    """Draw a track as a map of measurements, estimate and outliers; empty for other series."""
    if len(each.columns) not in (2, 3):
        return ""
    rows = np.unique(np.linspace(0, len(each.mean) - 1, min(MAX_MAP_POINTS, len(each.mean))).astype(int))
    outlier = each.outlier_rows
    mean, values = each.mean[rows, :2], each.values[rows, :2]
    low, high = np.nanmin(mean, axis=0), np.nanmax(mean, axis=0)
    size = float((high - low).max()) or 1.0
    margin = 0.06 * size
    width, height = 1000.0, 1000.0 * float(high[1] - low[1] + 2 * margin) / float(high[0] - low[0] + 2 * margin)
    height = min(max(height, 240.0), 1000.0)
    scale = min(width / float(high[0] - low[0] + 2 * margin), height / float(high[1] - low[1] + 2 * margin))
    middle = 0.5 * (low + high)

    def place(points: np.ndarray) -> np.ndarray:
        at = np.stack([(points[:, 0] - middle[0]) * scale, -(points[:, 1] - middle[1]) * scale], axis=1)
        return at + np.array([width / 2, height / 2])

    line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in place(mean))
    dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in place(values[~outlier[rows]]) if np.isfinite(x + y))
    edge = np.clip(place(each.values[outlier][:, :2]), 8, [width - 8, height - 8])
    crosses = "".join(f"M{x - 6:.1f} {y - 6:.1f}l12 12m0 -12l-12 12" for x, y in edge if np.isfinite(x + y))
    axes = f"{names[each.columns[0]]} to the right, {names[each.columns[1]]} upwards"
    return (
        f'<svg class="map" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="track, {escape(axes)}">'
        f'<path class="dots" d="{dots}"/><path class="line" d="{line}"/><path class="cross" d="{crosses}"/></svg>'
        f'<p class="hint">{escape(axes)}, with equal scales. Outliers beyond the map are marked at its edge.</p>'
    )


def period_of(model: str) -> float | None:
    """Parse the first seasonal period of a model's name.

    Example:
        >>> period_of("trend+seasonal:24:3"), period_of("local-level")
        (24.0, None)
    """
    found = re.search(r"(?:seasonal|cycle):(\d+(?:\.\d+)?)", model)
    return float(found[1]) if found else None


def season(each: CleanedSeries) -> str:
    """Draw the seasonal pattern: the estimate minus its moving average over one period, by phase."""
    period = period_of(each.model)
    if period is None or not each.even or len(each.mean) < 2 * period or period < 2:
        return ""
    length = round(period)
    mean = each.mean[:, 0]
    sums = np.cumsum(np.concatenate([[0.0], mean]))
    level = (sums[length:] - sums[:-length]) / length  # of rows i, ..., i + length - 1
    level = level if length % 2 else 0.5 * (level[1:] + level[:-1])  # centred on one row
    middle = np.arange(len(level)) + length // 2
    rest = mean[middle] - level
    phase = np.round((middle % period) / period * length).astype(int) % length
    shape = np.array([np.median(rest[phase == k]) if np.any(phase == k) else np.nan for k in range(length)])
    low, high = value_range(shape)
    x = 110 + 870 * np.arange(length) / max(length - 1, 1)
    y = 180 - 160 * (shape - low) / (high - low)
    path = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True) if np.isfinite(b))
    zero = 180 - 160 * (0.0 - low) / (high - low)
    ends = [(100.0, place, "end", f"{value:.3g}") for place, value in ((26.0, high), (184.0, low), (zero + 5, 0.0))]
    ends += [(110.0 + 870 * k / 4, 222.0, "middle", f"{k * period / 4:g}") for k in range(5)]
    labels = "".join(f'<text x="{a:.0f}" y="{b:.0f}" text-anchor="{side}">{text}</text>' for a, b, side, text in ends)
    described = f"pattern of period {period:g}: from {np.nanmin(shape):.3g} to {np.nanmax(shape):.3g} around the level"
    return (
        f'<svg class="season" viewBox="0 0 1000 230" role="img" aria-label="{escape(described)}">'
        f'<path class="grid" d="M110 {zero:.1f}H980"/><path class="line" d="{path}"/>{labels}</svg>'
        f"<p>{escape(described[0].upper() + described[1:])}; the axis is the phase in steps.</p>"
    )
