"""Readings in, clean series out: what `wolf filter`, `wolf.filter_frame` and the transformers share.

Rows may come in any order, at any times, from many sensors at once. Each series is sorted, its noise fitted unless
given, and filtered in chunks of bounded memory, or smoothed; `Series.rows` says where its rows were.
"""

from wolf.cleaning.options import Future as Future
from wolf.cleaning.options import Options as Options
from wolf.cleaning.options import Series as Series
from wolf.cleaning.pipeline import clean as clean
from wolf.cleaning.pipeline import prepare as prepare
from wolf.cleaning.prepared_series import PreparedSeries as PreparedSeries
