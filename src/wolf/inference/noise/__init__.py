"""Measurement noise models, which decide how a measurement updates the belief: `UpdateContext -> UpdateDecision`."""

from wolf.inference.noise.adaptive_scale_mixture import AdaptiveScaleMixture
from wolf.inference.noise.adaptive_scales import AdaptiveNoiseScales
from wolf.inference.noise.contaminated_gaussian import ContaminatedGaussian
from wolf.inference.noise.delegating import DelegatingNoise
from wolf.inference.noise.noise_estimate import NoiseEstimate
from wolf.inference.noise.particle_likelihoods import (
    BetaLikelihood,
    GaussianLikelihood,
    MixtureLikelihood,
    StudentLikelihood,
)
from wolf.inference.noise.per_sensor import PerSensorNoise
from wolf.inference.noise.rivals.huang2017 import UnknownStudentNoise
from wolf.inference.noise.rivals.outlier_variance import OutlierVariance
from wolf.inference.noise.rivals.robust_regression import Correntropy, HuberRegression, TwoSidedStudent
from wolf.inference.noise.rivals.score_matching import ScoreMatching
from wolf.inference.noise.rivals.strong_tracking import StrongTracking
from wolf.inference.noise.rivals.variational import BetaBernoulli, GammaWeight, InverseWishart, StudentNoise
from wolf.inference.noise.rivals.variational_student import VariationalStudent
from wolf.inference.noise.scale_mixture import ScaleMixture
from wolf.inference.noise.weighted import Weighted

__all__ = [
    "AdaptiveNoiseScales",
    "AdaptiveScaleMixture",
    "BetaBernoulli",
    "BetaLikelihood",
    "ContaminatedGaussian",
    "Correntropy",
    "DelegatingNoise",
    "GammaWeight",
    "GaussianLikelihood",
    "HuberRegression",
    "InverseWishart",
    "MixtureLikelihood",
    "NoiseEstimate",
    "OutlierVariance",
    "PerSensorNoise",
    "ScaleMixture",
    "ScoreMatching",
    "StrongTracking",
    "StudentLikelihood",
    "StudentNoise",
    "TwoSidedStudent",
    "UnknownStudentNoise",
    "VariationalStudent",
    "Weighted",
]
