"""Every method in many worlds: some 700 cells of a model, a world and a length; what is lost against simpler methods.

    python benchmarks/worlds.py                                        # the whole suite, 20 runs a cell
    python benchmarks/worlds.py --methods KF WoLF Learned Adaptive     # the cells that judge the default: a quarter
    python benchmarks/worlds.py --cells level1/jumps --runs 100 --seed 7 --csv new.csv --before old.csv
    python benchmarks/worlds.py --page docs/worlds.md --csv worlds.csv

A cell is named model/world/length. Its data depend on the seed and on its name only, whatever else runs. Its figures:
100 x the mean over runs of log(RMSE / RMSE of the oracle), the coverage of 95 % intervals, and the share of lost runs
(more than five times the oracle's error). RMSE and coverage are of the noise-free measurements H x. After a permanent
step, or from a prior that is far off, RMSE says how long recovery took: these cells are compared by the number of steps
until the error is below 3 sd of the noise, and a run is lost if the last quarter of the series is.

Oracle and worlds: `worlds_data.py`; `worlds_real.py` has series with a surveyed truth. Use different seeds for tuning
and for judging.
"""

import argparse
import csv
import time
import zlib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from timing import write_page
from worlds_data import LENGTHS, SYSTEMS, WORLDS

import wolf

JUDGED, SIMPLER = "Adaptive", ("KF", "WoLF", "Learned")
# Of the registry these equal another row where the model is linear, or draw random numbers.
SAME_ON_LINEAR = (
    *("EKF", "IEKF", "UKF", "CKF", "GHKF", "WoLF-IEKF", "WoLF-UKF", "WoLF-CKF", "WoLF-GHKF"),
    *("EKF-B", "EKF-IW", "EKF-Student"),
)
LOST, RECOVERED, NORMAL_95, MARGIN, LEVEL_PAR = 5.0, 3.0, 1.959964, 10.0, 2.0
MAX_LOG_RATIO = 1000.0  # of one run, 100 x log: a factor of 22,000; beyond it a run has diverged


class Score(NamedTuple):
    """Figures of a method in a cell; `recovery`: steps from an event to an error below 3 sd, median and 95 %."""

    cell: str
    method: str
    ratio: float
    standard_error: float
    coverage: float
    lost: float
    recovery: float
    recovery_95: float


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", default="", metavar="PREFIX", help="run only those whose name begins so")
    parser.add_argument("--methods", nargs="+", default=applicable(), help="default: all that apply")
    parser.add_argument("--runs", type=int, default=20, help="series of a cell")
    parser.add_argument("--seed", type=int, default=20_261_118)
    parser.add_argument("--csv", type=Path, help="file to write the figures to")
    parser.add_argument("--before", type=Path, help="figures of another run, to compare with")
    parser.add_argument("--page", type=Path, help="Markdown page to write the tables into")
    parser.add_argument("--read", type=Path, help="take the figures from this file instead of running")
    options = parser.parse_args(arguments)
    scores = read(options.read) if options.read else run(options)
    lines = report(scores)
    print("\n".join(lines))
    if options.before:
        print("\n".join(changes(scores, read(options.before))))
    if options.page:
        ran = list(dict.fromkeys(each.method for each in scores))
        chosen = "" if ran == applicable() else f"--methods {' '.join(ran)} "
        note = f"(`python benchmarks/worlds.py {chosen}--runs {options.runs} --seed {options.seed}`)"
        write_page("worlds", [*lines, "", note], options.page)


def applicable():
    """List the methods of the registry that run on every linear model without random numbers, once each."""
    rows = [row for row in wolf.methods.rows() if not row.requirements.key]
    return [row.name for row in rows if row.family != "ensemble" and row.name not in SAME_ON_LINEAR]


def cells(prefix=""):
    """List (name, model, world, steps) of all cells, those of one model and length together."""
    pairs = [(model, world) for model in SYSTEMS for world in WORLDS if model in WORLDS[world].systems]
    named = ((f"{model}/{world}/{steps}", model, world, steps) for steps in LENGTHS for model, world in pairs)
    return [cell for cell in named if cell[0].startswith(prefix)]


def run(options):
    """Score all cells; the file of figures grows cell by cell."""
    scores, begun = [], time.process_time()
    if options.csv:
        write(options.csv, [], "w")
    for name, model, world, steps in cells(options.cells):
        found = cell(name, SYSTEMS[model], WORLDS[world], steps, options)
        shown = {each.method: each for each in found}
        words = (f"{method} {entry(shown[method])}" for method in (*SIMPLER, JUDGED) if method in shown)
        print(f"{name:34}", "  ".join(words), f"  {time.process_time() - begun:.0f} s", flush=True)
        if options.csv:
            write(options.csv, found, "a")
        scores += found
    return scores


def cell(name, system, world, steps, options):
    """Score the methods in one cell."""
    rng = np.random.default_rng([options.seed, zlib.crc32(name.encode())])
    drawn = world.draw(system, options.runs, steps, rng)
    best = errors("KF", drawn.true, np.where(drawn.skipped, np.nan, drawn.ys), drawn.clean, system)
    return [
        score(name, method, errors(method, drawn.given, drawn.ys, drawn.clean, system), best, world)
        for method in options.methods
    ]


def errors(method, model, ys, clean, system):
    """Return the errors of H x, (B, T, M), in sd of the noise, and their standard deviations."""
    out = wolf.filter_many(model, ys, method=method, save=keeper(system.H.tobytes(), system.H.shape), threads=1)
    with np.errstate(invalid="ignore"):
        return (out.saved["mean"] - clean) / system.noise_sd, np.sqrt(out.saved["variance"]) / system.noise_sd


@lru_cache
def keeper(values, shape):
    """Return the function that saves mean and variance of H x; one object for each H, so that runs compile once."""
    H = np.frombuffer(values).reshape(shape)

    def keep(state, info):
        mean = jnp.asarray(H) @ state.mean
        known = state.cov is not None
        return {"mean": mean, "variance": ((H @ state.cov) * H).sum(1) if known else jnp.full_like(mean, jnp.nan)}

    return keep


def score(name, method, found, best, world):
    """Compute the figures of a method from its errors and those of the oracle."""
    error, spread = np.nan_to_num(found[0], nan=np.inf), found[1]
    with np.errstate(over="ignore"):
        mine, oracle = (np.sqrt((each**2).mean((1, 2))) for each in (error, best[0]))
        ratio = np.minimum(100 * np.log(mine / oracle), MAX_LOG_RATIO)
        lost, recovery = mine > LOST * oracle, np.full(len(mine), np.nan)
        event = world.event(error.shape[1])
        if event is not None:
            last = slice(-(error.shape[1] // 4), None)
            lost = (error[:, last] ** 2).mean((1, 2)) > LOST**2 * (best[0][:, last] ** 2).mean((1, 2))
            near = (np.abs(error[:, event:]) < RECOVERED).all(2)
            recovery = np.where(near.any(1), near.argmax(1), near.shape[1])
    covered = (np.abs(error) < NORMAL_95 * spread).mean() if np.isfinite(spread).any() else np.nan
    se = ratio.std(ddof=1) / np.sqrt(len(ratio)) if len(ratio) > 1 else np.nan
    numbers = (ratio.mean(), se, covered, lost.mean(), *np.quantile(recovery, (0.5, 0.95)))
    return Score(name, method, *map(float, numbers))


def entry(found):
    lost = f" L{100 * found.lost:.0f}" if found.lost else ""
    return f"{found.ratio:+.0f} {found.coverage:.2f}{lost}"


def by_cell(scores):
    """Arrange scores by cell and method."""
    arranged = {}
    for each in scores:
        arranged.setdefault(each.cell, {})[each.method] = each
    return arranged


def report(scores):
    """Write the tables of the page; with fewer than the compared methods there is nothing to compare."""
    arranged, methods = by_cell(scores), list(dict.fromkeys(each.method for each in scores))
    if not {JUDGED, *SIMPLER} <= set(methods):
        return []
    events = {name: each for name, each in arranged.items() if np.isfinite(each[JUDGED].recovery)}
    compared = {name: each for name, each in arranged.items() if name not in events}
    lines = [*counts(compared, methods), "", *losses(compared)] if compared else []
    against = f"best of {', '.join(SIMPLER)} / {JUDGED}"
    steps_to = f"steps to an error of 3 sd, median and 95 % of runs, {' / '.join((*SIMPLER, JUDGED))}"
    for group, title, show in ((compared, against, versus), (events, steps_to, recoveries)):
        for steps in LENGTHS:
            rows = overview(group, steps, show)
            lines += ["", f"T = {steps}: {title}", "", *rows] if rows else []
    return lines


def over_best(found, method):
    """Return the log ratio of a method over that of the best of the simpler ones in a cell."""
    others = [found[name].ratio for name in SIMPLER if name in found and name != method]
    return found[method].ratio - min(others)


def counts(arranged, methods):
    """Count for each method the cells where it is level with the best of the simpler ones, better and worse."""
    title = f"within {LEVEL_PAR:.0f} | better by {MARGIN:.0f} | worse by {MARGIN:.0f}"
    lines = [f"| method | {title} | mean, own coverage | lost |", "|---|---|---|---|---|---|"]
    for method in methods:
        found = [each[method] for each in arranged.values() if method in each]
        over = np.array([over_best(each, method) for each in arranged.values() if method in each])
        within, better, worse = (np.abs(over) <= LEVEL_PAR), over < -MARGIN, over > MARGIN
        mean, coverage = np.mean([each.ratio for each in found]), np.mean([each.coverage for each in found])
        lost = np.mean([each.lost for each in found])
        lines.append(
            f"| {method} | {within.sum()} | {better.sum()} | {worse.sum()} | {mean:+.0f} {coverage:.2f} | {lost:.1%} |"
        )
    return [f"{len(arranged)} cells, against the best of {', '.join(SIMPLER)} in each:", "", *lines]


def losses(arranged):
    """List the cells where the judged method is worse than the best of the simpler ones by more than the margin."""
    worse = {name: over_best(each, JUDGED) for name, each in arranged.items() if JUDGED in each}
    worse = dict(sorted(((name, over) for name, over in worse.items() if over > MARGIN), key=lambda pair: -pair[1]))
    lines = [f"{JUDGED} is worse than the best of {', '.join(SIMPLER)} by more than {MARGIN:.0f} in {len(worse)}:", ""]
    lines += [f"| cell | {' | '.join((*SIMPLER, JUDGED))} |", "|---|" + "---|" * (len(SIMPLER) + 1)]
    for name in worse:
        found = arranged[name]
        lines.append(f"| {name} | " + " | ".join(entry(found[method]) for method in (*SIMPLER, JUDGED)) + " |")
    return lines


def overview(arranged, steps, show):
    """Write a table of worlds by models for one length; nothing if there are no cells."""
    models = [name for name in SYSTEMS if any(cell.startswith(f"{name}/") for cell in arranged)]
    lines = []
    for world in WORLDS:
        found = [arranged.get(f"{model}/{world}/{steps}") for model in models]
        if any(found):
            lines.append(f"| {world} | " + " | ".join(show(each) if each else "" for each in found) + " |")
    return [f"| world | {' | '.join(models)} |", "|---|" + "---|" * len(models), *lines] if lines else []


def versus(found):
    return f"{min(found[name].ratio for name in SIMPLER):+.0f} / {entry(found[JUDGED])}"


def recoveries(found):
    shown = (found[name] for name in (*SIMPLER, JUDGED))
    words = (
        f"{each.recovery:.0f}-{each.recovery_95:.0f}" + f" L{100 * each.lost:.0f}" * (each.lost > 0) for each in shown
    )
    return " / ".join(words)


def changes(scores, before):
    """Compare two runs by world: the mean of the judged method then and now, and the largest rise of a cell."""
    old, lines = (
        by_cell(before),
        ["", f"| world | {JUDGED} before | now | largest rise | coverage |", "|---|" + "---|" * 4],
    )
    groups = {}
    for each in scores:
        if each.method == JUDGED and JUDGED in old.get(each.cell, {}):
            _, world, steps = each.cell.split("/")
            groups.setdefault(f"{world}/{steps}", []).append((old[each.cell][JUDGED], each))
    for name, pairs in groups.items():
        then, now = (np.mean([each[k].ratio for each in pairs]) for k in (0, 1))
        rise = max(new.ratio - previous.ratio for previous, new in pairs)
        coverage = (f"{np.mean([each[k].coverage for each in pairs]):.2f}" for k in (0, 1))
        lines.append(f"| {name} | {then:+.0f} | {now:+.0f} | {rise:+.0f} | {' to '.join(coverage)} |")
    return lines


def write(path, scores, mode):
    with path.open(mode, newline="") as file:
        writer = csv.writer(file)
        if mode == "w":
            writer.writerow(Score._fields)
        writer.writerows([*each[:2], *(f"{number:.6g}" for number in each[2:])] for each in scores)


def read(path):
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [Score(cell, method, *map(float, numbers)) for cell, method, *numbers in rows]


if __name__ == "__main__":
    main()
