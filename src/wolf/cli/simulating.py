"""What `wolf simulate` makes: readings with the truth beside them."""

from typing import Any

import numpy as np

from wolf import simulate as simulation
from wolf.belief import Gaussian
from wolf.models import recipes
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
    """Draw a series from a recipe; a `pyarrow.Table` with time, value, truth and is_outlier.

    Args:
        model: name of a recipe.
        parameters: its variances.
        steps: rows.
        columns: coordinates, for a track.
        outliers: share of them.
        size: largest error of an outlier, in standard deviations of the noise.
        missing: share of values left out.
        seed: of all random numbers.
    """
    recipe = recipes.parse(model)
    wrong = [name for name in parameters if name not in recipe.parameters]
    if wrong:
        raise ValueError(f"{model} has no parameter {', '.join(wrong)}; it has {', '.join(recipe.parameters)}")
    columns = recipe.fixed.obs_dim if recipe.fixed is not None else columns
    if recipe.columns is not None and recipe.columns != columns:
        raise ValueError(f"{model} has {recipe.columns} column; only constant-velocity can have {columns}")
    usual = {name: OBS_VAR if name == "obs_var" else OTHER_VAR for name in recipe.parameters}
    states = sum(part.size for part in recipe.parts) * columns
    prior = Gaussian(np.zeros(states), np.eye(states))
    built = recipe.builder(None, prior, columns)(**(usual | recipe.given | parameters))
    reach = size * float(np.sqrt(np.diagonal(built.R).mean()))
    drawn = simulation.trajectory(built, steps, seed, simulation.Additive(outliers, -reach, reach))
    truth, ys = drawn.states @ np.asarray(built.H).T, drawn.measurements.copy()
    ys[np.random.default_rng(seed).random(steps) < missing] = np.nan
    arrow = files.pyarrow()
    names = [""] if columns == 1 else [f"_{j + 1}" for j in range(columns)]
    made: dict[str, Any] = {"time": np.arange(steps)}
    made |= {f"value{name}": arrow.array(ys[:, j], from_pandas=True) for j, name in enumerate(names)}
    made |= {f"truth{name}": truth[:, j] for j, name in enumerate(names)}
    return arrow.table(made | {"is_outlier": drawn.outliers})
