"""What a state-space model is: `x_t = f(x_{t-1}, u_t) + N(0, Q)`, `y_t = h(x_t, u_t) + N(0, R)`, `x_0 ~ prior`.

Any of the arrays may have a leading time axis; `model.at(t)` slices it. A plain function is compiled in once for each
function object, so a value that it closes over is frozen at the first call; give the function its parameters through
`jax.tree_util.Partial(f, dt)` or a callable pytree, and a new dt never recompiles.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import checks
from wolf.numerics import linalg
from wolf.numerics.pytree import function, pytree
from wolf.protocols import Gaussian
from wolf.statespace.functions import Bound as Bound
from wolf.statespace.functions import LinearMap as LinearMap
from wolf.statespace.functions import call as call
from wolf.statespace.functions import num_arguments as num_arguments
from wolf.statespace.parameters import ParameterModel as ParameterModel


@pytree
class StateSpaceModel:
    """A nonlinear model.

    Args:
        dynamics: f(x) or f(x, u). None is the identity, which costs nothing (a static state, or a random walk). One
            that has a method `draw(x, key)` draws its own noise where states are drawn (ensembles, simulation).
        observe: h(x) or h(x, u).
        dynamics_cov: Q, (D, D) or (T, D, D), positive semi-definite; or (D,), variances of independent noise.
        obs_cov: R, (M, M) or (T, M, M), positive definite; or (M,), variances. Ensembles never make a matrix of these.
        prior: belief about the state at time 0; its covariance may be variances (D,) too.
        residual: how to subtract a prediction from a measurement, `residual(y, prediction)`; for angles, say. Plain
            subtraction unless told.

    Example:
        >>> import numpy as np
        >>> model = StateSpaceModel(None, jnp.sin, np.eye(1), np.eye(1), Gaussian(np.zeros(1), np.eye(1)))
        >>> model.state_dim, model.obs_dim
        (1, 1)
    """

    dynamics: Any = function()
    observe: Any = function()
    dynamics_cov: Any
    obs_cov: Any
    prior: Gaussian
    residual: Any = function(default=None)

    def __post_init__(self) -> None:
        """Check shapes and values; arrays are kept as NumPy, so that none is cut to float32."""
        _keep(self, "dynamics_cov", "obs_cov")
        if not isinstance(self.prior, tuple) or len(self.prior) != 2:
            raise ValueError(f"prior must be wolf.Gaussian(mean, cov); got {type(self.prior).__name__}")
        object.__setattr__(self, "prior", Gaussian(*(checks.number_array("prior", leaf) for leaf in self.prior)))
        for name in ("dynamics", "observe", "residual"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ValueError(f"{name} must be a function of the state; got {type(getattr(self, name)).__name__}")
        if self.observe is None:
            raise ValueError("observe must be a function h(x) or h(x, u); got None")
        names = ("dynamics_cov", "obs_cov", "prior.cov")
        checks.model(self.prior, self.dynamics_cov, self.obs_cov, names, diagonal=True)

    @property
    def state_dim(self) -> int:
        """Count the states, D."""
        return self.prior.mean.shape[-1]

    @property
    def obs_dim(self) -> int:
        """Count the coordinates of a measurement, M."""
        return self.obs_cov.shape[-1]

    @property
    def linear(self) -> bool:
        """Say whether both functions are matrices."""
        return False

    @property
    def takes_inputs(self) -> bool:
        """Say whether a function takes inputs u."""
        return any(fn is not None and num_arguments(fn) > 1 for fn in (self.dynamics, self.observe))

    def at(self, t: Array | int) -> "StateSpaceModel":
        """Slice the arrays that have a time axis."""
        return _replace(self, dynamics_cov=_slice(self.dynamics_cov, t), obs_cov=_slice(self.obs_cov, t))

    def scaled(self, dynamics: Any, obs: Any) -> "StateSpaceModel":
        """Multiply the noise covariances."""
        return _replace(self, dynamics_cov=dynamics * self.dynamics_cov, obs_cov=obs * self.obs_cov)

    def lift(self) -> "StateSpaceModel":
        """Give the covariances a trailing axis of one, to broadcast over many series."""
        return _replace(self, dynamics_cov=self.dynamics_cov[..., None], obs_cov=self.obs_cov[..., None])

    @property
    def noise_cov(self) -> Any:
        """Give Q as short as it is; models of parameters have shorter forms than a matrix."""
        return self.dynamics_cov

    def noise_at(self, x: Array, u: Array | None) -> Any:
        """Give R, which is the same at every state."""
        return self.obs_cov

    def transition(self, u: Array | None) -> LinearMap | Bound:
        """Bind the input to the dynamics."""
        return LinearMap(None) if self.dynamics is None else Bound(self.dynamics, u)

    def projection(self, u: Array | None) -> LinearMap | Bound:
        """Bind the input to the observation function."""
        return Bound(self.observe, u, self.residual)

    def subtract(self, y: Array, prediction: Array) -> Array:
        """Form the residual of a measurement."""
        return _subtract(self.residual, y, prediction)


@pytree
class LinearModel:
    """A linear model: `x_t = F x_{t-1} + B u_t + N(0, Q)`, `y_t = H x_t + N(0, R)`, `x_0 ~ N(mean, cov)`.

    Args:
        F: (D, D), or (T, D, D) for one in each step. None is the identity, which costs nothing.
        H: (M, D) or (T, M, D).
        Q: (D, D) or (T, D, D), positive semi-definite.
        R: (M, M) or (T, M, M), positive definite.
        mean: (D,), of the state at time 0.
        cov: (D, D), positive semi-definite.
        B: (D, U) or (T, D, U), only with inputs.
        residual: how to subtract, as in `StateSpaceModel`.

    Example:
        >>> import numpy as np
        >>> LinearModel(F=np.eye(2), H=np.eye(1, 2), Q=np.eye(2), R=np.eye(1), mean=np.zeros(2), cov=np.eye(2))
        LinearModel(2 states, 1 measured)
    """

    F: Any
    H: Any
    Q: Any
    R: Any
    mean: Any
    cov: Any
    B: Any = None
    residual: Any = function(default=None)

    def __post_init__(self) -> None:
        """Check shapes and values; arrays are kept as NumPy, so that none is cut to float32."""
        _keep(self, "H", "Q", "R", "mean", "cov")
        _keep(self, *(name for name in ("F", "B") if getattr(self, name) is not None))
        checks.model(self.prior, self.Q, self.R, names=("Q", "R", "cov"))
        checks.matrix("F", self.F, (self.state_dim, self.state_dim))
        checks.matrix("H", self.H, (self.obs_dim, self.state_dim))
        if self.B is not None:
            checks.matrix("B", self.B, (self.state_dim, self.B.shape[-1]))

    def __repr__(self) -> str:
        """Tell the sizes."""
        varying = [name for name in ("F", "H", "Q", "R", "B") if _varies(getattr(self, name))]
        tail = f", {', '.join(varying)} vary in time" if varying else ""
        inputs = "" if self.B is None else f", {self.B.shape[-1]} inputs"
        return f"LinearModel({self.state_dim} states, {self.obs_dim} measured{inputs}{tail})"

    @property
    def state_dim(self) -> int:
        """Count the states, D."""
        return self.mean.shape[-1]

    @property
    def obs_dim(self) -> int:
        """Count the coordinates of a measurement, M."""
        return self.R.shape[-1]

    @property
    def linear(self) -> bool:
        """Say whether both functions are matrices."""
        return True

    @property
    def prior(self) -> Gaussian:
        """Pair the mean and covariance of the state at time 0."""
        return Gaussian(self.mean, self.cov)

    @property
    def dynamics_cov(self) -> Any:
        """Read Q under its long name."""
        return self.Q

    @property
    def obs_cov(self) -> Any:
        """Read R under its long name."""
        return self.R

    @property
    def takes_inputs(self) -> bool:
        """Say whether the dynamics take inputs u."""
        return self.B is not None

    def at(self, t: Array | int) -> "LinearModel":
        """Slice the arrays that have a time axis."""
        return _replace(self, **{name: _slice(getattr(self, name), t) for name in ("F", "H", "Q", "R", "B")})

    def scaled(self, dynamics: Any, obs: Any) -> "LinearModel":
        """Multiply the noise covariances."""
        return _replace(self, Q=dynamics * self.Q, R=obs * self.R)

    def lift(self) -> "LinearModel":
        """Give every matrix a trailing axis of one, to broadcast over many series."""
        return jax.tree.map(lambda leaf: leaf[..., None], self)

    @property
    def noise_cov(self) -> Any:
        """Give Q as short as it is; models of parameters have shorter forms than a matrix."""
        return self.dynamics_cov

    def noise_at(self, x: Array, u: Array | None) -> Any:
        """Give R, which is the same at every state."""
        return self.obs_cov

    def transition(self, u: Array | None) -> LinearMap:
        """Bind the input to the dynamics."""
        return LinearMap(self.F, None if self.B is None or u is None else linalg.matvec(self.B, u))

    def projection(self, u: Array | None) -> LinearMap:
        """Give the observation matrix."""
        return LinearMap(self.H)

    def subtract(self, y: Array, prediction: Array) -> Array:
        """Form the residual of a measurement."""
        return _subtract(self.residual, y, prediction)


Model = StateSpaceModel | LinearModel | ParameterModel


def with_matrices(model: Any) -> Any:
    """Write covariances that were given as variances out as matrices."""
    return _map_covs(model, lambda cov: np.diag(cov) if cov.ndim == 1 else cov)


def with_variances(model: Any) -> Any:
    """Keep only the variances of covariances that are diagonal."""

    def slim(cov: Any) -> Any:
        fixed = cov.ndim == 2 and isinstance(cov, np.ndarray)
        return np.diagonal(cov).copy() if fixed and not np.any(cov - np.diag(np.diagonal(cov))) else cov

    return _map_covs(model, slim)


def own_noise(model: Any) -> Callable | None:
    """Find the `draw(x, key)` of dynamics that have noise of their own; None for the usual additive noise."""
    return getattr(getattr(model, "dynamics", None), "draw", None)


def _map_covs(model: Any, change: Callable) -> Any:
    if isinstance(model, ParameterModel):
        return model
    if model.linear:
        return _replace(model, Q=change(model.Q), R=change(model.R), cov=change(model.cov))
    prior = Gaussian(model.prior.mean, change(model.prior.cov))
    return _replace(model, dynamics_cov=change(model.dynamics_cov), obs_cov=change(model.obs_cov), prior=prior)


def time_axes(model: Model) -> dict[str, int]:
    """Find which arrays have a time axis, and how long it is."""
    if isinstance(model, ParameterModel):
        return {}
    names = ("F", "H", "Q", "R", "B") if model.linear else ("dynamics_cov", "obs_cov")
    return {name: len(getattr(model, name)) for name in names if _varies(getattr(model, name))}


def _subtract(residual: Callable | None, y: Array, prediction: Array) -> Array:
    if residual is None:
        return y - prediction
    return residual(y, prediction) if y.ndim == 1 else jax.vmap(residual, in_axes=-1, out_axes=-1)(y, prediction)


def _varies(array: Any) -> bool:
    return array is not None and array.ndim == 3


def _slice(array: Any, t: Array | int) -> Any:
    return jax.lax.dynamic_index_in_dim(jnp.asarray(array), t, keepdims=False) if _varies(array) else array


def _replace(model: Any, **changes: Any) -> Any:
    """Copy with other leaves, without the checks that a person's own call gets."""
    copy = object.__new__(type(model))
    vars(copy).update(vars(model) | changes)
    return copy


def _keep(model: Any, *names: str) -> None:
    for name in names:
        object.__setattr__(model, name, checks.number_array(name, getattr(model, name)))
