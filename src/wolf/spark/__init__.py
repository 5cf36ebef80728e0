"""The same filters on Spark: whole tables (`filter`) and streams (`stream`), with the numbers of one machine."""

from wolf.spark.batch import filter as filter
from wolf.spark.streams import stream as stream
