"""Networks and other parametric functions as models, which a robust filter trains one example at a time.

    model = wolf.models.mlp(features=8, hidden=(20,), obs_var=0.1)
    out = wolf.filter(model, targets, inputs=features, save="final")

The state is the vector of all parameters. With `drift_var` they follow random walks, for relations that change.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf import validation
from wolf.interfaces import Key
from wolf.numerics.precision import as_key
from wolf.numerics.pytree import PyTree, array_module, function, pytree, static
from wolf.statespace.families import Family, Normal
from wolf.statespace.parameters import ParameterModel

ACTIVATIONS: dict[str, Callable] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
    "sine": jnp.sin,
}
TRUNCATED_STD = 0.87962566103423978  # of a normal truncated at ±2, by which LeCun's initial weights are divided


@pytree
class Network:
    """Multi-layer perceptron of a flat parameter vector: for each layer its matrix, row by row, then its biases.

    Args:
        frozen: parameters of the first layers, which are not trained; empty to train all.
        sizes: of the layers, from features to outputs.
        activation: between the layers.
    """

    frozen: np.ndarray
    sizes: tuple[int, ...] = static()
    activation: Callable = function()

    @property
    def features(self) -> int:
        """Number of inputs."""
        return self.sizes[0]

    def __call__(self, theta: Array, x: Array) -> Array:
        """Evaluate for one row of features, (features,) -> (outputs,)."""
        theta = jnp.concatenate([jnp.asarray(self.frozen, theta.dtype), theta]) if len(self.frozen) else theta
        start = 0
        for layer, (wide, high) in enumerate(zip(self.sizes[:-1], self.sizes[1:], strict=True)):
            x = x if layer == 0 else self.activation(x)
            matrix = theta[start : start + wide * high].reshape(wide, high)
            start += wide * high
            x = x @ matrix + theta[start : start + high]
            start += high
        return x


@pytree
class Raveled:
    """User's function of a tree of parameters, as a function of a flat vector.

    Args:
        fn: `fn(params, x)`.
        fixed: leaves of the tree that are not parameters, each with its index.
        shapes: of the parameters.
        tree: structure of the tree.
    """

    fn: Callable = function()
    fixed: tuple = static()
    shapes: tuple[tuple[int, ...], ...] = static()
    tree: jax.tree_util.PyTreeDef = static()

    def __call__(self, theta: Array, x: Array) -> Array:
        """Rebuild the tree and evaluate the function."""
        leaves, start = [], 0
        for shape in self.shapes:
            size = int(np.prod(shape))
            leaves.append(theta[start : start + size].reshape(shape))
            start += size
        for index, leaf in self.fixed:
            leaves.insert(index, leaf)
        return jnp.ravel(self.fn(jax.tree.unflatten(self.tree, leaves), x))


@pytree
class LinearPredictor:
    """Linear predictor of a generalised linear model: per output an intercept and one coefficient per feature."""

    features: int = static()
    outputs: int = static(default=1)

    def __call__(self, theta: Array, x: Array) -> Array:
        """Evaluate for one row of features."""
        table = theta.reshape(self.outputs, self.features + 1)
        return table[:, 0] + table[:, 1:] @ x


def mlp(
    features: int,
    hidden: Sequence[int] = (20,),
    outputs: int = 1,
    *,
    activation: str | Callable = "relu",
    key: Key = 0,
    obs_var: ArrayLike = 1.0,
    prior_var: ArrayLike = 1.0,
    drift_var: ArrayLike = 0.0,
    family: Family | None = None,
    params: ArrayLike | None = None,
    learn: str = "all",
) -> ParameterModel:
    """Build a multi-layer perceptron.

    Args:
        features: number of inputs.
        hidden: sizes of the hidden layers; () is linear regression.
        outputs: number of targets; a family determines it.
        activation: one of `ACTIVATIONS`, or a function.
        key: seed or JAX key of the initial weights: LeCun normal (truncated at two standard deviations), with biases
            of zero.
        obs_var: variance of the noise of each target, a number or (outputs,). For targets scaled to [0, 1] the paper
            uses 1, which is far too large for calibrated intervals.
        prior_var: variance of every parameter around its initial value; the paper's learning rate.
        drift_var: variance of the random walk of every parameter per step; 0 for constant parameters.
        family: distribution of a target, from `wolf.families`; default: Gaussian.
        params: initial parameters, as a flat vector, instead of random ones.
        learn: "all", or "last" to train the last layer only, with the first layers as given in `params`: Bayesian
            regression on pretrained features.

    Example:
        >>> mlp(features=8, hidden=(20,))
        ParameterModel(201 parameters, Normal)
    """
    if not isinstance(hidden, tuple | list | np.ndarray):
        raise ValueError(f"hidden must be the sizes of layers, as (20,); got {validation.short_repr(hidden)}")
    for name, value in (("features", features), ("outputs", outputs), *(("hidden", size) for size in hidden)):
        validation.count(name, value)
    validation.choice("learn", learn, ("all", "last"))
    validation.key(key, needed=True)
    family = _gaussian(obs_var, outputs) if family is None else _checked(family)
    validation.not_negative("prior_var", prior_var)
    between, drift = _activation(activation), _drift(drift_var)
    sizes = (int(features), *map(int, hidden), family.outputs)
    theta = _initial(sizes, key) if params is None else validation.number_array("params", params)
    count = sum((wide + 1) * high for wide, high in itertools.pairwise(sizes))
    if theta.shape != (count,):
        raise ValueError(f"params must have shape ({count},) for layers of {sizes}; got {theta.shape}")
    learned = count if learn == "all" else (sizes[-2] + 1) * sizes[-1]
    network = Network(theta[: count - learned], sizes, between)
    return ParameterModel(network, family, theta[count - learned :], prior_var, drift)


def glm(
    features: int,
    family: Family,
    *,
    mean: ArrayLike | None = None,
    prior_var: ArrayLike = 1.0,
    drift_var: ArrayLike = 0.0,
) -> ParameterModel:
    """Build a generalised linear model: per output an intercept, then one coefficient per feature.

    Args:
        features: number of inputs.
        family: distribution of a target, from `wolf.families`.
        mean: prior mean of the coefficients, (outputs * (features + 1),); default: zero.
        prior_var: prior variance of the coefficients, a number or one for each.
        drift_var: variance of the random walk of the coefficients per step, a number or one for each.

    Example:
        >>> from wolf import families
        >>> glm(features=4, family=families.Poisson())
        ParameterModel(5 parameters, Poisson)
    """
    validation.count("features", features)
    outputs = _checked(family).outputs
    validation.not_negative("prior_var", prior_var)
    start = np.zeros(outputs * (features + 1)) if mean is None else mean
    return ParameterModel(LinearPredictor(int(features), outputs), family, start, prior_var, _drift(drift_var))


def from_function(
    fn: Callable,
    params: PyTree,
    *,
    obs_var: ArrayLike = 1.0,
    prior_var: ArrayLike = 1.0,
    drift_var: ArrayLike = 0.0,
    outputs: int = 1,
    family: Family | None = None,
) -> ParameterModel:
    """Build a model from any function of parameters: a curve, a Flax network, an Equinox module.

    Args:
        fn: `fn(params, x)` of the parameters and one row of inputs, or `fn(params)`. Flax: `net.apply`. Equinox:
            `lambda net, x: net(x)`. Define it once: every new function object is compiled separately.
        params: initial parameters, any tree of arrays. Leaves that are not floating-point arrays (an activation,
            a size) are constants.
        obs_var: variance of the noise of each target, a number or (outputs,).
        prior_var: variance of every parameter around its initial value, a number or one for each, in flat order.
        drift_var: variance of the random walk of a parameter per step, a number or one for each.
        outputs: number of targets.
        family: distribution of a target, from `wolf.families`; default: Gaussian.

    Example:
        >>> def wave(params, x):
        ...     return params["height"] * jnp.sin(params["rate"] * x)
        >>> from_function(wave, {"height": 1.0, "rate": 0.5}, obs_var=0.1)
        ParameterModel(2 parameters, Normal)
    """
    if not callable(fn):
        raise ValueError(f"fn must be a function fn(params, x); got {type(fn).__name__}")
    leaves, tree = jax.tree.flatten(params)
    learned = [leaf for leaf in leaves if _is_parameter(leaf)]
    if not learned:
        raise ValueError("params must hold at least one floating-point array or number; got none")
    fixed = tuple((index, leaf) for index, leaf in enumerate(leaves) if not _is_parameter(leaf))
    xp = array_module(*learned)
    theta = xp.concatenate([xp.ravel(xp.asarray(leaf, float)) for leaf in learned])
    if xp is np and not np.all(np.isfinite(theta)):
        raise ValueError("params must be finite; got NaN or inf in it")
    observe = Raveled(fn, fixed, tuple(np.shape(leaf) for leaf in learned), tree)
    family = _gaussian(obs_var, outputs) if family is None else _checked(family)
    validation.not_negative("prior_var", prior_var)
    return ParameterModel(observe, family, theta, prior_var, _drift(drift_var))


def _initial(sizes: tuple[int, ...], key: Key) -> np.ndarray:
    """Draw LeCun normal weights (LeCun et al. 1998), truncated as in Flax; biases are zero."""
    parts = []
    for layer, (wide, high) in enumerate(itertools.pairwise(sizes)):
        with jax.ensure_compile_time_eval():  # the numbers are known also where other arguments are traced
            seed = jax.random.fold_in(as_key(key), layer)
            drawn = np.asarray(jax.random.truncated_normal(seed, -2.0, 2.0, (wide, high), np.float32))
        parts += [np.asarray(drawn, np.float64).ravel() / (TRUNCATED_STD * np.sqrt(wide)), np.zeros(high)]
    return np.concatenate(parts)


def _gaussian(obs_var: ArrayLike, outputs: int) -> Normal:
    validation.count("outputs", outputs)
    variances = validation.number_array("obs_var", obs_var)
    if variances.shape not in ((), (outputs,)):
        raise ValueError(f"obs_var must be a number or of shape ({outputs},); got {variances.shape}")
    xp = array_module(variances)
    variances = xp.broadcast_to(variances, (outputs,))
    for number in range(outputs):
        validation.variances(obs_var=variances[number])
    return Normal(xp.diag(variances))


def _checked(family: object) -> Family:
    if not isinstance(family, Family):
        raise ValueError(f"family must be a value from wolf.statespace.families, such as Bernoulli(); got {family!r}")
    return family


def _activation(given: str | Callable) -> Callable:
    if callable(given):
        return given
    if not isinstance(given, str) or given not in ACTIVATIONS:
        raise ValueError(
            f"activation must be a function or one of {', '.join(ACTIVATIONS)}; got {validation.short_repr(given)}"
        )
    return ACTIVATIONS[given]


def _drift(var: ArrayLike) -> ArrayLike | None:
    """Return None for a drift of zero, which makes a smaller program."""
    validation.not_negative("drift_var", var)
    return None if np.ndim(var) == 0 and not isinstance(var, jax.core.Tracer) and var == 0 else var


def _is_floating(leaf: Any) -> bool:
    return np.issubdtype((leaf if validation.is_traced(leaf) else np.asarray(leaf)).dtype, np.floating)


def _is_parameter(leaf: object) -> bool:
    # A leaf may be an array of any library, so the dtype and not the type decides.
    return isinstance(leaf, float) or (hasattr(leaf, "dtype") and _is_floating(leaf))
