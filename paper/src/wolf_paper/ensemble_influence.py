"""Influence of one measurement on an ensemble, as a 2-Wasserstein distance (the paper's lemma on ensembles). Seconds.

Expected: the distance between the ensembles with and without an error in the last measurement grows in proportion to
the error for the EnKF, and is bounded for AP-, PP- and Hub-EnKF.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import wolf
from wolf.inference import ensembles
from wolf.inference.filters import EnsembleFilter
from wolf.inference.weights import Unweighted
from wolf.plots import style
from wolf_paper import figures, tracking
from wolf_paper.protocol import Experiment, Rows, Task

ERRORS = tuple(10.0**k for k in range(-1, 13))
FAR = 1e4  # error from which on every good measurement's scale is left behind


@dataclass(frozen=True)
class Settings:
    """What is run.

    Attributes:
        members: N.
        steps: T; the last measurement gets the error.
        c: threshold in standard deviations of the noise, a distance.
    """

    members: int = 100
    steps: int = 20
    c: float = 4.0


def methods(config: Settings) -> dict[str, EnsembleFilter]:
    """Build the four ensembles as published; `c` of AP and PP is a square, in the units of y."""
    c = config.c * tracking.WORLD.obs_var**0.5
    weights: dict[str, Any] = {
        "EnKF": Unweighted(),
        "AP-EnKF": ensembles.AveragedParticle(c**2),
        "PP-EnKF": ensembles.PerParticle(c**2),
        "Hub-EnKF": ensembles.Clipped(c),
    }
    return {
        name: EnsembleFilter(config.members, ensembles.SampledGain(), weight=weight) for name, weight in weights.items()
    }


def members(state: Any, info: Any) -> Any:
    """Keep the members of each step."""
    return state.members


def run(task: Task) -> Rows:
    """Filter a tracking series with every error in its last measurement, always with the same random numbers."""
    config: Settings = task.config
    model = tracking.make_model(tracking.WORLD)
    ys = wolf.simulate.trajectory(model, config.steps, task.seed, initial=tracking.START).measurements
    rows: Rows = []
    for name, method in methods(config).items():
        clean = wolf.filter(model, ys, method=method, key=task.seed, save=members).saved[-1]
        for error in ERRORS:
            wrong = ys.copy()
            wrong[-1] += error
            after = wolf.filter(model, wrong, method=method, key=task.seed, save=members).saved[-1]
            paired = float(np.sqrt(((after - clean) ** 2).sum(1).mean()))
            distance = wolf.influence.wasserstein2(clean, after)
            rows.append({"method": name, "error": error, "distance": distance, "paired": paired})
    return rows


def measure(done: Mapping[str, Rows], config: Settings) -> dict[str, float]:
    """Fit how the distance grows, and compare the largest one far out with those near."""
    found: dict[str, float] = {}
    for name, rows in figures.group(({"m": row["method"], "row": row} for row in done["run"]), "m", "row").items():
        far = [row for row in rows if row["error"] >= FAR]
        logs = np.log([[row["error"], max(row["distance"], 1e-300)] for row in far])
        found[f"{name}: exponent of the distance in the error"] = float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
        found[f"{name}: largest distance"] = max(row["distance"] for row in rows)
        found[f"{name}: distance at the largest error"] = far[-1]["distance"]
        found[f"{name}: distance is at most that of the pairing, the bound of the proof"] = float(
            all(row["distance"] <= row["paired"] * (1.0 + 1e-9) for row in rows)
        )
        found[f"{name} is bounded"] = float(far[-1]["distance"] < 1.01 * max(r["distance"] for r in rows[:-1]))
    found["EnKF is not bounded"] = 1.0 - found["EnKF is bounded"]
    return found


def draw(done: Mapping[str, Rows], config: Settings) -> dict[str, Any]:
    """Draw the distances against the error."""
    figure = figures.new_figure(7.5, 4.2)
    ax = figure.add_subplot()
    for name in methods(config):
        rows = [row for row in done["run"] if row["method"] == name]
        drawn = style.method_style(name)
        ax.plot([r["error"] for r in rows], [r["distance"] for r in rows], color=drawn.color, ls=drawn.dash,
                marker=drawn.marker, ms=5, lw=1.4, label=name)  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    figures.dress(ax, grid="both")
    ax.set_xlabel("error of the last measurement, in both coordinates (log scale)")
    ax.set_ylabel("2-Wasserstein distance (log scale)")
    ax.legend(frameon=False, fontsize=9, labelcolor=style.INK)
    figures.caption(figure, f"{config.members} members; the same random numbers with and without the error.")
    return {"ensemble-influence": figure}


EXPERIMENT = Experiment(
    name="ensemble-influence",
    title="Influence of one bad measurement on an ensemble",
    shows="the 2-Wasserstein lemma of appendix C (ensemble Kalman filter); the paper shows no figure of it",
    settings={"small": Settings(30), "paper": Settings()},
    parts=lambda config: ("run",),
    run=run,
    measure=measure,
    draw=draw,
    remarks=(
        "The lemma asks for sup w² ‖y‖ < ∞; for the Hub-EnKF, whose weight c / |e| is not squared but applied to the "
        "error, the clipped error itself is bounded.",
        "Random numbers are the same in both runs: with others the distance of two ensembles is never 0.",
    ),
)
