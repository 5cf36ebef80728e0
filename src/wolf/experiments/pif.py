"""Maps of the posterior influence function (PIF), of the weights and of the Mahalanobis distance. Seconds.

Expected: the Kalman filter's influence grows without bound; WoLF-IMQ and WoLF-TMD are bounded, TMD with a higher ridge
and a hard edge. The maps are not centred at no error, since the weights look at prediction minus measurement.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import Array

import wolf
from wolf import gaussian, influence
from wolf.experiments import pif_figures, tracking
from wolf.experiments.figures import group
from wolf.experiments.protocol import Experiment, Rows, Task
from wolf.pytree import cast

METHODS = ("KF", "WoLF-IMQ", "WoLF-TMD")
DOMAINS = {"near": (-5.0, 5.0), "wide": (-15.0, 10.0)}
LINE = (1.0, 5.0, 10.0, 50.0, 1e3, 1e4)  # errors along the diagonal


@dataclass(frozen=True)
class Settings:
    """The paper's values: as in its introductory figure, without outliers.

    Attributes:
        grid: points a side.
        steps: T.
        dt: Δ.
        dynamics_var: q.
        obs_var: r.
        c: threshold of both weights, of the distance: TMD gets its square.
        residual: of the last measurement in the part "as in the figure", read off the centre of the paper's weights.
    """

    grid: int = 150
    steps: int = 20
    dt: float = 1.0
    dynamics_var: float = 0.1
    obs_var: float = 1.0
    c: float = 4.0
    residual: tuple[float, float] = (1.0, 2.4)


def make_model(config: Settings) -> Any:
    """Build the model of this figure."""
    variances = {"dynamics_var": config.dynamics_var, "obs_var": config.obs_var}
    return tracking.make_model(tracking.World(steps=config.steps, dt=config.dt, **variances))


def make_methods(config: Settings) -> dict[str, Any]:
    """Build the three filters."""
    return {
        "KF": wolf.KF(),
        "WoLF-IMQ": wolf.methods.make("WoLF-IMQ", c=config.c),
        "WoLF-TMD": wolf.methods.make("WoLF-TMD", c=config.c**2),
    }


def run(task: Task) -> Rows:
    """Map one domain, follow the diagonal, or repeat the near map with the residual of the paper's figure."""
    config = task.config
    model = make_model(config)
    ys = wolf.simulate.trajectory(model, config.steps, task.seed, initial=tracking.START).measurements
    if task.part == "diagonal":
        # As many as on the maps, over and over: the program of the maps serves here too.
        errors = np.resize(np.array([[s, s] for s in LINE]), (config.grid**2, 2))
        return [
            {"method": name, "error": s, "pif": float(value)}
            for name, method in make_methods(config).items()
            for s, value in zip(LINE, influence.pif(model, method, ys, errors), strict=False)
        ]
    if task.part == "as in the figure":
        return _maxima(config, model, ys)
    return _map(config, model, ys, task.part)


def _grid(config: Settings, domain: str) -> np.ndarray:
    axis = np.linspace(*DOMAINS[domain], config.grid)
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)


def _maxima(config: Settings, model: Any, ys: np.ndarray) -> Rows:
    """Put the last measurement where its residual is that of the paper's figure, and take the highest influence."""
    found: Rows = []
    for name, method in make_methods(config).items():
        predicted = wolf.filter(model, ys, method=method).predicted_means[-1, :2]
        moved = np.vstack([ys[:-1], predicted + np.array(config.residual)])
        for domain in DOMAINS:
            highest = influence.pif(model, method, moved, _grid(config, domain)).max()
            found.append({"domain": domain, "method": name, "pif": float(highest)})
    return found


def _map(config: Settings, model: Any, ys: np.ndarray, domain: str) -> Rows:
    errors, kalman = _grid(config, domain), wolf.KF()
    found: Rows = []
    for name, method in make_methods(config).items():
        values = influence.pif(model, method, ys, errors)
        as_run = _reversed(model, method, kalman, ys, errors)
        weights = _weights(model, method, ys, errors)
        columns = zip(errors, values, as_run, *weights, strict=True)
        for error, value, reverse, weight, distance in columns:
            row = {"domain": domain, "method": name, "error x": error[0], "error y": error[1], "pif": value}
            found.append(row | {"as run": reverse, "weight": weight, "distance": distance})
    return found


def _weights(model: Any, method: Any, ys: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weigh the last measurement with each error; its Mahalanobis distance to the prediction comes with it."""
    last = wolf.filter(model, ys, method=method)
    residuals = last.residuals[-1] + errors
    distance = np.sqrt((residuals @ np.linalg.inv(model.R) * residuals).sum(-1))
    weight = method.noise.weight
    return influence.weight_map(weight, model.R, last.innovation_covs[-1], residuals), distance


def _reversed(model: Any, method: Any, kalman: Any, ys: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Compute what the notebook plotted: KL(Kalman posterior of the clean data ‖ contaminated posterior)."""
    with jax.enable_x64(True):
        engine = (cast(model, np.float64), cast(method, np.float64), cast(kalman, np.float64))
        return np.asarray(_divergence(*engine, ys, errors))


@jax.jit
def _divergence(model: Any, method: Any, kalman: Any, ys: Array, errors: Array) -> Array:
    def after(filter_: Any, last: Array) -> wolf.Gaussian:
        before, _ = wolf.run_filter(model, filter_, ys[:-1], save="final")
        state, _ = wolf.step(model, filter_, before, last)
        return wolf.Gaussian(state.mean, state.cov)

    clean = after(kalman, ys[-1])
    return jax.vmap(lambda error: gaussian.kl(clean, after(method, ys[-1] + error)))(errors)


def measure(done: Mapping[str, Rows], config: Settings) -> dict[str, float]:
    """Take the maxima, and the way along the diagonal."""
    found: dict[str, float] = {}
    for domain in DOMAINS:
        for name in METHODS:
            rows = [row for row in done[domain] if row["method"] == name]
            found[f"{name} largest, {domain}"] = max(row["pif"] for row in rows)
            found[f"{name} largest as run, {domain}"] = max(row["as run"] for row in rows)
    for row in done["as in the figure"]:
        found[f"{row['method']} largest, {row['domain']}, residual of the paper"] = row["pif"]
    line = group(done["diagonal"], "method", "pif")
    for name, values in line.items():
        found[f"{name} at an error of 1e4"] = values[-1]
    found["WoLF is bounded and KF is not"] = float(
        line["KF"][-1] > 1e3 * line["KF"][2] and all(line[name][-1] < 1e2 for name in METHODS[1:])
    )
    maxima = [found[f"{name} largest, wide, residual of the paper"] for name in METHODS]
    found["IMQ has a lower maximum than TMD"] = float(maxima[1] < maxima[2] < maxima[0])
    return found


EXPERIMENT = Experiment(
    name="pif",
    title="Influence of one bad measurement: maps of PIF, weights and distance",
    shows="figure 2 (section 3.3); appendix E.1: weights, Mahalanobis distance, extended domain",
    settings={"small": Settings(grid=25), "paper": Settings()},
    parts=lambda config: (*DOMAINS, "diagonal", "as in the figure"),
    run=run,
    measure=measure,
    draw=pif_figures.draw,
    remarks=(
        "The PIF is KL(contaminated ‖ clean) between two posteriors of the same method, as the paper defines it. What "
        "the paper's figure shows is KL(Kalman posterior of the clean data ‖ contaminated posterior) for all three "
        "methods: the arguments are exchanged, and IMQ is not 0 where there is no error. The rows have both.",
        'The maxima of IMQ and TMD depend on the last residual, hence on the random numbers. The part "as in the '
        "figure\" repeats the maps with the residual that the centre of the paper's weights shows, about (1, 2.4).",
        "The paper's map of the weights shows w² for IMQ; here it is w, as its axis says. The extended domain there "
        "is [-15, 10]² in the values and [-15, 10] x [-15, 6] on the axes.",
    ),
)
