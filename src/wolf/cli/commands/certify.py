"""Implementation of `wolf certify`: build the named model, certify a method on it, write the outputs."""

import json
from pathlib import Path

import numpy as np

from wolf.beliefs import Gaussian
from wolf.cli.commands import filter
from wolf.cli.figures import save
from wolf.diagnostics.certificate import certify
from wolf.models import registry
from wolf.statespace import LinearModel


def build_model(spec: str, parameters: dict[str, float], columns: int) -> LinearModel:
    """Build a named model with known variances, and a standard normal prior, which has no effect in steady state.

    Args:
        spec: name of a model, or a file.
        parameters: its variances.
        columns: number of coordinates of a track.

    Example:
        >>> build_model("local-level", {"level_var": 0.1, "obs_var": 1.0}, 1)
        LinearModel(1 state, 1 measured)
    """
    found = registry.parse(spec)
    registry.check_parameters(found, parameters)
    absent = [name for name in found.parameters if name not in found.given | parameters]
    if absent:
        advice = " ".join(f"--set {name}=..." for name in absent)
        raise ValueError(f"a certificate needs known variances: {advice} (`wolf filter` prints fitted variances)")
    states = found.states(columns)
    return found.model(None, Gaussian(np.zeros(states), np.eye(states)), columns, **parameters)


def run(
    spec: str,
    settings: tuple[str, ...],
    method: str | None,
    columns: int,
    out: str | None,
    plot: str | None,
    *,
    trials: int,
    steps: int,
    key: int,
) -> tuple[str, dict[str, object]]:
    """Certify, write the requested files, and return the summary as text and for JSON.

    Args:
        spec: name of a model, or a file.
        settings: variances, as NAME=NUMBER.
        method: name with options.
        columns: number of coordinates.
        out: JSON file of the certificate.
        plot: file of the figure.
        trials: number of random tracks.
        steps: of each.
        key: seed.
    """
    model = build_model(spec, filter.parse_settings(settings), columns)
    found = certify(model, filter.parse_method(method), trials=trials, steps=steps, key=key)
    wrote = [path for path in (out, plot) if path is not None]
    if out is not None:
        found.to_json(out)
    if plot is not None:
        save(found.plot(), Path(plot))
    text = "\n".join([repr(found), *([""] if wrote else []), *(f"wrote {path}" for path in wrote)])
    return text, json.loads(found.to_json()) | {"wrote": wrote}
