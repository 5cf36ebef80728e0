"""Outlier-insensitive Kalman filter: an unknown variance is added to each coordinate (Truzman et al. 2023).

Truzman, Revach, Shlezinger & Klein, "Outlier-Insensitive Kalman Filtering: Theory and Applications", arXiv
2309.09505. Model: y = H x + z + u with z ~ N(0, R) and u_k ~ N(0, g_k), where each g_k has a flat prior (normal with
unknown variance). Coordinate ascent starts at g = 0 and alternates between the state and

    AM:  g_k = max(v_k² - r_k, 0)                    v the residual of the posterior mean
    EM:  g_k = max(v_k² + H_k P⁺ H_kᵀ - r_k, 0)

so w_k² = r_k / (r_k + g_k), and nothing has to be chosen. Where the prior is far wider than the noise there is more
than one fixed point, and the start at g = 0 accepts any residual below (P⁺ + r)/√r.
"""

from typing import Literal

import jax.numpy as jnp
from jax import Array

from wolf import validation
from wolf.beliefs.updates import WeightedUpdate
from wolf.inference.noise.whitened import iterate, whiten
from wolf.interfaces import NoiseModel, Requirements, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.pytree import pytree, static

RULES = ("EM", "AM")


@pytree
class OutlierVariance(NoiseModel[tuple]):
    """Add an inferred variance to each coordinate; with a correlated R, to those in which R is the identity.

    Args:
        rule: "EM", or "AM", which leaves out the uncertainty of the state.
        iterations: number of updates of the state; the authors' code has 9, and 3 are nearly as good.
    """

    rule: Literal["EM", "AM"] = static(default="EM")
    iterations: int = static(default=9)

    def __post_init__(self) -> None:
        """Validate the options."""
        validation.choice("rule", self.rule, RULES)
        validation.count("iterations", self.iterations)

    @property
    def requirements(self) -> Requirements:
        """None: many series run together."""
        return Requirements(one_series=False)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Infer the variances."""
        white = whiten(context)
        identity = linalg.eye(len(white.signal), white.signal)

        def update(noise: Array) -> Array:
            factor = linalg.cholesky(white.signal + identity * noise[None])
            square = (noise * factor.solve(white.residual)) ** 2
            if self.rule == "EM":
                square = square + noise * linalg.diagonal(factor.solve(white.signal))
            return jnp.maximum(square, 1.0)

        noise = iterate(update, jnp.ones_like(white.residual), self.iterations - 1)
        return UpdateDecision(WeightedUpdate(white.whitening() / jnp.sqrt(noise)[:, None]))
