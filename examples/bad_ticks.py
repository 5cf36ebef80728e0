# %% [markdown]
# # A price with bad ticks
#
# A stream of prices with misplaced decimal points, zeros and stale quotes, and one real jump when news come. In the
# logarithm a price is a level that drifts; each tick goes through `Online.step` when it comes. Bad ticks are rejected
# one by one, and the jump is accepted after a few consistent ticks.

# %%
import matplotlib.pyplot as plt
import numpy as np

import wolf
from wolf.plots import style

TICKS, NEWS = 600, 380
STEP_SD, QUOTE_SD = 4e-4, 5e-4  # of the logarithm, in one tick
rng = np.random.default_rng(11)
fair = np.log(82.0) + np.cumsum(rng.normal(0, STEP_SD, TICKS)) + 0.03 * (np.arange(TICKS) >= NEWS)
price = np.exp(fair + rng.normal(0, QUOTE_SD, TICKS))
bad = rng.random(TICKS) < 0.05
price[bad] *= rng.choice([0.0, 0.1, 10.0, 0.985, 1.02], bad.sum())
logs = np.log(price, out=np.full(TICKS, np.nan), where=price > 0)  # a price of zero is no price


# %%
def follow(method):
    """Filter tick by tick; return the path of the estimate and which ticks were rejected."""
    prior = wolf.Gaussian([logs[0]], [[1e-4]])
    online = wolf.Online(wolf.models.local_level(STEP_SD**2, QUOTE_SD**2, prior), method)
    path, rejected = np.empty(TICKS), np.zeros(TICKS, bool)
    for t, tick in enumerate(logs):
        rejected[t] = online.step(tick).outlier
        path[t] = online.mean[0]
    return path, rejected


paths = {"Kalman filter": follow("KF")[0]}
paths["wolf"], rejected = follow(None)
errors = {name: float(1e4 * np.sqrt(np.mean((path - fair) ** 2))) for name, path in paths.items()}
for name, error in errors.items():
    print(f"{name:<15} error {error:8.1f} basis points")
seen = bad & np.isfinite(logs)
print(f"bad ticks rejected: {np.sum(rejected & seen)} of {seen.sum()}; good ones: {np.sum(rejected & ~bad)}")
back = np.flatnonzero(np.abs(paths["wolf"] - fair)[NEWS:] < 0.005)[0]
print(f"ticks until the jump is followed: {back}")

# %%
figure, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
ax.plot(price, ".", ms=3, color=style.DOTS, label="quote")
ax.plot(np.flatnonzero(rejected), price[rejected], "x", ms=5, color=style.CYCLE[4], label="rejected")
for (name, path), color in zip(paths.items(), (style.KALMAN, style.ROBUST), strict=True):
    ax.plot(np.exp(path), color=color, lw=1.5, label=name)
ax.set(ylim=style.limits(np.exp(fair), margin=0.4), xlabel="tick", ylabel="price")
ax.annotate("news", (NEWS, np.exp(fair[NEWS - 1])), (NEWS - 45, np.exp(fair[NEWS]) + 0.4), color=style.INK)
ax.legend(frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
style.dress(ax)
figure.savefig("bad_ticks.png", dpi=120)
