"""Sampling intervals: typical steps, even and uneven gaps, the order of rows with equal times."""

import numpy as np

from wolf.cleaning.sampling import Order, gaps_of, steps_on_grid


def test_gaps_are_relative_to_the_median_step():
    unit, gaps = gaps_of(np.array([0.0, 10.0, 20.0, 60.0, 70.0]))
    assert unit == 10.0
    np.testing.assert_array_equal(gaps, [1.0, 1.0, 1.0, 4.0, 1.0])
    assert steps_on_grid(np.array([1.0, 1.0, 1.0, 1.0, 2.0])).tolist() == [0, 1, 2, 3, 5]


def test_a_step_that_is_shorter_than_the_others_is_uneven():
    unit, gaps = gaps_of(np.array([0.0, 10.0, 20.0, 23.0, 33.0, 43.0]))
    assert unit == 10.0
    np.testing.assert_allclose(gaps, [1.0, 1.0, 1.0, 0.3, 1.0, 1.0])
    assert gaps_of(np.arange(6.0))[1] is None


def test_rows_of_equal_times_keep_their_order():
    order = Order(np.array([3.0, 1.0, 2.0, 1.0, 3.0]))
    assert order(None).tolist() == [1, 3, 2, 0, 4]
    assert (order.moved, order.shared) == (2, 2)
