"""Tables of the report: model selection, overview of all series, parameters."""

from html import escape

import numpy as np

from wolf.cleaning import CleanedSeries
from wolf.reports import summary
from wolf.reports.chart_data import ChartData
from wolf.reports.svg import overview_sparkline

MAX_OPEN_SERIES = 3  # whose parameters are shown without a click
MAX_SPARKLINES = 600
MEANINGS = {
    "obs_var": "variance of the measurement noise",
    "level_var": "variance of the change of the level in one typical step",
    "slope_var": "variance of the change of the slope in one typical step",
    "seasonal_var": "variance of the change of the seasonal pattern in one typical step",
    "cycle_var": "variance of the change of the cycle in one typical step",
    "accel_rate": "variance of the change of the velocity in one typical step",
    "dynamics_var": "variance of the increment of each position and velocity in one typical step",
}


def cells(row: list[str], titles: list[str]) -> str:
    """Format a row of a table; each cell has its title as an attribute, for narrow screens."""
    parts = (f'<td data-title="{escape(title)}">{escape(cell)}</td>' for cell, title in zip(row, titles, strict=True))
    return "<tr>" + "".join(parts) + "</tr>"


def table(titles: list[str], rows: list[list[str]], caption: str = "") -> str:
    """Format a table."""
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in titles)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = "".join(cells(row, titles) for row in rows)
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def choice(series: list[CleanedSeries]) -> str:
    """Describe the model selection, if the model was selected from the data."""
    found = next((each.choice for each in series if each.choice is not None), None)
    if found is None:
        return ""
    titles = ["model", "score", "behind the best", "parameters", "seconds"]
    rows = []
    for one in found.candidates:
        values = ", ".join(f"{name} {value:.3g}" for name, value in one.parameters.items())
        rows.append([one.name, f"{one.score:.4f}", f"{one.behind:.4g}", values, f"{one.seconds:.2f}"])
    words = escape(found.words)
    verdict = f"<p>{escape(found.verdict)}</p>" if found.verdict else ""
    whose = f" The table is that of {escape(series[0].label)}." if len(series) > 1 and series[0].label else ""
    listed = table(titles, rows, "Candidate models")
    return (
        f"<section><h2>Model selection</h2><p>{words}.{whose}</p>{verdict}<details><summary>All "
        f"{len(rows)} candidates</summary>{listed}</details></section>"
    )


def overview(series: list[CleanedSeries], charts: list[list[ChartData]], failed: dict[str, str]) -> str:
    """Show all series as sparklines, the most severe first, after those that could not be filtered."""
    if len(series) < 2 and not failed:
        return ""
    first, places = 0, []
    for pictures in charts:
        places.append(first)
        first += len(pictures)
    items = [
        f'<li class="broken"><b>{escape(label)}</b><span>not filtered: {escape(reason)}</span></li>'
        for label, reason in failed.items()
    ]
    for i, each in enumerate(series[:MAX_SPARKLINES]):
        missing = f", {each.num_missing:,} missing" if each.num_missing else ""
        counts = f"{each.num_outliers:,} outliers of {each.num_weights:,}{missing}"
        picture = overview_sparkline(each, f"{each.label}: {counts}")
        inner = f"{picture}<b>{escape(each.label)}</b><span>{escape(counts)}</span>"
        button = f'<button type="button" data-show="{places[i]}">{inner}</button>' if i < len(places) else inner
        items.append(f"<li>{button}</li>")
    more = (
        f"<p>... and {len(series) - MAX_SPARKLINES} more, less severe ones.</p>" if len(series) > MAX_SPARKLINES else ""
    )
    return (
        "<section><h2>All series, the most severe first</h2><p>The line is the estimate; ticks below it are outliers. "
        f'Select a series to show its charts.</p><ul class="grid">{"".join(items)}</ul>{more}</section>'
    )


def parameters(shown: list[CleanedSeries]) -> str:
    """List the variances, their standard errors and their meaning."""
    titles, rows = ["series", "parameter", "value", "standard error", "meaning"], []
    for each in shown:
        for name, value in each.parameters.items():
            error = each.fit.errors.get(name, np.nan) if each.fit else np.nan
            uncertainty = "given" if each.fit is None or name not in each.fit.errors else f"± {error:.2g}"
            unknown = "not estimated" if each.choice is not None else "at its bound"
            uncertainty = unknown if uncertainty == "± nan" else uncertainty
            uncertainty += "" if summary.is_identified(each, name) else ", not distinguishable from 0"
            rows.append([each.label, name, f"{value:.4g}", uncertainty, MEANINGS.get(name, "")])
        if each.fit is not None and each.fit.outlier_share is not None:
            meaning = "outlier share of the fit; it affects only the variances"
            rows.append([each.label, "outliers", f"{each.fit.outlier_share:.2%}", "", meaning])
    if not rows:
        return ""
    if not any(row[0] for row in rows):
        titles, rows = titles[1:], [row[1:] for row in rows]
    listed = table(titles, rows)
    if len(shown) > MAX_OPEN_SERIES:
        listed = f"<details><summary>of {len(shown)} series</summary>{listed}</details>"
    return f"<section><h2>Parameters</h2>{listed}</section>"
