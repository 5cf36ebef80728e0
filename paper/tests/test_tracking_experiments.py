"""The variants of the tracking experiments, against the paper's boxes and the code written out naively in NumPy."""

import numpy as np
import pytest
from scipy.special import digamma

import wolf
from wolf.plots import style
from wolf_paper import as_run, map_weight, pif, rounded, tracking, tracking_trials
from wolf_paper.tracking import SAVED, World, ruled

WORLD = World(steps=40)
F, H = np.eye(4) + 0.1 * np.eye(4, k=2), np.eye(2, 4)
Q, R = 0.1 * np.eye(4), 10.0 * np.eye(2)


@pytest.fixture(scope="module")
def ys():
    data = tracking.simulate("mixture", World(steps=40, outlier_prob=0.3), 2, 5)
    return tracking.measurements(data)[0] + np.linspace(0, 60, 40)[:, None] * (np.arange(40) % 7 == 3)[:, None]


def loop(ys, update):
    """Run predict and a given update over a series."""
    mean, cov, means = np.array(tracking.START), np.eye(4), []
    for y in ys:
        mean, cov = F @ mean, F @ cov @ F.T + Q
        mean, cov = update(mean, cov, y)
        means.append(mean)
    return np.array(means)


def kalman(mean, cov, y, noise):
    gain = cov @ H.T @ np.linalg.inv(H @ cov @ H.T + noise)
    rest = np.eye(4) - gain @ H
    return mean + gain @ (y - H @ mean), rest @ cov @ rest.T + gain @ noise @ gain.T


def ratio(log_good, log_bad, distance):
    good, bad = np.exp(log_good - 0.5 * distance), np.exp(log_bad)
    return good / (good + bad)


def means_of(rule, ys):
    return wolf.filter(tracking.make_model(WORLD), ys, method=ruled(rule)).means


@pytest.mark.parametrize("iterations", [1, 2, 4])
def test_printed_bernoulli_is_the_box(ys, iterations):
    alpha, beta = 1.4, 0.3

    def update(mean, cov, y):
        rho, a, b = 1.0, alpha, beta
        for _ in range(iterations):
            m, p = (mean, cov) if rho < 1e-7 else kalman(mean, cov, y, R / rho)
            e = y - H @ m
            trace = np.trace((np.outer(e, e) + H @ p @ H.T) @ np.linalg.inv(R))
            rho = ratio(digamma(a) - digamma(a + b + 1), digamma(b + 1) - digamma(a + b + 1), trace)
            a, b = alpha + rho, beta + 1 - rho
        return m, p

    np.testing.assert_allclose(means_of(as_run.PrintedBernoulli(alpha, beta, iterations), ys), loop(ys, update), 1e-8)


@pytest.mark.parametrize("iterations", [1, 2, 4])
def test_carried_bernoulli_keeps_its_counts_from_step_to_step(ys, iterations):
    alpha, beta = 1.4, 0.3
    counts = [1.0, 1.0]

    def update(mean, cov, y):
        rho, (a, b) = 1.0, counts
        for _ in range(iterations):
            m, p = (mean, cov) if rho < 1e-7 else kalman(mean, cov, y, R / rho)
            e = y - H @ m
            rho = ratio(digamma(a), digamma(b + 1), e @ np.linalg.inv(R) @ e)
        counts[:] = alpha + rho, beta + 1 - rho
        return m, p

    np.testing.assert_allclose(means_of(as_run.CarriedBernoulli(alpha, beta, iterations), ys), loop(ys, update), 1e-8)


@pytest.mark.parametrize("iterations", [1, 2, 6])
def test_broadcast_wishart_adds_the_square_to_every_entry(ys, iterations):
    scaling = 1.2

    def update(mean, cov, y):
        m, p = mean, cov
        for _ in range(iterations):
            e = y - H @ m
            noise = (scaling * R + e @ e * np.ones((2, 2)) + H @ p @ H.T) / (scaling + 1.0)
            m, p = kalman(mean, cov, y, noise)
        return m, p

    np.testing.assert_allclose(means_of(as_run.BroadcastWishart(scaling, iterations), ys), loop(ys, update), 1e-8)


def test_bernoulli_with_one_iteration_is_the_kalman_filter(ys):
    model = tracking.make_model(WORLD)
    methods = tracking.make_methods(SAVED["student"])
    means = {name: wolf.filter(model, ys, method=method).means for name, method in methods.items()}
    for name in ("KF-B", "KF-B (as run)", "KF-B (corrected)"):
        np.testing.assert_array_equal(means[name], means["KF"])


def test_without_rounding_the_rounded_filter_is_the_filter(ys, monkeypatch):
    monkeypatch.setattr(rounded, "shortened", lambda a: np.asarray(a) if isinstance(a, np.ndarray) else a)
    rounded._filter.clear_cache()
    model = tracking.make_model(WORLD)
    gate = wolf.WoLF(wolf.MahalanobisThreshold(9.0))
    for method, rule in (("KF", {}), (wolf.WoLF(wolf.IMQ(4.0)), {"soft": 4.0}), (gate, {"gate": 9.0})):
        exact = wolf.filter(model, ys, method=method).means
        found = rounded.filter_means(ys[None], WORLD, **rule)[0]
        np.testing.assert_allclose(found, exact, rtol=1e-3, atol=2e-3)
    rounded._filter.clear_cache()


def test_rounding_puts_positions_on_a_grid():
    states, _ = rounded.simulate("student", World(steps=300), 2, 0)
    exact = rounded.product(np.eye(4, dtype=np.float32), states[0, -1])
    assert not np.array_equal(exact, states[0, -1])  # bfloat16 keeps 8 bits
    np.testing.assert_allclose(exact, states[0, -1], rtol=2.0**-8)


def test_a_trial_does_not_depend_on_how_many_there_are():
    few, many = (tracking.simulate("student", WORLD, count, 3) for count in (2, 3))
    np.testing.assert_array_equal(few[1].measurements, many[1].measurements)


def test_errors_are_the_root_of_summed_squares():
    data = tracking.simulate("student", WORLD, 2, 3)
    shifted = tracking.states(data) + np.array([3.0, 0.0, 0.0, -4.0])
    np.testing.assert_allclose(tracking.errors(shifted, data), [[3 * 40**0.5, 0, 0, 4 * 40**0.5]] * 2)


def test_a_method_has_one_colour_in_all_pictures():
    shades = {name: style.method_style(name).color for name in ("KF", "EKF", "EnKF", "KF (as run)")}
    assert set(shades.values()) == {style.KALMAN}
    together = (
        "KF",
        "KF-B",
        "KF-IW",
        "EKF-IW (corrected)",
        "OGD",
        "WoLF-IMQ",
        "WoLF-TMD",
        "WoLF (calibrated)",
        "Learned",
    )
    drawn = [style.method_style(name) for name in together]
    assert len({each.color for each in drawn}) == len({each.marker for each in drawn}) == len(together)


def test_the_mode_of_the_precision_is_the_squared_weight():
    for distance in (0.5, 3.0, 20.0):
        one = np.eye(1, dtype=np.float32)
        weight = float(wolf.MahalanobisIMQ(c=4.0, metric="R")(np.float32([distance]), one, one))
        np.testing.assert_allclose(map_weight.mode(distance, 0.0, 4.0), weight**2, rtol=1e-5)


def test_slowdowns_are_ratios_within_a_round():
    seconds = {"KF": (1.0, 10.0, 2.0), "slow": (2.0, 30.0, 4.0)}
    rows = [
        {"method": m, "backend": backend, "repeat": i, "seconds": s * (1.0 if backend == "xla" or m == "KF" else 3.0)}
        for backend in ("xla", "native")
        for m, values in seconds.items()
        for i, s in enumerate(values)
    ]
    found = tracking_trials.slowdowns(rows)
    assert (found["slow slowdown"], found["slow slowdown, native code"]) == (2.0, 6.0)


def test_influence_of_the_kalman_filter_has_a_closed_form():
    """KL between Gaussians of one covariance is half the squared Mahalanobis distance: quadratic, and symmetric."""
    config = pif.Settings()
    model = pif.make_model(config)
    ys = wolf.simulate.trajectory(model, config.steps, 0, initial=tracking.START).measurements
    errors = np.array([[0.0, 0.0], [1.0, -2.0], [-15.0, 10.0]])
    out = wolf.filter(model, ys, method="KF")
    gain = out.predicted_covs[-1] @ model.H.T @ np.linalg.inv(out.innovation_covs[-1])
    shifts = errors @ gain.T
    expected = 0.5 * (shifts * np.linalg.solve(out.covs[-1], shifts.T).T).sum(1)
    after = pif.contaminate(model, "KF", ys, errors)
    as_plotted = pif.divergence(out.means[-1], out.covs[-1], after.means[:, 0], after.covs[:, 0])
    np.testing.assert_allclose(as_plotted, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(wolf.influence.pif(model, "KF", ys, errors), expected, rtol=1e-9, atol=1e-12)
