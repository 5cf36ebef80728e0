"""Tuning without the truth is as good as with it; invalid arguments raise."""

import numpy as np
import pytest

import wolf


@pytest.fixture(scope="module")
def problem():
    model = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
    made = wolf.simulate.trajectory(model, 1000, key=3, outliers=wolf.simulate.StudentT(dof=2.01))
    return model, made.states, made.measurements


def test_tuned_threshold_is_nearly_as_good_as_the_best_in_retrospect(problem):
    model, states, ys = problem
    tuned = wolf.tune(model, ys, "WoLF-MD", metric="S")

    def error(c):
        means = wolf.filter(model, ys, method=wolf.methods.make("WoLF-MD", metric="S", c=c), save="means").means
        return np.hypot(*wolf.metrics.rmse(means, states)[:2])

    best = min(error(c) for c in tuned.values[::4])
    assert error(tuned.value) < 1.03 * best
    assert tuned.values[0] < tuned.value < tuned.values[-1]
    assert tuned.method.noise.weight.c == tuned.value


def test_clean_data_want_no_threshold_and_say_so():
    model = wolf.models.local_level(0.1, 1.0, wolf.Gaussian([0.0], [[1.0]]))
    clean = wolf.simulate.trajectory(model, 2000, key=1).measurements
    dirty = wolf.simulate.trajectory(model, 2000, key=1, outliers=wolf.simulate.Additive(0.1, -50, 50)).measurements
    assert wolf.tune(model, clean).value > 1.5 * wolf.tune(model, dirty).value


def test_score_is_that_of_a_filter_run_by_hand(problem):
    from scipy import stats

    model, _, ys = problem
    ys = ys.copy()
    ys[5] = np.nan
    tuned = wolf.tune(model, ys, "WoLF-IMQ", low=5.0, high=10.0)
    out = wolf.filter(model, ys, method=tuned.method)
    rows = [
        stats.multivariate_t.logpdf(e, shape=s, df=4.0)
        for e, s in zip(out.residuals, out.innovation_covs, strict=True)
        if np.isfinite(e).all()
    ]
    assert tuned.score == pytest.approx(np.mean(rows), rel=1e-9)


@pytest.mark.parametrize("name", ["WoLF-TMD", "WoLF-StudentT", "WoLF-IMQ"])
def test_every_threshold_has_a_range_to_start_from(problem, name):
    model, _, ys = problem
    tuned = wolf.tune(model, ys[:100], name)
    assert np.isfinite(tuned.score)
    assert tuned.name == ("dof" if name == "WoLF-StudentT" else "c")
    assert tuned.name in repr(tuned)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"method": "KF"}, "low= and high="),
        ({"method": "WoLF-XX"}, "no method"),
        ({"method": 3}, "name"),
        ({"low": 3.0, "high": 1.0}, "order"),
        ({"ys": np.full((5, 2), np.nan)}, "all values are missing"),
        ({"name": "q", "low": 1.0, "high": 2.0}, "options"),
    ],
)
def test_invalid_arguments_raise(problem, arguments, words):
    model, _, ys = problem
    with pytest.raises(ValueError, match=words):
        wolf.tune(model, **({"ys": ys[:20]} | arguments))
