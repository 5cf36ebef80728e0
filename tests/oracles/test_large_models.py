"""Large dense models: the default against a direct evaluation of its moments, and bits that do not depend on layout."""

from collections import OrderedDict

import numpy as np
import pytest
from tests import oracle

import wolf
from wolf.inference.noise.adaptive_scale_mixture import FLOOR, SCALES

pytest.importorskip("llvmlite")

NORMAL_99 = 2.3263478740408408


def large(states):
    """Generate a system with half of its states measured; R is far from singular, so that no square roots are used."""
    system = oracle.random_system(3, states=states, measured=states // 2)
    return system | {"R": np.eye(states // 2) + 0.1 * system["R"]}


def rows(system, steps=12):
    """Simulate measurements with missing entries, a missing row, an outlier, and unusable values."""
    rng = np.random.default_rng(1)
    roots = {name: np.linalg.cholesky(system[name]) for name in ("Q", "R")}
    x, ys = system["mean"], []
    for _ in range(steps):
        x = system["F"] @ x + roots["Q"] @ rng.normal(size=len(x))
        ys.append(system["H"] @ x + roots["R"] @ rng.normal(size=len(system["R"])))
    ys = np.array(ys)
    ys[2, ::3], ys[4], ys[6] = np.nan, np.nan, ys[6] + 40.0
    ys[8, 1], ys[9, 0] = np.inf, 1e300
    return ys


def evaluate(system, ys, strength=10.0, width=0.5, forgetting=0.998):
    """Filter by the inverse of each H P Hᵀ + s R, for the measured coordinates alone.

    A row with a value that cannot be squared is skipped, like a missing one.
    """
    mean, cov = system["mean"], system["cov"]
    bell = np.exp(-0.5 * (np.log(SCALES) / width) ** 2) + FLOOR
    prior = counts = strength * bell / bell.sum()
    means, covs = [], []
    for y in ys:
        mean, cov = system["F"] @ mean, system["F"] @ cov @ system["F"].T + system["Q"]
        there = np.isfinite(y)
        if there.any() and not np.isinf(y).any() and not (np.abs(y[there]) > 1e150).any():
            h, r = system["H"][there], system["R"][np.ix_(there, there)]
            error, cross = y[there] - h @ mean, cov @ h.T
            inverses = [np.linalg.inv(h @ cross + s * r) for s in SCALES]
            logs = np.array([0.5 * np.linalg.slogdet(inverse)[1] for inverse in inverses]) + np.log(counts)
            halves = np.array([0.5 * error @ inverse @ error for inverse in inverses])
            size = there.sum()
            limit = size * (1 - 2 / (9 * size) + NORMAL_99 * (2 / (9 * size)) ** 0.5) ** 3
            logs = np.array([*(logs - halves), logs[-1] - 0.5 * limit])  # the last: beyond all components
            shares = np.exp(logs - logs.max())
            shares /= shares.sum()
            pulls = np.array([*(inverse @ error for inverse in inverses), np.zeros(size)])
            pull = shares @ pulls
            gain = sum(share * inverse for share, inverse in zip(shares, inverses, strict=False))
            doubt = (shares[:, None] * (pulls - pull)).T @ (pulls - pull)
            mean, cov = mean + cross @ pull, cov - cross @ (gain - doubt) @ cross.T
            counts = prior + forgetting * (counts - prior) + shares[:-1]
        means.append(mean)
        covs.append(cov)
    return np.array(means), np.array(covs)


def assert_evaluated(out, system, ys, tolerance):
    for found, expected in zip((out.means, out.covs), evaluate(system, ys), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize(
    ("states", "backend"),
    [
        pytest.param(40, "native", marks=pytest.mark.slow),
        pytest.param(40, "xla", marks=pytest.mark.thorough),
        pytest.param(50, "native", marks=pytest.mark.slow),
        pytest.param(50, "xla", marks=pytest.mark.thorough),
        (64, "xla"),
    ],
)
def test_learned_noise_is_the_mixture_evaluated_directly(states, backend):
    system = large(states)
    ys = rows(system)
    out = wolf.filter(wolf.LinearModel(**system), ys, method="Learned", backend=backend)
    assert out.backend.split(":")[0] == backend
    assert_evaluated(out, system, ys, 1e-12)
    assert out.outliers[[6, 8, 9]].all()
    assert out.outliers.sum() == 3
    np.testing.assert_allclose(out.covs, np.swapaxes(out.covs, 1, 2), rtol=0, atol=1e-15 * np.abs(out.covs).max())


@pytest.mark.slow
def test_many_states_in_single_precision():
    system = large(40)
    ys = rows(system)
    out = wolf.filter(wolf.LinearModel(**system), ys, method="Learned", dtype="float32")
    assert (out.backend, out.means.dtype) == ("native", np.float32)
    assert_evaluated(out, system, ys, 1e-4)


@pytest.mark.parametrize("states", [33, 40, 50])
def test_the_default_runs_by_native_code_as_long_as_the_kalman_filter_does(states):
    """Decided by the number of operations; nothing is compiled."""
    from wolf.native.execute.executable import MAX_OPERATIONS
    from wolf.native.frontend.signature import flatten_model
    from wolf.native.frontend.trace import trace

    model = wolf.LinearModel(**(large(states) | {"R": np.eye(states // 2), "Q": 0.1 * np.eye(states)}))
    for method in (wolf.KF(), wolf.Learned()):
        assert (
            trace(flatten_model([model], method, "float64", False, None, "all").signature).operations <= MAX_OPERATIONS
        )


@pytest.mark.parametrize("name", ["KF", pytest.param("Learned", marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
def test_bits_do_not_depend_on_layout(name, dtype, monkeypatch):
    """One series and eight at once, of different lengths, with a shared model and with one for each."""
    from wolf.execution import prepared
    from wolf.native.codegen import copy_tables, loop_carried_state, step_loop
    from wolf.native.execute import disk_cache, executable

    system = large(10)
    models = [wolf.LinearModel(**(system | {"Q": scale * system["Q"]})) for scale in np.linspace(0.5, 1.5, 9)]
    ys, lengths = rows(system, 20), [20, 3, 17, 12, 20, 1, 9, 15, 11]

    def everything():
        some = [ys[:length] for length in lengths]
        options = {"method": name, "dtype": dtype, "backend": "native"}
        found = [wolf.filter(models[0], ys, **options), *wolf.filter_many(models[0], some, **options)]
        return [*found, *wolf.filter_many(models, some, **options)]

    usual = everything()
    monkeypatch.setattr(disk_cache, "_folder", lambda: None)
    monkeypatch.setattr(executable, "_steps", OrderedDict())
    monkeypatch.setattr(prepared, "_cache", {})
    for module, limit in (
        (copy_tables, "MIN_NUMBERS"),
        (loop_carried_state, "MIN_NUMBERS_IN_MEMORY"),
        (step_loop, "MIN_NUMBERS_IN_MEMORY"),
    ):
        monkeypatch.setattr(module, limit, 1)
    for one, other in zip(usual, everything(), strict=True):
        for field in ("means", "covs", "weights", "log_liks", "predicted_covs", "nis"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field), err_msg=field)
