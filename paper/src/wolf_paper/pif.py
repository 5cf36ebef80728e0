"""Maps of the posterior influence function (PIF), of the weights and of the Mahalanobis distance. Seconds.

Expected: the Kalman filter's influence grows without bound; WoLF-IMQ and WoLF-TMD are bounded, TMD with a higher ridge
and a hard edge. The maps are not centred at no error, since the weights look at prediction minus measurement.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import wolf
from wolf.diagnostics import influence
from wolf_paper import pif_figures, tracking
from wolf_paper.figures import group
from wolf_paper.protocol import Experiment, Rows, Task

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
    errors = _grid(config, domain)
    clean = wolf.filter(model, ys, method="KF")
    found: Rows = []
    for name, method in make_methods(config).items():
        after = contaminate(model, method, ys, errors)
        distance = np.sqrt((after.residuals[:, 0] @ np.linalg.inv(model.R) * after.residuals[:, 0]).sum(-1))
        columns = {
            "error x": errors[:, 0],
            "error y": errors[:, 1],
            "pif": influence.pif(model, method, ys, errors),
            "as run": divergence(clean.means[-1], clean.covs[-1], after.means[:, 0], after.covs[:, 0]),
            "weight": after.weights[:, 0],
            "distance": distance,
        }
        told = {"domain": domain, "method": name}
        found += [told | dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return found


def contaminate(model: Any, method: Any, ys: np.ndarray, errors: np.ndarray) -> wolf.Filtered:
    """Take the last step with each error added to its measurement: one series of one step for each."""
    before = wolf.filter(model, ys, method=method)
    start = replace(model, mean=before.means[-2], cov=before.covs[-2])
    return wolf.filter_many(start, (ys[-1] + errors)[:, None], method=method)


def divergence(mean: np.ndarray, cov: np.ndarray, means: np.ndarray, covs: np.ndarray) -> np.ndarray:
    """Compute KL(N(mean, cov) ‖ N(means, covs)) for many: what the paper's notebook plotted."""
    shift = means - mean
    distance = (shift * np.linalg.solve(covs, shift[..., None])[..., 0]).sum(-1)
    trace = np.trace(np.linalg.solve(covs, np.broadcast_to(cov, covs.shape)), axis1=-2, axis2=-1)
    log_ratio = np.linalg.slogdet(covs)[1] - np.linalg.slogdet(cov)[1]
    return 0.5 * (trace + distance - len(mean) + log_ratio)


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
    shows="figure 2 (section 3.4); appendix E.1: weights, Mahalanobis distance, extended domain",
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
