"""Measurement errors and motions of `worlds_data.py`.

Errors are functions of the noise-free measurements (B, T, M), their noise, its standard deviations and a random number
generator; they return the measurements, and which of them the oracle skips.
"""

import numpy as np

SPIKE_SD = 50.0  # largest gross error
RUN_RATE, RUN_STEPS = 0.01, (5, 20)  # of agreeing or independent gross errors: starts per step, shortest and longest
STUCK_RATE, STUCK_STEPS = 0.007, (15, 40)


def directions(rng, shape):
    """Draw unit vectors along the last axis."""
    way = rng.normal(size=shape)
    return way / np.linalg.norm(way, axis=-1, keepdims=True)


def spikes(share, low=0.0, high=SPIKE_SD, one_sided=False):
    """Independent gross errors of a uniform size at a share of the steps."""

    def errors(clean, noise, sd, rng):
        hit = rng.random((*clean.shape[:2], 1)) < share
        way = np.ones(clean.shape) if one_sided else directions(rng, clean.shape)
        return clean + noise + hit * sd * way * rng.uniform(low, high, hit.shape), hit

    return errors


def student(dof):
    """Student-t measurement noise of variance R; the oracle skips nothing."""

    def errors(clean, noise, sd, rng):
        scale = np.sqrt((dof - 2) / rng.chisquare(dof, (*clean.shape[:2], 1)))
        return clean + scale * noise, np.zeros(scale.shape, bool)

    return errors


def autocorrelated(share):
    """AR(1) noise of variance R; the oracle takes it for white."""

    def errors(clean, noise, sd, rng):
        noise = noise.copy()
        for t in range(1, noise.shape[1]):
            noise[:, t] = share * noise[:, t - 1] + np.sqrt(1 - share**2) * noise[:, t]
        return clean + noise, np.zeros((*clean.shape[:2], 1), bool)

    return errors


def repeated(low, high, share=0.2, again=0.5):
    """Outliers of which each is repeated, at the same distance, with a probability."""

    def errors(clean, noise, sd, rng):
        runs, steps, size = clean.shape
        start = share * (1 - again) / (1 - share)
        hit, off = np.zeros((runs, steps, 1), bool), np.zeros(clean.shape)
        for t in range(steps):
            before = hit[:, t - 1] if t else np.zeros((runs, 1), bool)
            hit[:, t] = rng.random((runs, 1)) < np.where(before, again, start)
            new = directions(rng, (runs, size)) * rng.uniform(low, high, (runs, 1))
            off[:, t] = np.where(before, off[:, t - 1], new)
        return clean + noise + hit * sd * off, hit

    return errors


def segments(rng, runs, steps, rate, lengths):
    """Draw runs of consecutive steps: the step at which the current one began, (B, T), or -1 outside."""
    begun, left = np.full((runs, steps), -1), np.zeros(runs, int)
    for t in range(1, steps):
        new = (left == 0) & (rng.random(runs) < rate)
        begun[:, t] = np.where(new, t, np.where(left > 0, begun[:, t - 1], -1))
        left = np.where(new, rng.integers(lengths[0] - 1, lengths[1], runs), np.maximum(left - 1, 0))
    return begun


def bursts(size, agree=True, lengths=RUN_STEPS):
    """Runs of gross errors: equal ones of a size, or independent ones up to it."""

    def errors(clean, noise, sd, rng):
        begun = segments(rng, *clean.shape[:2], RUN_RATE, lengths)
        off = directions(rng, clean.shape)
        off = off if agree else off * rng.uniform(0.0, 1.0, (*begun.shape, 1))
        rows = np.maximum(begun, 0) if agree else np.arange(clean.shape[1])[None]
        off = size * np.take_along_axis(off, np.broadcast_to(rows, begun.shape)[..., None], axis=1)
        hit = begun[..., None] >= 0
        return clean + noise + hit * sd * off, hit

    return errors


def replaced(distance, length, jitter=0.0):
    """Runs of one value, below everything that the series shows, exactly or with jitter."""

    def errors(clean, noise, sd, rng):
        hit = segments(rng, *clean.shape[:2], RUN_RATE, (length, length))[..., None] >= 0
        value = clean.min(axis=1, keepdims=True) - distance * sd + jitter * sd * rng.normal(size=clean.shape)
        return np.where(hit, value, clean + noise), hit

    return errors


def stuck(clean, noise, sd, rng):
    """Runs that repeat the last measurement."""
    begun, ys = segments(rng, *clean.shape[:2], STUCK_RATE, STUCK_STEPS), clean + noise
    rows = np.where(begun >= 0, begun - 1, np.arange(clean.shape[1]))
    return np.take_along_axis(ys, rows[..., None], axis=1), begun[..., None] >= 0


def quantised(clean, noise, sd, rng):
    return np.round((clean + noise) / sd) * sd, np.zeros((*clean.shape[:2], 1), bool)


def half_missing(clean, noise, sd, rng):
    ys, hit = spikes(0.05)(clean, noise, sd, rng)
    return np.where(rng.random(hit.shape) < 0.5, np.nan, ys), hit


def gap(clean, noise, sd, rng):
    """A quarter of the series is missing."""
    ys, hit = spikes(0.05)(clean, noise, sd, rng)
    steps = clean.shape[1]
    ys[:, steps // 2 : steps // 2 + steps // 4] = np.nan
    return ys, hit


def one_sensor(kind):
    """One of several sensors is noisy (ten times the sd), stuck for half of the series, or drifts."""

    def errors(clean, noise, sd, rng):
        ys, steps = clean + noise, clean.shape[1]
        hit = np.zeros(clean.shape, bool)
        hit[..., 0] = kind == "noisy"
        hit[:, steps // 4 : 3 * steps // 4, 0] = kind == "stuck"
        hit[:, steps // 4 :, 0] |= kind == "drifting"
        if kind == "noisy":
            ys[..., 0] += 9.0 * noise[..., 0]
        if kind == "stuck":
            ys[..., 0] = np.where(hit[..., 0], ys[:, steps // 4 - 1, :1], ys[..., 0])
        if kind == "drifting":
            ys[..., 0] += 0.2 * sd[0] * np.maximum(np.arange(steps) - steps // 4, 0)
        return ys, hit

    return errors


def driven(accelerate):
    """Positions of cars that start at random headings with 15 m/s, and the mean square of their acceleration."""

    def motion(runs, steps, rng):
        speed, heading = np.full(runs, 15.0), rng.uniform(-np.pi, np.pi, runs)
        left, plan = rng.integers(20, 60, runs), np.zeros(runs)
        velocity = np.empty((runs, steps + 1, 2))
        for t in range(steps + 1):
            speed, heading, left, plan = accelerate(speed, heading, left - 1, plan, rng)
            velocity[:, t] = speed[:, None] * np.stack([np.cos(heading), np.sin(heading)], 1)
        accel_var = np.mean(np.diff(velocity, axis=1) ** 2)
        return np.cumsum(0.5 * (velocity[:, 1:] + velocity[:, :-1]), axis=1), accel_var

    return motion


def stop_and_go(speed, heading, left, plan, rng):
    """Brake or accelerate by 3 m/s² to 0 or 15 m/s, and keep that for 20 to 60 s."""
    switch = left < 0
    plan = np.where(switch, 1.0 - plan, plan)
    speed = np.clip(speed + np.where(plan > 0.5, -3.0, 3.0), 0.0, 15.0)
    return speed, heading, np.where(switch, rng.integers(20, 60, len(speed)), left), plan


def sharp_turns(speed, heading, left, plan, rng):
    """Turn by 60 to 120 degrees within a second every 20 to 60 s."""
    switch = left < 0
    angle = rng.choice([-1.0, 1.0], len(speed)) * rng.uniform(np.pi / 3, 2 * np.pi / 3, len(speed))
    return speed, heading + switch * angle, np.where(switch, rng.integers(20, 60, len(speed)), left), plan


def smooth_turns(speed, heading, left, plan, rng):
    """Drive straight and by turns of up to 0.15 rad/s, each for 20 to 60 s."""
    switch = left < 0
    plan = np.where(switch, np.where(plan == 0.0, rng.uniform(-0.15, 0.15, len(speed)), 0.0), plan)
    return speed, heading + plan, np.where(switch, rng.integers(20, 60, len(speed)), left), plan
