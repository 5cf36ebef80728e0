"""HTML representations of results in notebooks: a small table and a sparkline, without external resources."""

from collections.abc import Iterable
from html import escape

import numpy as np

from wolf.results.views import svg


def page(title: str, rows: Iterable[tuple[str, ...]], picture: str = "", notes: Iterable[str] = ()) -> str:
    """Format a title, a picture and a table.

    Args:
        title: in one line.
        rows: cells of the table; the first one is the row header.
        picture: SVG.
        notes: lines below the table.
    """
    body = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        + "".join(f"<td style='text-align:left'>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in rows
    )
    remarks = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f"<div><p><b>{escape(title)}</b></p>{picture}<table>{body}</table>{remarks}</div>"


def sketch(mean: np.ndarray, deviation: np.ndarray | None, outlier: np.ndarray, label: str) -> str:
    """Draw a sparkline for a notebook; arguments as in `svg.sparkline`."""
    return svg.sparkline(mean, deviation, outlier, label, svg.NOTEBOOK)
