"""Correlation with a signature: equal to the direct sum, whatever the block length."""

import numpy as np
import pytest

from wolf.diagnostics.faults.correlation import correlate, correlate_series


@pytest.mark.parametrize("size", [8, 16, 64])
def test_correlation_equals_the_direct_sum(size):
    rng = np.random.default_rng(0)
    errors, signature = rng.normal(size=(2, 40)), rng.normal(size=(5, 2, 3))
    padded = np.concatenate([errors, np.zeros((2, 5))], axis=1)
    direct = np.stack([np.einsum("kmp,mk->p", signature, padded[:, s : s + 5]) for s in range(40)], axis=1)
    np.testing.assert_allclose(correlate(errors, signature, 40, size), direct, atol=1e-12)


def test_correlation_of_one_series_has_a_last_zero():
    np.testing.assert_allclose(
        correlate_series(np.array([1.0, 2.0]), np.array([1.0, 3.0])), [7.0, 2.0, 0.0], atol=1e-14
    )
