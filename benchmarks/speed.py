"""Speed of wolf beside other libraries and a floor written by hand in C++: one table, ratios in one run.

    make bench
    python benchmarks/speed.py online series     # some parts of it; the others are those of the last run

Everybody runs in turn in one process after a warm-up, double precision, and those who compute the same are checked to
agree (`timing.py`). Other libraries are used as their users use them (`libraries.py`); what is not installed is left
out. The tables go into docs/benchmarks.md.
"""

import json
import sys
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import first_call
import jax
import numpy as np
import readme_figures
import scaling
from floor import Floor
from libraries import LIBRARIES, installed
from timing import (
    OURS,
    RESULTS,
    STORE,
    Others,
    Run,
    Section,
    check_agreement,
    cpu_times,
    keep,
    machine,
    table,
    wrapped,
    write_page,
)

import wolf

warnings.filterwarnings("ignore")
ROUNDS = 7
STEPS = {"C++": 10_000, "OpenCV": 2_000, "filterpy": 1_000, "simdkalman": 500, "pykalman": 200}  # of a series; else all
ALL_STEPS = 10_000
ONLINE_STEPS = 500
SERIES, SERIES_STEPS = 1_000, 1_000
ONE_BY_ONE = 20  # series, for libraries that take them one after the other
KEYS = 10_000

TRACK = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)


def seasonal(period: int) -> wolf.LinearModel:
    """A trend with a season: 1 + period states."""
    parts = wolf.models.trend(level_var=0.1, slope_var=0.01), wolf.models.seasonal(period, var=0.01)
    return wolf.models.structural(*parts, obs_var=1.0)


MODELS = {
    "(2, 1)": wolf.models.constant_velocity(dims=1, dt=0.1, dynamics_var=0.1, obs_var=10.0),
    "(4, 2)": TRACK,
    "(9, 3)": wolf.models.constant_acceleration(dims=3, dt=0.1, jerk_rate=0.1, obs_var=10.0),
    "(13, 1)": seasonal(12),
    "(25, 1)": seasonal(24),
}


def methods() -> dict[str, Any]:
    """What is measured of ours: the Kalman filter, a weighted one, and what a person gets who asks for nothing."""
    return {"KF": wolf.KF(), "WoLF": wolf.WoLF(), "default": None}


def others() -> dict[str, Callable]:
    """List the libraries that are there."""
    return {name: LIBRARIES[name] for name in installed()}


def floor(sizes: list[tuple[int, int]]) -> Floor | None:
    """Compile the floor; None where there is no compiler, with a word."""
    try:
        return Floor(sizes)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return None


def measurements(model: wolf.LinearModel, *shape: int) -> np.ndarray:
    """Make measurements of about the right size, without outliers: all methods then do their usual work."""
    return 3.0 * np.random.default_rng(0).normal(size=(*shape, model.obs_dim))


def online() -> Section:
    """One measurement at a time, with and without a noise of its own."""
    ys = measurements(TRACK, ONLINE_STEPS)
    noises = [np.eye(2) * (10.0 + i % 7) for i in range(ONLINE_STEPS)]
    stepping = {name: make for name, make in others().items() if hasattr(make, "step")}

    def plain(live: Any) -> Any:
        for y in ys:
            last = live.step(y)
        return last

    def noisy(live: Any) -> Any:
        for y, noise in zip(ys, noises, strict=True):
            last = live.step(y, R=noise)
        return last

    rows = {}
    for label, feed in (("(4, 2)", plain), ("(4, 2), each with its own R", noisy)):
        lives = {name: wolf.Online(TRACK, method) for name, method in methods().items()}
        libraries = {name: make(TRACK) for name, make in stepping.items()}
        feed(lives["KF"])  # the first pass makes all ready that later steps use
        check_agreement(label, lives["KF"].mean, {name: feed(library) for name, library in libraries.items()})
        runs = {name: Run(partial(feed, live), ONLINE_STEPS) for name, live in (lives | libraries).items()}
        rows[label] = cpu_times(runs, 2 * ROUNDS)
    note = "`wolf.Online.step` from Python; statsmodels and dynamax have no such call, C++ would be called from C++."
    return Section("One measurement at a time", "us", 1e6, rows, note)


def means_and_covs(state: Any, info: Any) -> Any:
    """Keep what every library keeps."""
    return state.mean, state.cov


def series() -> Section:
    """One series, by the size of the model."""
    compiled, rows = floor([(m.state_dim, m.obs_dim) for m in MODELS.values()]), {}
    for label, model in MODELS.items():
        ys = measurements(model, ALL_STEPS)
        runs = {
            name: Run(partial(wolf.filter, model, ys, method=method), ALL_STEPS) for name, method in methods().items()
        }
        for name, make in others().items():
            some = ys[: STEPS.get(name, ALL_STEPS)]
            runs[name] = Run(lambda library, some=some: library.filter(some), len(some), partial(make, model))
        expected = wolf.filter(model, ys, method="KF").means
        found = {name: runs[name].call(runs[name].start()) for name in others()}
        if compiled is not None:
            runs["C++"] = Run(partial(compiled.filter, model, ys), ALL_STEPS)
            found["C++"] = compiled.filter(model, ys)[:, : model.state_dim]
        check_agreement(label, expected, found)
        rows[label] = cpu_times(runs, ROUNDS)
        if model is TRACK:
            kept = {
                name: Run(partial(wolf.filter, model, ys, method=method, save=means_and_covs), ALL_STEPS)
                for name, method in methods().items()
            }
            kept |= {"C++": runs["C++"]} if compiled is not None else {}
            rows[f"{label}, means and covariances kept"] = cpu_times(kept, ROUNDS)
    note = f"`wolf.filter` of {ALL_STEPS:,} steps with everything it keeps; sizes are (states, measured)."
    return Section("One series", "ns a step", 1e9, rows, note)


def many() -> Section:
    """Many series of one model."""
    ys = measurements(TRACK, SERIES, SERIES_STEPS)
    size, rows = SERIES * SERIES_STEPS, {}
    compiled = floor([(4, 2)])
    for label, options in (("means and covariances", {"save": means_and_covs}), ("as it is called", {})):
        rows[label] = {
            name: Run(partial(wolf.filter_many, TRACK, ys, method=method, **options), size)
            for name, method in methods().items()
        }
    both = rows["means and covariances"]
    both |= {name: Run(partial(make(TRACK).filter, ys), size) for name, make in others().items() if name in TOGETHER}
    for name, make in others().items():
        if name not in TOGETHER:
            few = ys[:ONE_BY_ONE, : STEPS.get(name, SERIES_STEPS)]
            both[name] = Run(partial(one_by_one, make, few), few.shape[0] * few.shape[1])
    if compiled is not None:
        both["C++"] = Run(lambda: [compiled.filter(TRACK, each) for each in ys], size)
    expected = wolf.filter_many(TRACK, ys[:5], method="KF").means[:, -1]
    check_agreement("many", expected, {name: both[name].call()[:5, -1] for name in TOGETHER if name in both})
    times = {label: cpu_times(runs, ROUNDS, first_call.PAUSE) for label, runs in rows.items()}
    note = (
        f"CPU time of all threads, with a pause of {first_call.PAUSE} s before each run; simdkalman and dynamax (under "
        "`vmap`) take all series at once, the others one by one. `wolf.filter_many`, with `save=` for means and "
        "covariances alone and without."
    )
    return Section(f"{SERIES:,} series of {SERIES_STEPS:,} steps, (4, 2)", "ns a series-step", 1e9, times, note)


TOGETHER = ("simdkalman", "dynamax")  # take many series at once


def one_by_one(make: Callable, series: np.ndarray) -> list[Any]:
    """Filter series one after the other."""
    return [make(TRACK).filter(each) for each in series]


def keys() -> Section:
    """One measurement for each of many filters."""
    ys, names = measurements(TRACK, KEYS), np.arange(KEYS)
    runs: dict[str, Run] = {}
    found: dict[str, np.ndarray] = {}
    for name, method in methods().items():
        bank = wolf.Bank(TRACK, method)
        runs[name] = Run(partial(bank.step, names, ys), KEYS)
        found |= {"wolf.Bank": bank.step(names, ys).mean} if name == "KF" else {}
    available = others()
    if "simdkalman" in available:
        library = LIBRARIES["simdkalman"](TRACK)
        library.start_many(KEYS)
        found["simdkalman"] = library.step(ys)
        runs["simdkalman"] = Run(partial(library.step, ys), KEYS)
    for name, count in (("OpenCV", 2_000), ("filterpy", 1_000), ("pykalman", 100)):
        if name in available:
            each = [LIBRARIES[name](TRACK) for _ in range(count)]
            found[name] = np.array(feed_each(each, ys))
            runs[name] = Run(partial(feed_each, each, ys), count)
    compiled = floor([(4, 2)])
    if compiled is not None:
        states = np.tile(np.concatenate([TRACK.mean, TRACK.cov.ravel()]), (KEYS, 1))
        compiled.step_keys(TRACK, ys, states)
        found["C++"] = states[:, : TRACK.state_dim].copy()
        runs["C++"] = Run(partial(compiled.step_keys, TRACK, ys, states), KEYS)
    check_agreement("keys", wolf.filter_many(TRACK, ys[:, None], method="KF").means[:, 0], found)
    rows = {f"{KEYS:,} keys, (4, 2)": cpu_times(runs, 2 * ROUNDS)}
    note = "`wolf.Bank.step` of a measurement for each key; of the others one object for each, simdkalman all at once."
    return Section("Many filters, one measurement each", "us a key", 1e6, rows, note)


def feed_each(filters: list[Any], ys: np.ndarray) -> list[Any]:
    """Give each filter a measurement."""
    return [one.step(y) for one, y in zip(filters, ys, strict=False)]


PARTS: dict[str, Callable[[], Section]] = {
    "online": online,
    "series": series,
    "many": many,
    "keys": keys,
    "smooth": first_call.smooth,
    "fit": first_call.fit,
    "first": first_call.first,
}


def claims(known: dict[str, Any]) -> list[str]:
    """Say of each thing that is promised whether it held."""

    def ratio(part: str, row: str, above: str, below: str) -> float | None:
        times = known.get(part, {}).get("rows", {}).get(row, {})
        return times[above] / times[below] if above in times and below in times else None

    found = []
    for name in OURS:
        for row in known.get("online", {}).get("rows", {}):
            found += [(f"filterpy over an online step of {name}, {row}", ratio("online", row, "filterpy", name), 5.0)]
            found += [(f"OpenCV over an online step of {name}, {row}", ratio("online", row, "OpenCV", name), 1.0)]
    for name in ("KF", "WoLF"):
        row = "(4, 2), means and covariances kept"
        found += [(f"C++ over one series by {name}", ratio("series", row, "C++", name), 0.5)]
    for row in known.get("smooth", {}).get("rows", {}):
        found += [(f"{name} over smoothing, {row}", ratio("smooth", row, name, "KF"), 1.0) for name in RIVALS]
    for row in known.get("fit", {}).get("rows", {}):
        found += [(f"statsmodels over a robust fit, {row}", ratio("fit", row, "statsmodels", "default"), 1.0)]
    first = "import and filter 50 values"
    for name in OURS:
        found += [(f"1.3 import jax over a first call of {name}", ratio("first", first, "jax", name), 1 / 1.3)]
    return [
        f"{'yes' if value >= bound else 'NO ':<4}{text}: {value:.2f} (at least {bound:.2g})"
        for text, value, bound in found
        if value is not None
    ]


RIVALS = ("statsmodels", "dynamax")


def main() -> None:
    chosen = sys.argv[1:] or [*PARTS, "growth"]
    with jax.enable_x64(True):
        for name in chosen:
            around = Others()
            if name == "growth":
                write_page("growth", scaling.lines(), RESULTS / "growth.md")
            else:
                section = PARTS[name]()
                keep(name, section, around.share())
    known = json.loads(STORE.read_text()) if STORE.exists() else {}
    loads = ", ".join(f"{part['load']} ({name})" for name, part in known.items())
    days = sorted({part["date"] for part in known.values()})
    versions = {name: version(name) for name in ("jax", "numpy", "llvmlite")} | installed()
    note = f"{' and '.join(days)}. Of the machine's time others took {loads}. {machine(versions)}."
    write_page("table", [*table(known, [*PARTS]), *wrapped(note)])
    readme_figures.write_readme()
    print("\n" + "\n".join(claims(known)))


if __name__ == "__main__":
    main()
