"""Quantisation: the step is the distance of recurring values."""

import numpy as np

from wolf.fitting.select.quantization import noise_of, step_of, variance_of


def test_step_of_repeated_multiples():
    assert step_of(np.repeat([20.0, 20.5, 21.0, 21.5], 5)) == 0.5
    assert step_of(np.arange(20.0)) == 0.0


def test_noise_is_within_half_a_step_and_reproducible():
    noise = noise_of(0.5, 1000)
    assert np.abs(noise).max() <= 0.25
    np.testing.assert_array_equal(noise, noise_of(0.5, 1000))
    assert variance_of(6.0) == 3.0
