"""What `wolf simulate` makes: readings with the truth beside them."""

from typing import Any

import numpy as np

from wolf import simulate as simulation
from wolf.belief import Gaussian
from wolf.models import named
from wolf.readings import files

OBS_VAR, OTHER_VAR = 1.0, 0.1  # of parameters that were not set


def simulate(
    model: str,
    parameters: dict[str, float],
    steps: int,
    columns: int,
    outliers: float,
    size: float,
    missing: float,
    seed: int,
) -> Any:
    """Draw a series from a model; a `pyarrow.Table` with time, value, truth and is_outlier.

    Args:
        model: by name, or a file.
        parameters: its variances.
        steps: rows.
        columns: coordinates, for a track.
        outliers: share of them.
        size: largest error of an outlier, in standard deviations of the noise.
        missing: share of values left out.
        seed: of all random numbers.
    """
    found = named.parse(model)
    named.check_parameters(found, parameters)
    usual = {name: OBS_VAR if name == "obs_var" else OTHER_VAR for name in found.parameters}
    states = found.states(columns)
    prior = Gaussian(np.zeros(states), np.eye(states))
    built = found.model(None, prior, columns, **(usual | found.given | parameters))
    reach = size * float(np.sqrt(np.diagonal(built.R).mean()))
    drawn = simulation.trajectory(built, steps, seed, simulation.Additive(outliers, -reach, reach))
    truth, ys = drawn.states @ np.asarray(built.H).T, drawn.measurements.copy()
    ys[np.random.default_rng(seed).random(steps) < missing] = np.nan
    arrow = files.pyarrow()
    names = [""] if built.obs_dim == 1 else [f"_{j + 1}" for j in range(built.obs_dim)]
    made: dict[str, Any] = {"time": np.arange(steps)}
    made |= {f"value{name}": arrow.array(ys[:, j], from_pandas=True) for j, name in enumerate(names)}
    made |= {f"truth{name}": truth[:, j] for j, name in enumerate(names)}
    return arrow.table(made | {"is_outlier": drawn.outliers})
