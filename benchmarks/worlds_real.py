"""Methods on positions with a surveyed or simulated truth: ultra-wideband ranges, ranges with odometry, a car.

    python benchmarks/worlds_real.py --uwb RUN [RUN ...] --ranging FOLDER --page docs/worlds.md
    python benchmarks/worlds_real.py --runs 20                    # the simulated car alone

A RUN is a folder of github.com/cucudasluv/UWB-dataset: ranges of anchors (A*.csv) and trajectory.csv. FOLDER has
the W3500 files of github.com/TUC-ProAut/libRSF (CC BY-SA 4.0): W3500_GT.txt.gz and W3500_*_Input.txt.gz. Neither is
part of this repository. Nothing is fitted: variances are those that a data sheet or the file states. Cells: root mean
square error of the position in m, coverage of the 95 % intervals of its coordinates, and the largest error in m.
"""

import argparse
import csv
import gzip
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from timing import write_page

import wolf

METHODS = {
    "KF": "EKF",
    "WoLF": "WoLF",
    "Learned": "Learned",
    "Adaptive": "Adaptive",
    "Adaptive, each": wolf.Adaptive(sensors="each"),
    "Learned, each": wolf.Learned(sensors="each"),
}
NORMAL_95 = 1.959964
UWB_STEP, UWB_RANGE_SD, UWB_ACCEL_RATE = 0.1, 0.1, 0.5  # s, m, m²/s³
TAG_HEIGHT = 1.0  # m, above the surveyed trajectory
CAR_STEP, GPS_SD, CAR_STEPS = 1.0, 4.0, 600  # s, m, steps
MULTIPATH_STEPS, MULTIPATH_OFF = 8, (30.0, 90.0)  # steps, m


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--uwb", type=Path, nargs="+", default=[], metavar="RUN")
    parser.add_argument("--ranging", type=Path, metavar="FOLDER")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--runs", type=int, default=20, help="of the simulated car")
    parser.add_argument("--seed", type=int, default=20_261_118)
    parser.add_argument("--page", type=Path, help="Markdown page to write the table into")
    options = parser.parse_args(arguments)
    lines = [f"| series | {' | '.join(options.methods)} |", "|---|" + "---|" * len(options.methods)]
    series = [*uwb_runs(options.uwb), *(ranging(options.ranging) if options.ranging else [])]
    for name, model, ys, inputs, truth in series:
        cells = [score([run(model, ys, METHODS[method], inputs, truth)]) for method in options.methods]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    for velocity in (False, True):
        cars = [car(np.random.default_rng([options.seed, k]), velocity) for k in range(options.runs)]
        name = f"car, {options.runs} runs" + (", velocity measured" if velocity else "")
        cells = [score([run(*each[:2], METHODS[method], None, each[2]) for each in cars]) for method in options.methods]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    if options.page:
        write_page("worlds-real", lines, options.page)


def run(model, ys, method, inputs, truth):
    """Return the errors of the position, (T, 2), and their standard deviations."""
    method = "EKF" if method == "KF" else method
    out = wolf.filter(model, ys, method=method, inputs=inputs)
    return out.means[:, :2] - truth, np.sqrt(np.diagonal(out.covs, axis1=1, axis2=2)[:, :2])


def score(runs):
    error, spread = (np.concatenate([each[k] for each in runs]) for k in (0, 1))
    known = np.isfinite(error).all(1)
    error, spread = error[known], spread[known]
    distance = np.sqrt((error**2).sum(1))
    covered = (np.abs(error) < NORMAL_95 * spread).mean()
    return f"{np.sqrt((distance**2).mean()):.2f} {covered:.2f} ({distance.max():.0f})"


def uwb_runs(folders):
    """Ranges every 0.1 s to anchors of known positions, constant velocity in the plane."""
    for folder in folders:
        track = np.array([row[:4] for row in read(folder / "trajectory.csv")], float)
        times = np.arange(track[0, 0], track[-1, 0], UWB_STEP * 1e9)
        anchors, ys = [], []
        for path in sorted(folder.glob("A*.csv")):
            rows = np.array([[row[0], *row[3:7]] for row in read(path)], float)
            anchors.append(rows[0, 1:4] - [0.0, 0.0, TAG_HEIGHT + np.median(track[:, 3])])
            nearest = np.abs(rows[:, 0] - times[:, None]).argmin(1)
            close = np.abs(rows[nearest, 0] - times) < 0.5e9 * UWB_STEP
            ys.append(np.where(close, rows[nearest, 4], np.nan))
        truth = np.stack([np.interp(times, track[:, 0], track[:, k]) for k in (1, 2)], axis=1)
        yield f"UWB {folder.name}", planar_ranges(np.array(anchors), truth[0]), np.stack(ys, axis=1), None, truth


def read(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))[1:]


def planar_ranges(anchors, start):
    """Build a model of ranges from a point in the plane to anchors in space."""
    dt = UWB_STEP
    F = np.eye(4) + dt * np.eye(4, k=2)
    Q = UWB_ACCEL_RATE * np.kron([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]], np.eye(2))
    places = jnp.asarray(anchors[:, :2])
    heights = jnp.asarray(anchors[:, 2])
    return wolf.StateSpaceModel(
        lambda x: F @ x,
        lambda x: jnp.sqrt(((x[None, :2] - places) ** 2).sum(1) + heights**2),
        Q,
        UWB_RANGE_SD**2 * np.eye(len(anchors)),
        wolf.Gaussian(np.array([*start, 0.0, 0.0]), np.diag([0.25, 0.25, 0.25, 0.25])),
    )


def ranging(folder):
    """Odometry and ranges to eight modules every second, with errors of three kinds."""
    points = [line.split() for line in lines_of(folder / "W3500_GT.txt.gz")]
    truth = np.array([row[2:4] for row in points if row[0] == "point2"], float)
    for path in sorted(folder.glob("W3500_*_Input.txt.gz")):
        rows = [line.split() for line in lines_of(path)]
        odometry = np.array([row[1:8] for row in rows if row[0] == "odom2"], float)
        ranges = [row for row in rows if row[0] == "range2"]
        modules = {int(row[6]): (float(row[4]), float(row[5])) for row in ranges}
        numbers = {module: k for k, module in enumerate(modules)}
        ys = np.full((len(truth), len(modules)), np.nan)
        for row in ranges:
            ys[round(float(row[1])), numbers[int(row[6])]] = float(row[2])
        variance = float(ranges[0][3])
        steps = odometry[:, 0].astype(int)
        inputs = np.zeros((len(truth), 3))
        inputs[steps] = odometry[:, 1:4]
        first = np.diff(truth[:2], axis=0)[0]
        heading = np.arctan2(first[1], first[0]) - np.arctan2(inputs[1, 1], inputs[1, 0])
        model = odometry_ranges(np.array(list(modules.values())), odometry[0, 4:7], variance, [*truth[0], heading])
        yield f"ranging, {path.name.split('_')[1]}", model, ys, inputs, truth


def lines_of(path):
    with gzip.open(path, "rt") as file:
        return file.read().splitlines()


def odometry_ranges(places, odometry_vars, range_var, start):
    """Build a model of a vehicle with inputs (velocity ahead and to the left, turn rate) and ranges to modules."""
    places = jnp.asarray(places)

    def move(x, u):
        cosine, sine = jnp.cos(x[2]), jnp.sin(x[2])
        return jnp.stack([x[0] + cosine * u[0] - sine * u[1], x[1] + sine * u[0] + cosine * u[1], x[2] + u[2]])

    return wolf.StateSpaceModel(
        move,
        lambda x, u: jnp.sqrt(((x[None, :2] - places) ** 2).sum(1)),
        np.diag(odometry_vars),
        range_var * np.eye(len(places)),
        wolf.Gaussian(np.array(start), np.diag([0.01, 0.01, 0.01])),
    )


def car(rng, velocity):
    """Simulate a car in town: GPS with 10 % spikes and 8 s of multipath; its velocity too, where that is measured."""
    dt = CAR_STEP
    heading = np.cumsum(0.05 * rng.normal(size=CAR_STEPS)) + rng.uniform(-np.pi, np.pi)
    speed = 10.0 + np.cumsum(0.3 * rng.normal(size=CAR_STEPS)) * 0.3
    moved = speed[:, None] * np.stack([np.cos(heading), np.sin(heading)], axis=1)
    truth = np.cumsum(dt * moved, axis=0)
    ys = truth + GPS_SD * rng.normal(size=truth.shape)
    spike = rng.random((CAR_STEPS, 1)) < 0.1
    ys += spike * rng.uniform(-100.0, 100.0, truth.shape)
    for start in rng.integers(50, CAR_STEPS - 50, 3):
        way = rng.uniform(-np.pi, np.pi)
        ys[start : start + MULTIPATH_STEPS] += rng.uniform(*MULTIPATH_OFF) * np.array([np.cos(way), np.sin(way)])
    F = np.eye(4) + dt * np.eye(4, k=2)
    Q = np.kron([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]], np.eye(2)) * 0.4
    H, R = np.eye(2, 4), GPS_SD**2 * np.eye(2)
    if velocity:
        H, R = np.eye(4), np.diag([GPS_SD**2, GPS_SD**2, 0.09, 0.09])
        ys = np.concatenate([ys, moved + 0.3 * rng.normal(size=moved.shape)], axis=1)
    start = np.array([*truth[0], *moved[0]])
    return wolf.LinearModel(F, H, Q, R, start, np.diag([16.0, 16.0, 4.0, 4.0])), ys, truth


if __name__ == "__main__":
    main()
