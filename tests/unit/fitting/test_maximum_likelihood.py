"""Fitting: variances are recovered under outliers, gradients are derivatives, standard errors are calibrated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import wolf
from wolf.fitting import student_score
from wolf.fitting.affine_in_parameters import AffineArrays
from wolf.fitting.initial_values import difference_var
from wolf.fitting.objective import Objective
from wolf.fitting.transforms import ParameterTransform
from wolf.inference.noise import ContaminatedGaussian

STEPS = 10_000
PRIOR = wolf.Gaussian([0.0], [[1.0]])


def level_model(level_var, obs_var):
    return wolf.models.local_level(level_var, obs_var, PRIOR)


def readings(prob, seed, steps=STEPS):
    outliers = wolf.simulate.Additive(prob, -50.0, 50.0)
    return wolf.simulate.trajectory(level_model(0.1, 1.0), steps, seed, outliers).measurements


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("prob", [0.0, 0.05, 0.1])
def test_noise_levels_are_recovered_at_any_share_of_outliers(prob, seed):
    found = wolf.fit(level_model, readings(prob, seed), restarts=0)
    assert found.converged
    assert found.parameters["obs_var"] == pytest.approx(1.0, rel=0.1)
    assert found.parameters["level_var"] == pytest.approx(0.1, rel=0.2)
    assert found.outlier_share == pytest.approx(prob, abs=0.012)


def test_the_gaussian_score_is_not_robust():
    found = wolf.fit(level_model, readings(0.05, 1), score="gaussian", restarts=0)
    assert found.parameters["obs_var"] > 10.0


@pytest.mark.parametrize("process", [wolf.simulate.Additive(0.1, 0.0, 10.0), wolf.simulate.Additive(0.05, -1e6, 1e6)])
def test_small_one_sided_and_huge_outliers_do_not_spoil_the_fit(process):
    ys = wolf.simulate.trajectory(level_model(0.1, 1.0), STEPS, 5, process).measurements
    found = wolf.fit(level_model, ys, restarts=0)
    assert found.parameters["obs_var"] == pytest.approx(1.0, rel=0.1)
    assert found.parameters["level_var"] == pytest.approx(0.1, rel=0.2)


def test_huge_outliers_on_a_quiet_level_do_not_trap_the_search():
    quiet = level_model(0.001, 1.0)
    ys = wolf.simulate.trajectory(quiet, 1000, 3, wolf.simulate.Additive(0.08, -1e4, 1e4)).measurements
    found = wolf.fit(wolf.models.local_level, ys)  # there is a local optimum where the level follows every reading
    assert found.parameters["obs_var"] == pytest.approx(1.0, rel=0.2)


def test_gaussian_fit_is_the_maximum_likelihood_of_statsmodels():
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    ys = readings(0.0, 4, 500)
    found = wolf.fit(level_model, ys, score="gaussian", update_first=True)
    other = UnobservedComponents(ys.ravel(), "llevel")
    other.initialize_known(np.zeros(1), np.eye(1))
    result = other.fit(disp=False)
    obs_var, level_var = result.params
    assert found.parameters["obs_var"] == pytest.approx(obs_var, rel=1e-3)
    assert found.parameters["level_var"] == pytest.approx(level_var, rel=5e-3)
    assert found.score == pytest.approx(result.llf_obs.sum(), abs=1e-3)  # burns nothing in, as we do not


def seasonal(level_var, season_var, obs_var):
    parts = wolf.models.level(var=level_var), wolf.models.seasonal(12, var=season_var)
    return wolf.models.structural(*parts, obs_var=obs_var)


def test_a_vague_prior_does_not_draw_the_fit_away_from_the_diffuse_likelihood(rng):
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    steps = np.arange(120)
    ys = np.cumsum(0.5 * rng.normal(size=120)) + 3 * np.sin(2 * np.pi * steps / 12) + rng.normal(size=120)
    found = wolf.fit(seasonal, ys, score="gaussian").parameters
    other = UnobservedComponents(ys, "llevel", seasonal=12, use_exact_diffuse=True).fit(disp=False)
    obs_var, level_var, season_var = other.params
    assert found["obs_var"] == pytest.approx(obs_var, rel=1e-2)
    assert found["level_var"] == pytest.approx(level_var, rel=1e-2)
    assert found["season_var"] == pytest.approx(season_var, abs=1e-3)
    robust = wolf.fit(seasonal, ys).parameters
    assert robust["obs_var"] == pytest.approx(obs_var, rel=0.3)


@pytest.mark.parametrize("affine", [False, True])
def test_gradient_is_the_derivative_of_the_score(affine):
    transform = ParameterTransform({"level_var": 0.3, "obs_var": 2.0}, {})
    problem = Objective(level_model, transform, readings(0.1, 1, 200), None, None, True, False, affine)
    free = np.array([-1.0, 0.5, -2.0, 3.0])
    slope = problem.loss(free)[1]
    for k, step in enumerate(1e-4 * np.eye(4)):
        difference = (problem.loss(free + step)[0] - problem.loss(free - step)[0]) / 2e-4
        assert slope[k] == pytest.approx(difference, rel=1e-6)


@pytest.mark.parametrize("score", ["two-part", "gaussian"])
def test_a_sum_of_variances_is_fitted_alike_by_its_parts(score):
    ys = readings(0.1, 1, 300)
    built, summed = (wolf.fit(level_model, ys, score=score, affine=affine) for affine in (False, True))
    assert summed.parameters == pytest.approx(built.parameters, rel=1e-5)
    assert summed.errors == pytest.approx(built.errors, rel=1e-3)


def test_rounding_is_not_taken_for_a_part_of_a_sum():
    affine = AffineArrays(lambda x: np.array([x[0] + x[1] / 3, 1e-14]), np.array([1e5, 7.0]))
    np.testing.assert_allclose(affine.at(np.array([1e-5, 1e-6])), [1e-5 + 1e-6 / 3, 1e-14], rtol=1e-9)


def test_model_that_is_not_affine_is_rejected():
    with pytest.raises(ValueError, match="affine=True"):
        wolf.fit(lambda sd: static_level(sd**2), np.arange(50.0) % 7, start={"sd": 1.0}, affine=True)


def test_one_kernel_and_the_usual_loop_have_the_same_score():
    transform = ParameterTransform({"level_var": 0.3, "obs_var": 2.0}, {})
    problem = Objective(level_model, transform, readings(0.1, 1, 200), None, None, True, False)
    free = np.array([-1.0, 0.5, -2.0, 3.0])
    fused = problem.loss(free)
    problem.fused = False
    usual = problem.loss(free)
    assert fused[0] == pytest.approx(usual[0], rel=1e-12)
    np.testing.assert_allclose(fused[1], usual[1], rtol=1e-9)


def static_level(obs_var):
    return wolf.LinearModel(F=None, H=[[1.0]], Q=[[0.0]], R=[[obs_var]], mean=[0.0], cov=[[1e-12]])


def test_standard_error_of_a_variance_is_the_closed_form(rng):
    ys = rng.normal(size=4000)
    found = wolf.fit(static_level, ys, score="gaussian", restarts=0)
    assert found.parameters["obs_var"] == pytest.approx(np.mean(ys**2), rel=1e-5)
    assert found.errors["obs_var"] == pytest.approx(np.mean(ys**2) * np.sqrt(2 / len(ys)), rel=1e-3)


@pytest.mark.thorough
def test_many_series_share_their_parameters():
    ys = np.stack([readings(0.05, seed, 1000) for seed in range(4)])
    together = wolf.fit(level_model, ys, restarts=0)
    ragged = wolf.fit(level_model, [*ys[:3], ys[3][:700]], restarts=0)
    assert together.parameters["obs_var"] == pytest.approx(1.0, rel=0.1)
    assert ragged.count == 3700
    assert ragged.parameters["obs_var"] == pytest.approx(together.parameters["obs_var"], rel=0.05)


def test_missing_rows_do_not_count():
    ys = readings(0.05, 1, 1000)
    longer = np.concatenate([ys, np.full((500, 1), np.nan)])
    first, second = (wolf.fit(level_model, each, restarts=0) for each in (ys, longer))
    assert second.count == first.count == 1000
    assert second.score == pytest.approx(first.score, rel=1e-9)


def test_uneven_times_are_fitted_by_the_continuous_model(rng):
    times = np.cumsum(rng.exponential(1.0, 300))
    truth = wolf.models.wiener_level(times, 0.1, 1.0, PRIOR)
    ys = wolf.simulate.trajectory(truth, 300, 1, wolf.simulate.Additive(0.05, -50.0, 50.0)).measurements

    gaps = wolf.models.time_steps(times)[:, None, None]

    def build(var_rate, obs_var):  # wiener_level written out: its matrix exponentials would be most of the time
        return wolf.LinearModel(F=None, H=[[1.0]], Q=var_rate * gaps, R=[[obs_var]], mean=[0.0], cov=[[1.0]])

    np.testing.assert_allclose(build(0.1, 1.0).Q, truth.Q, atol=1e-12)
    found = wolf.fit(build, ys, restarts=0)
    assert found.parameters["obs_var"] == pytest.approx(1.0, abs=3 * found.errors["obs_var"])
    assert found.parameters["var_rate"] == pytest.approx(0.1, abs=3 * found.errors["var_rate"])


def test_search_starts_at_the_given_values():
    given = {"rate": 0.3, "obs_var": 2.0, "shift": -4.0}
    transform = ParameterTransform(given, {"rate": (-1.0, 1.0), "shift": "real"})
    assert transform.natural(transform.start) == pytest.approx(given)


def test_what_is_held_is_not_fitted():
    ys = readings(0.1, 1, 500)
    found = wolf.fit(level_model, ys, hold={"obs_var": 4.0}, restarts=0)
    assert list(found.parameters) == ["level_var"]
    assert found.model.R == 4.0
    alone = wolf.fit(lambda level_var: level_model(level_var, 4.0), ys, restarts=0)
    assert found.parameters["level_var"] == pytest.approx(alone.parameters["level_var"], rel=1e-6)
    (many,) = wolf.fit_many(level_model, [ys], hold={"obs_var": 4.0}, restarts=0)
    assert many.parameters["level_var"] == pytest.approx(alone.parameters["level_var"], rel=1e-3)


def test_steep_trend_does_not_inflate_the_noise():
    """Outliers that are small beside the step of every row are found, where the model has a slope."""
    trend = wolf.models.local_trend(0.01, 1e-4, 1.0, wolf.Gaussian([0.0, 500.0], np.eye(2)))
    ys = wolf.simulate.trajectory(trend, 300, 0, wolf.simulate.Additive(0.1, -30.0, 30.0)).measurements
    found = wolf.fit(wolf.models.local_trend, ys, restarts=1)
    assert found.parameters["obs_var"] == pytest.approx(1.0, abs=3 * found.errors["obs_var"])
    assert found.outlier_share == pytest.approx(0.1, abs=0.04)


def test_parameters_of_functions_are_fitted_too():
    def build(rate):
        move = jax.tree_util.Partial(decay, rate)
        return wolf.StateSpaceModel(move, see, [[0.1]], [[0.1]], wolf.Gaussian([1.0], [[1.0]]))

    ys = wolf.simulate.trajectory(build(0.8), 2000, 1).measurements
    found = wolf.fit(build, ys, start={"rate": 0.3}, bounds={"rate": (-1.0, 1.0)}, restarts=0)
    assert found.parameters["rate"] == pytest.approx(0.8, abs=4 * found.errors["rate"])
    assert 0.005 < found.errors["rate"] < 0.05


def decay(rate, x):
    return rate * x


def see(x):
    return x


def test_functions_defined_inside_a_builder_are_rejected():
    def build(rate):
        return wolf.StateSpaceModel(lambda x: rate * x, see, [[0.1]], [[0.1]], wolf.Gaussian([1.0], [[1.0]]))

    with pytest.raises(ValueError, match="outside the builder"):
        wolf.fit(build, np.arange(10.0), start={"rate": 0.3})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"ys": np.full(50, 3.0)}, "a constant series has no noise"),
        ({"ys": np.full(50, np.nan)}, "fewer than two"),
        ({"ys": [1.0]}, "fewer than two"),
        ({"ys": [1.0, 2.0, 1.5]}, "at least 4 values"),
        ({"ys": np.arange(50.0), "score": "t"}, "two-part"),
        ({"ys": np.arange(50.0), "restarts": -1}, "restarts"),
        ({"ys": np.arange(50.0), "start": {"level": 1.0}}, "level_var"),
        ({"ys": np.arange(50.0), "start": {"obs_var": -1.0}}, "above 0"),
        ({"ys": np.arange(50.0), "start": {"obs_var": np.nan}}, "finite"),
        ({"ys": np.arange(50.0), "bounds": {"obs_var": (2.0, 1.0)}}, "pair"),
        ({"ys": np.arange(50.0), "bounds": {"q": (1.0, 2.0)}}, "parameters are"),
        ({"ys": np.arange(50.0), "hold": {"q": 1.0}}, "hold names q, which the builder does not take"),
        ({"ys": np.arange(50.0), "hold": {"obs_var": 1.0}, "start": {"obs_var": 2.0}}, "both hold and start"),
        ({"ys": np.arange(50.0), "hold": {"obs_var": 1.0, "level_var": 1.0}}, "all of them are held"),
        ({"ys": np.arange(50.0), "hold": "obs_var"}, "hold"),
        ({"ys": np.arange(50.0), "method": 3}, "method"),
    ],
)
def test_invalid_arguments_raise(arguments, words):
    with pytest.raises(ValueError, match=words):
        wolf.fit(level_model, **arguments)


def test_a_parameter_without_a_guess_is_asked_for():
    with pytest.raises(ValueError, match="first guess for phi"):
        wolf.fit(lambda phi: level_model(phi, 1.0), np.arange(50.0))


def test_repr_shows_parameters_and_convergence():
    text = repr(wolf.fit(level_model, readings(0.1, 1, 500)))
    assert text.startswith("Fit: converged")
    assert all(word in text for word in ("level_var", "obs_var", "±", "outliers", "3 of 3 starts"))


def test_difference_var_is_near_that_of_clean_steps():
    ys = readings(0.1, 1)
    assert difference_var(ys) == pytest.approx(0.1 + 2.0, rel=1.0)  # only a start


def test_two_part_update_has_the_moments_of_the_mixture(x64):
    share, widen, obs_var, prior = 0.2, 50.0, 0.7, stats.norm(0.3, 1.1)
    residual_sd = np.sqrt(1.1**2 + obs_var)
    model = wolf.LinearModel(None, [[1.0]], [[0.0]], [[obs_var]], [0.3], [[1.1**2]])
    for y in (0.5, 3.0, 5.5, 40.0):

        def density(x, y=y):  # an outlier says nothing about x: its density is that of the residual alone
            good = (1 - share) * stats.norm.pdf(y, x, np.sqrt(obs_var))
            return prior.pdf(x) * (good + share * stats.norm.pdf(y - 0.3, 0.0, np.sqrt(widen) * residual_sd))

        grid = {"points": [0.3, y], "limit": 400}
        total, mean, square = (integrate.quad(lambda x, k=k: x**k * density(x), -15, 15, **grid)[0] for k in range(3))
        out = wolf.filter(model, [y], method=wolf.GaussianFilter(noise=ContaminatedGaussian(share, widen)))
        assert out.means[0, 0] == pytest.approx(mean / total, rel=1e-7)
        assert out.covs[0, 0, 0] == pytest.approx(square / total - (mean / total) ** 2, rel=1e-6)
        count = jnp.ones(())
        log_density = student_score.log_two_part(out.log_liks[0], out.nis[0], count, share, widen)
        assert float(log_density) == pytest.approx(np.log(total), rel=1e-7)


def test_two_part_update_in_two_dimensions_mixes_prediction_and_kalman_update(rng):
    model = wolf.models.constant_velocity(dims=2, dt=1.0, dynamics_var=0.2, obs_var=1.5)
    y = np.array([[3.0, -2.5]])
    kalman = wolf.filter(model, y, method="KF")
    mixed = wolf.filter(model, y, method=wolf.GaussianFilter(noise=ContaminatedGaussian(0.3, 30.0)))
    residual, cov = kalman.residuals[0], kalman.innovation_covs[0]
    good = 0.7 * stats.multivariate_normal.pdf(residual, cov=cov)
    bad = 0.3 * stats.multivariate_normal.pdf(residual, cov=30.0 * cov)
    p = good / (good + bad)
    gap = kalman.means[0] - kalman.predicted_means[0]
    np.testing.assert_allclose(mixed.means[0], kalman.predicted_means[0] + p * gap, rtol=1e-9)
    spread = p * (1 - p) * np.outer(gap, gap)
    expected = p * kalman.covs[0] + (1 - p) * kalman.predicted_covs[0] + spread
    np.testing.assert_allclose(mixed.covs[0], expected, rtol=1e-9, atol=1e-12)


def test_student_score_is_the_density_of_scipy(x64, rng):
    cov = np.array([[2.0, 0.3], [0.3, 0.5]])
    for residual in rng.normal(size=(5, 2)) * 3:
        nis = residual @ np.linalg.solve(cov, residual)
        gaussian = stats.multivariate_normal.logpdf(residual, cov=cov)
        expected = stats.multivariate_t.logpdf(residual, shape=cov, df=4.0)
        assert float(student_score.log_student(gaussian, nis, 2.0)) == pytest.approx(expected, rel=1e-10)


def test_fitting_many_finds_what_fitting_each_does():
    """Of different lengths, with holes; the second is so long that the others are padded."""
    series = [readings(0.1, seed, 200 - 20 * (seed % 3)) for seed in range(4)]
    series[2] = np.where(np.arange(len(series[2]))[:, None] % 9 == 0, np.nan, series[2].reshape(-1, 1))
    fits = wolf.fit_many(level_model, series, restarts=1)
    for many, ys in zip(fits, series, strict=True):
        one = wolf.fit(level_model, ys, restarts=1)
        assert many.score == pytest.approx(one.score, abs=1e-6 * one.count)
        assert many.count == one.count
        for name, value in one.parameters.items():
            assert many.parameters[name] == pytest.approx(value, rel=1e-3)


def test_fitting_many_without_native_code_goes_one_by_one(monkeypatch):
    series = [readings(0.1, seed, 200) for seed in range(2)]
    quick = wolf.fit_many(level_model, series, restarts=0)
    monkeypatch.setattr(wolf.execution.backend_selection.llvm_jit, "available", lambda: "llvmlite is not installed")
    for slow, fit in zip(wolf.fit_many(level_model, series, restarts=0), quick, strict=True):
        assert slow.score == pytest.approx(fit.score, abs=1e-6 * fit.count)


@pytest.mark.parametrize(
    ("ys", "words"),
    [([1.0, 2.0, 3.0], "Use wolf.fit for one series"), ([np.arange(30.0), np.ones(30)], "series 1: all values are 1")],
)
def test_fit_many_names_the_invalid_series(ys, words):
    with pytest.raises(ValueError, match=words):
        wolf.fit_many(level_model, ys)


def test_what_ends_at_its_limits_has_no_errors():
    """A constant: all variances go to zero."""
    level = wolf.models.local_level(0.01, 1.0)
    found = wolf.fit(lambda q, r: level.scaled(q, r), np.ones(8), start={"q": 1.0, "r": 1.0}, restarts=0)
    assert max(found.parameters.values()) < 1e-6
    assert all(np.isnan(error) for error in found.errors.values())
