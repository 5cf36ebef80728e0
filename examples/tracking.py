"""A radar that measures range and bearing of a boat, and now and then an echo of something else.

    python examples/tracking.py

A nonlinear model as two functions, an angle with its own subtraction, the extended Kalman filter against the robust
one: a table, and tracking.png (matplotlib is the extra `plot`).
"""

import argparse

import jax.numpy as jnp
import numpy as np

import wolf
import wolf.plots

DT = 1.0  # seconds
RANGE_SD, BEARING_SD = 10.0, 0.01  # metres, radians
FALSE_ECHOES = 0.1


def move(x):
    """Keep the velocity; the state is (east, north, velocity east, velocity north)."""
    return jnp.concatenate([x[:2] + DT * x[2:], x[2:]])


def look(x):
    """Range and bearing, seen from the origin."""
    return jnp.stack([jnp.hypot(x[0], x[1]), jnp.arctan2(x[1], x[0])])


def subtract(y, prediction):
    """A bearing of 3.1 and one of -3.1 are close: bring the difference of angles back to ± π."""
    gap = y - prediction
    return jnp.stack([gap[0], (gap[1] + jnp.pi) % (2 * jnp.pi) - jnp.pi])


def make_model():
    return wolf.StateSpaceModel(
        dynamics=move,
        observe=look,
        dynamics_cov=np.diag([0.1, 0.1, 0.05, 0.05]),
        obs_cov=np.diag([RANGE_SD**2, BEARING_SD**2]),
        prior=wolf.Gaussian([-800.0, 300.0, 0.0, -8.0], np.diag([1e4, 1e4, 25.0, 25.0])),
        residual=subtract,
    )


def simulate(model, steps, seed):
    """A boat that sails past; false echoes come from anywhere within two kilometres."""
    data = wolf.simulate.trajectory(model, steps, key=seed, initial=[-800.0, 300.0, 0.0, -8.0])
    rng = np.random.default_rng(seed)
    false = rng.random(steps) < FALSE_ECHOES
    ys = data.measurements.copy()
    ys[false] = np.column_stack([rng.uniform(0, 2000, false.sum()), rng.uniform(-np.pi, np.pi, false.sum())])
    return data.states, ys, false


def main(steps=200, seed=1, out="tracking.png"):
    model = make_model()
    truth, ys, false = simulate(model, steps, seed)
    results = {"EKF": wolf.filter(model, ys, method="EKF"), "WoLF": wolf.filter(model, ys)}

    print(f"{steps} measurements, {false.sum()} of them false echoes\n")
    print(f"{'':<6}{'error, m':>10}{'worst, m':>10}{'95 % intervals hold':>21}")
    for name, result in results.items():
        miss = np.linalg.norm((result.means - truth)[:, :2], axis=1)
        coverage = wolf.metrics.coverage(result.means, result.covs, truth)[:2].mean()
        print(f"{name:<6}{np.sqrt(np.mean(miss**2)):>10.1f}{miss.max():>10.1f}{coverage:>21.0%}")

    places = ys[:, :1] * np.column_stack([np.cos(ys[:, 1]), np.sin(ys[:, 1])])
    figure = wolf.plots.paths(results, places, truth)
    figure.axes[0].set(xlabel="east, m", ylabel="north, m")
    figure.savefig(out)
    print(f"\npicture: {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Track a boat by radar.")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="tracking.png")
    main(**vars(parser.parse_args()))
