"""Rules that say how much to believe: `rule(residual, view, belief, obs_cov, observed, innovation) -> Believed`."""

from wolf.noise.two_part import TwoPart as TwoPart
from wolf.noise.weighted import Weighted as Weighted
