"""Implementation of `wolf simulate`: measurements with known truth."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wolf import simulate as simulation
from wolf.beliefs import Gaussian
from wolf.cleaning import io
from wolf.cleaning.gps_tracks import LocalPlane
from wolf.models import registry
from wolf.runtime.checkpoints import atomic

if TYPE_CHECKING:
    import pyarrow as pa

PLANE = LocalPlane(52.52, 13.40)  # position of a track in degrees
START = np.datetime64("2024-05-01T10:00:00")  # of a track, with one second per step
DEFAULT_OBS_VAR, DEFAULT_OTHER_VAR = 1.0, 0.1


def simulate(
    model: str,
    parameters: dict[str, float],
    steps: int,
    columns: int,
    outliers: float,
    size: float,
    missing: float,
    seed: int,
) -> "pa.Table":
    """Simulate a series from a model; a `pyarrow.Table` with time, value, truth and is_outlier.

    Args:
        model: name, or a file.
        parameters: its variances.
        steps: number of rows.
        columns: number of coordinates of a track.
        outliers: share of outliers.
        size: largest error of an outlier, in standard deviations of the noise.
        missing: share of missing values.
        seed: of all random numbers.
    """
    found = registry.parse(model)
    registry.check_parameters(found, parameters)
    defaults = {name: DEFAULT_OBS_VAR if name == "obs_var" else DEFAULT_OTHER_VAR for name in found.parameters}
    states = found.states(columns)
    prior = Gaussian(np.zeros(states), np.eye(states))
    built = found.model(None, prior, columns, **(defaults | found.given | parameters))
    reach = size * float(np.sqrt(np.diagonal(built.R).mean()))
    drawn = simulation.trajectory(built, steps, seed, simulation.Additive(outliers, -reach, reach))
    truth, ys = drawn.states @ np.asarray(built.H).T, drawn.measurements.copy()
    ys[np.random.default_rng(seed).random(steps) < missing] = np.nan
    arrow = io.pyarrow()
    names = [""] if built.obs_dim == 1 else [f"_{j + 1}" for j in range(built.obs_dim)]
    made: dict[str, object] = {"time": np.arange(steps)}
    made |= {f"value{name}": arrow.array(ys[:, j], from_pandas=True) for j, name in enumerate(names)}
    made |= {f"truth{name}": truth[:, j] for j, name in enumerate(names)}
    return arrow.table(made | {"is_outlier": drawn.outliers})


def write(path: str, table: "pa.Table") -> None:
    """Write a simulated table, or the positions of a track as GPX."""
    if not path.lower().endswith(".gpx"):
        io.write_table(path, table)
        return
    names = [name for name in table.column_names if name.startswith("value_")]
    if len(names) != 2:
        raise ValueError(f"{path} is for tracks of two columns: add --model wiener-velocity --columns 2")
    metres = np.stack([np.asarray(table[name].to_pylist(), float) for name in names], axis=1)
    known = np.isfinite(metres).all(axis=1)
    latitude, longitude = PLANE.to_globe(metres[known])
    time = (START + np.arange(len(metres)))[known]
    with atomic(Path(path)) as file:
        file.write(io.write_gpx([("simulated", {"latitude": latitude, "longitude": longitude, "time": time})]))
