"""2-D tracking against a robust particle filter, the Rao-Blackwellised β-divergence filter of Boustati et al. (2020).

Expected: comparable errors, at a much higher price. The paper gives neither β nor the number of particles, and its
code has no such run: here β is chosen from a few values on the first trial, as the paper chooses all others.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import wolf
from wolf.execution import xla_batching
from wolf.numerics.precision import precision
from wolf.numerics.pytree import cast
from wolf_paper import figures, tracking
from wolf_paper.figures import group
from wolf_paper.protocol import Experiment, Rows, Task
from wolf_paper.tracking import SAVED, WORLD, World
from wolf_paper.tracking_trials import in_batches

SHOWN = ("KF", "KF-B", "KF-IW", "WoLF-IMQ", "WoLF-TMD", "RBPF", "WoLF (calibrated)", "Learned", "oracle")
COMPARABLE = 1.15  # times the better WoLF method


@dataclass(frozen=True)
class Settings:
    """How much to run.

    Attributes:
        trials: number of runs.
        world: what the data are made of.
        particles: N.
        betas: β to choose from.
        repeats: of each timed run.
    """

    trials: int = 500
    world: World = WORLD
    particles: int = 500
    betas: tuple[float, ...] = (0.01, 0.03, 0.1, 0.2, 0.4)
    repeats: int = 15


def parts(config: Settings) -> tuple[str, ...]:
    """Name the parts: β first, then the runs with it."""
    return (*(f"{kind} {what}" for kind in tracking.KINDS for what in ("beta", "trials")), "timing")


def run(task: Task) -> Rows:
    """Choose β, run all trials, or time."""
    config: Settings = task.config
    kind, _, what = task.part.partition(" ")
    if task.part == "timing":
        return _timing(task, config)
    data = tracking.simulate(kind, config.world, config.trials, task.seed)
    model, ys = tracking.make_model(config.world), tracking.measurements(data)
    if what == "beta":
        return _choose(task, config, model, data)
    found: Rows = []
    for name, method in tracking.make_methods(SAVED[kind]).items():
        if name in SHOWN:
            found += _rows(name, wolf.filter_many(model, ys, method=method, save="means").means, data)
    found += _rows("oracle", tracking.oracle(model, data), data)
    method = wolf.methods.make("Beta-RBPF", beta=chosen(task.earlier[f"{kind} beta"]), num_particles=config.particles)
    return found + _rows("RBPF", in_batches(model, ys, method, task), data)


def _choose(task: Task, config: Settings, model: Any, data: tuple[Any, ...]) -> Rows:
    found: Rows = []
    for number, beta in enumerate(config.betas, 1):
        method = wolf.methods.make("Beta-RBPF", beta=beta, num_particles=config.particles)
        out = wolf.filter(model, data[0].measurements, method=method, key=task.seed, save="means")
        found.append({"beta": beta, "largest J": float(tracking.errors(out.means[None], data[:1]).max())})
        task.tell(number, len(config.betas))
    return found


def chosen(rows: Rows) -> float:
    """Take the β with the smallest error."""
    return min(rows, key=lambda row: row["largest J"])["beta"]


def _rows(name: str, means: np.ndarray, data: tuple[Any, ...]) -> Rows:
    errors = tracking.errors(means, data)[:, 0]
    return [{"method": name, "trial": trial, "J0": float(error)} for trial, error in enumerate(errors)]


def _timing(task: Task, config: Settings) -> Rows:
    """Time single runs in turn; the number of particles is what costs, not β."""
    ys = tracking.simulate("student", config.world, config.trials, task.seed)[0].measurements
    methods = {
        "KF": wolf.KF(),
        "WoLF-IMQ": wolf.methods.make("WoLF-IMQ", c=SAVED["student"].imq),
        "RBPF": wolf.methods.make("Beta-RBPF", num_particles=config.particles),
    }
    found: Rows = []
    with precision("float64"):
        model, key = cast(tracking.make_model(config.world), np.float64), jax.random.key(task.seed)
        engines = {name: (model, cast(method, np.float64), ys, None, key) for name, method in methods.items()}
        for engine in engines.values():
            jax.block_until_ready(xla_batching.run_one(*engine, save="means"))
        for repeat in range(config.repeats):
            for name, engine in engines.items():
                started = time.process_time()
                jax.block_until_ready(xla_batching.run_one(*engine, save="means"))
                found.append({"method": name, "repeat": repeat, "seconds": time.process_time() - started})
            task.tell(repeat + 1, config.repeats)
    return found


def measure(done: Mapping[str, Rows], config: Settings) -> dict[str, float]:
    """Compare errors and prices."""
    found: dict[str, float] = {}
    for kind in tracking.KINDS:
        found[f"beta, {kind}"] = chosen(done[f"{kind} beta"])
        for name, errors in group(done[f"{kind} trials"], "method", "J0").items():
            found[f"{name} J0, {kind}"] = float(np.median(errors))
        better = min(found[f"{name} J0, {kind}"] for name in ("WoLF-IMQ", "WoLF-TMD"))
        ratio = found[f"RBPF J0, {kind}"] / better
        found[f"RBPF over the better WoLF, {kind}"] = ratio
        found[f"RBPF beats KF, {kind}"] = float(found[f"RBPF J0, {kind}"] < found[f"KF J0, {kind}"])
        found[f"RBPF is comparable to WoLF, {kind}"] = float(1.0 / COMPARABLE < ratio < COMPARABLE)
    seconds = group(done["timing"], "method", "seconds")
    found["RBPF slowdown"] = float(np.median(np.asarray(seconds["RBPF"]) / np.asarray(seconds["KF"])))
    return found


def draw(done: Mapping[str, Rows], config: Settings) -> dict[str, Any]:
    """Draw the distributions of the first component."""
    figure = figures.new_figure(11.0, 4.4)
    axes = figure.subplots(1, 2, sharey=True)
    for ax, kind in zip(axes, tracking.KINDS, strict=True):
        samples = group(done[f"{kind} trials"], "method", "J0")
        figures.boxes(ax, {name: samples[name] for name in SHOWN})
        figures.heading(ax, f"{tracking.TITLES[kind]}; RBPF: β = {chosen(done[f'{kind} beta']):g}")
        ax.set_xlabel("J of position x (log scale)")
    words = f"{config.trials} trials of {config.world.steps} steps; RBPF with {config.particles} particles. Whiskers "
    figures.caption(figure, words + "5 and 95 %.")
    return {"rbpf": figure}


EXPERIMENT = Experiment(
    name="tracking-rbpf",
    title="2-D tracking against the Rao-Blackwellised β-divergence particle filter",
    shows="the comparison with the RBPF of appendix E.2",
    settings={"small": Settings(24, World(steps=300), 60, (0.1, 0.2), 3), "paper": Settings()},
    parts=parts,
    run=run,
    measure=measure,
    draw=draw,
    remarks=(
        "The paper's code has no RBPF: what is run here is the filter of Boustati et al. (2020) on the measured "
        "coordinates, with the rest of the state exact given them.",
    ),
)
