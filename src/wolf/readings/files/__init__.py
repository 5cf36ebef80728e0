"""Tables from files and back: CSV, Parquet and Arrow, through pyarrow (the extra `frames`).

The cells of a CSV file stay text, so that what was read is written back as it was; only the columns that are asked for
become numbers or times, and a cell that is neither is told with its row.
"""

from wolf.readings.files.arrays import from_numpy as from_numpy
from wolf.readings.files.calendars import parts_axis as parts_axis
from wolf.readings.files.calendars import write_parts as write_parts
from wolf.readings.files.columns import Numbers as Numbers
from wolf.readings.files.columns import example as example
from wolf.readings.files.columns import group_column as group_column
from wolf.readings.files.columns import is_number as is_number
from wolf.readings.files.columns import number_column as number_column
from wolf.readings.files.gps import write_gpx as write_gpx
from wolf.readings.files.places import check_apart as check_apart
from wolf.readings.files.reading import SUFFIXES as SUFFIXES
from wolf.readings.files.reading import read_table as read_table
from wolf.readings.files.table import Rows as Rows
from wolf.readings.files.table import Table as Table
from wolf.readings.files.table import pyarrow as pyarrow
from wolf.readings.files.times import TimeAxis as TimeAxis
from wolf.readings.files.times import is_clock as is_clock
from wolf.readings.files.times import is_date_alone as is_date_alone
from wolf.readings.files.times import is_time as is_time
from wolf.readings.files.times import time_column as time_column
from wolf.readings.files.writing import check_table as check_table
from wolf.readings.files.writing import check_target as check_target
from wolf.readings.files.writing import needs_quotes as needs_quotes
from wolf.readings.files.writing import write_pieces as write_pieces
from wolf.readings.files.writing import write_table as write_table
