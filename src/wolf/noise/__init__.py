"""Noise rules, which say how much of a measurement to believe: `rule(Evidence) -> Believed`."""

from wolf.noise.adaptive import UnknownStudentNoise
from wolf.noise.laws import BetaLaw, GaussianLaw, MixtureLaw, StudentLaw
from wolf.noise.learned import LearnedScales, NoiseLaw
from wolf.noise.levels import LearnedLevels
from wolf.noise.mixture import ScaleMixture
from wolf.noise.sensors import SensorBySensor
from wolf.noise.two_part import TwoPart
from wolf.noise.twosided import Correntropy, HuberRegression, TwoSidedStudent
from wolf.noise.variational import BetaBernoulli, GammaWeight, InverseWishart, StudentNoise
from wolf.noise.weighted import Weighted

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
