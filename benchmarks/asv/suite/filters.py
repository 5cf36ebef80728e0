"""A few figures of `make bench` over the history of the repository, by airspeed velocity: `make bench-history`.

Times are CPU time of the process.
"""

import subprocess
import sys
import time

import numpy as np

import wolf

METHODS = ["KF", "WoLF", "WoLF-IMQ", "WoLF-MD", "WoLF-TMD", "Learned", "Adaptive"]
STEPS, KEYS = 20_000, 10_000


def tracking():
    """Build the model of the paper's tracking experiment, with four states and two measurements, and a series."""
    model = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
    return model, np.random.default_rng(0).normal(0.0, 3.0, (STEPS, 2)).cumsum(0) * 0.1


class Series:
    """A series of 20,000 steps, means and covariances kept."""

    params, param_names, timer = METHODS, ["method"], staticmethod(time.process_time)

    def setup(self, method):
        """Compile."""
        self.model, self.ys = tracking()
        self.time_filter(method)

    def time_filter(self, method):
        """Filter the series."""
        wolf.filter(self.model, self.ys, method=method)


class OneMeasurement:
    """One measurement at a time."""

    params, param_names, timer = ["KF", "WoLF", "Adaptive"], ["method"], staticmethod(time.process_time)

    def setup(self, method):
        """Compile."""
        model, ys = tracking()
        self.online, self.ys = wolf.Online(model, method=method), list(ys[:1000])
        self.time_step(method)

    def time_step(self, method):
        """Step 1,000 times."""
        for y in self.ys:
            self.online.step(y)


class Bank:
    """Many keys, one measurement each."""

    params, param_names, timer = ["KF", "WoLF", "Adaptive"], ["method"], staticmethod(time.process_time)

    def setup(self, method):
        """Compile, and make the keys known."""
        model, ys = tracking()
        self.bank, self.keys = wolf.Bank(model, method=method), [str(i) for i in range(KEYS)]
        self.ys = ys[:KEYS]
        self.time_step(method)

    def time_step(self, method):
        """Step every key once."""
        self.bank.step(self.keys, self.ys)


class FirstCall:
    """A new process with a warm cache: import, and filter 50 values. Its time and memory are those of the child."""

    params, param_names, timeout = ["KF", "Adaptive"], ["method"], 120
    unit = "s of CPU"

    def track_first_call(self, method):
        """Return the CPU time of the child, the smallest of three."""
        code = (
            "import time, numpy as np, wolf; m = wolf.models.local_level(level_var=0.1, obs_var=1.0);"
            f"wolf.filter(m, np.zeros(50), method={method!r}); print(time.process_time())"
        )
        runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True) for _ in range(4)]
        return min(float(run.stdout) for run in runs[1:])
