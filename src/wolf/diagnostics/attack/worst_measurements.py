"""Attack a filter: the few wrong measurements that hurt it most.

A certificate bounds what one error does in one step; errors that work together over many steps are found by search.
Times are chosen greedily, and as bursts; sizes and directions by ascent along the gradient through the whole filter,
from many starts at once; then all of it by small random changes. A hard gate has no useful gradient, so its place is
taken by a soft one that is hardened step by step. Damage is always that of the real filter, so what is found is a lower
bound of the worst.
"""

import dataclasses
from typing import Any

import jax
import numpy as np

from wolf import validation
from wolf.diagnostics.attack.adversarial_search import ascend, damages, polish, run_clean, starts
from wolf.execution import validate
from wolf.numerics.precision import as_key, precision
from wolf.numerics.pytree import cast
from wolf.results import count, describe_method
from wolf.statespace import Model

LARGEST = 1e3  # size of errors by default, in standard deviations of the predicted measurement


@dataclasses.dataclass(frozen=True, repr=False)
class Attack:
    """The worst contamination that was found.

    Attributes:
        ys: measurements with the errors in them, (T, M).
        times: steps that were contaminated, increasing, (k,).
        errors: what was added there, (k, M).
        sizes: of the errors, in standard deviations of the predicted measurement, (k,).
        damage: distance of the mean from that of the clean run at each step, in posterior standard deviations, (T,).
        method: that was attacked.
        limit: largest size that was allowed.
    """

    ys: np.ndarray
    times: np.ndarray
    errors: np.ndarray
    sizes: np.ndarray
    damage: np.ndarray
    method: Any
    limit: float

    @property
    def total(self) -> float:
        """Root of the mean squared damage: what the search maximises."""
        return float(np.sqrt(np.mean(self.damage**2)))

    def __repr__(self) -> str:
        """Tell where, how large and with what effect."""
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
    method: Any,
    ys: Any,
    num_outliers: int = 1,
    *,
    size: float | None = None,
    key: Any = 0,
    restarts: int = 16,
) -> Attack:
    """Search for the few errors in a series that hurt a filter most.

    Args:
        model: as in `wolf.filter`, without inputs.
        method: as in `wolf.filter`; any Gaussian filter.
        ys: clean measurements, (T, M).
        num_outliers: how many steps may be contaminated.
        size: largest error, in standard deviations of the predicted measurement; default: 1000.
        key: seed or JAX key.
        restarts: number of starts that climb side by side.

    Returns:
        An `Attack`; its damage is that of the method as it is.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> ys = wolf.simulate.trajectory(model, 50, key=0).measurements
        >>> mild, gross = (wolf.attack(model, "KF", ys, size=size).total for size in (10.0, 1000.0))
        >>> round(gross / mild)
        100
    """
    validation.key(key, needed=True)
    array, method = _check(model, method, ys, num_outliers, size, restarts)
    limit = LARGEST if size is None else float(size)
    places = np.flatnonzero(np.isfinite(array).any(axis=1))
    with precision("float64"):
        engine = (cast(validate.adapt_model(model, method, None), np.float64), cast(method, np.float64))
        baseline = run_clean(*engine, array)
        rng = np.random.default_rng(np.asarray(jax.random.bits(as_key(key), (4,), np.uint32)))
        first = starts(engine, baseline, places, num_outliers, limit, restarts, rng)
        climbed = ascend(engine, baseline, *first, limit)
        times, points = polish(engine, baseline, places, *climbed, limit, rng)
        order = np.argsort(times)
        times, points = times[order], points[order]
        damage = np.sqrt(damages(engine, baseline, times[None], points[None])[0])
    errors = np.einsum("kij,kj->ki", np.asarray(baseline.innovation_roots)[times], points)
    dirty = array.copy()
    dirty[times] += errors
    return Attack(dirty, times, errors, np.linalg.norm(points, axis=1), damage, method, limit)


def _check(model: Model, method: Any, ys: Any, count: int, size: Any, restarts: int) -> tuple[np.ndarray, Any]:
    method = validate.resolve_method(method, model)
    if method.requirements.key:
        raise ValueError(f"attack takes Gaussian filters; {type(method).__name__} draws random numbers")
    if model.takes_inputs:
        raise ValueError("attack takes models without inputs")
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
        raise ValueError(f"attack takes Gaussian filters, with a mean and a covariance; got {name}")
    return array, method
