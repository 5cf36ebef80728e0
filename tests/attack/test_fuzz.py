"""Random small models and random data give no NaN, infinity, negative variance or weight outside of [0, 1].

A failure prints the call that repeats the case, `case(seed, D, M)`. WOLF_FUZZ sets the total number of cases (`make
fuzz`: 100,000); those of a method share one program for each shape and form.
"""

import math
import os

import jax
import numpy as np
import pytest
from tests.rows import PARTS

import wolf
from wolf import native
from wolf.execution import validate
from wolf.inference.filters import CovarianceReset
from wolf.native.frontend.signature import flatten_model

CASES = int(os.environ.get("WOLF_FUZZ", "2000"))
SHAPES = [(1, 3), (2, 2), (4, 2), (3, 1), (1, 1), (4, 3)]  # states, coordinates of a measurement
STEPS = 12
MAX_NEGATIVE = 1e-9  # relative to the largest variance: rounding
GAUSSIAN = [name for name in wolf.methods.names() if isinstance(wolf.methods.make(name), wolf.GaussianFilter)]
METHODS = {name: wolf.methods.make(name) for name in [*GAUSSIAN, "KF-Ting", "IMM"]}
METHODS |= {"Learned-each": wolf.Learned(sensors="each"), "CovarianceReset": CovarianceReset(wolf.WoLF())}
# Each part and each weight; the other rows combine the same ones, and are tested by `make fuzz`.
TESTED = PARTS | {"WoLF-Huber", "WoLF-IMQ", "WoLF-MD", "WoLF-StudentT", "WoLF-Tukey", "WoLF-Welsch"}
TESTED |= {"Learned-each", "CovarianceReset"}
MIN_CASES_FOR_ALL_SHAPES = 20 * len(METHODS) * len(SHAPES)  # with fewer, each method is tested on one shape


def power(rng, low=-12.0, high=12.0):
    """Draw a scale."""
    return 10.0 ** rng.uniform(low, high)


def covariance(rng, size, correlated):
    """Draw a positive definite matrix."""
    root = rng.normal(size=(size, size)) if correlated else np.diag(rng.uniform(0.3, 3.0, size))
    return power(rng) * (root @ root.T + 1e-3 * np.eye(size))


def case(seed, states, measured, each=False):
    """Make a model and its measurements."""
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(states, states)) / states**0.5
    F = [F, np.eye(states), np.triu(np.ones((states, states))), np.zeros((states, states)), np.outer(F[0], F[0])][
        rng.integers(5)
    ]
    H = power(rng, -6, 6) * rng.normal(size=(measured, states))
    if rng.random() < 0.3:
        H = np.tile(H[:1], (measured, 1))  # redundant sensors
    Q = np.zeros((states, states)) if rng.random() < 0.3 else covariance(rng, states, rng.random() < 0.5)
    R = covariance(rng, measured, not each and rng.random() < 0.5)
    prior = covariance(rng, states, rng.random() < 0.5) * (1e12 if rng.random() < 0.2 else 1.0)
    mean = rng.normal(size=states) * np.sqrt(np.diagonal(prior)) * rng.integers(2)
    return wolf.LinearModel(F, H, Q, R, mean, prior), data(rng, H, R, prior)


def data(rng, H, R, prior):
    """Draw measurements at several scales, with missing, extreme and infinite values."""
    noise = np.sqrt(np.diagonal(R))
    spread = np.sqrt(np.diagonal(H @ prior @ H.T) + np.diagonal(R))
    ys = rng.normal(size=(STEPS, len(R))) * [noise, spread, noise * power(rng, -6, 6)][rng.integers(3)]
    if rng.random() < 0.2:
        ys[:] = [0.0, 1.0, ys[0, 0]][rng.integers(3)]
    ys += rng.normal(size=len(R)) * spread * rng.integers(2)
    for _ in range(rng.integers(5)):
        extremes = [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e100, 0.0, 1e6 * noise.max(), -1e3 * noise.max()]
        rows = rng.integers(STEPS) + np.arange(rng.integers(1, 7))
        ys[rows[rows < STEPS], rng.integers(len(R))] = extremes[rng.integers(len(extremes))]
    return ys


def find_faults(final, saved):
    """List the invalid results of a run."""
    wrong = [name for name in ("means", "covs", "weights", "log_liks") if not np.isfinite(saved[name]).all()]
    variances = np.diagonal(saved["covs"], axis1=-2, axis2=-1)
    if (variances < -MAX_NEGATIVE * np.abs(variances).max(-1, keepdims=True)).any():
        wrong.append("negative variance")
    if (saved["weights"] < 0).any() or (saved["weights"] > 1).any():
        wrong.append("weight outside of [0, 1]")
    return wrong


def tier(name):
    """Return the marker of a row."""
    return pytest.mark.thorough if name in TESTED else pytest.mark.slow


@pytest.mark.parametrize("name", [pytest.param(name, marks=tier(name)) for name in METHODS])
def test_random_models_and_data_give_valid_results(name, x64):
    method, number = METHODS[name], list(METHODS).index(name)
    shapes = SHAPES if CASES >= MIN_CASES_FOR_ALL_SHAPES else [SHAPES[number % len(SHAPES)]]
    failed = []
    for states, measured in shapes:
        for seed in range(-(-CASES // (len(METHODS) * len(shapes)))):
            model, ys = case(seed, states, measured, each=name == "Learned-each")
            found = find_faults(*jax.device_get(wolf.run_filter(model, ys, method)))
            failed += [(f"case({seed}, {states}, {measured})", found)] if found else []
        if len(shapes) > 1:
            jax.clear_caches()  # hundreds of programs would fill the memory
    assert not failed, f"{name}: {len(failed)} cases, as {failed[:5]}"


def run_native(model, method, ys):
    """Filter by native code without constants of the model, so that all models of a shape share one program."""
    adapted = validate.adapt_model(model, method, 0)
    given = flatten_model([adapted], method, "float64", False, None, "all", general=frozenset(("F", "H", "Q", "R")))
    return native.run_one(native.NativeProgram(given, math.inf), ys, None)


@pytest.mark.thorough
@pytest.mark.parametrize("name", METHODS if "WOLF_FUZZ" in os.environ else ["WoLF", "CovarianceReset"])
def test_random_models_and_data_give_valid_results_in_native_code(name):
    failed = []
    for seed in range(max(20, CASES // (2 * len(METHODS)))):
        model, ys = case(seed, 2, 2, each=name == "Learned-each")
        found = find_faults(*run_native(model, METHODS[name].suited(model), ys))
        failed += [(f"case({seed}, 2, 2)", found)] if found else []
    assert not failed, f"{name}: {len(failed)} cases, as {failed[:5]}"
