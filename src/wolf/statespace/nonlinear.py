"""Nonlinear models: `x_t = f(x_{t-1}, u_t) + N(0, Q)`, `y_t = h(x_t, u_t) + N(0, R)`, `x_0 ~ prior`.

A function may return an array, a list of numbers, or one number where one is expected; results are converted to the
precision of the run. A plain function is compiled once per function object, so a value that it closes over is constant
from the first call on; pass parameters through `jax.tree_util.Partial(f, dt)` or a callable pytree, and a new dt never
recompiles.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from jax import Array
from numpy.typing import ArrayLike

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.numerics.pytree import function, label, pytree, static
from wolf.statespace.array_fields import count, keep, keep_names, replace, slice_at, subtract
from wolf.statespace.bound_functions import Bound, LinearMap, num_arguments


@pytree
class StateSpaceModel:
    """Nonlinear model.

    Args:
        dynamics: f(x) or f(x, u). None is the identity, which costs nothing (a static state, or a random walk). If it
            has a method `draw(x, key)`, ensembles and simulation use that for the noise. If it has methods
            `retract(x, step)` and `between(x, other)`, states are on a manifold, such as attitudes; see
            `wolf.filters.ErrorState`.
        observe: h(x) or h(x, u).
        dynamics_cov: Q, (D, D) or (T, D, D), positive semi-definite; or (D,), variances of independent noise.
        obs_cov: R, (M, M) or (T, M, M), positive definite; or (M,), variances, of which ensembles form no matrix.
        prior: belief about the state at time 0; its covariance may be variances (D,) too.
        residual: subtraction of a prediction from a measurement, `residual(y, prediction)`, for example of angles.
            Default: plain subtraction.
        inputs: number of inputs, U. Default: taken from the first call that passes inputs; `wolf.export_c` needs it.
        state_names: name of each state, as in `LinearModel`.
        obs_names: name of each measured coordinate.

    Example:
        >>> import jax.numpy as jnp, numpy as np
        >>> model = StateSpaceModel(None, jnp.sin, np.eye(1), np.eye(1), Gaussian(np.zeros(1), np.eye(1)))
        >>> model.state_dim, model.obs_dim
        (1, 1)
    """

    dynamics: Any = function()
    observe: Callable = function()
    dynamics_cov: Any
    obs_cov: Any
    prior: Gaussian
    residual: Callable | None = function(default=None)
    inputs: int | None = static(default=None)
    state_names: Sequence[str] | None = label(default=None)
    obs_names: Sequence[str] | None = label(default=None)

    handles_series: ClassVar[bool] = True  # many series run together, on a trailing axis

    def __post_init__(self) -> None:
        """Validate shapes and values; arrays are stored as NumPy, so that none is rounded to float32."""
        keep(self, "dynamics_cov", "obs_cov")
        if not isinstance(self.prior, tuple) or len(self.prior) != 2:
            raise ValueError(f"prior must be wolf.Gaussian(mean, cov); got {type(self.prior).__name__}")
        object.__setattr__(self, "prior", Gaussian(*(validation.number_array("prior", leaf) for leaf in self.prior)))
        for name, value in (("dynamics", self.dynamics), ("observe", self.observe), ("residual", self.residual)):
            if value is not None and not callable(value):
                raise ValueError(f"{name} must be a function of the state; got {type(value).__name__}")
        if self.observe is None:
            raise ValueError("observe must be a function h(x) or h(x, u); got None")
        names = ("dynamics_cov", "obs_cov", "prior.cov")
        validation.model(self.prior, self.dynamics_cov, self.obs_cov, names, diagonal=True)
        if self.inputs is not None and not self.takes_inputs:
            validation.count("inputs", self.inputs)
            raise ValueError(f"inputs={self.inputs} was given, but no function takes them: write f(x, u) or h(x, u)")
        object.__setattr__(self, "inputs", None if self.inputs is None else validation.count("inputs", self.inputs))
        keep_names(self, self.state_dim, self.obs_dim)

    def __repr__(self) -> str:
        """Format the sizes."""
        inputs = ", with inputs" if self.takes_inputs else ""
        return f"StateSpaceModel({count(self.state_dim, 'state')}, {self.obs_dim} measured{inputs})"

    @property
    def state_dim(self) -> int:
        """Number of states, D."""
        return self.prior.mean.shape[-1]

    @property
    def obs_dim(self) -> int:
        """Number of coordinates of a measurement, M."""
        return self.obs_cov.shape[-1]

    @property
    def linear(self) -> bool:
        """Whether dynamics and observation are linear."""
        return False

    @property
    def takes_inputs(self) -> bool:
        """Whether the dynamics or the observation function takes inputs u."""
        return any(fn is not None and num_arguments(fn) > 1 for fn in (self.dynamics, self.observe))

    @property
    def input_dim(self) -> int | None:
        """Number of inputs, U; None where it is not stated."""
        return self.inputs

    def at(self, t: Array | int) -> "StateSpaceModel":
        """Return the model of one step."""
        return replace(self, dynamics_cov=slice_at(self.dynamics_cov, t), obs_cov=slice_at(self.obs_cov, t))

    def scaled(self, dynamics: ArrayLike, obs: ArrayLike) -> "StateSpaceModel":
        """Return a copy with scaled noise covariances."""
        return replace(self, dynamics_cov=dynamics * self.dynamics_cov, obs_cov=obs * self.obs_cov)

    def lift(self) -> "StateSpaceModel":
        """Return a copy with a trailing axis of one on the covariances, to broadcast over many series."""
        return replace(self, dynamics_cov=self.dynamics_cov[..., None], obs_cov=self.obs_cov[..., None])

    @property
    def step_cov(self) -> Array:
        """Q in its compact form; parameter models have shorter forms than a matrix."""
        return self.dynamics_cov

    def obs_cov_at(self, x: Array, u: Array | None) -> Array:
        """Return R, which does not depend on the state."""
        return self.obs_cov

    def transition(self, u: Array | None) -> LinearMap | Bound:
        """Bind the input to the dynamics."""
        return LinearMap(None) if self.dynamics is None else Bound(self.dynamics, u)

    def projection(self, u: Array | None) -> LinearMap | Bound:
        """Bind the input to the observation function."""
        return Bound(self.observe, u, self.residual)

    def subtract(self, y: Array, prediction: Array) -> Array:
        """Compute the residual of a measurement."""
        return subtract(self.residual, y, prediction)
