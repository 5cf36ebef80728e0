"""The certificate: closed forms, bounds that nothing exceeds and something reaches, units, and what it prints."""

import json

import jax
import matplotlib.figure
import numpy as np
import pytest
from scipy import optimize, stats

import wolf
from wolf.diagnostics.certificate import monte_carlo, worst_direction
from wolf.inference.noise import ScaleMixture

pytestmark = pytest.mark.thorough  # a part that the quick tests touch elsewhere

LEVEL_VAR, OBS_VAR = 0.3, 2.0
MANY = 100_000
GATE = 9.0  # squared distance


@pytest.fixture(scope="module")
def level():
    return wolf.models.local_level(LEVEL_VAR, OBS_VAR, prior=wolf.Gaussian(np.zeros(1), np.eye(1)))


@pytest.fixture(scope="module")
def skewed():
    """Two measured coordinates with correlated noise of different size, so that R, S and the identity differ."""
    rng = np.random.default_rng(3)
    a = rng.normal(size=(3, 3))
    noise = np.array([[4.0, 1.5], [1.5, 1.0]])
    H = np.array([[1.0, 0.2, 0.0], [0.0, 1.0, -0.5]])
    return wolf.LinearModel(0.9 * np.eye(3), H, a @ a.T + 0.1 * np.eye(3), noise, np.zeros(3), np.eye(3))


@pytest.fixture(scope="module")
def skewed_ys(skewed):
    return wolf.simulate.trajectory(skewed, 40, key=5).measurements


@pytest.fixture(scope="module")
def gate(level):
    """A hard gate in the S metric, with everything simulated."""
    return wolf.certify(level, wolf.methods.make("WoLF-TMD", c=GATE, metric="S"), trials=24, steps=120)


def predicted_var(level_var=LEVEL_VAR, obs_var=OBS_VAR):
    """Solve the Riccati equation of a local level: p = p r / (p + r) + q."""
    return 0.5 * (level_var + np.sqrt(level_var**2 + 4 * level_var * obs_var))


def random_influence(model, method, ys, radius, seed=0, count=MANY):
    """The largest influence of many random errors in the last measurement, half of them near the worst radius."""
    rng = np.random.default_rng(seed)
    size = model.obs_dim
    jump_directions = rng.normal(size=(count, size))
    jump_directions /= np.linalg.norm(jump_directions, axis=1, keepdims=True)
    far = 10.0 ** rng.uniform(-2, 8, count)
    near = radius * np.exp(0.3 * rng.normal(size=count))
    radii = np.where(np.arange(count) % 2 == 0, far, near)
    cov = wolf.filter(model, ys, method=method).innovation_covs[-1]
    errors = radii[:, None] * jump_directions @ np.linalg.cholesky(cov).T
    return wolf.influence.pif(model, method, ys, errors).max()


def test_hard_gate_has_its_closed_form(gate):
    """The worst error lies on the gate, e² = c S, where the update is a Kalman filter's: shift² = c P / R."""
    variance = predicted_var()
    expected = np.sqrt(GATE * variance / OBS_VAR)
    np.testing.assert_allclose(gate["mean shift"].value, expected, rtol=1e-6)
    np.testing.assert_allclose(gate["influence"].value, 0.5 * expected**2, rtol=1e-6)
    np.testing.assert_allclose(gate["influence"].details["radius"], np.sqrt(GATE), rtol=1e-6)
    kept = OBS_VAR / (variance + OBS_VAR)  # beyond the gate the prediction stays: KL(N(0, P) ‖ N(0, P kept))
    np.testing.assert_allclose(gate["far influence"].value, 0.5 * (1 / kept - 1 + np.log(kept)), rtol=1e-6)
    assert gate["influence"].basis == "exact"
    np.testing.assert_allclose(gate["step efficiency"].value, stats.chi2(3).cdf(GATE), rtol=1e-12)


def test_imq_has_its_closed_form_along_a_series(level):
    """With w² = c² / (c² + e²/S) the pull is a e / (b + R e²), largest at e² = b / R: shift = ½ c √(P S) / R."""
    c, ys = 3.0, np.zeros(60)
    method = wolf.methods.make("WoLF-MD", c=c, metric="S")
    found = wolf.certify(level, method, ys=ys, trials=0, steps=100)
    covs = wolf.filter(level, ys, method=method).innovation_covs[:, 0, 0]
    shifts = 0.5 * c * np.sqrt((covs - OBS_VAR) * covs) / OBS_VAR
    np.testing.assert_allclose(found["mean shift"].value, shifts.max(), rtol=1e-6)
    where = found["mean shift"].details["error"][0]
    np.testing.assert_allclose(abs(where), c * covs[shifts.argmax()] / np.sqrt(OBS_VAR), rtol=1e-3)


def test_huber_approaches_its_bound_far_away(level):
    """Far away w² e tends to c √S, so the shift tends to c √S P / R, in units of √(P R / S)."""
    c, ys = 1.5, np.zeros(60)
    method = wolf.methods.make("WoLF-Huber", c=c)
    found = wolf.certify(level, method, ys=ys, trials=0, steps=100)["mean shift"]
    cov = wolf.filter(level, ys, method=method).innovation_covs[:, 0, 0]
    variance = cov - OBS_VAR
    limits = c * np.sqrt(cov) * variance / OBS_VAR / np.sqrt(variance * OBS_VAR / cov)
    np.testing.assert_allclose(found.value, limits.max(), rtol=1e-6)
    assert np.isinf(found.details["radius"])


@pytest.mark.parametrize(
    "method",
    ["KF", pytest.param("IMM", marks=pytest.mark.slow), wolf.GaussianFilter(noise=ScaleMixture(far=False))],
    ids=["KF", "IMM", "no far"],
)
def test_unbounded_methods_are_reported_as_such(method, level):
    """A finite mixture of noise levels follows an outlier in the end, as the Kalman filter does at once."""
    found = wolf.certify(level, method, ys=np.zeros(10), trials=0)
    assert not found["influence"].bounded
    assert not found["mean shift"].bounded
    np.testing.assert_allclose(found["influence"].details["growth"], 2.0, rtol=1e-6)
    np.testing.assert_allclose(found["mean shift"].details["growth"], 1.0, rtol=1e-6)
    assert "to the power 2" in repr(found)


def test_kalman_curve_is_that_of_its_closed_form(skewed, skewed_ys):
    found = wolf.certify(skewed, "KF", ys=np.zeros_like(skewed_ys), trials=0)
    np.testing.assert_allclose(found.curves["influence"], found.curves["kalman"], rtol=1e-6)


@pytest.mark.parametrize(
    "method",
    [
        wolf.methods.make("WoLF-MD", c=2.0, metric="S"),
        wolf.methods.make("WoLF-TMD", c=7.0),
        pytest.param(wolf.methods.make("WoLF-IMQ", c=3.0), marks=pytest.mark.slow),
    ],
    ids=["S", "R", "Euclidean"],
)
def test_supremum_is_never_exceeded_and_reached_within_a_percent(method, skewed, skewed_ys):
    """Worst directions are solved for, in whichever metric the weight has; the clean residual is not zero here."""
    ys = np.concatenate([np.full((39, 2), np.nan), skewed_ys[-1:]])
    entry = wolf.certify(skewed, method, ys=ys, trials=0)["influence"]
    assert entry.basis == "exact"
    radius = entry.details["radius"] if np.isfinite(entry.details["radius"]) else 1e6
    largest = random_influence(skewed, method, ys, radius)
    assert largest <= entry.value * (1 + 1e-9)
    assert largest >= 0.99 * entry.value


@pytest.mark.parametrize("name", ["WoLF-PerCoordinate", pytest.param("ADF", marks=pytest.mark.slow)])
def test_searched_supremum_is_never_exceeded(name, skewed, skewed_ys):
    """Rules whose weight is no function of one radius: the search must find what random errors find, and more."""
    ys = np.where(np.arange(3)[:, None] < 2, np.nan, skewed_ys[:3])
    entry = wolf.certify(skewed, name, ys=ys, trials=0)["influence"]
    assert entry.basis == "searched"
    largest = random_influence(skewed, name, ys, entry.details["radius"])
    assert 0.95 * entry.value <= largest <= entry.value * (1 + 1e-9)


@pytest.mark.parametrize("method", ["WoLF", pytest.param(None, marks=pytest.mark.slow)])
def test_bound_does_not_depend_on_units(method, skewed, skewed_ys):
    """Measured in other units, or mixed: y -> A y; and states too: x -> T x."""
    rng = np.random.default_rng(0)
    A, T = np.array([[100.0, 30.0], [0.0, 0.01]]), rng.normal(size=(3, 3))
    back = np.linalg.inv(T)
    other = wolf.LinearModel(
        T @ skewed.F @ back, A @ skewed.H @ back, T @ skewed.Q @ T.T, A @ skewed.R @ A.T, np.zeros(3), T @ T.T
    )
    mine = wolf.certify(skewed, method, ys=skewed_ys, trials=0)
    theirs = wolf.certify(other, method, ys=skewed_ys @ A.T, trials=0)
    for name in ("influence", "mean shift", "far influence"):
        np.testing.assert_allclose(theirs[name].value, mine[name].value, rtol=1e-6)
    error = mine["influence"].details["error"]
    np.testing.assert_allclose(np.abs(theirs["influence"].details["error"]), np.abs(A @ error), rtol=1e-3)


def test_farthest_point_is_the_best_of_all_directions():
    """Against a fine grid of directions in the plane, with and without an offset, and in the hard case."""
    rng = np.random.default_rng(2)
    angles = np.linspace(0, 2 * np.pi, 20_001)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    cases = [(rng.normal(size=(3, 2)), scale * rng.normal(size=3)) for scale in (0.0, 0.1, 1.0, 10.0) for _ in range(5)]
    cases += [(np.diag([2.0, 1.0]), np.array([0.0, 0.1])), (np.eye(2), np.zeros(2)), (np.zeros((2, 2)), np.ones(2))]
    for maps, target in cases:
        z, value = worst_direction.maximise_distance(maps, target)
        best = ((maps @ circle - target[:, None]) ** 2).sum(0).max()
        np.testing.assert_allclose(np.linalg.norm(z), 1.0, rtol=1e-12)
        np.testing.assert_allclose(value, best, rtol=1e-6)


def test_false_alarms_of_a_gate_are_those_of_its_law(gate):
    entry = gate["false alarms"]
    assert entry.basis == "simulated"
    assert entry.trials == 24 * monte_carlo.NUM_LEVELS
    assert abs(entry.value - stats.chi2(1).sf(GATE)) < 4 * entry.error


def test_efficiency_lies_between_its_worst_case_and_one(gate):
    """One step keeps the χ²_3 share of c when the gain is small; over many steps the loss is smaller."""
    entry = gate["efficiency"]
    assert stats.chi2(3).cdf(GATE) - 4 * entry.error < entry.value < 1.0


def test_simulated_entries_do_not_depend_on_units(level, gate):
    """A power of two scales every number exactly."""
    prior = wolf.Gaussian(1024.0 * level.mean, 1024.0**2 * level.cov)
    other = wolf.models.local_level(1024.0**2 * LEVEL_VAR, 1024.0**2 * OBS_VAR, prior=prior)
    found = wolf.certify(other, gate.method, trials=24, steps=120)
    for name in ("efficiency", "false alarms", "breakdown"):
        np.testing.assert_allclose(found[name].value, gate[name].value, rtol=1e-9)
    np.testing.assert_allclose(found["position jump"].value, 1024.0 * gate["position jump"].value, rtol=1e-9)


def test_kalman_filter_recovers_from_every_jump_and_bears_no_outliers(level, gate):
    found = wolf.certify(level, "KF", trials=24, steps=120)
    assert found["efficiency"].value == 1.0
    assert found["position jump"].details["deviations"] == monte_carlo.JUMP_SIZES[-1]
    assert found["position jump"].details["steps"] < 120
    assert found["breakdown"].value < 0.01 < 0.2 < gate["breakdown"].value


def test_gate_is_lost_after_a_large_jump(gate):
    """It rejects every measurement from then on; what it recovers from is about the size of the gate."""
    entry = gate["position jump"]
    assert 1.0 < entry.details["deviations"] < 30.0
    assert entry.details["steps"] <= 120


@pytest.mark.slow
def test_velocity_jump_is_tried_where_there_is_a_velocity():
    trend = wolf.models.constant_velocity(dims=1, dt=0.1, dynamics_var=0.1, obs_var=10.0)
    found = wolf.certify(trend, "WoLF-TMD", trials=4, steps=100)
    assert np.flatnonzero(found["position jump"].details["direction"]).tolist() == [0]
    assert np.flatnonzero(found["velocity jump"].details["direction"]).tolist() == [1]
    # A hard gate in the noise metric loses a manoeuvring target: its horizon is far below that of a position.
    assert found["velocity jump"].details["deviations"] < found["position jump"].details["deviations"]
    own = wolf.certify(trend, "WoLF-TMD", trials=4, steps=100, jumps={"slide": [1.0, 1.0]})
    assert "slide" in own
    assert "velocity jump" not in own


def test_same_seed_same_certificate(level, gate):
    again = wolf.certify(level, gate.method, trials=24, steps=120)
    assert repr(again) == repr(gate)
    assert again.to_json() == gate.to_json()


def test_table_states_the_basis_of_every_entry(gate):
    lines = repr(gate).splitlines()
    assert all(any(how in line for line in lines) for how in ("exact", "simulated"))
    assert "24 trials of 120 steps" in lines[-1]
    assert "seed 0" in lines[-1]
    assert [entry.name for entry in gate][:3] == ["influence", "mean shift", "far influence"]


def test_json_is_json(gate, level, tmp_path):
    path = tmp_path / "certificate.json"
    read = json.loads(gate.to_json(path))
    assert json.loads(path.read_text()) == read
    assert read["entries"]["breakdown"]["trials"] == 24
    assert read["entries"]["breakdown"]["seed"] == "0"
    unbounded = json.loads(wolf.certify(level, "KF", ys=np.zeros(10), trials=0).to_json())["entries"]["influence"]
    assert unbounded["value"] is None
    assert unbounded["bounded"] is False


def test_picture_shows_the_curves(gate, level):
    figure = gate.plot()
    assert isinstance(figure, matplotlib.figure.Figure)
    assert len(figure.axes) == 3
    assert len(wolf.certify(level, "KF", ys=np.zeros(10), trials=0).plot().axes) == 1
    with pytest.raises(ValueError, match=r"result of wolf\.certify"):
        wolf.plots.certificate([1.0])


def test_nonlinear_models_are_certified(x64):
    prior = wolf.Gaussian(np.array([10.0, 10.0]), np.eye(2))
    model = wolf.StateSpaceModel(None, jax.numpy.sinh, 0.01 * np.eye(2), np.eye(2), prior)
    found = wolf.certify(model, "WoLF-UKF", ys=np.sinh([[10.1, 9.9], [10.0, 9.8]]), trials=0)
    assert found["influence"].basis == "exact"  # given the view of the observation function, the update is linear
    assert found["influence"].bounded


def test_model_that_varies_in_time_needs_a_series(skewed, skewed_ys):
    varying = wolf.LinearModel(skewed.F, skewed.H, skewed.Q, np.tile(skewed.R, (40, 1, 1)), skewed.mean, skewed.cov)
    with pytest.raises(ValueError, match="R vary in time"):
        wolf.certify(varying)
    found, fixed = (wolf.certify(model, "WoLF", ys=skewed_ys, trials=0) for model in (varying, skewed))
    np.testing.assert_allclose(found["influence"].value, fixed["influence"].value, rtol=1e-9)
    assert "varies in time" in repr(found)


def test_recovery_is_ten_usual_steps_in_a_row():
    distances = np.array([[9.0, 1.0] * 10 + [1.0] * 10, [1.0] * 30, [9.0] * 30])
    assert monte_carlo.steps_to_recover(distances, 2.0).tolist() == [19.0, 0.0, np.inf]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"method": "KFF"}, "no method is called"),
        ({"method": "EnKF"}, "draws random numbers"),
        ({"method": "OGD"}, "mean and a covariance"),
        ({"trials": -1}, "trials must be"),
        ({"steps": 5}, "steps must be"),
        ({"jumps": {"odd": [1.0, 2.0]}}, r"shape \(1,\)"),
        ({"jumps": [1.0]}, "must map names to directions"),
        ({"ys": np.full(20, np.nan)}, "without missing coordinates"),
        ({"key": "zero"}, "key must be"),
    ],
)
def test_invalid_arguments_raise(arguments, words, level):
    with pytest.raises(ValueError, match=words):
        wolf.certify(level, **arguments)


def test_singular_posterior_raises():
    still = wolf.LinearModel(None, np.eye(2), np.zeros((2, 2)), np.eye(2), np.zeros(2), np.diag([1.0, 0.0]))
    with pytest.raises(ValueError, match="covariance is singular"):
        wolf.certify(still, ys=np.zeros((5, 2)), trials=0)


def test_curve_in_one_dimension_is_what_a_scalar_optimiser_finds(level):
    """Against scipy on `wolf.influence.pif`, which is computed apart from all of this."""
    ys = np.array([0.3, -1.0, 2.0, 0.5, 1.0])
    found = wolf.certify(level, "WoLF-Welsch", ys=np.where(np.arange(5) < 4, np.nan, ys), trials=0, steps=100)
    target = lambda e: -wolf.influence.pif(level, "WoLF-Welsch", np.where(np.arange(5) < 4, np.nan, ys), [[e]])[0]  # noqa: E731
    starts = np.linspace(-20, 20, 9)
    best = max(-optimize.minimize(lambda e: target(e[0]), [s], method="Nelder-Mead").fun for s in starts)
    np.testing.assert_allclose(found["influence"].value, best, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", wolf.methods.names())
def test_every_gaussian_method_is_certified(name, level):
    """The paper's theorem as a table: every weight bounds the influence, and what has none does not."""
    method = wolf.methods.make(name)
    if method.requirements.key or name == "OGD":
        pytest.skip("no Gaussian filter")
    found = wolf.certify(level, method, ys=np.array([0.5, -0.3, 0.2, 0.1]), trials=0)["influence"]
    if name.startswith("WoLF"):
        assert found.bounded
    if name in ("KF", "EKF", "IEKF", "UKF", "CKF", "GHKF"):
        assert not found.bounded


def test_accepted_jump_entry_equals_what_the_filter_does():
    """Consistent errors are accepted as a jump; a filter without a jump test has no such entry."""
    level = wolf.models.local_level(level_var=0.1, obs_var=1.0)
    ys = np.zeros(40)
    certificate = wolf.certify(level, "Learned", ys=ys, trials=0)
    entry = certificate["accepted jump"]
    assert not entry.bounded
    assert certificate["influence"].bounded
    out = wolf.filter(level, ys, method="Learned")
    contaminated = np.append(ys[:-1], np.full(5, 1000.0 * np.sqrt(out.innovation_covs[-1, 0, 0])))
    hit = wolf.filter(level, contaminated, method="Learned")
    moved = hit.means[-1, 0] / np.sqrt(out.covs[-1, 0, 0])
    assert entry.details["shifts"][-1] == pytest.approx(moved, rel=0.02)
    assert "accepted jump" not in wolf.certify(level, "WoLF", ys=ys, trials=0).entries


@pytest.fixture(scope="module")
def default(level):
    """The default along a series: its measurements, and its certificate."""
    ys = wolf.simulate.trajectory(level, 40, key=5).measurements
    return ys, wolf.certify(level, "Adaptive", ys=ys, trials=0)


def test_influence_on_the_default_is_bounded_at_every_step_and_nearly_reached(default, level):
    """2,000 random errors in whole runs of many series: KL and shift from their formulas in one dimension."""
    ys, certificate = default
    influence, shift = certificate["influence"], certificate["mean shift"]
    assert influence.bounded
    assert shift.bounded
    assert certificate["far influence"].bounded
    rng, count = np.random.default_rng(0), 2000
    worst = int(influence.description.rsplit("step ")[1])
    steps = np.where(np.arange(count) % 2 == 0, worst, rng.integers(0, len(ys), count))
    clean = wolf.filter(level, ys, method="Adaptive")
    near = influence.details["radius"] * np.exp(0.1 * rng.normal(size=count))
    radii = np.where(np.arange(count) % 4 == 0, near, 10.0 ** rng.uniform(-2, 8, count))
    spoiled = np.repeat(ys[None], count, axis=0)
    # Radii are distances from the prediction, as the certificate has them.
    away = rng.choice([-1, 1], count) * radii * np.sqrt(clean.innovation_covs[steps, 0, 0])
    spoiled[np.arange(count), steps, 0] = clean.predicted_means[steps, 0] + away
    out = wolf.filter_many(level, spoiled, method="Adaptive")
    mean, cov = out.means[np.arange(count), steps, 0], out.covs[np.arange(count), steps, 0, 0]
    usual, spread = clean.means[steps, 0], clean.covs[steps, 0, 0]
    moved = np.abs(mean - usual) / np.sqrt(spread)
    divergence = 0.5 * (cov / spread + moved**2 - 1.0 - np.log(cov / spread))
    assert divergence.max() <= influence.value * (1 + 1e-9)
    assert moved.max() <= shift.value * (1 + 1e-9)
    assert divergence.max() >= 0.98 * influence.value


def test_default_accepts_a_jump_after_as_many_errors_as_its_certificate_states(default, level):
    ys, certificate = default
    entry = certificate["accepted jump"]
    assert not entry.bounded
    count = entry.details["errors"]
    assert f"{count} equal errors in a row" in repr(certificate)
    contaminated = np.concatenate([ys, 1e4 + 0.01 * np.arange(count)[:, None]])
    inflations = wolf.filter(level, contaminated, method="Adaptive").inflations
    assert (inflations[:-1] == 1.0).all()
    assert inflations[-1] > 1.0


@pytest.mark.slow
def test_an_attack_on_the_default_by_one_error_stays_below_its_certificate(default, level):
    """A hundred times the room for it gains nothing, and the reported damage is that of the real filter."""
    ys, certificate = default
    small, large = (wolf.attack(level, "Adaptive", ys, 1, size=size, restarts=2) for size in (10.0, 1000.0))
    assert large.total <= 1.2 * small.total
    assert large.damage.max() < 5.0
    assert large.sizes.max() < 10.0
    clean = wolf.filter(level, ys, method="Adaptive")
    for found in (small, large):
        assert found.damage[found.times[0]] <= certificate["mean shift"].value * (1 + 1e-9)
        hit = wolf.filter(level, found.ys, method="Adaptive")
        moved = np.abs(hit.means - clean.means)[:, 0] / np.sqrt(clean.covs[:, 0, 0])
        np.testing.assert_allclose(moved, found.damage, rtol=1e-6, atol=1e-9)
