# %% [markdown]
# # Train a network in one pass, with wrong targets
#
# The state is the vector of a network's weights, and each row is a measurement of it: there is no learning rate, and
# no second pass. Fifteen targets in a hundred are wrong. The extended Kalman filter fits them as well; the robust
# filter fits the curve.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np

import wolf
from wolf.plots import style

ROWS, NOISE_SD = 700, 0.2
rng = np.random.default_rng(4)
x = rng.uniform(-3, 3, ROWS)
wrong = rng.random(ROWS) < 0.15
y = np.where(wrong, rng.uniform(-15, 15, ROWS), np.sin(2 * x) + 0.3 * x + NOISE_SD * rng.normal(size=ROWS))

# %%
model = wolf.models.mlp(features=1, hidden=(20,), activation="tanh", obs_var=NOISE_SD**2, prior_var=1.0, key=0)
grid = np.linspace(-3, 3, 200)
curves = {}
for name, method in {"EKF": "EKF", "WoLF": "WoLF"}.items():
    learned = wolf.filter(model, y, inputs=x[:, None], method=method, save="final").final
    curves[name] = np.array(jax.vmap(model.observe, (None, 0))(learned.mean, grid[:, None]))[:, 0]
errors = {name: float(np.sqrt(np.mean((curve - np.sin(2 * grid) - 0.3 * grid) ** 2))) for name, curve in curves.items()}
for name, error in errors.items():
    print(f"{name:<6} error of the curve {error:.3f}")

# %%
figure, ax = plt.subplots(figsize=(9, 3.8), layout="constrained")
ax.plot(x[~wrong], y[~wrong], ".", ms=3, color=style.DOTS, label="target")
ax.plot(x[wrong], y[wrong], "x", ms=4, color=style.CYCLE[4], label="wrong target")
ax.plot(grid, np.sin(2 * grid) + 0.3 * grid, color=style.TRUTH, lw=5, label="truth")
for (name, curve), color in zip(curves.items(), (style.KALMAN, style.ROBUST), strict=True):
    ax.plot(grid, curve, color=color, lw=2, label=name)
ax.set(xlabel="x", ylabel="y", ylim=(-4, 4))
ax.legend(frameon=False, ncols=5, loc="lower left", bbox_to_anchor=(0, 1))
style.dress(ax)
figure.savefig("online_mlp.png", dpi=120)
