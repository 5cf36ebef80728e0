"""Table of outliers, each with a reason; and of events: gaps, and shifts of the level."""

from typing import NamedTuple

import numpy as np

from wolf.cleaning import CleanedSeries, Options
from wolf.results import Filtered

MAX_TABLE_ROWS = 500
MAX_EXPLAINED_ROWS = 20_000  # of a series that is filtered again to explain its outliers
MIN_GAP_STEPS = 3.0  # typical steps without a measurement that are listed
MIN_DEVIATIONS = 1.0  # from the prediction, for it to be the reason of an outlier
FAULT_REASONS = {  # of a retrospective search
    "spike": "one measurement far from those before and after it",
    "burst": "several consecutive deviating measurements, after which the series returns",
    "stuck": "the same value repeated",
    "shift": "permanent change of the level",
    "dropout": "a sentinel value that marks missing data",
    "drift": "slow deviation, after which the series returns",
}


class Flag(NamedTuple):
    """Consecutive outliers with the same fault.

    Attributes:
        first: row of the series.
        last: row of the series, inclusive.
        column: of the series; None if all columns have one weight.
        kind: of fault.
        reason: as text.
    """

    first: int
    last: int
    column: int | None
    kind: str
    reason: str


def faults_of(each: CleanedSeries) -> np.ndarray | None:
    """Return the faults of a series, (T,) or (T, M) of text, if they were classified."""
    return None if each.fault is None else np.asarray(each.fault).astype(str)


def flags_of(each: CleanedSeries, options: Options, filtered: Filtered | None = None) -> list[Flag]:
    """List the outliers of a series, joined where consecutive ones have the same fault.

    Args:
        each: cleaned series.
        options: how it was cleaned.
        filtered: the run, if available: a `Filtered` with `save="all"`.
    """
    faults = None if options.causal else faults_of(each)  # a causal filter classifies none: `explain` does
    explained = None if faults is not None else _explain_outliers(each, options, filtered)
    single: list[Flag] = []
    for row, column in np.argwhere(each.outliers_by_column):
        place = None if each.outlier.ndim == 1 else int(column)
        kind, reason = "", ""
        if faults is not None:
            kind = str(faults[row] if faults.ndim == 1 else faults[row, column])
            reason = "; ".join(filter(None, [FAULT_REASONS.get(kind, ""), _describe_size(each, int(row), int(column))]))
        elif explained is not None:
            kind, reason = explained.get((int(row), place), ("", ""))
        reason = reason or _describe_size(each, int(row), int(column))
        single.append(Flag(int(row), int(row), place, kind or "outlier", reason))
    return _join_flags(single)


def _describe_size(each: CleanedSeries, row: int, column: int) -> str:
    """Describe how far a measurement is from its prediction, or from the estimate."""
    if not np.isfinite(each.values[row]).any():
        return "not a finite number"
    if not each.standardised.size:
        return "far from the prediction"
    own = each.standardised[row] if each.outlier.ndim == 1 else each.standardised[row, column : column + 1]
    far = own[np.nanargmax(np.abs(own))] if np.isfinite(own).any() else 0.0
    if abs(far) < MIN_DEVIATIONS:  # judged also by later measurements, or as part of a run
        off = each.values[row] - each.mean[row]
        off = off if each.outlier.ndim == 1 else off[column : column + 1]
        return f"{', '.join(f'{one:+.3g}' for one in off)} from the estimate"
    return f"{abs(far):.3g} standard deviations {'above' if far > 0 else 'below'} the prediction"


def _join_flags(single: list[Flag]) -> list[Flag]:
    """Join consecutive outliers with the same fault and column; the reason is that of the first."""
    rows: list[Flag] = []
    for flag in sorted(single, key=lambda one: (-1 if one.column is None else one.column, one.first)):
        last = rows[-1] if rows else None
        if last and (last.column, last.kind, last.last + 1) == (flag.column, flag.kind, flag.first):
            rows[-1] = last._replace(last=flag.last)
        else:
            rows.append(flag)
    return sorted(rows, key=lambda one: one.first)


def _explain_outliers(
    each: CleanedSeries, options: Options, filtered: Filtered | None
) -> dict[tuple[int, int | None], tuple[str, str]] | None:
    """Classify outliers by `wolf.explain`; None where it does not apply."""
    from wolf.diagnostics.faults import explain

    if not each.num_outliers or len(each.values) > MAX_EXPLAINED_ROWS:
        return None
    try:
        found = explain(_filter_again(each, options) if filtered is None else filtered)
    except (ValueError, AttributeError):  # a method that `explain` does not support, a model that is not available
        return None
    kinds = {"jump": "shift", "biased": "burst"}
    return {
        (one.step, one.sensor): (kinds.get(one.kind, one.kind), one.sentence) for one in found if one.kind != "missing"
    }


def _filter_again(each: CleanedSeries, options: Options) -> Filtered:
    """Filter a series again, with its fitted parameters."""
    from wolf import api
    from wolf.cleaning.pipeline import select_method
    from wolf.cleaning.sampling import gaps_of
    from wolf.fitting.initial_values import difference_var
    from wolf.models.registry import parse

    named = parse(each.model if options.model == "auto" else options.model)
    gaps = gaps_of(each.times)[1]
    prior = named.start(each.values, difference_var(each.values))
    model = named.builder(gaps, prior, len(each.columns))(**each.parameters)
    free = (
        [] if each.fit is None else [name for name in each.parameters if name not in named.given | options.parameters]
    )
    return api.filter(model, each.values, method=select_method(options, free, each.unit, model)[0])


def events_of(each: CleanedSeries, flags: list[Flag]) -> list[Flag]:
    """List events that are no faults: gaps, and shifts of the level."""
    missing = np.isnan(each.values).all(axis=1)
    edges = np.diff(np.concatenate([[0], missing.astype(int), [0]]))
    runs = zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1, strict=True)
    found = [
        Flag(int(a), int(b), None, "gap", f"{b - a + 1} rows without a measurement")
        for a, b in runs
        if b - a >= MIN_GAP_STEPS - 1
    ]
    if each.times is not None and len(each.times) > 1:
        steps = np.diff(each.times) / each.unit
        found += [
            Flag(int(row), int(row) + 1, None, "gap", f"no row for {steps[row]:.4g} typical steps")
            for row in np.flatnonzero(steps > MIN_GAP_STEPS)
        ]
    faults = faults_of(each)
    if faults is not None:
        rows = np.flatnonzero(faults == "shift" if faults.ndim == 1 else (faults == "shift").any(axis=1))
        starts = rows[np.diff(rows, prepend=-2) > 1] if rows.size else rows
        found += [Flag(int(row), int(row), None, "shift", FAULT_REASONS["shift"]) for row in starts]
    else:
        found += [flag for flag in flags if flag.kind == "shift"]
    return sorted(found, key=lambda one: one.first)
