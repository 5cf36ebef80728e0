"""Isolated outliers: one or two rejected measurements, after which the series continues as predicted before."""

import numpy as np

from wolf.diagnostics.faults.innovations import InnovationRecord
from wolf.results import Filtered
from wolf.statespace import LinearModel
from wolf.statespace.array_fields import varies

MIN_OUTLIER_STDS = 6.0  # standard deviations above which a rejected measurement is false
AGREEMENT_STDS = 3.0  # standard deviations within which later measurements agree with the prediction
NUM_LATER = 2  # accepted measurements after it that must agree
MAX_DIMENSIONS = 32  # state plus measurement dimensions above which no patterns are searched
SENTENCE = "measurements before and after it agree with each other, not with it"


def has_fixed_matrices(out: Filtered) -> bool:
    """Return whether the model is linear with constant matrices and small enough for the pattern search."""
    model = out.model
    if not isinstance(model, LinearModel) or model.residual is not None:
        return False
    if any(map(varies, (model.F, model.H, model.Q, model.R))):
        return False
    return bool(model.state_dim + model.obs_dim <= MAX_DIMENSIONS)


def isolated_outliers(record: InnovationRecord, out: Filtered) -> np.ndarray:
    """Find isolated outliers, (T, M) of bool; none for a model without fixed matrices."""
    if not has_fixed_matrices(out):
        return np.zeros(record.rejected.shape, bool)
    model, rejected = out.model, record.rejected_steps(None)
    dynamics = np.eye(model.state_dim) if model.F is None else np.asarray(model.F)
    # B u, whatever the order of update and prediction.
    input_effects = None if out.inputs is None else out.predicted_means[1:] - out.means[:-1] @ dynamics.T
    if record.is_joint:
        near = record.nis <= MIN_OUTLIER_STDS**2
    else:
        near = np.any(record.rejected & (record.distances <= MIN_OUTLIER_STDS), axis=1)
    accepted = np.isfinite(record.ys).any(axis=1) & ~rejected
    found = np.zeros(len(rejected), bool)
    for length in (1, 2):
        last = len(rejected) - length - NUM_LATER + 1
        first = np.arange(1, max(last, 1))
        inside = np.logical_and.reduce([rejected[first + k] & ~near[first + k] for k in range(length)])
        later = np.logical_and.reduce([accepted[first + length + k] for k in range(NUM_LATER)])
        first = first[inside & later & accepted[first - 1]]
        mean, agrees = record.predicted.mean[first], np.ones(len(first), bool)  # prediction before the first of them
        for k in range(1, length + NUM_LATER):
            mean = mean @ dynamics.T + (0.0 if input_effects is None else input_effects[first + k - 1])
            errors = np.abs(record.ys[first + k] - mean @ np.asarray(model.H).T) / record.innovation_stds[first]
            agrees &= (k < length) | (~np.isfinite(errors) | (errors < AGREEMENT_STDS)).all(axis=1)
        for k in range(length):
            found[first[agrees] + k] = True
    return found[:, None] & record.rejected
