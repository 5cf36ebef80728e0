"""A stream of Spark through banks of filters: one for each bucket of keys, kept in Spark's state store.

Rows wait in the state until the watermark has passed them, then they are filtered in the order of time. State, place in
the source and output are Spark's to commit together; after a crash it repeats a micro-batch from the state before it.
"""

from collections.abc import Sequence
from typing import Any

from wolf import validation
from wolf.interfaces import Filter
from wolf.online.bank.bank import Bank
from wolf.statespace import Model
from wolf_fleet.spark import columns

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
BUCKETS = 64
MICROS = "wolf_micros"


def stream(
    df: Any,
    *,
    key: str,
    time: str,
    value: str | Sequence[str],
    model: Model,
    method: str | Filter | None = None,
    step: float = 1.0,
    level: float = 0.95,
    lateness: str = "10 seconds",
    buckets: int = BUCKETS,
) -> Any:
    """Filter the rows of a stream, each key by itself, in the order of time.

    Exactly once, if source and sink can be repeated, as files can: start it with `writeStream` and a checkpoint. The
    numbers are those of `wolf_fleet.spark.filter` on the same rows, bit for bit, as long as none is too late.

    Args:
        df: a streaming DataFrame.
        key: name of the column that says whose a row is, of text or integers.
        time: name of the column of time stamps, which count as seconds.
        value: name of the column that is filtered, or names; null is missing.
        model: fixed in time.
        method: as in `wolf.filter`.
        step: length of a step of the model, in seconds.
        level: probability of the intervals.
        lateness: how long rows are waited for, in Spark's words. A row goes out when one has come that is so much
            newer. What is older than that when it comes is dropped, and counted by Spark (`numRowsDroppedByWatermark`).
        buckets: number of groups of keys; about a thousand keys in each. It is fixed by the checkpoint.

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
        raise ValueError(f"times of a stream are time stamps; {time!r} holds {kind}: cast it to timestamp")
    spark = df.sparkSession
    if "RocksDB" not in str(spark.conf.get(PROVIDER)):
        raise ValueError(f"states need RocksDB: spark.conf.set({PROVIDER!r}, {ROCKS!r})")
    columns.need_protobuf()
    chosen = df.select(key, time, *(functions.col(name).cast("double").alias(name) for name in names))
    schema = columns.result_schema(chosen, bank, key, time, names, validation.level(level))
    from wolf_fleet.spark.processor import BucketProcessor

    # As microseconds since 1970: pandas would be given the clock of a time zone, which is put back in winter.
    fields = [StructField(MICROS, LongType()) if field.name == time else field for field in schema.fields]
    held = chosen.withWatermark(time, lateness).withColumn(MICROS, functions.unix_micros(time))
    held = held.withColumn("wolf_bucket", functions.pmod(functions.xxhash64(key), functions.lit(buckets)).cast("int"))
    processor = BucketProcessor(model, bank.method, (key, MICROS, *names), step, level, [f.name for f in fields])
    out = held.groupBy("wolf_bucket").transformWithStateInPandas(
        statefulProcessor=processor, outputStructType=StructType(fields), outputMode="Append", timeMode="EventTime"
    )
    again = {MICROS: functions.timestamp_micros(functions.col(MICROS)).alias(time)}
    return out.select(*(again.get(field.name, functions.col(field.name)) for field in fields))
