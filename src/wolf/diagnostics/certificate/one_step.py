"""Entries of a certificate about one error in one step: influence, mean shift, far influence, step efficiency."""

from typing import Any

import numpy as np

from wolf.diagnostics.certificate.certificate import CertificateEntry, format_number
from wolf.diagnostics.certificate.influence_bounds import WorstError
from wolf.diagnostics.certificate.operating_point import Expectation
from wolf.inference import weights
from wolf.inference.filters import GaussianFilter
from wolf.inference.noise import Weighted
from wolf.inference.weights import calibration
from wolf.interfaces import Filter
from wolf.statespace import Model

MAX_COORDINATES_IN_TABLE = 4  # coordinates of an error that are written out in the table


def one_step_entries(
    worst: list[WorstError], labels: list[str], expected: Expectation, *, along: bool
) -> tuple[list[CertificateEntry], dict[str, Any]]:
    """Make the entries about one error in one step, for the worst operating point."""
    first = max(range(len(worst)), key=lambda i: worst[i].influence)
    second = max(range(len(worst)), key=lambda i: worst[i].shift)
    entries = []
    for name, i, unit in (("influence", first, "nats"), ("mean shift", second, "sd")):
        case = worst[i]
        shifted = name == "mean shift"
        error, radius = (case.shift_error, case.shift_radius) if shifted else (case.error, case.radius)
        value = case.shift if shifted else case.influence
        what = "of the posterior mean" if shifted else "KL from the clean posterior"
        place = f", {labels[i]}" if along else ""
        power = 0.5 * case.power if shifted else case.power  # the divergence is proportional to the squared shift
        description = f"{what}; {_describe_location(power, value, error, radius)}{place}"
        details = {"radius": radius, "error": error, "growth": power, "residual": np.asarray(expected.residual)[i]}
        entries.append(CertificateEntry(name, value, unit, _basis(case), description, details=details))
    case = worst[first]
    description = "limit as the error grows" if np.isfinite(case.far) else "grows without bound with the error"
    entries.append(CertificateEntry("far influence", case.far, "nats", _basis(case), description))
    curve = {"radii": case.radii, "influence": case.curve, "peak": (case.radius, case.influence)}
    curve["kalman"] = _kalman_coefficient(expected, first) * case.radii**2
    return entries, curve


def _basis(case: WorstError) -> str:
    return "exact" if case.exact else "searched"


def _describe_location(power: float, value: float, error: np.ndarray, radius: float) -> str:
    if not np.isfinite(value):
        return f"grows like the error to the power {format_number(power)}"
    if not np.isfinite(radius):
        return "approached as the error grows"
    numbers = ", ".join(format_number(number) for number in error[:MAX_COORDINATES_IN_TABLE]) + (
        ", ..." if len(error) > MAX_COORDINATES_IN_TABLE else ""
    )
    return f"at {format_number(radius)} sd from the prediction, error ({numbers})"


def _kalman_coefficient(expected: Expectation, i: int) -> float:
    """Compute the influence of an unweighted update in its worst direction, divided by the squared radius.

    With constant S and R the shift is `P Hᵀ S⁻¹ e`, and in the metric of the posterior its squared length is
    `eᵀ (R⁻¹ - S⁻¹) e`, by the matrix inversion lemma.
    """
    root = np.linalg.cholesky(np.asarray(expected.innovation_cov)[i])
    obs_cov = np.asarray(expected.obs_cov)[i]
    return 0.5 * float(np.linalg.eigvalsh(root.T @ np.linalg.solve(obs_cov, root))[-1] - 1.0)


def step_efficiency_entries(method: Filter, model: Model) -> list[CertificateEntry]:
    """Evaluate the closed form, available if the weight is a function of the squared distance in S only."""
    weight = method.noise.weight if isinstance(method.noise, Weighted) else None
    families = (weights.MahalanobisIMQ, weights.MahalanobisThreshold, weights.Welsch, weights.Tukey, weights.Huber)
    if not isinstance(weight, families) or weight.metric != "S" or type(method) is not GaussianFilter:
        return []
    size = model.obs_dim
    family: Any = type(weight)
    c = calibration.threshold(family, size, weights.EFFICIENCY) if weight.c is None else float(weight.c)
    value = calibration.efficiency_of(family, c, size)
    description = "variance reduction of one clean measurement that is kept at small gain, the worst case"
    return [CertificateEntry("step efficiency", value, "share", "exact", description)]
