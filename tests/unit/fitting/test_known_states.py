"""Fits to known states, with exogenous variables, and their summaries."""

from functools import partial

import numpy as np
import pytest

import wolf

TRUTH = wolf.models.local_level(level_var=0.1, obs_var=1.0, prior=wolf.Gaussian([0.0], [[1.0]]))
PRIOR = TRUTH.prior
STEPS = 2_000


def build(level_var, obs_var):
    return wolf.models.local_level(level_var, obs_var, PRIOR)


def test_known_states_give_the_noise_of_the_model():
    run = wolf.simulate.trajectory(TRUTH, STEPS, key=11)
    found = wolf.fit(build, run.measurements, states=run.states, restarts=0)
    assert found.parameters["level_var"] == pytest.approx(0.1, rel=0.25)
    assert found.parameters["obs_var"] == pytest.approx(1.0, rel=0.25)
    best = np.sqrt(np.mean((wolf.filter(TRUTH, run.measurements, method="KF").means - run.states) ** 2))
    assert found.states_rmse <= best * (1 + 1e-4)  # the tolerance of the search


def test_fit_to_states_beats_the_noise_as_measured_where_the_model_is_wrong():
    """A level that moves in a sine is no random walk: the variance of its steps is too small for a Kalman filter."""
    steps = np.arange(2 * STEPS)
    states = 10 * np.sin(2 * np.pi * steps / 100)[:, None]
    ys = states + np.random.default_rng(7).normal(size=states.shape)
    half = slice(STEPS)
    found = wolf.fit(build, ys[half], states=states[half], restarts=0)
    measured = build(np.var(np.diff(states[half, 0])), np.var(ys[half] - states[half]))

    def rmse(model):
        return np.sqrt(np.mean((wolf.filter(model, ys[STEPS:], method="KF").means - states[STEPS:]) ** 2))

    assert rmse(found.model) < 0.97 * rmse(measured)


def test_states_may_be_unknown_in_part_and_have_any_units():
    truth = wolf.models.constant_velocity(dims=1, dt=1.0, dynamics_var=0.1, obs_var=4.0)
    run = wolf.simulate.trajectory(truth, STEPS, key=3)
    states = np.array(run.states)
    states[:, 1] = np.nan
    builder = partial(wolf.models.constant_velocity, 1, 1.0)
    found = wolf.fit(builder, run.measurements, states=states, restarts=0)
    ratio = found.parameters["dynamics_var"] / found.parameters["obs_var"]
    assert ratio == pytest.approx(0.1 / 4.0, rel=0.4)
    with pytest.raises(ValueError, match=r"states must have shape \(2000, 2\)"):
        wolf.fit(builder, run.measurements, states=states[:-1])


def test_a_drifting_coefficient_is_followed():
    rng = np.random.default_rng(5)
    x, beta = rng.normal(size=STEPS), np.cumsum(0.1 * rng.normal(size=STEPS))
    ys = beta * x + 0.3 * rng.normal(size=STEPS)
    found = wolf.fit(build, ys, exog=x, exog_drift=True, restarts=0)
    assert found.parameters["x1_var"] == pytest.approx(0.01, rel=0.4)
    out = wolf.filter(found.model, ys)
    assert np.sqrt(np.mean((out.means[50:, 1] - beta[50:]) ** 2)) < 0.3
    with pytest.raises(ValueError, match="exog_drift names rain; the variables are x1"):
        wolf.fit(build, ys, exog=x, exog_drift=["rain"])


def test_exogenous_variables_with_gaps_and_of_another_length_are_named():
    with pytest.raises(ValueError, match="exog must be finite, and is not in row 1"):
        wolf.models.with_exogenous(TRUTH, [0.0, np.nan])
    with pytest.raises(ValueError, match="H has 5 time steps"):
        wolf.filter(wolf.models.with_exogenous(TRUTH, np.arange(5.0)), np.zeros(9))
    out = wolf.filter(wolf.models.with_exogenous(TRUTH, np.arange(5.0)), np.zeros(5))
    with pytest.raises(ValueError, match=r"exog must have shape \(2, 1\)"):
        wolf.forecast(out, 2, exog=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="exog= of the future goes with a model"):
        wolf.forecast(wolf.filter(TRUTH, np.zeros(5)), 2, exog=[1.0, 2.0])
