"""Simulate the series that come with the package: `python -m wolf.simulate.datasets.generate`."""

from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SEED = 20240501


def thermometer(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Simulate three days of temperature, every 5 minutes; time in minutes, temperature in degrees Celsius."""
    steps = 3 * 288
    time = 5.0 * np.arange(steps)
    truth = 12.0 + 5.0 * np.sin(2 * np.pi * (time / 1440.0 - 0.4)) + np.cumsum(rng.normal(0.0, 0.05, steps))
    value = truth + rng.normal(0.0, 0.4, steps)
    outlier = rng.random(steps) < 0.04
    value[outlier] = rng.choice(
        [85.0, -127.0, 0.0], outlier.sum()
    )  # typical values of such a chip after a reset or failure
    missing = rng.random(steps) < 0.02
    missing[400:430] = True
    value[missing] = np.nan
    return {"time": time, "value": value, "truth": truth, "is_outlier": outlier & ~missing}


def well(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Simulate two years of a water level; time in days, level in metres."""
    time = np.cumsum(rng.gamma(2.0, 1.5, 250)).round(2)
    gaps = np.diff(time, prepend=0.0)
    truth = 31.0 + np.cumsum(rng.normal(0.0, 0.03 * np.sqrt(gaps)))
    value = truth + rng.normal(0.0, 0.02, len(time))
    outlier = rng.random(len(time)) < 0.05
    value[outlier] += rng.choice([-10.0, -1.0, 1.0, 10.0], outlier.sum())  # a misread digit
    return {"time": time, "value": value, "truth": truth, "is_outlier": outlier}


def track(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Simulate a walk of 400 seconds; time in seconds, positions in metres."""
    steps = 400
    heading = np.cumsum(rng.normal(0.0, 0.08, steps))
    path = np.cumsum(1.4 * np.stack([np.cos(heading), np.sin(heading)], axis=1), axis=0)
    value = path + rng.normal(0.0, 3.0, (steps, 2))
    outlier = rng.random(steps) < 0.06
    value[outlier] += rng.uniform(-80.0, 80.0, (outlier.sum(), 2))
    columns = {"time": np.arange(float(steps)), "value_x": value[:, 0], "value_y": value[:, 1]}
    return columns | {"truth_x": path[:, 0], "truth_y": path[:, 1], "is_outlier": outlier}


GENERATORS = {"thermometer": thermometer, "well": well, "track": track}


def text_of(name: str) -> str:
    """Simulate a series and format it as CSV."""
    columns = GENERATORS[name](np.random.default_rng([SEED, list(GENERATORS).index(name)]))
    lines = [",".join(columns)]
    for row in zip(*columns.values(), strict=True):
        lines.append(",".join("" if np.isnan(cell) else f"{round(float(cell), 3):g}" for cell in row))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write all files."""
    for name in GENERATORS:
        (HERE / f"{name}.csv").write_text(text_of(name), encoding="utf-8")


if __name__ == "__main__":
    main()
