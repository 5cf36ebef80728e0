"""Readings in, clean series out: what `wolf filter`, `wolf.filter_frame` and the transformers share.

Rows may come in any order, at any times, from many sensors at once. Each series is sorted, its noise fitted unless
given, and filtered in chunks of bounded memory, or smoothed; `Series.rows` says where its rows were.
"""

from wolf.readings.pipeline import clean as clean
from wolf.readings.pipeline import prepare as prepare
from wolf.readings.ready import Ready as Ready
from wolf.readings.types import Future as Future
from wolf.readings.types import Options as Options
from wolf.readings.types import Series as Series
