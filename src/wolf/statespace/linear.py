"""Linear models: `x_t = F x_{t-1} + B u_t + N(0, Q)`, `y_t = H x_t + N(0, R)`, `x_0 ~ N(mean, cov)`.

Any of the matrices may have a leading time axis; `model.at(t)` slices it.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.numerics import linalg
from wolf.numerics.pytree import function, label, pytree
from wolf.statespace.array_fields import count, keep, keep_names, replace, slice_at, subtract, varies
from wolf.statespace.bound_functions import LinearMap


@pytree
class LinearModel:
    """Linear model: `x_t = F x_{t-1} + B u_t + N(0, Q)`, `y_t = H x_t + N(0, R)`, `x_0 ~ N(mean, cov)`.

    Args:
        F: (D, D), or (T, D, D) for one per step. None is the identity, which costs nothing.
        H: (M, D) or (T, M, D).
        Q: (D, D) or (T, D, D), positive semi-definite.
        R: (M, M) or (T, M, M), positive definite.
        mean: (D,), of the state at time 0.
        cov: (D, D), positive semi-definite.
        B: (D, U) or (T, D, U), only with inputs.
        residual: how to subtract, as in `StateSpaceModel`.
        state_names: name of each state, such as ["level", "slope"]; results use them in frames, figures and texts.
        obs_names: name of each measured coordinate.

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
    residual: Callable | None = function(default=None)
    state_names: Sequence[str] | None = label(default=None)
    obs_names: Sequence[str] | None = label(default=None)

    handles_series: ClassVar[bool] = True  # many series run together, on a trailing axis

    def __post_init__(self) -> None:
        """Validate shapes and values; arrays are stored as NumPy, so that none is rounded to float32."""
        keep(self, "H", "Q", "R", "mean", "cov")
        keep(self, *(name for name in ("F", "B") if vars(self)[name] is not None))
        validation.model(self.prior, self.Q, self.R, names=("Q", "R", "cov"))
        validation.matrix("F", self.F, (self.state_dim, self.state_dim))
        validation.matrix("H", self.H, (self.obs_dim, self.state_dim))
        if self.residual is not None:
            validation.function("residual", self.residual, "residual(y, prediction)")
        if self.B is not None:
            if self.B.ndim < 2 or not self.B.shape[-1]:
                raise ValueError(f"B must have shape ({self.state_dim}, U); got {self.B.shape}")
            validation.matrix("B", self.B, (self.state_dim, self.B.shape[-1]))
        keep_names(self, self.state_dim, self.obs_dim)

    def __repr__(self) -> str:
        """Format the sizes and the time-varying matrices."""
        varying = [name for name in ("F", "H", "Q", "R", "B") if varies(vars(self)[name])]
        tail = f", {', '.join(varying)} vary in time" if varying else ""
        inputs = "" if self.B is None else f", {count(self.B.shape[-1], 'input')}"
        return f"LinearModel({count(self.state_dim, 'state')}, {self.obs_dim} measured{inputs}{tail})"

    @property
    def state_dim(self) -> int:
        """Number of states, D."""
        return self.mean.shape[-1]

    @property
    def obs_dim(self) -> int:
        """Number of coordinates of a measurement, M."""
        return self.R.shape[-1]

    @property
    def linear(self) -> bool:
        """Whether dynamics and observation are linear."""
        return True

    @property
    def prior(self) -> Gaussian:
        """Mean and covariance of the state at time 0."""
        return Gaussian(self.mean, self.cov)

    @property
    def dynamics(self) -> None:
        """None: the dynamics are a matrix."""
        return None

    @property
    def dynamics_cov(self) -> Any:
        """Dynamics covariance Q."""
        return self.Q

    @property
    def obs_cov(self) -> Array:
        """Measurement covariance R."""
        return self.R

    @property
    def takes_inputs(self) -> bool:
        """Whether the dynamics take inputs u."""
        return self.B is not None

    @property
    def input_dim(self) -> int | None:
        """Number of inputs, U; None without."""
        return None if self.B is None else int(self.B.shape[-1])

    def at(self, t: Array | int) -> "LinearModel":
        """Return the model of one step."""
        return replace(self, **{name: slice_at(vars(self)[name], t) for name in ("F", "H", "Q", "R", "B")})

    def with_motion(
        self, motion: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], step: float = 1.0
    ) -> "LinearModel":
        """Return a copy with the motion over any time step, for measurements at irregular times.

        Args:
            motion: function of time steps (n,) that returns F (n, D, D) and Q (n, D, D).
            step: time step of the model's own F and Q.

        Example:
            >>> import numpy as np
            >>> still = LinearModel(np.eye(1), np.eye(1), np.eye(1), np.eye(1), [0.0], np.eye(1))
            >>> still.with_motion(lambda t: (np.ones((len(t), 1, 1)), t[:, None, None])).over([2.0])[1].tolist()
            [[[2.0]]]
        """
        return replace(self, _motion=motion, _step=validation.positive_number("step", step))

    @property
    def step_time(self) -> float | None:
        """Time of one step; None for a model without a motion over other time steps."""
        return vars(self).get("_step")

    def over(self, times: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Compute F and Q of steps of other lengths.

        Args:
            times: (n,), not negative.

        Returns:
            F and Q, (n, D, D) each.
        """
        motion = vars(self).get("_motion")
        if motion is None:
            raise ValueError(
                "this model has no motion over other time steps: use one of wolf.models, add it by "
                "model.with_motion(...), or pass F= and Q= of the step"
            )
        gaps = np.atleast_1d(validation.finite("dt", times))
        if np.any(gaps < 0):
            raise ValueError(f"dt must not be negative; got {gaps.min():g}")
        dynamics, noise = motion(gaps)
        shape = (len(gaps), self.state_dim, self.state_dim)
        return np.broadcast_to(dynamics, shape), np.broadcast_to(noise, shape)

    def scaled(self, dynamics: ArrayLike, obs: ArrayLike) -> "LinearModel":
        """Return a copy with scaled noise covariances."""
        return replace(self, Q=dynamics * self.Q, R=obs * self.R)

    def lift(self) -> "LinearModel":
        """Return a copy with a trailing axis of one on every matrix, to broadcast over many series."""
        return jax.tree.map(lambda leaf: leaf[..., None], self)

    @property
    def step_cov(self) -> Array:
        """Q in its compact form; parameter models have shorter forms than a matrix."""
        return self.dynamics_cov

    def obs_cov_at(self, x: Array, u: Array | None) -> Array:
        """Return R, which does not depend on the state."""
        return self.obs_cov

    def transition(self, u: Array | None) -> LinearMap:
        """Bind the input to the dynamics."""
        return LinearMap(self.F, None if self.B is None or u is None else linalg.matvec(self.B, u))

    def projection(self, u: Array | None) -> LinearMap:
        """Return the observation map."""
        return LinearMap(self.H)

    def subtract(self, y: Array, prediction: Array) -> Array:
        """Compute the residual of a measurement."""
        return subtract(self.residual, y, prediction)
