"""Online gradient descent: a few steps of Adam per measurement, a point estimate instead of a belief.

The usual way to train a network online; the paper's OGD (Duran-Martin et al. 2024, section 4.2), with the defaults of
Adam (Kingma & Ba 2015).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.interfaces import Filter, Measurement, Number, Requirements, StepInfo
from wolf.numerics.linalg import all_leading
from wolf.numerics.pytree import PyTree, pytree, static
from wolf.statespace import Model


class GradientState(NamedTuple):
    """Point estimate, state of the optimiser, and number of measurements processed."""

    mean: Array
    optimiser: PyTree
    t: Array

    @property
    def cov(self) -> None:
        """None: a point estimate has no uncertainty."""
        return None

    @property
    def variances(self) -> None:
        """None: a point estimate has no uncertainty."""
        return None


@pytree
class GradientFilter(Filter):
    """Gradient steps on the squared error of each measurement; a missing one is skipped.

    Args:
        learning_rate: of Adam.
        iterations: I, steps per measurement.
    """

    learning_rate: Number = 0.01
    iterations: int = static(default=1)

    def __post_init__(self) -> None:
        """Check the choices."""
        validation.positive("learning_rate", self.learning_rate)
        validation.count("iterations", self.iterations)

    @property
    def requirements(self) -> Requirements:
        """No covariances in the results."""
        return Requirements(covariances=False)

    def init(self, model: Model, key: Array | None = None) -> GradientState:
        """Start from the mean of the model's prior."""
        mean = jnp.asarray(model.prior.mean)
        return GradientState(mean, _adam(self.learning_rate).init(mean), jnp.zeros((), jnp.int32))

    def predict(self, now: Model, state: GradientState, u: Array | None, key: Array | None = None) -> GradientState:
        """Predict one step ahead."""
        return state._replace(mean=now.transition(u)(state.mean))

    def update(
        self, now: Model, state: GradientState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[GradientState, StepInfo]:
        """Update by gradient steps on the squared error."""
        observe, adam = now.projection(u), _adam(self.learning_rate)

        def residual(mean: Array) -> Array:
            return y.observed * now.subtract(y.value, observe(mean))

        def descend(_: int, values: tuple[Array, PyTree]) -> tuple[Array, PyTree]:
            mean, optimiser = values
            gradient = jax.grad(lambda at: (residual(at) ** 2).sum())(mean)
            change, optimiser = adam.update(gradient, optimiser)
            return mean + change, optimiser

        mean, optimiser = jax.lax.fori_loop(0, self.iterations, descend, (state.mean, state.optimiser))
        used = (y.num_observed > 0) & all_leading(jnp.isfinite(mean))
        new = GradientState(mean, optimiser, state.t)
        kept = jax.tree.map(lambda new, old: jnp.where(used, new, old), new, state)
        weight = jnp.where(used, 1.0, 0.0).astype(mean.dtype)
        info = StepInfo(
            predicted=Gaussian(state.mean, None),
            residual=residual(state.mean),
            weight=weight,
            outlier=y.any_present & ~used,
        )
        return kept._replace(t=state.t + 1), info


def _adam(learning_rate: Number) -> Any:
    try:
        import optax
    except ImportError as error:
        raise ImportError("OGD needs optax: pip install optax") from error
    return optax.adam(learning_rate)
