"""Fixtures of several test files: float64, and a model with outliers."""

import numpy as np
import pytest

import wolf
from wolf.numerics.jax_compat import enable_x64


@pytest.fixture
def x64():
    with enable_x64(True):
        yield


@pytest.fixture
def tracking():
    return wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)


@pytest.fixture
def dirty(tracking):
    """Simulation with Student-t noise: states, measurements, outliers."""
    return wolf.simulate.trajectory(tracking, 300, key=1, outliers=wolf.simulate.StudentT(dof=2.01))


@pytest.fixture
def rng():
    return np.random.default_rng(0)
