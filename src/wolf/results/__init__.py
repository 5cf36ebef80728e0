"""What the public functions hand out."""

from wolf.results.results import ARRAYS as ARRAYS
from wolf.results.results import Filtered as Filtered
from wolf.results.results import Forecast as Forecast
from wolf.results.results import Smoothed as Smoothed
from wolf.results.results import describe_method as describe_method
from wolf.results.results import describe_state as describe_state
