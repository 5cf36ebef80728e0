"""Diffuse prior: half the log of the variance ratio per diffuse state that the data determine."""

import numpy as np
import pytest

import wolf
from wolf.fitting.diffuse_prior import DiffusePrior, prior_variances

MODEL = wolf.LinearModel(np.eye(2), [[1.0, 0.0]], np.eye(2), [[1.0]], np.zeros(2), np.diag([1e6, 1.0]))


def test_cost_is_half_the_log_ratio_of_the_diffuse_state():
    diffuse = DiffusePrior(MODEL, np.zeros((1, 10, 1)))
    assert diffuse.diffuse_states.tolist() == [0]
    assert diffuse.cost(np.array([1e8, 5.0])) == pytest.approx(0.5 * np.log(100.0))


def test_gradient_is_that_of_half_the_log_variance():
    diffuse = DiffusePrior(MODEL, np.zeros((1, 10, 1)))
    gradient = diffuse.gradient(prior_variances(MODEL), np.array([[2e6, 3.0], [0.0, 1.0]]))
    np.testing.assert_allclose(gradient, [1.0, 0.0])


def test_without_measurements_there_is_no_cost():
    assert DiffusePrior(MODEL, np.full((1, 10, 1), np.nan)).cost(np.array([1e8, 5.0])) == 0.0
