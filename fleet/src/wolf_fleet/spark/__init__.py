"""Filters on Spark: folders (`filter_parquet`), tables (`filter`) and streams (`stream`)."""

from wolf_fleet.spark.batch import filter as filter
from wolf_fleet.spark.files import filter_parquet as filter_parquet
from wolf_fleet.spark.streams import stream as stream
