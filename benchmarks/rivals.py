"""Every rival on the paper's 2-D tracking: error over many trials, and time over that of our own Kalman filter.

    python benchmarks/rivals.py --trials 500          # about twenty minutes; prints the tables of docs/rivals.md
    python benchmarks/rivals.py --trials 20 --quick

J is the square root of the summed squared error of the first position over 1,000 steps, as in Duran-Martin et al.
(2024); the tables give the median over trials. Times are the least of many interleaved runs of one compiled call on
one series, after a warm-up, each divided by that of "KF" in the same round.
"""

import argparse
import time

import jax
import numpy as np

import wolf
from wolf.inference.filters import RaoBlackwellFilter
from wolf.inference.noise import MixtureLikelihood, StudentLikelihood
from wolf.numerics.pytree import cast

STEPS = 1000
START = np.array([0.0, 0.0, 1.0, 1.0])
MODEL = wolf.models.constant_velocity(
    dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0, prior=wolf.Gaussian(START, np.eye(4))
)
PROCESSES = {"clean": None, "Student": wolf.simulate.StudentT(2.01), "mixture": wolf.simulate.Mixture(0.05)}
CEILING = {"Student": StudentLikelihood(2.01), "mixture": MixtureLikelihood(0.05)}
METHODS = ["KF", "WoLF", "WoLF-IMQ", "WoLF-TMD", "KF-B", "KF-IW", "KF-Student", "KF-Huang", "RSTKF", "Huber-KF"]
METHODS += ["MCKF", "ADF", "ADF-Student", "Learned", "IMM", "ST-RCGP", "OIKF", "RoLF", "STKF", "STKF-AR"]
METHODS += ["Beta-PF", "Beta-RBPF"]
TUNED = {"WoLF-IMQ": {"c": 7.0}, "WoLF-TMD": {"c": 31.0}}  # best on both data sets at once
DRAWN = {"Beta-PF", "Beta-RBPF", "ceiling"}
PARTICLE_TRIALS = 50


def simulate(process, trials, seed):
    runs = [wolf.simulate.trajectory(MODEL, STEPS, seed + i, process, initial=START) for i in range(trials)]
    return runs, np.stack([run.measurements for run in runs]), np.stack([run.states for run in runs])


def errors(method, ys, truth):
    means = wolf.filter_many(MODEL, ys, method=method, key=0, save="means").means
    return np.sqrt(((means - truth)[..., 0] ** 2).sum(1))


def oracle(runs):
    found = []
    for run in runs:
        true_model, ys = wolf.simulate.with_true_noise(MODEL, run)
        means = wolf.filter(true_model, ys, method="KF", save="means").means
        found.append(np.sqrt(((means - run.states)[:, 0] ** 2).sum()))
    return np.array(found)


def accuracy(trials, seed):
    table = {}
    for kind, process in PROCESSES.items():
        runs, ys, truth = simulate(process, trials, seed)
        for name in METHODS:
            few = PARTICLE_TRIALS if name in DRAWN else trials
            method = wolf.methods.make(name, **TUNED.get(name, {}))
            table[name, kind] = errors(method, ys[:few], truth[:few])
            print(f"  {kind:8s} {name:12s} {np.median(table[name, kind]):7.1f}", flush=True)
        if kind in CEILING:
            few = slice(PARTICLE_TRIALS)
            table["ceiling", kind] = errors(RaoBlackwellFilter(CEILING[kind], num_particles=2000), ys[few], truth[few])
        table["known noise", kind] = oracle(runs)
    return table


def times(rounds):
    ys = simulate(PROCESSES["Student"], 1, 0)[1][0]
    found = {}
    with jax.enable_x64(True):
        model, key = cast(MODEL, np.float64), jax.random.key(0)
        calls = {}
        for name in METHODS:
            method = cast(wolf.methods.make(name, **TUNED.get(name, {})), np.float64)
            fused = name not in DRAWN
            calls[name] = lambda method=method, fused=fused, name=name: wolf.run_filter(
                model, ys, method, None, key if name in DRAWN else None, save="means", fused=fused
            )
            jax.block_until_ready(calls[name]())
        for _ in range(rounds):
            for name, call in calls.items():
                jax.block_until_ready(call())  # the one before may have been a large one: warm the cache again
                start = time.perf_counter()
                jax.block_until_ready(call())
                found[name] = min(found.get(name, np.inf), time.perf_counter() - start)
    return {name: seconds / found["KF"] for name, seconds in found.items()}, found["KF"] / STEPS


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100, help="0 for times alone")
    parser.add_argument("--seed", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true", help="few rounds of timing")
    options = parser.parse_args()
    slow, step = times(5 if options.quick else 60)
    table = accuracy(options.trials, options.seed) if options.trials else {}
    print(f"\n{options.trials} trials ({PARTICLE_TRIALS} of particles), median J_0; KF: {1e9 * step:.0f} ns a step\n")
    print("| method | clean | Student | mixture | time over KF |\n|---|---|---|---|---|")
    for name in [*METHODS, "ceiling", "known noise"]:
        cells = [f"{np.median(table[name, k]):.1f}" if (name, k) in table else "" for k in PROCESSES]
        print(f"| {name} | {' | '.join(cells)} | {f'{slow[name]:.2f}' if name in slow else ''} |")


if __name__ == "__main__":
    main()
