"""Filters: one file each, with a state, a config and init / predict / update."""

from wolf.inference.filters.covariance_reset import Forgetful
from wolf.inference.filters.ensemble import EnsembleFilter, EnsembleState
from wolf.inference.filters.error_state import ErrorState
from wolf.inference.filters.gaussian import GaussianFilter, GaussianState
from wolf.inference.filters.gradient import GradientFilter
from wolf.inference.filters.imm import IMM, Mode
from wolf.inference.filters.low_rank import LowRankFilter
from wolf.inference.filters.particle import ParticleFilter, RaoBlackwellFilter
from wolf.inference.filters.truncated import Bounded

__all__ = [
    "IMM",
    "Bounded",
    "EnsembleFilter",
    "EnsembleState",
    "ErrorState",
    "Forgetful",
    "GaussianFilter",
    "GaussianState",
    "GradientFilter",
    "LowRankFilter",
    "Mode",
    "ParticleFilter",
    "RaoBlackwellFilter",
]
