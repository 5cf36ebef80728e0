"""Models whose state is a vector of parameters: `θ_t = θ_{t-1} + N(0, drift)`, `y_t ~ family(h(θ_t, u_t))`.

Networks, generalised linear models, curves. Such a state is constant or a random walk, so no step differentiates or
multiplies by its dynamics, and its covariances are stored in the form in which they are given: for a million parameters
a full matrix would not fit in memory.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.numerics.pytree import function, pytree
from wolf.statespace.array_fields import count, keep
from wolf.statespace.bound_functions import Bound, LinearMap, call, num_arguments
from wolf.statespace.families import Family, Normal


@pytree
class ParameterModel:
    """Model of parameters θ, estimated from measurements of a function of them.

    Args:
        observe: h(θ, u) or h(θ), with values of shape (family.outputs,).
        family: distribution of a measurement, from `wolf.families`.
        mean: of θ at time 0, (D,).
        cov: of θ at time 0: a number or (D,) for variances, or (D, D).
        drift: variances of the random walk of θ per step, a number or (D,). None for constant θ, which costs nothing.

    Example:
        >>> from wolf.statespace.families import Bernoulli
        >>> ParameterModel(lambda theta, u: u @ theta[:, None], Bernoulli(), np.zeros(3), 1.0)
        ParameterModel(3 parameters, Bernoulli)
    """

    observe: Callable = function()
    family: Any
    mean: Any
    cov: Any
    drift: Any = None

    handles_series: ClassVar[bool] = False  # many series run under vmap, or one after the other

    def __post_init__(self) -> None:
        """Validate shapes and values; arrays are stored as NumPy, so that none is rounded to float32."""
        keep(self, *(("mean", "cov") if self.drift is None else ("mean", "cov", "drift")))
        if not callable(self.observe):
            raise ValueError(f"observe must be a function h(theta, u); got {type(self.observe).__name__}")
        if not isinstance(self.family, Family):
            got = validation.short_repr(self.family)
            raise ValueError(f"family must be a value from wolf.families, as Bernoulli(); got {got}")
        if isinstance(self.mean, jax.core.Tracer) or isinstance(self.cov, jax.core.Tracer):
            return
        if self.mean.ndim != 1 or not self.mean.size or not np.all(np.isfinite(self.mean)):
            raise ValueError(f"mean must be finite and of shape (D,); got shape {self.mean.shape}")
        size = self.state_dim
        if self.cov.ndim == 2:
            validation.covariance("cov", self.cov, size)
        else:
            _check_variances("cov", self.cov, size)
        if self.drift is not None:
            _check_variances("drift", self.drift, size)

    def __repr__(self) -> str:
        """Format the number of parameters and the family."""
        drift = "" if self.drift is None else ", drifting"
        return f"ParameterModel({count(self.state_dim, 'parameter')}, {type(self.family).__name__}{drift})"

    @property
    def linear(self) -> bool:
        """Whether the observation is linear, which no function of parameters is known to be."""
        return False

    @property
    def dynamics(self) -> None:
        """None: parameters have no dynamics but their drift."""
        return None

    @property
    def residual(self) -> None:
        """None: plain subtraction."""
        return None

    @property
    def state_dim(self) -> int:
        """Number of parameters, D."""
        return self.mean.shape[-1]

    @property
    def obs_dim(self) -> int:
        """Number of statistics of a measurement, M."""
        return self.family.dim

    @property
    def prior(self) -> Gaussian:
        """Prior as mean and full covariance."""
        return Gaussian(self.mean, _dense(self.cov, self.state_dim))

    @property
    def step_cov(self) -> Array | None:
        """Covariance of the drift in its compact form: None, a number or (D,) for variances."""
        return self.drift

    @property
    def dynamics_cov(self) -> Any:
        """Covariance of the drift, (D, D)."""
        return _dense(np.zeros((), self.mean.dtype) if self.drift is None else self.drift, self.state_dim)

    @property
    def obs_cov(self) -> Array:
        """Covariance of a measurement: R for a Gaussian family, that at η = 0 for the others."""
        if isinstance(self.family, Normal):
            return self.family.obs_cov
        return self.family.variance(jnp.zeros(self.family.outputs))

    @property
    def takes_inputs(self) -> bool:
        """Whether the function takes inputs u."""
        return num_arguments(self.observe) > 1

    @property
    def input_dim(self) -> int | None:
        """Number of inputs; None where the function does not state its `features`."""
        features = getattr(self.observe, "features", None)  # any function may state them
        return features if isinstance(features, int) else None

    def override(self, matrices: Mapping[str, ArrayLike]) -> "ParameterModel":
        """Return a copy with another R for one step; only for Gaussian noise."""
        if matrices.keys() != {"R"} or not isinstance(self.family, Normal):
            raise ValueError(
                f"a parameter model accepts another R for one step, if its family is Gaussian; got "
                f"{', '.join(matrices)} for {self!r}"
            )
        return ParameterModel(self.observe, Normal(matrices["R"]), self.mean, self.cov, self.drift)

    def at(self, t: Array | int) -> "ParameterModel":
        """Return the model of one step, which does not depend on time."""
        return self

    def scaled(self, dynamics: ArrayLike, obs: ArrayLike) -> "ParameterModel":
        """Return a copy with scaled noise covariances; only for Gaussian noise."""
        if not isinstance(self.family, Normal):
            raise ValueError(f"only Gaussian noise can be scaled; got {self!r}")
        drift = None if self.drift is None else dynamics * self.drift
        return ParameterModel(self.observe, Normal(obs * self.family.obs_cov), self.mean, self.cov, drift)

    def lift(self) -> "ParameterModel":
        """Return the model itself; many series of such models do not run on a trailing axis."""
        return self

    def transition(self, u: Array | None) -> LinearMap:
        """Return the identity."""
        return LinearMap(None)

    def projection(self, u: Array | None) -> Bound:
        """Bind the input and return the expected statistic λ as a function of θ."""
        return Bound(lambda theta, u: self.family.mean(call(self.observe, theta, u)), u)

    def obs_cov_at(self, theta: Array, u: Array | None) -> Array:
        """Compute the covariance V of a measurement at these parameters, (M, M)."""
        return self.family.variance(call(self.observe, theta, u))

    def subtract(self, y: Array, prediction: Array) -> Array:
        """Compute the residual of a statistic."""
        return y - prediction


def _dense(short: Any, size: int) -> Any:
    """Return a covariance matrix, from a matrix or variances."""
    if short.ndim == 2:
        return short
    # Within a trace an unused D x D matrix is eliminated.
    xp: Any = np if isinstance(short, np.ndarray) else jnp
    one = xp.eye(size, dtype=short.dtype)
    return one * short if short.ndim == 0 else one * short[:, None]


def _check_variances(name: str, value: Any, size: int) -> None:
    if isinstance(value, jax.core.Tracer):
        return
    if value.ndim > 1 or (value.ndim == 1 and len(value) != size):
        raise ValueError(f"{name} must be a number or have shape ({size},); got shape {value.shape}")
    if not np.all(np.isfinite(value) & (value >= 0)):
        raise ValueError(f"{name} is a variance and must be finite and at least 0; got {value!r}")
