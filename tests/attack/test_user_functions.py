"""Functions and weights as people write them: each gives the numbers of plain NumPy, or an error in wolf's own words.

Cases are generated as source lines, so that the line which an error quotes exists: bodies with NumPy calls, choices by
value, wrong shapes and types, arrays of other precisions, inputs that are missing or not expected, combined with the
places where a function goes (dynamics, observation, residual, weight) and with the calls that run it.
"""

import itertools
import linecache
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wolf
from wolf.beliefs.updates import WeightedUpdate
from wolf.interfaces import NoiseModel, UpdateDecision
from wolf.numerics.jax_compat import enable_x64
from wolf.numerics.pytree import pytree

INTERNAL = re.compile(r"[Tt]racer|jax\._src|jaxpr|ShapedArray|__jax_array__|float64\[\d|float32\[\d")
PRIOR = wolf.Gaussian(np.array([0.5, -0.2]), np.eye(2))
Q, R, YS = 0.1 * np.eye(2), np.diag([0.5, 2.0]), np.array([[0.4, -0.1], [0.9, 0.3], [np.nan, 0.2]])
US = np.array([[0.1], [0.2], [-0.1]])
NAMES = {
    "np": np,
    "jnp": jnp,
    "jax": jax,
    "math": __import__("math"),
    "index": np.array([1, 0]),
    "first": np.array([0, 0]),
    "mask": np.array([True, True]),
    "A32": np.array([[0.5, 0.25], [-0.25, 0.5]], np.float32),
    "A64": np.array([[0.5, 0.25], [-0.25, 0.5]]),
    "whole": np.array([[1, 2], [0, 1]]),
    "rows": [[0.5, 0.25], [-0.25, 0.5]],
    "half": jnp.asarray([0.5, 0.5], jnp.float32),
    "text": "two",
    "table": {"a": 0.5},
}

# Expressions of x (2,) that are right, each with NumPy in place of jnp as its reference.
RIGHT = [
    "0.5 * x",
    "x[index]",
    "x[first]",
    "x[mask]",
    "x[::-1]",
    "jnp.take(x, index)",
    "x[np.array([0, 1])]",
    "A64 @ x",
    "A32 @ x",
    "whole @ x",
    "jnp.array(rows) @ x",
    "jnp.dot(A64, x)",
    "half * x",
    "0.5 * x + index",
    "[x[0], 0.5 * x[1]]",
    "(x[0] * x[1], 1)",
    "[0.5 * v for v in x]",
    "jnp.array([x[0], 2])",
    "jnp.stack([x[1], jnp.sin(x[0])])",
    "jnp.where(x > 0, x, 0.1 * x)",
    "jnp.maximum(x, 0.1)",
    "jnp.hypot(x, 1.0)",
    "jnp.linalg.solve(A64, x)",
    "jnp.linalg.inv(A64) @ x",
    "x / jnp.linalg.norm(x + 3)",
    "x * table['a']",
    "x @ A64",
    "abs(x) + x**2",
    "sum(x) * x",
    "(lambda z: z * 0.5)(x)",
    "jnp.concatenate([x[:1], x[1:] * 0.5])",
    "jnp.array([1, 2])",
    "np.array([1.0, 2.0])",
    "np.array([1.0, 2.0], np.float32) * x",
    "x > 0",
    "jnp.round(x)",
    "jnp.sort(x)",
    "jnp.exp(-0.5 * x**2)",
    "jnp.arctan2(x, 1.0 + x**2)",
    "jnp.mod(x, 1.5)",
    "jnp.clip(x, -0.3, 0.3)",
    "jnp.cumsum(x)",
    "jnp.outer(x, x)[0]",
    "x.at[0].add(1.0)",
]

# Bodies that are wrong, as lines of a function of x (and of u, if it is given).
WRONG = [
    "return np.sin(x)",
    "return np.array([np.cos(x[0]), x[1]])",
    "return math.sin(x[0]) * x",
    "return np.linalg.norm(x) * x",
    "return np.linalg.solve(A64, x)",
    "return float(x[0]) * x",
    "return int(x[0]) * x",
    "return x.item(0) * x",
    "return x.tolist()",
    "return np.asarray(x)",
    "return list(map(float, x))",
    "return x if x[0] > 0 else -x",
    "return x if x.sum() else -x",
    "return x if x.all() and x.any() else -x",
    "return max(x[0], x[1]) * x",
    "return sorted(x)",
    "return x[x > 0]",
    "return x[x[0].astype(int)] if x[0] else x",
    "return jnp.array([v for v in x if v > 0])",
    "assert x[0] > 0; return x",
    "x[0] = 1.0; return x",
    "x[1] += 2.0; return x",
    "return None",
    "return 'two'",
    "return text",
    "return {'a': x}",
    "return [x, x[0]]",
    "return x[0]",
    "return x[:1]",
    "return x[None]",
    "return x[:, None]",
    "return jnp.stack([x, x])",
    "return jnp.concatenate([x, x])",
    "return jnp.outer(x, x)",
    "return 3.0",
    "return x * 1j",
    "return x + jnp.ones(3)",
    "return A64 @ jnp.ones(3)",
    "return x[[1, 0]]",
    "return x[2:3]",
    "return x['a']",
    "return x.lag(1)",
    "return undefined * x",
    "return table['b'] * x",
    "raise RuntimeError('not today')",
    "return range(len(x))[x[0]] * x",
    "return np.random.default_rng(0).normal(x)",
    "return open('/nowhere').read()",
    "return lambda: x",
    "return jnp",
    "return x.shape",
    "pass",
    "while x[0] > 0: x = x - 1\n    return x",
    "for i in range(x[0].astype(int)): x = x * 2\n    return x",
]

# Weights of residual r, noise covariance R and innovation covariance S that are right and wrong.
RIGHT_WEIGHTS = [
    "1.0",
    "1",
    "1.0 / jnp.sqrt(1.0 + r @ r)",
    "jnp.exp(-0.5 * r @ jnp.linalg.solve(S, r))",
    "jnp.exp(-jnp.abs(r))",
    "r @ r < 9.0",
    "jnp.where(r @ jnp.linalg.inv(R) @ r < 9.0, 1.0, 0.0)",
    "[0.5, 1.0]",
    "(0.5, 1.0)",
    "np.float32(0.25)",
    "jnp.minimum(1.0, 2.0 / (1e-9 + jnp.linalg.norm(r)))",
    "1.0 / (1.0 + jnp.abs(r / jnp.sqrt(jnp.diag(S))))",
    "np.array([0.5, 0.75])",
    "jnp.exp(-half * jnp.abs(r))",
    "jnp.tanh(1.0 / (1e-6 + jnp.abs(r[index])))",
]
WRONG_WEIGHTS = [
    "return np.exp(-r @ r)",
    "return 1.0 if r @ r < 9.0 else 0.0",
    "return math.exp(-r[0])",
    "return float(r[0] < 3.0)",
    "return 1.0 + r @ r",
    "return 2.0",
    "return -0.5",
    "return r",
    "return r @ r",
    "return 1.0 / jnp.abs(r)",
    "return r[0] / r[0]",
    "return jnp.nan",
    "return jnp.log(jnp.abs(r))",
    "return jnp.array([2.0, 0.5])",
    "return None",
    "return 'heavy'",
    "return {'w': 1.0}",
    "return S",
    "return R[0, 0] * S",
    "return jnp.ones(3)",
    "return jnp.ones((1, 2))",
    "return r * 1j",
    "r[0] = 0.0; return 1.0",
    "return undefined",
    "return jnp.ones(3) @ r",
    "raise KeyError('w')",
    "pass",
]
count = itertools.count()


def function(arguments, body):
    """Compile a function from its source, which stays readable for messages."""
    name = f"<case {next(count)}>"
    source = f"def f({arguments}):\n    {body}\n"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = dict(NAMES)
    exec(compile(source, name, "exec"), scope)
    return scope["f"]


def model(dynamics=None, observe=lambda x: x, **options):
    return wolf.StateSpaceModel(dynamics, observe, Q, R, PRIOR, **options)


# Calls that run a model and a method; the last one runs the pure layer in float32.
CALLS = {
    "filter": lambda model, method, us: wolf.filter(model, YS, method=method, inputs=us),
    "single": lambda model, method, us: wolf.filter(model, YS, method=method, inputs=us, dtype="float32"),
    "xla": lambda model, method, us: wolf.filter(model, YS, method=method, inputs=us, backend="xla"),
    "ensemble": lambda model, method, us: wolf.filter(model, YS, method="ETKF", inputs=us, key=0),
    "many": lambda model, method, us: wolf.filter_many(model, [YS, YS], method=method, inputs=us),
    "online": lambda model, method, us: wolf.Online(model, method).step(YS[0], u=None if us is None else us[0]),
    "bank": lambda model, method, us: wolf.Bank(model, method).step(["a"], YS[:1]),
    "export": lambda model, method, us: wolf.export_c(model, method, "/nowhere/at/all.c"),
    "run_filter": lambda model, method, us: wolf.run_filter(model, YS, method, us),
}


def assert_explained(call, words=""):
    """Check that a call raises an error in wolf's own words, without the chain and the vocabulary of JAX."""
    with pytest.raises((ValueError, TypeError)) as raised:
        call()
    text = str(raised.value)
    assert not INTERNAL.search(text), text
    assert len(text.splitlines()) == 1, text
    chained = raised.value.__cause__ or (None if raised.value.__suppress_context__ else raised.value.__context__)
    assert chained is None or not (type(chained).__module__.startswith("jax") or INTERNAL.search(str(chained)))
    assert words in text, text


def some(calls, cases):
    """Pair each case with one of the calls, all of which occur."""
    return list(zip(cases, itertools.cycle(calls), strict=False))


@pytest.mark.parametrize(("place", "arguments"), [("observe", "x"), ("dynamics", "x"), ("observe", "x, u")])
def test_wrong_function_is_explained_in_words(place, arguments):
    us = US if "u" in arguments else None
    calls = [name for name in CALLS if us is None or name not in ("bank", "export")]
    for body, name in some(calls, WRONG):
        wrong = model(**{place: function(arguments, body)})
        assert_explained(lambda wrong=wrong, name=name: CALLS[name](wrong, "EKF", us), place)


def test_wrong_residual_is_explained_in_words():
    for body, name in some(CALLS, WRONG[:40]):
        if "x[0]" in body and body != "return x[0]":
            continue
        wrong = model(residual=function("x, prediction", body))
        assert_explained(lambda wrong=wrong, name=name: CALLS[name](wrong, "EKF", None), "residual")


def test_wrong_weight_is_explained_in_words():
    calls = [name for name in CALLS if name != "ensemble"]
    for body, name in some(calls, WRONG_WEIGHTS):
        method = wolf.WoLF(function("r, R, S", body))
        assert_explained(lambda method=method, name=name: CALLS[name](model(), method, None), "weight")
    for body in WRONG_WEIGHTS[:4]:  # inside a wrapper, and for an ensemble
        weight = function("r, R, S", body)
        assert_explained(lambda weight=weight: wolf.filter(model(), YS, method=wolf.WoLF(wolf.PerCoordinate(weight))))
        method = wolf.EnsembleFilter(weight=weight)
        assert_explained(lambda method=method: wolf.filter(model(), YS, method=method, key=0))


def test_inputs_that_do_not_fit_the_functions_are_explained_in_words():
    f, g = function("x, u", "return x + u[0]"), function("x", "return x")
    three, none = function("x, u, t", "return x"), function("", "return 1.0")
    for call in (CALLS["filter"], CALLS["many"], CALLS["run_filter"]):
        assert_explained(lambda call=call: call(model(f), "EKF", None), "the model takes inputs")
        assert_explained(lambda call=call: call(model(g), "EKF", US), "the model takes none")
        assert_explained(lambda call=call: call(model(f, inputs=2), "EKF", US), "inputs must have 2 columns")
        assert_explained(lambda call=call: call(model(f), "EKF", US[:2]), "one row for each of the 3 steps")
        assert_explained(lambda call=call: call(model(three), "EKF", US), "h(x, u)")
        assert_explained(lambda call=call: call(model(none), "EKF", None), "h(x, u)")
    assert_explained(lambda: model(g, inputs=2), "no function takes them")
    assert_explained(lambda: model(f, inputs=0), "inputs must be a whole number of at least 1")
    assert_explained(lambda: wolf.Online(model(f), "EKF").step(YS[0]), "the model takes inputs")
    assert_explained(lambda: wolf.Online(model(f, inputs=2), "EKF").step(YS[0], u=US[0]), "u must have shape (2,)")
    assert_explained(lambda: CALLS["export"](model(f), "EKF", None), "state it in the model")
    assert_explained(lambda: CALLS["bank"](model(f), "EKF", None), "without inputs")


@pytest.mark.parametrize("data", ["abc", ["a", "b"], None, {"y": 1.0}, np.ones((3, 3)), np.ones((2, 3, 2)), 1j, []])
def test_wrong_data_of_the_pure_layer_is_explained_in_words(data):
    assert_explained(lambda: wolf.run_filter(model(), data, "EKF"), "ys must")


def save_by_numpy(state, info):
    return np.sin(state.mean)


@pytree
class ChoiceByValue(NoiseModel):
    def __call__(self, context):
        return UpdateDecision(WeightedUpdate(1.0 if context.residual[0] > 0 else 0.5))


@pytest.mark.parametrize("call", [name for name in CALLS if name not in ("single", "ensemble")])
def test_noise_model_that_chooses_by_value_is_explained_in_words(call):
    assert_explained(lambda: CALLS[call](model(), wolf.EKF(noise=ChoiceByValue()), None), "write jnp.where")


def test_recorder_by_numpy_and_traced_arguments_of_filter_are_explained_in_words():
    assert_explained(lambda: wolf.filter(model(), YS, save=save_by_numpy), "write jnp.sin for np.sin")
    assert_explained(lambda: jax.jit(lambda ys: wolf.filter(model(), ys).means)(YS), "use wolf.run_filter")
    level = wolf.models.local_level
    assert_explained(lambda: jax.jit(lambda q: wolf.filter(level(q, 1.0), [1.0]).means)(0.1), "use wolf.run_filter")


def reference(body, x):
    """Evaluate the source of a function with NumPy in place of JAX."""
    scope = {name: np.asarray(value) if isinstance(value, jax.Array) else value for name, value in NAMES.items()}
    plain = re.sub(r"\bjnp\b", "np", body).replace("x.at[0].add(1.0)", "x + np.array([1.0, 0.0])")
    return np.asarray(eval(plain, scope | {"x": x}), float)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_right_function_gives_the_numbers_of_numpy_in_every_order(precision):
    """In both precisions, after the user has called it, and after the other precision has."""
    x = np.array([0.7, -0.4])
    for body in RIGHT:
        fn = function("x", f"return {body}")
        fn(jnp.asarray(x))
        for dtype in ("float64", "float32", "float64")[precision == "float32" :]:
            with enable_x64(dtype == "float64"):
                moved = model(fn).transition(None)
                shape = jax.eval_shape(moved, jax.ShapeDtypeStruct((2,), dtype))
                assert (shape.shape, shape.dtype) == ((2,), dtype), body
        np.testing.assert_allclose(np.asarray(moved(jnp.asarray(x))), reference(body, x), rtol=1e-5, err_msg=body)


def test_functions_of_libraries_and_objects_are_called_by_their_signatures():
    assert wolf.filter(model(jnp.sin, jnp.cos, residual=jnp.subtract), YS, method="EKF").means.shape == (3, 2)
    assert wolf.filter(model(jax.jit(jnp.sin), residual=lambda *pair: pair[0] - pair[1]), YS, method="EKF")


@pytest.mark.slow
@pytest.mark.parametrize("call", ["filter", "single", "xla", "ensemble", "many", "online", "run_filter"])
@pytest.mark.parametrize("body", RIGHT)
def test_right_function_runs_by_every_call(body, call):
    fn = function("x", f"return {body}")
    CALLS[call](model(observe=fn), "EKF", None)
    CALLS[call](model(fn), "EKF", None)


def test_right_weight_gives_the_numbers_of_numpy():
    for body in RIGHT_WEIGHTS:
        weight = function("r, R, S", f"return {body}")
        wolf.Online(model(), wolf.WoLF(weight))
        one = wolf.filter(model(), YS[:1], method=wolf.WoLF(weight), backend="native")
        scope = NAMES | {"r": one.residuals[0], "R": R, "S": one.innovation_covs[0], "half": np.array([0.5, 0.5])}
        expected = np.asarray(eval(re.sub(r"\bjnp\b", "np", body), scope), float)
        np.testing.assert_allclose(one.weights[0], expected, rtol=1e-6, err_msg=body)
