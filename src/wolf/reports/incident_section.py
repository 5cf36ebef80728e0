"""Section of the incidents: faults, gaps, shifts and known events, each with a reason; they can be labelled by hand."""

import dataclasses
from collections import Counter
from html import escape

from wolf.cleaning import CleanedSeries, Options
from wolf.cleaning.incident_table import incidents_of
from wolf.diagnostics.faults.incidents import EVENT_KINDS, SeriesIncident
from wolf.reports.text import exact_time, format_time
from wolf.results import Filtered

MAX_TABLE_ROWS = 500
MAX_EXPLAINED_ROWS = 20_000  # of a series that is filtered again to explain its outliers
MAX_OPEN_ROWS = 40  # of a table that is shown without a click
Found = tuple[int | None, SeriesIncident]  # column of the series, or None for all, and what was found in it
CHOICES = (("", "as found"), ("fault", "a fault"), ("good", "good"))


def find(each: CleanedSeries, options: Options, filtered: Filtered | None = None) -> list[Found]:
    """List the incidents of a series, in the order of time.

    Args:
        each: cleaned series.
        options: how it was cleaned.
        filtered: the run, if available: a `Filtered` with `save="all"`.
    """
    found = incidents_of(each, options.level)
    if each.fault is None or options.causal:  # a method classifies no faults: `explain` does
        explained = _explain_outliers(each, options, filtered)
        found = [(column, _explain(one, column, explained or {})) for column, one in found]
    return sorted(found, key=lambda pair: (pair[1].first, pair[1].last))


def _explain(
    incident: SeriesIncident, column: int | None, explained: dict[tuple[int, int | None], tuple[str, str]]
) -> SeriesIncident:
    """Add the explanation of the first row, and the kind of most rows."""
    rows = range(incident.first, incident.last + 1)
    known = [explained[row, column] for row in rows if (row, column) in explained]
    if not known or incident.kind in EVENT_KINDS:
        return incident
    kind = Counter(kind for kind, _ in known).most_common(1)[0][0]
    return dataclasses.replace(incident, kind=kind, reason=f"{incident.reason}; {known[0][1]}")


def num_faults(found: list[list[Found]]) -> Counter[str]:
    """Count the incidents that are faults, by kind, the most frequent first."""
    return Counter(one.kind for own in found for _, one in own if one.kind not in EVENT_KINDS)


def section(
    shown: list[CleanedSeries],
    found: list[list[Found]],
    names: list[str],
    origin: int | None,
    labels: str | None = "",
) -> str:
    """List the incidents as a table.

    Args:
        shown: series.
        found: incidents of each.
        names: of the value columns.
        origin: Unix time of time 0 in nanoseconds, for dates.
        labels: suffix of exported times, "Z" for UTC; None if incidents cannot be labelled.
    """
    rows = [(each, column, one) for each, own in zip(shown, found, strict=True) for column, one in own]
    total = len(rows)
    if not rows:
        return "<section><h2>Incidents</h2><p>None: no faults, gaps or shifts.</p></section>"
    if total > MAX_TABLE_ROWS:
        least = sorted((one.severity for _, _, one in rows), reverse=True)[MAX_TABLE_ROWS - 1]
        rows = [row for row in rows if row[2].severity >= least][:MAX_TABLE_ROWS]
    titles = ["series", "start", "end", "rows", "fault", "severity", "confidence", "reason"]
    cells = [_row(each, column, one, names, origin) for each, column, one in rows]
    if not any(row[0] for row in cells):
        titles, cells = titles[1:], [row[1:] for row in cells]
    extra = [""] * len(rows)
    if labels is not None:
        extra = [_label_cell(each, column, one, names, origin, labels) for each, column, one in rows]
    body = "".join(
        "<tr>" + "".join(_cell(cell, title) for cell, title in zip(row, titles, strict=True)) + last + "</tr>"
        for row, last in zip(cells, extra, strict=True)
    )
    head = "".join(f'<th scope="col">{title}</th>' for title in (titles if labels is None else [*titles, "label"]))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    more = (
        f"<p>The {len(rows)} most severe of {total:,}; the output file marks all of them.</p>"
        if total > len(rows)
        else ""
    )
    closed = "" if len(rows) > MAX_OPEN_ROWS else " open"
    listed = f"<details{closed}><summary>{len(rows):,} incidents</summary>{table}</details>{more}"
    return (
        "<section><h2>Incidents</h2><p>Neighbouring faults are one incident. Severity is the largest distance from the "
        "estimate, in half widths of the prediction interval; confidence is the probability that no good reading is as "
        f"far out.</p>{listed}{'' if labels is None else EXPORT}</section>"
    )


EXPORT = (
    '<div class="buttons" id="labelling">'
    '<button type="button" data-range="fault">Label the range in the chart as a fault</button>'
    '<button type="button" data-range="good">... as good</button>'
    '<button type="button" id="export" disabled>Export labels</button>'
    '<span class="hint">Export, and repeat with <code>wolf filter --labels labels.csv</code>.</span></div>'
)


def _cell(text: str, title: str) -> str:
    inner = f'<span class="kind" data-kind="{escape(text)}">{escape(text)}</span>' if title == "fault" else escape(text)
    return f'<td data-title="{title}">{inner}</td>'


def _row(
    each: CleanedSeries, column: int | None, one: SeriesIncident, names: list[str], origin: int | None
) -> list[str]:
    """Format an incident as the cells of a row."""
    label = " ".join(filter(None, [each.label, names[each.columns[column]] if column is not None else ""]))
    first, last = each.rows[one.first] + 1, each.rows[one.last] + 1
    severity = (
        "" if one.kind in ("gap", "maintenance") else f"{one.severity:.3g}" if one.severity < 1e3 else "over 1000"
    )
    confidence = "over 99.9 %" if one.confidence > 0.999 else f"{one.confidence:.1%}"
    return [
        label,
        format_time(each, one.first, origin),
        format_time(each, one.last, origin),
        "" if first <= 0 or last <= 0 else f"{first}" if first == last else f"{first} to {last}",
        one.kind,
        severity,
        "" if one.kind in ("gap", "maintenance") else confidence,
        one.reason,
    ]


def _label_cell(
    each: CleanedSeries, column: int | None, one: SeriesIncident, names: list[str], origin: int | None, suffix: str
) -> str:
    """Format the cell in which an incident is labelled."""
    if one.kind == "gap":
        return '<td data-title="label"></td>'
    start, end = (exact_time(each, row, origin) + suffix for row in (one.first, one.last))
    name = names[each.columns[column or 0]] if len(each.columns) == 1 or column is not None else ""
    series = each.label.removesuffix(name).rstrip() if name else each.label
    options = "".join(f'<option value="{value}">{text}</option>' for value, text in CHOICES)
    facts = {"start": start, "end": end, "column": name, "series": series}
    attributes = " ".join(f'data-{key}="{escape(value)}"' for key, value in facts.items())
    return f'<td data-title="label"><select class="label" aria-label="label" {attributes}>{options}</select></td>'


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
