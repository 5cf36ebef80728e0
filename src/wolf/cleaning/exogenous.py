"""Exogenous variables in cleaning: what they explain is subtracted before a series is cleaned, and added afterwards.

Their coefficients are constant. They are states of the model of the series, estimated by a robust filter on the rows
that the noise was fitted on; their uncertainty widens the intervals.
"""

from typing import NamedTuple

import numpy as np

from wolf import api
from wolf.cleaning import runs
from wolf.fitting.robust_regression import difference_coefficients
from wolf.models.exogenous import with_exogenous
from wolf.models.registry import Named


class Explained(NamedTuple):
    """Part of a series that exogenous variables explain.

    Attributes:
        share: (T, M), that is subtracted.
        variance: of the share, (T, M), from the uncertainty of the coefficients.
    """

    share: np.ndarray
    variance: np.ndarray

    def rows(self, first: int, count: int) -> "Explained":
        """Return some rows."""
        return Explained(self.share[first : first + count], self.variance[first : first + count])

    def plus(self, other: "Explained") -> "Explained":
        """Return what both explain."""
        return Explained(self.share + other.share, self.variance + other.variance)


def first_share(values: np.ndarray, exog: np.ndarray) -> np.ndarray:
    """Estimate what the variables explain from differences, before a model is known, (T, M)."""
    return exog @ difference_coefficients(values, exog)


def explained(
    values: np.ndarray,
    exog: np.ndarray,
    gaps: np.ndarray | None,
    named: Named,
    parameters: dict[str, float],
    step_var: float,
) -> Explained:
    """Estimate what the variables explain, with the model of a series.

    Args:
        values: (T, M), NaN where missing.
        exog: (T, K).
        gaps: before each row, in steps; None where all are 1.
        named: the model before its variances are known.
        parameters: its variances.
        step_var: variance of the step from one value to the next.
    """
    window = slice(*runs.fit_window(len(values)))
    sample, known = values[window], exog[window]
    beta = difference_coefficients(sample, known)
    prior = named.start(sample - known @ beta, step_var)
    model = named.builder(None if gaps is None else gaps[window], prior, values.shape[1])(**parameters)
    final = api.filter(with_exogenous(model, known), sample, save="final").final
    size = exog.shape[1]
    means = np.asarray(final.mean)[model.state_dim :].reshape(values.shape[1], size)
    covs = np.asarray(final.cov)[model.state_dim :, model.state_dim :]
    blocks = [covs[size * j : size * (j + 1), size * j : size * (j + 1)] for j in range(values.shape[1])]
    variances = [np.sum((exog @ block) * exog, axis=1) for block in blocks]
    return Explained(exog @ means.T, np.maximum(np.stack(variances, axis=1), 0.0))
