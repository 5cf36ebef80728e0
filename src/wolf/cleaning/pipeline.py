"""From rows to cleaned series: sort, select a model, fit its noise, filter."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from wolf import validation
from wolf.cleaning import durations, exogenous, known_faults, regular_grid, retrospective, runs
from wolf.cleaning.options import AUTO, MIN_PATIENCE_ROWS, Options
from wolf.cleaning.prepared_series import PreparedSeries
from wolf.cleaning.reported_noise import noise_ratio
from wolf.cleaning.result import CleanedSeries
from wolf.cleaning.sampling import Order, gaps_of
from wolf.cleaning.together import ExplainedByOthers, explain_by_others, together_columns
from wolf.diagnostics.faults import sentinel_values
from wolf.execution import validate
from wolf.fitting import Fit, Start
from wolf.fitting.initial_values import difference_var
from wolf.fitting.select import FEWEST, Choice, choose_rows
from wolf.inference.registry import Adaptive, Learned
from wolf.interfaces import Filter
from wolf.models.registry import Named, check_parameters, parse
from wolf.results import describe_method
from wolf.statespace import LinearModel

COORDINATES = {  # sets of column names that are the coordinates of one track
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
    exog: np.ndarray | None = None,
    sd: np.ndarray | None = None,
    on_progress: Callable[[int], object] = lambda rows: None,
    on_note: Callable[[str], object] = lambda text: None,
    on_failure: Callable[[str, str], object] | None = None,
) -> list[CleanedSeries]:
    """Clean measurements, one series after the other.

    Args:
        values: (rows, M), NaN where missing.
        times: (rows,), numbers in any unit; None for even steps.
        options: how to clean.
        groups: series number of each row, (rows,).
        labels: of the groups.
        names: of the columns.
        exog: exogenous variables, (rows, K); what they explain is subtracted before the search and added afterwards.
        sd: reported accuracy of each row, (rows,), in any unit: the standard deviation of the noise is proportional to
            it, and the factor is fitted. NaN where unknown.
        on_progress: called with a number of rows whenever they are done.
        on_note: called with each remark about the data.
        on_failure: called with label and reason of a series that cannot be filtered, which is then left out. None to
            raise the error.

    Example:
        >>> values = np.random.default_rng(0).normal(20.0, 1.0, (200, 1))
        >>> values[50] = 999.0
        >>> np.flatnonzero(clean(values, None, Options())[0].outlier).tolist()
        [50]
    """
    prepared = prepare(
        values,
        times,
        options,
        groups=groups,
        labels=labels,
        names=names,
        exog=exog,
        sd=sd,
        on_note=on_note,
        on_failure=on_failure,
    )
    done = [each.clean(on_progress) for each in prepared]
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
    exog: np.ndarray | None = None,
    sd: np.ndarray | None = None,
    on_note: Callable[[str], object] = lambda text: None,
    on_failure: Callable[[str, str], object] | None = None,
) -> Iterator[PreparedSeries]:
    """Sort each series and fit its noise; arguments as in `clean`.

    Yields:
        One series after the other.
    """
    named = _named_model(options)
    if named is not None:
        _known_parameters(named, options)
    names = [f"value {j}" for j in range(values.shape[1])] if names is None else names
    blocks = column_blocks(options, names)
    excluded = {"exog": exog is not None, "sd": sd is not None, "forecast": bool(options.forecast)}
    if options.every is not None and any(excluded.values()):
        raise ValueError(f"every and {next(name for name, given in excluded.items() if given)} exclude each other")
    knowledge = known_faults.Knowledge.load(options, names)
    order = Order(times)
    members = [None] if groups is None else _rows_by_group(groups, len(labels or []))
    for label, rows in zip(labels or [""], members, strict=True):
        rows = order(rows)
        data, stamps = (values, times) if rows is None else (values[rows], None if times is None else times[rows])
        if options.every is not None:
            rows, stamps, data = regular_grid.add_missing_rows(rows, stamps, data)
        accuracy = sd if sd is None or rows is None else sd[rows]
        ratio = None if accuracy is None else noise_ratio(accuracy) ** 2
        find = partial(_find_known, knowledge, data, stamps, rows, options, names, label)
        joint = _explain_jointly(data, stamps, named, options, names, ratio, find)
        if joint:
            on_note(_describe_joint(label, joint, names))
        for columns in blocks:
            title = " ".join(filter(None, [label, names[columns[0]] if len(blocks) > 1 else ""]))
            block = data[:, columns[0] : columns[-1] + 1]
            regressors = exog if exog is None or rows is None else exog[rows]
            others = joint.get(columns[0]) if len(columns) == 1 else None
            try:
                known = find(list(columns))
                series = _prepare_one(
                    title, rows, tuple(columns), block, stamps, named, options, regressors, known, ratio, others
                )
                if len(blocks) > 1 and series.is_retrospective:
                    series.witnesses = np.delete(data, columns, axis=1)
                yield series
            except ValueError as error:
                if on_failure is None or (groups is None and len(blocks) == 1):
                    raise
                on_failure(title, str(error).removesuffix(f" (series {title})"))
    order.report(on_note)


def _prepare_one(
    label: str,
    rows: np.ndarray | None,
    columns: tuple[int, ...],
    values: np.ndarray,
    times: np.ndarray | None,
    named: Named | None,
    options: Options,
    exog: np.ndarray | None = None,
    known_before: tuple[np.ndarray, known_faults.KnownFaults] | None = None,
    ratio: np.ndarray | None = None,
    others: ExplainedByOthers | None = None,
) -> PreparedSeries:
    which = f" (series {label})" if label else ""
    _check_measured(values, which)
    unit, gaps = gaps_of(times)
    values, aside = (values, None) if known_before is None else known_before
    usable = values if aside is None else aside.usable(values)
    modelled, measured = _on_model_scale(usable, options, others)
    plain = measured
    if exog is not None:
        plain = measured - exogenous.first_share(measured, exog)
    choice = None
    if named is None:
        choice, named = _select_model(plain, unit if options.dated else None, gaps, which)
    known = _known_parameters(named, options, others is not None)
    named.check_gaps(gaps)
    free = [name for name in named.parameters if name not in known]
    try:
        step_var = difference_var(plain[slice(*runs.fit_window(len(values)))])
    except ValueError as error:
        if free:
            raise ValueError(f"{error}{which}") from error
        step_var = known.get("obs_var", 1.0)
    prior = named.start(plain, step_var)
    fit, window = None, (0, len(values))
    if choice is not None:
        fit, window = _choice_to_fit(choice, known), choice.rows
    elif free:
        fit, window = runs.fit_noise(named, plain, gaps, prior, known, step_var, options.restarts, ratio)
    parameters = (fit.parameters if fit else {}) | known
    parameters = {name: parameters[name] for name in named.parameters}

    part = None if exog is None else exogenous.explained(measured, exog, gaps, named, parameters, step_var)
    part = part if others is None else others.share if part is None else part.plus(others.share)

    def build(gaps: np.ndarray | None) -> LinearModel:
        return named.builder(gaps, prior, len(columns))(**parameters)

    method, description = select_method(options, free, unit, build(None))
    if not method.requirements.covariances:
        raise ValueError(
            f"{describe_method(method)} returns no covariances, which intervals need; use another method, such as KF, "
            "WoLF or Learned"
        )
    prepared = PreparedSeries(
        label=label,
        rows=rows,
        columns=columns,
        times=times,
        values=values,
        parameters=parameters,
        fit=fit,
        fit_rows=window,
        model=named.name,
        method=description,
        even=gaps is None,
        unit=unit,
        choice=choice,
        gaps=gaps,
        build=build,
        filter=method,
        options=options,
        named=named,
        explained=part,
        known=aside,
        modelled=modelled,
        ratio=ratio,
        known_forecast=None if others is None else others.forecast,
    )
    if prepared.is_retrospective:
        prepared.method = retrospective.RETROSPECTIVE
    return prepared


def _check_measured(values: np.ndarray, which: str) -> None:
    if not np.isfinite(values).any():
        missing = np.isnan(values).all()
        reason = f"all {len(values)} values are missing" if missing else f"none of {len(values)} values is finite"
        raise ValueError(f"{reason}{which}")


def _on_model_scale(
    values: np.ndarray, options: Options, others: ExplainedByOthers | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return values on the scale of the model, and the same for fits: without codes and what others explain."""
    modelled = options.scale.to_model(values)
    plain = sentinel_values.without_codes(modelled)  # -999 and the like must not affect the model and its noise
    plain = plain if options.scale.is_identity else np.where(np.isfinite(plain), plain, np.nan)
    return modelled, plain if others is None else plain - others.share.share


def _find_known(
    knowledge: known_faults.Knowledge,
    data: np.ndarray,
    stamps: np.ndarray | None,
    rows: np.ndarray | None,
    options: Options,
    names: list[str],
    label: str,
    columns: list[int],
) -> tuple[np.ndarray, known_faults.KnownFaults] | None:
    """Find what is known of some columns of a series."""
    block = data[:, columns[0] : columns[-1] + 1]
    return known_faults.find(knowledge, block, stamps, rows, options, [names[j] for j in columns], label)


def _explain_jointly(
    values: np.ndarray,
    times: np.ndarray | None,
    named: Named | None,
    options: Options,
    names: list[str],
    ratio: np.ndarray | None,
    find: Callable[[list[int]], tuple[np.ndarray, known_faults.KnownFaults] | None],
) -> dict[int, ExplainedByOthers]:
    """Compute what the columns of `together` explain of each other, for one series."""
    columns = together_columns(options.together, names)
    if not columns:
        return {}

    def prepare_column(j: int) -> PreparedSeries:
        block = values[:, j : j + 1]
        return _prepare_one(names[j], None, (j,), block, times, named, options, None, find([j]), ratio)

    return explain_by_others(prepare_column, columns, options.causal)


def _describe_joint(label: str, joint: dict[int, ExplainedByOthers], names: list[str]) -> str:
    """Describe which columns are correlated."""
    pairs = {(min(i, j), max(i, j)): value for i, each in joint.items() for j, value in each.correlations.items()}
    listed = ", ".join(f"{names[i]} and {names[j]} {value:.2f}" for (i, j), value in sorted(pairs.items()))
    return f"{label + ': ' if label else ''}columns judged together, by the correlation of their changes: {listed}"


def _select_model(
    values: np.ndarray, unit: float | None, gaps: np.ndarray | None, which: str
) -> tuple[Choice | None, Named]:
    """Select a model from the data; a level if the series is too short for a selection."""
    known = int(np.isfinite(values).any(1).sum())
    if known < FEWEST:
        return None, parse("local-level")
    stamps = None if gaps is None else np.cumsum(gaps) - gaps[0]
    try:
        choice = choose_rows(values, stamps, unit)
    except ValueError as error:
        raise ValueError(f"{error}{which}") from error
    return choice, parse(choice.name)


def _choice_to_fit(choice: Choice, known: dict[str, float]) -> Fit:
    """Convert the variances of a model selection to a fit; their standard errors are unknown."""
    best, count = choice.candidates[0], choice.rows[1] - choice.rows[0]
    start = Start(best.score, True, len(choice.candidates), "a grid", choice.parameters)
    errors = {name: float("nan") for name in choice.parameters}
    return Fit(choice.parameters | known, errors, choice.model, choice.outlier_share, None, best.score, count, (start,))


def select_method(options: Options, free: list[str], unit: float, model: LinearModel) -> tuple[Filter, str]:
    """Select the method of a run that is not retrospective; return it with its description.

    Without a named method it is the default, or, where Q was fitted, `Learned`, which estimates the scale of R alone.

    Args:
        options: how to clean.
        free: parameters that were fitted.
        unit: typical step, in the unit of the times.
        model: that is filtered.
    """
    if options.method is not None:
        if options.patience is not None:
            raise ValueError("patience applies to the default method; set it in the method, as in Learned:patience=12")
        method = validate.resolve_method(options.method, model)
        return method, describe_method(method)
    given: dict[str, Any] = {}
    if options.patience is not None:
        given["patience"] = _patience_rows(options.patience, unit, options.dated)
    if set(free) - {"obs_var"}:
        method = Learned(**given)
        return method, f"{describe_method(method)}, as Q is fitted"
    method = Adaptive(**given)
    return method, f"the default, {describe_method(method)}"


def _patience_rows(patience: str | float, unit: float, dated: bool) -> int:
    """Convert a patience to a number of rows."""
    rows = round(durations.rows_in("patience", patience, unit, dated))
    if rows < MIN_PATIENCE_ROWS:
        raise ValueError(f"patience must be at least {MIN_PATIENCE_ROWS} rows; {patience!r} is {rows} of this series")
    return rows


def _named_model(options: Options) -> Named | None:
    """Find the model that was named, or whose variances were; None to select one from the data."""
    if options.model != AUTO:
        return parse(options.model)
    if not options.parameters:
        return None
    simple = [parse(name) for name in ("local-level", "local-trend")]
    return next((each for each in simple if set(options.parameters) <= set(each.parameters)), simple[0])


def _known_parameters(named: Named, options: Options, is_remainder: bool = False) -> dict[str, float]:
    """Collect the variances that need no fit; of what other columns leave unexplained, that of the noise alone."""
    check_parameters(named, options.parameters)
    for name, value in options.parameters.items():
        validation.variances(**{name: value})
    known = named.given | dict(options.parameters)
    return {name: value for name, value in known.items() if name == "obs_var" or not is_remainder}


def column_blocks(options: Options, names: list[str]) -> list[list[int]]:
    """List the groups of columns that are filtered together."""
    named = _named_model(options)
    return _model_blocks(named, names) if named is not None else _inferred_blocks(names)


def _model_blocks(named: Named, names: list[str]) -> list[list[int]]:
    """Group the columns that a model measures together; each column by itself for a univariate model."""
    if named.columns is None or named.columns == len(names):
        return [list(range(len(names)))]
    if named.columns == 1:
        return [[j] for j in range(len(names))]
    raise ValueError(f"{named.name} measures {named.columns} columns; got {len(names)}: {', '.join(names)}")


def _inferred_blocks(names: list[str]) -> list[list[int]]:
    """Group columns with names of coordinates as one track; each other column by itself."""
    track = len(names) > 1 and frozenset(name.strip().lower() for name in names) in COORDINATES
    return [list(range(len(names)))] if track else [[j] for j in range(len(names))]


def _rows_by_group(groups: np.ndarray, count: int) -> list[np.ndarray]:
    """List the row numbers of each group, in order."""
    order = np.argsort(groups, kind="stable")
    ends = np.searchsorted(groups[order], np.arange(count + 1))
    return [order[ends[i] : ends[i + 1]] for i in range(count)]
