"""Unbounded streams: rows from a source through a bank of filters to files, exactly once."""

from wolf_fleet.streaming.checkpoint import parts as parts
from wolf_fleet.streaming.pipeline import StreamSummary as StreamSummary
from wolf_fleet.streaming.stream import stream as stream
