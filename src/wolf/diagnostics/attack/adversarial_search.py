"""Search for the contamination with the largest damage: greedy times, gradient ascent, random search.

Errors are given as points in units of the innovation covariance of the clean run: `ε = S½ point`.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.diagnostics.attack.relaxed_gates import soften
from wolf.engine.scan import run_filter
from wolf.interfaces import Filter, Number, StepInfo
from wolf.numerics import linalg
from wolf.numerics.pytree import PyTree, cast
from wolf.statespace import Model

TIMES_PER_ROUND, ERRORS_PER_TIME = 40, 8  # times per greedy round, and random errors at each
STARTS_PER_GREEDY_START = 4  # one of this many starts is found greedily
NEIGHBOUR_OFFSETS = (-3, -2, -1, 1, 2, 3)  # steps around a chosen time that are also candidates
ASCENT_ITERATIONS = 20  # iterations of ascent, at each softness of the gates
GATE_SOFTNESSES = (0.5, 0.2, 0.05)  # softness of the gates that replace hard gates, as a share of their threshold
STEP_SIZES = (0.5, 0.05)  # first and last step size of an ascent, as a share of the size of an error
RANDOM_ROUNDS = 24  # rounds of random changes
CHANGES_PER_START, ELITE_STARTS = 16, 8  # changes per start and round, and starts kept unchanged
SERIES_PER_BATCH = 64  # contaminated series that are filtered in one batch


Target = tuple[Model, Filter]  # model and attacked method, cast to float64


class Baseline(NamedTuple):
    """Clean run: measurements (T, M), means (T, D), lower roots of posteriors (T, D, D) and of S (T, M, M)."""

    ys: Array
    means: Array
    posterior_roots: Array
    innovation_roots: Array


@jax.jit
def run_clean(model: Model, method: Filter, ys: Array) -> Baseline:
    """Filter the clean series."""
    return Baseline(ys, *run_filter(model, ys, method, save=_save_roots)[1])


def _save_roots(state: PyTree, info: StepInfo) -> tuple[Array, Array, Array]:
    return state.mean, linalg.cholesky(state.cov).matrix(), linalg.cholesky(info.innovation_cov).matrix()


def _save_mean(state: PyTree, info: StepInfo) -> Array:
    return state.mean


def _squared_distances(model: Model, method: Filter, baseline: Baseline, times: Array, points: Array) -> Array:
    """Filter contaminated data; return the squared distances of the means from the clean means, (T,)."""
    errors = jax.vmap(linalg.matvec)(baseline.innovation_roots[times], points)
    dirty = baseline.ys.at[times].add(errors)
    _, means = run_filter(model, dirty, method, save=_save_mean)

    def squared(shift: Array, root: Array) -> Array:
        return linalg.sum_leading(linalg.from_lower(root).half(shift) ** 2)

    return jax.vmap(squared)(means - baseline.means, baseline.posterior_roots)


_squared_distances_each = jax.jit(jax.vmap(_squared_distances, in_axes=(None, None, None, 0, 0)))


def squared_distances(target: Target, baseline: Baseline, times: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Filter many contaminations with the attacked method, in batches of one size, so that it is compiled once.

    Args:
        target: model and attacked method.
        baseline: the clean run.
        times: contaminated steps, (C, k).
        points: errors at these steps, (C, k, M).

    Returns:
        Squared distances from the clean means, (C, T).
    """
    rows = np.resize(np.arange(len(times)), -(-len(times) // SERIES_PER_BATCH) * SERIES_PER_BATCH)
    batches = np.split(rows, len(rows) // SERIES_PER_BATCH)
    results = [
        np.asarray(_squared_distances_each(*target, baseline, times[subset], points[subset])) for subset in batches
    ]
    return np.concatenate(results)[: len(times)]


@partial(jax.jit, static_argnames=("iterations",))
def _climb(
    model: Model, method: Filter, baseline: Baseline, times: Array, points: Array, limit: Array, *, iterations: int
) -> Array:
    """Run gradient ascent from every start; the step of each error is proportional to its size."""

    def log_damage(points: Array, times: Array) -> Array:
        return jnp.log(jnp.mean(_squared_distances(model, method, baseline, times, points)) + 1e-30)

    def body(points: Array, step_size: Array) -> tuple[Array, None]:
        gradients = jnp.nan_to_num(jax.vmap(jax.grad(log_damage))(points, times))
        lengths = jnp.linalg.norm(gradients, axis=-1, keepdims=True)
        directions = gradients / jnp.where(lengths > 0, lengths, 1.0)
        sizes = jnp.linalg.norm(points, axis=-1, keepdims=True)
        return _clip_norms(points + step_size * (sizes + 0.1) * directions, limit), None

    return jax.lax.scan(body, points, jnp.geomspace(*STEP_SIZES, iterations))[0]


def _clip_norms(points: Array, limit: Number) -> Array:
    """Shorten errors that exceed the limit."""
    sizes = jnp.linalg.norm(points, axis=-1, keepdims=True)
    return points * jnp.minimum(1.0, limit / jnp.maximum(sizes, 1e-300))


def _scores(target: Target, baseline: Baseline, times: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Score contaminations by the attacked filter; a non-finite result scores zero."""
    values = squared_distances(target, baseline, times, points).mean(axis=1)
    return np.where(np.isfinite(values), values, 0.0)


def initial_contaminations(
    target: Target,
    baseline: Baseline,
    usable_steps: np.ndarray,
    count: int,
    limit: float,
    restarts: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Choose times and first errors: greedily, as coherent bursts, and at random; (R, k) and (R, k, M)."""
    size = baseline.ys.shape[1]
    num_greedy = max(1, restarts // STARTS_PER_GREEDY_START)
    chosen = [_greedy_contamination(target, baseline, usable_steps, count, limit, rng) for _ in range(num_greedy)]
    while len(chosen) < restarts:
        direction = _random_directions(rng, 1, size)[0] * _random_sizes(rng, 1, limit)[0]
        if len(chosen) % 2:
            start = int(rng.integers(0, len(usable_steps) - count + 1))
            chosen.append((usable_steps[start : start + count], np.tile(direction, (count, 1))))
        else:
            subset = np.sort(rng.choice(usable_steps, count, replace=False))
            chosen.append((subset, _random_directions(rng, count, size) * _random_sizes(rng, count, limit)[:, None]))
    return np.stack([times for times, _ in chosen]), np.stack([points for _, points in chosen])


def _greedy_contamination(
    target: Target, baseline: Baseline, usable_steps: np.ndarray, count: int, limit: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Build one contamination greedily: repeatedly add the error that increases the damage most.

    The arrays always have `count` rows, with zero errors for those not chosen yet, so that one compiled program serves
    all rounds.
    """
    size = baseline.ys.shape[1]
    times, points = rng.choice(usable_steps, count, replace=False), np.zeros((count, size))
    for j in range(count):
        used = set(times[:j].tolist())
        neighbours = {t + step for t in used for step in NEIGHBOUR_OFFSETS} & set(usable_steps.tolist())
        spread = usable_steps[np.unique(np.linspace(0, len(usable_steps) - 1, TIMES_PER_ROUND).round().astype(int))]
        free = sorted(
            ({*spread.tolist(), *neighbours} | set(rng.choice(usable_steps, TIMES_PER_ROUND).tolist())) - used
        )
        free = free or sorted(set(usable_steps.tolist()) - used)
        padded_length = 2 * TIMES_PER_ROUND + len(NEIGHBOUR_OFFSETS) * count
        candidates = np.resize(free, padded_length)  # repeated entries keep the shape fixed
        trial_times = np.tile(times, (len(candidates) * ERRORS_PER_TIME, 1))
        trial_points = np.tile(points, (len(candidates) * ERRORS_PER_TIME, 1, 1))
        trial_times[:, j] = np.repeat(candidates, ERRORS_PER_TIME)
        directions = (
            _random_directions(rng, len(trial_times), size) * _random_sizes(rng, len(trial_times), limit)[:, None]
        )
        if j:
            coherent = rng.random(len(trial_times)) < 0.25
            directions = np.where(coherent[:, None], points[j - 1], directions)
        trial_points[:, j] = directions
        best = int(_scores(target, baseline, trial_times, trial_points).argmax())
        times, points = trial_times[best], trial_points[best]
        rest = np.setdiff1d(usable_steps, times[: j + 1])
        times[j + 1 :] = rng.choice(rest, count - j - 1, replace=False)
    return times, points


def gradient_ascent(
    target: Target, baseline: Baseline, times: np.ndarray, points: np.ndarray, limit: float
) -> tuple[np.ndarray, np.ndarray]:
    """Ascend through successively harder gates; keep for every start the worst result for the attacked filter."""
    model, method = target
    best, values = points, _scores(target, baseline, times, points)
    for softness in GATE_SOFTNESSES:
        soft = cast(soften(method, softness), np.float64)
        results = _climb(model, soft, baseline, times, points, limit, iterations=ASCENT_ITERATIONS)
        points = np.asarray(results)
        values_now = _scores(target, baseline, times, points)
        best = np.where((values_now > values)[:, None, None], points, best)
        values = np.maximum(values_now, values)
    order = np.argsort(-values)
    return times[order], best[order]


def random_search(
    target: Target,
    baseline: Baseline,
    usable_steps: np.ndarray,
    times: np.ndarray,
    points: np.ndarray,
    limit: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Change sizes, directions and sometimes times of the best starts at random; keep what increases the damage."""
    number, count = len(times) * CHANGES_PER_START, times.shape[1]
    width = 0.3
    for _ in range(RANDOM_ROUNDS):
        kept = min(ELITE_STARTS, len(times))
        rows = np.resize(np.arange(kept), number)
        new_times, new_points = times[rows].copy(), points[rows]
        scale = np.linalg.norm(new_points, axis=-1, keepdims=True) * np.exp(-3 * rng.random((number, 1, 1)))
        new_points = new_points * np.exp(width * rng.normal(size=(number, 1, 1)))
        new_points = np.array(_clip_norms(new_points + width * scale * rng.normal(size=new_points.shape), limit))
        for i in np.flatnonzero(rng.random(number) < 0.3):
            free = np.setdiff1d(usable_steps, new_times[i])
            if len(free):
                j = int(rng.integers(count))
                neighbours = free[np.argsort(np.abs(free - new_times[i, j]))[:4]]
                new_times[i, j] = rng.choice(neighbours if rng.random() < 0.7 else free)
        new_times[:kept], new_points[:kept] = times[:kept], points[:kept]
        order = np.argsort(-_scores(target, baseline, new_times, new_points))[: len(times)]
        times, points = new_times[order], new_points[order]
        width *= 0.87
    return times[0], points[0]


def _random_directions(rng: np.random.Generator, count: int, size: int) -> np.ndarray:
    directions = rng.normal(size=(count, size))
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


def _random_sizes(rng: np.random.Generator, count: int, limit: float) -> np.ndarray:
    """Draw sizes log-uniformly over the range, with some probability of the limit itself."""
    low = np.log(min(1.0, limit))
    drawn = np.exp(rng.uniform(low, np.log(limit), count))
    moderate = np.exp(rng.uniform(low, np.log(min(limit, 20.0)), count))
    kinds = rng.random(count)
    return np.where(kinds < 0.1, limit, np.where(kinds < 0.8, moderate, drawn))
