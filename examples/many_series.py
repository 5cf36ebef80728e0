# %% [markdown]
# # Thousands of series in one call
#
# Two thousand meters of one kind, a tenth of them faulty. `filter_many` filters them together, as one compiled program
# on all cores; each series is judged by itself. The share of rejected readings shows which meters to check.

# %%
import matplotlib.pyplot as plt
import numpy as np

import wolf
from wolf.plots import style

METERS, STEPS = 2000, 150
rng = np.random.default_rng(3)
truth = 50 + np.cumsum(rng.normal(0, 0.3, (METERS, STEPS)), axis=1)
ys = truth + rng.normal(0, 1.0, truth.shape)
faulty = rng.random(METERS) < 0.1
spikes = faulty[:, None] & (rng.random(truth.shape) < rng.uniform(0.02, 0.3, (METERS, 1)))
ys[spikes] += rng.choice([-30.0, 45.0], spikes.sum())
ys[rng.random(truth.shape) < 0.02] = np.nan  # lost on the way

# %%
model = wolf.models.local_level(level_var=0.09, obs_var=1.0, prior=wolf.Gaussian([50.0], [[100.0]]))
kalman = wolf.filter_many(model, ys, method="KF", save="means")
robust = wolf.filter_many(model, ys)
errors = {
    name: float(np.sqrt(np.mean((out.means[faulty, :, 0] - truth[faulty]) ** 2)))
    for name, out in {"Kalman filter": kalman, "wolf": robust}.items()
}
print("error on the faulty meters:", ", ".join(f"{name} {error:.2f}" for name, error in errors.items()))

rejected = np.mean(robust.outliers, axis=1)
worst = np.argsort(-rejected)[: faulty.sum()]
print(f"of the {len(worst)} most rejected meters {np.mean(faulty[worst]):.0%} are faulty")

# %%
figure, axes = plt.subplots(2, 3, figsize=(9, 4.4), layout="constrained", sharex=True)
for ax, which in zip(axes.flat, [*worst[:3], *worst[40:100:20]], strict=True):
    ax.plot(ys[which], ".", ms=3, color=style.DOTS, label="reading")
    bad = np.flatnonzero(robust.outliers[which])
    ax.plot(bad, ys[which, bad], "x", ms=5, color=style.KALMAN, label="rejected")
    ax.plot(robust.means[which, :, 0], color=style.ROBUST, lw=1.5, label="estimate")
    ax.set_title(f"meter {which}: {rejected[which]:.0%} rejected", loc="left", size=9)
    style.dress(ax)
figure.supxlabel("step", size=9.5, color=style.QUIET)
figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=3, frameon=False)
figure.savefig("many_series.png", dpi=120)
