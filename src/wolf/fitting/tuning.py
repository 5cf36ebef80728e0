"""Selection of a weight's threshold without a known truth: `wolf.tune(model, ys, "WoLF-TMD")`.

Every candidate filters the same data and is scored by the log density of each measurement under a Student-t predictive
with 4 degrees of freedom. That score selects c about as well as the error against the truth; the weighted likelihood is
unsuitable, since rejecting all measurements costs nothing. All candidates run in one compiled call.
"""

import dataclasses
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf import validation
from wolf.engine import scan
from wolf.engine.measurements import preprocess
from wolf.execution import validate
from wolf.execution.xla_batching import bound_programs, bounded
from wolf.fitting import student_score
from wolf.inference import registry
from wolf.inference.noise import Weighted
from wolf.inference.weights import (
    EFFICIENCY,
    IMQ,
    DistanceWeight,
    MahalanobisIMQ,
    PerCoordinate,
    PerGroup,
    StudentWeight,
    calibration,
)
from wolf.interfaces import Filter, StepInfo, WeightFunction
from wolf.numerics.precision import precision
from wolf.numerics.pytree import PyTree, cast
from wolf.statespace import Model

CANDIDATES_PER_ROUND = 25  # candidates of each of the two rounds
RANGE_FACTOR = 8.0  # factor around the calibrated value that the first round spans, either way


@dataclasses.dataclass(frozen=True, repr=False)
class TuningResult:
    """Best threshold, and the scores of all candidates.

    Attributes:
        method: method with the best value, ready for `wolf.filter`.
        name: name of the tuned option.
        value: best value.
        score: mean log predictive density of a measured row, at the best value.
        values: all candidates, sorted.
        scores: their scores.
    """

    method: Filter
    name: str
    value: float
    score: float
    values: np.ndarray
    scores: np.ndarray

    def __repr__(self) -> str:
        """Return the best value, and whether it is at the edge of the range."""
        edge = self.value in (self.values[0], self.values[-1])
        where = (
            f"at the edge of [{self.values[0]:.4g}, {self.values[-1]:.4g}]: extend the range"
            if edge
            else (f"best of {len(self.values)} in [{self.values[0]:.4g}, {self.values[-1]:.4g}]")
        )
        return f"Tuned: {self.name} = {self.value:.4g} ({where}), score {self.score:.4f} per row"


def tune(
    model: Model,
    ys: ArrayLike,
    method: str = "WoLF-MD",
    *,
    name: str | None = None,
    low: float | None = None,
    high: float | None = None,
    inputs: ArrayLike | None = None,
    update_first: bool = False,
    **options: Any,
) -> TuningResult:
    """Select one option of a method by its predictive score.

    Args:
        model: state space model, as in `wolf.filter`.
        ys: measurements, (T, M) or (T,).
        method: name of a method with a threshold.
        name: name of the option; default: "c", or "dof" for WoLF-StudentT.
        low: smallest candidate; default: an eighth of the calibrated value.
        high: largest candidate; default: eight times the calibrated value.
        inputs: inputs, (T, U), for models that take them.
        update_first: as in `wolf.filter`.
        **options: further options of the method, kept fixed.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> ys = wolf.simulate.trajectory(model, 500, key=1, outliers=wolf.simulate.StudentT(2.01)).measurements
        >>> tuned = wolf.tune(model, ys, "WoLF-MD")
        >>> 1.0 < tuned.value < 8.0
        True
    """
    if not isinstance(method, str):
        raise ValueError(f"method must be a name, such as 'WoLF-TMD'; got {validation.short_repr(method)}")
    if name is not None and not isinstance(name, str):
        raise ValueError(f"name must be the name of an option, such as 'c'; got {validation.short_repr(name)}")
    validation.boolean("update_first", update_first)
    validate.check_model(model)
    first = validate.resolve_method(registry.make(method, **options), model)
    array = validation.measurements(ys, model.obs_dim)
    rows = int(np.isfinite(array).any(-1).sum())
    if not rows:
        raise ValueError("ys has no measurement to predict: all values are missing")
    name = ("dof" if isinstance(_tuned_weight(first), StudentWeight) else "c") if name is None else name
    low, high = _candidate_range(first, model, name, low, high)
    try:
        registry.make(method, **options | {name: low})
    except ValueError as error:
        raise ValueError(f"name must be a number among the options of {method}; got {name!r}: {error}") from error
    us = validation.inputs(inputs, len(array), model)
    validate.check_functions(model, us)
    validate.check_time_axes(model, len(array), update_first, "tune")
    bound_programs()

    def evaluate(values: np.ndarray) -> np.ndarray:
        candidates = [cast(registry.make(method, **options, **{name: value}), "float64") for value in values.tolist()]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *candidates)
        with precision("float64"):
            return (
                np.asarray(_score_candidates(cast(model, "float64"), stacked, array, us, update_first=update_first))
                / rows
            )

    values = np.geomspace(low, high, CANDIDATES_PER_ROUND)
    scores = evaluate(values)
    best = int(np.nanargmax(np.where(np.isfinite(scores), scores, -np.inf)))
    refined = np.geomspace(
        values[max(best - 1, 0)], values[min(best + 1, CANDIDATES_PER_ROUND - 1)], CANDIDATES_PER_ROUND + 2
    )[1:-1]
    values, scores = np.concatenate([values, refined]), np.concatenate([scores, evaluate(refined)])
    order = np.argsort(values)
    values, scores = values[order], scores[order]
    best = int(np.nanargmax(np.where(np.isfinite(scores), scores, -np.inf)))
    value = float(values[best])
    return TuningResult(
        registry.make(method, **options, **{name: value}), name, value, float(scores[best]), values, scores
    )


@bounded
@partial(jax.jit, static_argnames="update_first")
def _score_candidates(model: Model, candidates: PyTree, ys: Array, us: Array | None, update_first: bool) -> Array:
    count = jax.vmap(preprocess)(ys).num_observed

    def score_one(method: Filter) -> Array:
        _, (nis, log_density) = scan.run_filter(model, ys, method, us, save=_record_score, update_first=update_first)
        return student_score.log_student(log_density, nis, count).sum()

    return jax.lax.map(score_one, candidates)


def _record_score(state: PyTree, info: StepInfo) -> tuple[Array, Array]:
    return info.nis, info.log_likelihood


def _tuned_weight(method: Filter) -> WeightFunction | None:
    """Return the weight function that has the threshold."""
    weight = method.noise.weight if isinstance(method.noise, Weighted) else None
    return weight.weight if isinstance(weight, PerCoordinate | PerGroup) else weight


def _candidate_range(
    method: Filter, model: Model, name: str, low: float | None, high: float | None
) -> tuple[float, float]:
    """Return the range of the candidates, by default around the calibrated value."""
    if low is None or high is None:
        calibrated = _calibrated_value(_tuned_weight(method), model, name)
        low, high = (
            calibrated / RANGE_FACTOR if low is None else low,
            calibrated * RANGE_FACTOR if high is None else high,
        )
    low, high = validation.positive_number("low", low), validation.positive_number("high", high)
    if not low < high:
        raise ValueError(f"low and high must be positive and in this order; got {low!r} and {high!r}")
    return float(low), float(high)


def _calibrated_value(weight: WeightFunction | None, model: Model, name: str) -> float:
    if isinstance(weight, StudentWeight) and name == "dof":
        return float(np.asarray(weight.dof))
    if name == "c" and isinstance(weight, IMQ):
        variances = np.diagonal(model.obs_cov, axis1=-2, axis2=-1)
        return calibration.threshold(MahalanobisIMQ, model.obs_dim, EFFICIENCY) * float(np.sqrt(variances.mean()))
    if name == "c" and isinstance(weight, DistanceWeight):
        family: Any = type(weight)
        return calibration.threshold(family, model.obs_dim, EFFICIENCY)
    raise ValueError(
        f"this method has no calibrated {name} to start from; use one with a threshold, such as WoLF-TMD, or pass "
        "low= and high="
    )
