"""Protocol of an analysis, and the requirements by which an `EnsembleFilter` checks its components."""

import dataclasses
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf.inference.ensembles.observation_ensemble import ObservationEnsemble


@dataclasses.dataclass(frozen=True)
class AnalysisRequirements:
    """Requirements of an analysis on its ensemble and model, known before a run.

    Args:
        perturbed: draws of the measurement noise, one per member.
        geometry: kind of localisation: tapered covariances, the observations near each state, or none.
        independent: uncorrelated noise, given as variances.
        per_member: whether weights may differ between members.
        error_weights: whether the weights of the published filters, which use perturbed errors, are supported.
    """

    perturbed: bool = False
    geometry: Literal["none", "covariance", "observations"] = "none"
    independent: bool = False
    per_member: bool = False
    error_weights: bool = False


class AnalysisResult(NamedTuple):
    """Members after an analysis: mean (D,) and anomalies (N, D), whose mean may be slightly off zero."""

    mean: Array
    anomalies: Array


@runtime_checkable
class Localisation(Protocol):
    """Distances of states and observations, and the taper of covariances over them."""

    def cross(self, state_dim: int, obs_dim: int) -> Array | np.ndarray:
        """Return the distances from observations to states, (M, D)."""
        ...

    def between(self, state_dim: int, obs_dim: int) -> Array | np.ndarray:
        """Return the distances between observations, (M, M)."""
        ...

    def near(self, state_dim: int, obs_dim: int) -> tuple[Array | np.ndarray, Array | np.ndarray]:
        """Return indices and distances of the observations near each state, (D, K)."""
        ...

    def taper(self, distance: ArrayLike, like: Array) -> Array:
        """Evaluate the taper at distances."""
        ...


@runtime_checkable
class Analysis(Protocol):
    """Update of the members with a measurement; subclasses override `requirements`."""

    @property
    def requirements(self) -> AnalysisRequirements:
        """Requirements of the analysis."""
        return AnalysisRequirements()

    def __call__(
        self,
        mean: Array,
        anomalies: Array,
        sight: ObservationEnsemble,
        weight: Array,
        draws: Any,
        key: Array,
        local: Any,
    ) -> AnalysisResult:
        """Compute the new mean and anomalies.

        Args:
            mean: (D,).
            anomalies: (N, D).
            sight: predictions and residual of the measurement.
            weight: (M,), or (N, M) for weights per member.
            draws: standard normal numbers (N, M), if it requires perturbed observations.
            key: for an analysis that draws random numbers itself.
            local: tapers or neighbourhoods of the localisation; None without one.
        """
        ...
