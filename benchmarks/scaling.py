"""How the cost of a step grows with length, states, measurements and number of series; a part of `speed.py`."""

from functools import partial
from typing import Any

import numpy as np
from first_call import PAUSE, linear_model
from libraries import LIBRARIES, installed
from timing import Run, cpu_times, number

import wolf

LENGTHS = (10, 100, 1_000, 10_000, 100_000)
STATES = (1, 2, 4, 8, 16, 32, 64)
MEASURED = (1, 2, 4, 8)
LARGE = (32, 40, 50, 52, 64, 100)  # states, half of them measured, where learned noise may cost LIMITS Kalman filters
LARGE_STEPS = 200
LARGE_ROUNDS = 6
LIMITS = {"Learned": 2.5, "default": 4.0}  # in Kalman filters
SERIES = (1, 10, 100, 1_000, 10_000)
STEPS = 2_000
SERIES_STEPS = 100
METHODS: dict[str, Any] = {"KF": wolf.KF(), "WoLF": wolf.WoLF(), "Learned": wolf.Learned(), "default": None}
RIVAL = "statsmodels"


def one_series(model: wolf.LinearModel, steps: int) -> dict[str, float | str]:
    """Give ns a step of one series, and the backend of the default."""
    ys = np.random.default_rng(0).normal(size=(steps, model.obs_dim))
    runs = {name: Run(partial(wolf.filter, model, ys, method=method), steps) for name, method in METHODS.items()}
    if RIVAL in installed():
        runs[RIVAL] = Run(lambda library: library.filter(ys), steps, partial(LIBRARIES[RIVAL], model))
    backend = wolf.filter(model, ys).backend.split(":")[0]
    return cpu_times(runs, 3 if steps <= STEPS else 2) | {"backend": backend}


def large(size: int) -> dict[str, float | str]:
    """Give ns a step of a large dense model, of many rounds in turn; its columns are those of `one_series`."""
    model = linear_model(size)
    ys = np.random.default_rng(0).normal(size=(LARGE_STEPS, model.obs_dim))
    runs = {n: Run(partial(wolf.filter, model, ys, method=m), LARGE_STEPS) for n, m in METHODS.items()}
    found = cpu_times(runs, LARGE_ROUNDS, PAUSE)
    backend = wolf.filter(model, ys).backend.split(":")[0]
    texts = []
    for name, limit in LIMITS.items():
        ratio = found[name] / found["KF"]
        texts.append(f"{name} {ratio:.1f} KF{'' if ratio <= limit else f' (above {limit})'}")
    return found | {"backend": ", ".join([backend, *texts])}


def many_series(count: int) -> dict[str, float | str]:
    """Give ns a series-step of many."""
    model = linear_model(4)
    ys = np.random.default_rng(0).normal(size=(count, SERIES_STEPS, model.obs_dim))
    runs = {
        name: Run(partial(wolf.filter_many, model, ys, method=method, save="means"), count * SERIES_STEPS)
        for name, method in METHODS.items()
    }
    return cpu_times(runs, 3) | {"backend": wolf.filter_many(model, ys[:1], save="means").backend.split(":")[0]}


def lines() -> list[str]:
    """Measure, and write a table."""
    rows = {f"{steps:,} steps, (4, 2)": one_series(linear_model(4), steps) for steps in LENGTHS}
    rows |= {f"{size} states, 1 measured": one_series(linear_model(size, 1), STEPS) for size in STATES}
    rows |= {f"8 states, {size} measured": one_series(linear_model(8, size), STEPS) for size in MEASURED}
    rows |= {f"{size} states, {size // 2} measured": large(size) for size in LARGE}
    rows |= {f"{count:,} series of {SERIES_STEPS} steps": many_series(count) for count in SERIES}
    columns = [*METHODS, RIVAL]
    found = [f"| ns a step | {' | '.join(columns)} | backend |", "|---|" + "---|" * (len(columns) + 1)]
    for label, row in rows.items():
        cells = [number(1e9 * float(row[name])) if name in row else "" for name in columns]
        found.append(f"| {label} | {' | '.join(cells)} | {row['backend']} |")
        print(found[-1], flush=True)
    return found
