"""Section of the smallest fault that the filter would notice at the end of a series."""

from html import escape

import numpy as np

from wolf.cleaning import CleanedSeries
from wolf.online import Online
from wolf.results import Filtered
from wolf.statespace import time_axes


def detectable_faults(series: list[CleanedSeries], runs: dict[int, Filtered], names: list[str]) -> str:
    """State the smallest fault that would be flagged, for the series whose runs are available.

    Args:
        series: in the order of the page.
        runs: `Filtered` of each, by the `id` of its series.
        names: of the measured coordinates.
    """
    lines = []
    for each in series:
        out = runs.get(id(each))
        # Native code takes microseconds for the fifty steps of a coordinate; XLA would have to compile a step first.
        if out is None or out.backend != "native" or out.inputs is not None or time_axes(out.model):
            continue
        sizes = Online(out.model, out.method, state=out.final, dtype=out.settings["dtype"]).detectable
        if np.isfinite(sizes).any():
            listed = ", ".join(f"{names[j]}: {size:.3g}" for j, size in zip(each.columns, sizes, strict=True))
            lines.append(f"{each.label + ': ' if each.label else ''}{listed}")
    if not lines:
        return ""
    words = "The next reading is flagged with probability 95 % if it is off by this much; a smaller fault may pass."
    return "".join(f"<p>{escape(line)}</p>" for line in [words, *lines])
