"""Diffuse likelihood: a correction for the width of a diffuse prior.

For states without prior information, the first measurements determine the states; their densities depend on the width
of the prior, by 1/2 log variance per such state. If that width depends on a parameter, for example as a million times a
measurement variance, the likelihood would be maximised by a small value of this parameter for no other reason. The
correction log L + 1/2 sum log variance has a limit for increasingly diffuse priors (Durbin & Koopman 2012, 7.2.2).

The two-part score has no such limit. While the prediction is wide nobody can say whether a measurement is an outlier,
and the moments of "this share of it may be": each measurement narrows a state's variance only to about the share of
outliers times what it was. From a ratio of 1e6 that takes three or four measurements of each state, more with outliers
among them, whose density would reward a small share, or a variance near 0 that narrows the prior. So the first ones are
filtered but not scored.
"""

import numpy as np

from wolf.statespace import Model

MIN_VARIANCE_RATIO = 1e4  # ratio to the largest measurement variance above which a prior is diffuse
UNSCORED_PER_STATE = 5  # first measurements of each diffuse state that the two-part score leaves out
MAX_UNSCORED = 1 / 3  # largest share of a series that is left out


class DiffusePrior:
    """Diffuse states of a model, and the correction of the score for their prior variances.

    The correction is relative to the variances of the first guess.

    Args:
        model: model at the first guess.
        ys: measurements, (series, T, M).
        unscored: first rows of each series that are not scored; a series with such rows needs no correction.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=1.0, obs_var=1.0)
        >>> diffuse = DiffusePrior(model, np.zeros((1, 50, 1)))
        >>> round(float(diffuse.cost(10.0 * prior_variances(model))), 3)
        1.151
    """

    def __init__(self, model: Model, ys: np.ndarray, unscored: np.ndarray | None = None):
        variances = prior_variances(model)
        self.diffuse_states = np.flatnonzero(
            variances > MIN_VARIANCE_RATIO * np.max(np.abs(model.obs_cov), initial=0.0)
        )
        self.start_log_variances = np.log(variances[self.diffuse_states])
        num_values = np.isfinite(ys).sum((1, 2))  # a series determines no more states than it has values
        shares = np.minimum(1.0, num_values / max(1, len(self.diffuse_states)))
        self.factor = 0.5 * float(shares.sum() if unscored is None else shares[unscored == 0].sum())

    def cost(self, variances: np.ndarray) -> np.ndarray:
        """Compute the correction of the score for prior variances, (..., D) -> (...)."""
        return np.asarray(
            self.factor * (np.log(variances[..., self.diffuse_states]) - self.start_log_variances).sum(-1)
        )

    def gradient(self, variances: np.ndarray, derivatives: np.ndarray) -> np.ndarray:
        """Compute the gradient of the correction at variances (D,) with derivatives (K, D) by each parameter."""
        return np.asarray(self.factor * (derivatives[:, self.diffuse_states] / variances[self.diffuse_states]).sum(-1))


def unscored_rows(ys: np.ndarray, num_diffuse: int) -> np.ndarray:
    """Count the first rows of each series that the two-part score leaves out, (series,).

    Args:
        ys: measurements, (series, T, M).
        num_diffuse: number of diffuse states; too short a series to determine them is scored in full.

    Example:
        >>> unscored_rows(np.zeros((1, 240, 1)), 13).tolist(), unscored_rows(np.zeros((1, 20, 1)), 13).tolist()
        ([65], [0])
    """
    seen = np.cumsum(np.isfinite(ys).sum(-1), axis=1)
    wanted = np.minimum(UNSCORED_PER_STATE * num_diffuse, (MAX_UNSCORED * seen[:, -1]).astype(int))
    return np.where(wanted < num_diffuse, 0, (seen <= wanted[:, None]).sum(1) if num_diffuse else 0)


def prior_variances(model: Model) -> np.ndarray:
    """Return the variances of a model's prior, (D,), or of many priors, (..., D)."""
    cov = np.asarray(model.prior.cov)
    return np.diagonal(cov, axis1=-2, axis2=-1) if cov.ndim > 1 else cov
