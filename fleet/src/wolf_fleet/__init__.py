"""WoLF for fleets of sensors: data sets larger than memory, streams, an HTTP service and Spark.

Names are imported when they are first used, so that `wolf_fleet.stream` needs neither a web server nor Spark.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for type checkers; `_MODULES` below states the same for the interpreter
    from wolf_fleet import datasets, service, spark, streaming
    from wolf_fleet.datasets import filter_dataset, filter_folder
    from wolf_fleet.service.server import serve
    from wolf_fleet.service.service import Service
    from wolf_fleet.streaming.key_models import WarmUp
    from wolf_fleet.streaming.stream import stream

__all__ = [
    "Service",
    "WarmUp",
    "datasets",
    "filter_dataset",
    "filter_folder",
    "serve",
    "service",
    "spark",
    "stream",
    "streaming",
]

_MODULES = {
    "Service": "wolf_fleet.service.service",
    "WarmUp": "wolf_fleet.streaming.key_models",
    "filter_dataset": "wolf_fleet.datasets",
    "filter_folder": "wolf_fleet.datasets",
    "serve": "wolf_fleet.service.server",
    "stream": "wolf_fleet.streaming.stream",
}
_SUBPACKAGES = ("datasets", "service", "spark", "streaming")

if not TYPE_CHECKING:

    def __getattr__(name):
        """Import a public name when it is first used."""
        from importlib import import_module

        if name in _MODULES:
            found = getattr(import_module(_MODULES[name]), name)
        elif name in _SUBPACKAGES:
            found = import_module(f"wolf_fleet.{name}")
        else:
            raise AttributeError(f"module 'wolf_fleet' has no attribute {name!r}")
        globals()[name] = found
        return found
