"""Weight functions and the calibration of their thresholds."""

from wolf.inference.weights.functions import *  # noqa: F403 (its __all__ is the list of the public names)
from wolf.inference.weights.noise_factor import largest_factor as largest_factor
