"""What the parts of a filter hand to each other, and what each part must be able to do.

A filter is three independent choices: a belief (`wolf.beliefs`), moments (how a function is seen by a belief) and a
noise rule (how much a measurement is believed). Whoever keeps to the protocols below fits in; they have defaults, so
that a new part writes only what is its own.

Dimensions: D state, M observation, T time, B series. Inside the engine coordinates come first and a trailing axis, if
there is one, holds the series.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jax import Array

from wolf.beliefs import Affine, Belief
from wolf.beliefs.updates import Update
from wolf.numerics.linalg import Cholesky
from wolf.statespace import Bound, LinearMap, Model

Number = float | np.number | np.ndarray | Array  # a hyper-parameter: one number, or an array of them for a sweep
Key = int | np.integer | np.ndarray | Array  # a seed, or a JAX key
Dtype = Literal["float64", "float32"]
Form = Literal["auto", "joseph", "symmetric", "sqrt"]
Metric = Literal["R", "S"]
Save = Literal["all", "means", "final"] | Callable[[Any, Any], Any]  # what to keep of each step's (state, info)


@dataclasses.dataclass(frozen=True)
class Requirements:
    """What a part needs of a run, known before it starts.

    Args:
        linear: a model of matrices, not of functions.
        key: random numbers.
        variances: covariances as variances where they are diagonal; else they are written out as matrices.
        one_series: many series are run apart; a part without this need takes them together, on a trailing axis.
        covariances: room for a covariance of each step in the results.

    Example:
        >>> Requirements(linear=True, one_series=False) | Requirements(key=True)
        Requirements(linear=True, key=True, variances=False, one_series=True, covariances=True)
    """

    linear: bool = False
    key: bool = False
    variances: bool = False
    one_series: bool = True
    covariances: bool = True

    def __or__(self, other: "Requirements") -> "Requirements":
        """Join the needs of two parts."""
        return Requirements(
            self.linear or other.linear,
            self.key or other.key,
            self.variances or other.variances,
            self.one_series or other.one_series,
            self.covariances or other.covariances,
        )


def is_a(value: Any, protocol: type) -> bool:
    """Say whether a value has what a protocol asks for. A subclass says so itself; others are asked, which takes long.

    Args:
        value: of any kind; a class is none.
        protocol: one that can be asked for at run time.
    """
    return not isinstance(value, type) and (protocol in type(value).__mro__ or isinstance(value, protocol))


@runtime_checkable
class WeightFunction(Protocol):
    """How far a measurement is believed: w in [0, 1], a number or one for each coordinate; see `wolf.weights`."""

    def __call__(self, residual: Any, obs_cov: Any, innovation_cov: Any, /) -> Any:
        """Weigh a residual (M,) by its noise R and its covariance S, both (M, M)."""


@runtime_checkable
class Linearization(Protocol):
    """How a function is seen by a belief: as a straight line and what that leaves over; see `wolf.linearization`."""

    @property
    def requirements(self) -> Requirements:
        """What these moments need of a model."""
        return Requirements(one_series=False)

    def __call__(self, fn: LinearMap | Bound, belief: Belief, at: Array | None = None) -> Affine:
        """See a function at the belief's mean, or at another point re-centred on that mean."""
        ...


def at_step(rows: Any, t: Any, axes: int) -> Any:
    """Give the row of a step, of a field that may be that row already.

    Args:
        rows: (T, ...), or the row alone.
        t: the step.
        axes: of a row.
    """
    return rows if rows.ndim == axes else rows[t]


@runtime_checkable
class NoiseModel(Protocol):
    """How much of a measurement to believe; see `wolf.noise`.

    Subclass it and write `__call__`; the rest has defaults for a rule that remembers nothing and takes any model.
    """

    @property
    def requirements(self) -> Requirements:
        """What the rule needs of a run."""
        return Requirements()

    @property
    def time_varying_fields(self) -> tuple[str, ...]:
        """Fields with a row for each step; native code reads them one by one, and there a field is a row: `at_step`."""
        return ()

    def check(self, model: Model) -> None:
        """Refuse, in words, a model that the rule does not suit."""
        return

    def start(self, model: Model) -> Any:
        """Give the memory to begin with: a pytree of arrays."""
        return ()

    def noise_estimate(self, memory: Any) -> Any:
        """Say what a memory has learned about the noise; None for rules that learn nothing."""
        return None

    def predict(self, memory: Any, view: Affine, noise_cov: Any, t: Any) -> tuple[Any, Any]:
        """Look on as the state goes forward: give the Q to use, and the memory.

        Args:
            memory: what the rule returned last.
            view: the dynamics seen by the belief.
            noise_cov: Q of the model, a matrix, variances, or None for nothing.
            t: how many measurements came before.
        """
        return noise_cov, memory

    def predict_measurement(
        self, memory: Any, view: Affine, belief: Any, dynamics: "LinearMap | Bound", noise_cov: Any
    ) -> tuple[Affine, Any]:
        """See what will be measured, where the noise is not all new; and give what `UpdateContext` shall hold of it.

        Args:
            memory: what `predict` returned.
            view: the observation function seen by the belief, its slope written out.
            belief: predicted.
            dynamics: of the model at this step.
            noise_cov: Q of the model, as in `predict`.
        """
        return view, None

    def shared_memory(self, memory: Any) -> Any:
        """Take out of a memory what several sensors share; nothing by default."""
        return None

    def with_shared_memory(self, memory: Any, shared: Any) -> Any:
        """Put into a memory what several sensors share."""
        return memory

    def snapshot(self, memory: Any) -> Any:
        """Take out of a memory what is to be kept while refused measurements vote; nothing by default."""
        return ()

    def after_jump(self, memory: Any, snapshot: Any, refused: Array) -> Any:
        """Give the memory to go on with after a jump of the state.

        Args:
            memory: as it is, taught by refused measurements that were no outliers.
            snapshot: what was kept when their vote began.
            refused: how many there were since, one number for each sensor that votes, (S,).
        """
        return memory

    def sensor_slices(self, size: int) -> list[Any]:
        """List the coordinates of each sensor that the rule judges by itself: all of them, as one, by default."""
        return [slice(None)]

    @property
    def is_mixture(self) -> bool:
        """Whether the rule averages over several noises, each with its own gain."""
        return False

    @property
    def revises_prior(self) -> bool:
        """Whether the rule may doubt the prediction too, and not only the measurement."""
        return False

    def __call__(self, context: "UpdateContext") -> "UpdateDecision":
        """Judge one measurement."""
        ...


class State(Protocol):
    """What a filter carries from step to step."""

    @property
    def mean(self) -> Any:
        """Mean of the state, (D,)."""
        ...

    @property
    def cov(self) -> Any:
        """Covariance, (D, D); None for a filter that carries none."""
        ...

    @property
    def variances(self) -> Any:
        """Variances, (D,); None for a filter that has no uncertainty."""
        ...

    @property
    def t(self) -> Any:
        """Number of measurements so far."""
        ...


@runtime_checkable
class Filter(Protocol):
    """One step at a time: what `wolf.filter(method=...)` takes; see `wolf.filters`.

    Subclass it and write `init`, `predict` and `update`; the rest has defaults. A filter around another one passes on
    what that one needs and refuses.
    """

    @property
    def requirements(self) -> Requirements:
        """What the filter needs of a run."""
        return Requirements()

    @property
    def linearization(self) -> Linearization | None:
        """Moments, by which smoothing and forecasts see functions; None if there is no Gaussian belief."""
        return None

    @property
    def noise(self) -> NoiseModel | None:
        """Noise rule; None if no rule judges measurements."""
        return None

    def check(self, model: Model) -> None:
        """Refuse, in words, a model that the filter does not suit."""
        return

    def suited(self, model: Model) -> "Filter":
        """Give this filter in the numerical form that holds for a model."""
        return self

    def init(self, model: Any, key: Array | None = None) -> Any:
        """Start from the model's prior: a state."""
        ...

    def predict(self, now: Any, state: Any, u: Array | None, key: Array | None = None) -> Any:
        """Go forward one step in time, by the model `now` of this step and its input u."""
        ...

    def update(
        self, now: Any, state: Any, y: "Measurement", u: Array | None, key: Array | None = None
    ) -> tuple[Any, "StepInfo"]:
        """Learn from one measurement."""
        ...


class Measurement(NamedTuple):
    """One cleaned measurement; what can be known before the filter runs is worked out once, outside its loop.

    Attributes:
        value: (M,), zero where there is nothing to use.
        observed: (M,), 1 where there is a usable number, 0 where not.
        num_observed: how many coordinates are usable.
        present: (M,) bool, False for NaN.
        any_present: whether any coordinate is present.
        non_finite: whether any coordinate is infinite, or too large to square.
    """

    value: Array
    observed: Array
    num_observed: Array
    present: Array
    any_present: Array
    non_finite: Array


class UpdateContext(NamedTuple):
    """What a noise rule looks at.

    Attributes:
        residual: `y - prediction`, (M,), zero where nothing was measured.
        view: the observation function seen by the belief; its rows are zero where nothing was measured.
        belief: predicted.
        obs_cov: R, (M, M); what was not measured has unit noise of its own.
        observed: (M,), 1 where there is a number, 0 where not.
        innovation: factor of the covariance S of the residual.
        memory: what the rule returned last, for rules that learn the noise.
        t: how many measurements came before.
        predicted_measurement: what the rule gave beside its view when it foresaw the measurement.
    """

    residual: Array
    view: Affine
    belief: Any
    obs_cov: Array
    observed: Array
    innovation: Cholesky
    memory: Any = ()
    t: Any = None
    predicted_measurement: Any = None


class UpdateDecision(NamedTuple):
    """How much of a measurement to believe: what a noise rule returns.

    Attributes:
        update: how the measurement changes the belief: `wolf.beliefs.updates.WeightedUpdate(w)`, or another of its
        kinds. memory: what the rule carries to its next measurement, for rules that learn the noise.
        outlier: probability of being an outlier, for rules that work it out. None leaves it to the weight.
        inflation: factor on the predicted covariance, for rules that let the state jump. None stands for 1.
        scales: size of ordinary noise over R, () or (M,), and factor on Q, by which this measurement was judged, for
            rules that learn these levels.
    """

    update: Update
    memory: Any = ()
    outlier: Array | None = None
    inflation: Array | None = None
    scales: tuple[Array, Array] | None = None


class StepInfo(NamedTuple):
    """What one step tells about itself. A filter leaves out (None) what it does not have.

    Attributes:
        predicted: mean and covariance before the measurement; inflated, where a rule found that the state jumped.
        residual: `y - prediction`, (M,), zero where y is missing.
        innovation_cov: covariance S of the residual under the nominal model, (M, M).
        weight: w, one number or one for each coordinate; 0 where nothing was used.
        outlier: True where a measurement came and `w² < 1/2`, or is more likely an outlier than not.
        nis: `eᵀ S⁻¹ e` over the coordinates that were measured.
        log_likelihood: log density of y under the predictive Gaussian.
        weighted_log_likelihood: `log ∫ p(y|x)^{w²} p(x) dx`, the evidence of generalised Bayes. Not a score to
            tune by: a weight of zero always costs nothing.
        outlier_probability: for methods that learn the noise.
        inflation: factor on the predicted covariance; above 1 where the state was found to have jumped.
        noise_scale: size of ordinary noise over R, () or (M,), for methods that learn levels.
        dynamics_scale: factor on Q in the prediction, for methods that learn it.
    """

    predicted: Any = None
    residual: Any = None
    innovation_cov: Any = None
    weight: Any = None
    outlier: Any = None
    nis: Any = None
    log_likelihood: Any = None
    weighted_log_likelihood: Any = None
    outlier_probability: Any = None
    inflation: Any = None
    noise_scale: Any = None
    dynamics_scale: Any = None
