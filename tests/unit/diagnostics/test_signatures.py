"""Fault signatures of a random walk with noise: closed forms by its steady-state gain."""

import numpy as np
import pytest

import wolf
from wolf.diagnostics.faults.signatures import FaultSignatures, Pattern

MODEL = wolf.LinearModel(None, [[1.0]], [[0.5]], [[1.0]], [0.0], [[1.0]])  # P = 1, S = 2, K = 1/2


def test_signatures_of_a_level_decay_by_one_minus_the_gain():
    signatures = FaultSignatures(MODEL)
    assert signatures.gain[0, 0] == pytest.approx(0.5)
    decay = 0.5 ** np.arange(4) / np.sqrt(2.0)
    np.testing.assert_allclose(signatures.signature(Pattern("jump", 0), 4)[:, 0, 0], decay, rtol=1e-6)
    outlier = np.array([1.0, -0.5, -0.25, -0.125]) / np.sqrt(2.0)
    np.testing.assert_allclose(signatures.signature(Pattern("run", 1), 4)[:, 0, 0], outlier, rtol=1e-6)
    # A permanent error of the only sensor has the signature of a shift of the level.
    np.testing.assert_allclose(signatures.signature(Pattern("step", 0), 4)[:, 0, 0], decay, rtol=1e-6)
    assert signatures.step_equals_state_shift.tolist() == [True]
    assert signatures.is_level_shift(np.ones(1))


def test_gram_is_the_running_energy():
    signatures = FaultSignatures(MODEL)
    np.testing.assert_allclose(signatures.gram(Pattern("jump", 0))[:2, 0, 0], [0.5, 0.625], rtol=1e-6)
