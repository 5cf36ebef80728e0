"""The same filters on Spark: folders (`filter_parquet`), tables (`filter`) and streams (`stream`)."""

from wolf.spark.batch import filter as filter
from wolf.spark.files import filter_parquet as filter_parquet
from wolf.spark.streams import stream as stream
