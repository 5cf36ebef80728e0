"""What simulated trials say: efficiency and false alarms on clean data, lock-out after a jump, breakdown by outliers.

Errors are squared distances in the metric of the steady posterior of the same filter without weights, so that nothing
depends on units, and a method cannot excuse an error by a wide covariance of its own.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wolf.diagnostics.certificate.monte_carlo_trials import Scale, Trials, run_trials, start_trials
from wolf.statespace import Model

LEVELS = 16  # sizes of jumps, or shares of outliers, that are tried at once
JUMPS = np.geomspace(0.03, 1000.0, LEVELS)  # in standard deviations of the predicted measurement
SHARES = np.array([0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
MOST = 0.95  # share of the trials that must come through
IN_A_ROW = 10  # steps with a usual error that make a recovery
USUAL, MARGIN = 0.999, 1.5  # quantile of clean errors, and what an error may exceed it by
BROKEN = 3.0  # times the clean error
NO_SPREAD = 1e-14  # ratio of the extreme eigenvalues of a covariance that is singular but for rounding
SETTLED, CHUNKS = 1e-6, 10  # relative change that counts as steady, and how many runs to wait for it


class SteadyState(NamedTuple):
    """Trials at steady state, from which every question starts.

    Attributes:
        model: cast to float64.
        method: cast to float64.
        scale: what errors are measured in.
        states: of the filter, with a leading trial axis.
        truths: (B, D).
        plain: states of the filter without weights.
        settled: whether that filter's covariance had become steady.
        key: of what comes next.
        steps: of one run.
    """

    model: Model
    method: Any
    scale: Scale
    states: Any
    truths: Any
    plain: Any
    settled: bool
    key: Any
    steps: int


class CleanDataEfficiency(NamedTuple):
    """Clean data: efficiency and alarms with standard errors, the squared error that is usual, lost trials of all."""

    efficiency: float
    efficiency_error: float
    alarms: float
    alarms_error: float
    usual: float
    lost: int
    trials: int


class Jump(NamedTuple):
    """Recovery from jumps of the state.

    Attributes:
        direction: of a jump that moves the prediction by one standard deviation, (D,).
        sizes: that were tried, increasing, in standard deviations of the predicted measurement.
        recovered: share of the trials that recovered from each.
        steps: within which 95 % of the trials recovered; infinite where fewer did.
        largest: size below which all were survived.
    """

    direction: np.ndarray
    sizes: np.ndarray
    recovered: np.ndarray
    steps: np.ndarray
    largest: float


class Breakdown(NamedTuple):
    """Error under gross outliers: `shares` that were tried, `ratios` that 95 % stay below, and the `largest` borne."""

    shares: np.ndarray
    ratios: np.ndarray
    largest: float


def settle(model: Model, method: Any, plain: Any, key: Any, trials: int, steps: int) -> SteadyState:
    """Run clean trials from the prior until the covariance of the filter without weights is steady."""
    count = LEVELS * max(trials, 1)
    run_key, next_key = jax.random.split(key)
    states, truths = start_trials(model, method, count)
    others, _ = start_trials(model, plain, count)
    none = jnp.zeros(count)
    scale = Scale(jnp.eye(model.obs_dim), jnp.eye(model.state_dim))
    before, settled, other_truths = None, False, truths
    for i in range(CHUNKS):
        keys = jax.random.split(jax.random.fold_in(run_key, i), count)
        base = run_trials(model, plain, scale, others, other_truths, keys, none, steps)
        mine = run_trials(model, method, scale, states, truths, keys, none, steps)
        states, truths, others, other_truths = mine.states, mine.truths, base.states, base.truths
        cov = np.median(base.covs, axis=0)
        settled = before is not None and bool(np.abs(cov - before).max() <= SETTLED * np.abs(cov).max())
        before = cov
        if settled:
            break
    check_spread(base.covs.mean(axis=0))
    scale = Scale(scale.innovation_root, np.linalg.cholesky(base.covs.mean(axis=0)))
    return SteadyState(model, method, scale, states, truths, others, settled, next_key, steps)


def check_spread(covs: np.ndarray) -> None:
    """Check that a belief has spread in every direction, (..., D, D)."""
    values = np.linalg.eigvalsh(covs)
    if not np.all(np.isfinite(values)) or not np.all(values[..., 0] > NO_SPREAD * values[..., -1]):
        raise ValueError(
            "the posterior has a direction without uncertainty, where every shift is infinite in its units: "
            "give the dynamics some noise, or the prior some spread"
        )


def on_clean_data(steady: SteadyState, plain: Any) -> CleanDataEfficiency:
    """Compare with the filter without weights on the same clean data."""
    count = len(steady.truths)
    run = (steady.truths, jax.random.split(steady.key, count), jnp.zeros(count), steady.steps)
    mine = run_trials(steady.model, steady.method, steady.scale, steady.states, *run)
    base = run_trials(steady.model, plain, steady.scale, steady.plain, *run)
    errors, best = mine.distances.mean(1), base.distances.mean(1)
    ratio = best.mean() / errors.mean()
    spread = np.std(best - ratio * errors, ddof=1) / errors.mean() / np.sqrt(count)  # of a ratio, by its linear part
    alarms = mine.alarms.mean(1)
    usual = MARGIN**2 * float(np.quantile(base.distances, USUAL))
    alarm_error = np.std(alarms, ddof=1) / np.sqrt(count)
    lost = int(np.sum(errors > BROKEN**2 * best.mean()))
    return CleanDataEfficiency(
        float(ratio), float(spread), float(alarms.mean()), float(alarm_error), usual, lost, count
    )


def after_jump(steady: SteadyState, direction: np.ndarray, usual: float) -> Jump:
    """Find the largest jump of the state from which nearly all trials recover.

    Sizes are tried on a geometric grid, then on a finer one between the last that was survived and the first that was
    not.

    Args:
        steady: trials at steady state.
        direction: jump that moves the prediction by one standard deviation.
        usual: squared error that counts as usual.
    """

    def try_sizes(sizes: np.ndarray) -> np.ndarray:
        found = _run_levels(steady, sizes[:, None] * direction, np.zeros(LEVELS))
        return steps_to_recover(found.distances, usual).reshape(LEVELS, -1)

    sizes, taken, largest = _bracket(try_sizes, JUMPS, lambda part: np.mean(np.isfinite(part), axis=1) >= MOST)
    recovered = np.mean(np.isfinite(taken), axis=1)
    steps = np.quantile(taken, MOST, axis=1, method="higher")
    return Jump(direction, sizes, recovered, steps, largest)


def under_outliers(steady: SteadyState) -> Breakdown:
    """Find the share of gross outliers from which on some trials have several times the clean error."""
    clean = float(steady.scale.posterior_root.shape[0])  # expectation of the squared error of an exact filter

    def try_shares(shares: np.ndarray) -> np.ndarray:
        found = _run_levels(steady, np.zeros((LEVELS, 1)), shares)
        return np.sqrt(found.distances.mean(1) / clean).reshape(LEVELS, -1)

    shares, ratios, largest = _bracket(try_shares, SHARES, lambda part: np.mean(part <= BROKEN, axis=1) >= MOST)
    return Breakdown(shares, np.quantile(ratios, MOST, axis=1, method="higher"), largest)


def steps_to_recover(distances: np.ndarray, usual: float) -> np.ndarray:
    """Count the steps until the error has been usual for ten steps in a row; infinite if it never was.

    Args:
        distances: squared errors, (B, T).
        usual: largest that counts as usual.

    Example:
        >>> steps_to_recover(np.array([[9.0] * 3 + [1.0] * 10, [9.0] * 13]), 2.0).tolist()
        [3.0, inf]
    """
    good = distances <= usual
    rows: Any = np.lib.stride_tricks.sliding_window_view(good, min(IN_A_ROW, good.shape[1]), axis=1).all(-1)
    return np.where(rows.any(1), rows.argmax(1).astype(float), np.inf)


def directions(steady: SteadyState, jacobian: np.ndarray, dynamics: np.ndarray) -> dict[str, np.ndarray]:
    """Choose jumps to try: of a state that is measured, and of one that only drives what is measured.

    Of each kind the state coordinate that shows most, scaled to move the prediction of the measurement by one standard
    deviation: at once for a position, in each step for a velocity.

    Args:
        steady: trials at steady state.
        jacobian: H, (M, D).
        dynamics: F, (D, D).
    """
    spread = np.sqrt((steady.scale.posterior_root**2).sum(1))
    here = np.linalg.norm(np.linalg.solve(steady.scale.innovation_root, jacobian), axis=0)
    ahead = np.linalg.norm(np.linalg.solve(steady.scale.innovation_root, jacobian @ dynamics), axis=0)
    seen = here * spread > 1e-9 * (here * spread).max()
    chosen = {}
    for name, gains, wanted in (("position jump", here, seen), ("velocity jump", ahead, ~seen)):
        shown = np.where(wanted, gains * spread, 0.0)
        if shown.max() > 0:
            i = int(shown.argmax())
            chosen[name] = np.eye(len(spread))[i] / gains[i]
    return chosen


def _run_levels(steady: SteadyState, jumps: np.ndarray, shares: np.ndarray) -> Trials:
    """Let every level start from the same states and see the same noise.

    Args:
        steady: trials at steady state.
        jumps: of the true state, (LEVELS, D) or (LEVELS, 1).
        shares: of gross outliers, (LEVELS,).
    """
    each = len(steady.truths) // LEVELS
    rows = np.tile(np.arange(each), LEVELS)
    states = jax.tree.map(lambda leaf: leaf[rows], steady.states)
    truths = steady.truths[rows] + np.repeat(jumps, each, axis=0)
    keys = jax.random.split(steady.key, each)[rows]
    return run_trials(
        steady.model, steady.method, steady.scale, states, truths, keys, np.repeat(shares, each), steady.steps
    )


def _bracket(attempt: Callable, grid: np.ndarray, survives: Callable) -> tuple[np.ndarray, np.ndarray, float]:
    """Try a grid of levels, then a finer one where survival ends.

    Returns:
        The levels, sorted, what was found at each, and the largest up to which all survive; 0 if none.
    """
    found = attempt(grid)
    ends = np.flatnonzero(~survives(found))
    if not len(ends):
        return grid, found, float(grid[-1])
    first = int(ends[0])
    low = grid[first - 1] if first else 0.1 * grid[0]
    finer = np.geomspace(low, grid[first], LEVELS + 2)[1:-1]
    levels, both = np.concatenate([grid, finer]), np.concatenate([found, attempt(finer)])
    order = np.argsort(levels)
    levels, both = levels[order], both[order]
    failed = np.flatnonzero(~survives(both))[0]
    return levels, both, float(levels[failed - 1]) if failed else 0.0
