"""Section of the estimated scales of R and Q: a chart for each series, and remarks."""

from html import escape

import numpy as np

from wolf.cleaning import CleanedSeries
from wolf.inference.noise.noise_estimate import FAR_OFF_FACTOR
from wolf.plots.noise_scales import paths_of
from wolf.results import Filtered
from wolf.results.views.learned_noise import describe_noise

MAX_SERIES = 8
MAX_POINTS = 400
LEFT, RIGHT, TOP, BOTTOM = 110.0, 980.0, 20.0, 180.0  # of the chart, in pixels
DASHES = ("", "12 6", "3 5", "12 4 3 4")


def noise_scales(series: list[CleanedSeries], runs: dict[int, Filtered]) -> str:
    """Draw the estimated scales of the first series whose runs are available, with remarks.

    Args:
        series: in the order of the page.
        runs: `Filtered` of each, by the `id` of its series.
    """
    parts: list[str] = []
    for each in series:
        out = runs.get(id(each))
        if out is not None and len(parts) < MAX_SERIES and (paths := paths_of(out)):
            parts.append(_section(each.label, out, paths))
    return "".join(parts)


def _section(label: str, out: Filtered, paths: dict[str, np.ndarray]) -> str:
    first, *remarks = describe_noise(out.method, out.learned_noise)
    listed = "".join(f'<p class="verdict">{escape(remark)}.</p>' for remark in remarks)
    name = f"{label}: " if label else ""
    return (
        _chart(paths, f"{name}noise scales over time: {', '.join(paths)}")
        + f"<p>{escape(f'{name}at the end, {first}')}.</p>"
        + listed
    )


def _chart(paths: dict[str, np.ndarray], label: str) -> str:
    """Draw paths on a logarithmic scale; 1 is the model's value, the outer lines are `FAR_OFF_FACTOR` away."""
    everything = np.concatenate(list(paths.values()))
    low, high = np.log10(min(everything.min(), 1 / 3)) - 0.1, np.log10(max(everything.max(), 3.0)) + 0.1

    def height(value: np.ndarray | float) -> np.ndarray:
        return BOTTOM - (BOTTOM - TOP) * (np.log10(value) - low) / (high - low)

    lines, names = [], []
    steps = len(everything) // len(paths)
    rows = np.unique(np.linspace(0, steps - 1, min(MAX_POINTS, steps)).astype(int))
    x = LEFT + (RIGHT - LEFT) * rows / max(steps - 1, 1)
    for i, (name, path) in enumerate(paths.items()):
        points = "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, height(path[rows]), strict=True))
        dash = f' stroke-dasharray="{DASHES[i % len(DASHES)]}"' if i else ""
        lines.append(f'<path class="line"{dash} d="M{points}"/>')
        kind = ("line", "dashes", "dots", "dashes and dots")[i % len(DASHES)]
        names.append(f"{name} ({kind})")
    marks = [value for value in (1.0 / FAR_OFF_FACTOR, 1.0, FAR_OFF_FACTOR) if low <= np.log10(value) <= high]
    grid = "".join(f'<path class="grid" d="M{LEFT:.0f} {height(value):.1f}H{RIGHT:.0f}"/>' for value in marks)
    ticks = "".join(
        f'<text x="{LEFT - 10:.0f}" y="{height(value) + 5:.1f}" text-anchor="end">{value:g}</text>' for value in marks
    )
    return (
        f'<svg class="season" viewBox="0 0 1000 200" role="img" aria-label="{escape(label)}">'
        f'{grid}{"".join(lines)}{ticks}</svg><p class="hint">{escape(", ".join(names))}; from the first row to the '
        f"last. 1 is the model's value; above {FAR_OFF_FACTOR:g} or below {1 / FAR_OFF_FACTOR:g} the model should be "
        "corrected.</p>"
    )
