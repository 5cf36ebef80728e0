"""Recorders: what a run saves of each step."""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from jax import Array

from wolf.beliefs import Gaussian
from wolf.interfaces import State, StepInfo


def save_all(state: State, info: StepInfo) -> dict[str, Array]:
    """Record all fields of a result; for a belief without a covariance, its variances."""
    belief = {"means": state.mean, "covs": state.cov}
    if belief["covs"] is None:
        belief["variances"] = state.variances
    return _without_none(belief | _step_fields(info))


def save_means(state: State, info: StepInfo) -> dict[str, Array]:
    """Record means, weights, outliers and log-likelihoods, but no covariances."""
    report = {"weights": info.weight, "outliers": info.outlier, "log_liks": info.log_likelihood}
    return _without_none({"means": state.mean} | report)


def save_final(state: State, info: StepInfo) -> dict[str, Array]:
    """Record only the log-likelihood of each step."""
    return _without_none({"log_liks": info.log_likelihood})


@runtime_checkable
class DescribingRecorder(Protocol):
    """Recorder that also describes a step; native code asks once, while it traces."""

    def describe(self, info: StepInfo) -> Any:
        """Return a description that does not depend on the numbers."""


@dataclasses.dataclass(frozen=True)
class LeanRecorder:
    """Recorder of the most used fields of `save_all`, which also names all of them."""

    def __call__(self, state: State, info: StepInfo) -> dict[str, Array]:
        """Record the belief, weights, outliers and log-likelihoods."""
        kept = save_all(state, info)
        return {name: kept[name] for name in LEAN_FIELDS if name in kept}

    def describe(self, info: StepInfo) -> tuple[str, ...]:
        """Return the names of the fields that `save_all` would record beside the belief."""
        return tuple(_without_none(_step_fields(info)))


LEAN_FIELDS = ("means", "covs", "variances", "weights", "outliers", "log_liks")
RECORDERS: dict[str, Callable] = {"all": save_all, "means": save_means, "final": save_final}


def _without_none(saved: dict[str, Array | None]) -> dict[str, Array]:
    """Remove the fields that this filter does not compute."""
    return {name: value for name, value in saved.items() if value is not None}


def _step_fields(info: StepInfo) -> dict[str, Array | None]:
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
        "stuck": info.stuck,
    }
