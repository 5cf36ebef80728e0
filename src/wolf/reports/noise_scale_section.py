"""The levels of R and Q that a method has learned, as a section of the page: a picture for each series, and words."""

from html import escape
from typing import Any

import numpy as np

from wolf.cleaning import Series
from wolf.inference.noise.noise_estimate import FAR_OFF_FACTOR
from wolf.plots.noise_scales import paths_of
from wolf.results.views.learned_noise import told_of

SHOWN = 8  # series
POINTS = 400
LEFT, RIGHT, TOP, BOTTOM = 110.0, 980.0, 20.0, 180.0  # of the picture
DASHES = ("", "12 6", "3 5", "12 4 3 4")


def levels_of(series: list[Series], runs: dict[int, Any]) -> str:
    """Draw what was learned of the first series whose runs are at hand, and say what is odd about it.

    Args:
        series: as shown.
        runs: `Filtered` of each, by the `id` of its series.
    """
    parts: list[str] = []
    for each in series:
        out = runs.get(id(each))
        paths = {} if out is None else paths_of(out)
        if paths and len(parts) < SHOWN:
            parts.append(_one(each.label, out, paths))
    return "".join(parts)


def _one(label: str, out: Any, paths: dict[str, np.ndarray]) -> str:
    first, *remarks = told_of(out.method, out.learned_noise)
    said = "".join(f'<p class="verdict">{escape(remark)}.</p>' for remark in remarks)
    name = f"{label}: " if label else ""
    words = f"{name}by the end {first}"
    return _picture(paths, f"{name}levels over time: {', '.join(paths)}") + f"<p>{escape(words)}.</p>" + said


def _picture(paths: dict[str, np.ndarray], told: str) -> str:
    """Draw paths on a logarithmic scale; 1 is what the model says, and the outer lines are a factor of ten off."""
    everything = np.concatenate(list(paths.values()))
    low, high = np.log10(min(everything.min(), 1 / 3)) - 0.1, np.log10(max(everything.max(), 3.0)) + 0.1

    def height(value: Any) -> Any:
        return BOTTOM - (BOTTOM - TOP) * (np.log10(value) - low) / (high - low)

    lines, words = [], []
    steps = len(everything) // len(paths)
    rows = np.unique(np.linspace(0, steps - 1, min(POINTS, steps)).astype(int))
    x = LEFT + (RIGHT - LEFT) * rows / max(steps - 1, 1)
    for i, (name, path) in enumerate(paths.items()):
        points = "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, height(path[rows]), strict=True))
        dash = f' stroke-dasharray="{DASHES[i % len(DASHES)]}"' if i else ""
        lines.append(f'<path class="line"{dash} d="M{points}"/>')
        kind = ("line", "dashes", "dots", "dashes and dots")[i % len(DASHES)]
        words.append(f"{name} ({kind})")
    marks = [value for value in (1.0 / FAR_OFF_FACTOR, 1.0, FAR_OFF_FACTOR) if low <= np.log10(value) <= high]
    grid = "".join(f'<path class="grid" d="M{LEFT:.0f} {height(value):.1f}H{RIGHT:.0f}"/>' for value in marks)
    ticks = "".join(
        f'<text x="{LEFT - 10:.0f}" y="{height(value) + 5:.1f}" text-anchor="end">{value:g}</text>' for value in marks
    )
    return (
        f'<svg class="season" viewBox="0 0 1000 200" role="img" aria-label="{escape(told)}">'
        f'{grid}{"".join(lines)}{ticks}</svg><p class="hint">{escape(", ".join(words))}; from the first row to the '
        f"last. 1 is what the model says; beyond {FAR_OFF_FACTOR:g} or below {1 / FAR_OFF_FACTOR:g} the model "
        "should be corrected.</p>"
    )
