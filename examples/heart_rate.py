# %% [markdown]
# # Heart rate from a wrist
#
# A watch finds a pulse at uneven times, counts some beats twice or not at all, and loses contact. The rate is a level
# in continuous time, so gaps need no treatment. Half and double rates are far from the level and are rejected,
# while the start of a run is followed.

# %%
import matplotlib.pyplot as plt
import numpy as np

import wolf
import wolf.plots
from wolf.plots import style

MINUTES = 30.0
rng = np.random.default_rng(2)
times = np.sort(rng.uniform(0, MINUTES, 700))  # minutes
times = times[(times < 13) | (times > 14.5)]  # no contact
run = 1 / (1 + np.exp(-(times - 6) / 0.4)) - 1 / (1 + np.exp(-(times - 20) / 1.2))
truth = 68 + 75 * run + 2 * np.sin(times / 1.5)
rate = truth + rng.normal(0, 2.0, len(times))
wrong = rng.random(len(times)) < 0.12
rate[wrong] *= rng.choice([0.5, 2.0], wrong.sum())

# %%
prior = wolf.Gaussian([70.0], [[400.0]])
model = wolf.models.wiener_level(times, var_rate=150.0, obs_var=4.0, prior=prior)
kalman = wolf.filter(model, rate, method="KF")
robust = wolf.filter(model, rate)
smoothed = wolf.smooth(robust)
errors = {
    name: float(np.sqrt(np.mean((means[:, 0] - truth) ** 2)))
    for name, means in {"Kalman filter": kalman.means, "wolf": robust.means, "smoothed": smoothed.means}.items()
}
for name, error in errors.items():
    print(f"{name:<15} error {error:5.1f} beats a minute")
found = robust.outliers
print(f"wrong rates rejected: {np.sum(found & wrong)} of {wrong.sum()}; right ones: {np.sum(found & ~wrong)}")

# %%
figure, ax = plt.subplots(figsize=(9, 3.8), layout="constrained")
ax.plot(times, kalman.means[:, 0], color=style.KALMAN, lw=1, label="Kalman filter")
wolf.plots.series(smoothed, rate, truth, ax=ax, times=times, label="wolf, smoothed")
ax.set(xlabel="minutes", ylabel="beats a minute")
style.dress(ax)
figure.legend(frameon=False, ncols=5, loc="outside upper left")
figure.savefig("heart_rate.png", dpi=120)
