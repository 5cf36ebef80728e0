"""AR(1) measurement noise: its coefficient fitted together with the scale factors of R and Q."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.fitting.maximum_likelihood import fit
from wolf.fitting.result import Fit
from wolf.interfaces import Filter
from wolf.models import with_ar1_noise
from wolf.statespace import LinearModel, StateSpaceModel

SCALE_STARTS = {"noise_scale": 1.0, "dynamics_scale": 1.0}
AUTOCORRELATION_STARTS = {"phi": 0.9, "share": 0.9}


def fit_ar1_noise(
    model: LinearModel | StateSpaceModel,
    ys: ArrayLike,
    *,
    inputs: ArrayLike | None = None,
    method: str | Filter | None = None,
    restarts: int = 2,
    seed: int = 0,
) -> Fit:
    """Fit the AR(1) coefficient of the measurement noise, robust to outliers, for `wolf.models.with_ar1_noise`.

    Wrong scale factors of R or Q resemble autocorrelated noise, so all four parameters are fitted together: `phi` and
    `share` (of the noise variance that is autocorrelated), and the factors `noise_scale` on R and `dynamics_scale` on
    Q. If the data do not favour autocorrelation, by Schwarz's criterion, the fit has neither `phi` nor `share`, and its
    model no states for them. Known parameters can be held by `wolf.fit` with a custom builder.

    Args:
        model: linear or nonlinear model with white measurement noise.
        ys: measurements as in `wolf.fit`; a few hundred of one sensor, or several series.
        inputs: as in `wolf.fit`.
        method: as in `wolf.fit`.
        restarts: as in `wolf.fit`.
        seed: as in `wolf.fit`.

    Returns:
        A `Fit`; its `model` is ready for `wolf.filter`. Its first states are those of `model`.

    Example:
        >>> import wolf
        >>> level = wolf.models.local_level(level_var=0.01, obs_var=1.0)
        >>> ys = wolf.simulate.trajectory(wolf.models.with_ar1_noise(level, 0.8), 500, key=1).measurements
        >>> found = wolf.fit_ar1_noise(level, ys)
        >>> round(found.parameters["phi"], 1)
        0.8
        >>> ys = wolf.simulate.trajectory(level, 500, key=1).measurements  # white noise
        >>> list(wolf.fit_ar1_noise(level, ys).parameters)
        ['noise_scale', 'dynamics_scale']
    """
    if not isinstance(model, LinearModel | StateSpaceModel):
        raise ValueError(f"model must be a LinearModel or a StateSpaceModel; got {validation.short_repr(model)}")

    def autocorrelated(
        phi: float, share: float, noise_scale: float, dynamics_scale: float
    ) -> LinearModel | StateSpaceModel:
        return with_ar1_noise(model.scaled(dynamics_scale, noise_scale), phi, share)

    def white(noise_scale: float, dynamics_scale: float) -> LinearModel | StateSpaceModel:
        return model.scaled(dynamics_scale, noise_scale)

    options: dict[str, Any] = {"inputs": inputs, "method": method, "restarts": restarts, "seed": seed}
    without_autocorrelation = fit(white, ys, start=SCALE_STARTS, **options)
    with_autocorrelation = fit(
        autocorrelated,
        ys,
        start=AUTOCORRELATION_STARTS | SCALE_STARTS,
        bounds=dict.fromkeys(AUTOCORRELATION_STARTS, (0.0, 1.0)),
        **options,
    )
    penalty = 0.5 * len(AUTOCORRELATION_STARTS) * np.log(with_autocorrelation.count)  # Schwarz 1978
    return (
        with_autocorrelation
        if with_autocorrelation.score - penalty > without_autocorrelation.score
        else without_autocorrelation
    )
