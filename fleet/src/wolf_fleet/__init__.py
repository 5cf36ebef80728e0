"""WoLF for fleets of sensors: data sets larger than memory, streams, an HTTP service and Spark.

Names are imported when they are first used, so that `wolf_fleet.stream` needs neither a web server nor Spark.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for type checkers; `_HOMES` below states the same for the interpreter
    from wolf_fleet import spark
    from wolf_fleet.datasets import filter_dataset, filter_folder
    from wolf_fleet.service.service import Service
    from wolf_fleet.streaming.stream import stream

__all__ = ["Service", "filter_dataset", "filter_folder", "spark", "stream"]

_HOMES = {
    "Service": "wolf_fleet.service.service",
    "filter_dataset": "wolf_fleet.datasets",
    "filter_folder": "wolf_fleet.datasets",
    "stream": "wolf_fleet.streaming.stream",
}

if not TYPE_CHECKING:

    def __getattr__(name):
        """Import a public name when it is first used."""
        from importlib import import_module

        if name in _HOMES:
            found = getattr(import_module(_HOMES[name]), name)
        elif name == "spark":
            found = import_module("wolf_fleet.spark")
        else:
            raise AttributeError(f"module 'wolf_fleet' has no attribute {name!r}")
        globals()[name] = found
        return found
