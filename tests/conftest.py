"""Settings of the whole test run: float64, and nothing promoted or broadcast by accident inside the engine."""

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import wolf

patience = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("wolf", derandomize=True, max_examples=15, **patience)
settings.load_profile("wolf")


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def tracking():
    return wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)


@pytest.fixture
def dirty(tracking):
    """Paths with Student-t noise: (states, measurements, outliers)."""
    return wolf.simulate.trajectory(tracking, 300, key=1, outliers=wolf.simulate.StudentT(dof=2.01))


@pytest.fixture
def rng():
    return np.random.default_rng(0)
