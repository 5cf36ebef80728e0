"""What a row costs on Spark, beside one process on the same rows: CPU time of all processes.

    python benchmarks/spark.py [keys] [rows of a key] [whole] [mixed] [stream]

Needs PySpark, protobuf, Java 17 and psutil. 2-D tracks of four states, `Learned`, Parquet to Parquet, on local[2]; each
figure is the smallest of three runs after two to warm up, since Java compiles for a while. "whole": each file has all
rows of its keys, in order. "mixed": files are cut by time. "files": wolf_fleet.spark.filter_parquet, whose rows do not
pass through Java. "no filter": the same rows through Spark and Python, which appends as many columns as the filter.
"tuned": Parquet without dictionaries, times as numbers, larger batches. One process writes Parquet as "files" does. The
stream has ten rows of each key per micro-batch. It is checked that every row was used, with the same bits.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow
from pyarrow import dataset, parquet

import wolf
import wolf_fleet.spark
from wolf_fleet.datasets.dataset_job import dictionary_columns

FILES, BUCKETS, BATCHES, WARM, ROUNDS = 16, 16, 12, 2, 3
MODEL = wolf.models.constant_velocity(dims=2, dt=1.0, dynamics_var=0.1, obs_var=10.0)
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
TUNED = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
HOW = {"key": "id", "time": "at", "value": ["x", "y"], "model": MODEL, "method": "Learned"}


def cpu():
    """Give the CPU time of this process and of all that it has started: in all, and that of Java."""
    total = java = 0.0
    for each in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        times = each.cpu_times()
        total += times.user + times.system
        java += times.user + times.system if "java" in each.name() else 0.0
    return np.array([total, java])


def clock(run):
    """Give CPU time, that of Java and time of the cheapest of several runs, after some to warm up."""
    for _ in range(WARM):
        run()
    taken = []
    for _ in range(ROUNDS):
        begun, before = time.monotonic(), cpu()
        run()
        taken.append((*(cpu() - before), time.monotonic() - begun))
    return min(taken)


def widen(batches):
    """Put seven numbers and a flag beside each row, as the filter does, without a filter."""
    for batch in batches:
        x = np.asarray(batch.column("x"))
        more = {f"more{i}": x * (i + 2) for i in range(7)} | {"flag": x > 0}
        yield pyarrow.record_batch([*batch.columns, *more.values()], names=[*batch.schema.names, *more])


def make(keys, steps):
    rng = np.random.default_rng(0)
    at = np.tile(np.arange(steps), keys).astype("datetime64[s]").astype("datetime64[us]")
    xy = np.cumsum(rng.normal(size=(keys, steps, 2)), axis=1).reshape(-1, 2) + rng.standard_t(2, (keys * steps, 2))
    names = np.char.add("s", np.repeat(np.arange(keys), steps).astype(str))
    stamps = pyarrow.array(at, pyarrow.timestamp("us", "UTC"))
    return pyarrow.table({"id": names, "at": stamps, "x": xy[:, 0], "y": xy[:, 1]})


def lay_out(folder, table, steps):
    """Write a table to files, cut evenly, where a key ends if rows are in the order of keys."""
    folder.mkdir()
    cuts = np.linspace(0, table.num_rows // steps, FILES + 1).astype(int) * steps
    for i in range(FILES):
        parquet.write_table(table.slice(cuts[i], cuts[i + 1] - cuts[i]), folder / f"rows{i:02d}.parquet")


def session():
    from pyspark.sql import SparkSession

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = {"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4"}
    settings |= {"spark.sql.streaming.stateStore.providerClass": ROCKS, "spark.sql.session.timeZone": "UTC"}
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def one_process(source, out):
    """Read, filter and write in this process, batch by batch."""
    batches = dataset.dataset(source).to_batches(batch_size=65_536)
    reader = wolf.online.filter_batches(batches, MODEL, method="Learned", key="id", values=["x", "y"], time="at")
    coded = dictionary_columns(reader.schema, dataset.dataset(source).schema.names)
    with parquet.ParquetWriter(out, reader.schema, use_dictionary=coded) as writer:
        for batch in reader:
            writer.write_batch(batch)


def tables(spark, root, keys, steps, layouts):
    """One process and Spark on whole or mixed files."""
    rows = make(keys, steps)
    lay_out(root / "whole", rows, steps)
    lay_out(root / "mixed", rows.take(np.argsort(np.tile(np.arange(steps), keys), kind="stable")), steps)
    million = len(rows) / 1e6

    def on_spark(layout, **options):
        df = spark.read.parquet(str(root / layout))
        out = wolf_fleet.spark.filter(df, **HOW, shuffle=layout == "mixed")
        out.write.mode("overwrite").options(**options).parquet(str(root / f"out-{layout}"))

    def tuned(layout):
        old = {name: spark.conf.get(name) for name in TUNED}
        for name, value in TUNED.items():
            spark.conf.set(name, value)
        on_spark(layout, **{"parquet.enable.dictionary": "false"})
        for name, value in old.items():
            spark.conf.set(name, value)

    def no_filter(layout):
        df = spark.read.parquet(str(root / layout))
        df = df.repartition("id").sortWithinPartitions("at") if layout == "mixed" else df
        fields = ", ".join([f"{name} {kind}" for name, kind in df.dtypes] + [f"more{i} double" for i in range(7)])
        df.mapInArrow(widen, f"{fields}, flag boolean").write.mode("overwrite").parquet(str(root / "alone"))

    def files(layout):
        more = {"mode": "overwrite", "shuffle": layout == "mixed"}
        wolf_fleet.spark.filter_parquet(spark, root / layout, root / f"files-{layout}", **HOW, **more)

    for layout in layouts:
        ways = {"one process": lambda at=layout: one_process(root / at, root / f"one-{at}.parquet")}
        ways |= {"no filter": lambda at=layout: no_filter(at), "Spark": lambda at=layout: on_spark(at)}
        ways |= {"tuned": lambda at=layout: tuned(at), "files": lambda at=layout: files(at)}
        base = None
        for name, run in ways.items():
            used, java, wall = (each / million for each in clock(run))
            base = base or used
            figures = f"{used:6.2f} CPU s ({java:.2f} of Java) and {wall:6.2f} s for 10⁶ rows"
            print(f"{layout}, {name:<12}{figures}, {used / base:.2f} x", flush=True)
        means = []
        for name in (f"one-{layout}.parquet", f"out-{layout}", f"files-{layout}"):
            whole = parquet.read_table(root / name).sort_by([("id", "ascending"), ("at", "ascending")])
            assert whole["x_mean"].null_count == 0
            means.append(whole["x_mean"])
        assert means[0].to_pylist() == means[1].to_pylist() == means[2].to_pylist()


def streams(spark, root, keys, each=10):
    """A row for each key and second; a micro-batch has `each` of them, and the first few are not counted."""
    rows = make(keys, BATCHES * each)
    rows = rows.take(np.argsort(np.tile(np.arange(BATCHES * each), keys), kind="stable"))
    (root / "stream").mkdir()
    for i in range(BATCHES):
        path = root / "stream" / f"rows{i:02d}.parquet"
        parquet.write_table(rows.slice(i * keys * each, keys * each), path)
        os.utime(path, (1e9 + i, 1e9 + i))
    schema = spark.read.parquet(str(root / "stream")).schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(root / "stream"))
    out = wolf_fleet.spark.stream(source, **HOW, allowed_lateness="5 seconds", buckets=BUCKETS)
    writer = out.writeStream.format("parquet").option("checkpointLocation", str(root / "checkpoint"))
    before = cpu()[0]
    query = writer.option("path", str(root / "out-stream")).trigger(availableNow=True).start()
    query.awaitTermination()
    used = cpu()[0] - before
    full = [p for p in query.recentProgress if p["numInputRows"] == keys * each][4:]
    wall = statistics.median(p["durationMs"]["triggerExecution"] for p in full)
    first = query.recentProgress[0]["durationMs"]["triggerExecution"]
    state = full[-1]["stateOperators"][0]
    print(f"stream, {keys:,} keys, micro-batches of {keys * each:,} rows: first {first:,} ms, median {wall:,.0f} ms")
    print(f"  all of it, first batches included: {used / len(rows) * 1e6:.1f} CPU s for 10⁶ rows")
    print(f"  commits of the state: {state['commitTimeMs']:,} ms, summed over partitions")
    waiting = keys * 6  # what the watermark has not passed: five seconds and the last one
    got = parquet.read_table(root / "out-stream").num_rows
    assert len(rows) - waiting <= got <= len(rows), got


def main():
    keys = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    which = sys.argv[3:] or ["whole", "mixed", "stream"]
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        if layouts := [name for name in which if name != "stream"]:
            tables(spark, Path(folder), keys, steps, layouts)
        if "stream" in which:
            streams(spark, Path(folder), keys)
    spark.stop()


if __name__ == "__main__":
    main()
