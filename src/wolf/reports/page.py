"""Put the page together from its parts."""

import json
import re
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from wolf.cleaning import Options, Series
from wolf.cleaning.sampling import describe_step
from wolf.execution.validate import package_version
from wolf.reports import chart_data, summary, tables
from wolf.reports.flag_table import flags_of
from wolf.reports.noise_scale_section import levels_of
from wolf.reports.svg import season, track_map
from wolf.runtime.checkpoints import atomic

SHOWN = 50  # series that get large pictures
VERDICTS = 8  # lines of verdicts
NAMED = 4  # series that one names
WORRY = 0.05  # of a share of flagged readings, that a verdict counts as much as


def write_report(path: str, source: str, series: list[Series], options: Options, **told: Any) -> None:
    """Write a report, whole or not at all.

    Args:
        path: of the HTML file.
        source: what was read, for the title.
        series: cleaned.
        options: how.
        **told: as in `render`.
    """
    page = render(source, series, options, **told)
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
    failed: dict[str, str] | None = None,
    runs: dict[int, Any] | None = None,
    past: bool | None = None,
) -> str:
    """Make the page.

    Args:
        source: what was read, for the title.
        series: cleaned.
        options: how.
        names: of the value columns.
        time: name of the time column.
        origin: nanoseconds since 1970 of time 0, for dates.
        notes: what a person should know about the data.
        failed: series that could not be filtered, and why.
        runs: of series whose `Filtered` is at hand, by their `id`.
        past: whether estimates use the past of each row only; None to take it from the options.
    """
    past = options.causal if past is None else past
    series = sorted(series, key=lambda each: trouble(each, past), reverse=True)
    shown = series[:SHOWN]
    most = max(200, chart_data.MOST // max(1, sum(len(each.columns) for each in shown)))
    drawn = [chart_data.series_numbers(each, names, origin, most) for each in shown]
    pictures = [picture for some in drawn for picture in some]
    for each, some in zip(shown, drawn, strict=True):
        for picture in some:
            if picture["loudest"]:
                picture["loudest"]["when"] = tables.moment(each, picture["loudest"]["row"], origin)
            picture["verdicts"] = summary.of_picture(picture, past)
    flags = [flags_of(each, options, (runs or {}).get(id(each))) for each in shown]
    told = {
        "pictures": pictures,
        "dates": origin is not None,
        "time": time or "row",
        "level": options.level,
        "smooth": not past,
    }
    fields = {
        "TITLE": escape(Path(source).name),
        "LEAD": _lead(series),
        "CARDS": _cards(series),
        "CHOICE": tables.choice(series),
        "VERDICTS": _verdicts(shown, drawn),
        "NOTES": "".join(f"<li>{escape(words)}</li>" for words in _notes(series, pictures, notes or [])),
        "OVERVIEW": tables.overview(series, drawn, failed or {}),
        "MAP": _maybe("The track", "".join(track_map(each, names) for each in shown[:1])),
        "FLAGGED": tables.flagged(shown, flags, names, origin),
        "EVENTS": tables.events(shown, flags, origin),
        "LEVELS": _maybe("What was learned about the noise", levels_of(shown, runs or {})),
        "SEASON": _maybe("What repeats", season(series[0])),
        "PARAMETERS": tables.parameters(shown),
        "SETTINGS": _settings(series, options, source, past),
        "STYLE": _asset("uPlot.min.css") + _asset("page.css"),
        "LICENCE": _asset("uPlot-LICENSE.txt"),
        "UPLOT": _asset("uPlot.iife.min.js"),
        "SCRIPT": _asset("page.js"),
        "DATA": json.dumps(_finite(told)).replace("<", "\\u003c"),
    }
    return re.sub(r"\{\{([A-Z]+)\}\}", lambda found: fields[found[1]], _asset("page.html"))


def trouble(each: Series, past: bool = True) -> float:
    """Say how much a series needs to be looked at: its share of flagged and of missing readings, and its worries.

    Args:
        each: cleaned.
        past: whether estimates use the past of each row only.
    """
    share = each.flagged / max(each.judged, 1) + each.missing / max(each.values.size, 1)
    tests = [chart_data.residual_tests(each, k) for k in range(len(each.columns))] if each.standardised.size else []
    worries = summary.of_series(each) + [words for told in tests for words in summary.of_picture(told, past)]
    return share + WORRY * len(worries)


def _maybe(title: str, content: str) -> str:
    """Make a section of what is there."""
    return f"<section><h2>{title}</h2>{content}</section>" if content else ""


def _verdicts(shown: list[Series], drawn: list[list[dict[str, Any]]]) -> str:
    """Say what the checks found, each once, and of which series."""
    found: dict[str, list[str]] = {}
    for each, pictures in zip(shown, drawn, strict=True):
        words = summary.of_series(each) + [words for picture in pictures for words in picture["verdicts"]]
        for word in dict.fromkeys(words):
            found.setdefault(word, []).append(each.label)
    if not found:
        return (
            '<p class="verdict good">The checks found nothing wrong: the errors look like those of a right model.</p>'
        )
    listed = "".join(f"<li>{escape(_whose(labels) + words)}</li>" for words, labels in list(found.items())[:VERDICTS])
    more = f"<li>... and {len(found) - VERDICTS} more</li>" if len(found) > VERDICTS else ""
    return f'<div class="verdict"><b>What to know before trusting the intervals</b><ul>{listed}{more}</ul></div>'


def _whose(labels: list[str]) -> str:
    named = [label for label in labels if label]
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return f"{', '.join(named[:NAMED])}{more}: " if named else ""


def _lead(series: list[Series]) -> str:
    """Say in one sentence what came out."""
    counted, noun, _ = _counted(series)
    flagged, missing = sum(each.flagged for each in series), sum(each.missing for each in series)
    many = f" in {len(series)} series" if len(series) > 1 else ""
    gaps = f" {missing:,} values were missing." if missing else " None was missing."
    share = flagged / max(counted, 1)
    return f"Of {counted:,} {noun}{many}, <b>{flagged:,} do not fit the others</b> ({share:.1%}).{gaps}"


def _counted(series: list[Series]) -> tuple[int, str, bool]:
    """Count what is judged: readings, or rows of them that are judged together; and say which."""
    joint = any(each.outlier.ndim == 1 and each.values.shape[1] > 1 for each in series)
    counted = sum(each.judged if joint else each.values.size for each in series)
    return counted, "rows of readings" if joint else "readings", joint


def _cards(series: list[Series]) -> str:
    first = series[0]
    counted, noun, joint = _counted(series)
    cards = [
        (f"{counted:,}", noun),
        (f"{sum(each.missing for each in series):,}", "missing"),
        (f"{sum(each.flagged for each in series):,}", "flagged"),
    ]
    if "obs_var" in first.parameters and len(series) == 1 and summary.is_sure(first, "obs_var"):
        cards.append((f"± {first.parameters['obs_var'] ** 0.5:.3g}", "usual error of one reading"))
    if len(series) == 1 and not joint:
        last = first.upper[-1, 0] - first.mean[-1, 0]
        cards.append((f"{first.mean[-1, 0]:.4g} ± {last:.2g}", "estimate at the end"))
        if first.future is not None:
            end = first.future.mean[-1, 0], first.future.upper[-1, 0] - first.future.mean[-1, 0]
            cards.append((f"{end[0]:.4g} ± {end[1]:.2g}", f"forecast, {len(first.future.mean):,} steps ahead"))
    return "".join(f'<div class="card"><b>{escape(number)}</b><span>{words}</span></div>' for number, words in cards)


def _notes(series: list[Series], pictures: list[dict[str, Any]], notes: list[str]) -> list[str]:
    told = list(notes)
    if len(series) > SHOWN:
        told.append(f"large pictures of the {SHOWN} most troubled of {len(series)} series")
    thinned = [picture for picture in pictures if picture["shown"] < picture["count"]]
    if thinned:
        told.append(
            f"the pictures show {thinned[0]['shown']:,} of {thinned[0]['count']:,} rows, flagged ones among them"
        )
    return told


def _settings(series: list[Series], options: Options, source: str, past: bool) -> str:
    first = series[0]
    steps = "even" if all(each.even for each in series) else "uneven: continuous-time model"
    settings = {
        "file": source,
        "model": first.model,
        "method": first.method,
        "estimate uses": "the past only (filtered)" if past else "the whole series (smoothed)",
        "time steps": f"{steps}, typically {describe_step(first.unit, options.dated)}",
        "intervals": f"{options.level:.0%}",
        "wolf": package_version(),
    }
    rows = (f'<tr><th scope="row">{name}</th><td>{escape(str(value))}</td></tr>' for name, value in settings.items())
    return "".join(rows)


def _finite(value: Any) -> Any:
    """Replace what JSON has no word for."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _asset(name: str) -> str:
    return resources.files("wolf.reports").joinpath("assets", name).read_text(encoding="utf-8")
