"""Configs: frozen, compared by value, pytrees for JAX, written to a file and read back."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wolf
from wolf.numerics.pytree import _REGISTRY, cast, from_dict, function, plain_functions, pytree, static, to_dict

CHECKED = []


@pytree
class Gain:
    value: float
    unit: str = static(default="dB")
    shape: object = function(default=None)

    def __post_init__(self):
        CHECKED.append(self.value)


@pytree
class Holder:
    inner: Gain
    fn: object = function()


def double(x):
    return 2 * x


def test_fields_are_leaves_and_static_fields_are_structure():
    gain = Gain(3.0, "V")
    assert jax.tree.leaves(gain) == [3.0]
    assert jax.tree.structure(gain) != jax.tree.structure(Gain(3.0, "A"))
    assert jax.tree.map(lambda x: x + 1, gain) == Gain(4.0, "V")
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(gain)]
    assert paths == [".value"]


def test_plain_function_is_structure_and_callable_pytree_keeps_its_leaves():
    plain = Gain(1.0, shape=double)
    assert jax.tree.leaves(plain) == [1.0]
    assert jax.tree.map(lambda x: x, plain).shape is double
    partial = Gain(1.0, shape=jax.tree_util.Partial(lambda a, x: a * x, 5.0))
    assert jax.tree.leaves(partial) == [1.0, 5.0]
    assert jax.tree.map(lambda x: 2 * x, partial).shape(3.0) == 30.0


def test_checks_run_at_construction_and_not_inside_traces():
    gain = Gain(1.0)
    CHECKED.clear()
    jax.jit(lambda g: g.value)(gain)
    jax.vmap(lambda g: g.value)(jax.tree.map(lambda x: jnp.full(2, x), gain))
    assert not CHECKED
    Gain(2.0)
    assert CHECKED == [2.0]


def test_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Gain(1.0).value = 2.0


def test_equality_is_by_value_type_and_structure():
    assert Gain(1.0) == Gain(np.float64(1))
    assert Gain(1.0) != Gain(2.0)
    assert Gain(1.0, "V") != Gain(1.0, "A")
    assert Gain(1.0) != wolf.IMQ(1.0)
    assert Gain(np.arange(3.0)) == Gain(jnp.arange(3.0))
    assert Gain(np.arange(3.0)) != Gain(np.arange(4.0))
    assert Gain(np.nan) == Gain(np.nan)
    assert Gain(1.0, shape=double) != Gain(1.0, shape=None)


def test_equal_configs_have_equal_hashes():
    assert hash(Gain(1.0)) == hash(Gain(2.0))  # leaves may be arrays, so only the structure is hashed
    assert len({Gain(1.0), Gain(1.0), Gain(1.0, "V")}) == 2


def test_new_leaf_does_not_retrace_and_new_structure_does():
    traces = []

    @jax.jit
    def run(gain):
        traces.append(gain.unit)
        return gain.value

    for gain in (Gain(1.0), Gain(2.0), Gain(3.0, "V"), Gain(4.0, "V")):
        run(gain)
    assert traces == ["dB", "V"]


def test_plain_functions_are_found_at_any_depth():
    assert plain_functions(Holder(Gain(1.0, shape=double), abs)) == [double, abs]
    assert plain_functions(Gain(1.0)) == []


@pytest.mark.parametrize("value", [4, 4.5, np.float32(4), np.int64(4), jnp.float32(4)])
def test_cast_makes_every_leaf_one_kind(value):
    leaf = cast(Gain(value), "float64").value
    assert isinstance(leaf, np.ndarray)
    assert leaf.dtype == np.float64
    assert cast(Gain(value), "float32").value.dtype == np.float32


CONFIGS = [
    wolf.IMQ(),
    wolf.IMQ(c=4.0),
    wolf.MahalanobisThreshold(c=9.5, metric="S"),
    wolf.StudentWeight(dof=3.0),
    wolf.PerCoordinate(wolf.IMQ(c=2.0)),
    wolf.PerGroup(wolf.Huber(), (0, 0, 1)),
    wolf.WoLF(wolf.PerGroup(wolf.StudentWeight(), (0, 1))),
    wolf.KF(form="sqrt"),
    wolf.IMQ(c=np.inf),
    wolf.IMQ(c=np.float64(2.5)),
    wolf.IMQ(c=np.array([1.0, 2.0])),
]


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
def test_description_goes_through_json_and_back(config):
    assert from_dict(json.loads(json.dumps(to_dict(config)))) == config


def test_description_names_classes_and_fields():
    assert to_dict(wolf.PerCoordinate(wolf.IMQ(c=4.0))) == {
        "class": "wolf.inference.weights.functions.PerCoordinate",
        "weight": {"class": "wolf.inference.weights.functions.IMQ", "c": 4.0},
    }


@pytest.mark.parametrize("name", ["Gain", "os.system", "Filtered"])
def test_only_own_classes_are_rebuilt(name):
    with pytest.raises(ValueError, match=f"'{name}' is not part of wolf.*method="):
        from_dict({"class": name, "value": 1.0})


def test_users_class_does_not_shadow_one_of_ours(monkeypatch):
    monkeypatch.setattr("wolf.numerics.pytree._REGISTRY", dict(_REGISTRY))
    described = to_dict(wolf.IMQ(c=4.0))
    pytree(type("IMQ", (), {"__annotations__": {"c": float}, "__module__": "theirs"}))
    assert from_dict(described) == wolf.IMQ(c=4.0)
