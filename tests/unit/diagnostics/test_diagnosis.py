"""Causes: fault signatures of a steady-state filter, likelihood ratios of white noise, one known fault per series."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wolf
from wolf.diagnostics.faults import edge_pairing
from wolf.diagnostics.faults.edge_pairing import DetectedFault, repair_pairs
from wolf.diagnostics.faults.glr_scan import FaultCandidate, GlrScan, detection_thresholds, search_patterns
from wolf.diagnostics.faults.greedy_search import GreedySearch
from wolf.diagnostics.faults.peak_refinement import PERMANENT_STEP
from wolf.diagnostics.faults.result import CAUSES
from wolf.diagnostics.faults.signatures import FaultSignatures, Pattern
from wolf.diagnostics.faults.variance_changes import find_variance_changes

pytestmark = pytest.mark.thorough  # what tests/unit/diagnostics/test_explain.py touches too

STEPS = 400
SENSORS = wolf.LinearModel(None, np.ones((3, 1)), [[0.05]], np.eye(3), [0.0], [[1.0]])


@pytest.fixture
def bench(monkeypatch):
    """The program that makes the table of the documentation."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    import explain

    return explain


def kinds_in(model, ys, method="Learned"):
    return [(cause.kind, cause.first) for cause in wolf.explain(wolf.filter(model, ys, method=method)).causes]


@pytest.mark.parametrize("pattern", [Pattern("run", 30), Pattern("step", 0), Pattern("ramp", 40), Pattern("slope", 40)])
def test_signatures_are_the_innovations_of_a_faulty_series(bench, pattern):
    model = bench.models()["tracking"]
    fault = np.zeros(STEPS)
    rising = np.arange(1, pattern.length + 1) / max(pattern.length, 1)
    fault[200 : 200 + pattern.length] = rising if pattern.family in ("ramp", "slope") else 1.0
    if pattern.family in ("step", "slope"):
        fault[200 + pattern.length :] = 1.0
    ys = np.stack([np.zeros(STEPS), fault], axis=1)
    residuals = [wolf.filter(model, each, method="KF").residuals for each in (ys, 0 * ys)]
    signatures = FaultSignatures(model)
    seen = (residuals[0] - residuals[1])[200:] @ signatures.whitener.T
    np.testing.assert_allclose(seen, signatures.signature(pattern, 200)[:, :, 1], atol=1e-6)


def test_signature_of_a_jump_is_that_of_a_wrong_initial_state(bench):
    model = bench.models()["trend"]
    signatures = FaultSignatures(model)
    state, seen = np.array([1.0, 0.5]), []
    for _ in range(50):  # a filter that predicts 0, of a state that is elsewhere: x <- F (x - K H x)
        seen.append(signatures.whitener @ model.H @ state)
        state = model.F @ (state - signatures.gain @ (model.H @ state))
    np.testing.assert_allclose(signatures.signature(Pattern("jump", 0), 50) @ [1.0, 0.5], np.array(seen), atol=1e-12)


@pytest.mark.parametrize("name", ["level", "trend", "tracking"])
def test_likelihood_ratio_of_white_noise_equals_its_degrees_of_freedom(bench, name):
    """The statistic of every pattern is χ² for white noise: its mean is the number of its components."""
    model = bench.models()[name]
    signatures = FaultSignatures(model)
    scan = GlrScan(np.random.default_rng(0).normal(size=(20_000, model.obs_dim)), signatures)
    for pattern in (Pattern("jump", 0), Pattern("step", 0), Pattern("run", 1), Pattern("run", 25), Pattern("ramp", 32)):
        _, together = scan.likelihood_ratios(pattern, slice(0, 19_000))
        degrees = model.state_dim if pattern.family == "jump" else model.obs_dim
        assert np.mean(together) == pytest.approx(degrees, rel=0.25)
    top = max(scan.scores(pattern, slice(0, 19_000)).max() for pattern in search_patterns(19_000))
    assert top < 0.0 < detection_thresholds(20_000, 1, 1)["alone"]


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        *((kind, "Adaptive") for kind in CAUSES),
        *((kind, name) for kind in ("outlier", "jump") for name in ("WoLF", "KF")),
    ],
)
def test_every_kind_is_named(bench, kind, method):
    """One series of each kind on tracking; `benchmarks/explain.py` counts how often."""
    model = bench.models()["tracking"]
    ys, first, last = bench.spoil(model, kind, np.random.default_rng([7, CAUSES.index(kind)]), 8.0)
    found = wolf.explain(wolf.filter(model, ys, method=method))
    assert bench.judge(found, kind, first, last)[0] == kind
    assert kind in repr(found)


@pytest.mark.parametrize("name", ["level", pytest.param("trend", marks=pytest.mark.slow)])
def test_the_default_names_nine_of_ten_faults_on_other_models(bench, name):
    """Five series of each kind, eight deviations; a jump of a level is a level shift."""
    model, right = bench.models()[name], {}
    for number, kind in enumerate(CAUSES):
        called = []
        for trial in range(5):
            ys, first, last = bench.spoil(model, kind, np.random.default_rng([7, number, trial]), 8.0)
            called.append(bench.judge(wolf.explain(wolf.filter(model, ys)), kind, first, last)[0])
        right[kind] = called.count("level shift" if (name, kind) == ("level", "jump") else kind)
    assert min(right.values()) >= 3, right
    assert sum(right.values()) >= 0.9 * 5 * len(CAUSES), right


@pytest.mark.parametrize("seed", [32, 53, 61])
def test_levels_learned_from_a_drift_do_not_hide_it(bench, seed):
    """More than twice Q was learned from it; the drift, and the model as it is, explain more."""
    model = bench.models()["trend"]
    ys, first, last = bench.spoil(model, "drift", np.random.default_rng([seed]), 8.0)
    out = wolf.filter(model, ys)
    assert np.median(out.dynamics_scales) > 1.5
    assert bench.judge(wolf.explain(out), "drift", first, last)[0] == "drift"


def test_clean_series_have_no_causes(bench):
    for name, model in bench.models().items():
        for seed in range(3):
            ys, *_ = bench.spoil(model, "clean", np.random.default_rng(seed), 8.0)
            assert kinds_in(model, ys) == [], name


def test_hardly_any_clean_series_has_a_cause_by_the_default(bench):
    found = {}
    for name, model in bench.models().items():
        series = [bench.spoil(model, "clean", np.random.default_rng([11, seed]), 8.0)[0] for seed in range(20)]
        found[name] = sum(bool(wolf.explain(wolf.filter(model, ys)).causes) for ys in series)
    assert sum(found.values()) < 0.05 * 20 * len(found), found


def test_a_bias_of_one_sensor_among_several_is_no_level_shift():
    """The others tell, even if it lasts to the end; where all move it is a level shift."""
    ys = wolf.simulate.trajectory(SENSORS, STEPS, key=1).measurements.copy()
    alone, together = ys.copy(), ys.copy()
    alone[200:, 1] += 8.0
    together[200:] += 8.0
    (cause,) = wolf.explain(wolf.filter(SENSORS, alone, method="KF")).causes
    assert (cause.kind, cause.sensor, cause.first, cause.last) == ("bias", 1, 200, STEPS - 1)
    assert kinds_in(SENSORS, together, "KF") == [("level shift", 200)]


def test_a_sensor_that_trembles_around_one_value_is_stuck(bench):
    model = bench.models()["level"]
    rng = np.random.default_rng(3)
    ys, *_ = bench.spoil(model, "clean", rng, 8.0)
    ys[150:200, 0] = ys[150, 0] + 1e-3 * rng.normal(size=50)
    (cause,) = wolf.explain(wolf.filter(model, ys)).causes
    assert (cause.kind, cause.first, cause.last) == ("stuck", 150, 199)


def test_smaller_noise_is_detected():
    errors = np.random.default_rng(0).normal(size=(STEPS, 1))
    errors[150:250] *= 0.1
    (one,) = find_variance_changes(errors, np.ones(STEPS, bool))
    assert abs(one.first - 150) < 10
    assert abs(one.stop - 250) < 10
    assert one.factor < 0.1


@settings(max_examples=8, deadline=None)
@given(power=st.integers(-20, 20), kind=st.sampled_from(["outlier", "bias", "drift", "level shift"]))
def test_causes_do_not_depend_on_units(bench_models, power, kind):
    bench, model = bench_models
    ys, *_ = bench.spoil(model, kind, np.random.default_rng(5), 8.0)
    unit = 2.0**power
    other = wolf.LinearModel(model.F, model.H, unit**2 * model.Q, unit**2 * model.R, model.mean, unit**2 * model.cov)
    assert kinds_in(model, ys, "KF") == kinds_in(other, unit * ys, "KF")


@pytest.fixture(scope="module")
def bench_models():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
        import explain
    return explain, explain.models()["level"]


def test_causes_of_models_without_fixed_matrices_come_from_findings():
    """An angle has no fixed matrices; outliers and jumps are named from what was refused."""
    model = wolf.StateSpaceModel(
        lambda x: x, lambda x: x + 0.01 * x**3, [[0.05]], [[1.0]], wolf.Gaussian(np.zeros(1), np.eye(1))
    )
    ys = np.random.default_rng(0).normal(size=(160, 1))
    ys[60] += 12.0
    ys[100:104] = np.nan
    assert kinds_in(model, ys) == [("outlier", 60), ("missing", 100)]


@settings(max_examples=20, deadline=None)
@given(
    size=st.floats(5.0, 20.0),
    first=st.integers(20, 60),
    long=st.integers(60, 120),
    short=st.integers(10, 40),
    late=st.booleans(),
)
def test_edges_of_like_size_are_read_as_the_shortest_faults(bench_models, size, first, long, short, late):
    """Up, down, up: a run and a step either way, with nothing left of either; the short run is taken, with its size."""
    _, model = bench_models
    gaps = (long, short) if late else (short, long)
    edges = [first, first + gaps[0], first + sum(gaps)]
    run, sign = (edges[1:], -1.0) if late else (edges[:2], 1.0)
    other = edges[0] if late else edges[2]
    wrong = [
        DetectedFault(FaultCandidate(9.0, edges[0], Pattern("run", gaps[0]), 0), np.array([size])),
        DetectedFault(FaultCandidate(9.0, edges[2], Pattern("step", 0), 0), np.array([size])),
    ]
    if not late:  # the long run first
        wrong = [
            DetectedFault(FaultCandidate(9.0, edges[0], Pattern("step", 0), 0), np.array([size])),
            DetectedFault(FaultCandidate(9.0, edges[1], Pattern("run", gaps[1]), 0), np.array([-size])),
        ]
    gone, found = repair_pairs(np.zeros((STEPS, 1)), FaultSignatures(model), wrong)
    assert {id(fault) for fault in gone} == {id(fault) for fault in wrong}
    by_kind = {
        fault.candidate.pattern.family: (fault.candidate.step, fault.candidate.pattern.length, fault.size[0])
        for fault in found
    }
    assert by_kind["run"] == (run[0], run[1] - run[0], pytest.approx(sign * size))
    assert by_kind["step"] == (other, 0, pytest.approx(size))


def test_two_steps_that_cancel_are_one_run(bench_models):
    _, model = bench_models
    steps = [
        DetectedFault(FaultCandidate(9.0, at, PERMANENT_STEP, 0), np.array([size]))
        for at, size in ((100, 8.0), (150, -8.0))
    ]
    _, (found,) = repair_pairs(np.zeros((STEPS, 1)), FaultSignatures(model), steps)
    assert (found.candidate.step, found.candidate.pattern, found.size[0]) == (
        100,
        Pattern("run", 50),
        pytest.approx(8.0),
    )
    steps[1] = steps[1]._replace(size=np.array([-14.0]))
    assert repair_pairs(np.zeros((STEPS, 1)), FaultSignatures(model), steps) == ([], [])


def test_edges_that_are_too_many_are_left_as_they_are(bench_models):
    _, model = bench_models
    steps = [
        DetectedFault(FaultCandidate(9.0, 20 * k, PERMANENT_STEP, 0), np.array([8.0 * (-1) ** k]))
        for k in range(2 * edge_pairing.MAX_PERSISTENT_FAULTS)
    ]
    wrong, _ = repair_pairs(np.zeros((STEPS, 1)), FaultSignatures(model), steps)
    assert {fault.candidate.step for fault in wrong} <= {
        fault.candidate.step for fault in steps[-edge_pairing.MAX_PERSISTENT_FAULTS :]
    }
    drifts = [
        DetectedFault(FaultCandidate(9.0, 20 * k, Pattern("ramp", 200), 0), np.array([8.0]))
        for k in range(2 * edge_pairing.MAX_PERSISTENT_FAULTS)
    ]
    assert all(len(group) <= edge_pairing.MAX_PERSISTENT_FAULTS for group in edge_pairing.faults_near_drifts(drifts))


@pytest.mark.parametrize("name", ["level", "trend", "tracking"])
@pytest.mark.parametrize("kinds", [("level shift", "burst"), ("bias", "level shift"), ("burst", "bias")])
def test_two_faults_are_both_named(bench, name, kinds):
    """Of eight series in each cell most: a table of the documentation counts more of them."""
    model, right = bench.models()[name], 0
    rng = np.random.default_rng(4)
    for _ in range(8):
        ys, places = bench.spoil_twice(model, kinds, rng)
        right += kinds_in(model, ys, "KF") == [(kind, first) for kind, (first, _) in zip(kinds, places, strict=True)]
    assert right >= 6


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), name=st.sampled_from(["level", "trend", "tracking"]))
def test_what_was_found_and_what_is_left_are_the_errors(bench_models, seed, name):
    """However often faults are restored and searched again: five of them, drifts beside shifts."""
    bench, _ = bench_models
    model, rng = bench.models()[name], np.random.default_rng(seed)
    signatures = FaultSignatures(model)
    errors = rng.normal(size=(STEPS, model.obs_dim))
    for first in (40, 110, 180, 250, 320):
        pattern = Pattern(*[("ramp", 60), ("step", 0), ("run", 40), ("slope", 50)][rng.integers(4)])
        errors[first:] += signatures.signature(pattern, STEPS - first) @ rng.uniform(-60.0, 60.0, model.obs_dim)
    found = GreedySearch(errors, signatures)
    back = found.residual.copy()
    for fault in found.faults:
        back[fault.candidate.step :] += (
            signatures.signature(fault.candidate.pattern, STEPS - fault.candidate.step) @ fault.size
        )
    assert found.faults
    np.testing.assert_allclose(back, errors, atol=1e-4)
