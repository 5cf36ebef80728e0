"""Speed of wolf beside dynamax and filterpy, on the paper's 2-D tracking problem in float64.

    make bench

Everything that is compared runs in turn in one process, after a warm-up, waiting for results; the smallest of several
times counts. Read the ratios: seconds depend on the machine, and on what else it does.
"""

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import wolf
from wolf.numerics.pytree import cast

warnings.filterwarnings("ignore")
STEPS = 10_000
SERIES = 1_000
SERIES_STEPS = 1_000
FILTERPY_STEPS = 2_000
ROUNDS = 15

MODEL = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)


def best_times(runs: dict[str, Callable], rounds: int = ROUNDS) -> dict[str, float]:
    """Time every run once in each round, so that a slow moment of the machine hits all alike."""
    for run in runs.values():
        run()
    best = dict.fromkeys(runs, np.inf)
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            result = run()
            best[name] = min(best[name], time.perf_counter() - start)
            del result  # after the clock: handing a large result back to the system is not part of making it
    return best


def means_and_covs(state, info):
    return state.mean, state.cov


def dynamax_params():
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM

    ssm = LinearGaussianSSM(4, 2)
    params, _ = ssm.initialize(
        jax.random.PRNGKey(0),
        initial_mean=jnp.asarray(MODEL.mean),
        initial_covariance=jnp.asarray(MODEL.cov),
        dynamics_weights=jnp.asarray(MODEL.F),
        dynamics_covariance=jnp.asarray(MODEL.Q),
        emission_weights=jnp.asarray(MODEL.H),
        emission_covariance=jnp.asarray(MODEL.R),
    )
    return params


def filterpy_filter():
    from filterpy.kalman import KalmanFilter

    kf = KalmanFilter(4, 2)
    kf.x, kf.P = MODEL.mean.copy(), MODEL.cov.copy()
    kf.F, kf.H, kf.Q, kf.R = MODEL.F, MODEL.H, MODEL.Q, MODEL.R
    return kf


def one_series() -> dict[str, float]:
    """Nanoseconds for each step of one series."""
    from dynamax.linear_gaussian_ssm import lgssm_filter

    ys = wolf.simulate.trajectory(MODEL, STEPS, key=0, outliers=wolf.simulate.StudentT(dof=2.01)).measurements
    engine = partial(wolf.run_filter, cast(MODEL, "float64"), fused=True, save=means_and_covs)
    params, compiled = dynamax_params(), jax.jit(lgssm_filter)
    methods = {
        name: cast(wolf.methods.make(name, **o), "float64")
        for name, o in (("KF", {}), ("WoLF-IMQ", {"c": 4.0}), ("Learned", {}))
    }

    def filterpy_run() -> None:
        kf = filterpy_filter()
        for y in ys[:FILTERPY_STEPS]:
            kf.predict()
            kf.update(y)

    times = best_times(
        {
            "KF": lambda: jax.block_until_ready(engine(methods["KF"], ys)),
            "WoLF-IMQ": lambda: jax.block_until_ready(engine(methods["WoLF-IMQ"], ys)),
            "Learned": lambda: jax.block_until_ready(engine(methods["Learned"], ys)),
            "WoLF-IMQ, not fused": lambda: jax.block_until_ready(engine(methods["WoLF-IMQ"], ys, fused=False)),
            "wolf.filter, everything saved": lambda: wolf.filter(MODEL, ys),
            "dynamax KF": lambda: jax.block_until_ready(compiled(params, ys)),
        }
    )
    per_step = {name: seconds / STEPS * 1e9 for name, seconds in times.items()}
    per_step["filterpy KF"] = best_times({"filterpy": filterpy_run}, 3)["filterpy"] / FILTERPY_STEPS * 1e9
    return per_step


def many_series() -> dict[str, float]:
    """Nanoseconds for each step of each of many series."""
    from dynamax.linear_gaussian_ssm import lgssm_filter

    ys = np.random.default_rng(0).normal(size=(SERIES, SERIES_STEPS, 2)) * 3.0
    params = dynamax_params()
    compiled = jax.jit(jax.vmap(lambda params, ys: lgssm_filter(params, ys)[:3], in_axes=(None, 0)))
    method = wolf.methods.make("WoLF-IMQ", c=4.0)
    times = best_times(
        {
            "WoLF-IMQ means + covariances": lambda: wolf.filter_many(MODEL, ys, method=method, save=means_and_covs),
            "KF means + covariances": lambda: wolf.filter_many(MODEL, ys, method="KF", save=means_and_covs),
            "Learned means + covariances": lambda: wolf.filter_many(MODEL, ys, method="Learned", save=means_and_covs),
            "WoLF-IMQ means + covariances, one thread": lambda: wolf.filter_many(
                MODEL, ys, method=method, save=means_and_covs, threads=1
            ),
            'WoLF-IMQ save="means"': lambda: wolf.filter_many(MODEL, ys, method=method, save="means"),
            "dynamax KF under vmap": lambda: jax.block_until_ready(compiled(params, ys)),
        },
        rounds=15,
    )
    return {name: seconds / ys[..., 0].size * 1e9 for name, seconds in times.items()}


def online() -> dict[str, float]:
    """Microseconds for one measurement at a time."""
    ys = np.random.default_rng(0).normal(size=(FILTERPY_STEPS, 2)) * 3.0
    weighted, learned, kf = wolf.Online(MODEL, "WoLF"), wolf.Online(MODEL), filterpy_filter()

    def steps(live: wolf.Online) -> None:
        for y in ys:
            live.step(y)

    def filterpy_run() -> None:
        for y in ys:
            kf.predict()
            kf.update(y)

    times = best_times(
        {
            "wolf.Online.step, WoLF": partial(steps, weighted),
            "wolf.Online.step, default": partial(steps, learned),
            "filterpy predict + update": filterpy_run,
        }
    )
    return {name: seconds / len(ys) * 1e6 for name, seconds in times.items()}


def import_seconds(statement: str) -> float:
    # With bytecode, as an installed package has it, whatever this shell says.
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run() -> None:
        subprocess.run([sys.executable, "-c", statement], check=True, env=variables)

    return best_times({statement: run}, 5)[statement]


def show(title: str, rows: dict[str, float], unit: str) -> None:
    print(f"\n{title}")
    for name, value in rows.items():
        print(f"  {name:<44}{value:>10.1f} {unit}")


def claim(text: str, value: float, bound: float, at_least: bool) -> None:
    holds = value >= bound if at_least else value <= bound
    print(f"  {'yes' if holds else 'NO ':<4}{text}: {value:.2f} ({'at least' if at_least else 'at most'} {bound})")


def main() -> None:
    with jax.enable_x64(True):
        one, many = one_series(), many_series()
    live = online()
    imports = {name: import_seconds(f"import {name}") for name in ("jax", "wolf")}
    show(f"One series, {STEPS} steps", one, "ns/step")
    show(f"{SERIES} series x {SERIES_STEPS} steps", many, "ns/series-step")
    show("One measurement at a time", live, "us")
    show("Import", {name: 1e3 * seconds for name, seconds in imports.items()}, "ms")
    both, means = many["WoLF-IMQ means + covariances"], many['WoLF-IMQ save="means"']
    print("\nClaims")
    claim("WoLF-IMQ over our KF, one series", one["WoLF-IMQ"] / one["KF"], 1.1, at_least=False)
    claim("dynamax over our KF, one series", one["dynamax KF"] / one["KF"], 3.0, at_least=True)
    claim("filterpy over WoLF-IMQ, one series", one["filterpy KF"] / one["WoLF-IMQ"], 25.0, at_least=True)
    claim("ns for a series-step with covariances", both, 150.0, at_least=False)
    claim("WoLF means over dynamax's KF under vmap", means / many["dynamax KF under vmap"], 1.2, at_least=False)
    claim("Learned over our KF, one series", one["Learned"] / one["KF"], 3.0, at_least=False)
    claim(
        "Learned over our KF, many series",
        many["Learned means + covariances"] / many["KF means + covariances"],
        2.0,
        at_least=False,
    )
    claim("us for Online.step of WoLF", live["wolf.Online.step, WoLF"], 25.0, at_least=False)
    claim("import wolf over import jax", imports["wolf"] / imports["jax"], 1.3, at_least=False)


if __name__ == "__main__":
    main()
