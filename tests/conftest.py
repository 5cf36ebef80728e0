"""Settings of the whole test run: float64, and nothing promoted or broadcast by accident inside the engine."""

from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import wolf

patience = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("wolf", derandomize=True, max_examples=15, **patience)
settings.load_profile("wolf")
MAPS = Path("/proc/self/maps")
MOST_MAPS = 25_000  # a process may have 65,530; the compiler dies at the limit, and every program takes some


@pytest.fixture(autouse=True, scope="module")
def drop_programs():
    """Forget compiled programs when there are very many, between two files."""
    yield
    if MAPS.exists() and MAPS.read_text().count("\n") > MOST_MAPS:
        jax.clear_caches()


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
