"""A job for `test_spark.py`, in a process that can be killed: a folder of Parquet through `wolf_fleet.spark`.

python job.py MASTER ROOT batch|files|stream
"""

import os
import sys
from pathlib import Path

import wolf
import wolf_fleet.spark

MODEL = wolf.models.local_level(0.1, 1.0)
HOW = {"key": "id", "time": "at", "value": "v", "model": MODEL, "step": 60.0}
LATENESS, BUCKETS = "5 minutes", 8
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def session(master):
    from pyspark.sql import SparkSession

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master(master).appName("wolf-tests")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "Europe/Berlin",  # a clock that is put back in winter changes nothing
        "spark.sql.streaming.stateStore.providerClass": ROCKS,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "spark.executor.memory": "1g",
        "spark.worker.timeout": "600",  # a machine with other work may stand still for a while
        "spark.network.timeout": "600s",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def batch(spark, root):
    out = wolf_fleet.spark.filter(spark.read.parquet(str(root / "in")), **HOW)
    out.write.mode("overwrite").parquet(str(root / "batch"))


def files(spark, root):
    done = wolf_fleet.spark.filter_parquet(spark, root / "in", root / "files", **HOW, mode="resume", memory=4e8)
    (root / "counted").write_text(str((done.rows, done.unused, sum(part["rows"] for part in done.parts))))


def stream(spark, root):
    schema = spark.read.parquet(str(root / "in")).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(root / "in"))
    out = wolf_fleet.spark.stream(rows, **HOW, allowed_lateness=LATENESS, buckets=BUCKETS)
    writer = out.writeStream.format("parquet").option("checkpointLocation", str(root / "checkpoint"))
    query = writer.option("path", str(root / "stream")).trigger(availableNow=True).start()
    query.awaitTermination()
    dropped = sum(p["stateOperators"][0]["numRowsDroppedByWatermark"] for p in query.recentProgress)
    (root / "dropped").write_text(str(dropped))


if __name__ == "__main__":
    place = Path(sys.argv[2])
    spark = session(sys.argv[1])
    {"batch": batch, "files": files, "stream": stream}[sys.argv[3]](spark, place)
    (place / f"done-{sys.argv[3]}").touch()
