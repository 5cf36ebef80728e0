"""A few figures of `make bench` over the history of the repository, by airspeed velocity: `make bench-history`.

Each is the smallest CPU time of many runs, which depends little on what else the machine does.
"""

import subprocess
import sys
import time

import numpy as np

import wolf

METHODS = ["KF", "WoLF", "WoLF-IMQ", "WoLF-MD", "WoLF-TMD", "Learned", "Adaptive"]
STEPS, KEYS, MEASUREMENTS, RUNS = 20_000, 10_000, 1000, 100


def tracking():
    """Build the model of the paper's tracking experiment, with four states and two measurements, and a series."""
    model = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
    return model, np.random.default_rng(0).normal(0.0, 3.0, (STEPS, 2)).cumsum(0) * 0.1


def smallest(run):
    """Return the smallest CPU time of some runs, in seconds; the first one, which compiles, is left out."""
    run()
    times = []
    for _ in range(RUNS):
        start = time.process_time_ns()
        run()
        times.append(time.process_time_ns() - start)
    return min(times) / 1e9


def track_series(method):
    """Filter a series of 20,000 steps; means are kept."""
    model, ys = tracking()
    return smallest(lambda: wolf.filter(model, ys, method=method, save="means")) / STEPS * 1e9


track_series.params, track_series.param_names, track_series.unit = METHODS, ["method"], "ns a step"


def track_one_measurement(method):
    """Step one measurement at a time."""
    model, ys = tracking()
    online, some = wolf.Online(model, method=method), list(ys[:MEASUREMENTS])
    return smallest(lambda: [online.step(y) for y in some]) / MEASUREMENTS * 1e6


track_one_measurement.params, track_one_measurement.param_names = ["KF", "WoLF", "Adaptive"], ["method"]
track_one_measurement.unit = "us a step"


def track_bank(method):
    """Step 10,000 keys, one measurement each."""
    model, ys = tracking()
    bank, keys = wolf.Bank(model, method=method), [str(i) for i in range(KEYS)]
    return smallest(lambda: bank.step(keys, ys[:KEYS])) / KEYS * 1e9


track_bank.params, track_bank.param_names, track_bank.unit = ["KF", "WoLF", "Adaptive"], ["method"], "ns a key"


def track_first_call(method):
    """Import in a new process and filter 50 values, with machine code from the cache."""
    code = (
        "import time, numpy as np, wolf; m = wolf.models.local_level(level_var=0.1, obs_var=1.0);"
        f"wolf.filter(m, np.zeros(50), method={method!r}); print(time.process_time())"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True) for _ in range(4)]
    return min(float(run.stdout) for run in runs[1:])


track_first_call.params, track_first_call.param_names, track_first_call.unit = ["KF", "Adaptive"], ["method"], "s"
