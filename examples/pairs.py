# %% [markdown]
# # Pairs: a hedge ratio that drifts
#
# Two prices move together, y = b x + noise, and b wanders over the years. Regression with coefficients as states
# follows it day by day, without a window to choose. A wrong close pulls the ratio of the Kalman filter away for days;
# the robust filter ignores it. (There is no intercept: where x is far from 0, it is not identifiable beside the ratio.
# Subtract the usual price of each first, if you need one.)

# %%
import matplotlib.pyplot as plt
import numpy as np

import wolf
from wolf.plots import style

DAYS = 750
DRIFT_SD, NOISE_SD = 0.004, 0.8
rng = np.random.default_rng(5)
x = 60 + np.cumsum(rng.normal(0, 0.5, DAYS))
ratio = 1.2 + np.cumsum(rng.normal(0, DRIFT_SD, DAYS))
y = ratio * x + rng.normal(0, NOISE_SD, DAYS)
bad = rng.random(DAYS) < 0.03
y[bad] += rng.choice([-1.0, 1.0], bad.sum()) * rng.uniform(10, 40, bad.sum())

# %%
slope = wolf.models.regression(x, var=DRIFT_SD**2)._replace(prior=wolf.Gaussian([1.0], [[0.25]]))
model = wolf.models.structural(slope, obs_var=NOISE_SD**2)
outs = {"Kalman filter": wolf.filter(model, y, method="KF"), "wolf": wolf.filter(model, y)}
errors = {name: float(np.sqrt(np.mean((out.means[50:, 0] - ratio[50:]) ** 2))) for name, out in outs.items()}
for name, error in errors.items():
    print(f"{name:<15} error of the ratio {error:.4f}")

# %% [markdown]
# What is traded is the spread as it looked *before* today's close: the residual of the prediction.

# %%
figure, (above, below) = plt.subplots(2, 1, figsize=(9, 5), sharex=True, layout="constrained")
above.plot(ratio, color=style.TRUTH, lw=4, label="true ratio")
for (name, out), color in zip(outs.items(), (style.KALMAN, style.ROBUST), strict=True):
    above.plot(out.means[:, 0], color=color, lw=1.4, label=name)
above.set(ylabel="hedge ratio", ylim=style.limits(ratio, margin=0.6))
above.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
spread, rejected = outs["wolf"].residuals[:, 0], outs["wolf"].outliers
below.plot(spread, ".", ms=3, color=style.DOTS)
below.plot(np.flatnonzero(rejected), spread[rejected], "x", ms=5, color=style.CYCLE[4])
below.set(ylabel="spread", xlabel="day", ylim=(-45, 45))
for ax in (above, below):
    style.dress(ax)
figure.savefig("pairs.png", dpi=120)
