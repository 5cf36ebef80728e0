"""The methods by name: one table. A method is a value, `wolf.methods.make(name, **options)`.

The paper's names first, then its rivals, then ensembles. Every name works without options; `c=None` is calibrated.
Options of a weighted method: `form`, `iterations`, `linearization`, and those of its weight; of a rival: those of its
noise rule. Ensembles and particles draw random numbers and need a `key`; the options of ensembles are `num_members`,
`inflation` (a factor or a rule), `localisation`, `weight` and `scope`.
"""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import cache
from inspect import signature
from typing import Any, Literal

import numpy as np
from jax.core import Tracer

from wolf import validation
from wolf.inference import ensembles, noise, weights
from wolf.inference.filters import (
    IMM,
    CovarianceReset,
    EnsembleFilter,
    GaussianFilter,
    GradientFilter,
    LowRankFilter,
    ParticleFilter,
    RaoBlackwellFilter,
)
from wolf.inference.linearization import Automatic, Cubature, GaussHermite, Linear, Taylor, Unscented
from wolf.inference.noise.divergence_recovery import JumpRecovery
from wolf.interfaces import Filter, Form, Linearization, NoiseModel, WeightFunction
from wolf.statespace import Model, ParameterModel, families

ITERATIONS = 5  # of an iterated EKF; it converges quadratically, so more rarely changes a digit
PLAIN = weights.Unweighted()
PLAIN_NOISE = noise.Weighted(PLAIN)


def KF(
    *,
    linearization: Linearization = Linear(),
    noise: NoiseModel = PLAIN_NOISE,
    form: Form = "auto",
    iterations: int = 1,
) -> GaussianFilter:
    """Make the Kalman filter, for linear models.

    The options are those of `GaussianFilter`.
    """
    return GaussianFilter(linearization, noise, form, iterations)


def EKF(
    *,
    linearization: Linearization = Taylor(),
    noise: NoiseModel = PLAIN_NOISE,
    form: Form = "auto",
    iterations: int = 1,
) -> GaussianFilter:
    """Make the extended Kalman filter.

    The options are those of `GaussianFilter`.
    """
    return GaussianFilter(linearization, noise, form, iterations)


def IEKF(
    iterations: int = ITERATIONS,
    *,
    linearization: Linearization = Taylor(),
    noise: NoiseModel = PLAIN_NOISE,
    form: Form = "auto",
) -> GaussianFilter:
    """Make the iterated extended Kalman filter.

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
    """Make a weighted observation likelihood filter; it adapts to linear and nonlinear models.

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
    """Make a filter that learns the size of the noise and of outliers, keeps to Q, and ends its lock-outs.

    Args:
        r_uncertainty: how well R is known: "factor 2" or "factor 10".
        patience: how many measurements in a row may lie in the same way before they are believed.
        sensors: for each coordinate of a measurement the number of its sensor, as (0, 0, 1), or "each" for one of its
            own; each sensor then has noise of its own, and a jump needs a majority. Default: one for all.
        strength: how many measurements the given R is worth.
        linearization: of `GaussianFilter`.
        form: of `GaussianFilter`.
        iterations: of `GaussianFilter`.

    Example:
        >>> Learned(patience=8).noise.patience
        8.0
    """
    rule = _by_sensor(noise.AdaptiveScaleMixture(r_uncertainty, strength), sensors)
    return GaussianFilter(linearization, JumpRecovery(rule, _patience(patience)), form, iterations)


def Adaptive(
    q_uncertainty: float | None = 1.3,
    patience: int = 5,
    sensors: Sequence[int] | np.ndarray | Literal["each"] | None = None,
    r_uncertainty: float | None = 1.6,
    estimate_autocorrelation: bool = True,
    *,
    linearization: Linearization = Automatic(),
    form: Form = "auto",
    iterations: int = 1,
) -> GaussianFilter:
    """Make the default: it learns the levels of R and of Q and the shape of the noise, and ends its lock-outs.

    Args:
        q_uncertainty: standard deviation of ln q before any measurement, where q Q is the true covariance of the
            dynamics and Q is off; at first the odds for that are 3 : 1, and 1 : 4 for models of functions. 0 says that
            it is right for sure.
        patience: how many measurements in a row may lie in the same way before they are believed, of a series with 5 %
            of outliers. It grows with what is learned of them, and is one more until that is known.
        sensors: as in `Learned`; each sensor then has noise of its own, and all share r and q.
        r_uncertainty: standard deviation of ln r, the same for R; 0 says that R is right.
        estimate_autocorrelation: whether to estimate the AR(1) coefficient of the measurement noise, for models of up
            to 16 states and one sensor (or several as one). Without it a step takes a sixth less time.
        linearization: of `GaussianFilter`; by itself sigma points for functions of up to 16 states.
        form: of `GaussianFilter`.
        iterations: of `GaussianFilter`.

    Example:
        >>> Adaptive(q_uncertainty=0).noise.base.q_uncertainty is None
        True
    """
    rule = _by_sensor(
        noise.AdaptiveNoiseScales(r_uncertainty, q_uncertainty, estimate_autocorrelation=estimate_autocorrelation),
        sensors,
    )
    return GaussianFilter(linearization, JumpRecovery(rule, _patience(patience), grows=True), form, iterations)


def _patience(value: Any) -> Any:
    """Refuse what is not one number; how large it must be is for the vote to say."""
    if isinstance(value, Tracer):
        return value
    found = validation.one_number(value)
    if found is None:
        raise ValueError(f"patience must be one number of at least 2; got {validation.short_repr(value)}")
    return found


def _by_sensor(rule: NoiseModel, sensors: Any) -> NoiseModel:
    """Give each sensor noise of its own, where sensors are named."""
    if sensors is None:
        return rule
    named = None if isinstance(sensors, str) and sensors == "each" else validation.groups("sensors", sensors)
    return noise.PerSensorNoise(rule, named)


def LowRank(weight: WeightFunction | None = None, rank: int = 10) -> LowRankFilter:
    """Make a filter for many parameters: a diagonal and a few directions instead of a full covariance.

    Args:
        weight: as in `WoLF`. `wolf.Unweighted()` is plain LoFi.
        rank: number of directions; 0 keeps a diagonal alone.

    Example:
        >>> LowRank(rank=0).rank
        0
    """
    if weight is None:
        weight = weights.MahalanobisIMQ(metric="S")
    validation.weight(weight)
    return LowRankFilter(noise.Weighted(weight), rank)


def default(model: Model) -> GaussianFilter:
    """Choose the method that needs nothing told: `Adaptive`, which learns R, Q and outliers, and ends its lock-outs.

    A network that has not learned yet is far off, and learned noise would take that for noise: parameters get a
    calibrated weight instead. Counts, classes and the like have no noise level to learn; they get one in the metric of
    their own noise, since in the S metric gross counts look good while little is known of the parameters.
    """
    if not isinstance(model, Model):
        raise ValueError(
            f"model must be a wolf.LinearModel or wolf.StateSpaceModel; got {validation.short_repr(model)}"
        )
    if not isinstance(model, ParameterModel):
        return Adaptive()
    gaussian = isinstance(model.family, families.Normal)
    return WoLF() if gaussian else WoLF(weights.MahalanobisIMQ(metric="R"))


def _weighted(family: Callable, **fixed: Any) -> Callable[..., GaussianFilter]:
    """Make a constructor that shares its options between a weight family and the filter."""
    filter_options = {"linearization", "form", "iterations"}

    def build(**options: Any) -> GaussianFilter:
        mine = {name: options.pop(name) for name in filter_options & options.keys()}
        return WoLF(family(**(fixed | options)), **mine)

    return build


def _ruled(rule: Callable, linearization: Any = None) -> Callable[..., GaussianFilter]:
    """Make a constructor that shares its options between a noise rule and the filter; `iterations` are the rule's."""

    def build(**options: Any) -> GaussianFilter:
        mine = {name: options.pop(name) for name in {"linearization", "form"} & options.keys()}
        mine.setdefault("linearization", linearization or Taylor())
        return GaussianFilter(noise=rule(**options), **mine)

    return build


def _ting(propagate: bool = False, **options: Any) -> Any:
    """Make the filter of Ting et al. (2007); `propagate=True` carries the covariance on, as a Kalman filter does."""
    inner = _ruled(noise.GammaWeight, Linear())(**options)
    return inner if propagate else CovarianceReset(inner)


def _student_mixture(dof: float = 4.0, **options: Any) -> GaussianFilter:
    return GaussianFilter(noise=noise.ScaleMixture.student(dof), **options)


def _particles(build: Callable) -> Callable:
    """Make a constructor of particle filters that takes `beta` for short."""

    def make(beta: Any = None, **options: Any) -> Any:
        return build(**(options if beta is None else options | {"law": noise.BetaLikelihood(beta)}))

    return make


def _per_coordinate(weight: Any = None, **options: Any) -> GaussianFilter:
    return WoLF(weights.PerCoordinate(weights.MahalanobisIMQ(metric="S") if weight is None else weight), **options)


def _with(build: Callable[..., Any], **defaults: Any) -> Callable[..., Any]:
    """Make a constructor with other defaults."""
    return lambda **options: build(**(defaults | options))


def _ensemble(words: str, analysis: Callable, weight: Any = None, **fixed: Any) -> Callable[..., EnsembleFilter]:
    """Make a constructor of ensemble filters; its options are those of the filter, the analysis (`rotate`) and `c`.

    Args:
        words: that describe it.
        analysis: class of the analysis.
        weight: the robust default if None; a class is built with the option `c`.
        **fixed: other defaults.
    """

    def build(inflation: Any = 1.0, **options: Any) -> EnsembleFilter:
        pooled = options.get("scope") == "pooled"
        usual = weights.MahalanobisIMQ(metric="S") if pooled else ensembles.ROBUST
        robust = usual if weight is None else weight
        own = {name: options.pop(name) for name in {"rotate"} & options.keys()}
        if isinstance(robust, type):  # one of the printed rules, which has a threshold
            options.setdefault("weight", robust(options.pop("c", None)))
        if not isinstance(inflation, ensembles.Inflation):
            inflation = ensembles.Multiplicative(inflation)
        chosen: dict[str, Any] = {"weight": robust} | fixed | options
        return EnsembleFilter(analysis=analysis(**own), inflation=inflation, **chosen)

    build.__doc__ = words
    return build


NEARBY = ensembles.Ring(radius=4.0)  # the usual radius for Lorenz96; say your own geometry by localisation=

TABLE: dict[str, Callable[..., Any]] = {
    "KF": KF,
    "EKF": EKF,
    "IEKF": IEKF,
    "WoLF": WoLF,
    "WoLF-IMQ": _weighted(weights.IMQ),
    "WoLF-MD": _weighted(weights.MahalanobisIMQ),
    "WoLF-TMD": _weighted(weights.MahalanobisThreshold),
    "WoLF-Welsch": _weighted(weights.Welsch),
    "WoLF-Tukey": _weighted(weights.Tukey),
    "WoLF-Huber": _weighted(weights.Huber),
    "WoLF-StudentT": _weighted(weights.StudentWeight),
    "WoLF-PerCoordinate": _per_coordinate,
    "WoLF-IEKF": _with(WoLF, iterations=ITERATIONS),
    "UKF": _with(EKF, linearization=Unscented()),
    "CKF": _with(EKF, linearization=Cubature()),
    "GHKF": _with(EKF, linearization=GaussHermite()),
    "WoLF-UKF": _with(WoLF, linearization=Unscented()),
    "WoLF-CKF": _with(WoLF, linearization=Cubature()),
    "WoLF-GHKF": _with(WoLF, linearization=GaussHermite()),
    "KF-B": _ruled(noise.BetaBernoulli, Linear()),
    "KF-IW": _ruled(noise.InverseWishart, Linear()),
    "EKF-B": _ruled(noise.BetaBernoulli),
    "EKF-IW": _ruled(noise.InverseWishart),
    "KF-Ting": _ting,
    "KF-Student": _ruled(noise.StudentNoise, Linear()),
    "EKF-Student": _ruled(noise.StudentNoise),
    "KF-Huang": _ruled(noise.UnknownStudentNoise, Linear()),
    "RSTKF": _ruled(noise.TwoSidedStudent, Linear()),
    "Huber-KF": _ruled(noise.HuberRegression, Linear()),
    "MCKF": _ruled(noise.Correntropy, Linear()),
    "ADF": _ruled(noise.ScaleMixture),
    "ADF-Student": _student_mixture,
    "Learned": Learned,
    "Adaptive": Adaptive,
    "IMM": IMM,
    "OGD": GradientFilter,
    "PF": _with(ParticleFilter, law=noise.GaussianLikelihood()),
    "Beta-PF": _particles(ParticleFilter),
    "Beta-RBPF": _particles(RaoBlackwellFilter),
    # The paper's ensembles as printed: their gain comes from unweighted predictions.
    "EnKF": _ensemble("The stochastic ensemble filter, as the paper prints it.", ensembles.SampledGain, PLAIN),
    "AP-EnKF": _ensemble(
        "As printed: drops observations whose mean squared error over the members exceeds c.",
        ensembles.SampledGain,
        ensembles.AveragedParticle,
    ),
    "PP-EnKF": _ensemble(
        "As printed: each member drops observations whose squared error exceeds c.",
        ensembles.SampledGain,
        ensembles.PerParticle,
    ),
    "Hub-EnKF": _ensemble(
        "As printed: errors are clipped at c, the Huberised filter of Roh et al.",
        ensembles.SampledGain,
        ensembles.Clipped,
    ),
    # Exact forms, which converge to the (weighted) Kalman filter as members are added.
    "EnKF-Exact": _ensemble("A stochastic ensemble with the exact R in its gain.", ensembles.Stochastic, PLAIN),
    "ETKF": _ensemble("The ensemble transform filter.", ensembles.ETKF, PLAIN),
    "DEnKF": _ensemble("The deterministic ensemble filter: half the gain for anomalies.", ensembles.DEnKF, PLAIN),
    "EnSRF": _ensemble("The serial ensemble square-root filter.", ensembles.EnSRF, PLAIN),
    "LETKF": _ensemble("The local ensemble transform filter.", ensembles.LETKF, PLAIN, localisation=NEARBY),
    "WoLF-EnKF": _ensemble("A stochastic ensemble, robust, observation by observation.", ensembles.Stochastic),
    "WoLF-ETKF": _ensemble("The ensemble transform filter, robust.", ensembles.ETKF),
    "WoLF-DEnKF": _ensemble("The deterministic ensemble filter, robust.", ensembles.DEnKF),
    "WoLF-EnSRF": _ensemble("The serial ensemble square-root filter, robust.", ensembles.EnSRF),
    "WoLF-LETKF": _ensemble("The local ensemble transform filter, robust.", ensembles.LETKF, localisation=NEARBY),
}


def names() -> list[str]:
    """List the names that `make` and `wolf.filter(method=...)` take."""
    return list(TABLE)


@cache
def _text(name: str) -> str:
    return repr(TABLE[name]())


def name_of(method: Any) -> str | None:
    """Find the name of a method that is as a row of the table makes it; None for one with options of its own.

    Example:
        >>> name_of(WoLF()), name_of(WoLF(weights.IMQ(c=3.0)))
        ('WoLF', None)
    """
    text = repr(method)
    return next((name for name in ("Adaptive", "Learned", *TABLE) if _text(name) == text), None)  # mostly the default


def constructor_call(method: Any) -> str | None:
    """Write a method that learns the noise as it is made, with its options; None for any other.

    Example:
        >>> [constructor_call(each) for each in (Adaptive(patience=8), Learned(sensors="each"), WoLF())]
        ['Adaptive(patience=8)', "Learned(sensors='each')", None]
    """
    build = _learning(method)[1]
    if build is None:
        return None
    given, usual = _fields(method), _fields(build())
    other = {name: value for name, value in given.items() if repr(value) != repr(usual[name])}
    names = signature(build).parameters
    if not other.keys() <= names.keys():
        return None
    told = [f"{name}={_short(other[name])}" for name in names if name in other]
    return f"{build.__name__}({', '.join(told)})"


def _learning(method: Any) -> tuple[Any, Any]:
    """Return the innermost noise model of a method that estimates the noise, and the constructor of such methods."""
    if not isinstance(method, GaussianFilter) or not isinstance(method.noise, JumpRecovery):
        return None, None
    outer, rule = method.noise.base, method.noise.innermost
    if isinstance(outer, noise.PerSensorNoise):
        outer = outer.base
    makers: dict[Any, Any] = {noise.AdaptiveNoiseScales: Adaptive, noise.AdaptiveScaleMixture: Learned}
    return rule, makers.get(type(rule)) if outer is rule else None  # other wrappers have no constructor


def _fields(method: Any) -> dict[str, Any]:
    """List what a method that learns the noise is made of, by the names that its maker has for it."""
    rule, outer = _learning(method)[0], method.noise.base
    sensors = None if outer is rule else outer.sensors or "each"
    parts = vars(method) | vars(method.noise) | vars(rule) | {"sensors": sensors}
    return {name: part for name, part in parts.items() if name not in ("noise", "base")}


def _short(value: Any) -> str:
    if value is None:  # an uncertainty of 0
        return "0"
    return f"{value:g}" if isinstance(value, float) else repr(value)


def make(name: str, **options: Any) -> Filter:
    """Build a method by name.

    Example:
        >>> make("WoLF-TMD", c=9.5).noise.weight
        MahalanobisThreshold(c=9.5, metric='R')
    """
    if not isinstance(name, str):
        raise ValueError(f"the name of a method must be text, such as 'WoLF'; got {validation.short_repr(name)}")
    if name not in TABLE:
        plain = {known.lower(): known for known in TABLE}
        close = get_close_matches(str(name).lower(), plain, n=1, cutoff=0.5)
        hint = f" Did you mean {plain[close[0]]!r}?" if close else ""
        raise ValueError(f"no method is called {name!r}.{hint} There are: {', '.join(TABLE)}")
    try:
        return TABLE[name](**options)
    except TypeError as error:
        raise ValueError(f"{name} does not take these options: {', '.join(options)} ({error})") from error
