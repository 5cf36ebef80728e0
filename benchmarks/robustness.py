"""How robust is robust? Noise of several kinds, lock-outs, bursts, lies, a wrong R or Q, faulty sensors, Lorenz96.

    python benchmarks/robustness.py                      # all of it, 300 trials: about fifteen minutes on 2 cores
    python benchmarks/robustness.py tracking lockout --trials 50

Nothing is tuned but what is called tuned; those methods are tuned on trials of their own, several times over, and the
average over these draws is shown, since one draw misleads. J is the square root of the summed squared error of the
first position over a run, as in Duran-Martin et al. (2024); "+x %" is the mean of log(J / J of the reference) over
the same trials. The ceiling is a Rao-Blackwellised particle filter that is told the law of the noise.
"""

import argparse
import functools

import numpy as np

import wolf
from wolf.filters import RaoBlackwellFilter
from wolf.noise import MixtureLaw, StudentLaw

STEPS = 1000
DT, DYNAMICS, NOISE = 0.1, 0.1, 10.0
START = np.array([0.0, 0.0, 1.0, 1.0])
PLANE = wolf.models.constant_velocity(
    dims=2, dt=DT, dynamics_var=DYNAMICS, obs_var=NOISE, prior=wolf.Gaussian(START, np.eye(4))
)
F, H = np.asarray(PLANE.F), np.asarray(PLANE.H)
METHODS = {
    "KF": wolf.methods.make("KF"),
    "WoLF": wolf.methods.make("WoLF"),
    "Welsch": wolf.methods.make("WoLF-Welsch", metric="S"),
    "Learned": wolf.methods.make("Learned"),
    "Learned, factor 10": wolf.methods.make("Learned", r_uncertainty="factor 10"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", help=f"of {', '.join(SUITES)}; all unless told")
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seed", type=int, default=411_000)
    options = parser.parse_args()
    for name in options.suites or SUITES:
        print(f"\n## {name}: {SUITES[name].__doc__}\n", flush=True)
        SUITES[name](options.trials, np.random.default_rng([options.seed, list(SUITES).index(name)]))


def tracking(trials, rng):
    """The paper's 2-D tracking, 1,000 steps."""
    tuned = tune(rng)
    for kind in ("Student", "mixture", "clean"):
        truth, clean = walk(trials, STEPS, rng)
        ys, told, told_ys = dirty(kind, clean, rng)
        found = {name: score(method, ys, truth) for name, method in METHODS.items()}
        for name, draws in tuned.items():
            found[f"{name} tuned"] = pooled([score(method, ys, truth) for method in draws])
        found["oracle"] = score("KF", told_ys, truth, model=told)
        if kind != "clean":
            found["ceiling"] = score(CEILING[kind], ys[:CEILING_TRIALS], truth[:CEILING_TRIALS], key=0)
        else:
            found["ceiling"] = found["KF"]
        show(kind, found)


CEILING = {"Student": RaoBlackwellFilter(StudentLaw(2.01), num_particles=1000)}
CEILING["mixture"] = RaoBlackwellFilter(MixtureLaw(0.05), num_particles=1000)
CEILING_TRIALS = 60


def walk(trials, steps, rng, jumps=None, q=DYNAMICS):
    """Simulate states (B, T, 4) and clean measurements; `jumps` {step: what is added to the state}."""
    state, states = np.tile(START, (trials, 1)), []
    for t in range(steps):
        state = state @ F.T + np.sqrt(q) * rng.normal(size=state.shape)
        state = state + (jumps or {}).get(t, 0.0)
        states.append(state)
    states = np.stack(states, 1)
    return states, states @ H.T


def noise(shape, rng, r=NOISE):
    return np.sqrt(r) * rng.normal(size=shape)


def dirty(kind, clean, rng):
    """Add the noise of the paper: measurements, and for each series a model that knows its noise, with what it sees."""
    trials, steps, _ = clean.shape
    scale = np.ones((trials, steps))
    ys = clean + noise(clean.shape, rng)
    seen = ys
    if kind == "Student":
        scale = 1.0 / rng.gamma(2.01 / 2, 2 / 2.01, (trials, steps))
        seen = ys = clean + np.sqrt(scale)[..., None] * noise(clean.shape, rng)
    if kind == "mixture":
        hit = rng.random((trials, steps)) < 0.05
        ys = clean * np.where(hit, 2.0, 1.0)[..., None] + noise(clean.shape, rng)
        seen = np.where(hit[..., None], np.nan, ys)
    told = [
        wolf.LinearModel(F, H, PLANE.Q, NOISE * s[:, None, None] * np.eye(2), *PLANE.prior) for s in scale
    ]
    return ys, told, seen


def gross(clean, share, rng, size=100.0):
    """Replace a share of the measurements by the truth and something uniform."""
    ys = clean + noise(clean.shape, rng)
    wild = clean + rng.uniform(-size, size, clean.shape)
    return np.where(rng.random(clean.shape[:2])[..., None] < share, wild, ys)


@functools.cache
def _draws():
    return 5


def tune(rng):
    """Tune two of the paper's methods on the truth of one trial, several times, on a mixture of all three kinds."""
    grids = {"WoLF-IMQ": np.geomspace(2.0, 40.0, 20), "WoLF-TMD": np.geomspace(4.0, 400.0, 20)}
    found = {name: [] for name in grids}
    for draw in range(6):
        truth, clean = walk(1, STEPS, rng)
        ys = dirty(("Student", "mixture")[draw % 2], clean, rng)[0]
        for name, grid in grids.items():
            methods = [wolf.methods.make(name, c=c) for c in grid]
            found[name].append(min(methods, key=lambda method: score(method, ys, truth)["J"][0]))
    return found


def score(method, ys, truth, model=PLANE, **options):
    """Run many series: J of the first position, share of it inside the 95 % band, ANEES."""
    out = wolf.filter_many(model, ys, method=method, save=keep, **options)
    error = out.saved["mean"] - truth
    squared = np.einsum("bti,btij,btj->bt", error, np.linalg.inv(out.saved["cov"]), error)
    inside = np.abs(error[..., 0]) < 1.959964 * np.sqrt(out.saved["cov"][..., 0, 0])
    return {"J": np.sqrt((error[..., 0] ** 2).sum(1)), "coverage": inside.mean(1), "anees": squared.mean(1) / 4}


def keep(state, info):
    return {"mean": state.mean, "cov": state.cov}


def pooled(scores):
    return {name: np.concatenate([each[name] for each in scores]) for name in scores[0]}


def excess(found, reference):
    """Mean log-ratio in per cent over the trials that both have."""
    few = len(reference["J"])
    logs = np.log(found["J"]).reshape(-1, len(found["J"]) if len(found["J"]) < few else _length(found, few))
    return 100 * (logs[:, :few] - np.log(reference["J"][: logs.shape[1]])).mean()


def _length(found, few):
    return next(n for n in (300, len(found["J"])) if len(found["J"]) % n == 0 and n >= few)


def show(kind, found):
    print(f"| {kind} | median J | 95 % | over oracle | over ceiling | coverage | ANEES |\n|---|---|---|---|---|---|---|")
    for name, scores in found.items():
        over = [f"{excess(scores, found[other]):+.2f} %" for other in ("oracle", "ceiling")]
        middle, high = np.median(scores["J"]), np.quantile(scores["J"], 0.95)
        rest = f"{np.mean(scores['coverage']):.3f} | {np.mean(scores['anees']):.2f}"
        print(f"| {name} | {middle:.2f} | {high:.1f} | {' | '.join(over)} | {rest} |")
    print(flush=True)


SUITES = {"tracking": tracking}

if __name__ == "__main__":
    main()
