"""WoLF-MD as a MAP estimate (appendix B), and what the prior uncertainty that it leaves out would change. Seconds.

Model: y ~ N(ŷ, R / ω), ω ~ Gamma(α, β) with α = (c² - n + 2) / 2 and β = c² / 2 for n measured numbers. The mode of ω
given y is (1 + d² / c²)⁻¹ with d² = eᵀ R⁻¹ e, and it divides R: it is the *square* w² of the weight of WoLF-MD. The
paper prints the exponent -1/2 for it, and then raises the likelihood to the power of its square.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

import wolf
from wolf.plots import style
from wolf_paper import figures, tracking
from wolf_paper.protocol import Experiment, Rows, Task

NODES = 180  # of the quadrature over one state


@dataclass(frozen=True)
class Settings:
    """Values of the checks.

    Attributes:
        c: threshold of WoLF-MD.
        largest: distance d up to which the mode is computed.
        points: distances.
        prior_ratios: variance of the predicted measurement over R, with which the mode is repeated.
        steps: of the filtered series.
    """

    c: float = 4.0
    largest: float = 40.0
    points: int = 41
    prior_ratios: tuple[float, ...] = (0.0, 0.1, 1.0, 10.0)
    steps: int = 200


def closed_form(distance: Any, c: float) -> Any:
    """Compute the mode of ω in closed form."""
    return 1.0 / (1.0 + np.square(distance) / c**2)


def log_marginal(power: Any, distance: float, ratio: float, c: float) -> Any:
    """Compute log p(ω | y) of one measurement up to a constant, as the appendix prints it with H = R = 1.

    Args:
        power: ω.
        distance: d, the residual over the standard deviation of the noise.
        ratio: variance of the predicted measurement over R.
        c: threshold.
    """
    alpha, beta = (c**2 + 1.0) / 2.0, c**2 / 2.0
    quadratic = 0.5 * distance**2 * power / (1.0 + power * ratio)
    return (alpha - 0.5) * np.log(power) - 0.5 * np.log1p(power * ratio) - beta * power - quadratic


def mode(distance: float, ratio: float, c: float) -> float:
    """Maximise that marginal numerically, over the logarithm of ω."""
    found = minimize_scalar(
        lambda log: -log_marginal(np.exp(log), distance, ratio, c), bounds=(-20.0, 5.0), method="bounded",
        options={"xatol": 1e-10},
    )  # fmt: skip
    return float(np.exp(found.x))


def integrated(power: float, distance: float, ratio: float, c: float) -> float:
    """Compute p(ω, y) by quadrature over the state, to check the printed marginal."""
    alpha, beta = (c**2 + 1.0) / 2.0, c**2 / 2.0
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    states = np.sqrt(ratio) * nodes
    likelihood = np.sqrt(power) * np.exp(-0.5 * power * (distance - states) ** 2)
    return float((weights * likelihood).sum() * power ** (alpha - 1.0) * np.exp(-beta * power))


def run(task: Task) -> Rows:
    """Compute modes over distances and prior variances, or filter a series in two ways."""
    config: Settings = task.config
    if task.part == "modes":
        return [
            {"distance": float(d), "ratio": ratio, "mode": mode(d, ratio, config.c), "closed": closed_form(d, config.c)}
            for ratio in config.prior_ratios
            for d in np.linspace(0.0, config.largest, config.points)
        ]
    world = tracking.World(steps=config.steps)
    model = tracking.make_model(world)
    ys = wolf.simulate.trajectory(model, config.steps, task.seed, tracking.process("mixture", world)).measurements
    robust = wolf.filter(model, ys, method=wolf.WoLF(wolf.MahalanobisIMQ(c=config.c, metric="R")))
    distances = np.sqrt((robust.residuals**2).sum(1) / world.obs_var)
    divided = model.R / closed_form(distances, config.c)[:, None, None]
    kalman = wolf.filter(wolf.LinearModel(model.F, model.H, model.Q, divided, model.mean, model.cov), ys, method="KF")
    shifts = np.abs(kalman.means - robust.means).max(1) / np.abs(robust.means).max()
    return [{"step": step + 1, "difference": float(shift)} for step, shift in enumerate(shifts)]


def measure(done: Mapping[str, Rows], config: Settings) -> dict[str, float]:
    """Compare modes with the closed form, the printed marginal with quadrature, and the two filters."""
    modes = done["modes"]
    known = [row for row in modes if row["ratio"] == 0.0]
    inner = np.log([[row["mode"], 1.0 + row["distance"] ** 2 / config.c**2] for row in known if row["distance"] > 0])
    powers = np.geomspace(0.05, 2.0, 9)
    ratio = [integrated(w, 3.0, 0.7, config.c) / np.exp(log_marginal(w, 3.0, 0.7, config.c)) for w in powers]
    tiny = [mode(d, 1e-8, config.c) / closed_form(d, config.c) - 1.0 for d in (0.5, 3.0, 20.0)]
    own = {d: [row["mode"] for row in modes if row["distance"] == d] for d in (0.0, config.largest)}
    return {
        "mode over closed form, largest difference": max(abs(row["mode"] / row["closed"] - 1.0) for row in known),
        "exponent of 1 + d²/c² in the mode": float(np.polyfit(inner[:, 1], inner[:, 0], 1)[0]),
        "means of WoLF-MD and of the KF with R over the mode, largest difference": max(
            row["difference"] for row in done["filters"]
        ),
        "printed marginal over quadrature, largest difference": float(np.ptp(ratio) / np.mean(ratio)),
        "mode without prior variance is the limit, largest difference": float(np.abs(tiny).max()),
        "mode with the largest prior variance over without, d = 0": own[0.0][-1] / own[0.0][0],
        "mode with the largest prior variance over without, largest d": own[config.largest][-1]
        / own[config.largest][0],
    }


def draw(done: Mapping[str, Rows], config: Settings) -> dict[str, Any]:
    """Draw the mode against the distance for each prior variance, with the printed exponent."""
    figure = figures.new_figure(7.5, 4.2)
    ax = figure.add_subplot()
    shades = (style.INK, *style.CYCLE[1:])
    dashes = (style.SOLID, style.LONG, style.DASHED, style.DOTTED)
    for ratio, shade, dash in zip(config.prior_ratios, shades, dashes, strict=False):
        rows = [row for row in done["modes"] if row["ratio"] == ratio]
        ax.plot([r["distance"] for r in rows], [r["mode"] for r in rows], color=shade, ls=dash, lw=1.6,
                label=f"mode, predicted variance {ratio:g} R")  # fmt: skip
    distances = np.linspace(0.0, config.largest, 200)
    ax.plot(distances, np.sqrt(closed_form(distances, config.c)), color=style.KALMAN, lw=1.2, ls=style.DASHDOT,
            label="as printed: exponent -1/2")  # fmt: skip
    ax.set_yscale("log")
    figures.plain_log(ax, "y")
    figures.dress(ax)
    ax.set_xlabel(f"distance d of the residual, in standard deviations of the noise (c = {config.c:g})")
    ax.set_ylabel("factor on the precision of the measurement")
    ax.legend(frameon=False, fontsize=9, labelcolor=style.INK)
    return {"map-weight": figure}


EXPERIMENT = Experiment(
    name="map-weight",
    title="WoLF-MD as a maximum a posteriori estimate",
    shows="appendix B",
    settings={"small": Settings(steps=50), "paper": Settings()},
    parts=lambda config: ("modes", "filters"),
    run=run,
    measure=measure,
    draw=draw,
    remarks=(
        "The gamma prior needs α > 0, that is c² > n - 2 for n measured numbers, which the appendix does not say.",
        "With prior variance the mode is larger at a far outlier and smaller near the prediction: a residual that the "
        'prediction itself explains is not held against the measurement. The library has that as `metric="S"`.',
    ),
)
