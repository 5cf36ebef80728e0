# %% [markdown]
# # Flag anomalies in a pandas frame
#
# A thermometer with false values and gaps. `filter_frame` selects a model, compares each reading with those before and
# after it, and returns the frame with an estimate, an interval and the kind of every fault as further columns.

# %%
import matplotlib.pyplot as plt
import pandas as pd

import wolf
from wolf.plots import style

frame = pd.read_csv(wolf.datasets.path("thermometer")).head(500)
flagged = wolf.filter_frame(frame[["time", "value"]], time="time", values="value")
print(flagged.loc[flagged["outlier"], ["time", "value", "mean", "fault"]].head(), "\n")
print(flagged["fault"].value_counts().to_string(), "\n")

# %% [markdown]
# The truth is known here, so that we can count. The usual rule of thumb for comparison: more than three robust
# standard deviations from a rolling median.

# %%
false = frame["is_outlier"] == 1
middle = frame["value"].rolling(25, center=True, min_periods=5).median()
spread = 1.4826 * (frame["value"] - middle).abs().rolling(25, center=True, min_periods=5).median()
rolling = (frame["value"] - middle).abs() > 3 * spread
for name, found in {"rolling median": rolling, "wolf": flagged["outlier"]}.items():
    print(f"{name:<16} found {(found & false).sum()} of {false.sum()}, false alarms {(found & ~false).sum()}")
errors = {"rolling median": int((rolling != false).sum()), "wolf": int((flagged["outlier"] != false).sum())}

# %%
figure, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
ax.fill_between(flagged["time"], flagged["lower"], flagged["upper"], color=style.ROBUST, alpha=0.2, lw=0)
ax.plot(flagged["time"], flagged["mean"], color=style.ROBUST, lw=1.5, label="estimate and 95 % interval")
good, bad = flagged[~flagged["outlier"]], flagged[flagged["outlier"]]
ax.scatter(good["time"], good["value"], s=6, color=style.DOTS, label="reading")
ax.scatter(bad["time"], bad["value"], marker="x", s=30, color=style.KALMAN, label="flagged")
low, high = style.limits(good["value"], margin=0.3)  # 85 and -127 degrees are far beyond: triangles at the edge
style.edge_marks(ax, bad["time"].to_numpy(), bad["value"].to_numpy(), low, high, style.KALMAN)
ax.set(ylim=(low, high), xlabel="minutes", ylabel="temperature, °C")
ax.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
style.dress(ax)
figure.savefig("pandas_flags.png", dpi=120)
