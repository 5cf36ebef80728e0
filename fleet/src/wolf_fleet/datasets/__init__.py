"""Folders of Parquet or Arrow files that are larger than memory."""

from wolf_fleet.datasets.bank_job import filter_dataset as filter_dataset
from wolf_fleet.datasets.cleaning_job import filter_folder as filter_folder
