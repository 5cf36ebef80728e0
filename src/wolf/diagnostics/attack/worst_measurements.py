"""Adversarial attack: the few measurement errors that damage a filter most.

A certificate bounds the effect of one error in one step; the joint effect of errors over many steps is found by search.
Times are chosen greedily and as bursts; sizes and directions by gradient ascent through the whole filter, from many
starts in parallel; then all of them are refined by small random changes. A hard gate has no useful gradient, so it is
replaced by a soft gate that is hardened step by step. The damage is always evaluated with the original method, so the
result is a lower bound of the worst case.
"""

import dataclasses

import jax
import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.diagnostics.attack.adversarial_search import (
    gradient_ascent,
    initial_contaminations,
    random_search,
    run_clean,
    squared_distances,
)
from wolf.execution import validate
from wolf.interfaces import Filter, Key
from wolf.numerics.precision import as_key, precision
from wolf.numerics.pytree import cast
from wolf.results import count, describe_method
from wolf.statespace import Model

DEFAULT_SIZE_LIMIT = 1e3  # default limit of the size of errors, in standard deviations of the predicted measurement


@dataclasses.dataclass(frozen=True, repr=False)
class Attack:
    """Worst contamination found by the search.

    Attributes:
        ys: contaminated measurements, (T, M).
        times: contaminated steps, increasing, (k,).
        errors: errors added at these steps, (k, M).
        sizes: norms of the errors, in standard deviations of the predicted measurement, (k,).
        damage: distance of the mean from that of the clean run at each step, in posterior standard deviations, (T,).
        method: attacked method.
        limit: largest size that was allowed.
    """

    ys: np.ndarray
    times: np.ndarray
    errors: np.ndarray
    sizes: np.ndarray
    damage: np.ndarray
    method: Filter
    limit: float

    @property
    def total(self) -> float:
        """Root mean square of the damage: the objective of the search."""
        return float(np.sqrt(np.mean(self.damage**2)))

    def __repr__(self) -> str:
        """Return the times, sizes and damage of the errors as text."""
        errors, length = count(len(self.times), "error"), count(len(self.damage), "step")
        steps = ", ".join(map(str, self.times[:10])) + (", ..." if len(self.times) > 10 else "")
        sizes = ", ".join(f"{size:.3g}" for size in self.sizes[:10]) + (", ..." if len(self.sizes) > 10 else "")
        return "\n".join(
            [
                f"Attack on {describe_method(self.method)}: {errors} in {length}",
                f"  at {'step' if len(self.times) == 1 else 'steps'} {steps}",
                f"  of size {sizes} sd (at most {self.limit:.3g})",
                f"  damage {self.damage.max():.3g} posterior sd at worst, {self.total:.3g} root mean square",
            ]
        )


def attack(
    model: Model,
    method: str | Filter,
    ys: ArrayLike,
    num_outliers: int = 1,
    *,
    size: float | None = None,
    key: Key = 0,
    restarts: int = 16,
) -> Attack:
    """Search for the few measurement errors in a series that damage a filter most.

    Args:
        model: state space model as in `wolf.filter`, without inputs.
        method: any Gaussian filter, as in `wolf.filter`.
        ys: clean measurements, (T, M).
        num_outliers: number of contaminated steps.
        size: largest size of an error, in standard deviations of the predicted measurement; default: 1000.
        key: seed or JAX key.
        restarts: number of starts of the search, run in parallel.

    Returns:
        An `Attack`; its damage is evaluated with the given method, without relaxation.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> ys = wolf.simulate.trajectory(model, 50, key=0).measurements
        >>> mild, gross = (wolf.attack(model, "KF", ys, size=size).total for size in (10.0, 1000.0))
        >>> round(gross / mild)
        100
    """
    validation.key(key, needed=True)
    array, attacked = _check_arguments(model, method, ys, num_outliers, size, restarts)
    limit = DEFAULT_SIZE_LIMIT if size is None else float(size)
    usable_steps = np.flatnonzero(np.isfinite(array).any(axis=1))
    with precision("float64"):
        target = (cast(validate.adapt_model(model, attacked, None), np.float64), cast(attacked, np.float64))
        baseline = run_clean(*target, array)
        rng = np.random.default_rng(np.asarray(jax.random.bits(as_key(key), (4,), np.uint32)))
        first = initial_contaminations(target, baseline, usable_steps, num_outliers, limit, restarts, rng)
        ascended = gradient_ascent(target, baseline, *first, limit)
        times, points = random_search(target, baseline, usable_steps, *ascended, limit, rng)
        order = np.argsort(times)
        times, points = times[order], points[order]
        damage = np.sqrt(squared_distances(target, baseline, times[None], points[None])[0])
    errors = np.einsum("kij,kj->ki", np.asarray(baseline.innovation_roots)[times], points)
    dirty = array.copy()
    dirty[times] += errors
    return Attack(dirty, times, errors, np.linalg.norm(points, axis=1), damage, attacked, limit)


def _check_arguments(
    model: Model, method: str | Filter, ys: ArrayLike, count: int, size: float | None, restarts: int
) -> tuple[np.ndarray, Filter]:
    method = validate.resolve_method(method, model)
    if method.requirements.key:
        raise ValueError(f"attack needs a Gaussian filter; {type(method).__name__} draws random numbers")
    if model.takes_inputs:
        raise ValueError("attack does not support models with inputs; got a model that takes inputs")
    validate.check_functions(model, None)
    array = validation.measurements(ys, model.obs_dim)
    validate.check_time_axes(model, len(array), False, "attack")
    validation.count("num_outliers", count)
    validation.count("restarts", restarts)
    usable = int(np.isfinite(array).any(axis=1).sum())
    if count > usable:
        raise ValueError(f"num_outliers must be at most {usable}, the steps that have measurements; got {count}")
    if size is not None:
        validation.positive_number("size", size)
    if jax.eval_shape(lambda: method.init(model, None).cov) is None:
        name = type(method).__name__
        raise ValueError(f"attack needs a Gaussian filter, with a mean and a covariance; got {name}")
    return array, method
