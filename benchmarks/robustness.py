"""Robustness: kinds of noise, divergence, consistent outliers, a wrong R or Q, faulty sensors, Lorenz96.

    python benchmarks/robustness.py                      # all of it, 300 trials: about fifteen minutes on 2 cores
    python benchmarks/robustness.py tracking lockout --trials 50
    python benchmarks/robustness.py --trials 200 --write benchmarks/results/robustness.md

`--write` puts what each suite prints between its marks in a page, `<!-- bench: NAME -->` and `<!-- end of bench: NAME
-->`; suites that have no marks there are left out, unless they are named.

Nothing is tuned but what is called tuned; those methods are tuned on trials of their own, several times over, and the
average over these draws is shown, since one draw misleads. J is the square root of the summed squared error of the
first position over a run, as in Duran-Martin et al. (2024); "+x %" is the mean of log(J / J of the reference) over
the same trials. The ceiling is a Rao-Blackwellised particle filter with the true noise distribution.
"""

import argparse
import io
import sys
import time
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import forecast_intervals
import jax.numpy as jnp
import noise_scales
import numpy as np
import smoothed_bursts
import unknown_noise
from timing import write_page

import wolf
from wolf.inference.filters import IMM, Mode, RaoBlackwellFilter
from wolf.inference.noise import MixtureLikelihood, StudentLikelihood

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
    "Adaptive": wolf.methods.make("Adaptive"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", help=f"of {', '.join(SUITES)}; all by default")
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seed", type=int, default=411_000)
    parser.add_argument("--write", type=Path, help="page to write the tables into")
    options = parser.parse_args()
    page = options.write.read_text(encoding="utf-8") if options.write else ""
    marked = [name for name in SUITES if f"<!-- bench: {name} -->" in page]
    for name in options.suites or marked or SUITES:
        print(f"\n## {name}: {SUITES[name].__doc__}\n", flush=True)
        rng = np.random.default_rng([options.seed, list(SUITES).index(name)])
        began = time.process_time()
        with recorded() as lines:
            SUITES[name](options.trials, rng)
        print(f"({time.process_time() - began:.0f} s of processor time)", flush=True)
        if name in marked:
            note = f"`python benchmarks/robustness.py {name} --trials {options.trials} --seed {options.seed}`"
            write_page(name, [*lines.getvalue().strip().splitlines(), "", f"({note})"], options.write)


@contextmanager
def recorded():
    """Print as usual, and keep what was printed."""
    kept, shown = io.StringIO(), sys.stdout

    class Both(io.TextIOBase):
        def write(self, text):
            shown.write(text)
            return kept.write(text)

        def flush(self):
            shown.flush()

    with redirect_stdout(Both()):
        yield kept


def tracking(trials, rng):
    """The paper's 2-D tracking, 1,000 steps."""
    tuned = tune(rng)
    for kind in ("Student", "mixture", "clean"):
        truth, clean = walk(trials, STEPS, rng)
        ys, known, known_ys = dirty(kind, clean, rng)
        found = {name: score(method, ys, truth) for name, method in METHODS.items()}
        for name, draws in tuned.items():
            found[f"{name} tuned"] = pooled([score(method, ys, truth) for method in draws])
        found["oracle"] = score("KF", known_ys, truth, model=known)
        if kind != "clean":
            found["ceiling"] = score(CEILING[kind], ys[:CEILING_TRIALS], truth[:CEILING_TRIALS], key=0)
        else:
            found["ceiling"] = found["KF"]
        show(kind, found)


CEILING = {"Student": RaoBlackwellFilter(StudentLikelihood(2.01), num_particles=1000)}
CEILING["mixture"] = RaoBlackwellFilter(MixtureLikelihood(0.05), num_particles=1000)
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
    models = [wolf.LinearModel(F, H, PLANE.Q, NOISE * s[:, None, None] * np.eye(2), *PLANE.prior) for s in scale]
    return ys, models, seen


def gross(clean, share, rng, size=100.0):
    """Replace a share of the measurements by the truth and something uniform."""
    ys = clean + noise(clean.shape, rng)
    wild = clean + rng.uniform(-size, size, clean.shape)
    return np.where(rng.random(clean.shape[:2])[..., None] < share, wild, ys)


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
    return {name: np.stack([each[name] for each in scores]) for name in scores[0]}


def excess(found, reference):
    """Mean log-ratio in per cent over the trials that both have; a tuned method has them once for each draw."""
    logs, others = np.log(found["J"]), np.log(reference["J"])
    if logs.shape[-1] < len(others):
        others = others[: logs.shape[-1]]
    return 100 * (logs[..., : len(others)] - others).mean()


def show(kind, found):
    print(
        f"| {kind} | median J | 95 % | over oracle | over ceiling | coverage | ANEES |\n|---|---|---|---|---|---|---|"
    )
    for name, scores in found.items():
        over = [f"{excess(scores, found[other]):+.2f} %" for other in ("oracle", "ceiling")]
        middle, high = np.median(scores["J"]), np.quantile(scores["J"], 0.95)
        rest = f"{np.mean(scores['coverage']):.3f} | {np.mean(scores['anees']):.2f}"
        print(f"| {name} | {middle:.2f} | {high:.1f} | {' | '.join(over)} | {rest} |")
    print(flush=True)


def lockout(trials, rng):
    """Something really happens at step 300 of 600; 5 % gross outliers. Steps to ten errors in a row below 6."""
    scenarios = {"start off by 50": {}, "gap of 200": {}}
    scenarios |= {f"position jumps by {size}": {300: np.array([size, 0, 0, 0])} for size in (20, 200)}
    scenarios |= {f"velocity jumps by {size}": {300: np.array([0, 0, size, 0])} for size in (30, 100, 1000)}
    methods = METHODS | {"patience 8": wolf.methods.make("Learned", patience=8)}
    print("| recovery, median / 95 % (locked out) | " + " | ".join(methods) + " |\n|" + "---|" * (len(methods) + 1))
    for name, jumps in scenarios.items():
        truth, clean = walk(trials, 600, rng, jumps)
        ys, model, event = gross(clean, 0.05, rng), PLANE, 300
        if name == "start off by 50":
            model, event = moved(50.0), 0
        if name == "gap of 200":
            ys[:, 100:300] = np.nan
        cells = [recovery(method, ys, truth, model, event) for method in methods.values()]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def moved(size):
    return wolf.LinearModel(F, H, PLANE.Q, PLANE.R, START + np.array([size, 0, 0, 0]), PLANE.cov)


def recovery(method, ys, truth, model, event):
    means = wolf.filter_many(model, ys, method=method, save="means").means
    error = np.linalg.norm((means - truth)[..., :2], axis=-1)
    good = np.lib.stride_tricks.sliding_window_view(error[:, event:] < 6.0, 10, axis=1).all(-1)
    steps = np.where(good.any(1), good.argmax(1), good.shape[1])
    locked = np.median(error[:, -50:], axis=1) > 15.0
    return f"{np.median(steps):.0f} / {np.quantile(steps, 0.95):.0f} ({locked.mean():.0%})"


def bursts(trials, rng):
    """A burst of measurements that are all off by (60, 60), at step 300 of 600; RMSE of the first position."""
    methods = METHODS | {f"patience {k}": wolf.methods.make("Learned", patience=k) for k in (8, 12)}
    print("| length | " + " | ".join(methods) + " |\n|" + "---|" * (len(methods) + 1))
    for length in (0, 3, 4, 5, 7, 8, 11, 12):
        truth, clean = walk(trials, 600, rng)
        ys = clean + noise(clean.shape, rng)
        ys[:, 300 : 300 + length] += 60.0
        print(f"| {length} | " + " | ".join(f"{rms(m, ys, truth):.2f}" for m in methods.values()) + " |", flush=True)


def coherent(trials, rng):
    """Outliers that agree with each other: y = 2 H x, or off by (50, 50), a share of the time. Median J, runs lost."""
    methods = METHODS | {f"patience {k}": wolf.methods.make("Learned", patience=k) for k in (8, 12)}
    print("| outliers | " + " | ".join(methods) + " |\n|" + "---|" * (len(methods) + 1))
    for kind in ("double", "off by 50"):
        for share in (0.1, 0.2, 0.3):
            truth, clean = walk(trials, STEPS, rng)
            false = 2 * clean if kind == "double" else clean + 50.0
            hit = rng.random((trials, STEPS, 1)) < share
            ys = np.where(hit, false, clean) + noise(clean.shape, rng)
            cells = []
            for method in methods.values():
                j = score(method, ys, truth)["J"]
                cells.append(f"{np.median(j):.1f} ({(j > 100).mean():.1%})")
            print(f"| {kind}, {share:.0%} | " + " | ".join(cells) + " |", flush=True)


def rms(method, ys, truth, model=PLANE):
    means = wolf.filter_many(model, ys, method=method, save="means").means
    return np.median(np.sqrt(((means - truth)[..., 0] ** 2).mean(1)))


def wrong(trials, rng):
    """The model's R or Q is wrong by a factor (off the grid of sizes), 5 % gross outliers. J over oracle, coverage."""
    print("| model | " + " | ".join(METHODS) + " |\n|" + "---|" * (len(METHODS) + 1))
    truth, clean = walk(trials, STEPS, rng)
    hit = rng.random((trials, STEPS, 1)) < 0.05
    sound = clean + noise(clean.shape, rng)
    ys = np.where(hit, clean + rng.uniform(-100, 100, clean.shape), sound)
    oracle = score("KF", np.where(hit, np.nan, sound), truth)
    for name, q, r in (
        [("right", 1, 1)]
        + [(f"R x {f:g}", 1, f) for f in (0.1, 0.2, 0.5, 2, 5, 10)]
        + [(f"Q x {f:g}", f, 1) for f in (0.1, 10)]
    ):
        model = wolf.LinearModel(F, H, q * np.asarray(PLANE.Q), r * np.asarray(PLANE.R), *PLANE.prior)
        found = [score(method, ys, truth, model=model) for method in METHODS.values()]
        cells = [f"{excess(one, oracle):+.1f} %, {one['coverage'].mean():.2f}" for one in found]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def sensors(trials, rng):
    """Six sensors, three for each axis, with R = 10: one faulty at each step, or one stuck for 300 steps."""
    rows = np.repeat(H, 3, axis=0)
    model = wolf.LinearModel(F, rows, PLANE.Q, NOISE * np.eye(6), *PLANE.prior)
    each = {"sensors": "each"}
    methods = {
        "KF": wolf.methods.make("KF"),
        "WoLF": wolf.methods.make("WoLF"),
        "WoLF-PerCoordinate": wolf.methods.make("WoLF-PerCoordinate"),
        "Learned": wolf.methods.make("Learned"),
        "Learned, each": wolf.methods.make("Learned", **each),
    }
    print("| six sensors | " + " | ".join(methods) + " | oracle |\n|" + "---|" * (len(methods) + 2))
    for kind in ("clean", "one faulty at each step", "one stuck for 300 steps", "jump of 50, one faulty"):
        truth, _ = walk(trials, STEPS, rng, {500: np.array([50.0, 50, 0, 0])} if "jump" in kind else None)
        ys = truth @ rows.T
        ys = ys + noise(ys.shape, rng)
        bad = np.zeros(ys.shape, bool)
        if "faulty" in kind:
            bad = np.arange(6) == rng.integers(0, 6, (trials, STEPS))[..., None]
            ys = np.where(bad, ys + rng.uniform(-100, 100, ys.shape), ys)
        if "stuck" in kind:
            bad[:, 300:600, 0] = True
            ys[:, 300:600, 0] = ys[:, 300, 0][:, None] + 30.0
        cells = [f"{rms(method, ys, truth, model):.3f}" for method in methods.values()]
        best = rms("KF", np.where(bad, np.nan, ys), truth, model)
        print(f"| {kind} | " + " | ".join(cells) + f" | {best:.3f} |", flush=True)


def jumps(trials, rng):
    """State outliers, N(0, sd²) on all states with probability 0.01, and 5 % gross outliers. Median J, coverage."""
    modes = (Mode(), Mode(obs_scale=100.0), Mode(dynamics_scale=400.0))
    methods = METHODS | {"IMM over R and Q": wolf.methods.make("IMM", modes=modes)}
    leaves = np.array([[0.99, 0.01], [0.99, 0.01]])
    methods["IMM of two Adaptive"] = IMM((Mode(), Mode(dynamics_scale=1000.0)), leaves, wolf.Adaptive())
    print("| jumps | " + " | ".join(methods) + " |\n|" + "---|" * (len(methods) + 1))
    cases = (("sd 10", 10.0, 0.0, 1.0, 1.0), ("sd 10, outliers", 10.0, 0.05, 1.0, 1.0))
    cases += (("sd 50, outliers", 50.0, 0.05, 1.0, 1.0), ("none, Q / 10", 0.0, 0.05, 0.1, 1.0))
    cases += (("sd 10, outliers, R / 10", 10.0, 0.05, 1.0, 0.1), ("none", 0.0, 0.05, 1.0, 1.0))
    for name, size, share, q, r in cases:
        events = np.where(rng.random((STEPS, trials, 1)) < 0.01, size * rng.normal(size=(STEPS, trials, 4)), 0.0)
        truth, clean = walk(trials, STEPS, rng, dict(enumerate(events)))
        ys = gross(clean, share, rng)
        model = wolf.LinearModel(F, H, q * np.asarray(PLANE.Q), r * np.asarray(PLANE.R), *PLANE.prior)
        found = [score(method, ys, truth, model=model) for method in methods.values()]
        cells = [f"{np.median(one['J']):.1f}, {one['coverage'].mean():.2f}" for one in found]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def radar(trials, rng):
    """Range and bearing of a moving target (EKF), gross outliers. Median RMSE of the position in metres, 95 %."""
    model = wolf.StateSpaceModel(
        lambda x: jnp.stack([x[0] + x[2], x[1] + x[3], x[2], x[3]]),
        lambda x: jnp.stack([jnp.hypot(x[0], x[1]), jnp.arctan2(x[1], x[0])]),
        np.diag([1.0, 1.0, 1.0, 1.0]),
        np.diag([100.0, 1e-4]),
        wolf.Gaussian(np.array([3000.0, 2000.0, -10.0, 5.0]), np.diag([1e4, 1e4, 25.0, 25.0])),
        residual=angle,
    )
    methods = {name: "EKF" if name == "KF" else method for name, method in METHODS.items()}
    print("| outliers | " + " | ".join(methods) + " | oracle |\n|" + "---|" * (len(methods) + 2))
    for share in (0.0, 0.05, 0.2, 0.4):
        runs = [wolf.simulate.trajectory(model, 200, int(rng.integers(1 << 30))) for _ in range(min(trials, 100))]
        truth, sound = (np.stack([getattr(run, name) for run in runs]) for name in ("states", "measurements"))
        hit = rng.random(sound.shape[:2])[..., None] < share
        ys = np.where(hit, sound + rng.uniform(-1, 1, sound.shape) * [2000.0, 1.0], sound)
        cells = []
        for method, data in [*((method, ys) for method in methods.values()), ("EKF", np.where(hit, np.nan, ys))]:
            means = wolf.filter_many(model, data, method=method, save="means").means
            error = np.sqrt(((means - truth)[..., :2] ** 2).sum(-1).mean(1))
            cells.append(f"{np.median(error):.2f} ({np.quantile(error, 0.95):.1f})")
        print(f"| {share:.0%} | " + " | ".join(cells) + " |", flush=True)


def angle(y, prediction):
    e = y - prediction
    return jnp.stack([e[0], jnp.arctan2(jnp.sin(e[1]), jnp.cos(e[1]))])


def lorenz96(trials, rng):
    """Lorenz96 with 40 states, all measured, 20 members; ensembles have no learned noise yet. Mean RMSE of 4 runs."""
    model = wolf.models.lorenz96(40)
    kinds = {
        "clean": None,
        "replaced by 100, p 0.01": wolf.simulate.EachSensor(wolf.simulate.ReplacedMeasurements(0.01, 100.0)),
        "Student-t 2.01": wolf.simulate.EachSensor(wolf.simulate.StudentT(2.01)),
    }
    names = ["LETKF", "WoLF-LETKF"]
    print("| noise | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1))
    for kind, process in kinds.items():
        cells = []
        for name in names:
            method = wolf.methods.make(name, num_members=20, inflation=1.06)
            runs = [wolf.twin.run(model, method, 500, key=seed, outliers=process, progress=False) for seed in range(4)]
            cells.append(f"{np.mean([run.scores['rmse'] for run in runs]):.3f}")
        print(f"| {kind} | " + " | ".join(cells) + " |", flush=True)


SUITES = (
    {
        "tracking": tracking,
        "lockout": lockout,
        "bursts": bursts,
        "coherent": coherent,
        "wrong": wrong,
        "sensors": sensors,
        "jumps": jumps,
        "radar": radar,
        "lorenz96": lorenz96,
    }
    | noise_scales.SUITES
    | smoothed_bursts.SUITES
    | forecast_intervals.SUITES
    | unknown_noise.SUITES
)

if __name__ == "__main__":
    main()
