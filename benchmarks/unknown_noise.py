"""What not knowing R and Q costs at least: a bank of filters over all of them, mixed as Bayes has it.

Suites of `benchmarks/robustness.py`. Each filter of the bank is the right model with its own factors on R and Q, on a
grid of both. The prior stands where the given model does: ln r is N(0, 1.5²), and ln q is 0 or N(0, 1.5²), as likely.
What is left over the oracle is the price of not knowing, whoever pays it. Kalman filters are given which measurements
are outliers; `Adaptive` is not, and pays for these as well. On the pendulum there is a bank of robust filters too,
which are given the law of the outliers only: they pay all that there is to pay.
"""

import noise_scales
import numpy as np

import wolf
from wolf.inference.filters import GaussianFilter
from wolf.inference.linearization import Unscented
from wolf.inference.noise import ScaleMixture

GRID = np.linspace(-4.6, 4.6, 21)  # ln of both factors
SPREAD = 1.5  # standard deviation of the prior
AT_ONCE = 20  # trials whose filters are all kept
LAW = ScaleMixture((1.0, 30.0, 300.0), (0.95, 0.012, 0.038))  # one in twenty, off by up to 30 standard deviations


def unknown(trials, rng):
    """The price of not knowing R and Q: a bank of 441 Kalman filters, outliers known, beside Adaptive; T = 1000."""
    noise_scales.table("problem", ("bank, outliers known", "Adaptive"))
    problems = {"trend": noise_scales.trend(), "level 0.01": noise_scales.level(0.01), "level 1": noise_scales.level(1)}
    for name, problem in problems.items():
        truth, clean, noise = noise_scales.simulate(problem, trials, 1000, rng)
        ys, hit = noise_scales.spoil(clean, noise, rng)
        known = np.where(hit, np.nan, ys)
        oracle = noise_scales.score("KF", problem.model(), known, truth)
        banks = mixed(lambda data, problem=problem: bank(problem.model, data, "KF"), known, truth)
        for words, q, r in noise_scales.ONES + noise_scales.BOTH:
            adaptive = noise_scales.score(wolf.Adaptive(), problem.model(q, r), ys, truth)
            noise_scales.row(f"{name}: {words}", [noise_scales.cell(each, oracle) for each in (banks[words], adaptive)])


def pendulum(trials, rng):
    """Where R and Q show late, a pendulum seen through its sine: banks of 441 filters beside one, T = 500."""
    noise_scales.table("pendulum", ("R and Q known", "bank, outliers known", "bank, outlier law known", "Adaptive"))
    model, steps = noise_scales.nonlinear()["pendulum"]
    truth, ys, hit = noise_scales.curved_data(model, steps, trials, rng)
    known = np.where(hit, np.nan, ys)
    oracle = noise_scales.score("EKF", model, known, truth)
    robust = GaussianFilter(Unscented(), LAW)
    found = noise_scales.score(robust, model, ys, truth)
    skipping = mixed(lambda data: bank(model.scaled, data, "UKF"), known, truth)
    hearing = mixed(lambda data: bank(model.scaled, data, robust, log_mixture(model)), ys, truth)
    for words, q, r in noise_scales.ONES:
        adaptive = noise_scales.score(wolf.Adaptive(linearization=Unscented()), model.scaled(q, r), ys, truth)
        cells = (found, skipping[words], hearing[words], adaptive)
        noise_scales.row(words, [noise_scales.cell(each, oracle) for each in cells])


def mixed(run, data, truth):
    """Run the bank once, and mix it by a prior around each of the given models."""
    found = {words: ([], []) for words, *_ in noise_scales.ONES + noise_scales.BOTH}
    for first in range(0, len(data), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        means, variances, evidence = run(data[part])
        for words, q, r in noise_scales.ONES + noise_scales.BOTH:
            share = np.exp(evidence + log_prior(np.log(q), np.log(r))[:, None, None])
            share /= share.sum(0)
            mean = (share * means).sum(0)
            variance = (share * (variances + means**2)).sum(0) - mean**2
            error = mean - truth[part, :, 0]
            found[words][0].append(np.sqrt((error**2).sum(1)))
            found[words][1].append((np.abs(error) < 1.959964 * np.sqrt(variance)).mean(1))
    return {words: (np.concatenate(j), np.concatenate(held).mean()) for words, (j, held) in found.items()}


def bank(scaled, data, method, log_density=None):
    """Means and variances of the first state, (filters, trials, steps), and the log evidence so far, largest 0.

    Args:
        scaled: gives the model with factors q and r.
        data: (trials, steps, measured).
        method: of all filters.
        log_density: of a residual, given it, its variance and ln r; the filter's own if there is none.
    """
    kept = [[], [], []]
    for log_q in GRID:
        for log_r in GRID:
            out = wolf.filter_many(scaled(np.exp(log_q), np.exp(log_r)), data, method=method, save=keep).saved
            mean, variance, evidence, residual, spread = out
            if log_density is not None:
                evidence = log_density(residual, spread, log_r)
            for values, new in zip(kept, (mean, variance, evidence), strict=True):
                values.append(new)
    means, variances, evidence = (np.stack(values) for values in kept)
    evidence = np.cumsum(np.nan_to_num(evidence), axis=2)
    return means, variances, evidence - evidence.max(0)


def log_mixture(model):
    """Give the log density of a residual of one number under `LAW`."""

    def log_density(residual, spread, log_r):
        noise = np.exp(log_r) * model.obs_cov[0, 0]
        variances = [spread + (scale - 1.0) * noise for scale in LAW.scales]
        terms = [
            np.log(share) - 0.5 * (np.log(variance) + residual**2 / variance)
            for share, variance in zip(LAW.probabilities, variances, strict=True)
        ]
        return np.logaddexp.reduce(terms)

    return log_density


def keep(state, info):
    return state.mean[0], state.cov[0, 0], info.log_likelihood, info.residual[0], info.innovation_cov[0, 0]


def log_prior(centre_q, centre_r):
    """Over the grid, around a model that is off by these factors."""
    log_q, log_r = (each.ravel() for each in np.meshgrid(GRID, GRID, indexing="ij"))
    right = np.abs(log_q - centre_q) < 0.5 * (GRID[1] - GRID[0])
    bell_r = np.exp(-0.5 * ((log_r - centre_r) / SPREAD) ** 2)
    bell_q = np.exp(-0.5 * ((log_q - centre_q) / SPREAD) ** 2)
    return np.log(0.5 * bell_r * right / (bell_r * right).sum() + 0.5 * bell_r * bell_q / (bell_r * bell_q).sum())


SUITES = {"unknown": unknown, "pendulum": pendulum}
