"""Put the page together from its parts."""

import json
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from wolf.entry import package_version
from wolf.readings import Options, Series
from wolf.report import numbers
from wolf.storage import atomic

SHOWN = 50  # series that get pictures
MEANINGS = {
    "obs_var": "variance of the measurement noise; its root is the usual error of one reading",
    "level_var": "variance of how far the true level moves in one typical step",
    "slope_var": "variance of how much the slope changes in one typical step",
    "seasonal_var": "variance of how much the repeating pattern changes in one typical step",
    "cycle_var": "variance of how much the wave changes in one typical step",
    "accel_rate": "variance of how much the velocity changes in one typical step",
    "dynamics_var": "variance of what one typical step adds to each position and each velocity",
}


def write_report(
    path: str,
    source: str,
    series: list[Series],
    options: Options,
    *,
    names: list[str],
    time: str | None = None,
    origin: int | None = None,
    notes: list[str] | None = None,
) -> None:
    """Write a report, whole or not at all.

    Args:
        path: of the HTML file.
        source: what was read, for the title.
        series: cleaned.
        options: how.
        names: of the value columns.
        time: name of the time column.
        origin: nanoseconds since 1970 of time 0, for dates.
        notes: what a person should know about the data.
    """
    page = render(source, series, options, names=names, time=time, origin=origin, notes=notes)
    with atomic(Path(path)) as file:
        file.write(page.encode())


def render(
    source: str,
    series: list[Series],
    options: Options,
    *,
    names: list[str],
    time: str | None = None,
    origin: int | None = None,
    notes: list[str] | None = None,
) -> str:
    """Make the page; arguments as in `write_report`."""
    shown = series[:SHOWN]
    most = max(200, numbers.MOST // max(1, sum(len(each.columns) for each in shown)))
    pictures = [picture for each in shown for picture in numbers.series_numbers(each, names, origin, most)]
    told = {
        "pictures": pictures,
        "dates": origin is not None,
        "time": time or "row",
        "level": options.level,
        "smooth": options.smooth,
    }
    fields = {
        "TITLE": escape(Path(source).name),
        "LEAD": _lead(series),
        "CARDS": _cards(series),
        "NOTES": "".join(f"<li>{escape(words)}</li>" for words in _notes(series, pictures, notes or [])),
        "PARAMETERS": _parameters(series),
        "SETTINGS": _settings(series, options, source),
        "STYLE": _asset("uPlot.min.css") + _asset("page.css"),
        "LICENCE": _asset("uPlot-LICENSE.txt"),
        "UPLOT": _asset("uPlot.iife.min.js"),
        "SCRIPT": _asset("page.js"),
        "DATA": json.dumps(_finite(told)).replace("<", "\\u003c"),
    }
    page = _asset("page.html")
    for name, text in fields.items():
        page = page.replace("{{" + name + "}}", text)
    return page


def _lead(series: list[Series]) -> str:
    """Say in one sentence what came out."""
    judged = sum(each.outlier.size for each in series)
    flagged, missing = sum(each.flagged for each in series), sum(each.missing for each in series)
    many = f" in {len(series)} series" if len(series) > 1 else ""
    gaps = f" {missing:,} were missing." if missing else " None was missing."
    share = flagged / max(judged, 1)
    return f"Of {judged:,} readings{many}, <b>{flagged:,} do not fit the others</b> ({share:.1%}).{gaps}"


def _cards(series: list[Series]) -> str:
    first = series[0]
    values = sum(each.values.size for each in series)
    cards = [
        (f"{values:,}", "readings"),
        (f"{sum(each.missing for each in series):,}", "missing"),
        (f"{sum(each.flagged for each in series):,}", "flagged"),
    ]
    if "obs_var" in first.parameters:
        cards.append((f"± {first.parameters['obs_var'] ** 0.5:.3g}", "usual error of one reading"))
    last = first.upper[-1, 0] - first.mean[-1, 0]
    cards.append((f"{first.mean[-1, 0]:.4g} ± {last:.2g}", "estimate at the end"))
    return "".join(f'<div class="card"><b>{escape(number)}</b><span>{words}</span></div>' for number, words in cards)


def _notes(series: list[Series], pictures: list[dict[str, Any]], notes: list[str]) -> list[str]:
    told = list(notes)
    if len(series) > SHOWN:
        told.append(f"pictures of the first {SHOWN} of {len(series)} series")
    thinned = [picture for picture in pictures if picture["shown"] < picture["count"]]
    if thinned:
        told.append(
            f"the pictures show {thinned[0]['shown']:,} of {thinned[0]['count']:,} rows, flagged ones among them"
        )
    return told


def _parameters(series: list[Series]) -> str:
    rows = []
    for each in series[:SHOWN]:
        for name, value in each.parameters.items():
            error = each.fit.errors.get(name, np.nan) if each.fit else np.nan
            sure = (
                "given"
                if each.fit is None or name not in each.fit.errors
                else ("at its limit" if np.isnan(error) else f"± {error:.2g}")
            )
            cells = (each.label, name, f"{value:.4g}", sure, MEANINGS.get(name, ""))
            rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
        if each.fit is not None and each.fit.outlier_share is not None:
            share = f"{each.fit.outlier_share:.2%}"
            words = "share of outliers that the fit found; it decides nothing but the variances"
            rows.append(
                f"<tr><td>{escape(each.label)}</td><td>outliers</td><td>{share}</td><td></td><td>{words}</td></tr>"
            )
    return "".join(rows)


def _settings(series: list[Series], options: Options, source: str) -> str:
    first = series[0]
    steps = "even" if all(each.even for each in series) else "uneven: continuous-time model"
    settings = {
        "file": source,
        "model": first.model,
        "method": first.method,
        "estimate uses": "the whole series (smoothed)" if options.smooth else "the past only (filtered)",
        "time steps": f"{steps}, typically {first.unit:g}",
        "intervals": f"{options.level:.0%}",
        "wolf": package_version(),
    }
    return "".join(f"<tr><td>{name}</td><td>{escape(str(value))}</td></tr>" for name, value in settings.items())


def _finite(value: Any) -> Any:
    """Replace what JSON has no word for."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _asset(name: str) -> str:
    return resources.files("wolf.report").joinpath("assets", name).read_text(encoding="utf-8")
