"""Checks of a series as text: calibration of its intervals, and adequacy of its model."""

from typing import TYPE_CHECKING

import numpy as np

from wolf.cleaning import CleanedSeries
from wolf.numerics.runs import runs_of

if TYPE_CHECKING:
    from wolf.reports.chart_data import ChartData

NOMINAL_SHARE = 0.95  # of NIS values in their band
MIN_SHARE, MAX_SHARE = 0.90, 0.985  # outside of which the share is reported
MIN_CORRELATION = 0.1  # lag-1 autocorrelation that is reported, if significant
SIGNIFICANT_ERRORS = 3.0  # standard errors
MIN_BIAS = 0.1  # mean residual that is reported, in standard deviations
MAX_OUTLIER_SHARE = 0.2  # above which the share is reported
MIN_NOISE_RATIO = (
    1.8  # of the local noise to its median, that is reported: the estimate of a hundred errors varies less
)
MIN_IDENTIFIED_ERRORS = 2.0  # standard errors from zero of an identified variance


def describe_detection(each: CleanedSeries) -> str:
    """Describe the calibration of the detection level of a series, and its borderline deviations."""
    highest = max(each.detection, key=lambda detection: detection.level)
    if highest.level <= 1.0:
        return "thresholds of the model"
    runs = 0 if each.borderline is None else len(runs_of(each.borderline))
    return (
        f"{highest.false_alarms:g} expected per 10,000 measurements: detection level {highest.level:.1f} times the "
        f"model's thresholds, from a tail with index {highest.tail_index:.1f}; {runs} borderline deviations are kept "
        "(QARTOD flag 3)"
    )


def residual_findings(picture: "ChartData", past: bool = True) -> list[str]:
    """Report the problems that the residuals of one column indicate.

    Args:
        picture: data of a column, from `chart_data.series_numbers`.
        past: whether estimates use only the past; residuals of a smoother are negatively autocorrelated anyway.

    Example:
        >>> residual_findings({"correlations": [0.0], "unflagged": 500, "inside": 0.8, "bias": 0.0})
        ['only 80% of the measurements are in the 95 % band: the noise is underestimated']
    """
    count, findings = max(picture["unflagged"], 1), []
    first = picture["correlations"][0] if picture["correlations"] else 0.0
    if (first if not past else abs(first)) > max(MIN_CORRELATION, SIGNIFICANT_ERRORS / np.sqrt(count)):
        sign = "positively" if first > 0 else "negatively"
        width = "too narrow" if first > 0 else "too wide"
        findings.append(
            f"residuals are {sign} autocorrelated (lag 1: {first:.2f}): the model is incomplete, and its intervals are "
            f"{width}"
        )
    inside = picture["inside"]
    margin = SIGNIFICANT_ERRORS * np.sqrt(NOMINAL_SHARE * (1 - NOMINAL_SHARE) / count)
    if np.isfinite(inside) and inside < min(MIN_SHARE, NOMINAL_SHARE - margin):
        findings.append(f"only {inside:.0%} of the measurements are in the 95 % band: the noise is underestimated")
    if np.isfinite(inside) and inside > max(MAX_SHARE, NOMINAL_SHARE + margin):
        findings.append(f"{inside:.1%} of the measurements are in the 95 % band: the noise is overestimated")
    peak = picture.get("noise_peak") or {}
    if peak.get("ratio", 1.0) > MIN_NOISE_RATIO:
        findings.append(
            f"the noise varies: around {peak['when']} it is {peak['ratio']:.1f} times its median, and intervals there "
            "are too narrow"
        )
    if abs(picture["bias"]) > max(MIN_BIAS, SIGNIFICANT_ERRORS / np.sqrt(count)):
        side = "above" if picture["bias"] > 0 else "below"
        findings.append(
            f"measurements are {side} their prediction on average, by {abs(picture['bias']):.2f} standard deviations"
        )
    return findings


def series_findings(each: CleanedSeries) -> list[str]:
    """Report the problems that the fit and the outliers of a series indicate."""
    findings = []
    share = each.num_outliers / max(each.num_weights, 1)
    if share > MAX_OUTLIER_SHARE:
        findings.append(f"{share:.0%} of the measurements are outliers: the model is probably wrong")
    if each.fit is not None and not (each.fit.converged or each.fit.at_boundary):
        findings.append("the fit of the noise did not converge; set known variances")
    if each.choice is not None:
        findings += [part for part in each.choice.verdict.split("; ") if "no candidate fits" in part]
    unidentified = [name for name in each.parameters if not is_identified(each, name)]
    if unidentified:
        findings.append(f"{' and '.join(unidentified)} cannot be distinguished from zero with these measurements")
    return findings


def is_identified(each: CleanedSeries, name: str) -> bool:
    """Check whether a fitted variance differs significantly from zero."""
    error = each.fit.errors.get(name, np.nan) if each.fit is not None else np.nan
    return bool(np.isnan(error) or each.parameters[name] >= MIN_IDENTIFIED_ERRORS * error)
