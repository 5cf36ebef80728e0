"""What a run keeps of each step: everything, means, nothing, or what a function of yours returns."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jax import Array

from wolf.beliefs import Gaussian
from wolf.interfaces import StepInfo


def save_all(state: Any, info: StepInfo) -> dict[str, Array]:
    """Keep everything that a result shows; of a belief without a covariance, its variances."""
    belief = {"means": state.mean, "covs": state.cov}
    if belief["covs"] is None:
        belief["variances"] = state.variances
    return _known(belief | _everything(info))


def save_means(state: Any, info: StepInfo) -> dict[str, Array]:
    """Keep means and weights, not covariances."""
    report = {"weights": info.weight, "outliers": info.outlier, "log_liks": info.log_likelihood}
    return _known({"means": state.mean} | report)


def save_final(state: Any, info: StepInfo) -> dict[str, Array]:
    """Keep nothing but the log-likelihood of each step."""
    return _known({"log_liks": info.log_likelihood})


@dataclasses.dataclass(frozen=True)
class LeanRecorder:
    """Keep what people look at first of what `save_all` keeps, and tell the names of all of it."""

    def __call__(self, state: Any, info: StepInfo) -> dict[str, Array]:
        """Keep the belief, weights, outliers and log-likelihoods."""
        kept = save_all(state, info)
        return {name: kept[name] for name in LEAN if name in kept}

    def describe(self, info: StepInfo) -> tuple[str, ...]:
        """Name what there would be beside the belief."""
        return tuple(_known(_everything(info)))


LEAN = ("means", "covs", "variances", "weights", "outliers", "log_liks")
RECORDERS: dict[str, Callable] = {"all": save_all, "means": save_means, "final": save_final}


def _known(saved: dict[str, Any]) -> dict[str, Array]:
    """Leave out what this filter does not tell."""
    return {name: value for name, value in saved.items() if value is not None}


def _everything(info: StepInfo) -> dict[str, Any]:
    before = Gaussian(None, None) if info.predicted is None else info.predicted
    return {
        "predicted_means": before.mean,
        "predicted_covs": before.cov,
        "residuals": info.residual,
        "innovation_covs": info.innovation_cov,
        "weights": info.weight,
        "outliers": info.outlier,
        "nis": info.nis,
        "log_liks": info.log_likelihood,
        "weighted_log_liks": info.weighted_log_likelihood,
        "outlier_probabilities": info.outlier_probability,
        "inflations": info.inflation,
        "noise_scales": info.noise_scale,
        "dynamics_scales": info.dynamics_scale,
    }
