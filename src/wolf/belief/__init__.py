"""Beliefs about a state, and the only Kalman algebra in the package."""

from wolf.belief.kinds import DeferredGaussian as DeferredGaussian
from wolf.belief.kinds import Gaussian as Gaussian
from wolf.belief.kinds import RootGaussian as RootGaussian
