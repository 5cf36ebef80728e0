"""A cheap thermometer over three days, every ten minutes: gaps, and the false values 85 and -127 that it sends.

    python examples/dirty_sensor.py

prints a table and draws dirty_sensor.png (matplotlib is the extra `plot`).
"""

import argparse

import numpy as np

import wolf
import wolf.plots

PER_DAY = 144  # one value every ten minutes
NOISE_SD = 0.3  # degrees


def simulate(steps, seed):
    """A daily cycle with slow weather, noise, three gaps, and 4 % of values that are false."""
    rng = np.random.default_rng(seed)
    t = np.arange(steps)
    truth = 12 - 5 * np.cos(2 * np.pi * t / PER_DAY) + np.cumsum(rng.normal(0, 0.06, steps))
    ys = truth + rng.normal(0, NOISE_SD, steps)
    false = rng.random(steps) < 0.04
    ys[false] = rng.choice([85.0, -127.0], false.sum())
    for start in (0.15, 0.45, 0.8):
        ys[int(start * steps) : int((start + 0.04) * steps)] = np.nan
    return truth, ys, false


def main(steps=3 * PER_DAY, seed=0, out="dirty_sensor.png"):
    truth, ys, false = simulate(steps, seed)
    model = wolf.models.local_trend(level_var=0.005, slope_var=0.0002, obs_var=NOISE_SD**2)
    filtered = {"KF": wolf.filter(model, ys, method="KF"), "WoLF": wolf.filter(model, ys)}
    levels = {name: (result.means[:, 0], result.covs[:, 0, 0]) for name, result in filtered.items()}
    smoothed = wolf.smooth(filtered["WoLF"])
    levels["WoLF, smoothed"] = smoothed.means[:, 0], smoothed.covs[:, 0, 0]

    print(f"{steps} values: {np.isnan(ys).sum()} missing, {(false & ~np.isnan(ys)).sum()} false\n")
    print(f"{'':<16}{'error':>8}{'worst':>8}{'within 2 sd':>13}")
    for name, (level, variance) in levels.items():
        miss = np.abs(level - truth)
        within = np.mean(miss < 2 * np.sqrt(variance))
        print(f"{name:<16}{np.sqrt(np.mean(miss**2)):>8.2f}{miss.max():>8.2f}{within:>13.0%}")
    found, sent = filtered["WoLF"].outliers, false & ~np.isnan(ys)
    print(
        f"\nfalse values found: {(found & sent).sum()} of {sent.sum()}; others called outliers: {(found & ~sent).sum()}"
    )

    figure = wolf.plots.series(filtered["WoLF"], ys, truth, times=np.arange(steps) / PER_DAY)
    figure.axes[0].set(xlabel="day", ylabel="temperature, °C")
    figure.savefig(out)
    print(f"picture: {out}")
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Filter a dirty sensor.")
    parser.add_argument("--steps", type=int, default=3 * PER_DAY)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="dirty_sensor.png")
    main(**vars(parser.parse_args()))
