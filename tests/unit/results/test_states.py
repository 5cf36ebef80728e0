"""Many series in pieces: each goes on where the last call stopped, and the bits are those of one long call."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wolf

STEPS, SERIES = 24, 9
LEVEL = wolf.models.local_level(level_var=0.1, obs_var=1.0)
RNG = np.random.default_rng(0)
YS = np.cumsum(0.3 * RNG.normal(size=(SERIES, STEPS)), axis=1) + RNG.standard_t(2, (SERIES, STEPS))
YS[2, 5:8] = np.nan
INPUTS = RNG.normal(size=(STEPS, 1))
PUSHED = wolf.LinearModel(F=[[0.9]], H=[[1.0]], Q=[[0.1]], R=[[1.0]], B=[[0.5]], mean=[0.0], cov=[[1.0]])
VARYING = wolf.LinearModel(
    F=np.linspace(0.8, 1.0, STEPS)[:, None, None], H=[[1.0]], Q=[[0.1]], R=[[1.0]], mean=[0.0], cov=[[1.0]]
)


def pieces(model, ys, cuts, states, inputs=None, **options):
    """Filter piece by piece, each time from what `states` makes of the piece before."""
    before, outs = None, []
    for a, b in zip((0, *cuts), (*cuts, ys.shape[1]), strict=True):
        us = None if inputs is None else inputs[..., a:b, :]
        outs.append(wolf.filter_many(model, ys[:, a:b], state=before, inputs=us, **options))
        before = states(outs[-1])
    return outs


def assert_same(outs, whole):
    for name in ("means", "covs", "weights", "outliers", "log_liks", "predicted_covs"):
        joined = np.concatenate([getattr(out, name) for out in outs], axis=1)
        np.testing.assert_array_equal(joined, getattr(whole, name), err_msg=name)
    for mine, theirs in zip(outs[-1].states.final, whole.states.final, strict=True):
        np.testing.assert_equal(mine, theirs)


@pytest.mark.bits
@settings(max_examples=15, deadline=None)
@given(cuts=st.sets(st.integers(1, STEPS - 1), max_size=4).map(sorted))
@pytest.mark.parametrize("way", ["states", "final", "bytes", "bank"])
def test_pieces_have_the_bits_of_one_call(way, cuts):
    ways = {
        "states": lambda out: out.states,
        "final": lambda out: out.final,
        "bytes": lambda out: wolf.States.from_bytes(out.states.to_bytes(), LEVEL),
        "bank": lambda out: wolf.Bank.from_states(out.states, range(SERIES)).states(range(SERIES)),
    }
    assert_same(pieces(LEVEL, YS, cuts, ways[way]), wolf.filter_many(LEVEL, YS))


@pytest.mark.bits
@pytest.mark.parametrize(
    ("backend", "model"),
    [("native", VARYING), ("native", [VARYING] * SERIES), ("xla", LEVEL), ("xla", [VARYING] * SERIES)],
    ids=["native", "native models", "xla", "xla models"],
)
def test_every_engine_goes_on(backend, model):
    options = {"backend": backend, "method": "WoLF"}
    assert_same(pieces(model, YS, (8, 16), lambda out: out.states, **options), wolf.filter_many(model, YS, **options))


OWN_INPUTS = np.stack([INPUTS] * SERIES) * np.arange(SERIES)[:, None, None]


@pytest.mark.bits
@pytest.mark.parametrize(
    ("backend", "update_first", "inputs"),
    [("native", False, INPUTS), ("native", True, INPUTS), ("native", True, OWN_INPUTS), ("xla", True, OWN_INPUTS)],
    ids=["shared", "update first", "own", "xla"],
)
def test_inputs_go_on(backend, update_first, inputs):
    options = {"backend": backend, "method": "KF", "inputs": inputs, "update_first": update_first}
    assert_same(pieces(PUSHED, YS, (8, 16), lambda out: out.states, **options), wolf.filter_many(PUSHED, YS, **options))


@pytest.mark.bits
@pytest.mark.parametrize(
    ("backend", "model"),
    [("native", VARYING), ("native", [VARYING] * SERIES), ("xla", VARYING)],
    ids=["native", "native models", "xla"],
)
def test_series_that_have_come_to_different_steps_go_on(backend, model):
    lengths = np.arange(4, 4 + SERIES)
    first = wolf.filter_many(model, [y[:n] for y, n in zip(YS, lengths, strict=True)], method="WoLF", backend=backend)
    rest = [y[n : n + 12] for y, n in zip(YS, lengths, strict=True)]
    second = wolf.filter_many(model, rest, method="WoLF", backend=backend, state=first.states)
    assert second.final.t.tolist() == (lengths + 12).tolist()
    whole = [y[: n + 12] for y, n in zip(YS, lengths, strict=True)]
    wanted = wolf.filter_many(model, whole, method="WoLF", backend=backend)
    for i, n in enumerate(lengths):
        np.testing.assert_array_equal(second[i].means, wanted[i].means[n:])


@pytest.mark.thorough
def test_a_large_model_goes_on_by_xla():
    rng = np.random.default_rng(1)
    dims = 20
    model = wolf.LinearModel(
        F=0.9 * np.eye(dims),
        H=rng.normal(size=(2, dims)),
        Q=np.eye(dims),
        R=np.eye(2),
        mean=np.zeros(dims),
        cov=np.eye(dims),
    )
    ys = rng.normal(size=(SERIES, STEPS, 2))
    options = {"method": "KF", "backend": "xla"}
    assert_same(pieces(model, ys, (8,), lambda out: out.states, **options), wolf.filter_many(model, ys, **options))
    ragged = [ys[0, :8], *ys[1:, :6]]
    first = wolf.filter_many(model, ragged, **options)
    second = wolf.filter_many(model, ys[:, 8:16], state=first.states, **options)
    one = wolf.filter(model, np.concatenate([ys[1, :6], ys[1, 8:16]]), **options)
    np.testing.assert_allclose(second.means[1], one.means[6:], rtol=1e-9)


@pytest.mark.thorough
def test_particles_go_on():
    options = {"method": "PF", "key": 0}
    first = wolf.filter_many(LEVEL, YS[:, :8], **options)
    second = wolf.filter_many(LEVEL, YS[:, 8:], state=first.states, **options)
    assert second.final.t.tolist() == [STEPS] * SERIES
    assert np.sqrt(np.mean((second.means - wolf.filter_many(LEVEL, YS, method="WoLF").means[:, 8:]) ** 2)) < 1.0


def test_one_state_of_many_is_one_of_online_and_of_a_bank():
    out = wolf.filter_many(LEVEL, YS)
    online, bank = wolf.Online(LEVEL, state=out.states[3]), wolf.Bank.from_states(out.states, range(SERIES))
    online.step(1.5)
    bank.step([3], [1.5])
    assert online.t == bank[3].t == STEPS + 1
    np.testing.assert_array_equal(online.mean, bank[3].mean)


def test_one_series_is_the_first_of_one():
    out = wolf.filter(LEVEL, YS[0, :8])
    more = wolf.filter_many(LEVEL, YS[:1, 8:], state=wolf.States.from_bytes(out.states.to_bytes(), LEVEL))
    np.testing.assert_array_equal(more.means[0], wolf.filter(LEVEL, YS[0]).means[8:])


def test_what_follows_can_be_smoothed_and_forecast():
    first = wolf.filter_many(LEVEL, YS[:, :8])
    jumped = YS[:, 8:] + np.where(np.arange(STEPS - 8) > 6, 40.0, 0.0)
    second = wolf.filter_many(LEVEL, jumped, state=first.states)
    whole = wolf.smooth(wolf.filter_many(LEVEL, np.concatenate([YS[:, :8], jumped], 1), method="WoLF"))
    plain = wolf.filter_many(
        LEVEL, jumped, method="WoLF", state=wolf.filter_many(LEVEL, YS[:, :8], method="WoLF").final
    )
    np.testing.assert_allclose(wolf.smooth(plain).means, whole.means[:, 8:], rtol=1e-9)
    assert wolf.smooth(second).means.shape == second.means.shape
    np.testing.assert_array_equal(
        wolf.forecast(second, steps=3).means,
        wolf.forecast(wolf.filter_many(LEVEL, np.concatenate([YS[:, :8], jumped], 1)), steps=3).means,
    )


def test_a_thousand_states_have_one_header():
    model = wolf.models.constant_velocity(dims=2, dt=1.0, dynamics_var=0.1, obs_var=10.0)
    sizes = [len(wolf.filter_many(model, np.ones((n, 2, 2))).states.to_bytes()) for n in (1, 1001)]
    assert (sizes[1] - sizes[0]) / 1000 <= 900
    assert sizes[0] < 13_500


def test_what_does_not_fit_is_refused_in_words():
    out = wolf.filter_many(LEVEL, YS)
    other = wolf.models.local_level(level_var=0.2, obs_var=1.0)
    data = out.states.to_bytes()
    for state in (out.final.mean, 3, out[0].final, wolf.filter_many(LEVEL, YS, method="KF").final):
        with pytest.raises(ValueError, match="9 states of this model and method"):
            wolf.filter_many(LEVEL, YS, state=state)
    with pytest.raises(ValueError, match="another model"):
        wolf.filter_many(other, YS, state=out.states)
    assert wolf.filter_many(other, YS, state=out.final).final.t[0] == 2 * STEPS
    with pytest.raises(ValueError, match="dtype='float64'; continue with the same"):
        wolf.filter_many(LEVEL, YS, state=out.states, dtype="float32")
    with pytest.raises(ValueError, match="another model"):
        wolf.States.from_bytes(data, other)
    with pytest.raises(ValueError, match="another method"):
        wolf.States.from_bytes(data, LEVEL, "KF")
    with pytest.raises(ValueError, match="damaged"):
        wolf.States.from_bytes(data[:-40], LEVEL)
    with pytest.raises(ValueError, match="must be bytes"):
        wolf.States.from_bytes("text", LEVEL)
    moved = wolf.filter_many(PUSHED, YS, inputs=INPUTS, update_first=True, method="KF")
    with pytest.raises(ValueError, match="not from out"):
        wolf.filter_many(PUSHED, YS, inputs=INPUTS, update_first=True, method="KF", state=moved.final)
    ended = wolf.filter_many(VARYING, YS, method="KF").states
    with pytest.raises(ValueError, match="24"):
        wolf.filter_many(VARYING, YS, method="KF", state=ended)
    with pytest.raises(ValueError, match="a slice does not end"):
        _ = out[0][:3].states
    with pytest.raises(KeyError, match="not in the bank"):
        wolf.Bank.from_states(out.states, range(SERIES)).states([99])
