"""How long errors last, from the data: a memory of the noise, fitted with the levels of R and Q."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.fitting.maximum_likelihood import fit
from wolf.fitting.result import Fit
from wolf.interfaces import Filter
from wolf.models import with_ar1_noise
from wolf.statespace import LinearModel, StateSpaceModel

LEVELS = {"noise": 1.0, "dynamics": 1.0}
LASTING = {"memory": 0.9, "share": 0.9}


def fit_ar1_noise(
    model: LinearModel | StateSpaceModel,
    ys: ArrayLike,
    *,
    inputs: ArrayLike | None = None,
    method: str | Filter | None = None,
    restarts: int = 2,
    seed: int = 0,
) -> Fit:
    """Find how long errors last, outliers aside: a memory for `wolf.models.with_ar1_noise`, and what goes with it.

    A level of R or Q that is off looks like errors that last, so all four are found together: `memory` and `share` (of
    the noise that has it), and the factors `noise` on R and `dynamics` on Q. If the data do not speak for a memory, by
    Schwarz's criterion, the fit has none of the first two, and its model no states for them. What is known is held by
    `wolf.fit` with a builder of your own.

    Args:
        model: linear or not, with noise that has no memory.
        ys: measurements as in `wolf.fit`; some hundred of one sensor, or several series.
        inputs: of `wolf.fit`.
        method: of `wolf.fit`.
        restarts: of `wolf.fit`.
        seed: of `wolf.fit`.

    Returns:
        A `Fit`; its `model` is ready for `wolf.filter`. Its first states are those of `model`.

    Example:
        >>> import wolf
        >>> level = wolf.models.local_level(level_var=0.01, obs_var=1.0)
        >>> ys = wolf.simulate.trajectory(wolf.models.with_ar1_noise(level, 0.8), 500, key=1).measurements
        >>> found = wolf.fit_ar1_noise(level, ys)
        >>> round(found.parameters["memory"], 1)
        0.8
        >>> ys = wolf.simulate.trajectory(level, 500, key=1).measurements  # errors that are new each time
        >>> list(wolf.fit_ar1_noise(level, ys).parameters)
        ['noise', 'dynamics']
    """
    if not isinstance(model, LinearModel | StateSpaceModel):
        raise ValueError(f"model must be a LinearModel or a StateSpaceModel; got {validation.short_repr(model)}")

    def lasting(memory: Any, share: Any, noise: Any, dynamics: Any) -> LinearModel | StateSpaceModel:
        return with_ar1_noise(model.scaled(dynamics, noise), memory, share)

    def new(noise: Any, dynamics: Any) -> LinearModel | StateSpaceModel:
        return model.scaled(dynamics, noise)

    options: dict[str, Any] = {"inputs": inputs, "method": method, "restarts": restarts, "seed": seed}
    without = fit(new, ys, start=LEVELS, **options)
    found = fit(lasting, ys, start=LASTING | LEVELS, bounds=dict.fromkeys(LASTING, (0.0, 1.0)), **options)
    price = 0.5 * len(LASTING) * np.log(found.count)  # Schwarz 1978
    return found if found.score - price > without.score else without
