"""Steps of a local search: exact minima of quadratic functions."""

import numpy as np

from wolf.fitting.local_search import LocalSearch, minimize_quadratic_in_box


def test_quadratic_minimum_inside_the_box_is_the_newton_step():
    hessian, gradient = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, -2.0])
    step = minimize_quadratic_in_box(hessian, gradient, np.full(2, -9.0), np.full(2, 9.0))
    np.testing.assert_allclose(step, -np.linalg.solve(hessian, gradient), rtol=1e-13)


def test_active_limit_shifts_the_other_component():
    # min x² + xy + 3/2 y² + x - 2y with y <= 0.5: y = 0.5, then 2x + 0.5 + 1 = 0.
    hessian, gradient = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, -2.0])
    step = minimize_quadratic_in_box(hessian, gradient, np.full(2, -9.0), np.array([9.0, 0.5]))
    np.testing.assert_allclose(step, [-0.75, 0.5], rtol=1e-13)


def test_negative_curvature_changes_its_sign():
    step = minimize_quadratic_in_box(np.diag([-2.0, 1.0]), np.array([1.0, 1.0]), np.full(2, -9.0), np.full(2, 9.0))
    np.testing.assert_allclose(step, [-0.5, -1.0], rtol=1e-13)


def test_newton_step_of_a_quadratic_reaches_its_minimum():
    hessian, centre = np.diag([1.0, 4.0]), np.array([0.5, -1.0])
    search = LocalSearch(np.zeros(2), 0.0, hessian @ -centre, hessian)
    np.testing.assert_allclose(search.next_step(np.full(2, -9.0), np.full(2, 9.0)), centre, rtol=1e-13)
