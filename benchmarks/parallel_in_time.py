"""Smoothing by an associative scan (Särkkä & García-Fernández 2021) beside the sequential smoother.

python benchmarks/parallel_in_time.py
"""

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import wolf

STEPS, REPEATS = 20_000, 5


@jax.jit
def associative_smoother(F: jax.Array, means: jax.Array, covs: jax.Array, ahead: tuple) -> tuple:
    """Smooth by a scan whose elements (E, g, L) compose: depth log2(T) instead of T, twice the products."""
    ahead_means, ahead_covs = ahead
    moved = F @ covs[:-1]
    gain = jnp.swapaxes(jnp.linalg.solve(ahead_covs[1:], moved), 1, 2)
    g = means[:-1] - jnp.einsum("tij,tj->ti", gain, ahead_means[1:])
    L = covs[:-1] - gain @ ahead_covs[1:] @ jnp.swapaxes(gain, 1, 2)
    elements = (
        jnp.concatenate([gain, jnp.zeros_like(covs[-1:])]),
        jnp.concatenate([g, means[-1:]]),
        jnp.concatenate([L, covs[-1:]]),
    )

    def compose(later: tuple, earlier: tuple) -> tuple:
        (E, g, L), (D, h, M) = earlier, later
        return E @ D, jnp.einsum("tij,tj->ti", E, h) + g, E @ M @ jnp.swapaxes(E, 1, 2) + L

    _, smoothed, smoothed_covs = jax.lax.associative_scan(compose, elements, reverse=True)
    return smoothed, smoothed_covs


def best(run: Callable[[], object]) -> float:
    """Return the best time of some runs, in seconds."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print times of the filter and of both smoothers, and check that they agree."""
    jax.config.update("jax_enable_x64", True)
    model = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=1.0)
    ys = np.random.default_rng(0).normal(size=(STEPS, 2))
    out = wolf.filter(model, ys, method="WoLF")
    smoothed = wolf.smooth(out)
    arguments = jax.tree.map(jnp.asarray, (model.F, out.means, out.covs, (out.predicted_means, out.predicted_covs)))
    found = associative_smoother(*arguments)
    print(f"largest difference {np.abs(np.asarray(found[0]) - smoothed.means).max():.1e}")
    filtering = best(lambda: wolf.filter(model, ys, method="WoLF").means)
    print(f"filter {filtering * 1e3:.1f} ms")
    print(f"sequential smoother {best(lambda: wolf.smooth(out).means) * 1e3:.1f} ms")
    print(f"associative smoother {best(lambda: jax.block_until_ready(associative_smoother(*arguments))) * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
