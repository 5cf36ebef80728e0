"""Weights: range, order, formulas, extremes, gradients, wrappers, a user's own, and invariance to units."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import wolf
from wolf.inference.weights import evaluate

C = 3.0
DOF = 4.0
DIM = 3
TOP = (1 + DIM / DOF) ** 0.5  # of the Student-t weight
R = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 4.0]])
S = R + np.array([[3.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]])

# name: (weight, its power w² of the squared distance, the least upper bound of power * distance)
FAMILIES = {
    "IMQ": (wolf.IMQ(C), lambda q: 1 / (1 + q / C**2), C / 2),
    "MahalanobisIMQ": (wolf.MahalanobisIMQ(C), lambda q: 1 / (1 + q / C**2), C / 2),
    "MahalanobisThreshold": (wolf.MahalanobisThreshold(C), lambda q: 1.0 * (q <= C), C**0.5),
    "Welsch": (wolf.Welsch(C), lambda q: np.exp(-q / C**2), C / (2 * np.e) ** 0.5),
    "Tukey": (wolf.Tukey(C), lambda q: np.maximum(1 - q / C**2, 0) ** 2, 16 / 25 * C / 5**0.5),
    "Huber": (wolf.Huber(C), lambda q: np.minimum(1, C / np.sqrt(np.maximum(q, 1e-300))), C),
    "StudentT": (wolf.StudentWeight(DOF), lambda q: (DOF + DIM) / (DOF + q), (DOF + DIM) / (2 * DOF**0.5)),
}
METRICS = [name for name in FAMILIES if name != "IMQ"]
each_family = pytest.mark.parametrize("name", FAMILIES)
vectors = arrays(np.float64, DIM, elements=st.floats(-10, 10))
exponents = st.floats(-3, 298)


@pytest.fixture(autouse=True)
def in_float64(x64):
    return x64


compiled = jax.jit(evaluate)
slopes = jax.jit(jax.grad(evaluate, (0, 1)))


def weigh(weight, e, r=R, s=S):
    return np.asarray(compiled(weight, e, r, s, None))


def squared(e, cov):
    return e @ np.linalg.solve(cov, e)


def metric_of(weight):
    return {"R": R, "S": S}[weight.metric] if hasattr(weight, "metric") else np.eye(DIM)


@each_family
@given(e=vectors)
def test_power_is_the_stated_formula(name, e):
    weight, power, _ = FAMILIES[name]
    q = squared(e, metric_of(weight))
    if name != "MahalanobisThreshold" or abs(q - C) > 1e-9:
        np.testing.assert_allclose(weigh(weight, e) ** 2, power(q), rtol=1e-10, atol=1e-13)


@each_family
@given(e=vectors, exponent=exponents)
def test_weight_lies_between_zero_and_its_value_at_zero(name, e, exponent):
    weight = FAMILIES[name][0]
    top = TOP if name == "StudentT" else 1.0
    assert np.isclose(weigh(weight, np.zeros(DIM)), top, rtol=1e-15)
    assert 0 <= weigh(weight, e * 10**exponent) <= top * (1 + 1e-15)


@each_family
@given(e=vectors, exponent=exponents, stretch=st.floats(1, 10))
def test_weight_does_not_increase_along_a_ray(name, e, exponent, stretch):
    weight = FAMILIES[name][0]
    near = e * 10**exponent
    assert weigh(weight, stretch * near) <= weigh(weight, near) * (1 + 1e-12)


@each_family
@pytest.mark.parametrize(
    "direction", [[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1.0, -1e-8, 3.0]], ids=["axis", "diagonal", "slanted"]
)
def test_influence_is_bounded_as_theory_says_up_to_1e150(name, direction):
    weight, _, bound = FAMILIES[name]
    for radius in np.concatenate([np.geomspace(1e-2, 1e2, 60), np.geomspace(1e3, 1e150, 30)]):
        e = radius * np.array(direction)
        distance = np.linalg.norm(np.linalg.solve(np.linalg.cholesky(metric_of(weight)), e))
        assert weigh(weight, e) ** 2 * distance <= bound * (1 + 1e-9)


@pytest.mark.parametrize(
    ("weight", "tail"),
    [
        (wolf.IMQ(C), lambda d: C / d),
        (wolf.MahalanobisIMQ(C), lambda d: C / d),
        (wolf.Huber(C), lambda d: (C / d) ** 0.5),
        (wolf.StudentWeight(DOF), lambda d: (DOF + 2) ** 0.5 / d),
    ],
    ids=["IMQ", "MahalanobisIMQ", "Huber", "StudentT"],
)
@pytest.mark.parametrize("e", [(1e150, 1e140), (1e200, 1e150), (1e300, 1e300), (1e139, 1e138)])
def test_weight_is_right_where_squares_overflow(weight, tail, e):
    np.testing.assert_allclose(weigh(weight, np.array(e), np.eye(2), np.eye(2)), tail(np.hypot(*e)), rtol=1e-12)


@each_family
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
@pytest.mark.parametrize("signs", [(1, 1, 1), (1, -1, 1), (0, 0, -1)])
def test_weight_is_never_nan_up_to_a_distance_of_1e300(name, signs, scale):
    for distance in (1e100, 1e155, 1e200, 1e300):
        e = min(distance * scale**0.5, 1e307) * np.array(signs)
        w = weigh(FAMILIES[name][0], e, scale * R, scale * S)
        assert 0 <= w <= TOP


@each_family
@pytest.mark.parametrize("size", [0.0, 1.0, 1e10, 1e19, 1e30, 3e38])
def test_float32_weight_is_float32_and_never_nan(name, size):
    e, r, s = (jnp.asarray(x, jnp.float32) for x in (size * np.array([1.0, -1.0, 0.5]), R, S))
    w = evaluate(FAMILIES[name][0], e, r, s, None)
    assert w.dtype == jnp.float32
    assert 0 <= w <= 1.01 * TOP


@each_family
@pytest.mark.parametrize("size", [0.0, 1.0, 1e150, 1e300])
def test_gradients_in_residual_and_threshold_are_finite(name, size):
    by_weight, by_residual = slopes(FAMILIES[name][0], size * np.array([1.0, -1.0, 0.5]), R, S, None)
    assert np.isfinite(by_residual).all()
    assert all(np.isfinite(leaf) for leaf in jax.tree.leaves(by_weight))


@each_family
@given(e=arrays(np.float64, DIM, elements=st.floats(-4, 4)))
def test_gradients_match_finite_differences(name, e):
    weight = FAMILIES[name][0]
    step = 1e-6
    square = squared(e, metric_of(weight))
    if name in ("Tukey", "Huber", "MahalanobisThreshold") and min(abs(square - C), abs(square - C**2)) < 1e-2:
        return  # at their kinks there is no derivative
    got = slopes(weight, e, R, S, None)[1]
    ends = [[weigh(weight, e + sign * step * axis) for sign in (1, -1)] for axis in np.eye(DIM)]
    np.testing.assert_allclose(got, [(up - down) / (2 * step) for up, down in ends], atol=1e-8)


@pytest.mark.parametrize("name", METRICS)
@given(e=vectors, scale=st.floats(0.1, 10))
def test_metric_says_which_covariance_counts(name, e, scale):
    family = type(FAMILIES[name][0])
    by_noise, by_innovation = family(C, metric="R"), family(C, metric="S")
    assert weigh(by_noise, e, R, S) == weigh(by_noise, e, R, scale * S)
    assert weigh(by_innovation, e, R, S) == weigh(by_innovation, e, scale * R, S)
    assert weigh(by_noise, e, R, S) == weigh(by_innovation, e, S, R)


@each_family
@given(e=vectors)
def test_per_coordinate_weighs_each_variance_alone(name, e):
    weight = FAMILIES[name][0]
    alone = [weigh(weight, e[i : i + 1], R[i : i + 1, i : i + 1], S[i : i + 1, i : i + 1]) for i in range(DIM)]
    np.testing.assert_allclose(weigh(wolf.PerCoordinate(weight), e), alone, rtol=1e-14)


@each_family
@pytest.mark.parametrize("groups", [(0, 1, 1), (5, 2, 5), (0, 0, 0)])
@given(e=vectors)
def test_per_group_weighs_each_correlated_block_jointly(name, groups, e):
    weight = FAMILIES[name][0]
    expected = np.empty(DIM)
    for group in set(groups):
        rows = np.flatnonzero(np.equal(groups, group))
        expected[rows] = weigh(weight, e[rows], R[np.ix_(rows, rows)], S[np.ix_(rows, rows)])
    np.testing.assert_allclose(weigh(wolf.PerGroup(weight, groups), e), expected, rtol=1e-14)


def test_per_group_refuses_a_wrong_number_of_coordinates():
    with pytest.raises(ValueError, match="groups must have one entry for each of 3 coordinates; got 2"):
        weigh(wolf.PerGroup(wolf.IMQ(C), (0, 1)), np.ones(DIM))


def gate(residual, obs_cov, innovation_cov):
    return jnp.where(residual @ jnp.linalg.solve(innovation_cov, residual) <= 9.0, 1.0, 0.0)


class Gate:
    def __call__(self, residual, obs_cov, innovation_cov):
        return gate(residual, obs_cov, innovation_cov)


@pytest.mark.parametrize(
    ("mine", "wrap"),
    [
        (gate, lambda w: w),
        (Gate(), lambda w: w),
        (gate, wolf.PerCoordinate),
        (Gate(), lambda w: wolf.PerGroup(w, (0, 1))),
    ],
    ids=["function", "class", "function per coordinate", "class per group"],
)
def test_users_own_weight_does_what_the_built_in_one_does(mine, wrap, tracking, rng):
    ys = 10 * rng.standard_t(2, (2, 30, 2))
    own, built_in = wolf.WoLF(wrap(mine)), wolf.WoLF(wrap(wolf.MahalanobisThreshold(9.0, metric="S")))
    expected = wolf.filter(tracking, ys[1], method=built_in)
    assert expected.outliers.any()
    one, many = wolf.filter(tracking, ys[1], method=own), wolf.filter_many(tracking, ys, method=own)[1]
    for out in (one, many):
        np.testing.assert_allclose(out.means, expected.means, atol=1e-10)
        np.testing.assert_array_equal(out.weights, expected.weights)


def not_a_number_far_away(residual, obs_cov, innovation_cov):
    return jnp.where(jnp.abs(residual[0]) > 1e7, jnp.nan, 1.0)


def test_an_update_that_breaks_down_leaves_the_prediction(tracking):
    out = wolf.filter(tracking, np.full((3, 2), 1e8), method=wolf.WoLF(not_a_number_far_away))
    np.testing.assert_array_equal(out.means, out.predicted_means)
    np.testing.assert_array_equal(out.covs, out.predicted_covs)
    assert (out.weights == 0).all()


@pytest.mark.parametrize("name", METRICS)
@given(entries=arrays(np.float64, (2, 2), elements=st.floats(-3, 3)))
def test_joint_weight_in_the_innovation_metric_ignores_the_units_of_y(name, entries):
    (a, b), (c, d) = entries
    unit = entries if abs(a * d - b * c) > 0.1 else entries + 7 * np.eye(2)
    model = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
    ys = 10 * np.random.default_rng(0).standard_t(2, (20, 2))
    turned = wolf.LinearModel(model.F, unit @ model.H, model.Q, unit @ model.R @ unit.T, model.mean, model.cov)
    method = wolf.WoLF(type(FAMILIES[name][0])(C, metric="S"))
    before, after = wolf.filter(model, ys, method=method), wolf.filter(turned, ys @ unit.T, method=method)
    np.testing.assert_allclose(after.weights, before.weights, atol=1e-10)
    np.testing.assert_allclose(after.means, before.means, atol=1e-9)
