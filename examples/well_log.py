# %% [markdown]
# # A well-log: layers and outliers
#
# A probe goes down a borehole and measures rock in layers, so the level is constant and then jumps; some readings are
# far too low. This is the shape of the nuclear-magnetic log of Ó Ruanaidh and Fitzgerald (1996), simulated. An outlier
# comes back at once, a layer stays: consistent rejected readings are a changepoint. (Layers that differ
# by less than some five standard deviations of the noise are not rejected, but followed slowly.)

# %%
import matplotlib.pyplot as plt
import numpy as np

import wolf
from wolf.plots import style

DEPTHS, NOISE_SD = 800, 1.5  # thousands of counts
rng = np.random.default_rng(8)
borders = np.array([0, 90, 210, 260, 400, 520, 560, 690, DEPTHS])
layers = np.array([112.0, 134.0, 118.0, 107.0, 130.0, 113.0, 122.0, 110.0])
truth = np.repeat(layers, np.diff(borders))
log = truth + rng.normal(0, NOISE_SD, DEPTHS)
false = rng.random(DEPTHS) < 0.04
log[false] -= rng.uniform(20, 60, false.sum())

# %%
model = wolf.models.local_level(level_var=0.005, obs_var=NOISE_SD**2, prior=wolf.Gaussian([log[:5].mean()], [[100.0]]))
kalman = wolf.smooth(wolf.filter(model, log, method="KF"))
out = wolf.filter(model, log)
robust = wolf.smooth(out)  # jumps are dated where they began, not where they were accepted
errors = {
    name: float(np.sqrt(np.mean((smoothed.means[:, 0] - truth) ** 2)))
    for name, smoothed in {"Kalman smoother": kalman, "wolf": robust}.items()
}
for name, error in errors.items():
    print(f"{name:<16} error {error:.2f}")

# %% [markdown]
# Where consistent rejected readings are accepted as a jump, the covariance is widened: there a live filter sees the
# new layer. The smoother, which has all readings, dates it at the first of them.

# %%
found = np.flatnonzero(out.inflations > 1.0).tolist()
print("borders:", borders[1:-1].tolist())
print("seen at:", found)

# %%
figure, ax = plt.subplots(figsize=(9, 3.8), layout="constrained")
ax.plot(log, ".", ms=3, color=style.DOTS, label="reading")
ax.plot(kalman.means[:, 0], color=style.KALMAN, lw=1.2, label="Kalman smoother")
ax.plot(robust.means[:, 0], color=style.ROBUST, lw=2, label="wolf")
for depth in found:
    ax.axvline(depth, color=style.QUIET, lw=0.8, ls=":", zorder=0)
ax.set(xlabel="depth, steps", ylabel="response", ylim=(55, 150))
ax.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
style.dress(ax)
figure.savefig("well_log.png", dpi=120)
