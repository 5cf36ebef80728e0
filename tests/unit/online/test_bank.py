"""A bank of filters: each key has the bits of a filter of its own, however rows are batched."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wolf
from wolf.online.bank.key_index import KeyIndex
from wolf.online.bank.text_index import TextTable, can_be_tabulated, is_short_text

pytest.importorskip("llvmlite")
TRACK = wolf.models.constant_velocity(dims=2, dt=1.0, dynamics_var=0.1, obs_var=10.0)
LEVEL = wolf.models.local_level(0.1, 1.0)


def readings(seed, rows, keys=5):
    rng = np.random.default_rng(seed)
    ys = 10 * rng.standard_cauchy((rows, 2))
    ys[rng.random(ys.shape) < 0.1] = np.nan
    ys[rng.random(rows) < 0.05] = np.inf
    return rng.integers(keys, size=rows), ys


@pytest.mark.parametrize("method", ["WoLF", None], ids=["WoLF", "default"])
@given(cuts=st.lists(st.integers(1, 59), max_size=4), seed=st.integers(0, 3))
def test_each_key_has_the_bits_of_its_own_filter_for_any_batches(method, cuts, seed):
    keys, ys = readings(seed, 60)
    bank, means = wolf.Bank(TRACK, method), []
    for some in np.split(np.arange(60), sorted(cuts)):
        means.append(bank.step(keys[some], ys[some]).mean)
    means = np.concatenate(means)
    for key in np.unique(keys):
        out = wolf.filter(TRACK, ys[keys == key], method=method)
        np.testing.assert_array_equal(means[keys == key], out.means)
        np.testing.assert_array_equal(bank[int(key)].cov, out.covs[-1])
        assert bank[int(key)].t == np.sum(keys == key)


@given(seed=st.integers(0, 5))
def test_the_order_of_rows_between_keys_does_not_matter(seed):
    keys, ys = readings(seed, 40)
    times = np.arange(40) + np.random.default_rng(seed).random(40) / 2
    order = np.random.default_rng(seed).permutation(40)
    one, other = wolf.Bank(TRACK), wolf.Bank(TRACK)
    straight, shuffled = one.step(keys, ys, times), other.step(keys[order], ys[order], times[order])
    np.testing.assert_array_equal(straight.mean[order], shuffled.mean)


def test_times_equal_online_steps_with_dt():
    keys, ys = readings(1, 40, keys=2)
    times = np.cumsum(np.random.default_rng(2).exponential(size=40))
    out = wolf.Bank(TRACK).step(keys, ys, times)
    for key in (0, 1):
        mine, online = keys == key, wolf.Online(TRACK)
        for y, dt, mean in zip(ys[mine], np.diff(times[mine], prepend=times[mine][0]), out.mean[mine], strict=True):
            online.step(y, dt=dt)
            np.testing.assert_allclose(online.mean, mean, rtol=1e-10, atol=1e-12)


def test_noise_of_rows_equals_online_steps_with_R():
    keys, ys = readings(3, 30, keys=1)
    variances = np.random.default_rng(4).uniform(1, 30, (30, 2))
    out, online = wolf.Bank(TRACK).step(keys, ys, R=variances), wolf.Online(TRACK)
    for y, variance, mean in zip(ys, variances, out.mean, strict=True):
        online.step(y, R=np.diag(variance))
        np.testing.assert_allclose(online.mean, mean, rtol=1e-10, atol=1e-12)


def test_late_and_repeated_rows_are_counted_and_not_used():
    bank = wolf.Bank(LEVEL)
    bank.step(["a", "a"], [1.0, 2.0], [1.0, 3.0])
    before = bank["a"]
    out = bank.step(["a", "a", "a"], [50.0, 50.0, 2.0], [2.0, 3.0, 4.0])
    assert out.used.tolist() == [False, False, True]
    assert np.isnan(out.mean[:2]).all()
    assert (bank.late, bank.repeated) == (1, 1)
    assert bank["a"].t == before.t + 1
    assert bank.step(["b", "b"], [1.0, 9.0], [5.0, 5.0]).used.tolist() == [True, False]


def test_time_stamps_are_seconds():
    stamps = np.array(["2024-01-01T00:00:00", "2024-01-01T00:00:05"], "datetime64[s]")
    one, other = wolf.Bank(LEVEL), wolf.Bank(LEVEL)
    np.testing.assert_array_equal(
        one.step(["a", "a"], [1.0, 2.0], stamps).mean, other.step(["a", "a"], [1.0, 2.0], [0.0, 5.0]).mean
    )


def test_the_clock_of_time_stamps_continues_from_batch_to_batch():
    stamps = np.datetime64("2024-01-01T00:00:00") + np.arange(4) * np.timedelta64(90, "s")
    whole, cut = wolf.Bank(LEVEL), wolf.Bank(LEVEL)
    ys = [1.0, 2.0, 1.5, 1.0]
    together = whole.step(["a"] * 4, ys, stamps).mean
    apart = np.concatenate([cut.step(["a"], [y], [stamp]).mean for y, stamp in zip(ys, stamps, strict=True)])
    np.testing.assert_array_equal(together, apart)
    assert cut.forget_before(stamps[3]) == 0
    assert cut.forget_before(stamps[3] + np.timedelta64(1, "s")) == 1


def test_the_signal_is_the_noise_free_measurement():
    model = wolf.models.make("trend+seasonal:4", level_var=0.1, slope_var=0.01, seasonal_var=0.1, obs_var=1.0)
    ys = readings(2, 12)[1][:, 0]
    stepped, out = wolf.Bank(model).step(["a"] * 12, ys), wolf.filter(model, ys)
    H = np.asarray(model.H)
    np.testing.assert_allclose(stepped.signal, out.means @ H.T, rtol=1e-12)
    np.testing.assert_allclose(stepped.signal_variances[:, 0], (H @ out.covs @ H.T)[:, 0, 0], rtol=1e-9)


def test_a_loaded_bank_continues_with_the_same_bits(tmp_path):
    keys, ys = readings(5, 50)
    names = np.array(["left", "right", "über", "4", "five"])[keys]
    bank = wolf.Bank(TRACK)
    bank.step(names[:30], ys[:30])
    bank.step([7, "seven"], ys[:2])
    bank.save(tmp_path / "bank.npz")
    again = wolf.Bank.load(tmp_path / "bank.npz", TRACK)
    assert list(again) == list(bank)
    np.testing.assert_array_equal(again.step(names[30:], ys[30:]).mean, bank.step(names[30:], ys[30:]).mean)
    with pytest.raises(ValueError, match="another model"):
        wolf.Bank.load(tmp_path / "bank.npz", wolf.models.constant_velocity(2, 1.0, 0.2, 10.0))
    other = wolf.Bank(TRACK)
    other.step(["gone"], ys[:1])
    other.read(tmp_path / "bank.npz")
    assert "gone" not in other
    np.testing.assert_array_equal(other.last_times(["left", "gone"]), [np.nan, np.nan])
    with pytest.raises(ValueError, match="another method"):
        wolf.Bank.load(tmp_path / "bank.npz", TRACK, "WoLF")


def test_a_dumped_state_is_small_and_restored_by_its_model_only():
    keys, ys = readings(6, 20, keys=1)
    bank, other = wolf.Bank(TRACK), wolf.Bank(TRACK)
    bank.step(keys, ys)
    state = bank.dump(0)
    assert len(state) < 1000
    other.restore("elsewhere", state)
    np.testing.assert_array_equal(other["elsewhere"].cov, bank[0].cov)
    for wrong in (state[:-1], b"x" * len(state)):
        with pytest.raises(ValueError, match="another model, method or version"):
            other.restore("elsewhere", wrong)
    with pytest.raises(ValueError, match="another model, method or version"):
        wolf.Bank(TRACK, "WoLF").restore(0, state)


def test_a_bank_continues_filtered_series():
    ys = np.stack([readings(i, 25)[1] for i in range(3)])
    bank = wolf.Bank.from_filtered(wolf.filter_many(TRACK, ys[:, :20]), ["a", "b", "c"])
    out = wolf.filter_many(TRACK, ys)
    for t in range(20, 25):
        np.testing.assert_array_equal(bank.step(["a", "b", "c"], ys[:, t]).mean, out.means[:, t])
    with pytest.raises(ValueError, match="one key for each series"):
        wolf.Bank.from_filtered(out, ["a", "b"])


def test_a_forgotten_key_starts_at_the_prior():
    bank = wolf.Bank(LEVEL)
    first = bank.step(["a", "b"], [1.0, 5.0], [0.0, 10.0])
    assert bank.forget_before(5.0) == 1
    assert "a" not in bank
    np.testing.assert_array_equal(bank.step(["a"], [1.0], [20.0]).mean, first.mean[:1])
    with pytest.raises(KeyError, match="'z' is not in the bank"):
        bank["z"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a", [1.0]), "keys must be a list"),
        ((["a", None], [1.0, 2.0]), "keys must be text or integers"),
        ((["a"], [1.0, 2.0]), "as many rows; got 1 and 2"),
        ((["a"], [[1.0, 2.0]]), "ys must have shape"),
        ((["a"], [1.0], [np.nan]), "times must be finite"),
        ((["a"], [1.0], [1.0, 2.0]), "one for each row"),
    ],
)
def test_an_invalid_batch_is_refused_and_changes_nothing(arguments, words):
    bank = wolf.Bank(LEVEL)
    with pytest.raises(ValueError, match=words):
        bank.step(*arguments)
    assert len(bank) == 0


@pytest.mark.parametrize("R", [[[1.0, 1.0]], [[-1.0]], [[[np.nan]]]])
def test_an_invalid_covariance_is_refused(R):
    with pytest.raises(ValueError, match="R must"):
        wolf.Bank(LEVEL).step(["a"], [1.0], R=R)


def test_unsupported_models_and_methods_are_refused():
    with pytest.raises(ValueError, match="random numbers are drawn"):
        wolf.Bank(LEVEL, "PF")
    varying = wolf.LinearModel(np.ones((3, 1, 1)), np.eye(1), np.eye(1), np.eye(1), [0.0], np.eye(1))
    with pytest.raises(ValueError, match="fixed in time"):
        wolf.Bank(varying)


def test_an_empty_batch_is_accepted():
    assert len(wolf.Bank(LEVEL).step([], []).mean) == 0


@given(
    batches=st.lists(
        st.tuples(
            st.lists(st.integers(-3, 12) | st.sampled_from([10**6, 2**62]), min_size=1, max_size=6),
            st.lists(st.integers(-3, 12), max_size=3),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_arrays_of_integers_find_the_keys_that_lists_find(batches):
    """Small, negative and huge integers, some of which are forgotten in between."""
    one, other = wolf.Bank(LEVEL), wolf.Bank(LEVEL)
    for i, (keys, gone) in enumerate(batches):
        ys = np.arange(len(keys)) + i
        out, expected = one.step(np.array(keys), ys), other.step(keys, ys)
        np.testing.assert_array_equal(out.mean, expected.mean)
        assert list(one) == list(other)
        one.forget(gone)
        other.forget(gone)
    for key in other:
        assert one[key].t == other[key].t


@given(st.lists(st.tuples(st.booleans(), st.lists(st.sampled_from("abcd"), min_size=1, max_size=4)), max_size=12))
def test_keys_of_text_are_found_after_other_batches_and_removals(batches):
    bank, counts = wolf.Bank(LEVEL, "KF"), {}
    for forget, keys in batches:
        if forget:
            bank.forget([key for key in dict.fromkeys(keys) if key in counts])
            counts = {key: count for key, count in counts.items() if key not in keys}
            continue
        for _ in range(2):  # the second list equals the last one
            bank.step(keys, np.zeros(len(keys)))
            for key in keys:
                counts[key] = counts.get(key, 0) + 1
    assert {key: bank[key].t for key in bank} == counts


@pytest.mark.parametrize("wrong", [[None, "b"], [np.ones(2), "b"], [1.5, "b"]])
def test_an_invalid_key_is_refused_after_a_list_of_text(wrong):
    bank = wolf.Bank(LEVEL, "KF")
    bank.step(["a", "b"], np.zeros(2))
    with pytest.raises(ValueError, match="keys must be text or integers"):
        bank.step(wrong, np.zeros(2))


KEYS = st.one_of(st.text("ab", max_size=2), st.integers(0, 3))
STEPS = st.lists(
    st.tuples(st.booleans(), st.lists(KEYS, min_size=1, max_size=4, unique=True), st.booleans()), max_size=12
)


@given(STEPS)
def test_an_index_finds_what_a_dict_finds(steps):
    """Also lists and arrays equal to the last ones, after keys were removed and added in other rows."""
    index, plain = KeyIndex(), {}
    for i, (drops, keys, as_array) in enumerate(steps):
        if drops:
            for key in keys:
                assert (index.remove(key) if key in index else None) == plain.pop(key, None)
        else:
            fresh = [key for key in keys if key not in plain]
            rows = [10 * i + k for k in range(len(fresh))]
            index.add(fresh, rows)
            plain |= dict(zip(fresh, rows, strict=True))
        one_kind = len(set(map(type, keys))) == 1
        asked = np.array(keys) if as_array and one_kind else np.array(keys, object) if as_array else keys
        for _ in range(2):
            found = index.try_find(asked)
            if found is not None:
                assert found.tolist() == [plain[key] for key in keys]
        if all(key in plain for key in keys):
            assert index.find(keys).tolist() == [plain[key] for key in keys]


def test_keys_that_are_not_text_are_not_found_among_text():
    index = KeyIndex()
    index.add(["a", "1"], [0, 1])
    assert index.try_find(["a", 1]) is None
    assert index.try_find([]) is None
    assert index.try_find([["a"], "1"]) is None
    assert index.try_find([np.zeros(2), "1"]) is None
    assert index.try_find(np.array([["a", "1"]])) is None
    assert index.try_find(np.array(["1", "a"])).tolist() == [1, 0]


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9), unique=True))
def test_a_table_of_text_finds_its_keys_and_no_others(names):
    """Arrays as wide as the table, narrower and wider; the empty text is a key too."""
    if not names:
        return
    rows = 3 * np.arange(len(names))
    table = TextTable(names, rows)
    for asked in (names, names[::-1], names[: len(names) // 2 + 1]):
        assert table.find(np.array(asked)).tolist() == [3 * names.index(name) for name in asked]
    assert table.find(np.array(names, "U20")).tolist() == rows.tolist()
    for stranger in ("another one", names[0] + "x" * 10, "x" * 12):
        assert table.find(np.array([*names, stranger])) is None


def test_text_that_an_array_cannot_hold_is_not_tabulated():
    assert can_be_tabulated(["a", "b"])
    assert not any(map(can_be_tabulated, ([], ["a", 1], ["a\0", "a"], ["a" * 65])))
    assert not is_short_text(np.array(["a" * 65]))
    index = KeyIndex()
    index.add(["a\0", "a"], [0, 1])
    for _ in range(3):
        assert index.try_find(np.array(["a", "a"])).tolist() == [1, 1]


def test_rows_of_a_key_are_filtered_in_the_order_of_their_times():
    bank, ordered = wolf.Bank(LEVEL, "KF"), wolf.Bank(LEVEL, "KF")
    bank.step(["a", "a", "b"], [5.0, 1.0, 0.0], [2.0, 1.0, 1.0])
    ordered.step(["a", "a", "b"], [1.0, 5.0, 0.0], [1.0, 2.0, 1.0])
    assert bank.dump("a") == ordered.dump("a")
    assert bank.late == 0


def test_a_noise_covariance_with_a_negative_eigenvalue_is_refused():
    with pytest.raises(ValueError, match="R must be symmetric and positive definite"):
        wolf.Bank(TRACK, "KF").step(["a"], [[1.0, 2.0]], R=[[[1.0, 2.0], [2.0, 1.0]]])


def test_the_row_of_a_removed_key_is_used_again():
    bank = wolf.Bank(LEVEL, "KF")
    bank.step(range(2000), np.zeros(2000))
    size = len(bank._states.numbers)
    bank.forget(range(2000))
    bank.step(range(2000, 4000), np.zeros(2000))
    assert len(bank._states.numbers) == size
