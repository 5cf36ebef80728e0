"""Causes: faults and events in a series with their first and last steps, from one Kalman filter without weights.

The errors of a robust filter do not show faults that it rejects or, after a while, follows. Therefore the Kalman filter
of the model is run over the series once more. First, faults that need no model are removed: missing values, and values
that a sensor repeats. Then intervals with a different variance are found (`variance_changes.py`), then all faults with
a known signature (`greedy_search.py`). Scale factors of Q and R that the robust filter estimated may have been inflated
by the faults themselves: they are used if the likelihood without the faults favours them.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from wolf import api
from wolf.diagnostics.faults.edge_pairing import DetectedFault
from wolf.diagnostics.faults.greedy_search import GreedySearch
from wolf.diagnostics.faults.innovations import InnovationRecord
from wolf.diagnostics.faults.isolated_outliers import AGREEMENT_STDS, SENTENCE, has_fixed_matrices
from wolf.diagnostics.faults.naming import (
    MAX_STEPS_BETWEEN,
    SHORT_KINDS,
    causes_of_findings,
    merge_bursts,
    name_fault,
    name_variance_change,
)
from wolf.diagnostics.faults.result import Cause, Finding
from wolf.diagnostics.faults.signatures import FaultSignatures
from wolf.diagnostics.faults.variance_changes import VarianceChange, find_variance_changes
from wolf.numerics.runs import runs_of
from wolf.results import Filtered
from wolf.statespace import LinearModel, Model, with_matrices

VARIANCE_CHANGE_MARGIN = MAX_STEPS_BETWEEN + 1  # steps around an interval of larger variance that belong to it
NOMINAL_SCALES = (1.0, 1.0)  # scale factors of Q and R
MIN_MEASUREMENTS = 20  # complete measurements that are needed to estimate the typical variance


def find_causes(record: InnovationRecord, out: Filtered, findings: list[Finding], isolated: np.ndarray) -> list[Cause]:
    """Find the causes in a series, in the order of time.

    Args:
        record: innovations of the run.
        out: filtered series.
        findings: findings about single measurements.
        isolated: isolated outliers, (T, M) of bool.
    """
    stuck = _stuck_causes(record)
    ys = np.where(np.isfinite(record.ys), record.ys, np.nan)
    for cause in stuck:
        ys[cause.first : cause.last + 1, cause.sensor] = np.nan
    non_finite = [
        Cause("outlier", int(t), int(t), int(j), np.inf, "non-finite or too large")
        for t, j in np.argwhere(np.isinf(record.ys))
    ]
    found = [*_missing_causes(record), *stuck, *non_finite]
    if not has_fixed_matrices(out):
        found += causes_of_findings(findings)
    elif np.isfinite(ys).all(axis=1).sum() >= MIN_MEASUREMENTS:
        found += _pattern_causes(record, out, ys, isolated)
    return sorted(found, key=lambda cause: (cause.first, cause.last))


def _pattern_causes(record: InnovationRecord, out: Filtered, ys: np.ndarray, isolated: np.ndarray) -> list[Cause]:
    """Find faults with a known signature, and changes of the noise variance."""
    outliers = _isolated_outlier_causes(record, isolated)
    ys = np.where(isolated, np.nan, ys)
    nominal = with_matrices(out.model)
    scale_factors = dict.fromkeys([NOMINAL_SCALES, _median_scale_factors(out)])
    hypotheses = [_search_with_scales(nominal.scaled(*factors), out, ys) for factors in scale_factors]
    model, signatures, errors, scale, search, _ = max(hypotheses, key=lambda hypothesis: hypothesis.score)
    changes = [
        change
        for change in find_variance_changes(errors, np.isfinite(ys).any(axis=1))
        if not _is_explained_by_faults(change, search.faults, search.residual)
    ]
    if changes:
        for change in changes:
            errors[change.first : change.stop] /= np.sqrt(max(change.factor, 1.0))
        search.update(errors, [(change.first, change.stop) for change in changes])
    deviations = np.sqrt(np.diagonal(np.asarray(model.R)))
    faults = [fault._replace(size=scale * fault.size) for fault in search.faults]
    named = [name_fault(fault, deviations, model, len(ys), signatures) for fault in faults]
    larger = np.zeros(len(ys), bool)  # steps where a larger noise variance explains short faults
    for change in changes:
        margin = VARIANCE_CHANGE_MARGIN
        larger[max(change.first - margin, 0) : change.stop + margin] |= change.factor > 1.0
    named = [
        cause
        for cause in [*outliers, *named]
        if not (cause.kind in SHORT_KINDS and larger[cause.first : cause.last + 1].all())
    ]
    return merge_bursts(named) + [name_variance_change(change) for change in changes]


class _ScaleHypothesis(NamedTuple):
    """Faults found by a Kalman filter with given scale factors of Q and R.

    Attributes:
        model: model with these scale factors.
        signatures: fault signatures of the model.
        errors: whitened innovations, (T, M).
        scale: their standard deviation before normalisation.
        search: the faults.
        score: log density of the innovations without the faults, minus a penalty per fault.
    """

    model: LinearModel
    signatures: FaultSignatures
    errors: np.ndarray
    scale: float
    search: GreedySearch
    score: float


def _search_with_scales(model: LinearModel, out: Filtered, ys: np.ndarray) -> _ScaleHypothesis:
    """Search for faults with the Q and R of a model."""
    signatures = FaultSignatures(model)
    errors, scale, log_volume = _whitened_innovations(model, out, ys)
    search = GreedySearch(errors, signatures)
    misfit = 0.5 * np.minimum(search.residual**2, AGREEMENT_STDS**2).sum()
    score = -misfit - log_volume - len(search.faults) * np.log(len(ys))
    return _ScaleHypothesis(model, signatures, errors, scale, search, score)


def _isolated_outlier_causes(record: InnovationRecord, isolated: np.ndarray) -> list[Cause]:
    """List isolated outliers, per sensor where the method weights sensors separately."""
    found = []
    for t in np.flatnonzero(isolated.any(axis=1)).tolist():
        sensors = [None] if record.is_joint else np.flatnonzero(isolated[t]).tolist()
        size = max(record.size(j, t) for j in sensors)
        found.append(Cause("outlier", t, t, sensors[0] if len(sensors) == 1 else None, size, SENTENCE))
    return found


def _is_explained_by_faults(change: VarianceChange, faults: list[DetectedFault], residual: np.ndarray) -> bool:
    """Return whether a few faults explain what was detected as a change of the variance."""
    inside = [f for f in faults if change.first - MAX_STEPS_BETWEEN <= f.candidate.step < change.stop]
    squares = (residual[change.first : change.stop] ** 2).sum(axis=1)
    is_small = float(np.median(squares)) < np.sqrt(change.factor) * residual.shape[1]
    return is_small and len(inside) <= 1 + (change.stop - change.first) / MIN_MEASUREMENTS


def _median_scale_factors(out: Filtered) -> tuple[float, float]:
    """Return the medians over time of the estimated scale factors of Q and R."""
    factors = []
    for name in ("dynamics_scales", "noise_scales"):
        path = out.saved.get(name)
        factors.append(1.0 if path is None else float(np.median(path)))
    return factors[0], factors[1]


def _whitened_innovations(model: Model, out: Filtered, ys: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Run the Kalman filter: whitened innovations, (T, M), of typical variance 1, 0 where missing.

    Returns:
        The innovations, their standard deviation before normalisation, and the log of the factor by which whitening and
        normalisation changed their density.
    """
    from scipy.special import gammaincinv

    run = api.filter(model, ys, method="KF", inputs=out.inputs, update_first=out.update_first)
    present = np.isfinite(ys)
    both = present[:, :, None] & present[:, None, :]
    covs = np.where(both, run.innovation_covs, 0.0) + np.eye(ys.shape[1]) * ~present[:, :, None]
    errors = np.where(present, run.residuals, 0.0)
    factors = np.linalg.cholesky(covs)
    white = np.linalg.solve(factors, errors[:, :, None])[:, :, 0]
    squares = (white[present.all(axis=1)] ** 2).sum(axis=1)
    median = 2.0 * float(gammaincinv(0.5 * ys.shape[1], 0.5))  # of χ² with M degrees of freedom
    scale = max(float(np.sqrt(np.median(squares) / median)), 1e-300)
    log_volume = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum() + present.sum() * np.log(scale)
    return white / scale, scale, float(log_volume)


def _missing_causes(record: InnovationRecord) -> list[Cause]:
    """List gaps of whole measurements and of single coordinates."""
    missing = np.isnan(record.ys)
    whole = missing.all(axis=1)
    found = [Cause("missing", a, b - 1, None, np.nan, "no measurement") for a, b in runs_of(whole)]
    for j in range(missing.shape[1]):
        sentence = "this coordinate is missing"
        found += [Cause("missing", a, b - 1, j, np.nan, sentence) for a, b in runs_of(missing[:, j] & ~whole)]
    return found


def _stuck_causes(record: InnovationRecord) -> list[Cause]:
    """List intervals in which a sensor repeats one value."""
    found = []
    for j, repeats in enumerate(record.repeats.T):
        edges = [0, *(np.flatnonzero(np.diff(repeats)) + 1).tolist(), len(repeats)]
        for a, b in pairwise(edges):
            if repeats[a]:
                found.append(Cause("stuck", a, b - 1, j, np.nan, f"the same value for {repeats[a]} steps"))
    return found
