"""Reading and writing of tables: CSV, Parquet, Arrow, Excel, GPX and NMEA, through pyarrow.

The cells of a CSV file stay text, so that they are written back byte for byte; only requested columns become numbers or
times, and an error names the row of a cell that is neither. See README.md in this folder.
"""

from wolf.cleaning.io.arrow_numpy import from_numpy as from_numpy
from wolf.cleaning.io.csv_style import CsvStyle as CsvStyle
from wolf.cleaning.io.date_parts import parts_axis as parts_axis
from wolf.cleaning.io.date_parts import write_parts as write_parts
from wolf.cleaning.io.gpx_nmea import write_gpx as write_gpx
from wolf.cleaning.io.paths import check_apart as check_apart
from wolf.cleaning.io.table import RowReader as RowReader
from wolf.cleaning.io.table import Table as Table
from wolf.cleaning.io.table import pyarrow as pyarrow
from wolf.cleaning.io.table_reader import SUFFIXES as SUFFIXES
from wolf.cleaning.io.table_reader import read_table as read_table
from wolf.cleaning.io.table_writer import check_table as check_table
from wolf.cleaning.io.table_writer import check_target as check_target
from wolf.cleaning.io.table_writer import needs_quotes as needs_quotes
from wolf.cleaning.io.table_writer import write_pieces as write_pieces
from wolf.cleaning.io.table_writer import write_table as write_table
from wolf.cleaning.io.time_axis import TimeAxis as TimeAxis
from wolf.cleaning.io.time_axis import is_clock as is_clock
from wolf.cleaning.io.time_axis import is_date_alone as is_date_alone
from wolf.cleaning.io.time_axis import is_time as is_time
from wolf.cleaning.io.time_axis import time_column as time_column
from wolf.cleaning.io.typed_columns import Numbers as Numbers
from wolf.cleaning.io.typed_columns import example as example
from wolf.cleaning.io.typed_columns import group_column as group_column
from wolf.cleaning.io.typed_columns import is_number as is_number
from wolf.cleaning.io.typed_columns import number_column as number_column
