"""Parts that the figures of the reproduction share: styles of methods, boxes, panels."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wolf.plots import style
from wolf.plots.style import dress as dress
from wolf.plots.style import new_figure as new_figure


def color(method: str) -> str:
    """Return the colour of a method, the same in all pictures."""
    return style.method_style(method).color


def line_style(method: str) -> dict[str, Any]:
    """Return the colour and the dashes of a method's line, for `plot`."""
    chosen = style.method_style(method)
    return {"color": chosen.color, "ls": chosen.dash}


def boxes(ax: Any, samples: Mapping[str, Sequence[float]], *, hollow: Iterable[str] = (), log: bool = True) -> None:
    """Draw one lying box for each name, the first on top: quartiles, 5-95 % whiskers, what is beyond as dots.

    Args:
        ax: axes.
        samples: values by name.
        hollow: names whose boxes are drawn empty.
        log: whether the axis is logarithmic.
    """
    names = list(samples)
    empty = set(hollow)
    for place, name in enumerate(reversed(names)):
        values = np.asarray(samples[name], np.float64)
        values = values[np.isfinite(values)]
        shade = color(name)
        ax.boxplot(
            values,
            positions=[place],
            orientation="horizontal",
            widths=0.62,
            whis=(5, 95),
            patch_artist=True,
            manage_ticks=False,
            boxprops={"facecolor": "white" if name in empty else f"{shade}55", "edgecolor": shade, "lw": 1.2},
            medianprops={"color": shade, "lw": 2.2},
            whiskerprops={"color": shade, "lw": 1.2},
            capprops={"color": shade, "lw": 1.2},
            flierprops={"marker": ".", "ms": 3, "mfc": shade, "mec": "none", "alpha": 0.5},
        )
    ax.set_yticks(range(len(names)), list(reversed(names)))
    ax.set_ylim(-0.6, len(names) - 0.4)
    if log:
        ax.set_xscale("log")
    dress(ax, grid="x")
    plain_log(ax)
    ax.tick_params(axis="y", length=0, labelcolor=style.INK)


def plain_log(ax: Any, which: str = "x") -> None:
    """Write the numbers of a logarithmic axis out, as 50 and 2000 instead of powers, where there is room for them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = getattr(ax, f"{which}axis")
    if axis.get_scale() != "log":
        return
    low, high = axis.get_view_interval()
    decades = np.log10(high / low) if low > 0 else 3.0
    marks = (1.0, 2.0, 5.0) if decades < 2.5 else (1.0, 3.0) if decades < 4 else (1.0,)
    axis.set_major_locator(LogLocator(subs=marks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def group(rows: Iterable[Mapping[str, Any]], by: str, value: str) -> dict[Any, list[Any]]:
    """Collect one column by another, in the order in which they come.

    Example:
        >>> group([{"m": "a", "x": 1}, {"m": "b", "x": 2}, {"m": "a", "x": 3}], "m", "x")
        {'a': [1, 3], 'b': [2]}
    """
    found: dict[Any, list[Any]] = {}
    for row in rows:
        if value in row:
            found.setdefault(row[by], []).append(row[value])
    return found


def caption(figure: Any, words: str) -> None:
    """Write a quiet line under a figure."""
    figure.supxlabel(words, x=0.01, ha="left", size=8.5, color=style.QUIET)


def heading(ax: Any, words: str) -> None:
    """Put a title at the left of axes."""
    ax.set_title(words, loc="left", size=10.5, color=style.INK)
