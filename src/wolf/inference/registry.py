"""The registry of methods by name: one row per method. A method is a value, `wolf.methods.make(name, **options)`.

Every name works without options; `c=None` is calibrated. Options of a weighted method: `form`, `iterations`,
`linearization`, and those of its weight; of a rival: those of its noise model. Ensembles and particle filters draw
random numbers and need a `key`; the options of ensembles are `num_members`, `inflation` (a factor or a rule),
`localisation`, `weight` and `scope`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from inspect import signature
from typing import Any, Literal

import jax
from jax.core import Tracer

from wolf import validation
from wolf.inference import constructors, ensembles, noise, weights
from wolf.inference.constructors import EKF as EKF
from wolf.inference.constructors import IEKF as IEKF
from wolf.inference.constructors import IEKF_ITERATIONS, UNWEIGHTED
from wolf.inference.constructors import KF as KF
from wolf.inference.constructors import Adaptive as Adaptive
from wolf.inference.constructors import Learned as Learned
from wolf.inference.constructors import LowRank as LowRank
from wolf.inference.constructors import WoLF as WoLF
from wolf.inference.filters import IMM, GaussianFilter, GradientFilter, ParticleFilter, RaoBlackwellFilter, RunLength
from wolf.inference.linearization import Cubature, GaussHermite, Linear, Unscented
from wolf.inference.noise.divergence_recovery import JumpRecovery
from wolf.interfaces import Filter, NoiseModel, Requirements
from wolf.statespace import Model, ParameterModel, families, is_model

Family = Literal["kalman", "weighted", "rival", "adaptive", "multiple model", "gradient", "particle", "ensemble"]


@dataclass(frozen=True)
class Row:
    """A method of the registry: all that other modules need to know about it.

    Attributes:
        name: as passed to `make` and `wolf.filter(method=...)`. Shell completion reads the names from this file's text.
        family: kind of method.
        build: constructor, called with the options.
        description: one line for `wolf methods`.
        compared: whether `wolf compare` runs it by default.
    """

    name: str
    family: Family
    build: Callable[..., Filter]
    description: str
    compared: bool = False

    @cached_property
    def method(self) -> Filter:
        """The method without options."""
        return self.build()

    @property
    def requirements(self) -> Requirements:
        """Requirements of the method without options on a model and a call."""
        return self.method.requirements


# The usual localisation radius for Lorenz96; pass localisation= for any other geometry.
RING = ensembles.Ring(radius=4.0)

_weighted, _with_noise, _with_defaults = constructors.weighted, constructors.with_noise, constructors.with_defaults
_ensemble = constructors.ensemble
_BERNOULLI = "Variational filter that infers for each measurement whether it is an outlier (Wang et al. 2018)."
_WISHART = "Variational filter that infers the noise covariance of each measurement (Agamennoni et al. 2012)."
_STUDENT = "Variational Student-t filter: R divided by an inferred gamma variable (Piché et al. 2012)."
# fmt: off
ROWS: tuple[Row, ...] = (
    Row("KF", "kalman", KF, "Kalman filter, for linear models.", compared=True),
    Row("EKF", "kalman", EKF, "Extended Kalman filter."),
    Row("IEKF", "kalman", IEKF, "Iterated extended Kalman filter."),
    Row("WoLF", "weighted", WoLF, "Weighted observation likelihood filter, for linear and nonlinear models.", True),
    Row("WoLF-IMQ", "weighted", _weighted(weights.IMQ),
        "Inverse multi-quadric in the Euclidean norm: w² = 1 / (1 + ‖e‖² / c²), the paper's WoLF-IMQ.", True),
    Row("WoLF-MD", "weighted", _weighted(weights.MahalanobisIMQ),
        "Inverse multi-quadric in a Mahalanobis distance: w² = 1 / (1 + d² / c²), the paper's WoLF-MD."),
    Row("WoLF-TMD", "weighted", _weighted(weights.MahalanobisThreshold),
        "Hard gate: w = 1 while the squared distance is at most c, else 0; the paper's WoLF-TMD.", True),
    Row("WoLF-Welsch", "weighted", _weighted(weights.Welsch),
        "Gaussian-shaped weight, also known as correntropy: w² = exp(-d² / c²).", True),
    Row("WoLF-Tukey", "weighted", _weighted(weights.Tukey),
        "Tukey's biweight: w² = (1 - d² / c²)² inside the radius c, 0 outside."),
    Row("WoLF-Huber", "weighted", _weighted(weights.Huber),
        "Huber's weight: 1 up to a distance c, then w² = c / d; bounded influence that does not vanish.", True),
    Row("WoLF-StudentT", "weighted", _weighted(weights.StudentWeight),
        "Weight of a Student-t error: w² = (ν + d) / (ν + distance²); above 1 near the centre.", True),
    Row("WoLF-PerCoordinate", "weighted", constructors.per_coordinate,
        "One weight per coordinate: an outlier in one does not affect the others."),
    Row("WoLF-IEKF", "weighted", _with_defaults(WoLF, iterations=IEKF_ITERATIONS),
        "Iterated extended Kalman filter, robust."),
    Row("UKF", "kalman", _with_defaults(EKF, linearization=Unscented()),
        "Unscented Kalman filter: 2 D + 1 sigma points (Julier & Uhlmann 1997; Wan & van der Merwe 2000)."),
    Row("CKF", "kalman", _with_defaults(EKF, linearization=Cubature()),
        "Cubature Kalman filter: 2 D sigma points of equal weight (Arasaratnam & Haykin 2009)."),
    Row("GHKF", "kalman", _with_defaults(EKF, linearization=GaussHermite()),
        "Gauss-Hermite filter: a grid of orderᴰ points, exact up to degree 2 order - 1 (Ito & Xiong 2000)."),
    Row("WoLF-UKF", "weighted", _with_defaults(WoLF, linearization=Unscented()), "Unscented Kalman filter, robust."),
    Row("WoLF-CKF", "weighted", _with_defaults(WoLF, linearization=Cubature()), "Cubature Kalman filter, robust."),
    Row("WoLF-GHKF", "weighted", _with_defaults(WoLF, linearization=GaussHermite()), "Gauss-Hermite filter, robust."),
    Row("KF-B", "rival", _with_noise(noise.BetaBernoulli, Linear()), _BERNOULLI),
    Row("KF-IW", "rival", _with_noise(noise.InverseWishart, Linear()), _WISHART),
    Row("EKF-B", "rival", _with_noise(noise.BetaBernoulli), _BERNOULLI),
    Row("EKF-IW", "rival", _with_noise(noise.InverseWishart), _WISHART),
    Row("KF-Ting", "rival", constructors.ting,
        "Filter of Ting et al. (2007); propagate=True propagates the covariance, as a Kalman filter does."),
    Row("KF-Student", "rival", _with_noise(noise.StudentNoise, Linear()), _STUDENT),
    Row("EKF-Student", "rival", _with_noise(noise.StudentNoise), _STUDENT),
    Row("KF-Huang", "rival", _with_noise(noise.UnknownStudentNoise, Linear()),
        "Student-t noise whose R and degrees of freedom are estimated."),
    Row("RSTKF", "rival", _with_noise(noise.TwoSidedStudent, Linear()),
        "Student-t prediction and measurement: the RSTKF of Huang et al. (2017)."),
    Row("Huber-KF", "rival", _with_noise(noise.HuberRegression, Linear()),
        "Row weights min(1, γ/|ε|): the Huber-based filter of Karlgaard & Schaub (2007)."),
    Row("MCKF", "rival", _with_noise(noise.Correntropy, Linear()),
        "Row weights exp(-ε²/2σ²): the maximum correntropy Kalman filter of Chen et al. (2017)."),
    Row("ST-RCGP", "rival", _with_noise(noise.ScoreMatching, Linear()),
        "Weighted score matching centred at the prediction: no options to choose (Laplante et al. 2025)."),
    Row("OIKF", "rival", _with_noise(noise.OutlierVariance, Linear()),
        "Outlier-insensitive: a variance with a flat prior added to each coordinate (Truzman et al. 2023)."),
    Row("RoLF", "rival", _with_noise(noise.StrongTracking, Linear()),
        "WoLF-MD with a fading factor on the propagated covariance, for jumps of the state (Liu 2025)."),
    Row("STKF", "rival", _with_noise(noise.VariationalStudent, Linear()),
        "Student-t losses on the rows of prediction and measurement (Li et al. 2025)."),
    Row("STKF-AR", "rival", constructors.adaptive_student,
        "STKF that estimates the scales of the measurement's rows online, not from outliers (Li et al. 2025)."),
    Row("ADF", "rival", _with_noise(noise.ScaleMixture),
        "Assumed density filter: a Gaussian scale mixture of multiples of R with fixed probabilities."),
    Row("ADF-Student", "rival", constructors.student_mixture,
        "Assumed density filter with a discretised Student-t scale mixture."),
    Row("Learned", "adaptive", Learned,
        "Adaptive R: estimates the scale of R and the outlier rate online, with jump recovery; Q is fixed.", True),
    Row("Adaptive", "adaptive", Adaptive,
        "The default, adaptive R and Q: also estimates the scale of Q and the noise's autocorrelation.", True),
    Row("IMM", "multiple model", IMM, "Interacting multiple models: one filter per mode, mixed at every step."),
    Row("RunLength", "multiple model", _with_defaults(RunLength, filter=WoLF()),
        "Online changepoints: a filter for each likely start of the current segment (Duran-Martin et al. 2025)."),
    Row("OGD", "gradient", GradientFilter, "Gradient steps on the squared error of each measurement."),
    Row("PF", "particle", _with_defaults(ParticleFilter, likelihood=noise.GaussianLikelihood()),
        "Bootstrap particle filter with a Gaussian likelihood."),
    Row("Beta-PF", "particle", constructors.particle(ParticleFilter),
        "Bootstrap particle filter with the β-likelihood."),
    Row("Beta-RBPF", "particle", constructors.particle(RaoBlackwellFilter),
        "Rao-Blackwellised particle filter with the β-likelihood: samples Hx, the rest is exact."),
    # The paper's ensembles as published: their gain comes from unweighted predictions.
    Row("EnKF", "ensemble", _ensemble(ensembles.SampledGain, UNWEIGHTED),
        "Stochastic ensemble Kalman filter, as published in the paper."),
    Row("AP-EnKF", "ensemble", _ensemble(ensembles.SampledGain, ensembles.AveragedParticle),
        "As published: drops observations whose mean squared error over the members exceeds c."),
    Row("PP-EnKF", "ensemble", _ensemble(ensembles.SampledGain, ensembles.PerParticle),
        "As published: each member drops observations whose squared error exceeds c."),
    Row("Hub-EnKF", "ensemble", _ensemble(ensembles.SampledGain, ensembles.Clipped),
        "As published: errors are clipped at c, the Huberised filter of Roh et al."),
    # Exact forms, which converge to the (weighted) Kalman filter as members are added.
    Row("EnKF-Exact", "ensemble", _ensemble(ensembles.Stochastic, UNWEIGHTED),
        "Stochastic ensemble Kalman filter with the exact R in its gain."),
    Row("ETKF", "ensemble", _ensemble(ensembles.ETKF, UNWEIGHTED), "Ensemble transform Kalman filter."),
    Row("DEnKF", "ensemble", _ensemble(ensembles.DEnKF, UNWEIGHTED),
        "Deterministic ensemble Kalman filter: half the gain for anomalies."),
    Row("EnSRF", "ensemble", _ensemble(ensembles.EnSRF, UNWEIGHTED), "Serial ensemble square-root filter."),
    Row("LETKF", "ensemble", _ensemble(ensembles.LETKF, UNWEIGHTED, localisation=RING),
        "Local ensemble transform Kalman filter."),
    Row("WoLF-EnKF", "ensemble", _ensemble(ensembles.Stochastic),
        "Stochastic ensemble Kalman filter, robust per observation."),
    Row("WoLF-ETKF", "ensemble", _ensemble(ensembles.ETKF), "Ensemble transform Kalman filter, robust."),
    Row("WoLF-DEnKF", "ensemble", _ensemble(ensembles.DEnKF), "Deterministic ensemble Kalman filter, robust."),
    Row("WoLF-EnSRF", "ensemble", _ensemble(ensembles.EnSRF), "Serial ensemble square-root filter, robust."),
    Row("WoLF-LETKF", "ensemble", _ensemble(ensembles.LETKF, localisation=RING),
        "Local ensemble transform Kalman filter, robust."),
)
# fmt: on
TABLE: dict[str, Row] = {row.name: row for row in ROWS}


def names() -> list[str]:
    """List the names that `make` and `wolf.filter(method=...)` accept."""
    return list(TABLE)


def rows(family: Family | None = None) -> list[Row]:
    """List the rows of the registry, or those of one family.

    Example:
        >>> [row.name for row in rows("adaptive")]
        ['Learned', 'Adaptive']
    """
    return [row for row in ROWS if family in (None, row.family)]


def describe(name: str) -> str:
    """Describe a method in one line.

    Example:
        >>> describe("KF")
        'Kalman filter, for linear models.'
    """
    return _row(name).description


def make(name: str, **options: object) -> Filter:
    """Build a method by name.

    Example:
        >>> make("WoLF-TMD", c=9.5).noise.weight
        MahalanobisThreshold(c=9.5, metric='R')
    """
    row = _row(name)
    try:
        return row.build(**options)
    except TypeError as error:
        raise ValueError(f"{name} does not take these options: {', '.join(options)} ({error})") from error


def _row(name: str) -> Row:
    """Return a row; the error for an unknown name suggests a similar one."""
    if not isinstance(name, str):
        raise ValueError(f"the name of a method must be text, such as 'WoLF'; got {validation.short_repr(name)}")
    if name not in TABLE:
        lower_case = {known.lower(): known for known in TABLE}
        close = get_close_matches(str(name).lower(), lower_case, n=1, cutoff=0.5)
        hint = f" Did you mean {lower_case[close[0]]!r}?" if close else ""
        raise ValueError(f"no method is called {name!r}.{hint} There are: {', '.join(TABLE)}")
    return TABLE[name]


def default(model: Model) -> GaussianFilter:
    """Return the default method for a model: `Adaptive`, which estimates R, Q and the outlier rate online.

    Before a network is trained its residuals are large, which an adaptive R would take for noise: parameter models get
    a calibrated weight instead. Families other than the normal (counts, classes) have no noise variance to estimate;
    they get a weight in the metric R of their own noise, since in the S metric gross counts look plausible while the
    parameters are uncertain.
    """
    if not is_model(model):
        raise ValueError(
            f"model must be a wolf.LinearModel or wolf.StateSpaceModel; got {validation.short_repr(model)}"
        )
    if not isinstance(model, ParameterModel):
        return _default_method("states")
    return _default_method("parameters" if isinstance(model.family, families.Normal) else "non-Gaussian")


@cache
def _default_method(kind: Literal["states", "parameters", "non-Gaussian"]) -> GaussianFilter:
    """Build a default once: it is a value, and caches by identity find it again."""
    if kind == "states":
        return Adaptive()
    return WoLF() if kind == "parameters" else WoLF(weights.MahalanobisIMQ(metric="R"))


def name_of(method: object) -> str | None:
    """Return the name of the row whose method without options equals `method`, or None.

    Example:
        >>> name_of(WoLF()), name_of(WoLF(weights.IMQ(c=3.0)))
        ('WoLF', None)
    """
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(method)):
        return None
    likely_first = (TABLE["Adaptive"], TABLE["Learned"], *ROWS)
    return next((row.name for row in likely_first if type(row.method) is type(method) and row.method == method), None)


def constructor_call(method: object) -> str | None:
    """Return the constructor call, with the options that differ from the default, of an adaptive method, or None.

    Example:
        >>> [constructor_call(each) for each in (Adaptive(patience=8), Learned(sensors="each"), WoLF())]
        ['Adaptive(patience=8)', "Learned(sensors='each')", None]
    """
    row = _adaptive_row(method)
    if row is None:
        return None
    given, defaults = _options(method), _options(row.method)
    changed = {name: value for name, value in given.items() if repr(value) != repr(defaults[name])}
    parameters = signature(row.build).parameters
    if not changed.keys() <= parameters.keys():
        return None
    arguments = [f"{name}={_short(changed[name])}" for name in parameters if name in changed]
    return f"{row.name}({', '.join(arguments)})"


def _adaptive_row(method: object) -> Row | None:
    """Find the adaptive row with the noise model of a method."""
    noise_model = _adaptive_noise(method)
    return next((row for row in rows("adaptive") if type(_adaptive_noise(row.method)) is type(noise_model)), None)


def _adaptive_noise(method: object) -> NoiseModel | None:
    """Unwrap the noise model inside jump recovery and the split by sensor; None for other methods."""
    if not isinstance(method, GaussianFilter) or not isinstance(method.noise, JumpRecovery):
        return None
    inner = method.noise.base
    return inner.base if isinstance(inner, noise.PerSensorNoise) else inner


def _options(method: Any) -> dict[str, object]:
    """Collect the fields of an adaptive method under the names of its constructor's options."""
    noise_model, outer = _adaptive_noise(method), method.noise.base
    sensors = None if outer is noise_model else outer.sensors or "each"
    fields = vars(method) | vars(method.noise) | vars(noise_model) | {"sensors": sensors}
    return {name: value for name, value in fields.items() if name not in ("noise", "base")}


def _short(value: object) -> str:
    if value is None:  # an uncertainty of 0
        return "0"
    return f"{value:g}" if isinstance(value, float) else repr(value)
