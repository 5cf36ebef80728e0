"""Filters: one file each, with a state, a config and init / predict / update."""

from wolf.filters.bounded import Bounded
from wolf.filters.curved import ErrorState
from wolf.filters.ensemble import EnsembleFilter, EnsembleState
from wolf.filters.forgetful import Forgetful
from wolf.filters.gaussian import GaussianFilter, GaussianState
from wolf.filters.gradient import GradientFilter
from wolf.filters.lowrank import LowRankFilter
from wolf.filters.multiple import IMM, Mode
from wolf.filters.particle import ParticleFilter, RaoBlackwellFilter

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
