"""The protocol of state-space models: what every part of the library may ask of one."""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, Self, TypeGuard

from jax import Array
from numpy.typing import ArrayLike

from wolf.beliefs import Gaussian
from wolf.statespace.bound_functions import Bound, LinearMap


class Model(Protocol):
    """A prior, a transition with noise and a projection with noise.

    `LinearModel`, `StateSpaceModel` and `ParameterModel` implement it. Arrays may have a leading time axis; `at(t)`
    removes it, and within a step no array has one.

    Attributes:
        handles_series: whether many series run together on a trailing axis.
    """

    handles_series: ClassVar[bool]

    @property
    def state_dim(self) -> int:
        """Number of states, D."""
        ...

    @property
    def obs_dim(self) -> int:
        """Number of coordinates of a measurement, M."""
        ...

    @property
    def linear(self) -> bool:
        """Whether dynamics and observation are given by matrices."""
        ...

    @property
    def takes_inputs(self) -> bool:
        """Whether dynamics or observation take inputs u."""
        ...

    @property
    def input_dim(self) -> int | None:
        """Number of inputs, U; None without inputs, or where it is not stated."""
        ...

    @property
    def prior(self) -> Gaussian:
        """Belief about the state at time 0."""
        ...

    @property
    def dynamics(self) -> Any:
        """Function f(x) or f(x, u); None for matrices or the identity."""
        ...

    @property
    def residual(self) -> Callable | None:
        """Subtraction of a prediction from a measurement; None for plain subtraction."""
        ...

    @property
    def dynamics_cov(self) -> Any:
        """Covariance Q of the dynamics."""
        ...

    @property
    def step_cov(self) -> Array | None:
        """Q in its most compact form."""
        ...

    @property
    def obs_cov(self) -> Any:
        """Covariance R of a measurement."""
        ...

    def obs_cov_at(self, x: Array, u: Array | None) -> Array:
        """Compute R at a state."""
        ...

    def at(self, t: Array | int) -> Self:
        """Return the model of one step."""
        ...

    def scaled(self, dynamics: ArrayLike, obs: ArrayLike) -> Self:
        """Return a copy with scaled noise covariances."""
        ...

    def lift(self) -> Self:
        """Return a copy that broadcasts over many series on a trailing axis."""
        ...

    def transition(self, u: Array | None) -> LinearMap | Bound:
        """Return the dynamics as a function of the state."""
        ...

    def projection(self, u: Array | None) -> LinearMap | Bound:
        """Return the observation as a function of the state."""
        ...

    def subtract(self, y: Array, prediction: Array) -> Array:
        """Compute the residual of a measurement."""
        ...


def is_model(value: object) -> TypeGuard[Model]:
    """Return whether the class of a value has the methods of a model.

    Properties are not read: that of a prior may form a large matrix.
    """
    methods = ("at", "transition", "projection", "subtract")
    return all(callable(getattr(type(value), name, None)) for name in methods)  # a class may be any
