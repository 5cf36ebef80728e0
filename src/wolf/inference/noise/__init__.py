"""Noise rules, which say how much of a measurement to believe: `rule(Evidence) -> Believed`."""

from wolf.inference.noise.adaptive_scale_mixture import LearnedScales, NoiseLaw
from wolf.inference.noise.adaptive_scales import LearnedLevels
from wolf.inference.noise.contaminated_gaussian import TwoPart
from wolf.inference.noise.particle_likelihoods import BetaLaw, GaussianLaw, MixtureLaw, StudentLaw
from wolf.inference.noise.per_sensor import SensorBySensor
from wolf.inference.noise.rivals.huang2017 import UnknownStudentNoise
from wolf.inference.noise.rivals.robust_regression import Correntropy, HuberRegression, TwoSidedStudent
from wolf.inference.noise.rivals.variational import BetaBernoulli, GammaWeight, InverseWishart, StudentNoise
from wolf.inference.noise.scale_mixture import ScaleMixture
from wolf.inference.noise.weighted import Weighted

__all__ = [
    "BetaBernoulli",
    "BetaLaw",
    "Correntropy",
    "GammaWeight",
    "GaussianLaw",
    "HuberRegression",
    "InverseWishart",
    "LearnedLevels",
    "LearnedScales",
    "MixtureLaw",
    "NoiseLaw",
    "ScaleMixture",
    "SensorBySensor",
    "StudentLaw",
    "StudentNoise",
    "TwoPart",
    "TwoSidedStudent",
    "UnknownStudentNoise",
    "Weighted",
]
