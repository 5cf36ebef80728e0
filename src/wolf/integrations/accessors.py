"""`df.wolf` and `series.wolf` for pandas and polars: `import wolf.integrations.accessors` registers them.

Nothing is registered by `import wolf`: what a library adds to another one's classes is asked for by name.

    import wolf.integrations.accessors
    df.wolf.filter(time="when", values="temperature")
    df["temperature"].wolf.clean()
"""

from importlib.util import find_spec
from typing import Any

from wolf.cleaning.frames import filter_frame, titles
from wolf.results.views.data_frame import narwhals

NAME = "wolf"


class FrameAccessor:
    """What `df.wolf` offers.

    Args:
        frame: of pandas or polars.
    """

    def __init__(self, frame: Any):
        self._frame = frame

    def filter(self, **options: Any) -> Any:
        """Add mean, interval, weight and outlier to the frame; options as in `wolf.filter_frame`."""
        return filter_frame(self._frame, **options)

    def clean(self, *, values: str | list[str] | None = None, **options: Any) -> Any:
        """Put the estimate in the place of outliers and of what is missing; other cells stay as they are.

        Args:
            values: columns to clean; default: the only column of numbers.
            **options: as in `wolf.filter_frame`, without `forecast`.
        """
        before = narwhals().from_native(self._frame, eager_only=True)
        out = _filtered(self._frame, values=values, **options)
        if values is None:
            taken = {options.get("time"), options.get("by")}
            values = [name for name, kind in before.schema.items() if kind.is_numeric() and name not in taken]
        names = list(values) if isinstance(values, list | tuple) else [values]
        return before.with_columns(
            *(_cleaned_values(out, names, j, before.columns) for j in range(len(names)))
        ).to_native()


class SeriesAccessor:
    """What `series.wolf` offers.

    Args:
        series: of pandas or polars.
    """

    def __init__(self, series: Any):
        self._series = series

    def filter(self, **options: Any) -> Any:
        """Give a frame of the readings with mean, interval, weight and outlier; options as in `wolf.filter_frame`."""
        return filter_frame(self._series, **options)

    def clean(self, **options: Any) -> Any:
        """Put the estimate in the place of outliers and of what is missing; other readings stay as they are.

        Args:
            **options: as in `wolf.filter_frame`, without `forecast`.
        """
        out, name = _filtered(self._series, **options), self._series.name
        return _cleaned_values(out, out.columns[:1], 0, out.columns[:1]).alias(name).to_native()

    def outliers(self, **options: Any) -> Any:
        """Say of each reading whether it is an outlier, as a Series of booleans.

        Args:
            **options: as in `wolf.filter_frame`, without `forecast`.
        """
        out, name = _filtered(self._series, **options), self._series.name
        title = titles([str(out.columns[0])], (0,), set(out.columns[:1]))["outlier", 0]
        return out.get_column(title).alias(name).to_native()


def _filtered(data: Any, **options: Any) -> Any:
    """Filter rows that came, and no others."""
    if options.get("forecast"):
        raise ValueError("cleaned readings have the rows that came; for a forecast use .wolf.filter(forecast=...)")
    return narwhals().from_native(filter_frame(data, **options), eager_only=True)


def _cleaned_values(out: Any, names: list[str], j: int, taken: list[str]) -> Any:
    """Give a column with the estimate where a reading was refused or is missing."""
    written = [str(name) for name in names]
    alone = titles(written, (j,), set(taken))
    title = alone if alone["outlier", j] in out.columns else titles(written, tuple(range(len(names))), set(taken))
    numbers = out.get_column(names[j]).cast(narwhals().Float64)
    good = (numbers.is_finite() & ~out.get_column(title["outlier", j])).fill_null(False)
    return numbers.zip_with(good, out.get_column(title["mean", j])).alias(names[j])


def _register() -> None:
    """Give every data frame library that is installed its accessors."""
    if find_spec("pandas"):
        from pandas.api import extensions

        extensions.register_dataframe_accessor(NAME)(FrameAccessor)
        extensions.register_series_accessor(NAME)(SeriesAccessor)
    if find_spec("polars"):
        from polars import api

        api.register_dataframe_namespace(NAME)(FrameAccessor)
        api.register_series_namespace(NAME)(SeriesAccessor)


_register()
