"""Intervals of measurements that have not come yet, after the noise or the dynamics have changed.

A suite of `benchmarks/robustness.py`. A series has 5 % gross outliers, and R or Q changes at step 500. From 30, 100 and
500 steps after the change the next 20 measurements are forecast; a cell says how often the 95 % intervals held the
future measurements that are no outliers, which no forecast is about.
"""

import numpy as np
from noise_scales import keep, level, methods, plane, row, simulate, spoil, table

import wolf

CHANGE, AHEAD = 500, 20
AFTER = (30, 100, 500)  # steps
CASES = {"no change": (1, 1), "R x 10": (1, 10), "R x 0.1": (1, 0.1), "Q x 10": (10, 1)}


def forecasts(trials, rng):
    """A change midway: 95 % intervals of the next 20 measurements, 30 / 100 / 500 steps after it."""
    chosen = methods()
    table("coverage", chosen)
    late = np.arange(CHANGE + AFTER[-1] + AHEAD) >= CHANGE
    for title, problem in {"tracking": plane(), "level 0.01": level(0.01)}.items():
        for name, (q, r) in CASES.items():
            _, clean, noise = simulate(problem, trials, len(late), rng, np.where(late, q, 1), np.where(late, r, 1))
            ys, _ = spoil(clean, noise, rng)
            cells = []
            for method in chosen.values():
                held = [held_share(problem.model(), method, ys, clean + noise, CHANGE + after) for after in AFTER]
                cells.append(" / ".join(f"{share:.3f}" for share in held))
            row(f"{title}: {name}", cells)


def held_share(model, method, ys, future, now):
    """Forecast from a step on, and say how often the intervals hold what comes."""
    ahead = wolf.forecast(wolf.filter_many(model, ys[:, :now], method=method, save=keep), AHEAD)
    coming = future[:, now : now + AHEAD]
    return ((ahead.lower <= coming) & (coming <= ahead.upper)).mean()


SUITES = {"forecasts": forecasts}
