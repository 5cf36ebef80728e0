"""Speed of online learning: a full-covariance robust filter of a network beside Adam and the Joseph form, in float32.

    python benchmarks/learning.py                    # the figures of docs/online-learning.md, some minutes
    python benchmarks/learning.py --steps 200 --rounds 2

Everything that is compared runs in turn in one process, after a warm-up, waiting for results; the smallest of several
times counts. Read the ratios: seconds depend on the machine, and on what else it does. Needs `wolf-filter[learn]`.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

import wolf
from wolf.numerics.pytree import cast

JOSEPH_STEPS = 200  # of the cubic form; it takes as long as thousands of the others
TRIALS = 8
LARGE = (90_000, 1_000_000)


def best_times(runs: dict[str, Callable], rounds: int) -> dict[str, float]:
    """Time every run once in each round, so that a slow moment of the machine hits all alike."""
    for run in runs.values():
        jax.block_until_ready(run())
    best = dict.fromkeys(runs, np.inf)
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            jax.block_until_ready(run())
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def residuals(state, info):
    return info.residual


def data(features: int, steps: int, trials: int = 1):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(trials, steps, features)).astype("float32")
    y = np.sin(x[..., :1]) + 0.3 * rng.normal(size=(trials, steps, 1)).astype("float32")
    y[rng.random(y.shape) < 0.1] = 50.0
    return x, y


def adam(model, inner: int):
    """Write Adam with some steps on every example, as the paper's OGD."""
    optimiser = optax.adam(1e-2)
    start = jnp.asarray(model.mean)

    def body(carry, example):
        x, y = example

        def loss(theta):
            return ((y - model.observe(theta, x)) ** 2).sum()

        def one(carry, _):
            theta, state = carry
            steps, state = optimiser.update(jax.grad(loss)(theta), state)
            return (optax.apply_updates(theta, steps), state), None

        error = y - model.observe(carry[0], x)
        carry, _ = jax.lax.scan(one, carry, None, length=inner)
        return carry, error

    return jax.jit(lambda x, y: jax.lax.scan(body, (start, optimiser.init(start)), (x, y)))


def joseph(model):
    """Write the Joseph form plainly in JAX, with the products by F = I that a general filter makes."""
    size = model.state_dim
    eye, noise = jnp.eye(size, dtype=jnp.float32), jnp.asarray(model.obs_cov)

    def body(carry, example):
        mean, cov = carry
        x, y = example
        cov = eye @ cov @ eye.T
        jac = jax.jacrev(model.observe)(mean, x)
        error = y - model.observe(mean, x)
        gain = jnp.linalg.solve(jac @ cov @ jac.T + noise, jac @ cov).T
        left = eye - gain @ jac
        return (mean + gain @ error, left @ cov @ left.T + gain @ noise @ gain.T), error

    start = (jnp.asarray(model.mean), eye)
    return jax.jit(lambda x, y: jax.lax.scan(body, start, (x, y)))


def read_half(size: int):
    """Multiply half a covariance by a vector, over and over: to read it once is what a step cannot do without."""

    def run(half):
        def body(vector, _):
            return vector + (half @ vector).sum() * 1e-30, None

        return jax.lax.scan(body, jnp.ones(size, jnp.float32), None, length=1000)

    return partial(jax.jit(run), jnp.ones((size // 2, size), jnp.float32))


def one_network(features: int, inner: int, steps: int, rounds: int) -> None:
    model = cast(wolf.models.mlp(features, hidden=(20,), obs_var=0.1), "float32")
    drifting = cast(wolf.models.mlp(features, hidden=(20,), obs_var=0.1, drift_var=1e-5), "float32")
    (x,), (y,) = data(features, steps)
    run = partial(wolf.run_filter, ys=y, inputs=x, save=residuals)
    methods = {
        "EKF": wolf.EKF(),
        "WoLF-IMQ": wolf.WoLF(wolf.IMQ(c=4.0)),
        "WoLF (default)": wolf.WoLF(),
        "WoLF, symmetric form": wolf.WoLF(wolf.IMQ(c=4.0), form="symmetric"),
        "WoLF, square root": wolf.WoLF(wolf.IMQ(c=4.0), form="sqrt"),
    }
    runs = {name: partial(run, model, method=cast(method, "float32")) for name, method in methods.items()}
    runs["WoLF, drifting"] = partial(run, drifting, method=cast(methods["WoLF-IMQ"], "float32"))
    rival = adam(model, inner)
    runs[f"Adam, I = {inner}"] = lambda: rival(x, y)
    cubic = joseph(model)
    few = min(steps, JOSEPH_STEPS)
    runs["Joseph in JAX"] = lambda: cubic(x[:few], y[:few])
    limit = read_half(model.state_dim)
    runs["limit: read half of P"] = limit
    times = best_times(runs, rounds)
    counts = {"Joseph in JAX": few, "limit: read half of P": 1000}
    each = {name: seconds / counts.get(name, steps) * 1e6 for name, seconds in times.items()}
    ours = each["WoLF-IMQ"]
    print(f"\n{model.state_dim} parameters, {steps} steps, float32\n{'':24}{'us/step':>9}  WoLF-IMQ is")
    for name, value in each.items():
        print(
            f"{name:24}{value:9.2f}  {ours / value:5.2f}x"
            + (f" ({value / ours:.0f}x faster)" if value > 5 * ours else "")
        )


def many_trials(steps: int, rounds: int) -> None:
    model = wolf.models.mlp(9, hidden=(20,), obs_var=0.1)
    x, y = data(9, steps, TRIALS)
    method = wolf.WoLF(wolf.IMQ(c=4.0))
    options = {"method": method, "dtype": "float32", "save": residuals}
    runs = {
        "one trial": lambda: wolf.filter(model, y[0], inputs=x[0], **options).saved,
        f"{TRIALS} trials": lambda: wolf.filter_many(model, y, inputs=x, **options).saved,
        f"{TRIALS} trials, 1 thread": lambda: wolf.filter_many(model, y, inputs=x, **options, threads=1).saved,
    }
    times = best_times(runs, rounds)
    print(f"\n{TRIALS} trials of 221 parameters\n{'':24}{'us/step and trial':>18}")
    for name, seconds in times.items():
        print(f"{name:24}{seconds / steps / (1 if name == 'one trial' else TRIALS) * 1e6:18.2f}")


def large_networks(sizes: tuple[int, ...], rounds: int, steps: int = 20) -> None:
    for size in sizes:
        width = size // 102
        model = cast(wolf.models.mlp(100, hidden=(width,), obs_var=0.1, prior_var=0.01), "float32")
        (x,), (y,) = data(100, steps)
        run = partial(wolf.run_filter, model, y, inputs=x, save=residuals)
        ranks = {f"rank {rank}": wolf.LowRank(wolf.IMQ(c=4.0), rank=rank) for rank in (0, 5, 10)}
        runs = {name: partial(run, method=cast(method, "float32")) for name, method in ranks.items()}
        rival = adam(model, 1)
        runs["Adam, I = 1"] = lambda rival=rival, x=x, y=y: rival(x, y)
        times = best_times(runs, max(1, rounds // 3))
        print(f"\n{model.state_dim} parameters\n{'':24}{'ms/step':>9}")
        for name, seconds in times.items():
            print(f"{name:24}{seconds / steps * 1e3:9.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--skip-large", action="store_true", help="leave out networks of 90,000 and more parameters")
    options = parser.parse_args()
    one_network(features=9, inner=5, steps=options.steps, rounds=options.rounds)
    one_network(features=18, inner=10, steps=options.steps, rounds=options.rounds)
    many_trials(options.steps, options.rounds)
    if not options.skip_large:
        large_networks(LARGE, options.rounds)


if __name__ == "__main__":
    main()
