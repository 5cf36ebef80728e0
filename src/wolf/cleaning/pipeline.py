"""From rows to series and through them: sort, guess the start, fit, filter."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wolf import validation
from wolf.cleaning import durations, retrospective, runs
from wolf.cleaning.options import AUTO, LEAST_PATIENCE, Options, Series
from wolf.cleaning.prepared_series import PreparedSeries
from wolf.cleaning.sampling import Order, gaps_of
from wolf.diagnostics.faults import sentinel_values
from wolf.execution import validate
from wolf.fitting import Fit, Start
from wolf.fitting.initial_values import difference_var
from wolf.fitting.select import FEWEST, Choice, choose_rows
from wolf.inference.registry import Adaptive, Learned
from wolf.models.registry import Named, check_parameters, parse
from wolf.results import describe_method
from wolf.statespace import LinearModel

COORDINATES = {  # names of columns that are one moving point
    frozenset(names)
    for names in (
        *(
            {"x", "y"},
            {"x", "y", "z"},
            {"px", "py"},
            {"px", "py", "pz"},
            {"pos_x", "pos_y"},
            {"pos_x", "pos_y", "pos_z"},
        ),
        *({"east", "north"}, {"east", "north", "up"}, {"easting", "northing"}),
    )
}


def clean(
    values: np.ndarray,
    times: np.ndarray | None,
    options: Options,
    *,
    groups: np.ndarray | None = None,
    labels: list[str] | None = None,
    names: list[str] | None = None,
    progress: Callable[[int], None] = lambda rows: None,
    note: Callable[[str], None] = lambda words: None,
    failed: Callable[[str, str], None] | None = None,
) -> list[Series]:
    """Clean readings, one series after the other.

    Args:
        values: (rows, M), NaN where missing.
        times: (rows,), numbers in any unit; None for even steps.
        options: how.
        groups: number of the series of each row, (rows,).
        labels: of the groups.
        names: of the columns.
        progress: told how many rows were done, each time some are.
        note: told what was done to the data that a person should know.
        failed: told of a series among several that cannot be filtered, and why: it is left out. None to stop there.

    Example:
        >>> readings = np.random.default_rng(0).normal(20.0, 1.0, (200, 1))
        >>> readings[50] = 999.0
        >>> np.flatnonzero(clean(readings, None, Options())[0].outlier).tolist()
        [50]
    """
    ready = prepare(values, times, options, groups=groups, labels=labels, names=names, note=note, failed=failed)
    done = [each.whole(progress) for each in ready]
    if not done:
        raise ValueError("no series could be filtered: every one is constant, empty or too short")
    return done


def prepare(
    values: np.ndarray,
    times: np.ndarray | None,
    options: Options,
    *,
    groups: np.ndarray | None = None,
    labels: list[str] | None = None,
    names: list[str] | None = None,
    note: Callable[[str], None] = lambda words: None,
    failed: Callable[[str, str], None] | None = None,
) -> Iterator[PreparedSeries]:
    """Sort and fit one series after the other; arguments as in `clean`.

    Yields:
        One series after the other, ready to be filtered.
    """
    named = _named(options)
    if named is not None:
        _known(named, options)
    names = [f"value {j}" for j in range(values.shape[1])] if names is None else names
    blocks = column_blocks(options, names)
    order = Order(times)
    members = [None] if groups is None else _members(groups, len(labels or []))
    for label, rows in zip(labels or [""], members, strict=True):
        rows = order(rows)
        data, stamps = (values, times) if rows is None else (values[rows], None if times is None else times[rows])
        for columns in blocks:
            titled = " ".join(filter(None, [label, names[columns[0]] if len(blocks) > 1 else ""]))
            some = data[:, columns[0] : columns[-1] + 1]
            try:
                yield _prepare_one(titled, rows, tuple(columns), some, stamps, named, options)
            except ValueError as error:
                if failed is None or (groups is None and len(blocks) == 1):
                    raise
                failed(titled, str(error).removesuffix(f" (series {titled})"))
    order.tell(note)


def _prepare_one(
    label: str,
    rows: np.ndarray | None,
    columns: tuple[int, ...],
    values: np.ndarray,
    times: np.ndarray | None,
    named: Named | None,
    options: Options,
) -> PreparedSeries:
    which = f" (series {label})" if label else ""
    if not np.isfinite(values).any():
        missing = np.isnan(values).all()
        words = f"all {len(values)} values are missing" if missing else f"none of {len(values)} values is finite"
        raise ValueError(f"{words}{which}")
    unit, gaps = gaps_of(times)
    plain = sentinel_values.without_codes(values)  # -999 and the like say nothing of the model and its noise
    choice = None
    if named is None:
        choice, named = _choose(plain, unit if options.dated else None, gaps, which)
    known = _known(named, options)
    named.check_gaps(gaps)
    free = [name for name in named.parameters if name not in known]
    try:
        step_var = difference_var(plain[slice(*runs.fit_window(len(values)))])
    except ValueError as error:
        if free:
            raise ValueError(f"{error}{which}") from error
        step_var = known.get("obs_var", 1.0)
    prior = named.start(plain, step_var)
    found, window = None, (0, len(values))
    if choice is not None:
        found, window = _fit_of(choice, known), choice.rows
    elif free:
        found, window = runs.fit_noise(named, plain, gaps, prior, known, step_var, options.restarts)
    parameters = (found.parameters if found else {}) | known
    parameters = {name: parameters[name] for name in named.parameters}

    def build(gaps: np.ndarray | None) -> LinearModel:
        return named.builder(gaps, prior, len(columns))(**parameters)

    method, told = choose_method(options, free, unit, build(None))
    if not method.requirements.covariances:
        words = "has no covariance and so no intervals to write; choose another, as KF, WoLF or Learned"
        raise ValueError(f"{describe_method(method)} {words}")
    fit = (parameters, found, window)
    how: Any = (named.name, told, unit, gaps, build, method, options)
    ready = PreparedSeries(label, rows, columns, times, values, *fit, *how)
    ready.choice, ready.named = choice, named
    return dataclasses.replace(ready, method=retrospective.RETROSPECTIVE) if ready.is_retrospective else ready


def _choose(values: np.ndarray, unit: float | None, gaps: np.ndarray | None, which: str) -> tuple[Choice | None, Named]:
    """Choose a model; a level for a series too short to choose by."""
    known = int(np.isfinite(values).any(1).sum())
    if known < FEWEST:
        return None, parse("local-level")
    stamps = None if gaps is None else np.cumsum(gaps) - gaps[0]
    try:
        choice = choose_rows(values, stamps, unit)
    except ValueError as error:
        raise ValueError(f"{error}{which}") from error
    return choice, parse(choice.name)


def _fit_of(choice: Choice, known: dict[str, float]) -> Fit:
    """Tell of the variances of a choice as a fit does; their errors are not known."""
    best, count = choice.candidates[0], choice.rows[1] - choice.rows[0]
    start = Start(best.score, True, len(choice.candidates), "a grid", choice.parameters)
    errors = {name: float("nan") for name in choice.parameters}
    return Fit(choice.parameters | known, errors, choice.model, choice.outlier_share, None, best.score, count, (start,))


def choose_method(options: Options, free: list[str], unit: float, model: LinearModel) -> tuple[Any, str]:
    """Give the method of a run without hindsight, and what it is called.

    Where none was named it is the default, and `Learned`, which learns the noise alone, where Q was fitted.

    Args:
        options: how.
        free: parameters that were fitted.
        unit: the typical step, in the unit of the times.
        model: what it is for.
    """
    if options.method is not None:
        if options.patience is not None:
            raise ValueError("patience is that of the default method; give another one its own, as Learned:patience=12")
        method = validate.resolve_method(options.method, model)
        return method, describe_method(method)
    given: dict[str, Any] = {}
    if options.patience is not None:
        given["patience"] = _patience(options.patience, unit, options.dated)
    if set(free) - {"obs_var"}:
        method = Learned(**given)
        return method, f"{describe_method(method)}, as Q is fitted"
    method = Adaptive(**given)
    return method, f"the default, {describe_method(method)}"


def _patience(told: str | float, unit: float, dated: bool) -> int:
    """Count the rows of a patience."""
    rows = round(durations.rows_in("patience", told, unit, dated))
    if rows < LEAST_PATIENCE:
        raise ValueError(f"patience must be at least {LEAST_PATIENCE} rows; {told!r} is {rows} of this series")
    return rows


def _named(options: Options) -> Named | None:
    """Find the model that was named, if only by its variances; None to choose one."""
    if options.model != AUTO:
        return parse(options.model)
    if not options.parameters:
        return None
    simple = [parse(name) for name in ("local-level", "local-trend")]
    return next((each for each in simple if set(options.parameters) <= set(each.parameters)), simple[0])


def _known(named: Named, options: Options) -> dict[str, float]:
    """Put together the variances that need no fit."""
    check_parameters(named, options.parameters)
    for name, value in options.parameters.items():
        validation.variances(**{name: value})
    return named.given | dict(options.parameters)


def column_blocks(options: Options, names: list[str]) -> list[list[int]]:
    """Say which columns are filtered together."""
    named = _named(options)
    return _blocks(named, names) if named is not None else _guessed_blocks(names)


def _blocks(named: Named, names: list[str]) -> list[list[int]]:
    """Say which columns are filtered together: all that a model measures, or each by itself."""
    if named.columns is None or named.columns == len(names):
        return [list(range(len(names)))]
    if named.columns == 1:
        return [[j] for j in range(len(names))]
    raise ValueError(f"{named.name} measures {named.columns} columns; got {len(names)}: {', '.join(names)}")


def _guessed_blocks(names: list[str]) -> list[list[int]]:
    """Take columns whose names are those of coordinates together, as a track, and all others by themselves."""
    track = len(names) > 1 and frozenset(name.strip().lower() for name in names) in COORDINATES
    return [list(range(len(names)))] if track else [[j] for j in range(len(names))]


def _members(groups: np.ndarray, count: int) -> list[np.ndarray]:
    """List the rows of each group, in their order."""
    order = np.argsort(groups, kind="stable")
    ends = np.searchsorted(groups[order], np.arange(count + 1))
    return [order[ends[i] : ends[i + 1]] for i in range(count)]
