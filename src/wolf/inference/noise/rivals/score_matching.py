"""Weighted score matching in place of the likelihood: robust, conjugate, with a shift that a weight alone lacks.

The diffusion score matching loss of Altamirano, Briol & Knoblauch (2023, arXiv 2302.04759; Gaussian processes: ICML
2024) with a weight m(y) keeps the Gaussian conjugate. In coordinates where R is the identity, with
m² = 1 / (1 + u²) and u = (y - centre) / c, its update is that of the likelihood to the power m², and of a residual
enlarged by 2 u / (c (1 + u²)). Laplante, Altamirano, Duncan, Knoblauch & Briol (2025, arXiv 2502.02450) set the centre
to the filter's prediction and c² to the innovation variance, which repairs the coverage on clean data and leaves
nothing to tune.
"""

import jax.numpy as jnp
from jax import Array

from wolf import validation
from wolf.beliefs.updates import WeightedUpdate
from wolf.inference.noise.whitened import whiten
from wolf.interfaces import NoiseModel, Number, Requirements, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.linalg import matvec
from wolf.numerics.pytree import pytree


@pytree
class ScoreMatching(NoiseModel[tuple]):
    """Update by weighted score matching, coordinate by coordinate.

    The papers have independent coordinates; with a correlated R they are those in which R is the identity.

    Args:
        centre: of the weight, in the units of y; None stands for the prediction (ST-RCGP).
        c: scale of the weight, in the units of y; None stands for the innovation's standard deviation (ST-RCGP).

    Example:
        >>> ScoreMatching(centre=0.0, c=1.0)  # standardised data: DSM-BOCD
        ScoreMatching(centre=0.0, c=1.0)
    """

    centre: Number | None = None
    c: Number | None = None

    def __post_init__(self) -> None:
        """Validate the options."""
        validation.positive("c", self.c)

    @property
    def requirements(self) -> Requirements:
        """None: many series run together."""
        return Requirements(one_series=False)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Compute the weight of each coordinate and the shift of its residual."""
        white = whiten(context)
        distance = white.residual
        square: Array = 1.0 + linalg.diagonal(white.signal)
        if self.centre is not None:
            above = context.residual + context.view.mean - self.centre
            distance = matvec(white.whitening(), context.observed * above)
        if self.c is not None:
            square = jnp.asarray(self.c**2 / linalg.diagonal(context.obs_cov))
        total = square + distance**2
        weight = jnp.sqrt(square / total)
        shift = matvec(white.noise.matrix(), 2.0 * distance / total)
        return UpdateDecision(WeightedUpdate(weight[:, None] * white.whitening(), shift=shift))
