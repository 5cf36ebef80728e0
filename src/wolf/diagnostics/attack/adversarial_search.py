"""The search for the worst errors: greedy times, ascent along gradients, random changes.

Errors are points in units of the innovation covariance of the clean run: `ε = S½ point`.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.diagnostics.attack.relaxed_gates import soften
from wolf.engine.scan import run_filter
from wolf.interfaces import StepInfo
from wolf.numerics import linalg
from wolf.numerics.pytree import cast
from wolf.statespace import Model

PLACES, WAYS = 40, 8  # times and errors that a greedy round tries at each
GREEDY = 4  # one start of so many is found greedily
NEIGHBOURS = (-3, -2, -1, 1, 2, 3)  # steps around a chosen time that are tried as well
ITERATIONS = 20  # of ascent, at each softness of the gates
SOFTNESS = (0.5, 0.2, 0.05)  # of a gate that takes the place of a hard one, as a share of its threshold
STRIDES = (0.5, 0.05)  # first and last step of an ascent, as a share of an error's size
POLISH = 24  # rounds of random changes
CHANGES, KEPT = 16, 8  # changes that a round tries for each start, and starts that go on
BATCH = 64  # contaminated series that run together


class Baseline(NamedTuple):
    """The clean run: measurements (T, M), means (T, D), lower roots of posteriors (T, D, D) and of S (T, M, M)."""

    ys: Array
    means: Array
    posterior_roots: Array
    innovation_roots: Array


@jax.jit
def run_clean(model: Model, method: Any, ys: Array) -> Baseline:
    """Filter the clean series."""
    return Baseline(ys, *run_filter(model, method, ys, save=_save_roots)[1])


def _save_roots(state: Any, info: StepInfo) -> tuple[Array, Array, Array]:
    return state.mean, linalg.cholesky(state.cov).matrix(), linalg.cholesky(info.innovation_cov).matrix()


def _save_mean(state: Any, info: StepInfo) -> Array:
    return state.mean


def _damage(model: Model, method: Any, baseline: Baseline, times: Array, points: Array) -> Array:
    """Run on contaminated data: squared distances of the means from the clean ones, (T,)."""
    errors = jax.vmap(linalg.matvec)(baseline.innovation_roots[times], points)
    dirty = baseline.ys.at[times].add(errors)
    _, means = run_filter(model, method, dirty, save=_save_mean)

    def squared(shift: Array, root: Array) -> Array:
        return linalg.sum_leading(linalg.from_lower(root).half(shift) ** 2)

    return jax.vmap(squared)(means - baseline.means, baseline.posterior_roots)


_damage_each = jax.jit(jax.vmap(_damage, in_axes=(None, None, None, 0, 0)))


def damages(backend: tuple, baseline: Baseline, times: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Run many contaminations by the real filter, in batches of one size, so that it is compiled once.

    Args:
        backend: model and method.
        baseline: the clean run.
        times: (C, k).
        points: (C, k, M).

    Returns:
        Squared distances from the clean means, (C, T).
    """
    rows = np.resize(np.arange(len(times)), -(-len(times) // BATCH) * BATCH)
    batches = np.split(rows, len(rows) // BATCH)
    found = [np.asarray(_damage_each(*backend, baseline, times[some], points[some])) for some in batches]
    return np.concatenate(found)[: len(times)]


@partial(jax.jit, static_argnames=("iterations",))
def _climb(
    model: Model, method: Any, baseline: Baseline, times: Array, points: Array, limit: Array, *, iterations: int
) -> Array:
    """Go uphill from every start; each error takes a step that is a share of its own size."""

    def log_damage(points: Array, times: Array) -> Array:
        return jnp.log(jnp.mean(_damage(model, method, baseline, times, points)) + 1e-30)

    def body(points: Array, stride: Array) -> tuple[Array, None]:
        slopes = jnp.nan_to_num(jax.vmap(jax.grad(log_damage))(points, times))
        lengths = jnp.linalg.norm(slopes, axis=-1, keepdims=True)
        ways = slopes / jnp.where(lengths > 0, lengths, 1.0)
        sizes = jnp.linalg.norm(points, axis=-1, keepdims=True)
        return _inside(points + stride * (sizes + 0.1) * ways, limit), None

    return jax.lax.scan(body, points, jnp.geomspace(*STRIDES, iterations))[0]


def _inside(points: Any, limit: Any) -> Any:
    """Shorten errors that are too large."""
    sizes = jnp.linalg.norm(points, axis=-1, keepdims=True)
    return points * jnp.minimum(1.0, limit / jnp.maximum(sizes, 1e-300))


def _totals(backend: tuple, baseline: Baseline, times: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Score contaminations by the real filter; one that breaks it down counts as nothing."""
    values = damages(backend, baseline, times, points).mean(axis=1)
    return np.where(np.isfinite(values), values, 0.0)


def starts(
    backend: tuple,
    baseline: Baseline,
    places: np.ndarray,
    count: int,
    limit: float,
    restarts: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Choose times and first errors: greedily, as coherent bursts, and at random; (R, k) and (R, k, M)."""
    size = baseline.ys.shape[1]
    chosen = [_greedy(backend, baseline, places, count, limit, rng) for _ in range(max(1, restarts // GREEDY))]
    while len(chosen) < restarts:
        way = _directions(rng, 1, size)[0] * _sizes(rng, 1, limit)[0]
        if len(chosen) % 2:
            start = int(rng.integers(0, len(places) - count + 1))
            chosen.append((places[start : start + count], np.tile(way, (count, 1))))
        else:
            some = np.sort(rng.choice(places, count, replace=False))
            chosen.append((some, _directions(rng, count, size) * _sizes(rng, count, limit)[:, None]))
    return np.stack([times for times, _ in chosen]), np.stack([points for _, points in chosen])


def _greedy(
    backend: tuple, baseline: Baseline, places: np.ndarray, count: int, limit: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Add the error that does most to those already chosen, one after the other.

    The arrays always have `count` rows, those not chosen yet with an error of zero, so that one program serves all.
    """
    size = baseline.ys.shape[1]
    times, points = rng.choice(places, count, replace=False), np.zeros((count, size))
    for j in range(count):
        taken = set(times[:j].tolist())
        near = {t + step for t in taken for step in NEIGHBOURS} & set(places.tolist())
        spread = places[np.unique(np.linspace(0, len(places) - 1, PLACES).round().astype(int))]
        free = sorted(({*spread.tolist(), *near} | set(rng.choice(places, PLACES).tolist())) - taken)
        free = free or sorted(set(places.tolist()) - taken)
        tried = np.resize(free, 2 * PLACES + len(NEIGHBOURS) * count)  # repeats fill up to one shape
        trial_times = np.tile(times, (len(tried) * WAYS, 1))
        trial_points = np.tile(points, (len(tried) * WAYS, 1, 1))
        trial_times[:, j] = np.repeat(tried, WAYS)
        ways = _directions(rng, len(trial_times), size) * _sizes(rng, len(trial_times), limit)[:, None]
        if j:
            coherent = rng.random(len(trial_times)) < 0.25
            ways = np.where(coherent[:, None], points[j - 1], ways)
        trial_points[:, j] = ways
        best = int(_totals(backend, baseline, trial_times, trial_points).argmax())
        times, points = trial_times[best], trial_points[best]
        rest = np.setdiff1d(places, times[: j + 1])
        times[j + 1 :] = rng.choice(rest, count - j - 1, replace=False)
    return times, points


def ascend(
    backend: tuple, baseline: Baseline, times: np.ndarray, points: np.ndarray, limit: float
) -> tuple[np.ndarray, np.ndarray]:
    """Climb through ever harder gates, and keep for every start what was worst for the real filter."""
    model, method = backend
    best, values = points, _totals(backend, baseline, times, points)
    for softness in SOFTNESS:
        soft = cast(soften(method, softness), np.float64)
        found = _climb(model, soft, baseline, times, points, limit, iterations=ITERATIONS)
        points = np.asarray(found)
        now = _totals(backend, baseline, times, points)
        best = np.where((now > values)[:, None, None], points, best)
        values = np.maximum(now, values)
    order = np.argsort(-values)
    return times[order], best[order]


def polish(
    backend: tuple,
    baseline: Baseline,
    places: np.ndarray,
    times: np.ndarray,
    points: np.ndarray,
    limit: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Change the best starts at random, sizes and directions and now and then a time, and keep what hurts more."""
    number, count = len(times) * CHANGES, times.shape[1]
    width = 0.3
    for _ in range(POLISH):
        kept = min(KEPT, len(times))
        rows = np.resize(np.arange(kept), number)
        new_times, new_points = times[rows].copy(), points[rows]
        scale = np.linalg.norm(new_points, axis=-1, keepdims=True) * np.exp(-3 * rng.random((number, 1, 1)))
        new_points = new_points * np.exp(width * rng.normal(size=(number, 1, 1)))
        new_points = np.array(_inside(new_points + width * scale * rng.normal(size=new_points.shape), limit))
        for i in np.flatnonzero(rng.random(number) < 0.3):
            free = np.setdiff1d(places, new_times[i])
            if len(free):
                j = int(rng.integers(count))
                near = free[np.argsort(np.abs(free - new_times[i, j]))[:4]]
                new_times[i, j] = rng.choice(near if rng.random() < 0.7 else free)
        new_times[:kept], new_points[:kept] = times[:kept], points[:kept]
        order = np.argsort(-_totals(backend, baseline, new_times, new_points))[: len(times)]
        times, points = new_times[order], new_points[order]
        width *= 0.87
    return times[0], points[0]


def _directions(rng: np.random.Generator, count: int, size: int) -> np.ndarray:
    ways = rng.normal(size=(count, size))
    return ways / np.linalg.norm(ways, axis=1, keepdims=True)


def _sizes(rng: np.random.Generator, count: int, limit: float) -> np.ndarray:
    """Draw sizes of all orders, and now and then the largest that is allowed."""
    low = np.log(min(1.0, limit))
    drawn = np.exp(rng.uniform(low, np.log(limit), count))
    moderate = np.exp(rng.uniform(low, np.log(min(limit, 20.0)), count))
    kinds = rng.random(count)
    return np.where(kinds < 0.1, limit, np.where(kinds < 0.8, moderate, drawn))
