"""The learning and ensemble experiments: their pieces against naive code, and the smallest run of each."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wolf
from wolf.inference.ensembles.observation_ensemble import Noise, ObservationEnsemble
from wolf_paper import (
    complexity,
    kin8nm,
    learning,
    lorenz96,
    online_mlp,
    outlier_rate,
    rounded_regression,
    runner,
    search,
    uci_data,
    verdict,
)
from wolf_paper import uci as regression
from wolf_paper import uci_sets as uci
from wolf_paper.as_run import ReferenceGain
from wolf_paper.protocol import Task
from wolf_paper.published_weights import published_weights
from wolf_paper.rows import read

MINE = (
    *regression.EXPERIMENTS,
    kin8nm.EXPERIMENT,
    outlier_rate.EXPERIMENT,
    *lorenz96.EXPERIMENTS,
    online_mlp.EXPERIMENT,
    complexity.EXPERIMENT,
)
TINY = {  # smaller than the small scale, which `wolf reproduce` runs in CI
    "outlier-rate": dataclasses.replace(outlier_rate.SMALL, rates=(0, 40), trials=1, made_up_rows=60),
}


def relu_network(theta, x):
    matrix, offset = theta[: 20 * len(x)].reshape(len(x), 20), theta[20 * len(x) : 20 * len(x) + 20]
    return np.maximum(x @ matrix + offset, 0.0), theta[-21:-1], theta[-1]


def naive_robust_ekf(theta, variance, xs, ys, weight):
    """The extended filter of a one-layer network with scalar weights, R = 1, written out in NumPy."""
    cov, errors = variance * np.eye(len(theta)), []
    for x, y in zip(xs, ys, strict=True):
        hidden, out, bias = relu_network(theta, x)
        alive = (hidden > 0) * out
        jac = np.concatenate([np.outer(x, alive).ravel(), alive, hidden, [1.0]])
        error = y - (hidden @ out + bias)
        errors.append(error)
        w = weight(error)
        gain = w**2 * cov @ jac / (w**2 * jac @ cov @ jac + 1.0)
        theta, cov = theta + gain * error, cov - np.outer(gain, jac @ cov)
    return np.sqrt(np.median(np.square(errors)))


@pytest.mark.parametrize(
    ("name", "values", "weight"),
    [
        ("EKF", {"log_lr": -1.0}, lambda e: 1.0),
        ("WoLF-IMQ", {"log_lr": -0.5, "c": 3.0}, lambda e: 1 / np.sqrt(1 + e**2 / 9)),
        ("WoLF-TMD", {"log_lr": 0.0, "c": 4.0}, lambda e: float(abs(e) <= 4.0)),
    ],
)
def test_errors_are_those_of_a_naive_filter(name, values, weight):
    data = uci.made_up("yacht", 80)
    trials = uci_data.streams(data, uci_data.AS_RUN, range(2), 314, 0.2)
    model_of = uci_data.network(6, 1.0)
    found = learning.errors(name, values, model_of, trials)
    start = np.asarray(model_of(1.0, 0).mean)
    for number in range(2):
        expected = naive_robust_ekf(
            start, np.exp(values["log_lr"]), trials.features[number], trials.targets[number], weight
        )
        np.testing.assert_allclose(found[number], expected, rtol=1e-8)


def naive_published_wishart(theta, variance, xs, ys, scaling, iterations):
    """EKF-IW as published, with D x D matrices written out in NumPy."""
    cov, errors = variance * np.eye(len(theta)), []

    def observe(theta, x):
        hidden, out, bias = relu_network(theta, x)
        alive = (hidden > 0) * out
        return hidden @ out + bias, np.concatenate([np.outer(x, alive).ravel(), alive, hidden, [1.0]])

    for x, y in zip(xs, ys, strict=True):
        error = y - observe(theta, x)[0]
        errors.append(error)
        mean, spread = theta, cov
        for _ in range(iterations):
            predicted, jac = observe(mean, x)
            noise = (scaling + (y - predicted) ** 2 + jac @ spread @ jac) / (scaling + 1.0)
            gain = cov @ jac / (jac @ cov @ jac + noise)
            rest = np.eye(len(theta)) - np.outer(gain, jac)
            mean, spread = theta + gain * error, rest @ cov @ rest.T + noise * np.outer(gain, gain)
        theta, cov = mean, spread
    return np.sqrt(np.median(np.square(errors)))


def test_ekf_iw_as_run_iterates_as_published():
    data = uci.made_up("yacht", 80)
    trials = uci_data.streams(data, uci_data.AS_RUN, range(1), 314, 0.2)
    model_of = uci_data.network(6, 1.0, as_run=True)
    values = {"log_lr": -1.0, "scaling": 0.7, "iterations": 3}
    expected = naive_published_wishart(
        np.asarray(model_of(1.0, 0).mean), np.exp(-1.0), trials.features[0], trials.targets[0], 0.7, 3
    )
    found = learning.errors("EKF-IW", values, model_of, trials, as_run=True)
    np.testing.assert_allclose(found[0], expected, rtol=1e-4)  # as run is float32


def test_initial_weights_are_those_of_flax():
    """Read off Flax 0.8.0 with JAX 0.4.23: `Dense(20)`, seed 314, 8 and 17 inputs."""
    for features, first in ((17, (0.0687778, 0.03431264, 0.22126153)), (4, (0.2019462, -0.7201852, -0.15491644))):
        found = published_weights((features, 20, 1), 314)
        np.testing.assert_allclose(found[:3], first, atol=1e-7)
        assert len(found) == 20 * features + 41


def test_trials_as_run_come_from_the_legacy_generator_in_the_order_of_the_code():
    data = uci.made_up("yacht", 100)
    stream = uci.prepare(data, 315, outlier_prob=0.3, outliers="two-sided", protocol="code")
    np.random.seed(315)  # noqa: NPY002
    order = np.random.choice(90, size=90, replace=False)  # noqa: NPY002  what pandas' sample(frac=1.0) does
    hit = np.random.choice(2, size=90, p=[0.7, 0.3])  # noqa: NPY002
    wild = 50.0 * np.random.choice([-1, 1], size=hit.sum())  # noqa: NPY002
    np.testing.assert_array_equal(stream.targets[hit == 1], wild)
    np.testing.assert_array_equal(np.argsort(stream.clean), np.argsort(data.targets[10:][order]))


@pytest.mark.parametrize("name", ["EKF-B", "WoLF-TMD"])
def test_without_rounding_the_rounded_regression_filter_is_the_filter(name):
    data = uci.made_up("yacht", 80)
    trials = uci_data.streams(data, uci_data.AS_RUN, range(1), 314, 0.2)
    model_of = uci_data.network(6, 1.0, as_run=True)
    values = {"log_lr": -1.0, "c": 3.0, "alpha": 3.0, "beta": 0.5, "iterations": 3}
    start, expected = np.asarray(model_of(1.0, 0).mean), learning.errors(name, values, model_of, trials, as_run=True)
    np.testing.assert_allclose(rounded_regression.errors(name, values, start, trials, False, 1.0), expected, rtol=1e-3)
    assert rounded_regression.errors(name, values, start, trials, True, 1.0)[0] != pytest.approx(expected[0], rel=1e-5)


def test_a_filter_that_sees_clean_targets_is_still_judged_by_the_corrupted_ones():
    data = uci.made_up("yacht", 80)
    trials = uci_data.streams(data, uci_data.PRINTED, range(1), 314, 0.5)
    model_of = uci_data.network(6, 1.0)
    guesses = learning.predictions(learning.CLEAN, {}, model_of, trials)
    shown = dataclasses.replace(trials, targets=trials.clean)
    np.testing.assert_allclose(guesses, learning.predictions("EKF", {"log_lr": 0.0}, model_of, shown), rtol=1e-10)
    found = learning.errors(learning.CLEAN, {}, model_of, trials)
    np.testing.assert_allclose(found, np.sqrt(np.median((trials.targets - guesses) ** 2, axis=1)))


def test_trials_of_the_two_protocols_differ_as_they_should():
    data = uci.made_up("yacht", 100)
    printed, run = (uci_data.streams(data, name, range(3), 7, 0.3) for name in (uci_data.PRINTED, uci_data.AS_RUN))
    assert printed.targets.shape == run.targets.shape == (3, 90)
    assert set(np.abs(run.targets[run.targets != run.clean])) == {50.0}
    assert np.abs(printed.targets[printed.targets != printed.clean]).max() < 50.0
    assert not np.array_equal(printed.clean[0], printed.clean[1])
    again = uci_data.streams(data, uci_data.PRINTED, range(2, 3), 7, 0.3)
    np.testing.assert_array_equal(again.targets[0], printed.targets[2])


def test_the_table_of_sets_counts_parameters_as_the_network_has_them():
    for row in regression.run(Task(regression.Settings(), "sets", 0)):
        start = np.zeros(row["parameters"])
        assert wolf.models.mlp(row["features"], (20,), params=start).state_dim == row["parameters"]
        assert row["paper_parameters"] - row["parameters"] == 20


@pytest.mark.parametrize("inflation", [None, 3.0])
def test_the_published_gain_has_its_factors_the_other_way(inflation):
    rng = np.random.default_rng(0)
    members, draws, y = rng.normal(size=(30, 3)), rng.normal(size=(30, 3)), rng.normal(size=3)
    variances, seen = np.array([0.5, 1.0, 2.0]), np.ones(3)
    predicted = members + np.sqrt(variances) * draws
    cov = np.cov(members.T, predicted.T)
    cross, inner = cov[:3, 3:], cov[3:, 3:]
    if inflation is not None:
        cross = cross + (inflation - 1.0) * np.diag(np.diag(cross))
        inner = cross + np.diag(variances)
    expected = members + (y - predicted) @ (np.linalg.inv(inner) @ cross).T
    with jax.enable_x64(True):
        mean, anomalies = jnp.asarray(members.mean(0)), jnp.asarray(members - members.mean(0))
        sight = ObservationEnsemble(
            anomalies, y - mean, Noise(jnp.asarray(variances), jnp.asarray(seen)), jnp.asarray(seen)
        )
        base, moved = ReferenceGain(inflation)(mean, anomalies, sight, jnp.ones(3), jnp.asarray(draws), None, None)
    np.testing.assert_allclose(base + moved, expected, rtol=1e-9)


def test_the_published_gain_is_refused_where_some_states_are_not_measured():
    model = wolf.models.constant_velocity(dims=1, dt=0.1, dynamics_var=0.1, obs_var=1.0)
    with pytest.raises(ValueError, match="as many observations as states; got 1 and 2"):
        wolf.filter(model, np.zeros(3), method=wolf.EnsembleFilter(5, ReferenceGain()), key=0)


def test_the_search_finds_a_maximum_and_survives_scores_that_are_no_numbers():
    found = search.maximise(lambda a: -((a - 2.0) ** 2), {"a": (0.0, 4.0)}, initial=3, iterations=7, seed=0)
    assert found.evaluations == 10
    assert abs(found.values["a"] - 2.0) < 0.1
    half = search.maximise(lambda a: float("nan") if a < 2.0 else a, {"a": (0.0, 4.0)}, initial=4, iterations=1, seed=0)
    assert half.score == half.values["a"] >= 2.0


def test_a_search_without_bounds_scores_once():
    assert search.maximise(lambda: 3.0, {}, initial=5, iterations=5, seed=0) == search.Found({}, 3.0, 1)


def test_the_curve_is_the_papers():
    theta, x = np.array([0.5, 2.0, 1.5, -1.0]), np.linspace(-3, 3, 7)
    np.testing.assert_allclose(online_mlp.curve(theta, x), 0.5 * x - 2 * np.cos(1.5 * np.pi * x) - x**3)
    ordered = online_mlp.streams(online_mlp.WORLDS["printed"], 50, True, range(2), 1)
    assert (np.diff(ordered.features[..., 0], axis=1) > 0).all()
    wild = ordered.targets != ordered.clean
    assert np.abs(ordered.targets[wild]).max(initial=0.0) <= 40.0


def naive_lorenz96_step(x, forcing, dt):
    def flow(x):
        n = len(x)
        return np.array([(x[(i + 1) % n] - x[i - 2]) * x[i - 1] - x[i] + forcing[i] for i in range(n)])

    a = flow(x)
    b = flow(x + dt / 2 * a)
    c = flow(x + dt / 2 * b)
    return x + dt / 6 * (a + 2 * b + 2 * c + flow(x + dt * c))


@pytest.mark.parametrize("variant", [lorenz96.PRINTED, lorenz96.AS_RUN])
def test_lorenz96_truth_follows_the_ring_with_the_noise_of_its_variant(variant):
    config = dataclasses.replace(lorenz96.SMALL, dim=6, steps=45)
    states, ys, wild = lorenz96.simulate(config, variant, 3, 0, 0.2)
    assert (ys[wild] == 100.0).all()
    assert abs(np.std((ys - states)[~wild]) - 1.0) < 0.1
    # What is added to the ring in a step, found by inverting the step, is the forcing noise.
    before, after = states[:, 20:40], states[:, 21:41]
    mean = lorenz96.FORCING[variant]
    free = np.stack([[naive_lorenz96_step(x, np.full(6, mean), 0.05) for x in trial] for trial in before])
    noise = (after - free) / 0.05
    assert 0.5 < noise.std() < 1.6
    held = np.abs(np.diff(noise[:, :19], axis=1)).mean() < 0.3 * noise.std()
    assert held == (variant == lorenz96.AS_RUN)


def test_thresholds_are_distances():
    kept = lorenz96.method_of(lorenz96.AP, lorenz96.PRINTED, 10, 4, 3.0).weight
    errors = np.array([[2.9, 3.1]] * 10, np.float32)
    np.testing.assert_array_equal(kept(errors), [1.0, 0.0])
    clipped = lorenz96.method_of(lorenz96.HUB, lorenz96.AS_RUN, 10, 4, 3.0).weight
    np.testing.assert_allclose(np.abs(errors * np.asarray(clipped(errors))).max(0), [2.9, 3.0], rtol=1e-6)


def test_exponents_are_those_of_a_power_law():
    rows = [{"method": "KF", "parameters": m, "seconds_per_step": 3e-9 * m**2.5} for m in (8, 16, 32, 64)]
    assert abs(complexity.exponent(rows, "KF") - 2.5) < 1e-9


@pytest.mark.parametrize("experiment", MINE, ids=lambda each: each.name)
def test_parts_are_named_once_and_settings_go_into_a_manifest(experiment):
    for config in experiment.settings.values():
        parts = experiment.parts(config)
        assert len(set(parts)) == len(parts)
        assert runner._json(dataclasses.asdict(config))
    assert experiment.title
    assert experiment.remarks


@pytest.mark.parametrize("name", TINY)
def test_a_tiny_run_gives_rows_measures_and_figures(name, tmp_path):
    experiment = next(each for each in MINE if each.name == name)
    tiny = dataclasses.replace(experiment, settings={"small": TINY[name]})
    outcome = runner.reproduce(tiny, runner.Request(tmp_path), say=lambda words: None)
    assert outcome.pictures
    assert read(tmp_path / name / "rows.csv")
    again = runner.reproduce(tiny, runner.Request(tmp_path), say=lambda words: None)
    assert again.fresh == ()
    assert again.measured == outcome.measured


def test_without_its_data_a_set_is_left_out_and_the_verdict_says_so(tmp_path):
    config = regression.Settings(sets=("yacht",), variants=("as-run",))
    outcome = runner.reproduce(
        dataclasses.replace(regression.EXPERIMENTS[1], settings={"paper": config}),
        runner.Request(tmp_path / "out", "paper", data=tmp_path / "nothing"),
        say=lambda words: None,
    )
    assert "as-run-yacht-tuning" in outcome.missing
    assert {each.status for each in outcome.verdicts if "yacht_wolf" in each.name} <= {verdict.NO_DATA}
