"""Calibration: the constants, what they promise, and the dimension that they are for."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import optimize, stats

import wolf
from wolf.inference.weights import Huber, MahalanobisIMQ, MahalanobisThreshold, Tukey, Welsch, calibration
from wolf.inference.weights.calibration import DEFAULT_EFFICIENCY, threshold

TARGET = 0.95
FAMILIES = [MahalanobisIMQ, Huber, Tukey, Welsch, MahalanobisThreshold]
POWERS = {  # w² of the distance in units of c
    MahalanobisIMQ: lambda d: 1 / (1 + d**2),
    Huber: lambda d: np.minimum(1, 1 / d),
    Tukey: lambda d: np.maximum(1 - d**2, 0) ** 2,
    Welsch: lambda d: np.exp(-(d**2)),
}
CONSTANTS = {  # filter efficiency 95 %, computed independently, to the digits given there
    1: (3.36, 1.465, 5.55, 3.72, 7.81),
    2: (3.85, 1.66, 6.28, 4.23, 9.49),
    3: (4.28, 1.84, 6.93, 4.68, 11.07),
    5: (5.03, 2.14, 8.07, 5.47, 14.07),
    10: (6.54, 2.76, 10.36, 7.05, 21.03),
    20: (8.80, 3.69, 13.84, 9.45, 33.92),
}


@pytest.mark.parametrize("dim", CONSTANTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_constants_are_the_published_ones(family, dim):
    expected = CONSTANTS[dim][FAMILIES.index(family)]
    half_a_digit = 0.0006 if expected == 1.465 else 0.006
    assert family.calibrated(dim).c == pytest.approx(expected, abs=half_a_digit)
    assert family.calibrated(dim).metric == "S"


@pytest.mark.parametrize("family", FAMILIES)
def test_table_is_what_scipy_finds(family):
    table = family.THRESHOLDS
    assert len(table) == 16
    found = [calibration._solve(family, dim, DEFAULT_EFFICIENCY) for dim in range(1, 17)]
    np.testing.assert_allclose(table, found, rtol=1e-12)
    assert [threshold(family, dim, DEFAULT_EFFICIENCY) for dim in range(1, 17)] == list(table)


@pytest.mark.parametrize("efficiency", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("dim", [1, 2, 7, 40])
def test_hard_gate_has_its_closed_form(dim, efficiency):
    c = MahalanobisThreshold.calibrated(dim, efficiency).c
    assert c == pytest.approx(stats.chi2(dim + 2).ppf(efficiency), rel=1e-12)


def kept(family, c, dim):
    """Integrate over the distance, piece by piece around the kink at c, so that every integrand is smooth."""
    nodes, weights = np.polynomial.legendre.leggauss(100)
    loss = 0.0
    for start, end in pairwise([0, c, c + 8, c + 40]):
        d = start + (end - start) * (nodes + 1) / 2
        density = 2 * d * stats.chi2(dim + 2).pdf(d**2)
        loss += np.sum((end - start) / 2 * weights * (1 - POWERS[family](d / c)) ** 2 * density)
    return 1 - loss


@pytest.mark.parametrize("efficiency", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("dim", [1, 2, 10])
@pytest.mark.parametrize("family", POWERS)
def test_constants_are_right_to_six_digits(family, dim, efficiency):
    c = threshold(family, dim, efficiency)
    exact = optimize.brentq(lambda c: kept(family, c, dim) - efficiency, 0.9 * c, 1.1 * c, xtol=1e-12)
    assert c == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_more_efficiency_means_a_larger_threshold(family):
    cs = [threshold(family, 2, efficiency) for efficiency in (0.6, 0.9, 0.95, 0.99)]
    assert cs == sorted(cs)


@pytest.mark.parametrize(
    ("dim", "efficiency", "message"),
    [
        (0, 0.95, "dim must be a whole number of at least 1; got 0"),
        (1.5, 0.95, "dim must be a whole number of at least 1; got 1.5"),
        (2, 1.0, "efficiency must be a probability between 0 and 1; got 1.0"),
        (2, 0.0, "efficiency must be a probability between 0 and 1; got 0.0"),
    ],
)
def test_nonsense_is_refused(dim, efficiency, message):
    with pytest.raises(ValueError, match=message):
        MahalanobisIMQ.calibrated(dim, efficiency)


def retained_share(weight, gain, dim=2, draws=200_000):
    """Estimate the share of the variance reduction that is kept on clean data, and its standard error.

    One step of a static state, P = gain, R = 1 - gain, so that S = I. What the Kalman filter leaves is independent
    of y, so the loss is `E |m_KF - m|²` against a reduction of `E |m_KF|²`, known to be `dim * gain²`.
    """
    eye = np.eye(dim)
    model = wolf.LinearModel(None, eye, 0 * eye, (1 - gain) * eye, np.zeros(dim), gain * eye)
    ys = np.random.default_rng(7).normal(size=(draws, 1, dim))
    kalman, robust = (
        wolf.filter_many(model, ys, method=method, save="means").means for method in ("KF", wolf.WoLF(weight))
    )
    losses = np.sum((kalman - robust) ** 2, axis=(1, 2)) / (dim * gain**2)
    return 1 - losses.mean(), losses.std() / draws**0.5


@pytest.mark.thorough
@pytest.mark.parametrize("family", FAMILIES)
def test_clean_data_keep_the_promised_share_of_variance_reduction(family):
    for gain in (1e-3, 0.3, 0.9):
        share, error = retained_share(family(metric="S"), gain)
        assert error < 0.003
        assert share > TARGET - 4 * error
        if family is MahalanobisThreshold or gain < 0.01:
            assert share < TARGET + 4 * error


@pytest.mark.parametrize("weight", [wolf.IMQ(), MahalanobisIMQ(metric="R")])
def test_noise_metric_keeps_the_share_when_the_prediction_is_sure(weight):
    share, error = retained_share(weight, 1e-3)
    assert abs(share - TARGET) < 4 * error


OBS_COV = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.3], [0.1, -0.3, 4.0]])
CALIBRATED = [
    wolf.IMQ(),
    MahalanobisIMQ(metric="R"),
    *(family(metric="S") for family in FAMILIES),
    wolf.StudentWeight(),
]


@pytest.mark.parametrize("weight", CALIBRATED, ids=repr)
def test_threshold_is_for_the_coordinates_that_were_measured(weight):
    """A row with a missing coordinate weighs as much as in a model that never had that coordinate."""
    y = np.array([4.0, np.nan, -5.0])
    rows = np.flatnonzero(~np.isnan(y))

    def run(keep, ys):
        eye = np.eye(3)
        model = wolf.LinearModel(None, eye[keep], eye, OBS_COV[np.ix_(keep, keep)], np.zeros(3), eye)
        return wolf.filter(model, ys, method=wolf.WoLF(weight))

    partly, fewer = run(np.arange(3), y[None]), run(rows, y[None, rows])
    np.testing.assert_allclose(partly.weights, fewer.weights, rtol=1e-12)
    np.testing.assert_allclose(partly.means, fewer.means, rtol=1e-12)
    np.testing.assert_allclose(partly.log_likelihood, fewer.log_likelihood, rtol=1e-12)


@pytest.mark.parametrize("groups", [(0, 0, 1), (0, 1, 1)])
def test_threshold_is_for_the_measured_coordinates_of_a_group(groups):
    eye, y = np.eye(3), np.array([4.0, np.nan, -5.0])
    model = wolf.LinearModel(None, eye, eye, OBS_COV, np.zeros(3), eye)
    grouped, alone = (
        wolf.filter(model, y[None], method=wolf.WoLF(wrap(MahalanobisIMQ(metric="S"))))
        for wrap in (lambda w: wolf.PerGroup(w, groups), wolf.PerCoordinate)
    )
    np.testing.assert_allclose(grouped.weights, alone.weights, rtol=1e-12)
    assert grouped.weights[0, 1] == 0
