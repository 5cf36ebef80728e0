"""Online filters of own functions f(x, u) and h(x, u): native, with the bits of `wolf.filter`."""

import pickle

import jax.numpy as jnp
import numpy as np
import pytest

import wolf

pytest.importorskip("llvmlite")


def drive(x, u):
    return jnp.stack([x[0] + 0.1 * u[0] * jnp.cos(x[2]), x[1] + 0.1 * u[0] * jnp.sin(x[2]), x[2] + 0.1 * u[1]])


def position(x):
    return x[:2]


PARTS = (drive, position, 0.01 * np.eye(3), 0.1 * np.eye(2), wolf.Gaussian(np.zeros(3), np.eye(3)))
STATED, UNSTATED = wolf.StateSpaceModel(*PARTS, inputs=2), wolf.StateSpaceModel(*PARTS)
RNG = np.random.default_rng(0)
YS, US = RNG.normal(size=(8, 2)), RNG.normal(size=(8, 2))
YS[3, 0], US[5] = np.nan, 0.0


def run(online, rows=slice(None), convert=np.asarray):
    for y, u in zip(YS[rows], US[rows], strict=True):
        online.step(convert(y), u=convert(u))
    return online


@pytest.mark.parametrize("update_first", [False, True])
@pytest.mark.parametrize("convert", [np.asarray, list], ids=["arrays", "lists"])
def test_steps_have_the_bits_of_filter(update_first, convert):
    expected = wolf.filter(STATED, YS, method="EKF", inputs=US, update_first=update_first).final
    for model in (STATED, UNSTATED):
        online = run(wolf.Online(model, "EKF", update_first=update_first), convert=convert)
        assert online.backend == "native"
        np.testing.assert_array_equal(online.mean, expected.mean)
        np.testing.assert_array_equal(online.cov, expected.cov)


def test_number_of_inputs_is_stated_or_taken_from_the_first_step():
    assert wolf.Online(STATED, "EKF").backend == "native"
    online = wolf.Online(UNSTATED, "EKF")
    assert online.backend == "xla"
    assert "StateSpaceModel(..., inputs=2) states it" in online.backend_reason
    run(online, slice(1))
    assert (online.backend, online.backend_reason) == ("native", "")
    with pytest.raises(ValueError, match=r"u must have shape \(2,\) as before, or as the model states; got \(3,\)"):
        online.step(YS[0], u=np.zeros(3))
    with pytest.raises(ValueError, match="u must be finite"):
        online.step(YS[0], u=np.array([np.inf, 0.0]))
    assert online.t == 1
    assert run(wolf.Online(UNSTATED, "EKF", backend="xla"), slice(1)).backend == "xla"


@pytest.mark.parametrize("model", [STATED, UNSTATED], ids=["stated", "unstated"])
def test_saved_and_pickled_filters_continue_with_the_same_bits(model, tmp_path):
    half, rest = slice(4), slice(4, None)
    online = run(wolf.Online(model, "EKF", update_first=True), half)
    online.save(tmp_path / "state.npz")
    copies = [pickle.loads(pickle.dumps(online)), wolf.Online.load(tmp_path / "state.npz", model)]
    run(online, rest)
    for copy in copies:
        assert run(copy, rest).backend == "native"
        np.testing.assert_array_equal(copy.mean, online.mean)


def test_a_late_measurement_and_one_with_its_own_noise_use_the_inputs_of_their_steps():
    known = run(wolf.Online(STATED, "EKF", horizon=4))
    late = wolf.Online(STATED, "EKF", horizon=4)
    for t, (y, u) in enumerate(zip(YS, US, strict=True)):
        late.step(None if t == 6 else y, u=u)
    late.late(YS[6], t=6)
    np.testing.assert_array_equal(late.mean, known.mean)
    noisy = wolf.Online(STATED, "EKF", update_first=True)
    R = np.where(np.arange(8) % 2, 0.1, 0.4)[:, None, None] * np.eye(2)
    for t, (y, u) in enumerate(zip(YS, US, strict=True)):
        noisy.step(y, u=u, **({} if t % 2 else {"R": R[t]}))
    varying = wolf.StateSpaceModel(*PARTS[:3], R, PARTS[4], inputs=2)
    expected = wolf.filter(varying, YS, method="EKF", inputs=US, update_first=True)
    np.testing.assert_allclose(noisy.mean, expected.final.mean, rtol=1e-12)
