# %% [markdown]
# # Changepoints: where a level jumps
#
# A machine draws power at a level that wanders a little, and at times jumps to another one. Three readings in a hundred
# are wrong. `wolf.changepoints` takes a model of one segment, here a random-walk level, and sums over all
# segmentations: it returns the probability of a change at every step and the most probable segmentation. Outliers and
# the random walk are part of the model, so neither counts as a change.

# %%
import matplotlib.pyplot as plt
import numpy as np
import ruptures

import wolf
from wolf.plots import style

STEPS, NOISE_VAR, DRIFT_VAR = 600, 1.0, 0.02
NEAR = 5  # steps by which a change may be off


def draw(seed):
    """Draw readings, and where their level changed."""
    rng = np.random.default_rng(seed)
    changes = np.cumsum(rng.integers(40, 140, size=20))
    changes = changes[changes < STEPS - 20]
    jumps = np.zeros(STEPS)
    jumps[changes] = rng.uniform(4, 10, len(changes)) * rng.choice([-1, 1], len(changes))
    level = 50 + np.cumsum(jumps + rng.normal(0, np.sqrt(DRIFT_VAR), STEPS))
    readings = level + rng.normal(0, np.sqrt(NOISE_VAR), STEPS)
    wrong = rng.random(STEPS) < 0.03
    readings[wrong] += rng.normal(0, 30, wrong.sum())
    return readings, changes


def mistakes(found, changes):
    """Count changes that were missed, and those that are none."""
    left, missed = list(found), 0
    for change in changes:
        near = min(left, key=lambda step: abs(step - change), default=STEPS * 2)
        if abs(near - change) <= NEAR:
            left.remove(near)
        else:
            missed += 1
    return missed + len(left)


# %% [markdown]
# PELT and the other methods of `ruptures` segment a series into constant pieces with a penalty. The penalties are those
# with the fewest errors on six other series (seeds 0 to 5); `wolf` is given the variances of the random walk and the
# noise, and is not tuned. Absolute values (l1), which are less sensitive to outliers, come closest.

# %%
model = wolf.models.local_level(DRIFT_VAR, NOISE_VAR, prior=wolf.Gaussian([50.0], [[100.0]]))
methods = {
    "squares": lambda ys: ruptures.KernelCPD("linear", min_size=5).fit(ys[:, None]).predict(pen=1000)[:-1],
    "kernel": lambda ys: ruptures.KernelCPD("rbf", min_size=5).fit(ys[:, None]).predict(pen=3)[:-1],
    "absolute": lambda ys: ruptures.Pelt("l1", min_size=5).fit(ys[:, None]).predict(pen=50)[:-1],
    "wolf": lambda ys: wolf.changepoints(model, ys).at,
}
series = [draw(seed) for seed in range(20, 40)]
errors = {
    name: sum(mistakes(method(ys), changes) for ys, changes in series) / len(series) for name, method in methods.items()
}
print(f"{sum(len(changes) for _, changes in series)} changes in {len(series)} series; mistakes in a series:")
for name, error in errors.items():
    print(f"{name:<8} {error:.2f}")

# %% [markdown]
# Each segment can be filtered and smoothed by itself; `filter_many` takes all of them at once.

# %%
readings, changes = series[0]
found = wolf.changepoints(model, readings)
segment_results = wolf.smooth(wolf.filter_many(model, [readings[first:end] for first, end in found.segments]))

# %%
figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 4.6), sharex=True, height_ratios=(3, 1), layout="constrained")
top.plot(readings, ".", ms=3, color=style.DOTS, label="reading")
for number, (first, end) in enumerate(found.segments):
    label = {"label": "level of each segment"} if number == 0 else {}
    top.plot(range(first, end), segment_results.means[number, : end - first, 0], color=style.ROBUST, lw=2, **label)
middle = np.median(readings)
shown = (middle - 40, middle + 40)
top.vlines(changes, *shown, color=style.QUIET, lw=0.8, ls=":", zorder=0, label="true change")
top.set(ylabel="power, W", ylim=shown)
top.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
bottom.bar(range(STEPS), found.probabilities, width=2, color=style.ROBUST)
bottom.set(xlabel="step", ylabel="probability", ylim=(0, 1))
for ax in (top, bottom):
    style.dress(ax)
figure.savefig("changepoints.png", dpi=120)
