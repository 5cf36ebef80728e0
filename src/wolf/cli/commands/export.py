"""What `wolf export` writes: a filter as C."""

from typing import Any

import numpy as np

from wolf.beliefs import Gaussian
from wolf.integrations.export_c import ExportedC, export_c
from wolf.models import registry

WIDE = 1e4  # variance of each state at the start, if nothing else is said: little is known on another machine


def export(model: str, parameters: dict[str, float], columns: int, path: str, **options: Any) -> ExportedC:
    """Write the filter of a named model.

    Args:
        model: by name, or a file.
        parameters: its variances; all of them.
        columns: coordinates, for a track.
        path: of the C file.
        **options: of `export_c`.
    """
    found = registry.parse(model)
    registry.check_parameters(found, parameters)
    given = found.given | parameters
    missing = [name for name in found.parameters if name not in given]
    if missing:
        wanted = " ".join(f"--set {name}=..." for name in missing)
        raise ValueError(f"{model} has parameters without a value: give {wanted} (wolf filter tells fitted ones)")
    states = found.states(columns)
    built = found.model(None, Gaussian(np.zeros(states), WIDE * np.eye(states)), columns, **given)
    return export_c(built, path=path, **options)
