"""Summaries of a `Filtered`: text, HTML and the columns of a data frame."""

from typing import Any

import numpy as np

from wolf.results.filtered import ARRAYS, Filtered
from wolf.results.views import data_frame, html
from wolf.results.views.model_warnings import remarks
from wolf.results.views.text import describe_method, describe_state
from wolf.statespace.array_fields import count


def text(out: Filtered) -> str:
    """Return the summary that `print(out)` shows."""
    lines = [f"  {value}" if name == "outliers" else f"  {name}: {value}" for name, value in _facts(out)]
    return "\n".join([_title(out), *lines, *map("  {}".format, _remarks(out))])


def html_page(out: Filtered) -> str:
    """Return the summary as HTML, with a small chart of the first state and its outliers."""
    saved = _arrays(out)
    picture = ""
    if out.num_series is None and "means" in saved and len(out):
        variances = out.variances[:, 0] if {"covs", "variances"} & saved.keys() else None
        deviation = None if variances is None else np.sqrt(np.maximum(variances, 0.0))
        outliers = saved.get("outliers", np.zeros(len(out), bool))
        outliers = outliers if outliers.ndim == 1 else outliers.any(axis=1)
        picture = html.sketch(out.means[:, 0], deviation, outliers, "the first state, and rejected measurements")
    return html.page(_title(out), _facts(out), picture, notes=_remarks(out))


def columns(out: Filtered) -> dict[str, np.ndarray]:
    """Return the columns of the data frame of one series."""
    if "means" not in _arrays(out):
        raise ValueError(f'to_frame needs means: filter with save="all", not save={out.settings["save"]!r}')
    variances = out.variances if {"covs", "variances"} & out.saved.keys() else None
    found = {"step": np.arange(len(out))} | data_frame.belief_columns(out.means, variances, out.state_names)
    titles = {"weights": "weight", "outliers": "outlier", "outlier_probabilities": "outlier_probability"}
    for name, title in (titles | {"residuals": "residual", "nis": "nis"}).items():
        if name in out.saved:
            found |= data_frame.spread(title, out.saved[name], out.obs_names)
    if "conformal_radius" in out.saved:  # the interval of the model beside the calibrated one
        for prefix, calibrated in (("prediction", False), ("calibrated", True)):
            ends = out.prediction_interval(out.settings["calibrate"].level, calibrated=calibrated)
            for end, limits in zip(("lower", "upper"), ends, strict=True):
                found |= data_frame.spread(f"{prefix}_{end}", limits, out.obs_names)
    return found


def _arrays(out: Filtered) -> dict[str, Any]:
    """Return the saved arrays by name; empty for a `save` function that returned something else."""
    return out.saved if isinstance(out.saved, dict) else {}


def _remarks(out: Filtered) -> list[str]:
    return remarks(out) if out.num_series is None else []


def _title(out: Filtered) -> str:
    many = "" if out.num_series is None else f"{out.num_series} series x "
    return f"Filtered: {many}{count(out.settings['steps'], 'step')}, method {describe_method(out.method)}"


def _facts(out: Filtered) -> list[tuple[str, str]]:
    """Return the lines of the summary as pairs of a name and a text."""
    rows, saved = [], _arrays(out)
    if "outliers" in saved:
        found = f"{count(saved['outliers'].sum(), 'outlier')} of {saved['outliers'].size}"
        rows.append(("outliers", f"{found}, {count(out.missing, 'missing number')}"))
    if out.num_series is None and "stuck" in saved and np.any(saved["stuck"]):
        rows.append(("repeated exactly", f"{count(saved['stuck'].sum(), 'number')}, treated as missing"))
    if "log_liks" in saved:
        rows.append(("log-likelihood", f"{np.sum(out.log_likelihood):.6g}"))
    named = isinstance(out.saved, dict) and saved.keys() <= {*ARRAYS, "conformal_radius"}
    rows.append(("saved", ", ".join(saved) if named else "the values of your save function, in .saved"))
    if out.num_series is None:
        rows.append(("final state", describe_state(out.final, out.state_names)))
    return rows
