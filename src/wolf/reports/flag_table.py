"""The flagged readings, one by one, each with a reason; and the events: gaps, and shifts of the level."""

from typing import Any, NamedTuple

import numpy as np

from wolf.cleaning import Options, Series

MOST = 500  # rows of the table
LONGEST = 20_000  # rows of a series that are filtered once more to be explained
GAP = 3.0  # typical steps without a reading that are told
CLOSE = 1.0  # standard deviations from the prediction that say nothing of a flagged reading
KINDS = {  # what a kind means, where the whole series was looked at
    "spike": "one reading far from those before and after it",
    "burst": "several readings in a row that are off, after which all is as before",
    "stuck": "the same value again and again",
    "shift": "the level moved and stayed",
    "dropout": "fell to a value that stands for nothing",
    "drift": "moved away slowly, and came back",
}


class Flag(NamedTuple):
    """Flagged readings that belong together.

    Attributes:
        first: row of the series.
        last: row of the series, inclusive.
        column: of the series; None where readings are judged together.
        kind: of fault.
        reason: in words.
    """

    first: int
    last: int
    column: int | None
    kind: str
    reason: str


def kinds_of(each: Series) -> np.ndarray | None:
    """Find the kind of each reading's fault, (T,) or (T, M) of texts, if the series was judged so."""
    found = each.fault
    return None if found is None or np.asarray(found).dtype.kind not in "UOT" else np.asarray(found).astype(str)


def flags_of(each: Series, options: Options, filtered: Any = None) -> list[Flag]:
    """List the flagged readings of a series, neighbours of one kind together.

    Args:
        each: cleaned.
        options: how.
        filtered: the run, if it is at hand: a `Filtered` with `save="all"`.
    """
    kinds = None if options.causal else kinds_of(each)  # live, a kind is a guess: `explain` says more
    told = None if kinds is not None else _explained(each, options, filtered)
    outlier = each.outlier if each.outlier.ndim == 2 else each.outlier[:, None]
    single: list[Flag] = []
    for row, column in np.argwhere(outlier):
        place = None if each.outlier.ndim == 1 else int(column)
        kind, reason = "", ""
        if kinds is not None:
            kind = str(kinds[row] if kinds.ndim == 1 else kinds[row, column])
            reason = "; ".join(filter(None, [KINDS.get(kind, ""), _size(each, int(row), int(column))]))
        elif told is not None:
            kind, reason = told.get((int(row), place), ("", ""))
        reason = reason or _size(each, int(row), int(column))
        single.append(Flag(int(row), int(row), place, kind or "outlier", reason))
    return _joined(single)


def _size(each: Series, row: int, column: int) -> str:
    """Say how far a reading lay from what was expected."""
    if not np.isfinite(each.values[row]).any():
        return "not a finite number"
    if not each.standardised.size:
        return "far from what was expected"
    own = each.standardised[row] if each.outlier.ndim == 1 else each.standardised[row, column : column + 1]
    far = own[np.nanargmax(np.abs(own))] if np.isfinite(own).any() else 0.0
    if abs(far) < CLOSE:  # judged by what came after it, too, or as part of a run
        off = each.values[row] - each.mean[row]
        off = off if each.outlier.ndim == 1 else off[column : column + 1]
        return f"{', '.join(f'{one:+.3g}' for one in off)} from the estimate"
    return f"{abs(far):.3g} standard deviations {'above' if far > 0 else 'below'} what was expected"


def _joined(single: list[Flag]) -> list[Flag]:
    """Put neighbours of one kind and column together; the reason is that of the first."""
    rows: list[Flag] = []
    for flag in sorted(single, key=lambda one: (-1 if one.column is None else one.column, one.first)):
        last = rows[-1] if rows else None
        if last and (last.column, last.kind, last.last + 1) == (flag.column, flag.kind, flag.first):
            rows[-1] = last._replace(last=flag.last)
        else:
            rows.append(flag)
    return sorted(rows, key=lambda one: one.first)


def _explained(each: Series, options: Options, filtered: Any) -> dict[tuple[int, int | None], tuple[str, str]] | None:
    """Ask `wolf.explain` why readings were flagged; None where it cannot say."""
    from wolf.diagnostics.faults import explain

    if not each.flagged or len(each.values) > LONGEST:
        return None
    try:
        found = explain(_run(each, options) if filtered is None else filtered)
    except (ValueError, AttributeError):  # a method that cannot be explained, a model that is not at hand
        return None
    kinds = {"jump": "shift", "biased": "burst"}
    return {
        (one.step, one.sensor): (kinds.get(one.kind, one.kind), one.sentence) for one in found if one.kind != "missing"
    }


def _run(each: Series, options: Options) -> Any:
    """Filter a series once more, with its noise known."""
    from wolf import api
    from wolf.cleaning.pipeline import choose_method
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
    return api.filter(model, each.values, method=choose_method(options, free, each.unit, model)[0])


def events_of(each: Series, flags: list[Flag]) -> list[Flag]:
    """List what happened that is no fault of a reading: gaps, and shifts of the level."""
    missing = np.isnan(each.values).all(axis=1)
    edges = np.diff(np.concatenate([[0], missing.astype(int), [0]]))
    runs = zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1, strict=True)
    found = [
        Flag(int(a), int(b), None, "gap", f"{b - a + 1} rows without a reading") for a, b in runs if b - a >= GAP - 1
    ]
    if each.times is not None and len(each.times) > 1:
        steps = np.diff(each.times) / each.unit
        found += [
            Flag(int(row), int(row) + 1, None, "gap", f"no row for {steps[row]:.4g} typical steps")
            for row in np.flatnonzero(steps > GAP)
        ]
    kinds = kinds_of(each)
    if kinds is not None:
        rows = np.flatnonzero(kinds == "shift" if kinds.ndim == 1 else (kinds == "shift").any(axis=1))
        starts = rows[np.diff(rows, prepend=-2) > 1] if rows.size else rows
        found += [Flag(int(row), int(row), None, "shift", KINDS["shift"]) for row in starts]
    else:
        found += [flag for flag in flags if flag.kind == "shift"]
    return sorted(found, key=lambda one: one.first)
