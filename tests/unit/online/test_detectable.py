"""The smallest fault that a filter would notice, checked by adding it to simulated measurements."""

import numpy as np
import pytest

import wolf

LEVEL = wolf.LinearModel([[1.0]], [[1.0]], [[0.1]], [[1.0]], [0.0], [[0.3]])
TRACK = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=1.0)
RUNS = 300


@pytest.mark.parametrize(
    ("method", "warm_up"), [("WoLF", 20), ("WoLF-TMD", 20), ("Learned", 40)], ids=["WoLF", "WoLF-TMD", "Learned"]
)
def test_a_fault_of_that_size_is_flagged_in_95_of_100_runs(method, warm_up):
    rng, flagged, sizes = np.random.default_rng(7), 0, []
    levels = np.cumsum(rng.normal(0.0, [np.sqrt(0.3 + 0.1), *[np.sqrt(0.1)] * warm_up], (RUNS, warm_up + 1)), axis=1)
    online = wolf.Online(LEVEL, method)
    start = online.state
    for ys in (levels + rng.normal(size=levels.shape))[..., None]:
        online.set_state(start)
        for y in ys[:-1]:
            online.step(y)
        sizes.append(online.detectable[0])
        flagged += bool(online.step(ys[-1] + sizes[-1]).outlier)
    assert 0.91 < flagged / RUNS < 0.99  # the standard error is 0.013
    assert 3.0 < np.median(sizes) < 9.0


def test_the_threshold_of_a_gate_is_known():
    """A hard gate at the squared distance c flags residuals above sqrt(c R), so the size is known in closed form."""
    online = wolf.Online(LEVEL, wolf.methods.make("WoLF-TMD", c=9.0))
    for _ in range(30):
        online.step(0.0)
    spread = np.sqrt(online.predict().innovation_cov[0, 0])
    np.testing.assert_allclose(online.detectable, 3.0 + 1.6448536 * spread, rtol=1e-4)
    assert online.update(0.0).weight == 1.0


def test_a_series_reports_it_for_every_step_and_sensor():
    ys = np.random.default_rng(1).normal(size=(6, 2))
    out = wolf.filter(TRACK, ys, method="WoLF")
    online = wolf.Online(TRACK, "WoLF")
    for t, y in enumerate(ys):
        np.testing.assert_array_equal(out.detectable[t] if t in (0, 5) else online.detectable, online.detectable)
        online.step(y)
    assert out.detectable.shape == (6, 2)
    assert np.isinf(wolf.Online(LEVEL, "KF").detectable).all()


def test_methods_and_results_without_it_are_refused():
    with pytest.raises(ValueError, match="pick one series"):
        _ = wolf.filter_many(LEVEL, np.zeros((2, 3)), method="WoLF").detectable
    with pytest.raises(ValueError, match="from the prior, as a whole"):
        _ = wolf.filter(LEVEL, np.zeros(4), method="WoLF")[1:3].detectable
