"""Accessors `df.wolf` and `series.wolf` for pandas and polars.

`import wolf` registers them with the libraries that are imported before it, `import wolf.integrations.accessors` with
all that are installed.

    import pandas, wolf
    df.wolf.filter(time="when", values="temperature")
    df["temperature"].wolf.clean()
"""

from typing import TYPE_CHECKING, Any

from wolf.cleaning.forecast_rows import ColumnNames
from wolf.cleaning.frames import filter_frame, result_names
from wolf.cleaning.incident_table import incidents
from wolf.integrations import accessor_registration
from wolf.results.views.data_frame import narwhals

if TYPE_CHECKING:
    import narwhals as nw


class FrameAccessor:
    """Methods of `df.wolf`.

    Args:
        frame: of pandas or polars.
    """

    def __init__(self, frame: object):
        self._frame = frame

    def filter(self, **options: Any) -> Any:
        """Return the frame with result columns; options as in `wolf.filter_frame`."""
        return filter_frame(self._frame, **options)

    def clean(self, *, values: str | list[str] | None = None, **options: Any) -> Any:
        """Replace outliers and missing values by their estimates; other cells are unchanged.

        Args:
            values: columns to clean. Default: the only column of numbers.
            **options: as in `wolf.filter_frame`, except `forecast`.
        """
        before = narwhals().from_native(self._frame, eager_only=True)
        out = _filter(self._frame, values=values, **options)
        if values is None:
            taken = {options.get("time"), options.get("by")}
            values = [name for name, kind in before.schema.items() if kind.is_numeric() and name not in taken]
        names = list(values) if isinstance(values, list | tuple) else [values]
        cleaned = (_cleaned_column(out, names, j, before.columns) for j in range(len(names)))
        return before.with_columns(*cleaned).to_native()

    def incidents(self, **options: Any) -> Any:
        """List the incidents of a frame that `filter` returned; options as in `wolf.incidents`."""
        return incidents(self._frame, **options)


class SeriesAccessor:
    """Methods of `series.wolf`.

    Args:
        series: of pandas or polars.
    """

    def __init__(self, series: Any):
        self._series = series

    def filter(self, **options: Any) -> Any:
        """Return a frame with the series and result columns; options as in `wolf.filter_frame`."""
        return filter_frame(self._series, **options)

    def clean(self, **options: Any) -> Any:
        """Replace outliers and missing values by their estimates; other values are unchanged.

        Args:
            **options: as in `wolf.filter_frame`, except `forecast`.
        """
        out, name = _filter(self._series, **options), self._series.name
        return _cleaned_column(out, out.columns[:1], 0, out.columns[:1]).alias(name).to_native()

    def outliers(self, **options: Any) -> Any:
        """Return which values are outliers, as a Series of booleans.

        Args:
            **options: as in `wolf.filter_frame`, except `forecast`.
        """
        out, name = _filter(self._series, **options), self._series.name
        column = result_names([str(out.columns[0])], (0,), set(out.columns[:1]))["outlier", 0]
        return out.get_column(column).alias(name).to_native()


def _filter(data: object, **options: Any) -> "nw.DataFrame":
    """Filter without a forecast, as a narwhals frame."""
    if options.get("forecast"):
        raise ValueError("forecast adds rows, which this method cannot return; use .wolf.filter(forecast=...)")
    return narwhals().from_native(filter_frame(data, **options), eager_only=True)


def _cleaned_column(out: "nw.DataFrame", names: list[str], j: int, taken: list[str]) -> "nw.Series":
    """Build a column with the estimate in place of outliers and missing values."""
    written = [str(name) for name in names]
    alone = result_names(written, (j,), set(taken))
    columns: ColumnNames = alone
    if alone["outlier", j] not in out.columns:
        columns = result_names(written, tuple(range(len(names))), set(taken))
    numbers = out.get_column(names[j]).cast(narwhals().Float64)
    good = (numbers.is_finite() & ~out.get_column(columns["outlier", j])).fill_null(False)
    return numbers.zip_with(good, out.get_column(columns["mean", j])).alias(names[j])


accessor_registration.register_installed()
