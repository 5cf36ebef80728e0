"""Finite differences: exact for quadratic functions up to rounding."""

import numpy as np

from wolf.fitting.finite_differences import FAILED_LOSS, differentiate, stencil

HESSIAN = np.array([[2.0, 0.5], [0.5, 1.0]])


def quadratic(points):
    return 0.5 * np.einsum("pi,ij,pj->p", points, HESSIAN, points)


def test_derivatives_of_a_quadratic_are_exact():
    points = np.array([[0.3, -0.7], [1.0, 2.0]])
    values, gradients, hessians = differentiate(quadratic(stencil(points, 2)), points, 2)
    np.testing.assert_allclose(values, quadratic(points))
    np.testing.assert_allclose(gradients, points @ HESSIAN, atol=1e-10)
    np.testing.assert_allclose(hessians, np.broadcast_to(HESSIAN, (2, 2, 2)), atol=1e-6)


def test_a_failed_neighbour_makes_the_point_fail():
    points = np.array([[0.3, -0.7]])
    losses = quadratic(stencil(points, 1))
    losses[2] = FAILED_LOSS
    values, gradients, _ = differentiate(losses, points, 1)
    assert values[0] == FAILED_LOSS
    assert not gradients.any()
