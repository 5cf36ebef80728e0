"""Ensemble filters: trusted targets, the paper's Lorenz96 test, harder tests, cost, and speed beside DAPPER.

    python benchmarks/ensembles.py targets              # 10^4 cycles on Lorenz96, Lorenz63 and Kuramoto-Sivashinsky
    python benchmarks/ensembles.py paper                # d = 100, N = 1000 and 20, constant outliers
    python benchmarks/ensembles.py harder               # spikes, Student-t noise, stuck sensors, all at N = 20
    python benchmarks/ensembles.py inflation            # the default of methods by name, with and without spikes
    python benchmarks/ensembles.py cost                 # seconds for an update against m, N and d
    python benchmarks/ensembles.py speed                # beside DAPPER; needs `pip install DAPPER==1.7.1`

`--steps`, `--seeds` and `--only` make any of them shorter. Set OPENBLAS_NUM_THREADS=1 on a busy machine: small LAPACK
calls lose more by waiting for other threads than they gain. Speeds are CPU seconds of the process as well as seconds on
the wall.
"""

import argparse
import time
import warnings

import numpy as np

import wolf
from wolf import simulate
from wolf.inference import ensembles
from wolf_paper.as_run import ReferenceGain

MEMBERS = None  # of the paper's test, 1000 or 20; None for both
ONLY = ""  # part of the names of the methods to run
ROBUST = ensembles.ROBUST
CONSTANT = simulate.EachSensor(simulate.ReplacedMeasurements(prob=0.001, value=100.0))
HARDER = {
    "clean": None,
    "constant 100, p 0.001": CONSTANT,
    "+N(0, 10²), p 0.05": simulate.EachSensor(simulate.Spikes(prob=0.05, size=10.0)),
    "Student-t 2.01": simulate.EachSensor(simulate.StudentT(dof=2.01)),
    "10 of 100 stuck at times": simulate.EachSensor(simulate.Stuck(prob=0.01, length=50), tuple(range(0, 100, 10))),
}


def ensemble(members, analysis, inflation=1.0, **options):
    return wolf.EnsembleFilter(members, analysis, ensembles.Multiplicative(inflation), **options)


def paper_model():
    return wolf.models.lorenz96(100, noise_std=1.0, prior=wolf.Gaussian(np.zeros(100), np.ones(100)))


def score(model, methods, outliers, steps, seeds, burn_in):
    """Print the mean RMSE of each method over the seeds, all on the same data."""
    data = [simulate.trajectory(model, steps, key=seed, outliers=outliers) for seed in range(seeds)]
    for name, method in methods.items():
        if ONLY not in name:
            continue
        start = time.perf_counter()
        runs = [wolf.twin.run(model, method, key=100 + i, data=each, burn_in=burn_in) for i, each in enumerate(data)]
        values = np.array([run.scores["rmse"] for run in runs])
        error = values.std(ddof=1) / np.sqrt(seeds) if seeds > 1 else np.nan
        lost = f", {np.isnan(values).sum()} lost" if np.isnan(values).any() else ""
        spent = time.perf_counter() - start
        print(f"  {name:32s} {np.nanmean(values):7.4f}  (se {error:.4f}{lost})  {spent:6.1f} s", flush=True)


def targets(steps, seeds):
    """The figures that DAPPER's settings files quote, and what comes out here, with the robust default too."""
    lorenz96, lorenz63 = wolf.models.lorenz96(40), wolf.models.lorenz63()
    flame = wolf.models.kuramoto_sivashinsky()
    near, wide = ensembles.Ring(4.0), ensembles.Ring(51 / 1.82)
    rows = [
        (lorenz96, "stochastic N=40 infl 1.06", 0.22, (40, ensembles.Stochastic(), 1.06), {}),
        (lorenz96, "DEnKF N=40 infl 1.01", 0.18, (40, ensembles.DEnKF(), 1.01), {}),
        (lorenz96, "ETKF N=20 infl 1.04 rotated", 0.20, (20, ensembles.ETKF(rotate=True), 1.04), {}),
        (lorenz96, "EnSRF N=28 infl 1.02", 0.18, (28, ensembles.EnSRF(), 1.02), {}),
        (
            lorenz96,
            "LETKF N=7 infl 1.04 radius 4",
            0.22,
            (7, ensembles.LETKF(rotate=True), 1.04),
            {"localisation": near},
        ),
        (lorenz63, "Lorenz63 stochastic N=100 1.01", 0.56, (100, ensembles.Stochastic(), 1.01), {}),
        (flame, "KS LETKF N=16 infl 1.02", 0.11, (16, ensembles.LETKF(rotate=True), 1.02), {"localisation": wide}),
    ]
    for model, name, target, parts, options in rows:
        print(f"{name}: target {target}")
        plain, robust = ensemble(*parts, **options), ensemble(*parts, weight=ROBUST, **options)
        score(model, {"as it is": plain, "robust default": robust}, None, steps, seeds, min(1000, steps // 4))


def paper(steps, seeds):
    """The paper's setting; the update of its published code, the printed update, and the exact forms."""
    model = paper_model()
    for members, inflation in ((1000, None), (20, 3.0)):
        if MEMBERS not in (None, members):
            continue
        print(f"Lorenz96 d=100, N={members}, 100 with probability 0.001, {steps} steps, {seeds} seeds")
        base = ReferenceGain(inflation)
        methods = {"published EnKF": ensemble(members, base)}
        for c in (3.0, 4.0, 5.0, 10.0):  # root mean square, as in the published code
            methods[f"published AP c={c:g}²"] = ensemble(members, base, weight=ensembles.AveragedParticle(c**2))
            methods[f"published PP c={c:g}²"] = ensemble(members, base, weight=ensembles.PerParticle(c**2))
        for c in (2.0, 3.0, 4.0, 10.0):
            methods[f"published Hub c={c:g}"] = ensemble(members, base, weight=ensembles.Clipped(c))
        if members == 1000:
            printed = ensembles.SampledGain()
            methods["printed AP c=10²"] = ensemble(members, printed, weight=ensembles.AveragedParticle(100.0))
            methods["exact, unweighted"] = ensemble(members, ensembles.Stochastic())
            methods["exact, robust default"] = ensemble(members, ensembles.Stochastic(), weight=ROBUST)
            methods["ETKF, robust default"] = ensemble(members, ensembles.ETKF(), weight=ROBUST)
        else:
            methods |= local_methods(ROBUST)
        score(model, methods, CONSTANT, steps, seeds, min(100, steps // 4))


def local_methods(weight, word="robust default"):
    near = ensembles.Ring(4.0)
    return {
        f"local stochastic, {word}": ensemble(20, ensembles.Stochastic(), 1.06, localisation=near, weight=weight),
        f"LETKF, {word}": ensemble(20, ensembles.LETKF(rotate=True), 1.04, localisation=near, weight=weight),
    }


def harder(steps, seeds):
    """Where weights matter: N = 20, localised; the paper's own filters with the best thresholds of their table."""
    base = ReferenceGain(3.0)
    methods = local_methods(wolf.Unweighted(), "unweighted") | local_methods(ROBUST)
    methods |= {
        "published AP c=4²": ensemble(20, base, weight=ensembles.AveragedParticle(16.0)),
        "published PP c=3²": ensemble(20, base, weight=ensembles.PerParticle(9.0)),
        "published Hub c=2": ensemble(20, base, weight=ensembles.Clipped(2.0)),
    }
    for name, process in HARDER.items():
        print(f"Lorenz96 d=100, N=20, {name}, {steps} steps, {seeds} seeds")
        score(paper_model(), methods, process, steps, seeds, min(100, steps // 4))


def inflation(steps, seeds):
    """Compare methods by name with and without their default inflation, on seeds that did not choose it."""
    model = wolf.models.lorenz96(100)
    spikes = simulate.EachSensor(simulate.Spikes(prob=0.2, size=30.0))
    for name, outliers in (("clean", None), ("20 % spikes of 30", spikes)):
        for members in (20, 40):
            for title, given in (("none", 1.0), ("default", None)):
                errors = []
                for seed in range(201, 201 + seeds):
                    data = simulate.trajectory(model, steps, key=seed, outliers=outliers)
                    method = wolf.methods.make("WoLF-LETKF", num_members=members, inflation=given)
                    out = wolf.filter(model, data.measurements, method=method, key=seed, save="means")
                    late = (out.means - data.states)[steps // 2 :]
                    errors.append(np.sqrt((late**2).mean(1)).mean())
                print(f"{name:20s} N={members} inflation {title:8s} RMSE {np.mean(errors):.3f}", flush=True)


def cost(steps, seeds):
    """Time one cycle of a random walk that is measured everywhere."""
    print(f"{'method':12s} {'members':>8s} {'states':>8s} {'measured':>9s} {'ms a cycle':>11s}")
    for size, members in ((100, 20), (100, 100), (100, 1000), (1000, 50), (10_000, 50), (100_000, 50)):
        prior = wolf.Gaussian(np.zeros(size), np.ones(size))
        model = wolf.StateSpaceModel(None, wolf.models.chaotic.all_states, np.full(size, 0.1), np.ones(size), prior)
        ys = np.random.default_rng(0).normal(size=(steps, size))
        for name in ("WoLF-EnKF", "WoLF-ETKF", "WoLF-LETKF"):
            if name == "WoLF-LETKF" and (size > 10_000 or members > 100):
                continue  # d local problems of size N: minutes, not seconds
            method = wolf.methods.make(name, num_members=members)
            seconds = best(lambda method=method, model=model, ys=ys: cycle(model, method, ys), max(2, seeds))[0]
            print(f"{name:12s} {members:8d} {size:8d} {size:9d} {1e3 * seconds / steps:11.2f}", flush=True)


def cycle(model, method, ys):
    return wolf.filter(model, ys, method=method, key=0, save="final").log_likelihood


def best(run, rounds):
    """Take the smallest of several times, on the wall and in CPU seconds."""
    run()
    times = []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(t[0] for t in times), min(t[1] for t in times)


def speed(steps, seeds):
    """Cycles of the same filters in wolf and in DAPPER: Lorenz96 with d = 100 and additive noise of variance 0.0025."""
    import dapper
    import dapper.da_methods as da
    import dapper.mods as modelling
    from dapper.mods.Lorenz96 import step, x0
    from dapper.tools.localization import nd_Id_localization

    warnings.filterwarnings("ignore")
    dapper.tools.progressbar.disable_progbar = True
    size = 100
    observe = modelling.Id_Obs(size) | {"noise": 1, "localizer": nd_Id_localization((size,), (1,))}
    truth = modelling.HiddenMarkovModel(
        {"M": size, "model": step, "noise": 0.05**2 / 0.05},  # DAPPER's noise is for a unit of time
        observe,
        modelling.Chronology(0.05, dko=1, Ko=steps - 1, BurnIn=0),
        modelling.GaussRV(mu=x0(size), C=0.001),
    )
    dapper.set_seed(1)
    xx, yy = truth.simulate()
    ys = np.stack([np.asarray(y, float) for y in yy])
    prior = wolf.Gaussian(x0(size), np.full(size, 0.001))
    model = wolf.models.lorenz96(size, noise_std=0.05 / np.sqrt(0.05), noise="sde", prior=prior)
    near = ensembles.Ring(4.0)
    pairs = {
        "stochastic N=1000": (
            ensemble(1000, ensembles.Stochastic()),
            da.EnKF("PertObs", N=1000, infl=1.0),
        ),
    } | {
        f"LETKF N={members}": (
            ensemble(members, ensembles.LETKF(rotate=True), 1.04, localisation=near),
            da.LETKF(N=members, infl=1.04, rot=True, loc_rad=4),
        )
        for members in (20, 100)
    }
    for name, (ours, theirs) in pairs.items():

        def run_theirs(theirs=theirs):
            theirs.assimilate(truth, xx, yy, liveplots=False)

        times = {
            "wolf": best(lambda ours=ours: cycle(model, ours, ys), seeds),
            "DAPPER": best(run_theirs, seeds),
        }
        theirs.assimilate(truth, xx, yy, liveplots=False)
        theirs.stats.average_in_time()
        means = wolf.filter(model, ys, method=ours, key=0, save="means").means
        error = np.sqrt(((means - xx[1:]) ** 2).mean(1)).mean()
        print(f"{name}: rmse wolf {error:.3f}, DAPPER {float(theirs.avrgs.err.rms.a.val):.3f}")
        for who, (wall, cpu) in times.items():
            print(f"  {who:8s} {1e3 * wall / steps:8.2f} ms a cycle, {1e3 * cpu / steps:8.2f} ms of CPU")
        wall, cpu = (times["DAPPER"][i] / times["wolf"][i] for i in range(2))
        print(f"  DAPPER over wolf: {wall:.2f} on the wall, {cpu:.2f} in CPU")


SECTIONS = {  # cycles and seeds
    **{"targets": (10_000, 1), "paper": (1000, 2), "harder": (1000, 3), "inflation": (200, 2)},
    **{"cost": (10, 3), "speed": (100, 3)},
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", choices=SECTIONS)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--only", default="", help="part of the names of the methods to run")
    parser.add_argument("--members", type=int, help="20 or 1000, to run that half of the paper's test")
    given = parser.parse_args()
    ONLY, MEMBERS = given.only, given.members
    steps, seeds = SECTIONS[given.section]
    globals()[given.section](given.steps or steps, given.seeds or seeds)
