"""Arrow batches through a bank have the numbers of a filter of each key, for any batches and sources."""

from itertools import pairwise

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import wolf
from wolf.online import filter_batches

pytest.importorskip("llvmlite")
LEVEL = wolf.models.local_level(0.1, 1.0)
TRACK = wolf.models.constant_velocity(dims=2, dt=1.0, dynamics_var=0.1, obs_var=10.0)


def table(rows=60, keys=4, seed=0):
    rng = np.random.default_rng(seed)
    v = rng.standard_cauchy((rows, 2))
    v[rng.random(v.shape) < 0.1] = np.nan
    columns = {"id": [f"s{k}" for k in rng.integers(keys, size=rows)], "note": ["kept"] * rows}
    return pyarrow.table(columns | {name: pyarrow.array(v[:, j], from_pandas=True) for j, name in enumerate("xy")})


@given(cuts=st.lists(st.integers(0, 60), max_size=4), seed=st.integers(0, 3))
def test_each_key_has_the_numbers_of_its_own_filter(cuts, seed):
    whole = table(seed=seed)
    ends = [0, *sorted(cuts), 60]
    batches = [b for a, z in pairwise(ends) for b in whole.slice(a, z - a).to_batches()]
    out = filter_batches(iter(batches), TRACK, key="id", values=["x", "y"]).read_all()
    assert out.drop_columns(out.column_names[4:]).equals(whole)
    for key in set(whole["id"].to_pylist()):
        mine = np.array(whole["id"]) == key
        ys = np.column_stack([whole["x"], whole["y"]])[mine]
        filtered = wolf.filter(TRACK, ys)
        np.testing.assert_array_equal(np.array(out["x_mean"])[mine], filtered.means[:, 0])
        half = 1.959963984540054 * np.sqrt(filtered.covs[:, 1, 1])
        np.testing.assert_allclose(np.array(out["y_upper"])[mine], filtered.means[:, 1] + half, rtol=1e-12)
        np.testing.assert_array_equal(np.array(out["outlier"])[mine], filtered.outliers)


def test_tables_readers_and_frames_of_other_libraries_give_the_same():
    polars = pytest.importorskip("polars")
    whole = table()
    expected = filter_batches(whole, LEVEL, key="id", values="x").read_all()
    for source in (whole.to_reader(7), polars.from_arrow(whole), whole.combine_chunks().to_batches()[0]):
        out = filter_batches(source, LEVEL, key="id", values="x").read_all()
        np.testing.assert_array_equal(out["mean"], expected["mean"])
    coded = whole.set_column(0, "id", whole["id"].dictionary_encode())
    np.testing.assert_array_equal(
        filter_batches(coded, LEVEL, key="id", values="x").read_all()["mean"], expected["mean"]
    )


def test_unused_names_of_a_dictionary_are_not_keys():
    coded = pyarrow.DictionaryArray.from_arrays([2, 0, 2], ["a", "unused", "c"])
    bank = wolf.Bank(LEVEL)
    filter_batches(pyarrow.table({"id": coded, "v": [1.0, 2.0, 3.0]}), bank, key="id", values="v").read_all()
    assert set(bank) == {"a", "c"}
    assert bank["c"].t == 2


@given(seed=st.integers(0, 20))
def test_shared_time_steps_have_the_bits_of_time_steps_per_key(seed):
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.choice([0.5, 1.0, 2.5], 6))
    keys, clock = np.repeat(np.arange(3), 6), np.tile(times, 3)
    ys = rng.standard_t(2, (18, 2))
    together = wolf.Bank(TRACK).step(keys, ys, clock)
    other = wolf.Bank(TRACK)  # a fourth key with other time steps is in the same group
    beside = other.step(np.r_[keys, [9] * 6], np.r_[ys, ys[:6]], np.r_[clock, times**2])
    np.testing.assert_array_equal(together.mean, beside.mean[:18])
    np.testing.assert_array_equal(together.weight, beside.weight[:18])


def test_time_stamps_are_seconds_and_late_rows_are_null():
    stamps = pyarrow.array([0, 5_000, 3_000, 5_000, 60_000], pyarrow.timestamp("ms"))
    rows = pyarrow.table({"id": [7] * 5, "t": stamps, "mean": [1.0, 2.0, 9.0, 9.0, 1.5]})
    out = filter_batches(iter(rows.to_batches(1)), LEVEL, key="id", values="mean", time="t").read_all()
    expected = wolf.Bank(LEVEL).step([7] * 3, [1.0, 2.0, 1.5], [0.0, 5.0, 60.0]).signal[:, 0].tolist()
    assert out["wolf_mean"].to_pylist() == [*expected[:2], None, None, expected[2]]
    assert out["outlier"].null_count == 2


def test_a_bank_continues_through_batches_and_parquet(tmp_path):
    whole = table()
    expected = filter_batches(whole, LEVEL, key="id", values="x").read_all()["mean"].to_pylist()
    bank = wolf.Bank(LEVEL)
    first = filter_batches(whole.slice(0, 25), bank, key="id", values="x").read_all()
    parquet.write_table(bank.to_arrow(), tmp_path / "states.parquet")
    again = wolf.Bank.from_arrow(parquet.read_table(tmp_path / "states.parquet"), LEVEL)
    rest = filter_batches(whole.slice(25), again, key="id", values="x").read_all()
    assert first["mean"].to_pylist() + rest["mean"].to_pylist() == expected
    some = wolf.Bank.from_arrow(bank.to_arrow().slice(1, 2), LEVEL)
    assert [some.dump(key) for key in some] == [bank.dump(key) for key in list(bank)[1:3]]


def test_states_of_another_model_or_format_are_refused():
    bank = wolf.Bank(LEVEL)
    bank.step(["a", 1], [1.0, 2.0])
    with pytest.raises(ValueError, match="keys of both kinds"):
        bank.to_arrow()
    bank.forget(["a"])
    assert wolf.Bank.from_arrow(bank.to_arrow(), LEVEL)[1].t == 1
    with pytest.raises(ValueError, match="another model"):
        wolf.Bank.from_arrow(bank.to_arrow(), wolf.models.local_level(0.2, 1.0))
    with pytest.raises(ValueError, match="none of a bank"):
        wolf.Bank.from_arrow(table(), LEVEL)
    with pytest.raises(ValueError, match="must be an Arrow table"):
        wolf.Bank.from_arrow([1], LEVEL)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": "z"}, "there is no column 'z'; there are 'id', 'note', 'x', 'y'"),
        ({"values": "note"}, "values are numbers; 'note' holds string"),
        ({"values": ["x", "y"]}, "the model measures 1; values names 2"),
        ({"key": "x"}, "keys are text or integers; 'x' holds double"),
        ({"time": "note"}, "times are numbers or time stamps"),
        ({"reader": 5}, "must give Arrow record batches; got 5"),
        ({"reader": iter([])}, "must give Arrow record batches; got None first"),
        ({"model": wolf.Bank(LEVEL), "method": "KF"}, "a bank has a method already"),
    ],
)
def test_invalid_columns_and_sources_are_refused(options, words):
    given = {"reader": table(), "model": LEVEL, "key": "id", "values": "x"} | options
    with pytest.raises(ValueError, match=words):
        filter_batches(**given)


def test_a_row_without_a_key_is_refused():
    rows = pyarrow.table({"id": ["a", None], "x": [1.0, 2.0]})
    with pytest.raises(ValueError, match="a row has no key"):
        filter_batches(rows, LEVEL, key="id", values="x").read_all()
