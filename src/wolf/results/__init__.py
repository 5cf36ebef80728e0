"""Results of the public functions."""

from wolf.results.conformal import ConformalIntervals as ConformalIntervals
from wolf.results.filtered import ARRAYS as ARRAYS
from wolf.results.filtered import Filtered as Filtered
from wolf.results.forecast import Forecast as Forecast
from wolf.results.smoothed import Smoothed as Smoothed
from wolf.results.states import States as States
from wolf.results.views.text import describe_method as describe_method
from wolf.results.views.text import describe_state as describe_state
from wolf.statespace.array_fields import count as count
