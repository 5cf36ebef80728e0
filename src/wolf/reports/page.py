"""Assembly of the HTML report from its sections."""

import json
import re
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from wolf.cleaning import CleanedSeries, Options
from wolf.cleaning.sampling import describe_step
from wolf.execution.validate import package_version
from wolf.reports import chart_data, incident_section, summary, tables
from wolf.reports.chart_data import ChartData
from wolf.reports.detectable_section import detectable_faults
from wolf.reports.noise_scale_section import noise_scales
from wolf.reports.svg import season, track_map
from wolf.reports.text import format_time
from wolf.results import Filtered
from wolf.runtime.checkpoints import atomic

MAX_CHART_SERIES = 50  # series with large charts
MAX_FINDINGS = 8  # lines of findings
MAX_NAMED_SERIES = 4  # that a finding names
FINDING_PENALTY = 0.05  # share of outliers to which one finding is equivalent in the ranking of series


def write_report(path: str, source: str, series: list[CleanedSeries], options: Options, **context: Any) -> None:
    """Write a report atomically.

    Args:
        path: of the HTML file.
        source: name of the input, for the title.
        series: cleaned.
        options: how they were cleaned.
        **context: as in `render`.
    """
    page = render(source, series, options, **context)
    with atomic(Path(path)) as file:
        file.write(page.encode())


def render(
    source: str,
    series: list[CleanedSeries],
    options: Options,
    *,
    names: list[str],
    time: str | None = None,
    origin: int | None = None,
    notes: list[str] | None = None,
    failed: dict[str, str] | None = None,
    runs: dict[int, Filtered] | None = None,
    past: bool | None = None,
    utc: bool = False,
    labels: bool = True,
) -> str:
    """Render the page.

    Args:
        source: name of the input, for the title.
        series: cleaned.
        options: how they were cleaned.
        names: of the value columns.
        time: name of the time column.
        origin: Unix time of time 0 in nanoseconds, for dates.
        notes: remarks about the data.
        failed: series that could not be filtered: label -> reason.
        runs: `Filtered` of series, if available, by the `id` of the series.
        past: whether estimates use only the past of each row; None to use that of the options.
        utc: whether the dates are of UTC, because those of the input have a time zone.
        labels: whether incidents can be labelled, for `wolf filter --labels`.
    """
    past = options.causal if past is None else past
    series = sorted(series, key=lambda each: severity(each, past), reverse=True)
    shown = series[:MAX_CHART_SERIES]
    max_points = max(200, chart_data.MAX_POINTS // max(1, sum(len(each.columns) for each in shown)))
    charts = [chart_data.series_numbers(each, names, origin, max_points) for each in shown]
    pictures = [picture for own in charts for picture in own]
    for each, own in zip(shown, charts, strict=True):
        for picture in own:
            if picture["noise_peak"]:
                picture["noise_peak"]["when"] = format_time(each, picture["noise_peak"]["row"], origin)
            picture["findings"] = summary.residual_findings(picture, past)
    suffix = "Z" if utc else ""
    found = [incident_section.find(each, options, (runs or {}).get(id(each))) for each in shown]
    data = {
        "pictures": pictures,
        "dates": origin is not None,
        "time": time or "row",
        "level": options.level,
        "smooth": not past,
        "suffix": suffix,
    }
    fields = {
        "TITLE": escape(Path(source).name),
        "LEAD": _lead(series),
        "CARDS": _cards(series),
        "CHOICE": tables.choice(series),
        "FINDINGS": _findings(shown, charts, found, failed or {}),
        "NOTES": "".join(f"<li>{escape(note)}</li>" for note in _notes(series, pictures, notes or [])),
        "OVERVIEW": tables.overview(series, charts, failed or {}),
        "MAP": _section("Track", "".join(track_map(each, names) for each in shown[:1])),
        "INCIDENTS": incident_section.section(shown, found, names, origin, suffix if labels else None),
        "NOISE_SCALES": _section("Estimated noise scales", noise_scales(shown, runs or {}))
        + _section("Smallest fault that would be noticed", detectable_faults(shown, runs or {}, names)),
        "SEASON": _section("Seasonal pattern", season(series[0])),
        "PARAMETERS": tables.parameters(shown),
        "SETTINGS": _settings(series, options, source, past),
        "STYLE": _asset("uPlot.min.css") + _asset("page.css"),
        "LICENCE": _asset("uPlot-LICENSE.txt"),
        "UPLOT": _asset("uPlot.iife.min.js"),
        "SCRIPT": _asset("page.js"),
        "DATA": json.dumps(_json_ready(data)).replace("<", "\\u003c"),
    }
    return re.sub(r"\{\{([A-Z_]+)\}\}", lambda found: fields[found[1]], _asset("page.html"))


def severity(each: CleanedSeries, past: bool = True) -> float:
    """Score a series for the ranking: shares of outliers and missing values, plus a penalty for each finding.

    Args:
        each: cleaned series.
        past: whether estimates use only the past of each row.
    """
    share = each.num_outliers / max(each.num_weights, 1) + each.num_missing / max(each.values.size, 1)
    tests = [chart_data.residual_tests(each, k) for k in range(len(each.columns))] if each.standardised.size else []
    findings = summary.series_findings(each) + [one for test in tests for one in summary.residual_findings(test, past)]
    return share + FINDING_PENALTY * len(findings)


def _section(title: str, content: str) -> str:
    """Format a section; empty without content."""
    return f"<section><h2>{title}</h2>{content}</section>" if content else ""


def _findings(
    shown: list[CleanedSeries],
    charts: list[list[ChartData]],
    incidents: list[list[incident_section.Found]],
    failed: dict[str, str],
) -> str:
    """State in one box what was found: incidents, series that failed, and checks, each with the names of its series."""
    found: dict[str, list[str]] = {}
    faults = incident_section.num_faults(incidents)
    if faults:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in faults.most_common())
        plural = "s" if faults.total() > 1 else ""
        found[f"{faults.total():,} incident{plural}: {kinds}"] = []
    if failed:
        found[f"{len(failed)} series could not be filtered"] = []
    for each, pictures in zip(shown, charts, strict=True):
        findings = summary.series_findings(each) + [one for picture in pictures for one in picture["findings"]]
        for finding in dict.fromkeys(findings):
            found.setdefault(finding, []).append(each.label)
    if not found:
        return '<p class="verdict good">No faults found, and the residuals are consistent with the model.</p>'
    if len(found) == bool(faults) + bool(failed):
        found["the residuals are consistent with the model"] = []
    listed = "".join(
        f"<li>{escape(_series_prefix(labels) + finding)}</li>" for finding, labels in list(found.items())[:MAX_FINDINGS]
    )
    more = f"<li>... and {len(found) - MAX_FINDINGS} more</li>" if len(found) > MAX_FINDINGS else ""
    return f'<div class="verdict"><b>Findings</b><ul>{listed}{more}</ul></div>'


def _series_prefix(labels: list[str]) -> str:
    named = [label for label in labels if label]
    more = f" and {len(named) - MAX_NAMED_SERIES} more" if len(named) > MAX_NAMED_SERIES else ""
    return f"{', '.join(named[:MAX_NAMED_SERIES])}{more}: " if named else ""


def _lead(series: list[CleanedSeries]) -> str:
    """Summarise the result in one sentence."""
    counted, noun, _ = _count_judged(series)
    flagged, missing = sum(each.num_outliers for each in series), sum(each.num_missing for each in series)
    many = f" in {len(series)} series" if len(series) > 1 else ""
    gaps = f" {missing:,} values were missing." if missing else " None was missing."
    share = flagged / max(counted, 1)
    return f"Of {counted:,} {noun}{many}, <b>{flagged:,} are outliers</b> ({share:.1%}).{gaps}"


def _count_judged(series: list[CleanedSeries]) -> tuple[int, str, bool]:
    """Count the judged units: measurements, or rows with one weight for all columns; and name the unit."""
    joint = any(each.outlier.ndim == 1 and each.values.shape[1] > 1 for each in series)
    counted = sum(each.num_weights if joint else each.values.size for each in series)
    return counted, "rows" if joint else "measurements", joint


def _cards(series: list[CleanedSeries]) -> str:
    first = series[0]
    counted, noun, joint = _count_judged(series)
    cards = [
        (f"{counted:,}", noun),
        (f"{sum(each.num_missing for each in series):,}", "missing"),
        (f"{sum(each.num_outliers for each in series):,}", "outliers"),
    ]
    if "obs_var" in first.parameters and len(series) == 1 and summary.is_identified(first, "obs_var"):
        cards.append((f"± {first.parameters['obs_var'] ** 0.5:.3g}", "standard deviation of the noise"))
    if len(series) == 1 and not joint:
        last = first.upper[-1, 0] - first.mean[-1, 0]
        cards.append((f"{first.mean[-1, 0]:.4g} ± {last:.2g}", "estimate at the end"))
        if first.forecast is not None:
            end = first.forecast.mean[-1, 0], first.forecast.upper[-1, 0] - first.forecast.mean[-1, 0]
            cards.append((f"{end[0]:.4g} ± {end[1]:.2g}", f"forecast, {len(first.forecast.mean):,} steps ahead"))
    return "".join(f'<div class="card"><b>{escape(number)}</b><span>{text}</span></div>' for number, text in cards)


def _notes(series: list[CleanedSeries], pictures: list[ChartData], notes: list[str]) -> list[str]:
    found = list(notes)
    if len(series) > MAX_CHART_SERIES:
        found.append(f"charts show the {MAX_CHART_SERIES} most severe of {len(series)} series")
    thinned = [picture for picture in pictures if picture["shown"] < picture["count"]]
    if thinned:
        found.append(f"the charts show {thinned[0]['shown']:,} of {thinned[0]['count']:,} rows, including outliers")
    return found


def _settings(series: list[CleanedSeries], options: Options, source: str, past: bool) -> str:
    first = series[0]
    steps = "even" if all(each.even for each in series) else "uneven: continuous-time model"
    settings = {
        "file": source,
        "model": first.model,
        "method": first.method,
        "estimate uses": "the past only (filtered)" if past else "the whole series (smoothed)",
        "time steps": f"{steps}, typically {describe_step(first.unit, options.dated)}",
        "intervals": f"{options.level:.0%}",
        **({"false alarms": summary.describe_detection(first)} if first.detection else {}),
        "wolf": package_version(),
    }
    rows = (f'<tr><th scope="row">{name}</th><td>{escape(str(value))}</td></tr>' for name, value in settings.items())
    return "".join(rows)


def _json_ready(value: object) -> object:
    """Replace non-finite numbers by None, which JSON can represent."""
    if isinstance(value, dict):
        return {name: _json_ready(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_json_ready(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _asset(name: str) -> str:
    return resources.files("wolf.reports").joinpath("assets", name).read_text(encoding="utf-8")
