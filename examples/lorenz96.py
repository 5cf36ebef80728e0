# %% [markdown]
# # Weather in a circle: Lorenz96 with broken sensors
#
# Forty grid points of a chaotic weather, measured every six hours, and now and then a sensor reports 100. Twenty
# members represent the state, with a little inflation. The robust ensemble rejects single sensors; the plain one
# diverges.

# %%
import matplotlib.pyplot as plt
import numpy as np

import wolf
from wolf.plots import style

STEPS = 100
model = wolf.models.lorenz96(40)
broken = wolf.simulate.EachSensor(wolf.simulate.ReplacedMeasurements(prob=0.002, value=100.0))
data = wolf.simulate.trajectory(model, STEPS, key=1, outliers=broken)

# %%
options = {"num_members": 20, "inflation": 1.04, "rotate": True}
twins = {
    name: wolf.twin.run(model, wolf.methods.make(name, **options), key=2, data=data, burn_in=40, progress=False)
    for name in ("ETKF", "WoLF-ETKF")
}
errors = {name: float(twin.scores["rmse"]) for name, twin in twins.items()}
print(f"{np.sum(data.measurements == 100)} of {data.measurements.size} measurements are false")
for name, error in errors.items():
    print(f"{name:<12} root mean squared error {error:.2f}")

# %%
days = 0.25 * np.arange(STEPS)  # a step of 0.05 is six hours (Lorenz 1996)
figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.8), sharey=True, layout="constrained")
pictures = {"truth": data.states}
pictures |= {f"error of {name}": np.abs(twin.means - data.states) for name, twin in twins.items()}
for ax, (name, field) in zip(axes, pictures.items(), strict=True):
    colours, low, high = ("RdBu_r", -12, 12) if name == "truth" else ("Oranges", 0, 6)
    shown = ax.pcolormesh(np.arange(40), days, field, cmap=colours, vmin=low, vmax=high, rasterized=True)
    figure.colorbar(shown, ax=ax, shrink=0.8)
    ax.set_title(name, loc="left", size=10, color=style.INK)
    ax.set(xlabel="place")
    style.dress(ax, grid=None)
axes[0].set(ylabel="days")
figure.savefig("lorenz96.png", dpi=120)
