"""Data sets larger than memory: folders of Parquet or Arrow files."""

from wolf_fleet.datasets.bank_job import filter_dataset as filter_dataset
from wolf_fleet.datasets.cleaning_job import filter_folder as filter_folder
from wolf_fleet.datasets.dataset_job import DatasetSummary as DatasetSummary
