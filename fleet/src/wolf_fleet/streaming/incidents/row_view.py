"""Filtered rows as they are displayed and judged."""

from typing import NamedTuple

import numpy as np

from wolf_fleet.streaming.pipeline import FilteredRows


class RowView(NamedTuple):
    """Filtered rows as displayed, in order.

    Attributes:
        times: (n,); times of arrival in seconds since 1970 if rows have no time of their own.
        values: (n, M) as received.
        means: (n, M) of the signal.
        half_widths: (n, M), half the width of its interval.
        weights: (n,), the smallest over coordinates.
        outliers: (n, M).
    """

    times: np.ndarray
    values: np.ndarray
    means: np.ndarray
    half_widths: np.ndarray
    weights: np.ndarray
    outliers: np.ndarray


def make_view(filtered: FilteredRows, num_deviations: float, at: float, timed: bool) -> RowView:
    """Convert filtered rows to a view.

    Args:
        filtered: from a `Pipeline` with a linear model.
        num_deviations: half width of an interval in standard deviations.
        at: time of arrival.
        timed: whether rows have times of their own.
    """
    rows, stepped = filtered
    assert stepped.signal is not None  # linear models have it
    assert stepped.signal_variances is not None
    weights = stepped.weight if stepped.weight.ndim == 1 else stepped.weight.min(axis=1)
    outliers = stepped.outlier if stepped.outlier.ndim == 2 else stepped.outlier[:, None]
    outliers = np.broadcast_to(outliers, rows.values.shape)
    times = rows.times if timed else np.full(len(rows.keys), at)
    half_widths = num_deviations * np.sqrt(stepped.signal_variances)
    return RowView(times, rows.values, stepped.signal, half_widths, weights, outliers)
