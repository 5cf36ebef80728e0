# %% [markdown]
# # A walk seen by GPS
#
# A phone between houses: errors of 3 m, and one position in 14 off by up to 80 m. The model keeps a velocity that is
# pushed by small random accelerations; false positions are not modelled. Smoothing also uses later positions.

# %%
import matplotlib.pyplot as plt
import numpy as np

import wolf
import wolf.plots
from wolf.plots import style

walk = wolf.datasets.load("track")  # simulated, so that the truth is known
prior = wolf.Gaussian([*walk.values[0], 0.0, 0.0], np.diag([100.0, 100.0, 4.0, 4.0]))
model = wolf.models.wiener_velocity(walk.times, dims=2, accel_rate=0.05, obs_var=9.0, prior=prior)

# %%
kalman = wolf.filter(model, walk.values, method="KF")
robust = wolf.filter(model, walk.values)
smoothed = wolf.smooth(robust)


def error(places):
    """Root mean squared distance from the truth, in metres."""
    return float(np.sqrt(np.mean(np.sum((places[:, :2] - walk.truth) ** 2, axis=1))))


errors = {"as measured": error(walk.values), "Kalman filter": error(kalman.means)}
errors |= {"wolf": error(robust.means), "wolf, smoothed": error(smoothed.means)}
for name, metres in errors.items():
    print(f"{name:<16}{metres:6.1f} m")
found = robust.outliers
print(f"false positions rejected: {np.sum(found & walk.outliers)} of {walk.outliers.sum()}")
print(f"good positions rejected: {np.sum(found & ~walk.outliers)}")

# %%
figure, ax = plt.subplots(figsize=(9, 3.8), layout="constrained")
wolf.plots.paths({"Kalman filter": kalman, "wolf": robust}, walk.values, walk.truth, ax=ax)
ax.set(xlabel="east, m", ylabel="north, m")
figure.legend(frameon=False, ncols=5, loc="outside upper left")
style.dress(ax)
figure.savefig("gps_track.png", dpi=120)
