# %% [markdown]
# # Coming from filterpy
#
# The same tracker twice: filterpy's loop of `predict` and `update`, and one call of wolf with the same matrices. With
# `method="KF"` the numbers are the same to rounding. Without it they are robust, and nothing else has to be changed.

# %%
import matplotlib.pyplot as plt
import numpy as np
from filterpy.kalman import KalmanFilter

import wolf
from wolf.plots import style

DT, STEPS = 0.5, 160
F, H = np.array([[1.0, DT], [0.0, 1.0]]), np.array([[1.0, 0.0]])
Q, R = 0.05 * np.array([[DT**3 / 3, DT**2 / 2], [DT**2 / 2, DT]]), np.array([[1.0]])
rng = np.random.default_rng(9)
velocity = 1 + np.cumsum(rng.normal(0, np.sqrt(0.05 * DT), STEPS))
truth = np.cumsum(DT * velocity)
zs = truth + rng.normal(0, 1, STEPS)
wild = rng.random(STEPS) < 0.08
zs[wild] += rng.choice([-25.0, 30.0], wild.sum())

# %%
kf = KalmanFilter(dim_x=2, dim_z=1)
kf.x, kf.P, kf.F, kf.H, kf.Q, kf.R = np.array([0.0, 1.0]), 4.0 * np.eye(2), F, H, Q, R
theirs = np.empty(STEPS)
for t, z in enumerate(zs):
    kf.predict()
    kf.update(z)
    theirs[t] = kf.x[0]

# %%
model = wolf.LinearModel(F=F, H=H, Q=Q, R=R, mean=[0.0, 1.0], cov=4.0 * np.eye(2))
same = wolf.filter(model, zs, method="KF")
robust = wolf.filter(model, zs)
print(f"largest difference to filterpy: {np.abs(same.means[:, 0] - theirs).max():.0e}")
errors = {
    name: float(np.sqrt(np.mean((path - truth) ** 2)))
    for name, path in {"filterpy": theirs, "wolf": robust.means[:, 0]}.items()
}
for name, error in errors.items():
    print(f"{name:<9} error {error:.2f}")

# %% [markdown]
# One measurement at a time, as in the loop above: `online.step(z)`, with `R=`, `H=` or `dt=` where they change.

# %%
online = wolf.Online(model)
for z in zs:
    online.step(z)
print("the same, step by step:", bool(np.allclose(online.mean, robust.means[-1])))

# %%
figure, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
ax.plot(zs - truth, ".", ms=4, color=style.DOTS, label="measurement")
ax.plot(theirs - truth, color=style.KALMAN, lw=1.5, label="filterpy")
ax.plot(robust.means[:, 0] - truth, color=style.ROBUST, lw=2, label="wolf")
ax.set(xlabel="step", ylabel="distance from the truth", ylim=(-12, 12))
ax.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
style.dress(ax)
figure.savefig("coming_from_filterpy.png", dpi=120)
