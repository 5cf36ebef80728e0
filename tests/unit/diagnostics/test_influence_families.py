"""Influence of one measurement of an exponential family: the bounds proved in docs/influence.md."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import gammaln

import wolf

FAMILIES = {
    "Poisson": (wolf.families.Poisson(), np.array([1.0, 3.0, 0.0, 2.0, 1.0]), 10.0 ** np.arange(0, 13, 2)),
    "gamma": (wolf.families.Gamma(2.0), np.array([1.0, 0.7, 2.1, 0.2, 1.3]), 10.0 ** np.arange(-6, 13, 2)),
    "Bernoulli": (wolf.families.Bernoulli(), np.array([0.0, 0.0, 1.0, 0.0, 1.0]), np.array([0.0, 1.0])),
}
BOUNDS = {  # sup of w² |u| over Pearson residuals u
    "IMQ": (wolf.MahalanobisIMQ(c=3.0), 3.0 / 2),
    "gate": (wolf.MahalanobisThreshold(c=9.0), 3.0),
    "Welsch": (wolf.weights.Welsch(c=3.0, metric="R"), 3.0 / np.sqrt(2 * np.e)),
    "Tukey": (wolf.weights.Tukey(c=3.0, metric="R"), 3.0 * 16 / 25 / np.sqrt(5)),
    "Huber": (wolf.weights.Huber(c=3.0, metric="R"), 3.0),
}


def divergence(mean, cov, other_mean, other_cov):
    inverse, shift = np.linalg.inv(other_cov), mean - other_mean
    log_ratio = np.linalg.slogdet(other_cov)[1] - np.linalg.slogdet(cov)[1]
    return 0.5 * (np.trace(inverse @ cov) + shift @ inverse @ shift - len(mean) + log_ratio)


def influences(family, weight, features, clean, values):
    """PIF of each value in place of the last measurement, and the signal-to-noise ratio g of the prediction."""
    model = wolf.models.glm(2, family, prior_var=4.0)
    ys = np.repeat(clean[None, :, None], len(values) + 1, axis=0)
    ys[1:, -1, 0] = values
    out = wolf.filter_many(model, ys, method=wolf.WoLF(weight), inputs=features)
    found = [
        divergence(*(pair[-1] for pair in (out.means[i], out.covs[i], out.means[0], out.covs[0])))
        for i in range(1, len(ys))
    ]
    row = np.r_[1.0, features[-1]]
    eta = row @ out.means[0, -2]
    spread, mean = row @ out.covs[0, -2] @ row, np.exp(eta)
    share = 1 / (1 + np.exp(-eta))
    slope_over_deviation = {"Poisson": mean, "Gamma": 2.0, "Bernoulli": share * (1 - share)}[type(family).__name__]
    return np.array(found), spread * slope_over_deviation


@pytest.mark.parametrize("name", FAMILIES)
def test_influence_on_the_filter_is_below_its_bound(name, rng):
    """PIF <= (g + 4 B² g (1 + g)) / 2, whatever is measured; without a weight it grows without bound."""
    family, clean, values = FAMILIES[name]
    features = rng.normal(size=(5, 2))
    for weight, bound in (BOUNDS["IMQ"], BOUNDS["Huber"]):
        found, g = influences(family, weight, features, clean, values)
        assert (found <= 0.5 * (g + 4 * bound**2 * g * (1 + g))).all()
    plain, _ = influences(family, wolf.weights.Unweighted(), features, clean, values)
    assert plain.max() > 1e15 or name == "Bernoulli"


@pytest.mark.parametrize("kind", BOUNDS)
def test_bounds_of_the_weights_are_their_suprema(kind, x64):
    weight, bound = BOUNDS[kind]
    sizes = np.concatenate([np.linspace(0, 10, 20_001), 10.0 ** np.arange(2, 13)])
    one = jnp.ones((1, 1, 1))
    found = np.asarray(weight(jnp.asarray(sizes)[None], one, one)) ** 2 * sizes
    assert found.max() <= bound * (1 + 1e-9)
    assert found.max() > 0.99 * bound


LOG_DENSITIES = {
    "Poisson": lambda y, eta: y * eta - np.exp(eta) - gammaln(y + 1),
    "gamma": lambda y, eta: -2.0 * (y * np.exp(-eta) + eta) + np.log(y),
    "Bernoulli": lambda y, eta: y * eta - np.logaddexp(0, eta),
}
VARIANCES = {"Poisson": np.exp, "gamma": lambda eta: np.exp(2 * eta) / 2, "Bernoulli": lambda eta: 0.25}


@pytest.mark.parametrize("name", FAMILIES)
def test_influence_on_the_exact_posterior_is_bounded(name):
    """By quadrature over the linear predictor η ~ N(0, 1), for the posterior with the likelihood to the power w²."""
    eta = np.linspace(-12, 45, 60_001)
    mean = {"Bernoulli": 0.5}.get(name, 1.0)

    def posterior(y, robust):
        power = 1 / (1 + (y - mean) ** 2 / VARIANCES[name](0.0) / 9.0) if robust else 1.0
        log = power * LOG_DENSITIES[name](y, eta) - 0.5 * eta**2
        return log - log.max() - np.log(trapezoid(np.exp(log - log.max()), eta))

    def influence(y, robust):
        bad, good = posterior(y, robust), posterior(1.0, robust)
        return trapezoid(np.exp(bad) * (bad - good), eta)

    values = FAMILIES[name][2]
    robust = np.array([influence(y, True) for y in values])
    assert robust.max() < 13.0
    if name != "Bernoulli":
        assert influence(values[-1], False) > 100 * robust[-1]
        np.testing.assert_allclose(robust[-1], robust[-2], rtol=1e-3)
