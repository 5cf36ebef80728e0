"""Results as notebooks show them: a small table and a small picture, in one piece of HTML that loads nothing."""

from collections.abc import Iterable
from html import escape

import numpy as np

POINTS = 240  # of the line
MARKS = 60  # of refused measurements
WIDE, HIGH, ROOM = 480.0, 80.0, 8.0
REFUSED = "#d1495b"  # seen on white and on black; the line has the colour of the text


def page(title: str, rows: Iterable[tuple[str, ...]], picture: str = "", notes: Iterable[str] = ()) -> str:
    """Lay out a title, a picture and a table.

    Args:
        title: in one line.
        rows: cells of the table; the first one names the row.
        picture: SVG.
        notes: lines below.
    """
    body = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        + "".join(f"<td style='text-align:left'>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in rows
    )
    told = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f"<div><p><b>{escape(title)}</b></p>{picture}<table>{body}</table>{told}</div>"


def sketch(mean: np.ndarray, deviation: np.ndarray | None, refused: np.ndarray, label: str) -> str:
    """Draw an estimate with two deviations to either side, and a tick at the foot where a measurement was refused.

    Args:
        mean: (T,).
        deviation: (T,), or None.
        refused: whether each measurement was, (T,).
        label: for those who cannot see it.
    """
    rows = np.unique(np.linspace(0, len(mean) - 1, min(POINTS, len(mean))).astype(int))
    half = np.zeros(len(rows)) if deviation is None else 2 * deviation[rows]
    low, high = mean[rows] - np.minimum(half, 4 * np.median(half)), mean[rows] + np.minimum(half, 4 * np.median(half))
    if not np.isfinite(low).all() or not np.isfinite(high).all():
        return ""
    bottom, top = float(low.min()), float(high.max())
    bottom, top = (bottom, top) if top > bottom else (bottom - 0.5, top + 0.5)
    x = WIDE * rows / max(len(mean) - 1, 1)

    def line(values: np.ndarray, order: int = 1) -> str:
        y = HIGH - ROOM - (HIGH - 2 * ROOM) * (values - bottom) / (top - bottom)
        return "L".join(f"{a:.1f} {b:.1f}" for a, b in list(zip(x, y, strict=True))[::order])

    found = np.flatnonzero(refused)
    places = sorted({round(float(WIDE * row / max(len(mean) - 1, 1))) for row in found[:: len(found) // MARKS + 1]})
    ticks = "".join(f"M{place} {HIGH - ROOM + 2:.0f}v{ROOM - 2:.0f}" for place in places)
    return (
        f'<svg viewBox="0 0 {WIDE:.0f} {HIGH:.0f}" width="{WIDE:.0f}" height="{HIGH:.0f}" role="img" '
        f'style="max-width:100%" aria-label="{escape(label)}">'
        f'<path d="M{line(low)}L{line(high, -1)}Z" fill="currentColor" fill-opacity="0.15"/>'
        f'<path d="M{line(mean[rows])}" fill="none" stroke="currentColor"/>'
        f'<path d="{ticks}" fill="none" stroke="{REFUSED}" stroke-width="2"/></svg>'
    )
