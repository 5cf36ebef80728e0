"""Columns that are cleaned together: what the others say about a column is subtracted before it is judged.

Each column is first cleaned by itself. The columns without their faults then have a joint model with correlated
disturbances (`wolf.models.joint`), and the expectation of each column given all others is what they explain of it. It
is subtracted before the column is searched for faults and filled, and added afterwards, as for exogenous variables. A
value that the others contradict is a fault, and one that they confirm is none; a gap is filled with their shape.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from wolf import api
from wolf.cleaning.exogenous import Explained
from wolf.cleaning.prepared_series import PreparedSeries
from wolf.cleaning.result import SeriesForecast, columnwise
from wolf.fitting.joint_correlation import estimate_correlation
from wolf.models.joint import joint
from wolf.statespace import LinearModel


class ExplainedByOthers(NamedTuple):
    """Part of a column that the other columns explain.

    Attributes:
        share: as for exogenous variables.
        forecast: of the column by itself, if one was requested.
        correlations: of its disturbances with those of the others, by column number.
    """

    share: Explained
    forecast: SeriesForecast | None
    correlations: dict[int, float]


def together_columns(given: bool | str | Sequence[str], names: Sequence[str]) -> list[int]:
    """Read the option `together`: numbers of the columns that are cleaned together.

    Args:
        given: True for all, or names of columns; in one text they are separated by commas.
        names: of all value columns.
    """
    if given is False or given is None:
        return []
    if given is True:
        wanted = list(names)
    else:
        wanted = [each.strip() for each in given.split(",")] if isinstance(given, str) else list(map(str, given))
        wanted = list(names) if wanted == ["all"] else wanted
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ValueError(f"together names {missing[0]!r}, which is no value column; they are {', '.join(names)}")
    if len(set(wanted)) < 2:
        raise ValueError(f"together needs at least two value columns; got {', '.join(wanted)}")
    return sorted({list(names).index(name) for name in wanted})


def explain_by_others(
    prepare_column: Callable[[int], PreparedSeries], columns: Sequence[int], causal: bool
) -> dict[int, ExplainedByOthers]:
    """Compute what the other columns explain of each.

    Args:
        prepare_column: number of a column -> its series, before its run.
        columns: numbers of the columns.
        causal: use only the past and present of each row.

    Returns:
        By column; without those that correlate with no other, and those that cannot be modelled.
    """
    series: dict[int, PreparedSeries] = {}
    for j in columns:
        try:
            series[j] = prepare_column(j)
        except ValueError:  # constant, or too short; reported when it is cleaned itself
            continue
    if len(series) < 2:
        return {}
    numbers, plain, forecasts = list(series), [], {}
    for j, each in series.items():
        cleaned = each.clean(lambda rows: None)
        good = np.isfinite(each.unexplained) & ~columnwise(cleaned.outlier)
        plain.append(np.where(good, each.unexplained, np.nan)[:, 0])
        forecasts[j] = cleaned.forecast
    values = np.stack(plain, axis=1)
    correlation = estimate_correlation([each.build(None) for each in series.values()], values)
    related = np.abs(correlation - np.eye(len(numbers))) > 0
    model = joint([each.build(each.gaps) for each in series.values()], correlation)
    found = {}
    for k, j in enumerate(numbers):
        if not related[k].any():
            continue
        share = _expected(model, values, k, np.isfinite(values[:, related[k]]).any(axis=1), causal)
        with_others = {numbers[i]: float(correlation[k, i]) for i in np.flatnonzero(related[k])}
        found[j] = ExplainedByOthers(Explained(share, np.zeros_like(share)), forecasts[j], with_others)
    return found


def _expected(model: LinearModel, values: np.ndarray, column: int, informed: np.ndarray, causal: bool) -> np.ndarray:
    """Compute the expectation of a column given all others, (T, 1).

    Where no related column is measured its own readings are used: its changes would otherwise be explained in most rows
    and not in these, which would look like faults.

    Args:
        model: joint.
        values: (T, M), without faults.
        column: its number.
        informed: whether a related column is measured, (T,).
        causal: use only the past and present of each row.
    """
    others = np.array(values)
    others[informed, column] = np.nan
    out = api.filter(model, others, method="KF")
    means = out.means if causal else api.smooth(out).means
    row = np.asarray(model.H)[..., column, :]
    return np.asarray(np.sum(means * row, axis=-1)[:, None])
