"""What does `wolf.explain` find? One known fault in each series, and what it is called: a confusion table.

    python benchmarks/explain.py                                  # 200 series a cell: minutes
    python benchmarks/explain.py trend --method Adaptive --trials 20 --seed 1
    python benchmarks/explain.py --write benchmarks/results/explain.md

A series of 400 steps is simulated from its model, one thing is done to it at a random place, and the method filters it.
What counts is the strongest cause that `explain` names at that place (`wolf.explain(out).causes`); "none" if nothing is
named there. False alarms are clean series in which anything is named, and those in which something is named elsewhere
than at the fault. Sizes are in standard deviations of the measurement noise, `--size 8` of them by default.

A second table is about drifts alone, by the steps that they take, beside what can be reached at most: a slow drift that
goes back at once looks like a shift of the level at its end. A third one is about series with two faults, of 6 to 20
deviations: right is who names both, and nothing else, with their first and last steps within 3.
"""

import argparse
from collections import Counter
from itertools import product
from math import erf
from pathlib import Path

import numpy as np
from timing import write_page

import wolf
from wolf.diagnostics.faults.signatures import FaultSignatures, Pattern

STEPS = 400
MARGIN = 100  # steps before a fault, and at least as many after it
KINDS = ("outlier", "burst", "bias", "drift", "stuck", "jump", "level shift", "noise change", "missing", "clean")
NEAR = 8  # steps around a fault that belong to it
DRIFTS = (20, 30, 45, 60, 90)  # steps
PAIRED = {"burst": (5, 20), "bias": (30, 80), "level shift": None}  # steps, of series with two faults
PAIRED_SIZES, PAIRED_FROM = (6.0, 20.0), (60, 220)
FAST_SLOPE = np.diag([0.05, 1e-3])  # Q of a trend whose slope changes ten times as fast (in variance)


def models():
    """Level, trend, and tracking in the plane."""
    return {
        "level": wolf.models.local_level(level_var=0.05, obs_var=1.0, prior=wolf.Gaussian(np.zeros(1), np.eye(1))),
        "trend": wolf.LinearModel(
            [[1.0, 1.0], [0.0, 1.0]], np.eye(1, 2), np.diag([0.05, 1e-4]), np.eye(1), np.zeros(2), np.eye(2)
        ),
        "tracking": wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0),
    }


def spoil(model, kind, rng, size, length=None):
    """Simulate a series with one fault, of a usual length by default; return it, and its first and last step."""
    deviation = np.sqrt(np.diag(model.R))
    first = int(rng.integers(MARGIN, STEPS - 2 * MARGIN))
    ways = rng.normal(size=len(deviation))
    push = size * deviation * ways / np.linalg.norm(ways)
    sensor = int(rng.integers(len(deviation)))
    one = np.where(np.arange(len(deviation)) == sensor, size * deviation * rng.choice([-1, 1]), 0.0)
    jumps = {}
    if kind == "jump":  # what is measured and how fast it moves change together
        F, H = np.asarray(model.F if model.F is not None else np.eye(1)), np.asarray(model.H)
        seen = np.concatenate([H, H @ F - H])
        jumps[first] = np.linalg.lstsq(seen, np.concatenate([push, rng.choice([-1, 1]) * push / size]), rcond=None)[0]
    ys = simulate(model, rng, jumps)
    lengths = {"outlier": (1, 1), "burst": (3, 20), "bias": (30, 90), "drift": (20, 45), "stuck": (10, 60)}
    lengths |= {"noise change": (30, 90), "missing": (1, 30)}
    low, high = lengths.get(kind, (1, 1)) if length is None else (length, length)
    last = first + int(rng.integers(low, high + 1)) - 1
    inside = slice(first, last + 1)
    if kind == "outlier":
        ys[first] += push
    elif kind == "burst":
        same = rng.random() < 0.5
        count = last - first + 1
        turned = rng.normal(size=(count, len(deviation)))
        turned *= size / np.linalg.norm(turned, axis=1, keepdims=True)
        ys[inside] += push if same else deviation * turned
    elif kind == "bias":
        ys[inside] += one
    elif kind == "drift":
        ys[inside] += np.outer(np.arange(1, last - first + 2) / (last - first + 1), one)
    elif kind == "stuck":
        ys[inside, sensor] = ys[first, sensor]
    elif kind == "level shift":
        ys[first:] += push
    elif kind == "noise change":
        ys[inside] += np.sqrt(size**2 - 1) * deviation * rng.normal(size=ys[inside].shape)
    elif kind == "missing":
        ys[inside] = np.nan
    return ys, first, last


def simulate(model, rng, jumps):
    """Draw measurements; `jumps` {step: what is added to the state}."""
    F, H = np.asarray(model.F if model.F is not None else np.eye(model.state_dim)), np.asarray(model.H)
    roots = [np.linalg.cholesky(np.asarray(each) + 1e-12 * np.eye(len(each))) for each in (model.Q, model.R)]
    state = np.asarray(model.mean) + np.linalg.cholesky(np.asarray(model.cov)) @ rng.normal(size=model.state_dim)
    ys = np.empty((STEPS, len(H)))
    for t in range(STEPS):
        state = F @ state + roots[0] @ rng.normal(size=len(state)) + jumps.get(t, 0.0)
        ys[t] = H @ state + roots[1] @ rng.normal(size=len(H))
    return ys


def judge(found, kind, first, last):
    """Say what is named at the fault, and whether anything is named elsewhere."""
    near = [one for one in found.causes if one.first <= last + NEAR and one.last >= first - NEAR]
    elsewhere = len(near) < len(found.causes)
    if not near:
        return "none", elsewhere
    longest = max(near, key=lambda one: (min(one.last, last) - max(one.first, first), np.nan_to_num(one.size, nan=1e9)))
    return longest.kind, elsewhere


def confusion(model, method, trials, rng, size):
    """Count what each kind is called: {kind: Counter}, and shares of series with something elsewhere."""
    counts, others = {}, {}
    for kind in KINDS:
        called, elsewhere = Counter(), 0
        for _ in range(trials):
            ys, first, last = spoil(model, kind, rng, size)
            found = wolf.explain(wolf.filter(model, ys, method=method))
            name, more = judge(found, kind, first, last) if kind != "clean" else ("none", bool(found.causes))
            called[name] += 1
            elsewhere += more
        counts[kind], others[kind] = called, elsewhere / trials
    return counts, others


def table(name, method, counts, others):
    """Lay counts out: what was done in rows, what it was called in columns."""
    names = [*KINDS[:-1], "none"]
    lines = ["", f"| {name}, {method} | " + " | ".join(names) + " | elsewhere |", "|" + "---|" * (len(names) + 2)]
    for kind, called in counts.items():
        total = sum(called.values())
        cells = [f"{called[each] / total:.1%}" if called[each] else "" for each in names]
        lines.append(f"| {kind} | " + " | ".join(cells) + f" | {others[kind]:.1%} |")
    return lines


def reachable(model, length, size):
    """Count how often a drift can be distinguished from a level shift at its end when all but the kind is known.

    Errors that differ by d deviations are distinguished with probability Φ(d / 2), by the likelihood ratio: a detector
    that is right more often about drifts is less often right about shifts.
    """
    signatures, steps = FaultSignatures(model), STEPS - MARGIN
    push = size * np.sqrt(np.diag(model.R)) * np.eye(1, model.obs_dim)[0]
    drift = (signatures.signature(Pattern("ramp", length), steps) @ push).ravel()
    shift = np.zeros((steps, model.obs_dim))
    shift[length:] = signatures.signature(Pattern("step", 0), steps - length) @ push
    shift = shift.ravel()
    apart = np.linalg.norm(drift - shift * (shift @ drift) / (shift @ shift))
    return 0.5 * (1.0 + erf(apart / 2.0 / np.sqrt(2.0)))


def drifts(method, trials, seed, size):
    """Lay out how often a drift of each length is found, and how often it can be."""
    trend = models()["trend"]
    faster = wolf.LinearModel(trend.F, trend.H, FAST_SLOPE, trend.R, trend.mean, trend.cov)
    chosen = models() | {"trend, slope variance x 10": faster}
    lines = [
        "",
        f"| drift, {method} | " + " | ".join(f"{n} steps" for n in DRIFTS) + " |",
        "|---|" + "---|" * len(DRIFTS),
    ]
    for k, (name, model) in enumerate(chosen.items()):
        cells = []
        for length in DRIFTS:
            rng = np.random.default_rng([seed, k, length])
            right = 0
            for _ in range(trials):
                ys, first, last = spoil(model, "drift", rng, size, length)
                right += judge(wolf.explain(wolf.filter(model, ys, method=method)), "drift", first, last)[0] == "drift"
            cells.append(f"{right / trials:.1%} of {reachable(model, length, size):.1%}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines


def spoil_twice(model, kinds, rng):
    """Simulate a series with two faults that last, far apart: it, and their first and last steps."""
    deviation = np.sqrt(np.diag(model.R))
    ys, places = simulate(model, rng, {}), []
    for kind, low in zip(kinds, PAIRED_FROM, strict=True):
        first, size = int(rng.integers(low, low + 50)), rng.uniform(*PAIRED_SIZES)
        ways = rng.normal(size=len(deviation))
        if kind == "bias":  # of one sensor
            ways = np.where(np.arange(len(ways)) == rng.integers(len(ways)), ways, 0.0)
        length = STEPS if kind == "level shift" else int(rng.integers(*PAIRED[kind]))
        ys[first : first + length] += size * deviation * ways / np.linalg.norm(ways)
        places.append((first, first if kind == "level shift" else first + length - 1))
    return ys, places


def pairs(method, trials, seed):
    """Lay out how often both of two faults are named, by their kinds."""
    lines = ["", f"| two faults, {method} | " + " | ".join(models()) + " |", "|---|" + "---|" * len(models())]
    for k, kinds in enumerate(product(PAIRED, PAIRED)):
        cells = []
        for i, model in enumerate(models().values()):
            rng = np.random.default_rng([seed, k, i])
            right = 0
            for _ in range(trials):
                ys, places = spoil_twice(model, kinds, rng)
                found = wolf.explain(wolf.filter(model, ys, method=method)).causes
                right += [one.kind for one in found] == list(kinds) and all(
                    max(abs(one.first - first), abs(one.last - last)) <= 3
                    for one, (first, last) in zip(found, places, strict=True)
                )
            cells.append(f"{right / trials:.0%}")
        lines.append(f"| {kinds[0]}, then {kinds[1]} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help=f"of {', '.join(models())}, drifts, pairs; all by default")
    parser.add_argument("--method", nargs="*", default=["Learned", "Adaptive"])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=997_301)
    parser.add_argument("--size", type=float, default=8.0)
    parser.add_argument("--write", type=Path, help="page with marks to write the tables into")
    options = parser.parse_args()
    chosen = options.models or [*models(), "drifts", "pairs"]
    lines = []
    for name in models():
        for method in options.method if name in chosen else ():
            rng = np.random.default_rng([options.seed, list(models()).index(name)])
            some = table(name, method, *confusion(models()[name], method, options.trials, rng, options.size))
            print("\n".join(some), flush=True)
            lines += some
    if options.write and lines:
        write_page("explain", lines, options.write)
    if "drifts" in chosen:
        lines = drifts(options.method[0], options.trials, options.seed, options.size)
        if options.write:
            write_page("drifts", lines, options.write)
    if "pairs" in chosen:
        lines = [line for method in options.method for line in pairs(method, options.trials, options.seed)]
        if options.write:
            write_page("pairs", lines, options.write)


if __name__ == "__main__":
    main()
