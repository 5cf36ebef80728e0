"""Methods that came after the paper beside the default: everyday worlds, and series whose level is redrawn.

    python benchmarks/successors.py --runs 50 --seed 34001 --page benchmarks/results/successors.md
    python benchmarks/successors.py --runs 4 --only changes

The first table has worlds of `worlds_data.py`: 100 x the mean over runs of log(RMSE / RMSE of an oracle with the true R
and Q that skips the outliers), then the coverage of 95 % intervals, both averaged over three models. The second has a
level that is redrawn from its prior with probability 1 % a step, with and without spikes: RMSE in sd of the noise, and
for the run-length filters how many changes are found within 5 steps and how many are reported that are none.
"""

import argparse
import types
import zlib
from pathlib import Path

import numpy as np
from timing import write_page
from worlds import cell
from worlds_data import SYSTEMS, WORLDS

import wolf
from wolf.inference.filters import RunLength, RunLengthState

MODELS, STEPS = ("level.1", "trend", "cv2"), 200
CHOSEN = ("clean", "spikes 5 %", "spikes 20 %", "small spikes", "t3 noise", "R x 10", "R / 10", "Q x 10", "Q / 10")
CHOSEN += ("jumps of 20", "jumps of 20, spikes", "runs of 10", "AR(1) .5", "t3 motion")
DEFAULT = "default"
METHODS = {
    DEFAULT: None,
    "KF": "KF",
    "WoLF": "WoLF",
    "ST-RCGP": "ST-RCGP",
    "OIKF": "OIKF",
    "RoLF": "RoLF",
    "RoLF, bounded": wolf.methods.make("RoLF", bounded=True),
    "STKF": "STKF",
    "STKF, both sides": wolf.methods.make("STKF", prior_dof=4.0),
    "STKF-AR": "STKF-AR",
    "RunLength": "RunLength",
}
HAZARD, LEVEL_SD, SPIKE_SD, NEAR, SETTLED = 0.01, 5.0, 20.0, 5, 3
ONLINE = {
    DEFAULT: None,
    "WoLF": "WoLF",
    "RunLength, KF": RunLength(),
    "RunLength, WoLF": wolf.methods.make("RunLength"),
    "RunLength, ST-RCGP": RunLength(filter=wolf.methods.make("ST-RCGP")),
    "RunLength, default": RunLength(filter=wolf.methods.make("Adaptive")),
}


def worlds(options):
    """Score the methods in the chosen worlds, averaged over the models; log ratios of each cell decide who wins."""
    rows, wins = [], {name: [0, 0] for name in METHODS}
    for world in CHOSEN:
        found = {name: [] for name in METHODS}
        for model in MODELS:
            named = types.SimpleNamespace(runs=options.runs, seed=options.seed, methods=list(METHODS.values()))
            scores = cell(f"{model}/{world}/{STEPS}", SYSTEMS[model], WORLDS[world], STEPS, named)
            for name, each in zip(METHODS, scores, strict=True):
                found[name].append(each)
        for name, scores in found.items():
            pairs = list(zip(scores, found[DEFAULT], strict=True))
            wins[name][0] += sum(a.ratio < b.ratio - options.margin for a, b in pairs)
            wins[name][1] += sum(a.ratio > b.ratio + options.margin for a, b in pairs)
        shown = [
            f"{np.mean([s.ratio for s in each]):+.0f} {np.mean([s.coverage for s in each]):.2f}"
            for each in found.values()
        ]
        rows.append(f"| {world} | {' | '.join(shown)} |")
        print(rows[-1], flush=True)
    counts = [f"{won} / {lost}" for won, lost in wins.values()]
    counts[0] = ""
    head = [f"| world | {' | '.join(METHODS)} |", "|---|" + "---|" * len(METHODS)]
    return [*head, *rows, f"| cells better / worse by {options.margin:g} | {' | '.join(counts)} |"]


def redrawn(runs, spikes, seed):
    """Draw levels that are redrawn from N(0, LEVEL_SD²), in sd of the noise, and the steps where they are."""
    rng = np.random.default_rng([seed, zlib.crc32(b"redrawn"), round(1000 * spikes)])
    changed = rng.random((runs, 2 * STEPS)) < HAZARD
    changed[:, 0] = True
    levels = LEVEL_SD * rng.normal(size=changed.shape)
    last = np.maximum.accumulate(np.where(changed, np.arange(changed.shape[1]), 0), axis=1)
    clean = np.take_along_axis(levels, last, axis=1)
    noise = rng.normal(size=clean.shape)
    noise = np.where(rng.random(clean.shape) < spikes, SPIKE_SD * rng.normal(size=clean.shape), noise)
    return clean, clean + noise, changed


def keep(state, info):
    """Keep the mean, and the most probable run length of filters that have one."""
    return {"mean": state.mean, "run": state.run_length if isinstance(state, RunLengthState) else 0}


def found_changes(run_length, changed):
    """Count changes found within NEAR steps, all changes, and reports of a change without one, per 1,000 steps.

    A change is reported at the start of a segment whose run length has grown from less to SETTLED.
    """
    steps = run_length.shape[1]
    hits = false = total = 0
    for runs, true in zip(run_length, changed, strict=True):
        starts = {t - SETTLED for t in range(1, steps) if runs[t] == SETTLED and t > SETTLED}
        real = np.flatnonzero(true)[1:]
        real = real[real < steps - NEAR - SETTLED]
        hits += sum(any(abs(start - r) <= NEAR for start in starts) for r in real)
        false += sum(not np.any(np.abs(np.flatnonzero(true) - start) <= NEAR) for start in starts)
        total += len(real)
    return hits, total, 1000.0 * false / run_length.size


def changes(options):
    """Compare online methods on redrawn levels."""
    model = wolf.LinearModel(np.eye(1), np.eye(1), 1e-4 * np.eye(1), np.eye(1), np.zeros(1), LEVEL_SD**2 * np.eye(1))
    lines = [
        "| method | RMSE | found | false per 1,000 | RMSE, 5 % spikes | found | false per 1,000 |",
        "|---|" + "---|" * 6,
    ]
    for name, method in ONLINE.items():
        cells = []
        for spikes in (0.0, 0.05):
            clean, ys, changed = redrawn(options.runs, spikes, options.seed)
            saved = wolf.filter_many(model, ys[..., None], method=method, save=keep).saved
            error = np.sqrt(np.mean((np.asarray(saved["mean"])[..., 0] - clean) ** 2))
            hits, total, false = found_changes(np.asarray(saved["run"]), changed)
            reports = (f"{hits} of {total}", f"{false:.1f}") if name.startswith("RunLength") else ("", "")
            cells += [f"{error:.2f}", *reports]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50, help="series of a cell")
    parser.add_argument("--seed", type=int, default=34_001)
    parser.add_argument("--margin", type=float, default=5.0, help="difference of a cell that counts")
    parser.add_argument("--only", choices=("worlds", "changes"), help="one of the two tables")
    parser.add_argument("--page", type=Path, help="Markdown page to write the tables into")
    options = parser.parse_args()
    note = ["", f"(`python benchmarks/successors.py --runs {options.runs} --seed {options.seed}`)"]
    for name, table in (("worlds", worlds), ("changes", changes)):
        if options.only in (None, name):
            lines = table(options)
            if options.page:
                write_page(f"successors {name}", [*lines, *note], options.page)


if __name__ == "__main__":
    main()
