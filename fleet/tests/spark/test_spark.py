"""Spark has the numbers of one machine, as a table and as a stream, also when its processes are killed.

    make test-spark

Needs PySpark 4, protobuf and Java 17; takes minutes, most of them for Java to start.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import wolf
from wolf.online import filter_batches

pytest.importorskip("pyspark")
pytest.importorskip("google.protobuf")
JOB = Path(__file__).parent / "job.py"
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("default"),  # PySpark's own
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java"),
]
KEYS, STEPS, FILES = 40, 60, 12
TRIES = 4  # starts that may fail: a worker of Python has 10 s to connect to Spark, which a busy machine can miss
SORTED = [("id", "ascending"), ("at", "ascending"), ("v", "ascending")]


def clean_rows():
    """Rows of many keys, some twice, one with nothing in it, over the hour in which clocks are put back."""
    rng = np.random.default_rng(0)
    step = np.repeat(np.arange(STEPS), KEYS)
    at = np.datetime64("2024-10-27T00:00:00", "us") + (step * 60_000_000 + rng.integers(0, 999, len(step)))
    v = rng.normal(size=len(step)) + 30.0 * (rng.random(len(step)) < 0.03)
    columns = {"id": [f"s{k}" for k in range(KEYS)] * STEPS, "at": pyarrow.array(at, pyarrow.timestamp("us", "UTC"))}
    table = pyarrow.table(
        columns | {"v": pyarrow.array(np.where(rng.random(len(v)) < 0.02, np.nan, v), from_pandas=True)}
    )
    arrival = step + rng.uniform(0, 4, len(step))  # up to four minutes late
    twice = rng.choice(len(step), 25, replace=False)
    return table.take(np.r_[np.arange(len(step)), twice]), np.r_[arrival, arrival[twice] + 0.01]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Lay rows out in files in the order in which they come, with some that are too late and one far ahead."""
    root = tmp_path_factory.mktemp("spark")
    table, arrival = clean_rows()
    table = table.take(np.argsort(arrival, kind="stable"))
    (root / "in").mkdir()
    cut = np.linspace(0, table.num_rows, FILES + 1).astype(int)
    hopeless = table.slice(0, 5)
    for i in range(FILES):
        part = table.slice(cut[i], cut[i + 1] - cut[i])
        part = pyarrow.concat_tables([part, hopeless]) if i == FILES - 2 else part
        lay(root / "in" / f"rows{i:02d}.parquet", part, i)
    # The last rows wait until a newer one has come.
    ahead = pyarrow.array(np.array(["2024-10-28"], "datetime64[us]"), pyarrow.timestamp("us", "UTC"))
    lay(root / "in" / "rows99.parquet", pyarrow.table({"id": ["ahead"], "at": ahead, "v": [0.0]}), 99)
    expected = filter_batches(
        table.sort_by([("at", "ascending"), ("v", "ascending")]),
        wolf.models.local_level(0.1, 1.0),
        key="id",
        values="v",
        time="at",
        step=60.0,
    ).read_all()
    return root, expected.sort_by(SORTED)


def lay(path, table, order):
    parquet.write_table(table, path)
    os.utime(path, (1e9 + order, 1e9 + order))  # files are taken in the order of their times


def place(rows, tmp_path):
    (tmp_path / "in").symlink_to(rows[0] / "in")
    return tmp_path


def end(process):
    """End a job that this file has started, with all its processes, which are one group."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def start(master, root, what):
    """Start a job; it does not outlive the block."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(JOB), master, str(root), what]
    with (root / "log").open("a") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        end(process)


def finish(master, root, what):
    """Run a job to its end; a start that failed is repeated, as a supervisor would."""
    for _ in range(TRIES):
        with start(master, root, what) as process:
            if process.wait(timeout=500) == 0:
                return
    pytest.fail((root / "log").read_text()[-3000:])


def committed(root):
    folder = root / "checkpoint" / "commits"
    return sum(path.name.isdigit() for path in folder.iterdir()) if folder.exists() else 0


def wait_for(condition, process, seconds=600):
    """Wait for something; False if the process ended before."""
    limit = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None:
            return False
        assert time.monotonic() < limit, "nothing happened"
        time.sleep(0.05)
    return True


def descendants(pid):
    """List the processes that one which we started has started, and those that they have."""
    found = []
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return found
    for task in tasks:
        try:
            born = [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
        for child in born:
            found += [child, *descendants(child)]
    return found


def executors(pid):
    """Find the executors among them."""
    found = []
    for child in descendants(pid):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if b"CoarseGrainedExecutorBackend" in words and b"java" in words.split(b"\0")[0]:
            found.append(child)
    return found


def sink(root):
    """Read what the sink has committed: by its own log, not by the files that lie there."""
    parts = {}
    for log in sorted((root / "stream" / "_spark_metadata").iterdir(), key=lambda path: path.name):
        if not log.name.startswith("."):
            for line in log.read_text().splitlines()[1:]:
                entry = json.loads(line)
                parts[entry["path"].removeprefix("file://")] = entry["action"]
    tables = [parquet.read_table(path) for path, action in parts.items() if action == "add"]
    return pyarrow.concat_tables(tables)


def same(got, expected):
    """Compare all columns, bit for bit; times as Spark's Parquet has them, in UTC."""
    at = got.column_names.index("at")
    got = got.set_column(at, "at", got["at"].cast(pyarrow.timestamp("us")).cast(pyarrow.timestamp("us", "UTC")))
    got = got.filter(pyarrow.compute.not_equal(got["id"], "ahead")).sort_by(SORTED)
    assert got.column_names == expected.column_names
    assert got.num_rows == expected.num_rows
    for name in ("id", "at", "v"):
        assert got[name].to_pylist() == expected[name].to_pylist()
    # Of two rows that are equal, either may be the one that is used: put the nulls last among them.
    for some in (got, expected):
        assert some["mean"].null_count == 25
    names = [*SORTED, ("mean", "ascending")]
    one, other = got.sort_by(names), expected.sort_by(names)
    for name in expected.column_names[3:]:
        assert one[name].to_pylist() == other[name].to_pylist(), name


def without_late_rows(rows, root):
    """Lay the same files out but for the rows that a stream finds too late."""
    (root / "in").mkdir()
    for path in sorted((rows[0] / "in").iterdir()):
        table = parquet.read_table(path)
        if path.name == "rows10.parquet":
            table = table.slice(0, table.num_rows - 5)
        parquet.write_table(table, root / "in" / path.name)
    return root


def parts(folder):
    return pyarrow.concat_tables([parquet.read_table(path) for path in sorted(folder.glob("*.parquet"))])


def test_a_table_of_spark_has_the_bits_of_one_machine(rows, tmp_path):
    root = without_late_rows(rows, tmp_path)
    finish("local[2]", root, "batch")
    same(parts(root / "batch"), rows[1])


def test_a_folder_on_spark_has_the_same_bits_after_kills_of_executor_and_driver(rows, tmp_path):
    root, rng, killed = without_late_rows(rows, tmp_path), np.random.default_rng(2), []
    work = root / "files" / "_wolf"
    for _ in range(TRIES):
        with start("local-cluster[2,1,1024]", root, "files") as process:
            begun = wait_for(lambda p=process: (work / "manifest.json").exists() and executors(p.pid), process)
            time.sleep(float(rng.uniform(0.0, 3.0)))
            if begun and len(killed) < 2 and not (root / "files" / "_SUCCESS").exists():
                killed.append(process.pid if killed else executors(process.pid)[0])
                if len(killed) == 2:
                    end(process)
                else:
                    os.kill(killed[0], signal.SIGKILL)
            if process.wait(timeout=500) == 0:
                same(parts(root / "files"), rows[1])
                if len(killed) == 2:
                    break
                shutil.rmtree(root / "files")
    assert len(killed) == 2
    assert process.returncode == 0, (root / "log").read_text()[-3000:]
    same(parts(root / "files"), rows[1])
    assert (root / "counted").read_text() == str((rows[1].num_rows + 1, 25, rows[1].num_rows + 1))
    left = {path.name for path in (root / "files").iterdir() if not path.name.startswith("part-")}
    assert left == {"_wolf", "_SUCCESS"}


def test_a_stream_of_spark_has_the_same_bits(rows, tmp_path):
    root = place(rows, tmp_path)
    finish("local[2]", root, "stream")
    same(sink(root), rows[1])
    assert (root / "dropped").read_text() == "5"


def test_three_kills_of_the_driver_lose_and_double_nothing(rows, tmp_path):
    root, rng, kills = place(rows, tmp_path), np.random.default_rng(0), []
    while len(kills) < 3:
        before = committed(root)
        with start("local[2]", root, "stream") as process:
            if wait_for(lambda b=before: committed(root) >= b + 2, process):
                time.sleep(float(rng.uniform(0.0, 2.0)))
                kills.append(committed(root))
                end(process)
        assert not (root / "done-stream").exists(), "it was over before it was killed"
    finish("local[2]", root, "stream")
    same(sink(root), rows[1])


def test_two_kills_of_executors_lose_and_double_nothing(rows, tmp_path):
    root, rng = place(rows, tmp_path), np.random.default_rng(1)
    killed = []
    for _ in range(TRIES):
        with start("local-cluster[2,1,1024]", root, "stream") as process:
            while len(killed) < 2:
                before = committed(root)
                if not wait_for(lambda b=before, p=process: committed(root) >= b + 2 and executors(p.pid), process):
                    break
                time.sleep(float(rng.uniform(0.0, 1.0)))
                killed.append(executors(process.pid)[0])
                os.kill(killed[-1], signal.SIGKILL)
            if process.wait(timeout=500) == 0:
                break
    assert (root / "done-stream").exists(), (root / "log").read_text()[-3000:]
    assert len(killed) == 2
    same(sink(root), rows[1])


def test_the_page_runs_as_it_stands(tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) == 4
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYSPARK_PYTHON": sys.executable}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1"}
    for _ in range(TRIES):
        place = tmp_path / str(time.monotonic_ns())
        place.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(blocks)], cwd=place, env=environment, capture_output=True, text=True
        )
        if done.returncode == 0 or "connect back" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr[-3000:]
