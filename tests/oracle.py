"""Reference implementations in NumPy: the textbook Kalman filter with noise R / w², and dense least squares.

A system is a dict with F, H, Q, R (and B), each with or without a leading time axis, and the prior's mean and cov.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.stats import multivariate_normal

G = 9.81  # gravity, of the pendulum
DT = 0.05


class Beliefs(NamedTuple):
    means: np.ndarray
    covs: np.ndarray
    predicted_means: np.ndarray
    predicted_covs: np.ndarray
    log_liks: np.ndarray


def random_cov(rng: np.random.Generator, size: int, *lead: int, scale: float = 1.0) -> np.ndarray:
    root = rng.normal(size=(*lead, size, size))
    return scale * (root @ root.swapaxes(-1, -2) / size + 0.3 * np.eye(size))


def random_system(
    seed: int, *, steps: int | None = None, states: int = 3, measured: int = 2, controls: int = 0
) -> dict[str, np.ndarray]:
    """Draw a system with correlated noise; with `steps`, every matrix changes in time."""
    rng = np.random.default_rng(seed)
    lead = () if steps is None else (steps,)
    system = {
        "F": 0.9 * np.eye(states) + rng.normal(scale=0.3 / states**0.5, size=(*lead, states, states)),
        "H": rng.normal(size=(*lead, measured, states)),
        "Q": random_cov(rng, states, *lead, scale=0.3),
        "R": random_cov(rng, measured, *lead),
        "mean": rng.normal(size=states),
        "cov": random_cov(rng, states),
    }
    return system | ({"B": rng.normal(size=(*lead, states, controls))} if controls else {})


def in_units(system: dict[str, np.ndarray], units: np.ndarray) -> dict[str, np.ndarray]:
    """Write a system for the state `units * x`."""
    return system | {
        "F": units[:, None] * system["F"] / units,
        "H": system["H"] / units,
        "Q": np.outer(units, units) * system["Q"],
        "mean": units * system["mean"],
        "cov": np.outer(units, units) * system["cov"],
    }


def random_data(seed: int, steps: int, measured: int = 2, *, missing: float = 0.0, outliers: float = 0.0) -> np.ndarray:
    """Draw measurements; with `missing`, some coordinates and the third row are NaN."""
    rng = np.random.default_rng(seed)
    ys = 2 * rng.normal(size=(steps, measured)) * np.where(rng.random((steps, 1)) < outliers, 20.0, 1.0)
    if missing:
        ys[rng.random(ys.shape) < missing] = np.nan
        ys[2] = np.nan
    return ys


def over_time(system: dict[str, np.ndarray], steps: int) -> dict[str, np.ndarray]:
    """Repeat every matrix that has no time axis; a system without inputs gets a B without columns."""
    full = {"B": np.zeros((system["mean"].size, 0))} | system
    repeat = {k: np.broadcast_to(full[k], (steps, *full[k].shape)) for k in "FHQRB" if full[k].ndim == 2}
    return full | repeat


def extended(
    dynamics: Callable,
    observe: Callable,
    Q: np.ndarray,
    R: np.ndarray,
    mean: np.ndarray,
    cov: np.ndarray,
    ys: np.ndarray,
    us: np.ndarray,
    weights: np.ndarray | None = None,
    update_first: bool = False,
) -> Beliefs:
    """Run an extended Kalman filter with noise R / w².

    `dynamics(t, x, u)` and `observe(t, x, u)` return a value and its Jacobian; Q (T, D, D), R (T, M, M); w (T,) or
    (T, M) is positive. NaN coordinates are deleted.
    """
    rows = []
    for t, y in enumerate(ys):
        lead = t - 1 if update_first else t
        if lead >= 0:
            mean, F = dynamics(lead, mean, us[lead])
            cov = F @ cov @ F.T + Q[lead]
        predicted, log_lik = (mean, cov), 0.0
        seen = ~np.isnan(y)
        if seen.any():
            value, H = observe(t, mean, us[t])
            H, noise, residual = H[seen], R[t][np.ix_(seen, seen)], (y - value)[seen]
            log_lik = multivariate_normal.logpdf(residual, cov=H @ cov @ H.T + noise)
            w = np.ones(seen.sum()) if weights is None else np.broadcast_to(weights[t], y.shape)[seen]
            noise = noise / np.outer(w, w)
            gain = cov @ H.T @ np.linalg.inv(H @ cov @ H.T + noise)
            mean, cov = mean + gain @ residual, cov - gain @ H @ cov
        rows.append((mean, cov, *predicted, log_lik))
    return Beliefs(*map(np.array, zip(*rows, strict=True)))


def kalman(
    system: dict[str, np.ndarray],
    ys: np.ndarray,
    us: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    update_first: bool = False,
) -> Beliefs:
    """Run a Kalman filter with noise R / w²."""
    s = over_time(system, len(ys))
    return extended(
        lambda t, x, u: (s["F"][t] @ x + s["B"][t] @ u, s["F"][t]),
        lambda t, x, u: (s["H"][t] @ x, s["H"][t]),
        *(s[name] for name in ("Q", "R", "mean", "cov")),
        ys,
        np.zeros((len(ys), 0)) if us is None else us,
        weights,
        update_first,
    )


def batch(
    system: dict[str, np.ndarray],
    ys: np.ndarray,
    us: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    update_first: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Smooth by weighted least squares over the whole path at once.

    The path is `offset + spread @ (x_0 - mean, q_1, q_2, ...)`. With its prior covariance P and the information
    J = Hᵀ diag(w) R⁻¹ diag(w) H of all measurements, the posterior covariance is (I + P J)⁻¹ P, also for singular P.
    """
    steps, size = len(ys), system["mean"].size
    s = over_time(system, steps)
    leads = range(steps - 1 if update_first else steps)
    width = size * (1 + len(leads))
    offsets, spreads = [s["mean"]], [np.eye(size, width)]
    for lead in leads:
        shift = 0.0 if us is None else s["B"][lead] @ us[lead]
        offsets.append(s["F"][lead] @ offsets[-1] + shift)
        spreads.append(s["F"][lead] @ spreads[-1] + np.eye(size, width, k=size * (lead + 1)))
    offset, spread = np.concatenate(offsets), np.concatenate(spreads)
    prior = spread @ block_diag(s["cov"], *(s["Q"][lead] for lead in leads)) @ spread.T
    infos, scores = [], []
    for t, y in enumerate(ys):
        seen = ~np.isnan(y)
        w = np.ones(y.size) if weights is None else np.broadcast_to(weights[t], y.shape)
        H = np.diag(w[seen]) @ s["H"][t][seen]
        back = H.T @ np.linalg.inv(s["R"][t][np.ix_(seen, seen)])
        where = size * (t if update_first else t + 1)
        infos.append(back @ H)
        scores.append(back @ (w * y)[seen] - back @ H @ offset[where : where + size])
    skipped = [] if update_first else [np.zeros((size, size))]
    info, score = block_diag(*skipped, *infos), np.concatenate([*(np.zeros(size) for _ in skipped), *scores])
    cov = np.linalg.solve(np.eye(len(prior)) + prior @ info, prior)
    mean = (offset + cov @ score).reshape(-1, size)[-steps:]
    blocks = range(len(prior) - size * steps, len(prior), size)
    return mean, np.stack([cov[i : i + size, i : i + size] for i in blocks])


def pendulum(t: int, x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute one Euler step of a pendulum with torque u, and its Jacobian."""
    value = np.array([x[0] + DT * x[1], x[1] - DT * G * np.sin(x[0]) + DT * u[0]])
    return value, np.array([[1.0, DT], [-DT * G * np.cos(x[0]), 1.0]])


def sine(t: int, x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Measure the horizontal position of a pendulum."""
    return np.sin(x[:1]), np.array([[np.cos(x[0]), 0.0]])


def polar(t: int, x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Measure the range and the bearing of the position (x_0, x_1) as seen from u."""
    dx, dy = x[0] - u[0], x[1] - u[1]
    r = np.hypot(dx, dy)
    blank = np.zeros(x.size - 2)
    jac = np.array([[dx / r, dy / r, *blank], [-dy / r**2, dx / r**2, *blank]])
    return np.array([r, np.arctan2(dy, dx)]), jac


def assert_close(tolerance: float, **pairs: tuple[Any, Any]) -> None:
    """Compare arrays, relative to 1 and to their size."""
    for name, (got, expected) in pairs.items():
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance, err_msg=name)
