"""Registration of the accessor `.wolf` with pandas and polars; its classes are imported when it is first used."""

import sys
from importlib.util import find_spec
from typing import Any

NAME = "wolf"
LIBRARIES = ("pandas", "polars")


def register_imported() -> None:
    """Register with the libraries that are imported already; none is imported for it."""
    _register([name for name in LIBRARIES if name in sys.modules])


def register_installed() -> None:
    """Register with all installed libraries, which imports them."""
    _register([name for name in LIBRARIES if find_spec(name)])


def _register(libraries: list[str]) -> None:
    if "pandas" in libraries:
        import pandas

        extensions = pandas.api.extensions
        _add(pandas.DataFrame, extensions.register_dataframe_accessor, _frame_accessor)
        _add(pandas.Series, extensions.register_series_accessor, _series_accessor)
    if "polars" in libraries:
        import polars

        _add(polars.DataFrame, polars.api.register_dataframe_namespace, _frame_accessor)
        _add(polars.Series, polars.api.register_series_namespace, _series_accessor)


def _add(cls: type, register: Any, accessor: Any) -> None:
    if NAME not in vars(cls):  # a second registration would warn
        register(NAME)(accessor)


def _frame_accessor(frame: object) -> Any:
    from wolf.integrations.accessors import FrameAccessor

    return FrameAccessor(frame)


def _series_accessor(series: object) -> Any:
    from wolf.integrations.accessors import SeriesAccessor

    return SeriesAccessor(series)
