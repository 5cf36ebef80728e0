"""Folders larger than memory: the numbers of one call, however rows lie in files, and after a kill too."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import dataset, feather, parquet

import wolf
import wolf_fleet
from wolf.online import filter_batches
from wolf_fleet.datasets import filter_dataset

pytest.importorskip("llvmlite")
LEVEL = wolf.models.local_level(0.1, 1.0)
STAMPS = np.datetime64("2024-05-01T00:00:00", "ms") + np.arange(60).astype("timedelta64[m]")


def rows(keys=5, steps=60, seed=0):
    rng = np.random.default_rng(seed)
    v = np.cumsum(rng.normal(size=(steps, keys)), 0) + 30 * (rng.random((steps, keys)) < 0.05)
    ids = [f"s{k}" for _ in range(steps) for k in range(keys)]
    return pyarrow.table(
        {"id": ids, "at": np.repeat(STAMPS[:steps], keys), "v": v.ravel(), "note": ["kept"] * len(ids)}
    )


def lay_out(folder, table, cuts=(70, 71, 200)):
    folder.mkdir(parents=True)
    ends = [0, *sorted(cuts), table.num_rows]
    for i, (first, last) in enumerate(pairwise(ends)):
        parquet.write_table(table.slice(first, last - first), folder / f"file{i}.parquet", row_group_size=50)
    return folder


def read(folder):
    return dataset.dataset(folder).to_table().sort_by([("id", "ascending"), ("at", "ascending")])


def run(source, out, **options):
    named = {"key": "id", "values": "v", "time": "at", "step": 60.0, "workers": 1} | options
    return filter_dataset(source, out, LEVEL, **named)


LAYOUTS = st.sampled_from(["by time", "by key", "shuffled"])


@given(cuts=st.lists(st.integers(1, 299), max_size=4), seed=st.integers(0, 3), layout=LAYOUTS)
def test_a_folder_has_the_numbers_of_its_rows_however_they_lie(tmp_path_factory, cuts, seed, layout):
    table = rows(seed=seed)
    expected = filter_batches(table, LEVEL, key="id", values="v", time="at", step=60.0).read_all()
    if layout == "shuffled":
        table = table.take(np.random.default_rng(seed).permutation(table.num_rows))
    if layout == "by key":
        table = table.sort_by([("id", "ascending"), ("at", "ascending")])
    place = tmp_path_factory.mktemp("folder")
    done = run(lay_out(place / "in", table, cuts), place / "out")
    assert (done.rows, done.keys, done.unused, done.failed) == (300, 5, 0, 0)
    out = read(place / "out")
    assert out.equals(expected.sort_by([("id", "ascending"), ("at", "ascending")]))
    assert done.outliers == sum(out["outlier"].to_pylist())
    for part in (place / "out").glob("*.parquet"):  # in order of key and time, so that readers can skip row groups
        some = parquet.read_table(part)
        assert some.equals(some.sort_by([("id", "ascending"), ("at", "ascending")]))


def test_chunks_and_buckets_change_nothing(tmp_path, monkeypatch):
    source = lay_out(tmp_path / "in", rows())
    run(source, tmp_path / "one")
    monkeypatch.setattr("wolf_fleet.datasets.dataset_job.MAX_CHUNK_BYTES", 2_000)  # a few dozen rows in a chunk
    monkeypatch.setattr("wolf_fleet.datasets.dataset_job.MIN_BUCKETS_PER_PROCESS", 11)
    run(source, tmp_path / "many")
    assert json.loads((tmp_path / "many" / "_wolf" / "manifest.json").read_text())["buckets"] == 11
    assert read(tmp_path / "many").equals(read(tmp_path / "one"))
    assert not list((tmp_path / "many" / "_wolf").glob("*.arrow"))


def test_files_laid_out_by_key_are_not_spread(tmp_path):
    table = rows().sort_by([("id", "ascending"), ("at", "ascending")])
    words = []
    run(lay_out(tmp_path / "in", table, ()), tmp_path / "out", on_progress=lambda *told: words.append(told[0]))
    assert set(words) == {"Filtering"}
    assert len(words) > 2
    np.testing.assert_array_equal(read(tmp_path / "out")["mean"], read_means(rows()))


def test_times_of_96_bits_come_out_as_spark_can_read_them(tmp_path):
    (tmp_path / "in").mkdir()
    noted = rows(keys=1).replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": "{}", "by": "me"})
    parquet.write_table(noted, tmp_path / "in" / "rows.parquet", use_deprecated_int96_timestamps=True)
    run(tmp_path / "in", tmp_path / "out")
    assert read(tmp_path / "out").schema.metadata == {b"by": b"me"}  # Spark would believe its own note of the columns
    assert read(tmp_path / "out").schema.field("at").type == pyarrow.timestamp("us")
    np.testing.assert_array_equal(read(tmp_path / "out")["mean"], read_means(rows(keys=1)))


def test_a_second_start_goes_on_and_redoes_nothing(tmp_path):
    source = lay_out(tmp_path / "in", rows())
    run(source, tmp_path / "whole")

    def end(words, done, total):
        if words == "Filtering":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(source, tmp_path / "out", on_progress=end)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.suffix == ".arrow"}
    facts = list((tmp_path / "out" / "_wolf").glob("part-*.json"))
    assert len(facts) == 1
    assert before
    seen = []
    done = run(source, tmp_path / "out", on_progress=lambda words, done, total: seen.append(words))
    assert len(seen) == 3  # of four buckets, and no rows were spread again
    assert done == run(source, tmp_path / "out")  # what is done is told again
    assert read(tmp_path / "out").equals(read(tmp_path / "whole"))


def test_what_cannot_be_gone_on_with_is_refused(tmp_path):
    source = lay_out(tmp_path / "in", rows())
    run(source, tmp_path / "out")
    with pytest.raises(ValueError, match="was started with other settings"):
        run(source, tmp_path / "out", level=0.9)
    parquet.write_table(rows(keys=1), source / "more.parquet")
    with pytest.raises(ValueError, match="other input files, or they have changed"):
        run(source, tmp_path / "out")
    with pytest.raises(ValueError, match="lies in"):
        run(source, source / "out")
    with pytest.raises(ValueError, match="contains other Parquet files"):
        run(tmp_path / "out", source)
    with pytest.raises(ValueError, match=r"memory must be at least 0\.5 GB for 1 process; got 0\.0 GB"):
        run(source, tmp_path / "new", memory=1e6)
    with pytest.raises(ValueError, match="there is no column 'w'"):
        run(source, tmp_path / "new", values="w")
    with pytest.raises(ValueError, match="has no option forecast"):
        wolf_fleet.filter_folder(source, tmp_path / "new", by="id", forecast=3)


def test_what_is_no_dataset_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is not a folder"):
        run(tmp_path / "in", tmp_path / "out")
    (tmp_path / "in").mkdir()
    with pytest.raises(ValueError, match="is empty"):
        run(tmp_path / "in", tmp_path / "out")
    (tmp_path / "in" / "rows.csv").write_text("id,v\na,1\n")
    with pytest.raises(ValueError, match=r"expected only Parquet or only Arrow files; .* has \.csv"):
        run(tmp_path / "in", tmp_path / "out")
    os.replace(tmp_path / "in" / "rows.csv", tmp_path / "in" / "rows.parquet")
    with pytest.raises(ValueError, match="cannot be read as parquet"):
        run(tmp_path / "in", tmp_path / "out")


def test_keys_may_be_folders_integers_and_dictionaries(tmp_path):
    table = rows()
    expected = read_means(table)
    for k in range(5):
        mine = table.filter(pyarrow.compute.equal(table["id"], f"s{k}")).drop_columns("id")
        (tmp_path / "in" / f"id=s{k}").mkdir(parents=True)
        parquet.write_table(mine, tmp_path / "in" / f"id=s{k}" / "rows.parquet")
    run(tmp_path / "in", tmp_path / "out")
    np.testing.assert_array_equal(read(tmp_path / "out")["mean"], expected)
    coded = table.set_column(0, "id", table["id"].dictionary_encode())
    (tmp_path / "coded").mkdir()
    feather.write_feather(coded, tmp_path / "coded" / "rows.arrow")
    run(tmp_path / "coded", tmp_path / "out2")
    out = dataset.dataset(tmp_path / "out2").to_table()
    out = out.set_column(0, "id", out["id"].cast(pyarrow.string())).sort_by([("id", "ascending"), ("at", "ascending")])
    np.testing.assert_array_equal(out["mean"], expected)


def read_means(table):
    out = filter_batches(table, LEVEL, key="id", values="v", time="at", step=60.0).read_all()
    return out.sort_by([("id", "ascending"), ("at", "ascending")])["mean"]


def children(process):
    """List the processes that one which we started has started in turn."""
    try:
        return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    except OSError:  # it has ended
        return []


def runs(pid):
    """Say whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at processes as Linux shows them")
def test_kill_9_at_random_moments_changes_nothing_and_leaves_no_process(tmp_path):
    source = lay_out(tmp_path / "in", rows(keys=200), (3000, 9000))
    run(source, tmp_path / "whole")
    begin = f"import sys; sys.path[:] = {sys.path!r}; from fleet.tests.datasets.test_dataset_job import run; "
    code = begin + f"run({str(source)!r}, sys.argv[1], workers=2)"
    rng, kills, started, out = np.random.default_rng(0), 0, set(), tmp_path / "out"
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "timed")], check=True)
    taken = time.monotonic() - begun
    while True:
        process = subprocess.Popen([sys.executable, "-c", code, str(out)])
        try:
            assert process.wait(timeout=taken * float(rng.uniform(0.3, 0.95)) if kills < 6 else 600) == 0
            break
        except subprocess.TimeoutExpired:
            started |= set(children(process))
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
    assert kills
    assert started
    deadline = time.monotonic() + 10
    while any(map(runs, started)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [pid for pid in started if runs(pid)]
    assert read(out).equals(read(tmp_path / "whole"))
