"""Late measurements: steps after them are repeated, within the horizon only."""

import numpy as np
import pytest

import wolf

TRACK = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
YS = 3.0 * np.random.default_rng(1).normal(size=(8, 2))


@pytest.mark.parametrize("back", [1, 2, 3])
def test_a_late_coordinate_completes_the_one_that_was_in_time(back):
    in_time, whole = YS.copy(), wolf.filter(TRACK, YS, method="WoLF")
    in_time[-back, 1] = np.nan
    online = wolf.Online(TRACK, "WoLF", horizon=3)
    for y in in_time:
        online.step(y)
    online.late([np.nan, YS[-back, 1]], t=len(YS) - back)
    assert online.t == len(YS)
    np.testing.assert_allclose(online.mean, whole.means[-1], rtol=1e-12)


@pytest.mark.parametrize("t", [4, 8, 9])
def test_steps_outside_of_the_horizon_are_refused(t):
    online = wolf.Online(TRACK, "WoLF", horizon=3)
    for y in YS:
        online.step(y)
    with pytest.raises(ValueError, match="steps 5 to 7"):
        online.late(YS[0], t=t)
