"""Implementation of `wolf filter`: clean the series of a file, and summarise the results."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from wolf.cleaning import CleanedSeries, FittedSeries, Options, PreparedSeries, io, prepare
from wolf.cleaning.incident_table import incidents_of
from wolf.cleaning.load import LoadedTable
from wolf.cleaning.options import AUTO
from wolf.cleaning.retrospective import RETROSPECTIVE
from wolf.cleaning.sampling import describe_step
from wolf.inference.registry import make
from wolf.interfaces import Filter
from wolf.models.registry import parse

MIN_LARGE_STATES = 32  # states above which a remark is printed before the run
MAX_LISTED_SERIES = 5  # whose parameters a summary shows one by one


def parse_method(spec: str | None) -> Filter | None:
    """Parse a method with its options, such as WoLF-TMD or WoLF-TMD:c=9.5.

    Example:
        >>> parse_method("WoLF-TMD:c=9.5").noise.weight
        MahalanobisThreshold(c=9.5, metric='R')
    """
    if spec is None:
        return None
    name, _, rest = spec.partition(":")
    options: dict[str, float | str] = {}
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"options of a method are written as NAME:c=4.0,metric=S; got {spec!r}")
        try:
            options[key.strip()] = float(value)
        except ValueError:
            options[key.strip()] = value.strip()
    return make(name, **options)


def parse_settings(pairs: tuple[str, ...]) -> dict[str, float]:
    """Parse parameters written as NAME=NUMBER.

    Example:
        >>> parse_settings(("obs_var=2.5",))
        {'obs_var': 2.5}
    """
    read = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        try:
            read[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise ValueError(f"parameters are set as --set obs_var=2.5; got {pair!r}")
    return read


def large_model_warning(model: str) -> str:
    """Return a remark about the run time of a large model; empty for others.

    Example:
        >>> large_model_warning("seasonal:288")
        'seasonal:288 has 288 states, which is slow; a few harmonics are faster: seasonal:PERIOD:3'
        >>> large_model_warning("seasonal:288:3")
        ''
    """
    states = 0 if model == AUTO else parse(model).states(1)
    slow = f"{model} has {states} states, which is slow; a few harmonics are faster: seasonal:PERIOD:3"
    return slow if states > MIN_LARGE_STATES else ""


def default_target(source: str) -> str:
    """Return the default output file: next to the input, or standard output.

    Example:
        >>> default_target("data/loaded.csv")
        'data/loaded-clean.csv'
    """
    if source == "-":
        return "-"
    path = Path(source)
    if not path.name:
        raise ValueError(f"there is no file {source!r}; name one to read")
    known = path.suffix.lower() in {*io.SUFFIXES, ".csv", ".tsv", ".txt", ".gpx"}
    return str(path.with_name(path.stem + "-clean" + (path.suffix if known else ".csv")))


def clean_series(loaded: LoadedTable, options: Options, on_progress: Callable[[int], object]) -> list[CleanedSeries]:
    """Clean all series; remarks are added to the notes of the table."""
    done = []
    for each in _prepare(loaded, options):
        try:
            done.append(each.clean(on_progress))
        except ValueError as error:
            loaded.failed[each.label] = str(error)
    _note_failures(loaded, len(done))
    return done


def start(loaded: LoadedTable, options: Options, on_progress: Callable[[int], object]) -> Sequence[FittedSeries]:
    """Prepare the series so that they are filtered while they are written, or clean them where that is impossible.

    A series that has only some of the rows, or has them in another order, must be in memory as a whole.
    """
    if loaded.groups is not None:
        return clean_series(loaded, options, on_progress)
    prepared = list(_prepare(loaded, options))
    _note_failures(loaded, len(prepared))
    if all(each.rows is None for each in prepared):
        return prepared
    return [each.clean(on_progress) for each in prepared]


def _prepare(loaded: LoadedTable, options: Options) -> Iterator[PreparedSeries]:
    return prepare(
        loaded.values,
        loaded.times,
        options,
        groups=loaded.groups,
        labels=loaded.labels,
        names=loaded.names,
        exog=loaded.exog,
        sd=loaded.sd,
        on_note=loaded.notes.append,
        on_failure=loaded.failed.__setitem__,
    )


def _note_failures(loaded: LoadedTable, num_done: int) -> None:
    """Add the series that could not be filtered to the notes; an error if there are no others."""
    if not num_done:
        label, reason = next(iter(loaded.failed.items()))
        raise ValueError(f"no series could be filtered; {label or 'the first'}: {reason}")
    for label, reason in list(loaded.failed.items())[:MAX_LISTED_SERIES]:
        loaded.notes.append(f"{label} was not filtered: {reason}")
    if len(loaded.failed) > MAX_LISTED_SERIES:
        loaded.notes.append(f"... and {len(loaded.failed) - MAX_LISTED_SERIES} more series were not filtered")


def summary(loaded: LoadedTable, series: Sequence[FittedSeries], options: Options, wrote: list[str]) -> str:
    """Summarise input, results and output as text."""
    rows, count = len(loaded.values), sum(each.values.size for each in series)
    missing, flagged = sum(each.num_missing for each in series), sum(each.num_outliers for each in series)
    num_weights = sum(each.num_weights for each in series)
    many = f", {len(series)} series" if len(series) > 1 else ""
    lines = [f"{loaded.table.name}: {rows:,} rows{many}"]
    lines.append(_line("values", ", ".join(loaded.names) + (f", by {loaded.by}" if loaded.by else "")))
    lines.append(_line("time", _describe_time(loaded, series)))
    lines.append(_line("missing", f"{missing:,} of {count:,} values"))
    lines.append(_line("outliers", f"{flagged:,} flagged ({flagged / max(num_weights, 1):.1%})"))
    lines += _incident_lines(series, options) + _shift_lines(series)
    how = "filtered" if options.causal else "smoothed"
    method = series[0].method
    lines += [_line("scale", options.scale.description)] if options.scale.description else []
    lines += _model_lines(series, f"{how}, judged retrospectively" if method == RETROSPECTIVE else f"{how} by {method}")
    lines += _noise_lines(series)
    lines += [_line("note" if i == 0 else "", note) for i, note in enumerate(loaded.notes)]
    lines += [_line("wrote" if i == 0 else "", path) for i, path in enumerate(wrote)]
    return "\n".join(lines)


def _incident_lines(series: Sequence[FittedSeries], options: Options) -> list[str]:
    """Count the incidents of cleaned series by kind; nothing for series that were written in pieces."""
    found = _count_incidents(series, options)
    if not found:
        return []
    return [_line("incidents", ", ".join(f"{count:,} {kind}" for kind, count in found.most_common()))]


def _count_incidents(series: Sequence[FittedSeries], options: Options) -> Counter[str]:
    cleaned = [each for each in series if isinstance(each, CleanedSeries)]
    return Counter(one.kind for each in cleaned for _, one in incidents_of(each, options.level))


def _shift_lines(series: Sequence[FittedSeries]) -> list[str]:
    """List the first shifts of the level."""
    found = [(each.label, int(row)) for each in series for row in each.shift_rows()[:MAX_LISTED_SERIES]]
    if not found:
        return []
    places = ", ".join(f"{label + ' ' if label else ''}row {row + 1:,}" for label, row in found[:MAX_LISTED_SERIES])
    more = ", ..." if len(found) > MAX_LISTED_SERIES else ""
    return [_line("shifts", f"at {places}{more}: permanent changes of the level, not faults")]


def _model_lines(series: Sequence[FittedSeries], how: str) -> list[str]:
    """List the models, and why they were selected."""
    choices = [each.choice for each in series]
    if choices[0] is None:
        return [_line("model", f"{series[0].model}, {how}")]
    if len(series) == 1:
        verdict = [_line("", choices[0].verdict)] if choices[0].verdict else []
        return [_line("model", f"{choices[0].words}"), *verdict, _line("", how)]
    names = Counter(each.model for each in series)
    listed = ", ".join(f"{name} for {count}" for name, count in names.most_common(MAX_LISTED_SERIES))
    return [_line("model", f"selected for each series: {listed}"), _line("", how)]


def facts(loaded: LoadedTable, series: Sequence[FittedSeries], options: Options, wrote: list[str]) -> dict[str, object]:
    """Summarise for JSON; arguments as in `summary`."""
    num_weights, flagged = sum(each.num_weights for each in series), sum(each.num_outliers for each in series)
    return {
        "file": loaded.table.name,
        "rows": len(loaded.values),
        "values": loaded.names,
        "by": loaded.by,
        "time": loaded.time,
        "step": series[0].unit,
        "even": all(each.even for each in series),
        "missing": sum(each.num_missing for each in series),
        "outliers": flagged,
        "outlier_share": flagged / max(num_weights, 1),
        "incidents": dict(_count_incidents(series, options)),
        "model": series[0].model,
        "method": series[0].method,
        "smoothed": not options.causal,
        "series": [_series_facts(each) for each in series],
        "failed": dict(loaded.failed),
        "notes": loaded.notes,
        "wrote": [path.removesuffix(" (open it in a browser)") for path in wrote],
    }


def _series_facts(each: FittedSeries) -> dict[str, object]:
    """Summarise one series for JSON."""
    found: dict[str, object] = {"label": each.label, "rows": len(each.values)}
    found |= {"missing": each.num_missing, "outliers": each.num_outliers}
    found |= {"parameters": dict(each.parameters), "errors": dict(each.fit.errors) if each.fit else {}}
    found |= {"converged": None if each.fit is None else each.fit.converged, "model": each.model}
    if each.choice is None:
        return found
    tried = [dataclasses.asdict(candidate) for candidate in each.choice.candidates]
    return found | {"choice": each.choice.words, "verdict": each.choice.verdict, "candidates": tried}


def _describe_time(loaded: LoadedTable, series: Sequence[FittedSeries]) -> str:
    if loaded.time is None:
        return "none found: rows are treated as even steps (name it with --time)"
    step = describe_step(series[0].unit, loaded.axis is not None and loaded.axis.origin is not None)
    named = " and ".join(loaded.time_names)
    if all(each.even for each in series):
        return f"{named}, every {step}"
    return f"{named}, uneven, typically {step} apart: continuous-time model"


def _noise_lines(series: Sequence[FittedSeries]) -> list[str]:
    """List the parameters of a few series, or their range over many."""
    if not series[0].parameters:
        return []
    fitted = any(each.fit is not None for each in series)
    title = "noise fitted" if fitted else "noise given"
    lines: list[str] = []
    for each in series[:MAX_LISTED_SERIES]:
        numbers = []
        for name, value in each.parameters.items():
            error = each.fit.errors.get(name, np.nan) if each.fit else np.nan
            numbers.append(f"{name} {value:.4g}" + ("" if np.isnan(error) else f" ± {error:.2g}"))
        label = f"{each.label}: " if each.label else ""
        lines.append(_line("" if lines else title, label + ", ".join(numbers)))
    if len(series) > MAX_LISTED_SERIES:
        lines.append(_line("", f"... and {len(series) - MAX_LISTED_SERIES} more series"))
    first, last = series[0].fit_rows
    if fitted and last - first < len(series[0].values):
        lines.append(_line("", f"on a sample: rows {first + 1:,} to {last:,} of {len(series[0].values):,}"))
    fits = [(each.label or "the series", each.fit) for each in series if each.fit is not None]
    unconverged = [label for label, fit in fits if not (fit.converged or fit.at_boundary)]
    if unconverged:
        lines.append(
            _line(
                "",
                f"the fit did not converge for {', '.join(unconverged[:MAX_LISTED_SERIES])}; give variances with --set",
            )
        )
    return lines


def _line(title: str, text: str) -> str:
    return f"  {title:<14}{text}"
