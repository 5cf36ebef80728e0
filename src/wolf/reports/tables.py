"""The tables of the page: what was chosen, all series in little, flagged readings, events, parameters."""

from html import escape
from typing import Any

import numpy as np

from wolf.cleaning import Series
from wolf.reports import summary
from wolf.reports.flag_table import MOST, Flag, events_of
from wolf.reports.svg import small

FEW = 3  # series whose parameters are shown at once
LISTED = 600  # series with a small picture
MEANINGS = {
    "obs_var": "variance of the measurement noise; its root is the usual error of one reading",
    "level_var": "variance of how far the true level moves in one typical step",
    "slope_var": "variance of how much the slope changes in one typical step",
    "seasonal_var": "variance of how much the repeating pattern changes in one typical step",
    "cycle_var": "variance of how much the wave changes in one typical step",
    "accel_rate": "variance of how much the velocity changes in one typical step",
    "dynamics_var": "variance of what one typical step adds to each position and each velocity",
}


def cells(row: list[str], titles: list[str]) -> str:
    """Write a row of a table; each cell knows its title, for a narrow page."""
    parts = (f'<td data-title="{escape(title)}">{escape(cell)}</td>' for cell, title in zip(row, titles, strict=True))
    return "<tr>" + "".join(parts) + "</tr>"


def table(titles: list[str], rows: list[list[str]], caption: str = "") -> str:
    """Write a table."""
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in titles)
    told = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = "".join(cells(row, titles) for row in rows)
    return f"<table>{told}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def moment(each: Series, row: int, origin: int | None) -> str:
    """Write the time of a row."""
    if each.times is None:
        return f"row {row + 1:,}"
    if origin is None:
        return f"{each.times[row]:.10g}"
    stamp = np.datetime64(origin, "ns") + np.timedelta64(round(float(each.times[row]) * 1e9), "ns")
    return str(stamp.astype("datetime64[s]")).replace("T", " ")


def choice(series: list[Series]) -> str:
    """Say what was chosen and why, if the model was chosen from the data."""
    found = next((chosen for each in series if (chosen := getattr(each, "choice", None)) is not None), None)
    if found is None:
        return ""
    titles = ["model", "score", "behind the best", "parameters", "seconds"]
    rows = []
    for one in found.candidates:
        values = ", ".join(f"{name} {value:.3g}" for name, value in one.parameters.items())
        rows.append([one.name, f"{one.score:.4f}", f"{getattr(one, 'behind', 0.0):.4g}", values, f"{one.seconds:.2f}"])
    words = escape(getattr(found, "words", "") or str(found).splitlines()[0])
    verdict = f"<p>{escape(str(found.verdict))}</p>" if getattr(found, "verdict", "") else ""
    whose = f" The table is that of {escape(series[0].label)}." if len(series) > 1 and series[0].label else ""
    listed = table(titles, rows, "Models that were tried")
    return (
        f"<section><h2>What was chosen, and why</h2><p>{words}.{whose}</p>{verdict}<details><summary>All "
        f"{len(rows)} candidates</summary>{listed}</details></section>"
    )


def overview(series: list[Series], drawn: list[list[dict[str, Any]]], failed: dict[str, str]) -> str:
    """Show all series in little, the most troubled first; what could not be filtered before them."""
    if len(series) < 2 and not failed:
        return ""
    first, places = 0, []
    for pictures in drawn:
        places.append(first)
        first += len(pictures)
    items = [
        f'<li class="broken"><b>{escape(label)}</b><span>not filtered: {escape(why)}</span></li>'
        for label, why in failed.items()
    ]
    for i, each in enumerate(series[:LISTED]):
        words = f"{each.flagged:,} flagged of {each.judged:,}" + (f", {each.missing:,} missing" if each.missing else "")
        label = f"{each.label}: {words}"
        inner = f"{small(each, label)}<b>{escape(each.label)}</b><span>{escape(words)}</span>"
        button = f'<button type="button" data-show="{places[i]}">{inner}</button>' if i < len(places) else inner
        items.append(f"<li>{button}</li>")
    more = f"<p>... and {len(series) - LISTED} more, less troubled ones.</p>" if len(series) > LISTED else ""
    return (
        "<section><h2>All series, the most troubled first</h2><p>The line is the estimate; marks below it are flagged "
        f'readings. Choose one to see it below.</p><ul class="grid">{"".join(items)}</ul>{more}</section>'
    )


def flagged(shown: list[Series], flags: list[list[Flag]], names: list[str], origin: int | None) -> str:
    """List the flagged readings, each with what was read, what was expected, and a reason."""
    titles = ["series", "time", "rows", "reading", "estimate", "fault", "reason"]
    rows: list[list[str]] = []
    total = sum(map(len, flags))
    for each, found in zip(shown, flags, strict=True):
        for flag in found:
            if len(rows) >= MOST:
                break
            k = 0 if flag.column is None else flag.column
            own = range(len(each.columns)) if flag.column is None else [k]
            label = " ".join(filter(None, [each.label, names[each.columns[k]] if flag.column is not None else ""]))
            reading = ", ".join(f"{each.values[flag.first, m]:.5g}" for m in own)
            estimate = ", ".join(f"{each.mean[flag.first, m]:.5g}" for m in own)
            where = f"{each.rows[flag.first] + 1}" + (
                f" to {each.rows[flag.last] + 1}" if flag.last > flag.first else ""
            )
            when = moment(each, flag.first, origin)
            rows.append([label, when, where, reading, estimate, flag.kind, flag.reason])
    if not rows:
        return "<section><h2>Flagged readings</h2><p>None.</p></section>"
    if not any(row[0] for row in rows):
        titles, rows = titles[1:], [row[1:] for row in rows]
    more = f"<p>The first {MOST} of {total:,}; the file has a column for all of them.</p>" if total > MOST else ""
    closed = "" if len(rows) > 40 else " open"
    return (
        "<section><h2>Flagged readings</h2><p>Neighbours of one kind share a line, with the numbers of the first.</p>"
        f"<details{closed}><summary>{len(rows):,} lines</summary>{table(titles, rows)}</details>{more}</section>"
    )


def events(shown: list[Series], flags: list[list[Flag]], origin: int | None) -> str:
    """List gaps and shifts."""
    titles, rows = ["series", "from", "to", "what", "how"], []
    for each, found in zip(shown, flags, strict=True):
        for event in events_of(each, found):
            ends = [moment(each, row, origin) for row in (event.first, event.last)]
            rows.append([each.label, *ends, event.kind, event.reason])
    if not rows:
        return ""
    if not any(row[0] for row in rows):
        titles, rows = titles[1:], [row[1:] for row in rows]
    more = f"<p>The first {MOST} of {len(rows):,}.</p>" if len(rows) > MOST else ""
    listed = table(titles, rows[:MOST])
    return f"<section><h2>Events</h2><p>What happened that is no fault of a reading.</p>{listed}{more}</section>"


def parameters(shown: list[Series]) -> str:
    """List the variances, how sure they are, and what they mean."""
    titles, rows = ["series", "parameter", "value", "standard error", "meaning"], []
    for each in shown:
        for name, value in each.parameters.items():
            error = each.fit.errors.get(name, np.nan) if each.fit else np.nan
            sure = "given" if each.fit is None or name not in each.fit.errors else f"± {error:.2g}"
            unknown = "not told" if getattr(each, "choice", None) is not None else "at its limit"
            sure = unknown if sure == "± nan" else sure
            sure += "" if summary.is_sure(each, name) else ", cannot be told from 0"
            rows.append([each.label, name, f"{value:.4g}", sure, MEANINGS.get(name, "")])
        if each.fit is not None and each.fit.outlier_share is not None:
            words = "share of outliers that the fit found; it decides nothing but the variances"
            rows.append([each.label, "outliers", f"{each.fit.outlier_share:.2%}", "", words])
    if not rows:
        return ""
    if not any(row[0] for row in rows):
        titles, rows = titles[1:], [row[1:] for row in rows]
    listed = table(titles, rows)
    if len(shown) > FEW:
        listed = f"<details><summary>of {len(shown)} series</summary>{listed}</details>"
    return f"<section><h2>Parameters</h2>{listed}</section>"
