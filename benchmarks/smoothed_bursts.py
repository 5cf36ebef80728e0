"""Bursts of equal errors: error of filter, smoother and `FixedLag` relative to an oracle that knows the outliers.

A suite of `benchmarks/robustness.py`. The error is that of the first position from the burst to ten steps after it;
each cell is the median over the trials of its root mean square over that of the oracle: the same estimator by a Kalman
filter to which the measurements of the burst are missing.
"""

import numpy as np

import wolf

STEPS, START, AFTER = 160, 80, 10
SIZE = 60.0  # of the equal errors, in both coordinates; the noise has a deviation of 3.2
MOST_LAGGED = 20  # trials of what goes step by step
LAGS = (10, 30)


def bursts(trials, rng):
    """Bursts of equal errors that came back: error over the oracle's, smoothed and at a fixed lag."""
    model = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
    titles = ["filter", "smoother", "smoother, reweight", *(f"FixedLag, lag {lag}" for lag in LAGS)]
    print("| burst | " + " | ".join(titles) + " |\n|" + "---|" * (len(titles) + 1))
    for length in (5, 8, 20):
        runs = [wolf.simulate.trajectory(model, STEPS, int(rng.integers(1 << 30))) for _ in range(trials)]
        for name in ("WoLF", "Learned", "Adaptive"):
            ratios = [compare(model, name, run, length) for run in runs[:MOST_LAGGED]]
            cells = [f"{np.median(column):.2f}" for column in zip(*ratios, strict=True)]
            print(f"| {length} equal errors, {name} | " + " | ".join(cells) + " |", flush=True)


def compare(model, name, run, length):
    """Errors of all estimators over those of the oracle."""
    inside = slice(START, START + length)
    ys, known_ys = run.measurements.copy(), run.measurements.copy()
    ys[inside] += SIZE
    known_ys[inside] = np.nan
    out, known = wolf.filter(model, ys, method=name), wolf.filter(model, known_ys, method="KF")
    best = wolf.smooth(known).means
    pairs = [(out.means, known.means), (wolf.smooth(out).means, best), (wolf.smooth(out, reweight=True).means, best)]
    pairs += [(lagged(model, name, ys, lag), lagged(model, "KF", known_ys, lag)) for lag in LAGS]
    return [error(mine, run.states, length) / error(theirs, run.states, length) for mine, theirs in pairs]


def lagged(model, name, ys, lag):
    """Go step by step; the answer about each step when it is `lag` steps old."""
    late = wolf.FixedLag(model, name, lag=lag)
    means = np.full((len(ys), model.state_dim), np.nan)
    for y in ys:
        answer = late.step(y)
        means[answer.t] = answer.mean
    return means


def error(means, states, length):
    window = slice(START, START + length + AFTER)
    return np.sqrt(((means - states)[window, 0] ** 2).mean())


SUITES = {"bursts": bursts}
