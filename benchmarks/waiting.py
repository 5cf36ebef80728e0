"""What a person waits for: the first call of a process, smoothing, fitting; CPU time beside others, ratios in one run.

    python benchmarks/waiting.py first smooth fit

CPU time of the process, all threads, the smallest of several runs in turn: a busy machine slows all alike, so read the
ratios. Needs dynamax and statsmodels.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import wolf

warnings.filterwarnings("ignore")
STEPS = 5_000
STATES = (1, 2, 4, 6, 8, 10, 13, 16, 25)
LENGTHS = (200, 1_000, 10_000)
FILTER = "import wolf, numpy as np; wolf.filter(wolf.models.local_level(level_var=0.1, obs_var=1.0), np.arange(50.0))"


def cpu_times(runs: dict[str, Callable], rounds: int) -> dict[str, float]:
    """Take the smallest CPU time of every run, all in turn."""
    best = dict.fromkeys(runs, np.inf)
    for run in runs.values():
        jax.block_until_ready(run())
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.process_time()
            jax.block_until_ready(run())
            best[name] = min(best[name], time.process_time() - start)
    return best


def first() -> None:
    """CPU seconds of whole processes, the second of each kind, with programs kept from the one before."""
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "small.csv")
        with open(table, "w") as file:
            file.write("value\n" + "\n".join(f"{np.sin(i) + i / 50:.3f}" for i in range(300)))
        commands = {
            "import jax": ["-c", "import jax"],
            "import wolf": ["-c", "import wolf"],
            "wolf --help": ["-m", "wolf", "--help"],
            "first wolf.filter": ["-c", FILTER],
            "wolf filter small.csv": ["-m", "wolf", "filter", table],
        }
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        variables["WOLF_CACHE"] = os.path.join(folder, "cache")

        def run(words: list[str]) -> float:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *words], check=True, env=variables, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

        times = {name: min(run(words) for _ in range(4)) for name, words in commands.items()}
    print("\nThe first call, CPU seconds of a process, and over `import jax`")
    for name, seconds in times.items():
        print(f"  {name:<24}{seconds:8.2f}{seconds / times['import jax']:8.2f}")


def linear_model(size: int) -> wolf.LinearModel:
    """Make a model of any size: a damped rotation, half of it measured."""
    rng = np.random.default_rng(size)
    turn, _ = np.linalg.qr(rng.normal(size=(size, size)))
    measured = max(1, size // 2)
    noise = {"Q": 0.1 * np.eye(size), "R": np.eye(measured), "mean": np.zeros(size), "cov": np.eye(size)}
    return wolf.LinearModel(F=0.95 * turn, H=rng.normal(size=(measured, size)), **noise)


def dynamax_smoother(model: wolf.LinearModel, ys: np.ndarray) -> Callable:
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM, lgssm_smoother

    parts = {"dynamics_weights": model.F, "dynamics_covariance": model.Q, "emission_weights": model.H}
    parts |= {"emission_covariance": model.R, "initial_mean": model.mean, "initial_covariance": model.cov}
    ssm = LinearGaussianSSM(model.state_dim, model.obs_dim)
    params, _ = ssm.initialize(jax.random.PRNGKey(0), **{name: jnp.asarray(part) for name, part in parts.items()})
    compiled = jax.jit(lgssm_smoother)
    return lambda: compiled(params, ys)


def statsmodels_smoother(model: wolf.LinearModel, ys: np.ndarray) -> Callable:
    import statsmodels.api as sm

    other = sm.tsa.statespace.MLEModel(ys, k_states=model.state_dim)
    parts = {"design": model.H, "transition": model.F, "state_cov": model.Q, "obs_cov": model.R}
    for name, part in (parts | {"selection": np.eye(model.state_dim)}).items():
        other[name] = np.asarray(part)
    other.ssm.initialize_known(np.asarray(model.mean), np.asarray(model.cov))
    return lambda: bool(other.ssm.smooth())


def smooth() -> None:
    """Microseconds of CPU for a step of one series: our filter and our smoother, and both together of others."""
    print(f"\nSmoothing {STEPS} steps, us of CPU a step; filter and smoother together beside others")
    print(f"  {'states':>6}{'filter':>9}{'smoother':>9}{'dynamax':>9}{'statsmodels':>12}{'over ours':>16}  engine")
    for size in STATES:
        model = linear_model(size)
        ys = np.random.default_rng(0).normal(size=(STEPS, model.obs_dim))
        out = wolf.filter(model, ys, method="KF")
        runs = {
            "filter": lambda model=model, ys=ys: bool(wolf.filter(model, ys, method="KF")),
            "smoother": lambda out=out: bool(wolf.smooth(out)),
            "dynamax": dynamax_smoother(model, ys),
            "statsmodels": statsmodels_smoother(model, ys),
        }
        us = {name: seconds / STEPS * 1e6 for name, seconds in cpu_times(runs, 5).items()}
        both = us["filter"] + us["smoother"]
        print(
            f"  {size:6d}{us['filter']:9.2f}{us['smoother']:9.2f}{us['dynamax']:9.2f}{us['statsmodels']:12.2f}"
            f"{us['dynamax'] / both:8.1f}{us['statsmodels'] / both:8.1f}  {out.engine[:6]}",
            flush=True,
        )


def builders() -> dict[str, tuple[Callable, Callable]]:
    """Pair models of ours with those of statsmodels."""
    from statsmodels.api import tsa

    models, uc = wolf.models, tsa.UnobservedComponents

    def trend(level_var, slope_var, obs_var):
        return models.structural(models.trend(level_var=level_var, slope_var=slope_var), obs_var=obs_var)

    def season(level_var, season_var, obs_var):
        return models.structural(models.level(var=level_var), models.seasonal(12, var=season_var), obs_var=obs_var)

    def seasons(level_var, long_var, short_var, obs_var):
        both = models.seasonal(12, var=long_var), models.seasonal(7, var=short_var)
        return models.structural(models.level(var=level_var), *both, obs_var=obs_var)

    waves = [{"period": 12, "harmonics": 6}, {"period": 7, "harmonics": 3}]
    return {
        "level": (models.local_level, lambda ys: uc(ys, "llevel").fit(disp=0)),
        "trend": (trend, lambda ys: uc(ys, "lltrend").fit(disp=0)),
        "seasonal(12)": (season, lambda ys: uc(ys, "llevel", seasonal=12).fit(disp=0)),
        "two seasons": (seasons, lambda ys: uc(ys, "llevel", freq_seasonal=waves).fit(disp=0)),
    }


def fit() -> None:
    """CPU seconds of a fit that has been compiled: robust, Gaussian, and by statsmodels, which is Gaussian."""
    print("\nFitting, CPU seconds; statsmodels over ours")
    print(f"  {'model':<14}{'steps':>7}{'two-part':>10}{'gaussian':>10}{'statsmodels':>13}{'over ours':>16}")
    for steps in LENGTHS:
        rng, t = np.random.default_rng(0), np.arange(steps)
        waves = 3 * np.sin(2 * np.pi * t / 12) + 1.5 * np.cos(2 * np.pi * t / 7)
        ys = np.cumsum(0.3 * rng.normal(size=steps)) + waves + rng.normal(size=steps)
        for name, (ours, theirs) in builders().items():
            runs = {
                "two-part": lambda ours=ours, ys=ys: bool(wolf.fit(ours, ys)),
                "gaussian": lambda ours=ours, ys=ys: bool(wolf.fit(ours, ys, score="gaussian")),
                "statsmodels": lambda theirs=theirs, ys=ys: bool(theirs(ys)),
            }
            s = cpu_times(runs, 1 if steps > 1_000 else 3)
            ratios = s["statsmodels"] / s["two-part"], s["statsmodels"] / s["gaussian"]
            print(
                f"  {name:<14}{steps:7d}{s['two-part']:10.3f}{s['gaussian']:10.3f}{s['statsmodels']:13.3f}"
                f"{ratios[0]:8.1f}{ratios[1]:8.1f}",
                flush=True,
            )


PARTS = {"first": first, "smooth": smooth, "fit": fit}


def main() -> None:
    with jax.enable_x64(True):
        for name in sys.argv[1:] or PARTS:
            PARTS[name]()


if __name__ == "__main__":
    main()
