"""What `wolf filter` does: read, clean, write, and say in a few lines what was done."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wolf.cleaning import Options, PreparedSeries, Series, io, prepare
from wolf.cleaning.load import Readings
from wolf.cleaning.options import AUTO
from wolf.cleaning.retrospective import RETROSPECTIVE
from wolf.cleaning.sampling import describe_step
from wolf.inference.registry import make
from wolf.models.registry import parse

MANY_STATES = 32  # from here on a person should know before the wait
LISTED = 5  # series whose parameters a summary shows one by one


def parse_method(spec: str | None) -> Any:
    """Read a method with its options, as WoLF-TMD or WoLF-TMD:c=9.5.

    Example:
        >>> parse_method("WoLF-TMD:c=9.5").noise.weight
        MahalanobisThreshold(c=9.5, metric='R')
    """
    if spec is None:
        return None
    name, _, rest = spec.partition(":")
    options: dict[str, Any] = {}
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"options of a method are written NAME:c=4.0,metric=S; got {spec!r}")
        try:
            options[key.strip()] = float(value)
        except ValueError:
            options[key.strip()] = value.strip()
    return make(name, **options)


def parse_settings(pairs: tuple[str, ...]) -> dict[str, float]:
    """Read parameters written as NAME=NUMBER.

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


def tell_size(model: str) -> str:
    """Say of a large model, before the wait, that it is one; nothing of others.

    Example:
        >>> tell_size("seasonal:288")
        'seasonal:288 has 288 states, which takes long; a few waves are faster: seasonal:PERIOD:3'
        >>> tell_size("seasonal:288:3")
        ''
    """
    states = 0 if model == AUTO else parse(model).states(1)
    slow = f"{model} has {states} states, which takes long; a few waves are faster: seasonal:PERIOD:3"
    return slow if states > MANY_STATES else ""


def default_target(source: str) -> str:
    """Name the file to write if nobody did: beside the one that was read, or standard output.

    Example:
        >>> default_target("data/readings.csv")
        'data/readings-clean.csv'
    """
    if source == "-":
        return "-"
    path = Path(source)
    if not path.name:
        raise ValueError(f"there is no file {source!r}; name one to read")
    known = path.suffix.lower() in {*io.SUFFIXES, ".csv", ".tsv", ".txt", ".gpx"}
    return str(path.with_name(path.stem + "-clean" + (path.suffix if known else ".csv")))


def run(readings: Readings, options: Options, progress: Callable[[int], None]) -> list[Series]:
    """Clean readings; what had to be done to them is added to their notes."""
    done = []
    for each in _prepare(readings, options):
        try:
            done.append(each.whole(progress))
        except ValueError as error:
            readings.failed[each.label] = str(error)
    return _some(readings, done)


def start(readings: Readings, options: Options, progress: Callable[[int], None]) -> list[PreparedSeries] | list[Series]:
    """Get readings ready to be filtered while they are written, or clean them where that cannot be.

    A series that has only some of the rows, or has them in another order, must be there as a whole.
    """
    if readings.groups is not None:
        return run(readings, options, progress)
    ready = _some(readings, list(_prepare(readings, options)))
    return ready if all(each.rows is None for each in ready) else [each.whole(progress) for each in ready]


def _prepare(readings: Readings, options: Options) -> Iterator[PreparedSeries]:
    return prepare(
        readings.values,
        readings.times,
        options,
        groups=readings.groups,
        labels=readings.labels,
        names=readings.names,
        note=readings.notes.append,
        failed=readings.failed.__setitem__,
    )


def _some(readings: Readings, done: list[Any]) -> list[Any]:
    """Note the series that could not be filtered; an error only if there is no other."""
    if not done:
        label, why = next(iter(readings.failed.items()))
        raise ValueError(f"no series could be filtered; {label or 'the first'}: {why}")
    for label, why in list(readings.failed.items())[:LISTED]:
        readings.notes.append(f"{label} was not filtered: {why}")
    if len(readings.failed) > LISTED:
        readings.notes.append(f"... and {len(readings.failed) - LISTED} more series were not filtered")
    return done


def summary(
    readings: Readings, series: Sequence[PreparedSeries] | Sequence[Series], options: Options, wrote: list[str]
) -> str:
    """Say what was read, what was found and what was written."""
    rows, count = len(readings.values), sum(each.values.size for each in series)
    missing, flagged = sum(each.missing for each in series), sum(each.flagged for each in series)
    judged = sum(each.judged for each in series)
    many = f", {len(series)} series" if len(series) > 1 else ""
    lines = [f"{readings.table.name}: {rows:,} rows{many}"]
    lines.append(_line("values", ", ".join(readings.names) + (f", by {readings.by}" if readings.by else "")))
    lines.append(_line("time", _describe_time(readings, series)))
    lines.append(_line("missing", f"{missing:,} of {count:,} values"))
    lines.append(_line("outliers", f"{flagged:,} flagged ({flagged / max(judged, 1):.1%})"))
    lines += _events(series)
    how = "filtered" if options.causal else "smoothed"
    method = series[0].method
    lines += _models(series, f"{how}, judged retrospectively" if method == RETROSPECTIVE else f"{how} by {method}")
    lines += _noise(series)
    lines += [_line("note" if i == 0 else "", words) for i, words in enumerate(readings.notes)]
    lines += [_line("wrote" if i == 0 else "", words) for i, words in enumerate(wrote)]
    return "\n".join(lines)


def _events(series: Sequence[PreparedSeries] | Sequence[Series]) -> list[str]:
    """Count the shifts, which are no faults, and say where the first of them are."""
    found = [(each.label, int(row)) for each in series for row in np.flatnonzero(each.fault == "shift")[:LISTED]]
    if not found:
        return []
    places = ", ".join(f"{label + ' ' if label else ''}row {row + 1:,}" for label, row in found[:LISTED])
    more = ", ..." if len(found) > LISTED else ""
    return [_line("shifts", f"at {places}{more}: the level changed for good, which is no fault")]


def _models(series: Sequence[PreparedSeries] | Sequence[Series], how: str) -> list[str]:
    """Say which model each series has, and why if it was chosen."""
    choices = [each.choice for each in series]
    if choices[0] is None:
        return [_line("model", f"{series[0].model}, {how}")]
    if len(series) == 1:
        verdict = [_line("", choices[0].verdict)] if choices[0].verdict else []
        return [_line("model", f"{choices[0].words}"), *verdict, _line("", how)]
    names = Counter(each.model for each in series)
    told = ", ".join(f"{name} for {count}" for name, count in names.most_common(LISTED))
    return [_line("model", f"chosen for each series: {told}"), _line("", how)]


def facts(
    readings: Readings, series: Sequence[PreparedSeries] | Sequence[Series], options: Options, wrote: list[str]
) -> dict[str, Any]:
    """Say the same in numbers, for programs; arguments as in `summary`."""
    judged, flagged = sum(each.judged for each in series), sum(each.flagged for each in series)
    return {
        "file": readings.table.name,
        "rows": len(readings.values),
        "values": readings.names,
        "by": readings.by,
        "time": readings.time,
        "step": series[0].unit,
        "even": all(each.even for each in series),
        "missing": sum(each.missing for each in series),
        "outliers": flagged,
        "outlier_share": flagged / max(judged, 1),
        "model": series[0].model,
        "method": series[0].method,
        "smoothed": not options.causal,
        "series": [_facts_of(each) for each in series],
        "failed": dict(readings.failed),
        "notes": readings.notes,
        "wrote": [path.removesuffix(" (open it in a browser)") for path in wrote],
    }


def _facts_of(each: PreparedSeries | Series) -> dict[str, Any]:
    """Say of one series what was found."""
    told = {"label": each.label, "rows": len(each.values), "missing": each.missing, "outliers": each.flagged}
    told |= {"parameters": dict(each.parameters), "errors": dict(each.fit.errors) if each.fit else {}}
    told |= {"converged": None if each.fit is None else each.fit.converged, "model": each.model}
    if each.choice is None:
        return told
    tried = [dataclasses.asdict(candidate) for candidate in each.choice.candidates]
    return told | {"choice": each.choice.words, "verdict": each.choice.verdict, "candidates": tried}


def _describe_time(readings: Readings, series: Sequence[PreparedSeries] | Sequence[Series]) -> str:
    if readings.time is None:
        return "none found: rows are taken as even steps (name it with --time)"
    step = describe_step(series[0].unit, readings.axis is not None and readings.axis.origin is not None)
    named = " and ".join(readings.time_names)
    if all(each.even for each in series):
        return f"{named}, every {step}"
    return f"{named}, uneven, typically {step} apart: continuous-time model"


def _noise(series: Sequence[PreparedSeries] | Sequence[Series]) -> list[str]:
    """List the parameters of a few series, or their range over many."""
    if not series[0].parameters:
        return []
    fitted = any(each.fit is not None for each in series)
    title = "noise fitted" if fitted else "noise given"
    lines: list[str] = []
    for each in series[:LISTED]:
        numbers = []
        for name, value in each.parameters.items():
            error = each.fit.errors.get(name, np.nan) if each.fit else np.nan
            numbers.append(f"{name} {value:.4g}" + ("" if np.isnan(error) else f" ± {error:.2g}"))
        label = f"{each.label}: " if each.label else ""
        lines.append(_line("" if lines else title, label + ", ".join(numbers)))
    if len(series) > LISTED:
        lines.append(_line("", f"... and {len(series) - LISTED} more series"))
    first, last = series[0].fit_rows
    if fitted and last - first < len(series[0].values):
        lines.append(_line("", f"on a sample: rows {first + 1:,} to {last:,} of {len(series[0].values):,}"))
    astray = [each.label or "the series" for each in series if each.fit is not None and not each.fit.converged]
    if astray:
        lines.append(_line("", f"the fit did not converge for {', '.join(astray[:LISTED])}; give variances with --set"))
    return lines


def _line(title: str, words: str) -> str:
    return f"  {title:<14}{words}"
