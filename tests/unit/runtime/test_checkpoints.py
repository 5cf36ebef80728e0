"""A saved filter continues only with what it was saved with, and a damaged file is rejected."""

import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wolf
from wolf.numerics.pytree import from_dict, to_dict
from wolf.runtime.hashing import fingerprint

SLOPE = 2.0


def steep(x):
    return SLOPE * x


def calls_steep(x):
    return steep(x)


def closed(slope):
    return lambda x: slope * x


def powers(x, exponent=2):
    return x**exponent


class Scaled:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x):
        return self.scale * x


def model_of(dynamics):
    eye = np.eye(1)
    return wolf.StateSpaceModel(
        dynamics=dynamics, observe=steep, dynamics_cov=eye, obs_cov=eye, prior=wolf.Gaussian([0.0], eye)
    )


@pytest.fixture
def saved(tmp_path):
    """Save a filter of a model after two steps, and return the path."""

    def save(model, method=None, **options):
        online = wolf.Online(model, method, **options)
        for _ in range(2):
            online.step(np.ones(model.obs_dim))
        online.save(tmp_path / "filter.npz")
        return tmp_path / "filter.npz"

    return save


PAIRS = {
    "code": (lambda x: x / 2, lambda x: -3 * x),
    "constant": (lambda x: 2 * x, lambda x: 3 * x),
    "name": (lambda x: jnp.sin(x), lambda x: jnp.cos(x)),
    "closure": (closed(1.0), closed(2.0)),
    "default": (powers, functools.partial(powers, exponent=3)),
    "Partial": (jax.tree_util.Partial(powers, exponent=1.0), jax.tree_util.Partial(powers, exponent=2.0)),
    "jit": (jax.jit(closed(1.0)), jax.jit(closed(2.0))),
    "object": (Scaled(1.0), Scaled(2.0)),
    "method": (Scaled(1.0).__call__, Scaled(2.0).__call__),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_another_function_is_another_model(saved, kind):
    one, other = PAIRS[kind]
    path = saved(model_of(one))
    assert wolf.Online.load(path, model_of(one)).t == 2
    with pytest.raises(ValueError, match="another model"):
        wolf.Online.load(path, model_of(other))


def test_what_a_function_reads_of_its_module_belongs_to_it(monkeypatch):
    before = fingerprint(calls_steep)
    assert before == fingerprint(calls_steep)
    monkeypatch.setitem(globals(), "SLOPE", 5.0)
    assert before != fingerprint(calls_steep)


def test_functions_of_another_python_are_distinguished_by_name(saved, monkeypatch):
    path = saved(model_of(powers))
    monkeypatch.setattr(sys, "version_info", (9, 9, 0))
    assert wolf.Online.load(path, model_of(powers)).t == 2
    with pytest.raises(ValueError, match="another model"):
        wolf.Online.load(path, model_of(steep))


@pytest.mark.parametrize("other", ["KF", "WoLF", wolf.Learned(patience=7)])
def test_another_method_is_refused(saved, tracking, other):
    path = saved(tracking)
    with pytest.raises(ValueError, match="another method"):
        wolf.Online.load(path, tracking, other)
    for same in (None, "Adaptive", wolf.Adaptive()):
        assert wolf.Online.load(path, tracking, same).t == 2


@pytest.mark.parametrize("name", wolf.methods.names())
def test_every_method_has_one_fingerprint(name):
    method = wolf.methods.make(name)
    assert fingerprint(method) == fingerprint(wolf.methods.make(name)) == fingerprint(from_dict(to_dict(method)))


def test_a_checksum_holds_where_that_of_the_container_was_recomputed(saved, tracking):
    path = saved(tracking)
    with np.load(path) as file:
        arrays = dict(file)
    arrays["state_0"] = arrays["state_0"] + 1e-9
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="damaged"):
        wolf.Online.load(path, tracking)
