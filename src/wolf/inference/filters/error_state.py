"""Error-state filters: a Gaussian over the error of a state on a manifold, such as an attitude.

Near the state x every other state is `retract(x, δ)` for one small error δ, and `between(x, other)` returns that δ. A
filter for vectors then works on δ: with the state x,

    predict   δ ↦ between(f(x), f(retract(x, δ)))        δ ~ N(0, P)
    update    δ ↦ h(retract(x, δ))                       δ ~ N(0, P) is conditioned on y
    reset     x = retract(x, m)                          δ ~ N(0, P) again

Lefferts, Markley & Shuster (1982) and Markley (2003) for attitudes; as in theirs, the reset leaves P unchanged, which
is correct to first order in m (Solà 2017, section 6.3). The mean of the state and of the results is x, the covariance
that of δ.
"""

import jax.numpy as jnp
from jax import Array

from wolf.beliefs import Affine, Gaussian
from wolf.inference.filters.gaussian import GaussianFilter, GaussianState
from wolf.inference.filters.wrapper import FilterWrapper
from wolf.interfaces import Measurement, StepInfo
from wolf.numerics.pytree import pytree
from wolf.statespace import Model, StateSpaceModel, is_curved
from wolf.statespace.array_fields import replace
from wolf.statespace.conversions import ManifoldDynamics


@pytree
class ErrorState(FilterWrapper):
    """Gaussian filter over the error of a state on a manifold.

    The public functions of `wolf` wrap a Gaussian filter in it where a model's dynamics have `retract(x, step)` and
    `between(x, other)`.

    Args:
        filter: filter of the error.
    """

    filter: GaussianFilter

    @property
    def linearization(self) -> None:
        """None: linearizations of functions of the state require states in a vector space."""
        return

    def check(self, model: Model) -> None:
        """Validate that the states are on a manifold, and the model for the inner filter."""
        if not is_curved(model):
            raise ValueError(
                "ErrorState is for a StateSpaceModel whose dynamics have retract(x, step) and between(x, other), as "
                f"that of wolf.models.attitude; got {model!r}. For other models use the inner filter"
            )
        super().check(model)

    def predict(
        self, now: StateSpaceModel, state: GaussianState, u: Array | None, key: Array | None = None
    ) -> GaussianState:
        """Predict one step ahead."""
        transition, manifold = now.transition(u), now.dynamics
        ahead = transition(state.mean)

        def local(error: Array) -> Array:
            return manifold.between(ahead, transition(manifold.retract(state.mean, error)))

        predicted = self.filter.predict(replace(now, dynamics=local), _error_state(state), u, key)
        return _reset(manifold, ahead, predicted)

    def update(
        self, now: StateSpaceModel, state: GaussianState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[GaussianState, StepInfo]:
        """Update with one measurement."""
        projection, manifold = now.projection(u), now.dynamics

        def local(error: Array) -> Array:
            return projection(manifold.retract(state.mean, error))

        updated, info = self.filter.update(replace(now, observe=local), _error_state(state), y, u, key)
        predicted = None if info.predicted is None else Gaussian(state.mean, info.predicted.cov)
        return _reset(manifold, state.mean, updated), info._replace(predicted=predicted)

    def measurement_of_error(self, now: StateSpaceModel, state: GaussianState, u: Array | None) -> Affine:
        """Linearize the measurement as a function of the error of the state."""
        projection, manifold = now.projection(u), now.dynamics

        def local(error: Array) -> Array:
            return projection(manifold.retract(state.mean, error))

        return self.filter.linearization(replace(now, observe=local).projection(u), _error_state(state).belief)


def _error_state(state: GaussianState) -> GaussianState:
    """Return the state of the error, with mean zero."""
    belief = state.belief
    return state._replace(belief=belief._replace(mean=jnp.zeros_like(belief.mean)))


def _reset(manifold: ManifoldDynamics, x: Array, state: GaussianState) -> GaussianState:
    """Apply the mean of the error to the state."""
    belief = state.belief
    # Without an update the prediction is kept bit for bit.
    moved = jnp.where(jnp.any(belief.mean != 0), manifold.retract(x, belief.mean), x)
    return state._replace(belief=belief._replace(mean=moved))
