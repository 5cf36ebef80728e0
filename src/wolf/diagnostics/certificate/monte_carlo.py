"""Monte Carlo entries of a certificate: efficiency and false alarms, recovery from jumps, breakdown under outliers.

Errors are squared distances in the metric of the steady-state posterior of the same filter without weights, so that
they do not depend on units, nor on the method's own covariance.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.diagnostics.certificate.monte_carlo_trials import ErrorUnits, Trials, run_trials, start_trials
from wolf.interfaces import Filter
from wolf.numerics.pytree import PyTree
from wolf.statespace import Model

NUM_LEVELS = 16  # sizes of jumps, or shares of outliers, that are simulated in one batch
JUMP_SIZES = np.geomspace(0.03, 1000.0, NUM_LEVELS)  # in standard deviations of the predicted measurement
OUTLIER_SHARES = np.array([0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
MIN_PASSING_SHARE = 0.95  # share of the trials that must pass for a level to count as survived
RECOVERY_STEPS = 10  # consecutive steps with a usual error that count as a recovery
CLEAN_ERROR_QUANTILE = 0.999  # quantile of clean errors up to which an error is usual ...
CLEAN_ERROR_MARGIN = 1.5  # ... times this factor
MAX_ERROR_RATIO = 3.0  # ratio to the clean error above which a trial counts as broken down
MIN_EIGENVALUE_RATIO = 1e-14  # smallest over largest eigenvalue below which a covariance is singular up to rounding
STEADY_TOLERANCE = 1e-6  # largest relative change of the covariance at steady state
MAX_CHUNKS = 10  # runs after which the search for the steady state stops


class SteadyState(NamedTuple):
    """Trials at steady state, the common start of all simulations.

    Attributes:
        model: model, cast to float64.
        method: method, cast to float64.
        scale: units of errors.
        states: states of the filter, with a leading trial axis.
        truths: true states, (B, D).
        plain: states of the filter without weights.
        converged: whether the covariance of that filter reached its steady state.
        key: random key of the simulations that follow.
        steps: steps of one run.
    """

    model: Model
    method: Filter
    scale: ErrorUnits
    states: PyTree
    truths: PyTree
    plain: Filter
    converged: bool
    key: Array
    steps: int


class CleanDataEfficiency(NamedTuple):
    """Results on clean data.

    Attributes:
        efficiency: mean squared error of the filter without weights over that of the method.
        efficiency_error: its standard error.
        alarms: share of measurements that are flagged as outliers.
        alarms_error: its standard error.
        usual: largest squared error that counts as usual.
        lost: number of diverged trials.
        trials: number of trials.
    """

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
        direction: jump that moves the prediction by one standard deviation, (D,).
        sizes: simulated sizes, increasing, in standard deviations of the predicted measurement.
        recovered: share of the trials that recovered from each size.
        steps: steps within which 95 % of the trials recovered; infinite where fewer did.
        largest: size up to which all levels passed.
    """

    direction: np.ndarray
    sizes: np.ndarray
    recovered: np.ndarray
    steps: np.ndarray
    largest: float


class Breakdown(NamedTuple):
    """Error under gross outliers.

    Attributes:
        shares: simulated shares of outliers, increasing.
        ratios: 95 % quantile of the ratio to the clean error at each share.
        largest: share up to which all levels passed.
    """

    shares: np.ndarray
    ratios: np.ndarray
    largest: float


def run_to_steady_state(
    model: Model, method: Filter, plain: Filter, key: Array, trials: int, steps: int
) -> SteadyState:
    """Run clean trials from the prior until the covariance of the filter without weights is steady."""
    count = NUM_LEVELS * max(trials, 1)
    run_key, next_key = jax.random.split(key)
    states, truths = start_trials(model, method, count)
    reference_states, _ = start_trials(model, plain, count)
    none = jnp.zeros(count)
    scale = ErrorUnits(jnp.eye(model.obs_dim), jnp.eye(model.state_dim))
    before, converged, reference_truths = None, False, truths
    for i in range(MAX_CHUNKS):
        keys = jax.random.split(jax.random.fold_in(run_key, i), count)
        reference = run_trials(model, plain, scale, reference_states, reference_truths, keys, none, steps)
        own = run_trials(model, method, scale, states, truths, keys, none, steps)
        states, truths, reference_states, reference_truths = own.states, own.truths, reference.states, reference.truths
        cov = np.median(reference.covs, axis=0)
        converged = before is not None and bool(np.abs(cov - before).max() <= STEADY_TOLERANCE * np.abs(cov).max())
        before = cov
        if converged:
            break
    check_positive_definite(reference.covs.mean(axis=0))
    scale = ErrorUnits(scale.innovation_root, np.linalg.cholesky(reference.covs.mean(axis=0)))
    return SteadyState(model, method, scale, states, truths, reference_states, converged, next_key, steps)


def check_positive_definite(covs: np.ndarray) -> None:
    """Raise an error if a covariance is singular, (..., D, D)."""
    values = np.linalg.eigvalsh(covs)
    if not np.all(np.isfinite(values)) or not np.all(values[..., 0] > MIN_EIGENVALUE_RATIO * values[..., -1]):
        raise ValueError(
            "the posterior covariance is singular, so shifts in posterior standard deviations are infinite: "
            "add dynamics noise or increase the prior covariance"
        )


def simulate_clean_data(steady: SteadyState, plain: Filter) -> CleanDataEfficiency:
    """Compare the method with the filter without weights on the same clean data."""
    count = len(steady.truths)
    run = (steady.truths, jax.random.split(steady.key, count), jnp.zeros(count), steady.steps)
    own = run_trials(steady.model, steady.method, steady.scale, steady.states, *run)
    reference = run_trials(steady.model, plain, steady.scale, steady.plain, *run)
    errors, best = own.distances.mean(1), reference.distances.mean(1)
    ratio = best.mean() / errors.mean()
    ratio_error = np.std(best - ratio * errors, ddof=1) / errors.mean() / np.sqrt(count)  # delta method for a ratio
    alarms = own.alarms.mean(1)
    usual = CLEAN_ERROR_MARGIN**2 * float(np.quantile(reference.distances, CLEAN_ERROR_QUANTILE))
    alarm_error = np.std(alarms, ddof=1) / np.sqrt(count)
    lost = int(np.sum(errors > MAX_ERROR_RATIO**2 * best.mean()))
    return CleanDataEfficiency(
        float(ratio), float(ratio_error), float(alarms.mean()), float(alarm_error), usual, lost, count
    )


def simulate_jumps(steady: SteadyState, direction: np.ndarray, usual: float) -> Jump:
    """Find the largest jump of the state from which at least 95 % of the trials recover.

    Sizes are tested on a geometric grid, then on a finer grid between the last size that passed and the first that
    failed.

    Args:
        steady: trials at steady state.
        direction: jump that moves the prediction by one standard deviation.
        usual: largest squared error that counts as usual.
    """

    def try_sizes(sizes: np.ndarray) -> np.ndarray:
        trials_run = _run_levels(steady, sizes[:, None] * direction, np.zeros(NUM_LEVELS))
        return steps_to_recover(trials_run.distances, usual).reshape(NUM_LEVELS, -1)

    sizes, recovery_steps, largest = _bracket(
        try_sizes, JUMP_SIZES, lambda part: np.mean(np.isfinite(part), axis=1) >= MIN_PASSING_SHARE
    )
    recovered = np.mean(np.isfinite(recovery_steps), axis=1)
    steps = np.quantile(recovery_steps, MIN_PASSING_SHARE, axis=1, method="higher")
    return Jump(direction, sizes, recovered, steps, largest)


def simulate_outliers(steady: SteadyState) -> Breakdown:
    """Find the share of gross outliers above which more than 5 % of the trials exceed the tolerated error."""
    clean = float(steady.scale.posterior_root.shape[0])  # expected squared error of an exact filter

    def try_shares(shares: np.ndarray) -> np.ndarray:
        trials_run = _run_levels(steady, np.zeros((NUM_LEVELS, 1)), shares)
        return np.sqrt(trials_run.distances.mean(1) / clean).reshape(NUM_LEVELS, -1)

    shares, ratios, largest = _bracket(
        try_shares, OUTLIER_SHARES, lambda part: np.mean(part <= MAX_ERROR_RATIO, axis=1) >= MIN_PASSING_SHARE
    )
    return Breakdown(shares, np.quantile(ratios, MIN_PASSING_SHARE, axis=1, method="higher"), largest)


def steps_to_recover(distances: np.ndarray, usual: float) -> np.ndarray:
    """Count the steps until the error is usual for ten consecutive steps; infinite if it never is.

    Args:
        distances: squared errors, (B, T).
        usual: largest squared error that counts as usual.

    Example:
        >>> steps_to_recover(np.array([[9.0] * 3 + [1.0] * 10, [9.0] * 13]), 2.0).tolist()
        [3.0, inf]
    """
    good = distances <= usual
    length = min(RECOVERY_STEPS, good.shape[1])
    rows = np.asarray(np.lib.stride_tricks.sliding_window_view(good, length, axis=1).all(-1))
    return np.where(rows.any(1), rows.argmax(1).astype(float), np.inf)


def jump_directions(steady: SteadyState, jacobian: np.ndarray, dynamics: np.ndarray) -> dict[str, np.ndarray]:
    """Choose default jump directions: of a measured state, and of a state that only drives measured states.

    Of each kind, the state coordinate with the largest effect on the measurement is selected, scaled to move the
    predicted measurement by one standard deviation: immediately for a position, per step for a velocity.

    Args:
        steady: trials at steady state.
        jacobian: H, (M, D).
        dynamics: F, (D, D).
    """
    deviations = np.sqrt((steady.scale.posterior_root**2).sum(1))
    direct_effect = np.linalg.norm(np.linalg.solve(steady.scale.innovation_root, jacobian), axis=0)
    delayed_effect = np.linalg.norm(np.linalg.solve(steady.scale.innovation_root, jacobian @ dynamics), axis=0)
    measured = direct_effect * deviations > 1e-9 * (direct_effect * deviations).max()
    selected = {}
    for name, gains, wanted in (
        ("position jump", direct_effect, measured),
        ("velocity jump", delayed_effect, ~measured),
    ):
        effects = np.where(wanted, gains * deviations, 0.0)
        if effects.max() > 0:
            i = int(effects.argmax())
            selected[name] = np.eye(len(deviations))[i] / gains[i]
    return selected


def _run_levels(steady: SteadyState, jumps: np.ndarray, shares: np.ndarray) -> Trials:
    """Simulate all levels from the same states and with the same noise.

    Args:
        steady: trials at steady state.
        jumps: jumps of the true state, (NUM_LEVELS, D) or (NUM_LEVELS, 1).
        shares: shares of gross outliers, (NUM_LEVELS,).
    """
    each = len(steady.truths) // NUM_LEVELS
    rows = np.tile(np.arange(each), NUM_LEVELS)
    states = jax.tree.map(lambda leaf: leaf[rows], steady.states)
    truths = steady.truths[rows] + np.repeat(jumps, each, axis=0)
    keys = jax.random.split(steady.key, each)[rows]
    return run_trials(
        steady.model, steady.method, steady.scale, states, truths, keys, np.repeat(shares, each), steady.steps
    )


def _bracket(run_levels: Callable, grid: np.ndarray, passes: Callable) -> tuple[np.ndarray, np.ndarray, float]:
    """Evaluate a grid of levels, then a finer grid around the first failure.

    Returns:
        The levels, sorted, the results of each, and the largest level up to which all pass; 0 if none.
    """
    grid_results = run_levels(grid)
    failures = np.flatnonzero(~passes(grid_results))
    if not len(failures):
        return grid, grid_results, float(grid[-1])
    first = int(failures[0])
    low = grid[first - 1] if first else 0.1 * grid[0]
    refined = np.geomspace(low, grid[first], NUM_LEVELS + 2)[1:-1]
    levels, results = np.concatenate([grid, refined]), np.concatenate([grid_results, run_levels(refined)])
    order = np.argsort(levels)
    levels, results = levels[order], results[order]
    failed = np.flatnonzero(~passes(results))[0]
    return levels, results, float(levels[failed - 1]) if failed else 0.0
