"""The weighted likelihood figure of the paper's appendix: N(x | 0, 1)^(w²) for many weights. No random numbers.

Expected: flatter for smaller weights, as a heavy-tailed likelihood would be; the peak rises from 0.40 to 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wolf.plots import style
from wolf_paper import figures
from wolf_paper.protocol import Experiment, Rows, Task


@dataclass(frozen=True)
class Settings:
    """The paper's values.

    Attributes:
        curves: number of weights w², evenly spaced in (0, 1].
        reach: x goes from -reach to reach.
        points: of each curve.
    """

    curves: int = 19
    reach: float = 10.0
    points: int = 401


def run(task: Task) -> Rows:
    """Evaluate exp(w² log N(x | 0, 1))."""
    config = task.config
    xs = np.linspace(-config.reach, config.reach, config.points)
    log_density = -0.5 * xs**2 - 0.5 * np.log(2 * np.pi)
    powers = np.linspace(0.0, 1.0, config.curves + 1)[1:]
    return [
        {"power": float(power), "x": float(x), "value": float(np.exp(power * value))}
        for power in powers
        for x, value in zip(xs, log_density, strict=True)
    ]


def measure(done: Mapping[str, Rows], config: Settings) -> dict[str, float]:
    """Take the peaks of the first and the last curve."""
    peaks = {power: max(values) for power, values in figures.group(done["run"], "power", "value").items()}
    return {"peak at weight 1": peaks[max(peaks)], "peak at the smallest weight": peaks[min(peaks)]}


def draw(done: Mapping[str, Rows], config: Settings) -> dict[str, Any]:
    """Draw all curves, coloured by their weight."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    figure = figures.new_figure(6.5, 4.0)
    ax = figure.add_subplot()
    shades, scale = colormaps["viridis"], Normalize(0.0, 1.0)
    xs = figures.group(done["run"], "power", "x")
    for power, values in figures.group(done["run"], "power", "value").items():
        ax.plot(xs[power], values, color=shades(scale(power)), lw=1.3)
    figures.dress(ax)
    ax.set_xlabel("x")
    ax.set_ylabel("likelihood to the power w² (not normalised)")
    bar = figure.colorbar(ScalarMappable(scale, shades), ax=ax, label="w²")
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=style.QUIET, labelsize=9)
    return {"weighted-likelihood": figure}


EXPERIMENT = Experiment(
    name="weighted-likelihood",
    title="The weighted likelihood of a standard normal",
    shows="the weighted likelihood figure of appendix C.1",
    settings={"small": Settings(), "paper": Settings()},
    parts=lambda config: ("run",),
    run=run,
    measure=measure,
    draw=draw,
)
