"""Implementation of `wolf export`: a filter as C code."""

from typing import Any

import numpy as np

from wolf.beliefs import Gaussian
from wolf.integrations.export_c import ExportedC, export_c
from wolf.models import registry

PRIOR_VAR = 1e4  # of each state: a wide prior, since the target has no data for another one


def export(model: str, parameters: dict[str, float], columns: int, path: str, **options: Any) -> ExportedC:
    """Export the filter of a named model.

    Args:
        model: name, or a file.
        parameters: all its variances.
        columns: number of coordinates of a track.
        path: of the C file.
        **options: of `export_c`.
    """
    found = registry.parse(model)
    registry.check_parameters(found, parameters)
    given = found.given | parameters
    missing = [name for name in found.parameters if name not in given]
    if missing:
        wanted = " ".join(f"--set {name}=..." for name in missing)
        raise ValueError(f"{model} has parameters without a value: give {wanted} (`wolf filter` prints fitted ones)")
    states = found.states(columns)
    built = found.model(None, Gaussian(np.zeros(states), PRIOR_VAR * np.eye(states)), columns, **given)
    return export_c(built, path=path, **options)
