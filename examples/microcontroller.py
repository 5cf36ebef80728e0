# %% [markdown]
# # The same filter in C, for a microcontroller
#
# `export_c` writes a filter as one C file: no allocation, no loops, 40 bytes of state here. The readings of a distance
# sensor of a small robot, with echoes, go through the C code, compiled on this machine. The numbers are those
# of Python, and the file goes into an Arduino sketch as it is.

# %%
import ctypes
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import wolf
from wolf.plots import style

STEPS, DT = 300, 0.05  # 20 readings a second
rng = np.random.default_rng(6)
truth = 1.0 + 0.5 * np.sin(DT * np.arange(STEPS))  # metres
ys = truth + rng.normal(0, 0.02, STEPS)
echoes = rng.random(STEPS) < 0.1
ys[echoes] = rng.uniform(0, 4, echoes.sum())

prior = wolf.Gaussian([1.0, 0.0], np.diag([0.25, 0.25]))
model = wolf.models.constant_velocity(dims=1, dt=DT, dynamics_var=5e-4, obs_var=4e-4, prior=prior)
folder = Path(tempfile.mkdtemp())
exported = wolf.export_c(model, "WoLF", folder / "tracker.c", dtype="float64", report=("weight",))
print(f"{exported.operations} operations a step, {exported.state_bytes} bytes of state")

# %%
if shutil.which("cc") is None:
    sys.exit("there is no C compiler here: on Debian, apt install gcc")
options = ["-std=c99", "-O2", "-ffp-contract=off", "-shared", "-fPIC"]
subprocess.run(["cc", *options, exported.path, "-o", folder / "tracker.so", "-lm"], check=True)
library = ctypes.CDLL(str(folder / "tracker.so"))
state = (ctypes.c_double * (exported.state_bytes // 8))()  # the mean comes first
report = (ctypes.c_double * 8)()
library.tracker_init(state)
in_c = np.empty(STEPS)
for t, y in enumerate(ys):
    library.tracker_step(state, (ctypes.c_double * 1)(y), report)
    in_c[t] = state[0]

# %%
kalman, robust = (wolf.filter(model, ys, method=method).means[:, 0] for method in ("KF", "WoLF"))
errors = {name: float(np.std(path - truth)) for name, path in {"Kalman filter": kalman, "in C": in_c}.items()}
for name, error in errors.items():
    print(f"{name:<14} error {1000 * error:.0f} mm")
print(f"largest difference between C and Python: {np.abs(in_c - robust).max():.0e} m")

# %%
figure, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
ax.plot(DT * np.arange(STEPS), ys, ".", ms=4, color=style.DOTS, label="reading")
ax.plot(DT * np.arange(STEPS), kalman, color=style.KALMAN, lw=1.2, label="Kalman filter")
ax.plot(DT * np.arange(STEPS), in_c, color=style.ROBUST, lw=2, label="robust, in C")
ax.set(xlabel="seconds", ylabel="distance, m", ylim=(0, 2.6))
ax.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
style.dress(ax)
figure.savefig("microcontroller.png", dpi=120)
