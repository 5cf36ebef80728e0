"""How a handheld device is turned, from its gyroscope, accelerometer and magnetometer, where iron bends the field.

    python examples/attitude.py [picture.png]

For a second in every five there is iron nearby, and the magnetometer is off by half of the field or more. The gyroscope
has a bias that is not known. An attitude is not a vector; `wolf.models.attitude` has the state as a small rotation.
"""

import sys

import numpy as np
from scipy.spatial.transform import Rotation

import wolf
from wolf.inference.noise import PerSensorNoise, Weighted

STEPS, DT = 1500, 0.02  # half a minute
GYRO, ACCEL, MAG = 0.02, 0.2, 0.02  # standard deviations: rad/s, m/s², and shares of the field
GRAVITY, FIELD = np.array([0.0, 0.0, 9.81]), np.array([0.4, 0.0, -0.9])
BIAS = np.array([0.03, -0.02, 0.01])  # rad/s: ignored, it turns the device around in a few minutes
METHODS = {
    "EKF": "EKF",
    "WoLF": "WoLF",
    "WoLF, sensor by sensor": wolf.filters.GaussianFilter(
        noise=PerSensorNoise(Weighted(wolf.MahalanobisIMQ()), sensors=(0, 0, 0, 1, 1, 1))
    ),
}


def turn(seed: int) -> tuple[Rotation, np.ndarray, np.ndarray, np.ndarray]:
    """Turn a device: give its true attitudes, the gyroscope, the other two sensors, and where iron was nearby."""
    rng = np.random.default_rng(seed)
    t = DT * np.arange(STEPS)
    rates = np.stack([0.6 * np.sin(0.5 * t), 0.3 + 0.9 * np.cos(0.3 * t), 0.5 * np.sin(0.2 * t + 1.0)], axis=1)
    attitudes = [Rotation.from_rotvec([0.5, 0.2, -1.0])]
    for rate in rates:
        attitudes.append(attitudes[-1] * Rotation.from_rotvec(rate * DT))
    truth = Rotation.concatenate(attitudes[1:])
    gyro = rates + BIAS + GYRO * rng.normal(size=(STEPS, 3))
    iron = (t % 5.0) > 4.0
    bent = FIELD + iron[:, None] * rng.normal(size=3)
    accel = truth.inv().apply(GRAVITY) + ACCEL * rng.normal(size=(STEPS, 3))
    mag = truth.inv().apply(bent) + MAG * rng.normal(size=(STEPS, 3))
    return truth, gyro, np.concatenate([accel, mag], axis=1), iron


def follow(gyro: np.ndarray, ys: np.ndarray, method: object) -> wolf.Filtered:
    """Initialise the state from the first measurement and filter."""
    start, _ = Rotation.align_vectors([GRAVITY, FIELD], [ys[0, :3], ys[0, 3:]])
    prior = wolf.Gaussian(np.r_[start.as_rotvec(), np.zeros(3)], np.diag([0.05**2] * 3 + [0.05**2] * 3))
    model = wolf.models.attitude(DT, GYRO**2, 1e-10, ACCEL**2, MAG**2, field=FIELD, prior=prior, gravity=GRAVITY)
    return wolf.filter(model, ys, method=method, inputs=gyro)


def errors(truth: Rotation, means: np.ndarray) -> np.ndarray:
    """Give the angle between each estimate and the truth, in degrees."""
    return np.degrees((truth.inv() * Rotation.from_quat(wolf.models.quaternions(means))).magnitude())


def draw(path: str, found: dict[str, np.ndarray], iron: np.ndarray) -> None:
    import matplotlib.pyplot as plt

    from wolf.plots import style

    figure, axes = plt.subplots(figsize=(9, 3.8), layout="constrained")
    t = DT * np.arange(STEPS)
    axes.fill_between(t, 0, 1, where=iron, transform=axes.get_xaxis_transform(), color="0.9", label="iron nearby")
    for (name, error), colour in zip(found.items(), style.CYCLE, strict=False):
        axes.plot(t, error, label=name, color=colour, lw=1.2)
    axes.set(xlabel="seconds", ylabel="error of the attitude, degrees", yscale="log", xlim=(0, t[-1]))
    figure.legend(frameon=False, ncols=4, loc="outside upper left")
    style.dress(axes)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(picture: str | None = None, seeds: range = range(5), methods: dict[str, object] = METHODS) -> dict[str, float]:
    squares: dict[str, list[float]] = {name: [] for name in methods}
    for seed in seeds:
        truth, gyro, ys, iron = turn(seed)
        found = {name: errors(truth, follow(gyro, ys, method).means) for name, method in methods.items()}
        for name, error in found.items():
            squares[name].append(float(np.mean(error**2)))
        if picture is not None and seed == seeds[0]:
            draw(picture, found, iron)
    result = {name: float(np.sqrt(np.mean(each))) for name, each in squares.items()}
    print(f"root mean squared error of the attitude in degrees, {len(seeds)} runs of {STEPS * DT:g} seconds")
    for name, error in result.items():
        print(f"  {name:26}{error:6.2f}")
    return result


if __name__ == "__main__":
    main(*sys.argv[1:2])
