"""Filtering of a Spark stream by banks of filters: one per bucket of keys, kept in Spark's state store.

Rows are held in the state until the watermark has passed them, then filtered in the order of time. Spark commits state,
source position and output together; after a crash it repeats a micro-batch from the state before it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wolf import validation
from wolf.interfaces import Filter
from wolf.online.bank.bank import Bank
from wolf.statespace import Model
from wolf_fleet.spark import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STATE_STORE_SETTING = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
NUM_BUCKETS = 64
MICROS_COLUMN = "wolf_micros"
BUCKET_COLUMN = "wolf_bucket"


def stream(
    df: "DataFrame",
    *,
    key: str,
    time: str,
    value: str | Sequence[str],
    model: Model,
    method: str | Filter | None = None,
    step: float = 1.0,
    level: float = 0.95,
    allowed_lateness: str = "10 seconds",
    buckets: int = NUM_BUCKETS,
) -> "DataFrame":
    """Filter the rows of a stream, each key by its own filter, in the order of time.

    Exactly once if source and sink can be replayed, as files can: start it with `writeStream` and a checkpoint. The
    results are those of `wolf_fleet.spark.filter` on the same rows, bit for bit, if none is too late.

    Args:
        df: a streaming DataFrame.
        key: name of the column that identifies the series of a row, text or integers.
        time: name of the column of time stamps, which count as seconds.
        value: name of the column to filter, or names; null is missing.
        model: time-invariant model.
        method: as in `wolf.filter`.
        step: length of a model step, in seconds.
        level: probability of the intervals.
        allowed_lateness: delay of the watermark, as an interval of Spark. A row is filtered when one has arrived that
            is newer by this much. Rows that arrive behind the watermark are dropped and counted by Spark
            (`numRowsDroppedByWatermark`).
        buckets: number of groups of keys, each with about a thousand keys; fixed by the checkpoint.

    Returns:
        A streaming DataFrame of key, time, values, mean, lower, upper, weight and outlier, for the output mode append.
    """
    names = columns.check(df, key, time, value, streaming=True)
    validation.positive_number("step", step)
    validation.count("buckets", buckets)
    bank = Bank(model, method)
    from pyspark.sql import functions
    from pyspark.sql.types import LongType, StructField, StructType, TimestampType

    if not isinstance(df.schema[time].dataType, TimestampType):
        kind = df.schema[time].dataType.simpleString()
        raise ValueError(f"the times of a stream must be time stamps; {time!r} has type {kind}: cast it to timestamp")
    spark = df.sparkSession
    if "RocksDB" not in str(spark.conf.get(STATE_STORE_SETTING)):
        raise ValueError(
            f"the state store must be RocksDB: spark.conf.set({STATE_STORE_SETTING!r}, {ROCKSDB_PROVIDER!r})"
        )
    columns.require_protobuf()
    chosen = df.select(key, time, *(functions.col(name).cast("double").alias(name) for name in names))
    schema = columns.result_schema(chosen, bank, key, time, names, validation.confidence_level(level))
    from wolf_fleet.spark.processor import BucketProcessor

    # As microseconds since 1970: pandas would get local times, which are ambiguous when clocks are put back.
    fields = [StructField(MICROS_COLUMN, LongType()) if field.name == time else field for field in schema.fields]
    held = chosen.withWatermark(time, allowed_lateness).withColumn(MICROS_COLUMN, functions.unix_micros(time))
    bucket = functions.pmod(functions.xxhash64(key), functions.lit(buckets)).cast("int")
    processor = BucketProcessor(
        model, bank.method, (key, MICROS_COLUMN, *names), step, level, [field.name for field in fields]
    )
    out = (
        held.withColumn(BUCKET_COLUMN, bucket)
        .groupBy(BUCKET_COLUMN)
        .transformWithStateInPandas(
            statefulProcessor=processor, outputStructType=StructType(fields), outputMode="Append", timeMode="EventTime"
        )
    )
    times = {MICROS_COLUMN: functions.timestamp_micros(functions.col(MICROS_COLUMN)).alias(time)}
    return out.select(*(times.get(field.name, functions.col(field.name)) for field in fields))
