"""Public functions: they validate arguments, make one compiled call and return NumPy arrays; JAX settings stay."""

from wolf.api.filtering import filter as filter
from wolf.api.filtering import filter_chunks as filter_chunks
from wolf.api.filtering import filter_many as filter_many
from wolf.api.forecasting import forecast as forecast
from wolf.api.smoothing import backdate_jumps as backdate_jumps
from wolf.api.smoothing import sample_paths as sample_paths
from wolf.api.smoothing import smooth as smooth
