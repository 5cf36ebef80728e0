"""Accuracy and calibration of estimates: against a known truth, and against the reported covariances.

Arrays are (T, D) and (T, D, D), or have leading axes for trials; results are per state where that is meaningful.
Missing values (NaN) are ignored.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.results import Filtered


class Band(NamedTuple):
    """A statistic with the interval that contains it with the given probability if the model is correct.

    Attributes:
        value: value of the statistic.
        lower: lower end of the interval.
        upper: upper end of the interval.
    """

    value: float
    lower: float
    upper: float

    @property
    def holds(self) -> bool:
        """Whether the value is inside its interval."""
        return self.lower <= self.value <= self.upper


def rmse(means: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Compute the root mean square error of each state over time.

    Example:
        >>> rmse(np.array([[3.0], [4.0]]), np.zeros((2, 1))).round(3).tolist()
        [3.536]
    """
    return np.sqrt(np.nanmean(_errors(means, truth) ** 2, axis=-2))


def rmedse(means: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Compute the root *median* squared error of each state, which is insensitive to outliers in the truth."""
    return np.sqrt(np.nanmedian(_errors(means, truth) ** 2, axis=-2))


def j_score(means: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Compute `J_T`, the root of the summed squared errors, as defined by Duran-Martin et al. (2024, section 4.1)."""
    return np.sqrt(np.nansum(_errors(means, truth) ** 2, axis=-2))


def coverage(means: np.ndarray, covs: np.ndarray, truth: np.ndarray, level: float = 0.95) -> np.ndarray:
    """Compute how often the interval of each state contains the truth; near `level` if covariances are calibrated."""
    from scipy.special import ndtri

    errors, covs = _errors_and_covs(means, covs, truth)
    half = ndtri(0.5 + 0.5 * validation.confidence_level(level)) * _deviations(covs)
    return np.mean(np.abs(errors) <= half, axis=-2)


def crps(means: np.ndarray, covs: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Compute the continuous ranked probability score of each state, averaged over time; smaller is better.

    Gneiting & Raftery (2007), for a Gaussian: `s (z (2 Φ(z) - 1) + 2 φ(z) - 1/√π)`, in the units of the state.
    """
    from scipy.special import ndtr

    errors, covs = _errors_and_covs(means, covs, truth)
    deviations = _deviations(covs)
    z = -errors / deviations
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return np.nanmean(deviations * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi)), axis=-2)


def log_score(means: np.ndarray, covs: np.ndarray, truth: np.ndarray) -> float | np.ndarray:
    """Average the log density of the truth under the estimated Gaussians; larger is better."""
    squared, log_det = _mahalanobis(means, covs, truth)
    return np.nanmean(-0.5 * (squared + log_det + np.shape(means)[-1] * np.log(2 * np.pi)), axis=-1)


def nees(means: np.ndarray, covs: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Compute the normalised estimation error squared of each step: χ² with D degrees of freedom if calibrated."""
    return _mahalanobis(means, covs, truth)[0]


def nees_band(means: np.ndarray, covs: np.ndarray, truth: np.ndarray, level: float = 0.95) -> Band:
    """Average the NEES over steps and trials, with its χ² interval.

    The interval assumes independent steps; the steps of one series are dependent, so use it over many trials.
    """
    values = nees(means, covs, truth)
    return _chi2_band(values, np.full(values.shape, np.shape(means)[-1]), level)


def nis_band(out: Filtered, level: float = 0.95) -> Band:
    """Average the normalised innovation squared of a run, with its χ² interval; missing coordinates are not counted.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> data = wolf.simulate.trajectory(model, 500, key=0)
        >>> nis_band(wolf.filter(model, data.measurements, method="KF")).holds
        True
    """
    _check_result(out)
    counts = np.sum(~np.isnan(out.residuals), axis=-1)
    return _chi2_band(out.nis, counts, level)


def whiteness(out: Filtered, lags: int = 20) -> np.ndarray:
    """Test whether the standardised residuals of one series are uncorrelated (Ljung & Box 1978).

    Args:
        out: one filtered series.
        lags: number of lags.

    Returns:
        The p-value for each measured coordinate; a small p-value indicates a misspecified model.
    """
    from scipy.special import gammaincc

    _check_result(out)
    if validation.count("lags", lags) >= len(out):
        raise ValueError(f"lags must be below {len(out)}, the steps of the series; got {lags!r}")
    if out.num_series is not None:
        raise ValueError("out must be one series, such as out[0]; got several")
    scales = np.sqrt(np.diagonal(out.innovation_covs, axis1=-2, axis2=-1))
    residuals = out.residuals / scales
    observed = np.isfinite(residuals)
    centred = np.where(observed, residuals - np.mean(residuals, axis=0, where=observed), 0.0)
    counts = observed.sum(0)
    power = (centred**2).sum(0)
    statistic = np.zeros(residuals.shape[1])
    for lag in range(1, lags + 1):
        correlation = (centred[lag:] * centred[:-lag]).sum(0) / power
        statistic += correlation**2 / (counts - lag)
    return gammaincc(0.5 * lags, 0.5 * counts * (counts + 2) * statistic)


def _chi2_band(values: np.ndarray, degrees: np.ndarray, level: float) -> Band:
    from scipy.special import gammaincinv

    validation.confidence_level(level)
    used = np.isfinite(values) & (degrees > 0)
    count, total = used.sum(), degrees[used].sum()
    lower, upper = (2 * gammaincinv(0.5 * total, p) / count for p in (0.5 - 0.5 * level, 0.5 + 0.5 * level))
    return Band(float(values[used].mean()), float(lower), float(upper))


def _mahalanobis(means: np.ndarray, covs: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    errors, covs = _errors_and_covs(means, covs, truth)
    try:
        lower = np.linalg.cholesky(covs)
    except np.linalg.LinAlgError as error:
        raise ValueError("covs must be positive definite; check for zeros, NaN and negative variances") from error
    if not np.all(np.isfinite(lower)):
        raise ValueError("covs must be finite; got NaN or inf in it")
    white = np.linalg.solve(lower, -errors[..., None])[..., 0]
    return (white**2).sum(-1), 2 * np.log(np.diagonal(lower, axis1=-2, axis2=-1)).sum(-1)


def _errors(means: ArrayLike, truth: ArrayLike) -> np.ndarray:
    """Subtract the truth from the means, after checking that both have shape (..., T, D)."""
    arrays = {"means": validation.number_array("means", means), "truth": validation.number_array("truth", truth)}
    for name, array in arrays.items():
        if array.ndim < 2 or not array.size:
            raise ValueError(f"{name} must have shape (T, D), or leading axes before it; got {array.shape}")
    shapes = [array.shape for array in arrays.values()]
    if any(a != b and 1 not in (a, b) for a, b in zip(*(shape[::-1] for shape in shapes), strict=False)):
        raise ValueError(f"means and truth must have the same shape; got {shapes[0]} and {shapes[1]}")
    return arrays["means"] - arrays["truth"]


def _errors_and_covs(means: ArrayLike, covs: ArrayLike, truth: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    errors, array = _errors(means, truth), validation.number_array("covs", covs)
    tail = (*errors.shape[-2:], errors.shape[-1])
    if array.shape[-3:] != tail:
        raise ValueError(f"covs must have shape {tail}, or leading axes before it; got {array.shape}")
    return errors, array


def _members(members: ArrayLike, truth: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    array, truths = validation.number_array("members", members), validation.number_array("truth", truth)
    if array.ndim < 2 or not array.size:
        raise ValueError(f"members must have shape (..., N, D); got {array.shape}")
    if truths.shape != array.shape[:-2] + array.shape[-1:]:
        wanted = array.shape[:-2] + array.shape[-1:]
        raise ValueError(f"truth must have shape {wanted} to match members {array.shape}; got {truths.shape}")
    return array, truths


def _check_result(out: object) -> None:
    if not isinstance(out, Filtered):
        raise ValueError(f"out must be a result of wolf.filter; got {validation.short_repr(out)}")


def _deviations(covs: np.ndarray) -> np.ndarray:
    return np.sqrt(np.diagonal(covs, axis1=-2, axis2=-1))


def ensemble_crps(members: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Compute the continuous ranked probability score of an ensemble at each time and state; smaller is better.

    Gneiting & Raftery (2007): `mean |x_i - y| - mean |x_i - x_j| / 2`, computed by sorting.

    Args:
        members: (..., N, D).
        truth: (..., D).

    Returns:
        Scores, (..., D).

    Example:
        >>> ensemble_crps(np.array([[0.0], [2.0]]), np.array([1.0])).tolist()
        [0.5]
    """
    members, truth = _members(members, truth)
    size = members.shape[-2]
    ordered = np.sort(members, axis=-2)
    factors = (2.0 * np.arange(1, size + 1) - size - 1.0) / size**2
    spread = (factors[:, None] * ordered).sum(-2)
    return np.abs(members - truth[..., None, :]).mean(-2) - spread


def rank_histogram(members: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Count the ranks of the truth among the members: uniform if both have the same distribution (Hamill 2001).

    Args:
        members: (..., N, D).
        truth: (..., D).

    Returns:
        Counts of the N + 1 ranks, from below all members to above all members.
    """
    members, truth = _members(members, truth)
    below = (members < truth[..., None, :]).sum(-2)
    return np.bincount(below.ravel(), minlength=np.shape(members)[-2] + 1)
