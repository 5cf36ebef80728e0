"""Rows that never end: from a source through a bank of filters to files, exactly once."""

from wolf.streaming.commits import parts as parts
from wolf.streaming.flow import Streamed as Streamed
from wolf.streaming.running import stream as stream
