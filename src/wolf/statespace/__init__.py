"""State-space models: dynamics of a state and its measurements."""

from wolf.statespace.bound_functions import Bound as Bound
from wolf.statespace.bound_functions import LinearMap as LinearMap
from wolf.statespace.conversions import is_curved as is_curved
from wolf.statespace.conversions import own_noise as own_noise
from wolf.statespace.conversions import prior_width as prior_width
from wolf.statespace.conversions import time_axes as time_axes
from wolf.statespace.conversions import with_matrices as with_matrices
from wolf.statespace.conversions import with_variances as with_variances
from wolf.statespace.linear import LinearModel as LinearModel
from wolf.statespace.model import Model as Model
from wolf.statespace.model import is_model as is_model
from wolf.statespace.nonlinear import StateSpaceModel as StateSpaceModel
from wolf.statespace.parameters import ParameterModel as ParameterModel
