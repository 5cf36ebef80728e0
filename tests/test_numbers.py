"""Numbers that people read: in float64 outside of any context, weights of at most 1, right for the widest priors."""

import numpy as np
import pytest

import wolf

FAR = 5_000_000.6  # float32 knows it to half a metre


@pytest.mark.parametrize("name", ["KF", "IMM", "PF", "Beta-RBPF", "ETKF"])
def test_final_moments_keep_float64(name):
    model = wolf.models.local_level(1.0, 1.0, prior=wolf.Gaussian([FAR], [[1e-8]]))
    final = wolf.filter(model, np.full((3, 1), FAR), method=name, key=0).final
    assert final.mean.dtype == np.float64
    assert abs(final.mean[0] - FAR) < 5.0
    for value in (final.cov, final.variances):
        assert value is None or value.dtype == np.float64


@pytest.mark.parametrize("name", ["WoLF-StudentT", "KF-IW", "KF-Student", "KF-Ting", "KF-Huang", "RSTKF", "Learned"])
def test_weights_that_people_read_are_at_most_one(name, tracking):
    ys = np.zeros((8, 2))  # fits so well that the noise looks smaller than R
    out = wolf.filter(tracking, ys, method=name)
    assert out.weights.max() <= 1.0


def test_a_weight_above_one_still_counts_in_the_update(tracking):
    ys = np.zeros((3, 2))
    student, plain = (wolf.filter(tracking, ys, method=name) for name in ("WoLF-StudentT", "KF"))
    assert (student.covs[:, 0, 0] < plain.covs[:, 0, 0]).all()
