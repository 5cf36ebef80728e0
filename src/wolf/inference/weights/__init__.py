"""Weight functions and the calibration of their thresholds."""

from wolf.inference.weights.functions import *  # noqa: F403 (its __all__ is the list of the public names)
