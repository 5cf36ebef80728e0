"""The optimiser of `wolf.fit` against scipy's, and batched scores against the filter differentiated by JAX."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

import wolf
from wolf.fitting.objective import Objective
from wolf.fitting.optimizer import minimize, run_search, search
from wolf.fitting.transforms import ParameterTransform


def rosenbrock(x):
    return np.array([optimize.rosen(row) for row in x]), np.array([optimize.rosen_der(row) for row in x])


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(2, 5))
def test_minimum_in_a_box_is_that_of_scipy(seed, size):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(size, size))
    curvature, centre = half @ half.T + 0.1 * np.eye(size), rng.normal(size=size)
    limits = [(-0.5, None), *[(None, 0.5)] * (size - 1)]

    def bowl(x):
        return 0.5 * np.einsum("pi,ij,pj->p", x - centre, curvature, x - centre), (x - centre) @ curvature

    starts = list(rng.uniform(-0.5, 0.5, (3, size)))
    exact = optimize.minimize(
        lambda x: [part[0] for part in bowl(x[None])], starts[0], jac=True, bounds=limits, options={"ftol": 1e-14}
    )
    for found in minimize(lambda x: bowl(x)[0], bowl, starts, limits):
        assert found.success
        assert found.fun <= exact.fun + 1e-7 * max(1.0, abs(exact.fun))


@pytest.mark.parametrize("size", [2, 4])
def test_bent_valley_is_followed_to_its_end(size):
    (found,) = minimize(lambda x: rosenbrock(x)[0], rosenbrock, [np.full(size, -1.5)], [(None, None)] * size)
    assert found.success
    np.testing.assert_allclose(found.x, 1.0, atol=1e-3)


def curved_rosenbrock(asked):
    points, _ = asked
    return *rosenbrock(points), np.array([optimize.rosen_hess(row) for row in points])


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(2, 5))
def test_minimum_with_curvature_in_a_box_is_that_of_scipy(seed, size):
    rng = np.random.default_rng(seed)
    limits = [(float(low), float(low + width)) for low, width in rng.uniform([-2.0, 0.2], [0.5, 2.0], (size, 2))]
    lows, highs = np.array(limits).T
    start = rng.uniform(lows, highs)
    (found,) = run_search(search([start], limits), curved_rosenbrock)
    exact = optimize.minimize(
        optimize.rosen, found.x, jac=optimize.rosen_der, bounds=limits, method="L-BFGS-B", options={"ftol": 1e-14}
    )
    assert found.success
    assert np.all((found.x >= lows) & (found.x <= highs))
    assert found.fun <= exact.fun + 1e-6 * max(1.0, abs(exact.fun))  # from there scipy finds nothing lower


def test_curvature_saves_most_of_the_steps():
    starts, limits = [np.full(4, -1.5)], [(None, None)] * 4
    (newton,) = run_search(search(starts, limits), curved_rosenbrock)
    (learned,) = minimize(lambda x: rosenbrock(x)[0], rosenbrock, starts, limits)
    np.testing.assert_allclose(newton.x, 1.0, atol=1e-4)
    assert newton.nfev < 0.7 * learned.nfev


def test_a_search_that_cannot_come_down_gives_up():
    def two_valleys(asked):  # of depths -2 and 0; the way down in the second one has no end
        x = asked[0][:, 0]
        first = x < 0.0
        value = np.where(first, (x + 2.0) ** 2 - 2.0, np.exp(-np.maximum(x, 0.0)))
        slope = np.where(first, 2.0 * (x + 2.0), -np.exp(-np.maximum(x, 0.0)))
        bend = np.where(first, 2.0, np.exp(-np.maximum(x, 0.0)))
        return value, slope[:, None], bend[:, None, None]

    deep, shallow = run_search(search([np.array([-3.0]), np.array([2.0])], [(None, None)]), two_valleys)
    assert deep.success
    assert deep.fun == pytest.approx(-2.0)
    assert not shallow.success
    assert "another search" in shallow.message


def test_search_steps_back_from_where_there_is_no_value():
    def walled(x):
        inside = x[:, 0] < 3.0
        return np.where(inside, -np.log(3.0 - np.minimum(x[:, 0], 2.999)) + x[:, 0] ** 2, 1e12), np.where(
            inside[:, None], 1.0 / (3.0 - np.minimum(x, 2.999)) + 2 * x, 0.0
        )

    (found,) = minimize(lambda x: walled(x)[0], walled, [np.array([2.9])], [(None, None)])
    assert found.success
    assert abs(float(walled(found.x[None])[1][0, 0])) < 1e-4


def seasonal(level_var, season_var, obs_var):
    parts = wolf.models.level(var=level_var), wolf.models.seasonal(4, var=season_var)
    return wolf.models.structural(*parts, obs_var=obs_var)


@pytest.mark.parametrize("two_part", [True, False])
def test_scores_of_many_points_are_those_of_the_filter(two_part):
    rng = np.random.default_rng(0)
    ys = np.cumsum(rng.normal(size=(2, 60, 1)), axis=1) + rng.normal(size=(2, 60, 1))
    ys[0, 7], ys[1, 20], ys[0, 30] = np.nan, 1e300, 90.0
    transform = ParameterTransform({"level_var": 1.0, "season_var": 0.1, "obs_var": 1.0}, {})
    problem = Objective(seasonal, transform, ys, None, None, two_part, False)
    next(problem.search(1, 0))
    assert problem.batch is not None
    free = np.concatenate([transform.start + 0.3, [-3.0, 4.0]]) if two_part else transform.start + 0.3
    value, slope = problem.loss(free)
    exact, derivative = problem._differentiate(free)
    assert value == pytest.approx(exact, rel=1e-12)
    np.testing.assert_allclose(slope, derivative, atol=1e-9)


def test_arrays_that_only_look_like_sums_are_found_out():
    def bent(level_var, obs_var):  # a sum in all that is tried at first, and not where the data lead
        return wolf.models.local_level(level_var=max(level_var, 2.0) if level_var < 4.0 else level_var, obs_var=obs_var)

    rng = np.random.default_rng(1)
    ys = np.cumsum(0.1 * rng.normal(size=300)) + rng.normal(size=300)
    start = {"level_var": 50.0, "obs_var": 1.0}
    found = wolf.fit(bent, ys, start=start, score="gaussian", restarts=0)
    assert found.model.Q[0, 0] == 2.0
    usual = wolf.filter(found.model, ys, method="KF").log_likelihood
    assert found.score == pytest.approx(float(usual), rel=1e-9)
