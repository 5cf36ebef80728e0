"""Pictures that are part of the page's text: a small one of each series, the map of a track, the shape of a season."""

import re
from html import escape

import numpy as np

from wolf.cleaning import Series

POINTS = 160  # of a small picture
MAP_POINTS = 3000
WIDE, HIGH = 240.0, 64.0  # of a small picture


def small(each: Series, label: str) -> str:
    """Draw a series in little: its estimate, and a mark where a reading was flagged."""
    count = len(each.mean)
    rows = np.unique(np.linspace(0, count - 1, min(POINTS, count)).astype(int))
    mean = each.mean[rows, 0]
    low, high = _range(mean)
    x = WIDE * rows / max(count - 1, 1)
    y = HIGH - 6 - (HIGH - 12) * (mean - low) / (high - low)
    path = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True) if np.isfinite(b))
    bad = np.flatnonzero(each.outlier if each.outlier.ndim == 1 else each.outlier.any(axis=1))
    marks = sorted({round(float(WIDE * row / max(count - 1, 1))) for row in bad})
    ticks = "".join(f"M{mark} {HIGH - 5:.0f}v5" for mark in marks)
    return (
        f'<svg viewBox="0 0 {WIDE:.0f} {HIGH:.0f}" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">'
        f'<path class="line" d="{path}"/><path class="mark" d="{ticks}"/></svg>'
    )


def track_map(each: Series, names: list[str]) -> str:
    """Draw a track as a map: readings, estimate, flagged readings; nothing for what is no track."""
    if len(each.columns) not in (2, 3):
        return ""
    rows = np.unique(np.linspace(0, len(each.mean) - 1, min(MAP_POINTS, len(each.mean))).astype(int))
    bad = np.asarray(each.outlier if each.outlier.ndim == 1 else each.outlier.any(axis=1))
    mean, values = each.mean[rows, :2], each.values[rows, :2]
    low, high = np.nanmin(mean, axis=0), np.nanmax(mean, axis=0)
    size = float((high - low).max()) or 1.0
    room = 0.06 * size
    wide, high_ = 1000.0, 1000.0 * float(high[1] - low[1] + 2 * room) / float(high[0] - low[0] + 2 * room)
    high_ = min(max(high_, 240.0), 1000.0)
    scale = min(wide / float(high[0] - low[0] + 2 * room), high_ / float(high[1] - low[1] + 2 * room))
    middle = 0.5 * (low + high)

    def place(points: np.ndarray) -> np.ndarray:
        at = np.stack([(points[:, 0] - middle[0]) * scale, -(points[:, 1] - middle[1]) * scale], axis=1)
        return at + np.array([wide / 2, high_ / 2])

    line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in place(mean))
    dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in place(values[~bad[rows]]) if np.isfinite(x + y))
    edge = np.clip(place(each.values[bad][:, :2]), 8, [wide - 8, high_ - 8])
    crosses = "".join(f"M{x - 6:.1f} {y - 6:.1f}l12 12m0 -12l-12 12" for x, y in edge if np.isfinite(x + y))
    told = f"{names[each.columns[0]]} to the right, {names[each.columns[1]]} upwards"
    return (
        f'<svg class="map" viewBox="0 0 {wide:.0f} {high_:.0f}" role="img" aria-label="the track, {escape(told)}">'
        f'<path class="dots" d="{dots}"/><path class="line" d="{line}"/><path class="cross" d="{crosses}"/></svg>'
        f'<p class="hint">{escape(told)}, in one scale. What lies off the map is marked at its edge.</p>'
    )


def period_of(model: str) -> float | None:
    """Read the first period off a model's name.

    Example:
        >>> period_of("trend+seasonal:24:3"), period_of("local-level")
        (24.0, None)
    """
    found = re.search(r"(?:seasonal|cycle):(\d+(?:\.\d+)?)", model)
    return float(found[1]) if found else None


def season(each: Series) -> str:
    """Draw what repeats: the estimate less its average over one period, by place in the period."""
    period = period_of(each.model)
    if period is None or not each.even or len(each.mean) < 2 * period or period < 2:
        return ""
    length = round(period)
    mean = each.mean[:, 0]
    sums = np.cumsum(np.concatenate([[0.0], mean]))
    level = (sums[length:] - sums[:-length]) / length  # of the rows i, ..., i + length - 1
    level = level if length % 2 else 0.5 * (level[1:] + level[:-1])  # around one row
    middle = np.arange(len(level)) + length // 2
    rest = mean[middle] - level
    phase = np.round((middle % period) / period * length).astype(int) % length
    shape = np.array([np.median(rest[phase == k]) if np.any(phase == k) else np.nan for k in range(length)])
    low, high = _range(shape)
    x = 110 + 870 * np.arange(length) / max(length - 1, 1)
    y = 180 - 160 * (shape - low) / (high - low)
    path = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True) if np.isfinite(b))
    zero = 180 - 160 * (0.0 - low) / (high - low)
    ends = [(100.0, place, "end", f"{value:.3g}") for place, value in ((26.0, high), (184.0, low), (zero + 5, 0.0))]
    ends += [(110.0 + 870 * k / 4, 222.0, "middle", f"{k * period / 4:g}") for k in range(5)]
    words = "".join(f'<text x="{a:.0f}" y="{b:.0f}" text-anchor="{side}">{word}</text>' for a, b, side, word in ends)
    told = (
        f"what repeats every {period:g} steps: from {np.nanmin(shape):.3g} to {np.nanmax(shape):.3g} around the level"
    )
    return (
        f'<svg class="season" viewBox="0 0 1000 230" role="img" aria-label="{escape(told)}">'
        f'<path class="grid" d="M110 {zero:.1f}H980"/><path class="line" d="{path}"/>{words}</svg>'
        f"<p>{escape(told[0].upper() + told[1:])}; below, the steps since the first row.</p>"
    )


def _range(values: np.ndarray) -> tuple[float, float]:
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return (low, high) if high > low else (low - 0.5, low + 0.5)
