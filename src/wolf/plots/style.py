"""Style shared by all figures: colours for colour-blind readers, reduced axes, and robust axis limits."""

import itertools
import sys
from collections.abc import Iterable
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito (2008) for compared methods; greys for everything else.
INK = "#20262d"
QUIET = "#68727d"
GRID = "#e4e7ea"
TRUTH = "#c3cad1"
DOTS = "#8b949e"
ROBUST = "#0072b2"
KALMAN = "#d55e00"
CYCLE = (KALMAN, ROBUST, "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # the baseline first


class MethodStyle(NamedTuple):
    """Colour, dash pattern and marker of a method: markers and dashes tell methods apart where print is grey."""

    color: str
    dash: Any
    marker: str


SOLID, DASHED, DOTTED, DASHDOT, LONG = "-", (0, (5, 2)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (9, 2))
# One style for a method and its extended and ensemble versions, in every picture of the project.
METHODS = {
    "KF": MethodStyle(KALMAN, SOLID, "o"),
    "KF-B": MethodStyle("#cc79a7", DASHED, "s"),
    "KF-IW": MethodStyle("#e69f00", DASHDOT, "D"),
    "EKF-IW (corrected)": MethodStyle("#8a5a00", DOTTED, "d"),
    "OGD": MethodStyle(INK, DOTTED, "h"),
    "WoLF-IMQ": MethodStyle(ROBUST, SOLID, "^"),
    "WoLF-TMD": MethodStyle("#009e73", LONG, "v"),
    "WoLF (calibrated)": MethodStyle("#56b4e9", DASHED, "P"),
    "Learned": MethodStyle("#3d2c8d", DASHDOT, "X"),
    "WoLF-MD": MethodStyle("#56b4e9", DASHED, "P"),
    "WoLF-Huber": MethodStyle("#e69f00", DASHDOT, "D"),
    "WoLF-StudentT": MethodStyle("#cc79a7", DASHED, "s"),
    "WoLF-Welsch": MethodStyle("#3d2c8d", DOTTED, "X"),
    "WoLF-Tukey": MethodStyle("#7a5195", DASHDOT, "p"),
    "AP-EnKF": MethodStyle(ROBUST, SOLID, "^"),
    "PP-EnKF": MethodStyle("#009e73", LONG, "v"),
    "Hub-EnKF": MethodStyle("#e69f00", DASHDOT, "D"),
    "WoLF-EnKF": MethodStyle("#3d2c8d", DOTTED, "P"),
    "RBPF": MethodStyle("#7a5195", DASHED, "p"),
    "EKF (clean targets)": MethodStyle(DOTS, DASHED, "*"),
    "Bayes ceiling": MethodStyle(QUIET, DASHED, "p"),
    "oracle": MethodStyle(INK, DOTTED, "*"),
}
OTHER = MethodStyle(QUIET, SOLID, "o")

BAND = 2.0  # half-width of a band, in standard deviations
MARGIN = 0.08  # share of the range of the values that is added on both sides

MISSING_MATPLOTLIB = "Figures need matplotlib: pip install matplotlib"


def method_style(name: str) -> MethodStyle:
    """Return the style of a method; a variant in brackets, or an E or En in front of KF, has that of its family.

    Example:
        >>> method_style("EKF-B").color == method_style("KF-B (as run)").color
        True
    """
    family = name.partition(" (")[0]
    short = family.removeprefix("En").removeprefix("E")
    return METHODS.get(name) or METHODS.get(family) or METHODS.get(short, OTHER)


def colors_of(names: Iterable[str]) -> list[str]:
    """Return a colour for each name: that of a known method, or the next one of the cycle that is free.

    Example:
        >>> colors_of(["mine", "KF", "yours"]) == [ROBUST, KALMAN, CYCLE[2]]
        True
    """
    styles = {name: method_style(name) for name in names}
    known = {name: chosen.color for name, chosen in styles.items() if chosen is not OTHER}
    free = [color for color in CYCLE if color not in known.values()] or list(CYCLE)
    others = itertools.cycle(free)
    return [known.get(name) or next(others) for name in styles]


def new_figure(width: float, height: float, dpi: float = 120) -> "Figure":
    """Make a figure, of a size in inches, that needs no display and is not registered with pyplot."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ModuleNotFoundError(MISSING_MATPLOTLIB, name="matplotlib") from error
    return Figure(figsize=(width, height), layout="constrained", facecolor="white", dpi=dpi)


def figure_and_axes(ax: "Axes | None", width: float, height: float) -> "tuple[Figure, Axes]":
    """Return the axes to draw on, with their figure: those of the caller, or new ones of a size in inches."""
    if ax is None:
        figure = new_figure(width, height)
        return figure, figure.add_subplot()
    axes = sys.modules.get("matplotlib.axes")  # whoever passes axes has imported it
    if axes is None or not isinstance(ax, axes.Axes):
        raise ValueError(f"ax must be matplotlib axes, as from figure.add_subplot(); got {validation.short_repr(ax)}")
    return cast("Figure", ax.figure), ax


def times_of(times: ArrayLike | None, size: int) -> np.ndarray:
    """Convert the horizontal axis to an array of numbers or dates; 0, 1, ... by default."""
    if times is None:
        return np.arange(size)
    read = np.asarray(times)
    dates = read.dtype.kind == "M" or (read.dtype.kind == "O" and all(isinstance(each, date) for each in read.flat))
    read = read if dates else validation.number_array("times", times)
    if read.shape != (size,):
        raise ValueError(f"times must have {size} entries, like the result; got shape {read.shape}")
    return read


def index_times(index: Any) -> np.ndarray | None:
    """Return an index of numbers or dates as values of the horizontal axis; None for any other."""
    if index is None:
        return None
    labels = np.asarray(index.to_timestamp() if type(index).__name__ == "PeriodIndex" else index)
    return labels if labels.dtype.kind in "iufM" else None


def title_of(times: np.ndarray) -> str:
    """Return the title of the horizontal axis: integers count steps."""
    return "step" if times.dtype.kind == "i" else "time"


def steps_of(start: int, stop: int | None) -> slice:
    """Return the slice of steps that are shown."""
    first = validation.integer("start", start)
    return slice(first, None if stop is None else validation.integer("stop", stop, least=first + 1))


def dress(ax: "Axes", *, grid: Literal["both", "x", "y"] | None = "y") -> None:
    """Format axes: two spines, a light grid, small grey numbers."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(TRUTH)
    ax.tick_params(colors=QUIET, labelsize=9, length=3, width=0.8)
    ax.xaxis.label.set(color=QUIET, size=9.5)
    ax.yaxis.label.set(color=QUIET, size=9.5)
    ax.set_axisbelow(True)
    if grid:
        ax.grid(axis=grid, color=GRID, linewidth=0.8)


def remark_outside(ax: "Axes", count: int) -> None:
    """Write above the axes how many measurements are outside."""
    if count:
        ax.set_title(f"{count} measurement{'s' if count > 1 else ''} beyond the axes", loc="right", size=9, color=QUIET)


def limits(*values: ArrayLike, margin: float = MARGIN) -> tuple[float, float]:
    """Compute a range that contains the finite values, with a margin.

    Example:
        >>> low, high = limits([0.0, 1.0], [2.0, np.nan])
        >>> round(low, 2), round(high, 2)
        (-0.16, 2.16)
    """
    numbers = np.concatenate([np.ravel(np.asarray(v, np.float64)) for v in values])
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return -1.0, 1.0
    low, high = float(numbers.min()), float(numbers.max())
    room = margin * (high - low) or max(abs(high), 1.0) * margin
    return low - room, high + room


def edge_marks(ax: "Axes", times: np.ndarray, values: np.ndarray, low: float, high: float, color: str) -> int:
    """Mark values outside the vertical range by triangles at its edge; return their number."""
    inside = 0.02 * (high - low)
    above, below = values > high, values < low
    for beyond, marker, level in ((above, "^", high - inside), (below, "v", low + inside)):
        if beyond.any():
            ax.scatter(times[beyond], np.full(beyond.sum(), level), s=20, marker=marker, color=color, lw=0, zorder=6)
    return int(above.sum() + below.sum())
