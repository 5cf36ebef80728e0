"""Filters: one file, one belief; a config class with `init`, `predict` and `update`."""

from wolf.filters.ensemble import EnsembleFilter as EnsembleFilter
from wolf.filters.ensemble import EnsembleState as EnsembleState
from wolf.filters.gaussian import GaussianFilter as GaussianFilter
from wolf.filters.gaussian import GaussianState as GaussianState
