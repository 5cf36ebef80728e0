"""Estimated scale factors of R and Q: R and Q wrong, changing, slow, fast, short series, odd noise, nonlinear models.

Suites of `benchmarks/robustness.py`. "+x % .yz": mean of 100 log(J / J of the oracle) over the trials, and how often
the 95 % interval of the first state holds. The oracle is a Kalman filter with the right model that knows which
measurements are outliers. "lost" counts runs with more than five times the error of the oracle.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

import wolf

GROSS = 100.0  # largest gross outlier of a linear problem, in the units of what is measured
GROSS_CURVED = 30.0  # of a nonlinear one, in standard deviations of the noise
LOST = 5.0


@dataclass
class Problem:
    """A linear model with a known truth; lists are turned into arrays by the model."""

    F: list
    H: list
    Q: np.ndarray
    R: np.ndarray
    mean: np.ndarray
    cov: np.ndarray

    def model(self, q=1.0, r=1.0):
        return wolf.LinearModel(self.F, self.H, q * self.Q, r * self.R, self.mean, self.cov)


def plane():
    F = np.eye(4) + 0.1 * np.eye(4, k=2)
    return Problem(F, np.eye(2, 4), 0.1 * np.eye(4), 10.0 * np.eye(2), np.array([0.0, 0, 1, 1]), np.eye(4))


def level(ratio):
    one = np.eye(1)
    return Problem(one, one, ratio * one, one, np.zeros(1), one)


def autoregressive(share):
    one = np.eye(1)
    return Problem(share * one, one, one, one, np.zeros(1), one / (1 - share**2))


def trend():
    return Problem([[1.0, 1.0], [0.0, 1.0]], np.eye(1, 2), np.diag([0.1, 0.01]), np.eye(1), np.zeros(2), np.eye(2))


def simulate(problem, trials, steps, rng, q=1.0, r=1.0):
    """Draw states (B, T, D) and what is measured of them, with its noise; q and r may be given for each step."""
    q, r = (np.broadcast_to(each, (steps,)) for each in (q, r))
    roots = [np.linalg.cholesky(each + 1e-300 * np.eye(len(each))) for each in (problem.Q, problem.R)]
    F, H = np.asarray(problem.F), np.asarray(problem.H)
    state, states = problem.mean + rng.normal(size=(trials, len(F))) @ np.linalg.cholesky(problem.cov).T, []
    for t in range(steps):
        state = state @ F.T + np.sqrt(q[t]) * rng.normal(size=state.shape) @ roots[0].T
        states.append(state)
    states = np.stack(states, 1)
    clean = states @ H.T
    noise = np.sqrt(r)[:, None] * (rng.normal(size=clean.shape) @ roots[1].T)
    return states, clean, noise


def spoil(clean, noise, rng, share=0.05, size=GROSS):
    """Let a share of the measurements be off by something uniform; say which."""
    hit = rng.random(clean.shape[:2])[..., None] < share
    wild = rng.uniform(-size, size, clean.shape)
    return np.where(hit, clean + wild, clean + noise), hit


def score(method, model, ys, truth, key=None):
    out = wolf.filter_many(model, ys, method=method, save=keep, key=key)
    error = out.saved["mean"] - truth[..., 0]
    inside = np.abs(error) < 1.959964 * np.sqrt(out.saved["variance"])
    return np.sqrt((error**2).sum(1)), inside.mean()


def keep(state, info):
    return {"mean": state.mean[0], "variance": state.cov[0, 0]}


def cell(found, oracle):
    j, held = found
    lost = (j > LOST * oracle[0]).mean()
    words = f"{100 * np.log(j / oracle[0]).mean():+.1f} % {held:.3f}"
    return words + (f" ({lost:.1%} lost)" if lost else "")


def methods():
    return {"KF": "KF", "Learned": wolf.Learned(), "Adaptive": wolf.Adaptive()}


def table(title, names):
    print(f"| {title} | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1), flush=True)


def row(name, cells):
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


ONES = (("right", 1, 1), ("Q x 0.1", 0.1, 1), ("Q x 10", 10, 1), ("R x 0.1", 1, 0.1), ("R x 10", 1, 10))
BOTH = (("both x 0.1", 0.1, 0.1), ("both x 10", 10, 10), ("Q x 0.1, R x 10", 0.1, 10), ("Q x 10, R x 0.1", 10, 0.1))


def against(name, problem, data, oracle, cases, chosen, prefix=""):
    """Filter the same data with models that are wrong by factors."""
    truth, ys = data
    for words, q, r in cases:
        found = [score(method, problem.model(q, r), ys, truth) for method in chosen.values()]
        row(f"{name}{prefix}: {words}", [cell(each, oracle) for each in found])


def run(name, problem, trials, steps, rng, cases, chosen, share=0.05, size=GROSS):
    truth, clean, noise = simulate(problem, trials, steps, rng)
    ys, hit = spoil(clean, noise, rng, share, size)
    oracle = score("KF", problem.model(), np.where(hit, np.nan, ys), truth)
    against(name, problem, (truth, ys), oracle, cases, chosen)


def levels(trials, rng):
    """R or Q or both ten times off, 5 % gross outliers, T = 1000."""
    chosen = methods()
    table("problem", chosen)
    for name, problem in (
        ("tracking", plane()),
        ("trend", trend()),
        ("level 0.01", level(0.01)),
        ("level 1", level(1)),
    ):
        run(name, problem, trials, 1000, rng, ONES + BOTH, chosen)


def right(trials, rng):
    """The right model in other noise: clean, small outliers (10 % of 3-6 sd), 20 and 40 % gross, T = 1000."""
    chosen = methods()
    table("tracking", chosen)
    problem = plane()
    for name, share, size in (("clean", 0.0, GROSS), ("gross 20 %", 0.2, GROSS), ("gross 40 %", 0.4, GROSS)):
        run(name, problem, trials, 1000, rng, ONES[:1], chosen, share, size)
    truth, clean, noise = simulate(problem, trials, 1000, rng)
    hit = rng.random(clean.shape[:2])[..., None] < 0.1
    way = rng.normal(size=clean.shape)
    way = way / np.linalg.norm(way, axis=-1, keepdims=True) * rng.uniform(3, 6, hit.shape) * np.sqrt(10.0)
    ys = np.where(hit, clean + way, clean + noise)
    oracle = score("KF", problem.model(), np.where(hit, np.nan, ys), truth)
    against("small outliers", problem, (truth, ys), oracle, ONES, chosen)


def changes(trials, rng):
    """R or Q ten times larger or smaller from the middle on, 5 % gross outliers; the oracle knows."""
    chosen, problem, steps = methods(), plane(), 1000
    table("tracking", chosen)
    late = np.arange(steps) >= steps // 2
    cases = {"Q up": (np.where(late, 10, 1), 1), "Q down": (np.where(late, 0.1, 1), 1)}
    cases |= {"R up": (1, np.where(late, 10, 1)), "R down": (1, np.where(late, 0.1, 1))}
    for name, (q, r) in cases.items():
        truth, clean, noise = simulate(problem, trials, steps, rng, q, r)
        ys, hit = spoil(clean, noise, rng)
        q, r = (np.broadcast_to(each, (steps,))[:, None, None] for each in (q, r))
        true_model = wolf.LinearModel(problem.F, problem.H, q * problem.Q, r * problem.R, problem.mean, problem.cov)
        oracle = score("KF", true_model, np.where(hit, np.nan, ys), truth)
        against(name, problem, (truth, ys), oracle, ONES[:1], chosen)


def ratios(trials, rng):
    """Levels that are slow and fast beside their noise, autoregressions, 5 % gross outliers, T = 1000."""
    chosen = methods()
    table("problem", chosen)
    problems = {f"level {ratio:g}": level(ratio) for ratio in (1e-8, 1e-4, 10.0, 100.0)}
    problems |= {f"AR(1) {share}": autoregressive(share) for share in (0.5, 0.95)}
    for name, problem in problems.items():
        run(name, problem, trials, 1000, rng, ONES, chosen)


def short(trials, rng):
    """Short series, 5 % gross outliers."""
    chosen = methods()
    table("tracking", chosen)
    for steps in (50, 200):
        run(f"T = {steps}", plane(), trials, steps, rng, ONES, chosen)


def coloured(trials, rng):
    """Autocorrelated noise, AR(1) of 0 to 0.9 with the variance R. Beside the J of a KF that knows the outliers.

    `Adaptive` finds it; the one before it assumes white noise. The last column has it in the model, with a memory and
    levels that are fitted to runs of their own (see `by_fits`).
    """
    chosen, problem, steps = methods(), plane(), 1000
    chosen = {"KF": "KF", "Learned": chosen["Learned"], "Adaptive, white noise": NEW, "Adaptive": chosen["Adaptive"]}
    table("tracking", [*chosen, FITTED])
    for share in (0.0, 0.3, 0.5, 0.7, 0.9):
        truth, clean, noise = simulate(problem, trials + FITS, steps, rng)
        for t in range(1, steps):
            noise[:, t] = share * noise[:, t - 1] + np.sqrt(1 - share**2) * noise[:, t]
        ys, hit = spoil(clean, noise, rng)
        spare, truth, ys, hit = ys[:FITS], truth[FITS:], ys[FITS:], hit[FITS:]
        oracle = score("KF", problem.model(), np.where(hit, np.nan, ys), truth)
        found = [score(method, problem.model(), ys, truth) for method in chosen.values()]
        found.append(by_fits(problem.model(), spare, ys, truth))
        row(f"AR(1) {share}: right", [cell(each, oracle) for each in found])


NEW = wolf.Adaptive(estimate_autocorrelation=False)
FITTED = "Adaptive, AR(1) fitted"
FITS = 4  # runs that are fitted, each for a part of the trials: one fit might have luck


def by_fits(model, spare, ys, truth):
    """Give noise the memory, if any, that is fitted to spare runs, and filter the others by it."""
    errors, shares = [], []
    for one, some, states in zip(spare, np.array_split(ys, len(spare)), np.array_split(truth, len(spare)), strict=True):
        j, held = score(wolf.Adaptive(), wolf.fit_ar1_noise(model, one).model, some, states)
        errors.append(j)
        shares.append(held)
    return np.concatenate(errors), float(np.average(shares, weights=[len(each) for each in errors]))


def curved(trials, rng):
    """Nonlinear models, 5 % gross outliers: the oracle is an EKF with the right model that skips them.

    "Told the outliers" skips them too, with the model as it is given.
    """
    chosen = methods() | {"KF": "EKF"}
    table("problem", ["EKF", "EKF, outliers known", *list(chosen)[1:]])
    for name, (model, steps) in nonlinear().items():
        truth, ys, hit = curved_data(model, steps, trials, rng)
        sound = np.where(hit, np.nan, ys)
        oracle = score("EKF", model, sound, truth)
        for words, q, r in ONES:
            given = model.scaled(q, r)
            found = [score(method, given, ys, truth) for method in chosen.values()]
            found.insert(1, score("EKF", given, sound, truth))
            row(f"{name}: {words}", [cell(each, oracle) for each in found])


def curved_data(model, steps, trials, rng):
    """Draw states, measurements of which 5 % are off, and which those are."""
    runs = [wolf.simulate.trajectory(model, steps, int(rng.integers(1 << 30))) for _ in range(trials)]
    truth, sound = (np.stack([getattr(one, part) for one in runs]) for part in ("states", "measurements"))
    hit = rng.random(sound.shape[:2])[..., None] < 0.05
    off = rng.uniform(-GROSS_CURVED, GROSS_CURVED, sound.shape) * np.sqrt(np.diag(model.obs_cov))
    return truth, np.where(hit, sound + off, sound), hit


def nonlinear():
    """Coordinated turn, range and bearing, pendulum, bearings only."""
    radar = wolf.StateSpaceModel(
        lambda x: jnp.stack([x[0] + x[2], x[1] + x[3], x[2], x[3]]),
        lambda x: jnp.stack([jnp.hypot(x[0], x[1]), jnp.arctan2(x[1], x[0])]),
        np.eye(4),
        np.diag([100.0, 1e-4]),
        wolf.Gaussian(np.array([3000.0, 2000.0, -10.0, 5.0]), np.diag([1e4, 1e4, 25.0, 25.0])),
        residual=turned,
    )
    turning = wolf.StateSpaceModel(
        turn, lambda x: x[:2], np.diag([0.1, 0.1, 0.1, 0.1, 1e-4]), 10.0 * np.eye(2),
        wolf.Gaussian(np.array([0.0, 0.0, 10.0, 0.0, 0.05]), np.diag([10.0, 10.0, 1.0, 1.0, 1e-3])),
    )  # fmt: skip
    pendulum = wolf.StateSpaceModel(
        lambda x: jnp.stack([x[0] + 0.05 * x[1], x[1] - 0.05 * 9.8 * jnp.sin(x[0])]),
        lambda x: jnp.sin(x[:1]),
        np.diag([1e-5, 2e-3]),
        0.04 * np.eye(1),
        wolf.Gaussian(np.array([1.2, 0.0]), 0.05 * np.eye(2)),
    )
    bearings = wolf.StateSpaceModel(
        lambda x: jnp.stack([x[0] + x[2], x[1] + x[3], x[2], x[3]]),
        lambda x: jnp.stack([jnp.arctan2(x[1] + 500.0, x[0]), jnp.arctan2(x[1] - 500.0, x[0])]),
        np.diag([0.1, 0.1, 0.05, 0.05]),
        1e-4 * np.eye(2),
        wolf.Gaussian(np.array([1000.0, 0.0, -1.0, 1.0]), np.diag([400.0, 400.0, 1.0, 1.0])),
        residual=lambda y, prediction: around(y - prediction),  # else even the oracle is lost behind a station
    )
    return {
        "coordinated turn": (turning, 500),
        "range, bearing": (radar, 300),
        "pendulum": (pendulum, 500),
        "bearings only": (bearings, 300),
    }


ANCHORS = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 8.0], [0.0, 8.0]])
RANGE_ERROR = 0.1  # m, as the model has it


def ranges(trials, rng):
    """Ranges to four anchors (2-D, 0.1 s, R of 10 cm), errors that last, 5 % of up to 3 m too long; T = 500.

    Position error in cm and how often its 95 % interval holds: by the model with noise that is new in each
    measurement, by the same with a memory, and with one that is fitted to other runs.
    """
    chosen = {"EKF": "EKF", "WoLF": "WoLF", "Learned": wolf.Learned(), "Adaptive": wolf.Adaptive()}
    table("errors", [*(f"{name}{kind}" for kind in ("", ", memory") for name in chosen), FITTED])
    plain = ranging()
    cases = (("10 cm, new", 0.1, 0.0, 0.5), ("3 cm, new", 0.03, 0.0, 0.5))
    cases += (("10 cm for a second", 0.03, 0.1, np.exp(-0.1)), ("10 cm for 30 s", 0.03, 0.1, np.exp(-0.1 / 30)))
    for name, new, lasting, memory in cases:
        truth, ys = range_data(plain, trials + FITS, 500, rng, new, lasting, memory)
        spare, truth, ys = ys[:FITS], truth[FITS:], ys[FITS:]
        models = (plain, wolf.models.with_ar1_noise(plain, memory if lasting else 0.5))
        found = [score(method, model, ys, truth) for model in models for method in chosen.values()]
        found.append(by_fits(plain, spare, ys, truth))
        row(name, [f"{100 * np.sqrt((j**2).mean() / 500):.1f} {held:.3f}" for j, held in found])


def ranging():
    dt = 0.1
    F = np.eye(4) + dt * np.eye(4, k=2)
    Q = 0.5 * np.kron([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]], np.eye(2))
    prior = wolf.Gaussian(np.array([5.0, 4.0, 0.0, 0.0]), np.diag([1.0, 1.0, 0.5, 0.5]))
    return wolf.StateSpaceModel(
        lambda x: F @ x,
        lambda x: jnp.sqrt(((x[None, :2] - ANCHORS) ** 2).sum(1)),
        Q,
        RANGE_ERROR**2 * np.eye(4),
        prior,
    )


def range_data(model, trials, steps, rng, new, lasting, memory):
    """Walk about, also away from the anchors, where ranges say less."""
    states = np.stack(
        [wolf.simulate.trajectory(model, steps, int(k)).states for k in rng.integers(1 << 30, size=trials)]
    )
    clean = np.sqrt(((states[..., None, :2] - ANCHORS) ** 2).sum(-1))
    error = lasting * rng.normal(size=clean.shape)
    for t in range(1, steps):
        error[:, t] = memory * error[:, t - 1] + np.sqrt(1 - memory**2) * error[:, t]
    ys = clean + error + new * rng.normal(size=clean.shape)
    return states, ys + (rng.random(ys.shape) < 0.05) * rng.uniform(0.0, 3.0, ys.shape)


def turned(y, prediction):
    e = y - prediction
    return jnp.stack([e[0], around(e[1])])


def around(angle):
    """Give the same angle between -π and π."""
    return jnp.arctan2(jnp.sin(angle), jnp.cos(angle))


def turn(x):
    """Turn at the rate of the last state, which is never quite zero."""
    rate = jnp.where(jnp.abs(x[4]) < 1e-6, 1e-6, x[4])
    s, c = jnp.sin(rate), jnp.cos(rate)
    a, b = s / rate, (1 - c) / rate
    return jnp.stack(
        [x[0] + a * x[2] - b * x[3], x[1] + b * x[2] + a * x[3], c * x[2] - s * x[3], s * x[2] + c * x[3], x[4]]
    )


SUITES = {
    "levels": levels,
    "right": right,
    "changes": changes,
    "ratios": ratios,
    "short": short,
    "coloured": coloured,
    "curved": curved,
    "ranges": ranges,
}
