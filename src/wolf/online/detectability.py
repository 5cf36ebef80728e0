"""The smallest fault of each sensor that a filter would notice: the minimal detectable bias of geodesy (Baarda 1968).

A measurement of coordinate i that is off by b is flagged where the residual is beyond the threshold τ of the filter:
with noise of innovation variance S with probability Φ((b - τ)/√S) + Φ((-b - τ)/√S). The threshold is found by
bisection: steps with a measurement as predicted, except for one coordinate, from one and the same state. It includes
the weight, the learned noise and the learned rate of outliers.
"""

from collections.abc import Callable
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from wolf.interfaces import Dtype
from wolf.online.prediction import make_prediction
from wolf.online.stepper import Matrices, Stepper
from wolf.statespace import Model

if TYPE_CHECKING:
    from wolf.results import Filtered

POWER = 0.95  # probability with which the fault is flagged
LARGEST_FAULT = 64.0  # standard deviations of the innovation; a fault that is not flagged there never is
BISECTIONS = 22  # the threshold is found to 2e-5 standard deviations


def smallest_faults(
    stepper: Stepper, changed: Model, us: list[np.ndarray], matrices: Matrices, dtype: Dtype
) -> np.ndarray:
    """Compute the smallest fault of each coordinate that the next step would flag, (M,); inf for none.

    The state of the stepper is left as it was.

    Args:
        stepper: with the present state.
        changed: the model of the step.
        us: inputs of this step and of the previous one, if the model has inputs.
        matrices: of the step.
        dtype: precision.
    """
    ahead = make_prediction(stepper, changed, us, matrices, dtype)
    if ahead.innovation_cov is None:
        raise ValueError("detectable needs the covariance of the innovation: a Gaussian filter, such as 'WoLF'")
    snapshot = stepper.snapshot()

    def flagged(i: int, fault: float) -> bool:
        y = ahead.measurement.copy()
        y[i] += fault
        found = np.atleast_1d(stepper.step(y, us, matrices).outlier)
        stepper.restore(snapshot)
        return bool(found[min(i, len(found) - 1)])

    variances = np.diagonal(ahead.innovation_cov).astype(float)
    try:
        scale = stepper.step(ahead.measurement, us, matrices).noise_scale
        stepper.restore(snapshot)
        if scale is not None:  # noise that was learned to be larger or smaller than R
            variances = np.maximum(variances + (scale - 1.0) * np.diagonal(changed.obs_cov), 0.0)
        sizes = np.sqrt(variances)
        thresholds = [_bisect(partial(flagged, i), sizes[i]) for i in range(len(sizes))]
    finally:
        stepper.restore(snapshot)
    return np.array([_fault_of(*each) for each in zip(thresholds, sizes, strict=True)])


def _fault_of(threshold: float, size: float) -> float:
    """Return the smallest fault that is flagged with probability `POWER`, from the threshold and the noise."""
    if not np.isfinite(threshold) or size <= 0:
        return threshold
    noise = NormalDist()

    def flagged(fault: float) -> bool:
        return noise.cdf((fault - threshold) / size) + noise.cdf((-fault - threshold) / size) >= POWER

    return _bisect(flagged, threshold / LARGEST_FAULT + size)


def _bisect(flagged: Callable[[float], bool], size: float) -> float:
    """Find the smallest flagged fault between zero and the largest one; inf if that is not flagged."""
    low, high = 0.0, LARGEST_FAULT * float(size)
    if not flagged(high):
        return float("inf")
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if flagged(middle) else (middle, high)
    return high


def faults_of_series(out: "Filtered") -> np.ndarray:
    """Compute the smallest fault of each coordinate that each step of a filtered series would have flagged, (T, M)."""
    from wolf.online.online import Online

    if out.num_series is not None:
        raise ValueError("pick one series, as out[0].detectable")
    if int(out.final.t) != len(out.ys):
        raise ValueError("detectable needs a series that was filtered from the prior, as a whole")
    online = Online(
        out.model, out.method, key=out.settings.get("key"), update_first=out.update_first, dtype=out.settings["dtype"]
    )
    found = np.empty(out.ys.shape)
    for t, y in enumerate(out.ys):
        u = None if out.inputs is None else out.inputs[t]
        found[t] = online.detectable_for(u)
        online.step(y, u=u)
    return found
