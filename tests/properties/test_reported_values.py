"""Reported numbers: float64 outside of any context, weights of at most 1, accurate for the widest priors."""

import numpy as np
import pytest

import wolf
from wolf.inference.noise.adaptive_scale_mixture import AdaptiveScaleMixture
from wolf.inference.noise.whitened import far_distance

FAR = 5_000_000.6  # float32 resolves it to 0.5


@pytest.mark.parametrize("name", ["KF", "IMM", "PF", "Beta-RBPF", "ETKF"])
def test_final_moments_keep_float64(name):
    model = wolf.models.local_level(1.0, 1.0, prior=wolf.Gaussian([FAR], [[1e-8]]))
    final = wolf.filter(model, np.full((3, 1), FAR), method=name, key=0).final
    assert final.mean.dtype == np.float64
    assert abs(final.mean[0] - FAR) < 5.0
    for value in (final.cov, final.variances):
        assert value is None or value.dtype == np.float64


@pytest.mark.parametrize("name", ["WoLF-StudentT", "KF-IW", "KF-Student", "KF-Ting", "KF-Huang", "RSTKF", "Learned"])
def test_reported_weights_are_at_most_one(name, tracking):
    ys = np.zeros((8, 2))  # fits so well that the noise is estimated below R
    out = wolf.filter(tracking, ys, method=name)
    assert out.weights.max() <= 1.0


def test_a_weight_above_one_is_used_in_the_update(tracking):
    ys = np.zeros((3, 2))
    student, plain = (wolf.filter(tracking, ys, method=name) for name in ("WoLF-StudentT", "KF"))
    assert (student.covs[:, 0, 0] < plain.covs[:, 0, 0]).all()


def exact_mixture(prior_var, rows, y):
    """Compute the exact mean and variance of a level after one measurement by several sensors with R = I."""
    model = level_observed_by(rows, prior_var)
    rule = AdaptiveScaleMixture()
    scales, weights = (np.longdouble(each) for each in rule.noise_estimate(rule.start(model))[:2])
    rows, y = np.longdouble(rows), np.longdouble(y)
    along, length = rows @ y, rows @ rows
    rest = y - rows * (along / length)
    variances = 1 / (1 / np.longdouble(prior_var) + length / scales)
    means = variances * along / scales
    distances = rest @ rest / scales + along**2 / length / (prior_var * length + scales)
    log_dets = (len(rows) - 1) * np.log(scales) + np.log(prior_var * length + scales)
    limit = float(far_distance(np.float64(len(rows))))
    heights = weights * np.exp(-0.5 * (distances + log_dets))
    lost = weights[-1] * np.exp(-0.5 * (limit + log_dets[-1]))
    heights, lost = heights / (heights.sum() + lost), lost / (heights.sum() + lost)
    mean = heights @ means
    return mean, heights @ (variances + (means - mean) ** 2) + lost * (prior_var + mean**2)


def level_observed_by(rows, prior_var):
    size = len(rows)
    return wolf.LinearModel(None, np.reshape(rows, (size, 1)), np.zeros((1, 1)), np.eye(size), [0.0], [[prior_var]])


@pytest.mark.thorough
@pytest.mark.parametrize("rows", [(0.3, -1.2, 0.8), (1.0, 1.0, 1.0), (1.0, 2.0), (1.0,)])
def test_the_default_is_the_exact_mixture_for_any_width_of_the_prior(rows, rng, x64):
    for prior_var in 10.0 ** np.arange(0, 18, 2):
        y = np.array(rows) * rng.normal() * prior_var**0.5 + rng.normal(size=len(rows))
        mean, variance = exact_mixture(prior_var, rows, y)
        for form in ("auto", "sqrt"):
            out = wolf.filter(level_observed_by(rows, prior_var), y[None], method=wolf.Learned(form=form))
            np.testing.assert_allclose(out.covs[0, 0, 0], float(variance), rtol=1e-6)
            assert abs(out.means[0, 0] - float(mean)) < 1e-6 * variance**0.5


@pytest.mark.parametrize("prior_var", [1e8, 1e10, 1e16])
def test_more_sensors_than_states_and_a_wide_prior_give_positive_variances(prior_var, rng):
    level = np.cumsum(rng.normal(size=(60, 40, 1)), axis=1) + prior_var**0.5 * rng.normal(size=(60, 1, 1))
    out = wolf.filter_many(level_observed_by((1.0, 1.0, 1.0), prior_var), level + rng.normal(size=(60, 40, 3)))
    assert (out.covs > 0).all()
    assert np.isfinite(out.log_liks).all()
    assert np.isfinite(out.weighted_log_liks).all()


def diffuse(states, measured, prior_var, rng):
    """Make a model that rotates its states, so that all become observable by few sensors."""
    rotation = np.linalg.qr(rng.normal(size=(states, states)))[0]
    H, eye = rng.normal(size=(measured, states)), np.eye(states)
    return wolf.LinearModel(rotation, H, 0.1 * eye, np.eye(measured), np.zeros(states), prior_var * eye)


@pytest.mark.parametrize("prior_var", [1e11, 1e16, 1e20])
@pytest.mark.parametrize(("states", "measured"), [(2, 1), pytest.param(12, 3, marks=pytest.mark.slow)])
def test_a_diffuse_prior_selects_the_square_root_form(states, measured, prior_var, rng):
    model, ys = diffuse(states, measured, prior_var, rng), rng.normal(size=(20, measured))
    for build in (wolf.KF, wolf.Learned):
        out, roots = (wolf.filter(model, ys, method=build(form=form)) for form in ("auto", "sqrt"))
        np.testing.assert_array_equal(out.covs, roots.covs)
        assert (np.diagonal(out.covs, axis1=1, axis2=2) > 0).all()


def test_an_ordinary_prior_keeps_the_given_form(rng):
    model = diffuse(2, 1, 1e8, rng)
    for method in (wolf.KF(), wolf.Learned(), wolf.methods.make("KF-Ting")):
        inner = wolf.execution.validate.resolve_method(method, model)
        assert getattr(inner, "form", None) == getattr(method, "form", None)
        assert getattr(getattr(inner, "filter", None), "form", "auto") == "auto"
        wide = wolf.execution.validate.resolve_method(method, diffuse(2, 1, 1e16, rng))
        assert getattr(wide, "filter", wide).form == "sqrt"


@pytest.mark.parametrize("name", ["IMM", "RSTKF", "Huber-KF", "MCKF"])
def test_a_huge_error_leaves_positive_variances(name, rng):
    ys = rng.normal(size=(30, 2))
    ys[5:8, 0] = 1e100
    out = wolf.filter(wolf.models.constant_velocity(2, 1.0, 0.1, 1e-6), ys, method=name)
    assert (np.diagonal(out.covs, axis1=1, axis2=2) >= 0).all()
    assert np.isfinite(out.log_liks).all()
