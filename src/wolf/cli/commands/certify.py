"""What `wolf certify` does: make the model that a person names, certify a method on it, write what was asked for."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from wolf.beliefs import Gaussian
from wolf.cli.commands import filter
from wolf.cli.figures import save
from wolf.diagnostics.certificate import certify
from wolf.models import registry
from wolf.statespace import LinearModel


def build_model(spec: str, parameters: dict[str, float], columns: int) -> LinearModel:
    """Make a model by name with known variances, and a standard normal prior, which a steady state forgets.

    Args:
        spec: name of a model, or a file.
        parameters: its variances.
        columns: measured coordinates, for a track.

    Example:
        >>> build_model("local-level", {"level_var": 0.1, "obs_var": 1.0}, 1)
        LinearModel(1 state, 1 measured)
    """
    found = registry.parse(spec)
    registry.check_parameters(found, parameters)
    absent = [name for name in found.parameters if name not in found.given | parameters]
    if absent:
        advice = " ".join(f"--set {name}=..." for name in absent)
        raise ValueError(f"a certificate is about known noise: {advice} (`wolf filter` prints fitted variances)")
    states = found.states(columns)
    return found.model(None, Gaussian(np.zeros(states), np.eye(states)), columns, **parameters)


def run(
    spec: str,
    settings: tuple[str, ...],
    method: str | None,
    columns: int,
    out: str | None,
    plot: str | None,
    **how: Any,
) -> tuple[str, dict[str, Any]]:
    """Certify, write the files that were asked for, and return what to print: in words, and for programs.

    Args:
        spec: name of a model, or a file.
        settings: variances, as NAME=NUMBER.
        method: name with options.
        columns: measured coordinates.
        out: JSON file for the entries.
        plot: file for the picture.
        **how: `trials`, `steps` and the seed `key`.
    """
    model = build_model(spec, filter.parse_settings(settings), columns)
    found = certify(model, filter.parse_method(method), **how)
    wrote = [path for path in (out, plot) if path is not None]
    if out is not None:
        found.to_json(out)
    if plot is not None:
        save(found.plot(), Path(plot))
    words = "\n".join([repr(found), *([""] if wrote else []), *(f"wrote {path}" for path in wrote)])
    return words, json.loads(found.to_json()) | {"wrote": wrote}
