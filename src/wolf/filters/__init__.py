"""Filters: one file, one belief; a config class with `init`, `predict` and `update`."""

from wolf.filters.gaussian import GaussianFilter as GaussianFilter
from wolf.filters.gaussian import GaussianState as GaussianState
from wolf.filters.lowrank import LowRankFilter as LowRankFilter
