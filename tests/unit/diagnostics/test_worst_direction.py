"""Worst direction: the largest distance of a linear image of the unit sphere from a point."""

import numpy as np

from wolf.diagnostics.certificate.worst_direction import maximise_distance


def test_isotropic_map_points_away_from_the_target():
    z, squared = maximise_distance(3.0 * np.eye(2), np.array([4.0, 0.0]))
    np.testing.assert_allclose(z, [-1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(squared, 49.0)


def test_without_a_target_the_value_is_the_largest_squared_singular_value():
    maps = np.array([[3.0, 1.0], [0.0, 2.0], [1.0, 0.0]])
    _, squared = maximise_distance(maps, np.zeros(3))
    np.testing.assert_allclose(squared, np.linalg.norm(maps, 2) ** 2)
