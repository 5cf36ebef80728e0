"""Draw the picture of docs/real-data.md: carbon dioxide by week with faults, cleaned. Run in the repository's root."""

import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm

import wolf

SHOWN = slice(900, 1180)
BURST, STUCK, GAP = slice(960, 972), slice(1010, 1034), slice(1080, 1110)
SIZE = 6.0  # ppm


def main() -> None:
    """Damage a real series, clean it, draw both."""
    frame = sm.datasets.co2.load_pandas().data.interpolate()
    truth = frame["co2"].copy()
    values = frame["co2"].to_numpy().copy()
    values[BURST] += SIZE
    values[STUCK] = values[STUCK.start - 1]
    values[GAP] = np.nan
    values[[925, 990, 1060, 1130]] += SIZE
    frame["co2"] = values
    out = wolf.filter_frame(frame)
    some, true = out.iloc[SHOWN], truth.iloc[SHOWN]
    figure, axis = plt.subplots(figsize=(9, 4), layout="constrained")
    axis.fill_between(some.index, some["reading_lower"], some["reading_upper"], alpha=0.25, label="95 % of readings")
    axis.plot(true.index, true, color="0.6", linewidth=1, label="before the damage")
    axis.plot(some.index, some["mean"], linewidth=1.2, label="cleaned")
    for kind, marker in {"spike": "x", "burst": "+", "stuck": "_"}.items():
        told = some[some["kind"] == kind]
        axis.plot(told.index, told["co2"], marker, color="C3", label=f"{kind} ({len(told)})")
    axis.set_ylabel("ppm")
    axis.legend(ncols=3, fontsize="small", loc="lower right")
    figure.savefig("docs/images/real-data.png", dpi=120)


if __name__ == "__main__":
    main()
