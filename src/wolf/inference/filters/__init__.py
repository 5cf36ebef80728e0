"""Filters, one per file: a state, a configuration, and `init`, `predict` and `update`."""

from wolf.inference.filters.covariance_reset import CovarianceReset
from wolf.inference.filters.ensemble import EnsembleFilter, EnsembleState
from wolf.inference.filters.error_state import ErrorState
from wolf.inference.filters.gaussian import GaussianFilter, GaussianState
from wolf.inference.filters.gradient import GradientFilter
from wolf.inference.filters.imm import IMM, Mode
from wolf.inference.filters.low_rank import LowRankFilter
from wolf.inference.filters.particle import ParticleFilter, RaoBlackwellFilter
from wolf.inference.filters.run_length import RunLength, RunLengthState
from wolf.inference.filters.truncated import TruncatedFilter

__all__ = [
    "IMM",
    "CovarianceReset",
    "EnsembleFilter",
    "EnsembleState",
    "ErrorState",
    "GaussianFilter",
    "GaussianState",
    "GradientFilter",
    "LowRankFilter",
    "Mode",
    "ParticleFilter",
    "RaoBlackwellFilter",
    "RunLength",
    "RunLengthState",
    "TruncatedFilter",
]
