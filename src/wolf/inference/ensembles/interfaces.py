"""What an analysis must be able to do, and what it needs: the choices that an `EnsembleFilter` has to fit together."""

import dataclasses
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from jax import Array

from wolf.inference.ensembles.observation_ensemble import ObservationEnsemble


@dataclasses.dataclass(frozen=True)
class AnalysisRequirements:
    """What an analysis needs of its ensemble and its model, known before a run.

    Args:
        perturbed: draws of the measurement noise, one for each member.
        geometry: how it is localised: by tapered covariances, by the observations near each state, or not at all.
        independent: noise without correlations, as variances.
        per_member: weights may differ between members.
        error_weights: takes the weights of the printed filters too, which look at perturbed errors.
    """

    perturbed: bool = False
    geometry: Literal["none", "covariance", "observations"] = "none"
    independent: bool = False
    per_member: bool = False
    error_weights: bool = False


class AnalysisResult(NamedTuple):
    """Members after an analysis: mean (D,) and anomalies (N, D), which may have a small mean of their own."""

    mean: Array
    anomalies: Array


@runtime_checkable
class Analysis(Protocol):
    """How members learn from a measurement; subclass it, and say what it needs."""

    @property
    def requirements(self) -> AnalysisRequirements:
        """What the analysis needs."""
        return AnalysisRequirements()

    def __call__(
        self, mean: Array, anomalies: Array, sight: ObservationEnsemble, weight: Array, draws: Any, key: Any, local: Any
    ) -> AnalysisResult:
        """Give the new mean and anomalies.

        Args:
            mean: (D,).
            anomalies: (N, D).
            sight: of the measurement.
            weight: (M,), or (N, M) for one of each member's own.
            draws: standard normal numbers (N, M), if it needs perturbed observations.
            key: for an analysis that draws more.
            local: what the localisation gives for its geometry; None without one.
        """
        ...
