"""Sparklines as SVG, for notebooks and for the HTML report."""

from html import escape
from typing import NamedTuple

import numpy as np


class SparklineStyle(NamedTuple):
    """Size and appearance of a sparkline.

    Attributes:
        width: in pixels.
        height: in pixels.
        margin: above and below the line, in pixels; ticks are drawn in the lower one.
        max_points: of the line.
        max_ticks: of outliers.
        svg: attributes of the picture.
        band: attributes of the interval.
        line: attributes of the line.
        tick: attributes of the ticks.
    """

    width: float
    height: float
    margin: float
    max_points: int
    max_ticks: int
    svg: str
    band: str
    line: str
    tick: str


# Colours are inline, since a notebook has no style sheet of ours. Red is visible on white and on black.
NOTEBOOK = SparklineStyle(
    width=480.0,
    height=80.0,
    margin=8.0,
    max_points=240,
    max_ticks=60,
    svg='width="480" height="80" style="max-width:100%"',
    band='fill="currentColor" fill-opacity="0.15"',
    line='fill="none" stroke="currentColor"',
    tick='fill="none" stroke="#d1495b" stroke-width="2"',
)
REPORT = SparklineStyle(
    width=240.0,
    height=64.0,
    margin=7.0,
    max_points=160,
    max_ticks=240,
    svg='preserveAspectRatio="none"',
    band='class="band"',
    line='class="line"',
    tick='class="mark"',
)


def sparkline(
    mean: np.ndarray, deviation: np.ndarray | None, outlier: np.ndarray, label: str, style: SparklineStyle
) -> str:
    """Draw an estimate with an interval of two standard deviations, and a tick for each outlier.

    Args:
        mean: (T,); non-finite entries are skipped.
        deviation: standard deviation, (T,), or None for no interval.
        outlier: (T,).
        label: text alternative.
        style: size and appearance.

    Returns:
        The picture; empty if no point is finite.
    """
    count = len(mean)
    rows = np.unique(np.linspace(0, count - 1, min(style.max_points, count)).astype(int))
    half = np.zeros(len(rows)) if deviation is None else 2 * deviation[rows]
    half = np.minimum(half, 4 * np.median(half))  # a diffuse start must not flatten the rest
    finite = np.isfinite(mean[rows]) & np.isfinite(half)
    rows, half = rows[finite], half[finite]
    if not len(rows):
        return ""
    bottom, top = value_range(np.concatenate([mean[rows] - half, mean[rows] + half]))
    scale = style.width / max(count - 1, 1)

    def points(values: np.ndarray) -> list[str]:
        inner = style.height - 2 * style.margin
        y = style.height - style.margin - inner * (values - bottom) / (top - bottom)
        return [f"{a:.1f} {b:.1f}" for a, b in zip(scale * rows, y, strict=True)]

    found = np.flatnonzero(outlier)
    places = sorted({round(float(scale * row)) for row in found[:: len(found) // style.max_ticks + 1]})
    ticks = "".join(f"M{x} {style.height - style.margin + 2:.0f}v{style.margin - 2:.0f}" for x in places)
    outline = points(mean[rows] - half) + points(mean[rows] + half)[::-1]
    band = "" if deviation is None else f'<path d="M{"L".join(outline)}Z" {style.band}/>'
    return (
        f'<svg viewBox="0 0 {style.width:.0f} {style.height:.0f}" {style.svg} role="img" '
        f'aria-label="{escape(label)}">{band}'
        f'<path {style.line} d="M{"L".join(points(mean[rows]))}"/><path {style.tick} d="{ticks}"/></svg>'
    )


def value_range(values: np.ndarray) -> tuple[float, float]:
    """Compute the range of values, widened if it is empty.

    Example:
        >>> value_range(np.array([2.0, np.nan, 2.0]))
        (1.5, 2.5)
    """
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return (low, high) if high > low else (low - 0.5, low + 0.5)
