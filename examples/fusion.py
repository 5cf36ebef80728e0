"""A car with three sensors at their own rates: GPS once a second, wheels ten times, a compass five times.

    python examples/fusion.py

One fix in ten is off by 30 to 60 metres, as under bridges and between houses, and one wheel reading in twenty is a
slip. Every measurement is one `online.step(y, dt=..., sensor=...)`, in the order in which they come.
"""

import jax.numpy as jnp
import numpy as np

import wolf

SECONDS, FAST = 60, 0.1  # length of the drive, and the time between two readings of the wheels
GPS_NOISE, SPEED_NOISE, HEADING_NOISE = 3.0, 0.2, 0.03  # metres, metres a second, radians


def speed(x):
    return jnp.sqrt(x[2] ** 2 + x[3] ** 2 + 1e-6)[None]  # smooth where the car stands


def heading(x):
    return jnp.arctan2(x[3], x[2])[None]


def turn_between(angle, predicted):
    return jnp.mod(angle - predicted + jnp.pi, 2 * jnp.pi) - jnp.pi


GPS = wolf.Sensor(np.eye(2, 4), GPS_NOISE**2 * np.eye(2))
WHEELS = wolf.Sensor(speed, SPEED_NOISE**2)
COMPASS = wolf.Sensor(heading, HEADING_NOISE**2, residual=turn_between)


def drive(seed: int) -> tuple[np.ndarray, list]:
    """Simulate a drive; return the track every tenth of a second and the measurements (time, sensor, y)."""
    rng = np.random.default_rng(seed)
    times = FAST * np.arange(1, round(SECONDS / FAST) + 1)
    course = np.cumsum(0.12 * np.sin(times / 7.0) * FAST) + 0.3 * np.sin(times / 11.0)
    pace = 12.0 + 4.0 * np.sin(times / 9.0)
    velocity = pace[:, None] * np.stack([np.cos(course), np.sin(course)], axis=1)
    truth = np.cumsum(FAST * velocity, axis=0)
    measured: list = []
    for i, time in enumerate(times):
        slip = 3.0 if rng.random() < 0.05 else 1.0
        measured.append((time, WHEELS, slip * pace[i] + SPEED_NOISE * rng.normal()))
        if i % 2 == 1:
            noisy = course[i] + HEADING_NOISE * rng.normal()
            measured.append((time, COMPASS, np.arctan2(np.sin(noisy), np.cos(noisy))))
        if i % 10 == 9:
            wrong = rng.uniform(30.0, 60.0) if rng.random() < 0.1 else 0.0
            direction = rng.normal(size=2)
            measured.append(
                (time, GPS, truth[i] + GPS_NOISE * rng.normal(size=2) + wrong * direction / np.hypot(*direction))
            )
    return truth, measured


def follow(measured: list, method: str | None, only: list | None = None) -> np.ndarray:
    """Filter the measurements; return the positions every tenth of a second."""
    prior = wolf.Gaussian(np.array([0.0, 0.0, 12.0, 0.0]), np.diag([9.0, 9.0, 25.0, 25.0]))
    model = wolf.models.make("wiener-velocity", dims=2, prior=prior, accel_rate=4.0, obs_var=GPS_NOISE**2)
    online, before, places = wolf.Online(model, method), 0.0, []
    for time, sensor, y in measured:
        used = y if only is None or sensor in only else None
        online.step(used, dt=time - before, sensor=sensor)  # 0 seconds between two of one moment
        if sensor is WHEELS:
            places.append(online.mean[:2])
        else:
            places[-1] = online.mean[:2]
        before = time
    return np.array(places)


def main(seeds: range = range(5)) -> dict[str, float]:
    runs = {
        "EKF, all sensors": ("EKF", None),
        "WoLF, GPS alone": ("WoLF", [GPS]),
        "WoLF, GPS and wheels": ("WoLF", [GPS, WHEELS]),
        "WoLF, all sensors": ("WoLF", None),
        "the default, all sensors": (None, None),
    }
    errors: dict[str, list[float]] = {name: [] for name in runs}
    for seed in seeds:
        truth, measured = drive(seed)
        for name, run in runs.items():
            distance = np.linalg.norm(follow(measured, *run) - truth, axis=1)
            errors[name].append(float(np.sqrt(np.mean(distance[100:] ** 2))))
    found = {name: float(np.mean(each)) for name, each in errors.items()}
    print(f"root mean squared error of the position in metres, after ten seconds, mean of {len(seeds)} drives")
    for name, error in found.items():
        print(f"  {name:26}{error:6.2f}")
    return found


if __name__ == "__main__":
    main()
