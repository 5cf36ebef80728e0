"""Run what docs/online-learning.md shows: its tables and its pictures.

python docs/make_learning.py [--trials 20] [--data DIRECTORY]

Without a directory of the UCI sets (see `wolf_paper.uci_sets`) they are downloaded.
"""

import argparse
import runpy
from pathlib import Path

import jax
import numpy as np

import wolf
from wolf.plots import style
from wolf.statespace import families
from wolf_paper import uci_sets as uci

HERE = Path(__file__).parent
save = runpy.run_path(str(HERE / "make_images.py"), run_name="images")["save"]

# The authors' saved optima for kin8nm: log of the prior variance, threshold (for TMD on the distance, so squared here).
KIN8NM = {
    "EKF": (wolf.EKF(), -2.8688),
    "WoLF-IMQ": (wolf.WoLF(wolf.IMQ(c=5.69258)), 0.0),
    "WoLF-TMD": (wolf.WoLF(wolf.MahalanobisThreshold(c=8.05798**2)), 0.0),
    "WoLF, nothing tuned": (wolf.WoLF(), 0.0),
    "Learned, patience 12": (wolf.Learned(patience=12), 0.0),
}
# And for the curve in one dimension ("MLP, sorted").
CURVE = {
    "EKF": (wolf.EKF(), -1.012),
    "WoLF-IMQ": (wolf.WoLF(wolf.IMQ(c=16.38)), -0.881),
    "WoLF-TMD": (wolf.WoLF(wolf.MahalanobisThreshold(c=14.63**2)), -2.336),
    "WoLF, nothing tuned": (wolf.WoLF(), -0.881),
    "Learned, patience 12": (wolf.Learned(patience=12), -0.881),
}


def residuals(state, info):
    """Keep the residual of each step."""
    return info.residual


def mean_of(state, info):
    """Keep the mean of each step."""
    return state.mean


def rmedse(errors):
    """Root median squared error of each trial, over all rows, outliers included."""
    return np.sqrt(np.median(errors**2, axis=1))


def row(name, scores):
    """Print a row of a table."""
    print(f"| {name} | {scores.mean():.3f} ({scores.std():.3f}) | {np.median(scores):.3f} |")


def kin8nm(trials, directory):
    """RMedSE with one target in ten replaced, in the two protocols."""
    data = uci.load("kin8nm", directory)
    for protocol, kind in (("code", "two-sided"), ("paper", "uniform")):
        streams = [
            uci.prepare(data, 314 + i, outlier_prob=0.1, outliers=kind, protocol=protocol) for i in range(trials)
        ]
        ys, xs = np.stack([s.targets for s in streams]), np.stack([s.features for s in streams])
        print(f"\nkin8nm, {kind} outliers, {trials} trials: RMedSE mean (sd) | median")
        for name, (method, log_var) in KIN8NM.items():
            model = wolf.models.mlp(8, (20,), obs_var=1.0, prior_var=np.exp(log_var), key=314)
            out = wolf.filter_many(model, ys, inputs=xs, method=method, save=residuals, dtype="float32")
            row(name, rmedse(out.saved[..., 0]))


def curve(x):
    """The paper's function of one variable."""
    return 0.2 * x - 10 * np.cos(np.pi * x) + x**3


def corrupted_curve(rng, rows, prob):
    """Draw rows of the curve, with noise and outliers."""
    x = rng.uniform(-3, 3, rows)
    y = curve(x) + 3 * rng.normal(size=rows)
    hit = rng.random(rows) < prob
    return x[:, None], np.where(hit, rng.uniform(-100, 100, rows), y), hit


def one_dimension(trials):
    """The paper's 1-D experiment: 141 weights, 1,500 rows, a tenth of them uniform in [-100, 100]."""
    rng = np.random.default_rng(0)
    xs, ys, _ = zip(*(corrupted_curve(rng, 1500, 0.1) for _ in range(trials)), strict=True)
    print(f"\n1-D network, {trials} trials: RMedSE mean (sd) | median")
    for name, (method, log_var) in CURVE.items():
        options = {"obs_var": 1.0, "prior_var": np.exp(log_var), "drift_var": 1e-4}
        models = [wolf.models.mlp(1, (10, 10), **options, key=i) for i in range(trials)]
        out = wolf.filter_many(
            models, np.stack(ys), inputs=np.stack(xs), method=method, save=residuals, dtype="float32"
        )
        row(name, rmedse(out.saved[..., 0]))


def label_noise(trials, steps=1500):
    """Drifting logistic and Poisson regression, five coefficients, with and without wrong data."""
    rng = np.random.default_rng(0)
    settings = {"Bernoulli": (families.Bernoulli(), 1e-3, 2.0), "Poisson": (families.Poisson(), 1e-4, 0.5)}
    weights = {"EKF": wolf.Unweighted(), "c = 2.385": wolf.MahalanobisIMQ(2.385), "c = 4": wolf.MahalanobisIMQ(4.0)}
    print(f"\nRMSE of the coefficients after 500 steps, median (95 % quantile) of {trials} trials: clean | 10 % wrong")
    for kind, (family, drift, start) in settings.items():
        wander = np.cumsum(drift**0.5 * rng.normal(size=(trials, steps, 5)), 1)
        theta = start * rng.normal(size=(trials, 1, 5)) + wander
        xs = rng.normal(size=(trials, steps, 4))
        eta = theta[..., 0] + (theta[..., 1:] * xs).sum(-1)
        if kind == "Bernoulli":
            clean = (rng.random(eta.shape) < 1 / (1 + np.exp(-eta))).astype(float)
            wrong = 1 - clean
        else:
            clean = rng.poisson(np.exp(np.minimum(eta, 12.0))).astype(float)
            wrong = clean + 100 + rng.poisson(100, eta.shape)
        dirty = np.where(rng.random(eta.shape) < 0.1, wrong, clean)
        model = wolf.models.glm(4, family, drift_var=drift)
        for name, weight in weights.items():
            scores = []
            for ys in (clean, dirty):
                out = wolf.filter_many(model, ys, inputs=xs, method=wolf.WoLF(weight), save=mean_of)
                scores.append(np.sqrt(((out.saved - theta)[:, 500:] ** 2).mean((1, 2))))
            print(
                f"| {kind} {name} | " + " | ".join(f"{np.median(s):.3f} ({np.quantile(s, 0.95):.2f})" for s in scores)
            )


def defaults(directory):
    """Error on new rows over the target's deviation, for pairs of prior variance and noise: means over seven sets."""
    names = ("boston", "concrete", "energy", "kin8nm", "power", "wine", "yacht")
    streams = [uci.prepare(uci.load(name, directory), 1, outlier_prob=0.1) for name in names]
    for prior_var in (0.1, 0.3, 1.0):
        for noise in (0.02, 0.1, 0.3, 1.0):
            scores = []
            for stream in streams:
                rows = min(len(stream.clean), 3000)
                old, new = slice(0, int(0.8 * rows)), slice(int(0.8 * rows), rows)
                learner = wolf.OnlineRegressor(prior_var=prior_var, noise=noise, drift_var=0.0)
                learner.fit(stream.features[old], stream.targets[old])
                errors = learner.predict(stream.features[new]) - stream.clean[new]
                scores.append(np.sqrt(np.mean(errors**2)) / stream.clean[new].std())
            print(f"prior_var={prior_var}, noise={noise}: {np.exp(np.mean(np.log(scores))):.3f}", np.round(scores, 2))


def draw_curve():
    """What a network has learned after 1,500 rows, 15 % of them wrong: by an EKF, and by a robust filter."""
    x, y, hit = corrupted_curve(np.random.default_rng(2), 1500, 0.15)
    grid = np.linspace(-3, 3, 400)
    figure = style.new_figure(10.5, 4.0)
    left, right = figure.subplots(1, 2, sharey=True)
    for ax, name, colour, method in ((left, "EKF", style.KALMAN, "EKF"), (right, "WoLF", style.ROBUST, None)):
        learner = wolf.OnlineRegressor(prior_var=1.0, method=method, drift_var=0.0).fit(x, y)
        mean, std = learner.predict(grid[:, None], return_std=True)
        ax.scatter(x[~hit, 0], y[~hit], s=6, color=style.DOTS, lw=0, alpha=0.6)
        ax.scatter(x[hit, 0], y[hit], s=10, color=style.DOTS, marker="x", lw=0.7)
        ax.plot(grid, curve(grid), color=style.INK, lw=1.2, ls=(0, (4, 3)))
        ax.fill_between(grid, mean - style.BAND * std, mean + style.BAND * std, color=colour, alpha=0.15, lw=0)
        ax.plot(grid, mean, color=colour, lw=1.8)
        ax.set_title(name, loc="left", color=colour, size=11)
        ax.set_xlabel("x")
        style.dress(ax)
    left.set_ylim(-60, 60)
    left.set_ylabel("y")
    save(figure, "learning-curve.png")


def main():
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--data", default=None, help="directory of the UCI sets")
    parser.add_argument("--pictures-only", action="store_true")
    parser.add_argument("--defaults", action="store_true", help="only compare settings of OnlineRegressor")
    options = parser.parse_args()
    if options.defaults:
        return defaults(options.data)
    if not options.pictures_only:
        kin8nm(options.trials, options.data)
        one_dimension(options.trials)
        label_noise(options.trials)
    draw_curve()


if __name__ == "__main__":
    print(f"jax {jax.__version__}, wolf {wolf.__version__}")
    main()
