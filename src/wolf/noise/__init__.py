"""Rules that say how much of a measurement to believe: `rule(residual, view, belief, obs_cov, observed) -> Believed`."""

from wolf.noise.weighted import Weighted as Weighted
