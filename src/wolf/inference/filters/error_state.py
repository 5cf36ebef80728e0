"""Error-state filters: a Gaussian over the error of a state that cannot be added to, as an attitude.

The state x lives on a curved space. Near x every other state is `retract(x, δ)` for one small error δ, and
`between(x, other)` gives that δ back. A filter of numbers then works on δ: with the state x,

    predict   δ ↦ between(f(x), f(retract(x, δ)))        δ ~ N(0, P)
    update    δ ↦ h(retract(x, δ))                       δ ~ N(0, P) learns from y
    reset     x = retract(x, m)                          δ ~ N(0, P) again

Lefferts, Markley & Shuster (1982) and Markley (2003) for attitudes; the reset leaves P as it is, as theirs do, which is
right to first order in m (Solà 2017, section 6.3). The mean that is carried and handed out is x, the covariance that of
δ.
"""

from typing import Any

import jax.numpy as jnp
from jax import Array

from wolf.beliefs import Gaussian
from wolf.inference.filters.gaussian import GaussianFilter, GaussianState
from wolf.inference.filters.wrapper import FilterWrapper
from wolf.interfaces import Measurement, StepInfo
from wolf.numerics.pytree import pytree
from wolf.statespace import Model, StateSpaceModel, is_curved
from wolf.statespace.array_fields import replace


@pytree
class ErrorState(FilterWrapper):
    """Carry a Gaussian over the error of a state on a curved space.

    The doors of `wolf` put it around a Gaussian filter by themselves where a model's dynamics have `retract(x, step)`
    and `between(x, other)`.

    Args:
        filter: how to learn about the error.
    """

    filter: GaussianFilter

    @property
    def linearization(self) -> None:
        """None: what smoothing and forecasts see of functions is for states that can be added to."""
        return

    def check(self, model: Model) -> None:
        """Refuse states that can be added to, and what the filter inside refuses."""
        if not is_curved(model):
            raise ValueError(
                "ErrorState is for a StateSpaceModel whose dynamics have retract(x, step) and between(x, other), as "
                f"that of wolf.models.attitude; got {model!r}. Others take the filter inside as it is"
            )
        super().check(model)

    def predict(
        self, now: StateSpaceModel, state: GaussianState, u: Array | None, key: Array | None = None
    ) -> GaussianState:
        """Go forward one step in time."""
        move, curve = now.transition(u), now.dynamics
        ahead = move(state.mean)

        def local(error: Array) -> Array:
            return curve.between(ahead, move(curve.retract(state.mean, error)))

        predicted = self.filter.predict(replace(now, dynamics=local), _around(state), u, key)
        return _reset(curve, ahead, predicted)

    def update(
        self, now: StateSpaceModel, state: GaussianState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[GaussianState, StepInfo]:
        """Learn from one measurement."""
        see, curve = now.projection(u), now.dynamics

        def local(error: Array) -> Array:
            return see(curve.retract(state.mean, error))

        learned, info = self.filter.update(replace(now, observe=local), _around(state), y, u, key)
        predicted = None if info.predicted is None else Gaussian(state.mean, info.predicted.cov)
        return _reset(curve, state.mean, learned), info._replace(predicted=predicted)


def _around(state: GaussianState) -> GaussianState:
    """See a state as the error zero."""
    belief: Any = state.belief
    return state._replace(belief=belief._replace(mean=jnp.zeros_like(belief.mean)))


def _reset(curve: Any, x: Array, state: GaussianState) -> GaussianState:
    """Move the mean of the error into the state."""
    belief: Any = state.belief
    # Where nothing was learned the prediction stays bit for bit.
    moved = jnp.where(jnp.any(belief.mean != 0), curve.retract(x, belief.mean), x)
    return state._replace(belief=belief._replace(mean=moved))
