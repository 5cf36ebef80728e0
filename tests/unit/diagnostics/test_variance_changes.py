"""Changes of the noise variance: none in constant noise, and the likelihood places the ends."""

import numpy as np

from wolf.diagnostics.faults.variance_changes import find_variance_changes


def test_alternating_errors_have_no_change():
    errors = np.tile([1.0, -1.0], 150)[:, None]
    assert find_variance_changes(errors, np.ones(300, bool)) == []


def test_likelihood_places_the_ends_of_a_tenfold_deviation():
    errors = np.random.default_rng(0).normal(size=(400, 1))
    errors[150:250] *= 10.0
    (change,) = find_variance_changes(errors, np.ones(400, bool))
    assert abs(change.first - 150) <= 3
    assert abs(change.stop - 250) <= 3
    assert change.factor > 25.0
