# %% [markdown]
# # Coming from statsmodels
#
# `UnobservedComponents(y, "local level")` and its fit, beside `wolf.fit`. On clean data the variances are the same.
# With a few wrong values the noise that statsmodels fits is that of the errors, so its level lags behind; the robust
# fit stays where it was.

# %%
import matplotlib.pyplot as plt
import numpy as np
from statsmodels.tsa.statespace.structural import UnobservedComponents

import wolf
from wolf.plots import style

STEPS = 300
rng = np.random.default_rng(12)
truth = 20 + np.cumsum(rng.normal(0, 0.5, STEPS))
clean = truth + rng.normal(0, 1.0, STEPS)
dirty = clean.copy()
wrong = rng.random(STEPS) < 0.05
dirty[wrong] += rng.choice([-20.0, 20.0], wrong.sum())

# %%
paths = {}
print(f"{'':<22}{'obs_var':>9}{'level_var':>11}   (truth: 1.00, 0.25)")
for data, ys in {"clean": clean, "dirty": dirty}.items():
    theirs = UnobservedComponents(ys, "local level").fit(disp=False)
    print(f"statsmodels, {data:<9}{theirs.params[0]:>9.2f}{theirs.params[1]:>11.2f}")
    paths["statsmodels"] = theirs.filtered_state[0]
    ours = wolf.fit(wolf.models.local_level, ys)
    print(f"wolf, {data:<16}{ours.parameters['obs_var']:>9.2f}{ours.parameters['level_var']:>11.2f}")
    paths["wolf"] = wolf.filter(ours.model, ys).means[:, 0]
errors = {name: float(np.sqrt(np.mean((path - truth)[20:] ** 2))) for name, path in paths.items()}
for name, error in errors.items():
    print(f"{name:<13} error of the level on dirty data {error:.2f}")

# %%
figure, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
ax.plot(dirty, ".", ms=4, color=style.DOTS, label="reading")
ax.plot(truth, color=style.TRUTH, lw=5, label="truth")
ax.plot(paths["statsmodels"], color=style.KALMAN, lw=1.5, label="statsmodels")
ax.plot(paths["wolf"], color=style.ROBUST, lw=2, label="wolf")
ax.set(xlabel="step", ylabel="level", ylim=style.limits(truth, margin=0.6))
ax.legend(frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
style.dress(ax)
figure.savefig("coming_from_statsmodels.png", dpi=120)
