"""Functions that build a method: the public constructors, and factories for the rows of the registry."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from jax import Array
from jax.core import Tracer

from wolf import validation
from wolf.inference import ensembles, noise, weights
from wolf.inference.ensembles.as_published import ErrorWeight
from wolf.inference.filters import (
    CovarianceReset,
    EnsembleFilter,
    GaussianFilter,
    LowRankFilter,
)
from wolf.inference.filters.ensemble import DEFAULT_MEMBERS
from wolf.inference.linearization import Automatic, Linear, Taylor
from wolf.inference.noise.divergence_recovery import JumpRecovery
from wolf.interfaces import Filter, Form, Linearization, NoiseModel, Number, WeightFunction

IEKF_ITERATIONS = 5  # Gauss-Newton converges quadratically, so further iterations rarely change a digit
UNWEIGHTED = weights.Unweighted()
UNWEIGHTED_NOISE = noise.Weighted(UNWEIGHTED)


def KF(
    *,
    linearization: Linearization = Linear(),
    noise: NoiseModel = UNWEIGHTED_NOISE,
    form: Form = "auto",
    iterations: int = 1,
) -> GaussianFilter:
    """Build the Kalman filter, for linear models.

    The options are those of `GaussianFilter`.
    """
    return GaussianFilter(linearization, noise, form, iterations)


def EKF(
    *,
    linearization: Linearization = Taylor(),
    noise: NoiseModel = UNWEIGHTED_NOISE,
    form: Form = "auto",
    iterations: int = 1,
) -> GaussianFilter:
    """Build the extended Kalman filter.

    The options are those of `GaussianFilter`.
    """
    return GaussianFilter(linearization, noise, form, iterations)


def IEKF(
    iterations: int = IEKF_ITERATIONS,
    *,
    linearization: Linearization = Taylor(),
    noise: NoiseModel = UNWEIGHTED_NOISE,
    form: Form = "auto",
) -> GaussianFilter:
    """Build the iterated extended Kalman filter.

    The options are those of `GaussianFilter`.
    """
    return GaussianFilter(linearization, noise, form, iterations)


def WoLF(
    weight: WeightFunction | None = None,
    *,
    linearization: Linearization = Taylor(),
    form: Form = "auto",
    iterations: int = 1,
) -> GaussianFilter:
    """Build a weighted observation likelihood filter, for linear and nonlinear models.

    Args:
        weight: from `wolf.weights`, or any `weight(residual, obs_cov, innovation_cov)`; `MahalanobisIMQ(metric="S")`,
            calibrated, by default.
        linearization: of `GaussianFilter`.
        form: of `GaussianFilter`.
        iterations: of `GaussianFilter`.

    Example:
        >>> WoLF(weights.IMQ(c=4.0)).noise
        Weighted(weight=IMQ(c=4.0))
    """
    if weight is None:
        weight = weights.MahalanobisIMQ(metric="S")
    validation.weight(weight)
    return GaussianFilter(linearization, noise.Weighted(weight), form, iterations)


def Learned(
    r_uncertainty: Literal["factor 2", "factor 10"] | float = "factor 2",
    patience: int = 5,
    sensors: Sequence[int] | np.ndarray | Literal["each"] | None = None,
    strength: float = 10.0,
    *,
    linearization: Linearization = Taylor(),
    form: Form = "auto",
    iterations: int = 1,
) -> GaussianFilter:
    """Build a filter that estimates the scale of R and the outlier rate online, with fixed Q and jump recovery.

    Args:
        r_uncertainty: how well R is known: "factor 2" or "factor 10".
        patience: number of consecutive consistent rejections after which a jump of the state is accepted.
        sensors: for each measured coordinate the number of its sensor, as (0, 0, 1), or "each" for one sensor per
            coordinate; the noise is then estimated per sensor, and a jump needs a majority of them. Default: one
            sensor.
        strength: weight of the given R, as an equivalent number of measurements.
        linearization: of `GaussianFilter`.
        form: of `GaussianFilter`.
        iterations: of `GaussianFilter`.

    Example:
        >>> Learned(patience=8).noise.patience
        8.0
    """
    noise_model = _per_sensor(noise.AdaptiveScaleMixture(r_uncertainty, strength), sensors)
    return GaussianFilter(linearization, JumpRecovery(noise_model, _patience(patience)), form, iterations)


def Adaptive(
    q_uncertainty: float | None = 1.3,
    patience: int = 5,
    sensors: Sequence[int] | np.ndarray | Literal["each"] | None = None,
    r_uncertainty: float | None = 1.6,
    estimate_autocorrelation: bool = True,
    detect_stuck: bool = True,
    r_is_lower_bound: bool = False,
    *,
    linearization: Linearization = Automatic(),
    form: Form = "auto",
    iterations: int = 1,
) -> GaussianFilter:
    """Build the default: scales of R and Q, outlier rate and autocorrelation estimated online, with jump recovery.

    Args:
        q_uncertainty: prior standard deviation of ln q, where q Q is the true dynamics covariance and Q is wrong. The
            prior odds that Q is wrong are 3 : 1, and 1 : 4 for models given by functions. 0 fixes q at 1.
        patience: number of consecutive consistent rejections after which a jump of the state is accepted, for a series
            with 5 % of outliers. It grows with the estimated outlier rate, and is one more until that is estimated.
        sensors: as in `Learned`; the noise is then estimated per sensor, with common r and q.
        r_uncertainty: prior standard deviation of ln r, the same for R; 0 fixes r at 1.
        estimate_autocorrelation: whether to estimate the AR(1) coefficient of the measurement noise, for models of up
            to 16 states and one sensor (or several as one). Without it a step takes a sixth less time.
        detect_stuck: whether a coordinate that repeats its value exactly, more often than it has done before, is
            treated as missing. False for a quantity that is constant and free of noise.
        r_is_lower_bound: whether the noise is never taken for less than R. For sensors with autocorrelated errors,
            which look like a smaller R: intervals stay as wide as those of a Kalman filter.
        linearization: of `GaussianFilter`; by default sigma points for models given by functions, up to 16 states.
        form: of `GaussianFilter`.
        iterations: of `GaussianFilter`.

    Example:
        >>> Adaptive(q_uncertainty=0).noise.base.q_uncertainty is None
        True
    """
    noise_model = _per_sensor(
        noise.AdaptiveNoiseScales(
            r_uncertainty,
            q_uncertainty,
            estimate_autocorrelation=estimate_autocorrelation,
            r_is_lower_bound=r_is_lower_bound,
        ),
        sensors,
    )
    validation.boolean("detect_stuck", detect_stuck)
    recovery = JumpRecovery(noise_model, _patience(patience), grows=True, detect_stuck=detect_stuck)
    return GaussianFilter(linearization, recovery, form, iterations)


def _patience(value: Number) -> float | Array:
    """Validate that `patience` is a single number; `JumpRecovery` checks its range."""
    if isinstance(value, Tracer):
        return value
    found = validation.one_number(value)
    if found is None:
        raise ValueError(f"patience must be one number of at least 2; got {validation.short_repr(value)}")
    return found


def _per_sensor(noise_model: NoiseModel, sensors: object) -> NoiseModel:
    """Wrap a noise model so that each sensor has its own estimate, if `sensors` is given."""
    if sensors is None:
        return noise_model
    groups = None if isinstance(sensors, str) and sensors == "each" else validation.groups("sensors", sensors)
    return noise.PerSensorNoise(noise_model, groups)


def LowRank(weight: WeightFunction | None = None, rank: int = 10) -> LowRankFilter:
    """Build a filter for many parameters, with a diagonal plus low-rank precision instead of a full covariance.

    Args:
        weight: as in `WoLF`. `wolf.Unweighted()` gives the plain LoFi.
        rank: number of directions; 0 keeps the diagonal only.

    Example:
        >>> LowRank(rank=0).rank
        0
    """
    if weight is None:
        weight = weights.MahalanobisIMQ(metric="S")
    validation.weight(weight)
    return LowRankFilter(noise.Weighted(weight), rank)


def weighted(family: Callable, **fixed: Any) -> Callable[..., GaussianFilter]:
    """Return a constructor that splits its options between a weight family and the filter."""
    filter_options = {"linearization", "form", "iterations"}

    def build(**options: Any) -> GaussianFilter:
        of_filter = {name: options.pop(name) for name in filter_options & options.keys()}
        return WoLF(family(**(fixed | options)), **of_filter)

    return build


def per_coordinate(weight: WeightFunction | None = None, **options: Any) -> GaussianFilter:
    """Build a filter with one weight per measured coordinate."""
    return WoLF(weights.PerCoordinate(weights.MahalanobisIMQ(metric="S") if weight is None else weight), **options)


def with_noise(noise_model: Callable, linearization: Linearization | None = None) -> Callable[..., GaussianFilter]:
    """Return a constructor that splits its options between a noise model (which has `iterations`) and the filter."""

    def build(**options: Any) -> GaussianFilter:
        of_filter = {name: options.pop(name) for name in {"linearization", "form"} & options.keys()}
        of_filter.setdefault("linearization", linearization or Taylor())
        return GaussianFilter(noise=noise_model(**options), **of_filter)

    return build


def with_defaults(build: Callable, **defaults: object) -> Callable:
    """Return a constructor with other defaults."""
    return lambda **options: build(**(defaults | options))


def ting(propagate: bool = False, **options: Any) -> Filter:
    """Build the filter of Ting et al. (2007); `propagate=True` propagates the covariance, as a Kalman filter does."""
    inner = with_noise(noise.GammaWeight, Linear())(**options)
    return inner if propagate else CovarianceReset(inner)


def adaptive_student(**options: Any) -> GaussianFilter:
    """Build the STKF-AR of Li et al. (2025): measurement scales estimated from what is no outlier."""
    defaults = {"dof": 100.0, "forgetting": 0.98, "outlier_prob": 0.05}
    return with_noise(noise.VariationalStudent, Linear())(**(defaults | options))


def student_mixture(dof: float = 4.0, **options: Any) -> GaussianFilter:
    """Build an assumed density filter with a discretised Student-t scale mixture."""
    return GaussianFilter(noise=noise.ScaleMixture.student(dof), **options)


def particle(build: Callable) -> Callable[..., Filter]:
    """Return a constructor of particle filters that accepts `beta` as a short form of `likelihood=`."""

    def make(beta: Number | None = None, **options: Any) -> Filter:
        return build(**(options if beta is None else options | {"likelihood": noise.BetaLikelihood(beta)}))

    return make


def ensemble(
    analysis: Callable, weight: WeightFunction | Callable[..., ErrorWeight] | None = None, **fixed: Any
) -> Callable[..., EnsembleFilter]:
    """Return a constructor of ensemble filters; its options are those of the filter, the analysis (`rotate`) and `c`.

    Without an inflation it has `default_inflation`, except the filters as published.

    Args:
        analysis: class of the analysis.
        weight: the default weight; the robust default if None. A class is built with the option `c`.
        **fixed: other defaults.
    """

    def build(inflation: ensembles.Inflation | float | Array | None = None, **options: Any) -> EnsembleFilter:
        pooled = options.get("scope") == "pooled"
        default = weights.MahalanobisIMQ(metric="S") if pooled else ensembles.ROBUST
        robust = default if weight is None else weight
        of_analysis = {name: options.pop(name) for name in {"rotate"} & options.keys()}
        if isinstance(robust, type):  # one of the rules as published, which has a threshold
            options.setdefault("weight", robust(options.pop("c", None)))
        if inflation is None and analysis is not ensembles.SampledGain:  # those as published have none
            inflation = ensembles.default_inflation(options.get("num_members", DEFAULT_MEMBERS))
        inflation = 1.0 if inflation is None else inflation
        if not isinstance(inflation, ensembles.Inflation):
            inflation = ensembles.Multiplicative(inflation)
        chosen: dict[str, Any] = {"weight": robust} | fixed | options
        return EnsembleFilter(analysis=analysis(**of_analysis), inflation=inflation, **chosen)

    return build
