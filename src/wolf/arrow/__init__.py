"""Arrow batches through a bank, and folders of Parquet that are larger than memory."""

from wolf.arrow.batches import filter_batches as filter_batches
from wolf.arrow.batches import name_results as name_results
from wolf.arrow.datasets import filter_dataset as filter_dataset
