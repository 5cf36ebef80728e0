"""What a vague prior costs, taken back: the diffuse likelihood.

Of states of which nothing is known before, the first measurements tell; their densities are those of the prior, and pay
for its width: 1/2 log variance for each such state. Where that width goes with a parameter, as a million times the
variance of a measurement does, a search would make this parameter small for no other reason. So what the width costs
is given back: log L + 1/2 sum log variance, which has a limit for ever vaguer priors (Durbin & Koopman 2012, 7.2.2).
"""

from typing import Any

import numpy as np

VAGUE_FROM = 1e4  # times the largest variance of a measurement: a prior that wide says nothing beside it


class DiffusePrior:
    """The vague states of a model, and what the width of their prior costs, beside that of the first guess.

    Args:
        model: of the first guess.
        ys: (series, T, M).

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=1.0, obs_var=1.0)
        >>> vague = DiffusePrior(model, np.zeros((1, 50, 1)))
        >>> round(float(vague.cost(10.0 * prior_variances(model))), 3)
        1.151
    """

    def __init__(self, model: Any, ys: np.ndarray):
        widths = prior_variances(model)
        self.which = np.flatnonzero(widths > VAGUE_FROM * np.max(np.abs(model.obs_cov), initial=0.0))
        self.begin = np.log(widths[self.which])
        told = np.isfinite(ys).sum((1, 2))  # no more states than numbers that came can have been found out about
        self.times = 0.5 * float(np.minimum(1.0, told / max(1, len(self.which))).sum())

    def cost(self, widths: np.ndarray) -> np.ndarray:
        """Say what prior variances, (..., D), cost of the score, (...)."""
        return np.asarray(self.times * (np.log(widths[..., self.which]) - self.begin).sum(-1))

    def slope(self, widths: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Differentiate the cost at variances (D,) that move with each number as in (K, D)."""
        return np.asarray(self.times * (moves[:, self.which] / widths[self.which]).sum(-1))


def prior_variances(model: Any) -> np.ndarray:
    """Give the variances of a model's prior, (D,), or of many priors, (..., D)."""
    cov = np.asarray(model.prior.cov)
    return np.diagonal(cov, axis1=-2, axis2=-1) if cov.ndim > 1 else cov
