"""Data cleaning, shared by `wolf filter`, `wolf.filter_frame` and the transformers.

Rows may come in any order, at any times, from many sensors at once. Each series is sorted, its noise is fitted unless
given, and it is filtered in chunks of bounded memory, or smoothed; `CleanedSeries.rows` are its row numbers in the
input.
"""

from wolf.cleaning.options import CleaningOptions as CleaningOptions
from wolf.cleaning.options import Options as Options
from wolf.cleaning.pipeline import clean as clean
from wolf.cleaning.pipeline import prepare as prepare
from wolf.cleaning.prepared_series import PreparedSeries as PreparedSeries
from wolf.cleaning.result import CleanedSeries as CleanedSeries
from wolf.cleaning.result import FittedSeries as FittedSeries
from wolf.cleaning.result import SeriesForecast as SeriesForecast
