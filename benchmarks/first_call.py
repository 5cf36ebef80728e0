"""What a person waits for: smoothing, fitting, and the first call of a process, beside others; parts of `speed.py`."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from floor import Floor
from libraries import LIBRARIES, installed
from timing import Run, Section, check_agreement, cpu_times

import wolf

SMOOTHED = 2_000  # steps
FEWER = {"filterpy": 500, "simdkalman": 200, "pykalman": 100}  # of them, for those that take long
CHECKED = 200  # steps of a series on which all must agree
STATES = (2, 4, 6, 8, 12, 16)
LARGE = (32, 64, 100)  # with fewer steps, beside those whose matrices are compiled
SMOOTHED_LARGE = 500
COMPILED = ("statsmodels", "dynamax")
PAUSE = 0.15  # seconds: threads of linear algebra spin for some 0.05 after a run, and would be counted with the next
LENGTHS = (200, 1_000, 10_000)
SMALL = 300  # rows of a file
PROCESSES = 3  # of each kind; the first one may compile


def linear_model(size: int, measured: int | None = None) -> wolf.LinearModel:
    """Make a model of any size: a damped rotation, half of it measured."""
    rng = np.random.default_rng(size)
    turn, _ = np.linalg.qr(rng.normal(size=(size, size)))
    measured = max(1, size // 2) if measured is None else measured
    noise = {"Q": 0.1 * np.eye(size), "R": np.eye(measured), "mean": np.zeros(size), "cov": np.eye(size)}
    return wolf.LinearModel(F=0.95 * turn, H=rng.normal(size=(measured, size)), **noise)


def filter_and_smooth(model: wolf.LinearModel, ys: np.ndarray, method: Any) -> np.ndarray:
    return wolf.smooth(wolf.filter(model, ys, method=method)).means


def smooth() -> Section:
    """Filter and smooth one series, by the number of states."""
    compiled, rows = None, {}
    try:
        compiled = Floor([(model.state_dim, model.obs_dim) for model in map(linear_model, STATES)])
    except RuntimeError as error:
        print(error, file=sys.stderr)
    smoothing = {name: LIBRARIES[name] for name in installed() if hasattr(LIBRARIES[name], "smooth")}
    for size in (*STATES, *LARGE):
        model, steps = linear_model(size), SMOOTHED_LARGE if size in LARGE else SMOOTHED
        ys = np.random.default_rng(0).normal(size=(steps, model.obs_dim))
        ours = {"KF": wolf.KF(), "WoLF": wolf.WoLF(), "default": None}
        runs = {name: Run(partial(filter_and_smooth, model, ys, m), steps) for name, m in ours.items()}
        beside = {name: make for name, make in smoothing.items() if size in STATES or name in COMPILED}
        for name, make in beside.items():
            some = ys[: min(FEWER.get(name, steps), steps)]
            # Made once where a series is short: building it again, dynamax would trace its functions on the clock.
            start = (lambda made=make(model): made) if size in LARGE else partial(make, model)
            runs[name] = Run(lambda library, some=some: library.smooth(some), len(some), start)
        found = {name: make(model).smooth(ys[:CHECKED]) for name, make in beside.items()}
        if compiled is not None and size in STATES:
            runs["C++"] = Run(partial(compiled.filter, model, ys, smooth=True), steps)
            found["C++"] = compiled.filter(model, ys[:CHECKED], smooth=True)[:, :size]
        check_agreement(f"smoothing {size}", filter_and_smooth(model, ys[:CHECKED], "KF"), found)
        rows[f"{size} states"] = cpu_times(runs, 4, PAUSE) if size in LARGE else cpu_times(runs, 3)
    note = (
        f"`wolf.smooth(wolf.filter(...))` of {SMOOTHED:,} steps, dense models of which half is measured. From "
        f"{LARGE[0]} states on {SMOOTHED_LARGE} steps, with a pause of {PAUSE} s before each run, beside two."
    )
    return Section("Filter and smoother", "us a step", 1e6, rows, note)


def builders() -> dict[str, tuple[Callable, Callable]]:
    """Pair models of ours with those of statsmodels."""
    from statsmodels.api import tsa

    models, uc = wolf.models, tsa.UnobservedComponents

    def trend(level_var: float, slope_var: float, obs_var: float) -> wolf.LinearModel:
        return models.structural(models.trend(level_var=level_var, slope_var=slope_var), obs_var=obs_var)

    def season(level_var: float, season_var: float, obs_var: float) -> wolf.LinearModel:
        return models.structural(models.level(var=level_var), models.seasonal(12, var=season_var), obs_var=obs_var)

    def seasons(level_var: float, long_var: float, short_var: float, obs_var: float) -> wolf.LinearModel:
        both = models.seasonal(12, var=long_var), models.seasonal(7, var=short_var)
        return models.structural(models.level(var=level_var), *both, obs_var=obs_var)

    waves = [{"period": 12, "harmonics": 6}, {"period": 7, "harmonics": 3}]
    return {
        "level": (models.local_level, lambda ys: uc(ys, "llevel").fit(disp=0)),
        "trend": (trend, lambda ys: uc(ys, "lltrend").fit(disp=0)),
        "seasonal(12)": (season, lambda ys: uc(ys, "llevel", seasonal=12).fit(disp=0)),
        "two seasons": (seasons, lambda ys: uc(ys, "llevel", freq_seasonal=waves).fit(disp=0)),
    }


def fit() -> Section:
    """Fit variances: Gaussian as statsmodels does, and robust."""
    if "statsmodels" not in installed():
        raise SystemExit("the part fit compares with statsmodels: pip install -r benchmarks/requirements.txt")
    rows = {}
    for steps in LENGTHS:
        rng, t = np.random.default_rng(0), np.arange(steps)
        waves = 3 * np.sin(2 * np.pi * t / 12) + 1.5 * np.cos(2 * np.pi * t / 7)
        ys = np.cumsum(0.3 * rng.normal(size=steps)) + waves + rng.normal(size=steps)
        for name, (ours, theirs) in builders().items():
            calls = {
                "KF": partial(wolf.fit, ours, ys, score="gaussian"),
                "default": partial(wolf.fit, ours, ys),
                "statsmodels": partial(theirs, ys),
            }
            runs = {
                who: Run(lambda _, call=call: call(), start=partial(time.sleep, PAUSE)) for who, call in calls.items()
            }
            rows[f"{name}, {steps:,} steps"] = cpu_times(runs, 1 if steps > 1_000 else 3)
    note = (
        "`wolf.fit` of all variances after a first fit: with the Gaussian score under KF, with the robust one, which "
        "is the usual, under default; three starts and standard errors. statsmodels takes one start. Before each fit "
        f"there is a pause of {PAUSE} s, in which the threads of the one before go to sleep. The first fit of a model "
        "in a process compiles it, whatever the length."
    )
    return Section("Fit", "s", 1.0, rows, note)


START = "import numpy as np; ys = np.arange(50.0); "
LEVEL = "import wolf; m = wolf.models.local_level(level_var=0.1, obs_var=1.0); wolf.filter(m, ys"
FIRST_CALLS = {
    "jax": "import jax",
    "KF": START + LEVEL + ", method='KF')",
    "WoLF": START + LEVEL + ", method='WoLF')",
    "default": START + LEVEL + ")",
    "OpenCV": START
    + """
import cv2
kf = cv2.KalmanFilter(1, 1, 0, cv2.CV_64F)
for y in ys:
    kf.predict()
    kf.correct(np.array([[y]]))""",
    "filterpy": START + "from filterpy.kalman import KalmanFilter; k = KalmanFilter(1, 1); k.batch_filter(ys)",
    "simdkalman": START
    + "import simdkalman; k = simdkalman.KalmanFilter([[1]], [[0.1]], [[1]], 1.0); k.smooth(ys[None])",
    "statsmodels": START + "import statsmodels.api as sm; sm.tsa.UnobservedComponents(ys, 'llevel').filter([1.0, 0.1])",
    "dynamax": START
    + """
import jax
from dynamax.linear_gaussian_ssm import LinearGaussianSSM
ssm = LinearGaussianSSM(1, 1)
params, _ = ssm.initialize(jax.random.PRNGKey(0))
jax.block_until_ready(ssm.filter(params, jax.numpy.asarray(ys)[:, None]))""",
    "pykalman": START + "from pykalman import KalmanFilter; KalmanFilter([[1.0]], [[1.0]]).filter(ys)",
}


def first() -> Section:
    """CPU seconds of whole processes, the best of each kind, with programs kept from those before."""
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "small.csv")
        with open(table, "w") as file:
            file.write("value\n" + "\n".join(f"{np.sin(i) + i / 50:.3f}" for i in range(SMALL)))
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        variables["WOLF_CACHE"] = os.path.join(folder, "cache")

        def seconds(words: list[str]) -> float:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *words], check=True, env=variables, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

        there = {"jax", "KF", "WoLF", "default", *installed()}
        words = {name: ["-c", code] for name, code in FIRST_CALLS.items() if name in there}
        words |= {"file": ["-m", "wolf", "filter", table], "help": ["-m", "wolf", "--help"]}
        words["name"] = ["-c", "import wolf"]
        best = dict.fromkeys(words, np.inf)
        for name in [*words] * (PROCESSES + 1):
            best[name] = min(best[name], seconds(words[name]))
    rows = {
        "import and filter 50 values": {name: best[name] for name in FIRST_CALLS if name in there},
        f"`wolf filter` of a file of {SMALL} rows": {"default": best["file"]},
        "`wolf --help`": {"default": best["help"]},
    }
    note = (
        f"Whole processes, with programs that an earlier one compiled; `import jax` alone takes {best['jax']:.2f} s, "
        f"`import wolf` {best['name']:.2f} s. The file's model is chosen, its variances fitted, its rows judged."
    )
    return Section("First call", "s", 1.0, rows, note)
