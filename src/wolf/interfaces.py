"""The interfaces between the parts of a filter: protocols, and the values that the parts exchange.

A filter is three independent choices: a belief (`wolf.beliefs`), a linearization (the affine approximation of a
function under a belief) and a noise model (the weight of a measurement). Anything that implements the protocols below
can be combined with the rest; their members have defaults, so a new part implements only what differs.

Dimensions: D state, M observation, T time, B series. Inside the engine coordinates come first and a trailing axis, if
there is one, holds the series.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from jax import Array

from wolf.beliefs import Affine, Belief
from wolf.beliefs.updates import MixtureUpdate, Update
from wolf.numerics import linalg
from wolf.numerics.linalg import Cholesky
from wolf.numerics.pytree import PyTree
from wolf.statespace import Bound, LinearMap, Model

Number = float | np.number | np.ndarray | Array  # a hyper-parameter: one number, or an array of them for a sweep
Key = int | np.integer | np.ndarray | Array  # a seed, or a JAX key
Dtype = Literal["float64", "float32"]
Form = Literal["auto", "joseph", "symmetric", "sqrt"]
Metric = Literal["R", "S"]
Save = Literal["all", "means", "final"] | Callable[[Any, Any], Any]  # what to keep of each step's (state, info)
MemoryT = TypeVar("MemoryT")  # of a noise model: a pytree of arrays
StateT = TypeVar("StateT")  # of a filter: a pytree of arrays that satisfies `State`


@dataclasses.dataclass(frozen=True)
class Requirements:
    """Requirements of a part on a run, known before it starts.

    Args:
        linear: needs a model of matrices, not of functions.
        key: needs random numbers.
        variances: takes diagonal covariances as vectors of variances; otherwise they are expanded to matrices.
        one_series: runs one series at a time; a part without this requirement takes many, on a trailing axis.
        covariances: needs memory for a covariance of each step in the results.

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
        """Combine the requirements of two parts."""
        return Requirements(
            self.linear or other.linear,
            self.key or other.key,
            self.variances or other.variances,
            self.one_series or other.one_series,
            self.covariances or other.covariances,
        )


def is_a(value: object, protocol: type) -> bool:
    """Return whether a value implements a protocol; subclasses are recognised without the slow structural check.

    Args:
        value: any object; a class itself does not implement the protocol of its instances.
        protocol: a runtime-checkable protocol.
    """
    return not isinstance(value, type) and (protocol in type(value).__mro__ or isinstance(value, protocol))


@runtime_checkable
class WeightFunction(Protocol):
    """Weight w in [0, 1] of a measurement, one number or one for each coordinate; see `wolf.weights`."""

    def __call__(self, residual: Any, obs_cov: Any, innovation_cov: Any, /) -> Any:
        """Compute the weight of a residual (M,) with noise covariance R and innovation covariance S, both (M, M)."""


@runtime_checkable
class Linearization(Protocol):
    """Affine approximation of a function under a belief, with leftover covariance; see `wolf.linearization`."""

    @property
    def requirements(self) -> Requirements:
        """Requirements on the model."""
        return Requirements(one_series=False)

    def __call__(self, fn: LinearMap | Bound, belief: Belief, at: Array | None = None) -> Affine:
        """Approximate a function at the belief's mean, or at another point re-centred on that mean."""
        ...


def at_step(rows: Array, t: Array, axes: int) -> Array:
    """Return the row of a step, of a field that may already be that row.

    Args:
        rows: (T, ...), or the row alone.
        t: the step.
        axes: number of axes of a row.
    """
    return rows if rows.ndim == axes else rows[t]


@runtime_checkable
class NoiseModel(Protocol[MemoryT]):
    """Measurement noise model: decides how a measurement updates the belief; see `wolf.noise`.

    Subclass it and implement `__call__`; the defaults suit a model without memory that accepts any state-space model.
    A noise model around another one subclasses `wolf.inference.noise.delegating.DelegatingNoise`.
    """

    @property
    def requirements(self) -> Requirements:
        """Requirements on the run."""
        return Requirements()

    @property
    def time_varying_fields(self) -> tuple[str, ...]:
        """Fields with a row for each step; native code reads them row by row, where a field is a row: `at_step`."""
        return ()

    @property
    def is_mixture(self) -> bool:
        """Whether the noise is a mixture of several covariances, each with a gain of its own."""
        return False

    @property
    def revises_prior(self) -> bool:
        """Whether the prediction may be revised too, and not only the measurement."""
        return False

    @property
    def innermost(self) -> "NoiseModel[Any]":
        """The noise model inside all wrappers; itself if it wraps none."""
        return self

    def check(self, model: Model) -> None:
        """Raise ValueError for a state-space model that the noise model does not support."""
        return

    def start(self, model: Model) -> MemoryT:
        """Return the initial memory: a pytree of arrays."""
        return ()  # type: ignore[return-value]

    def noise_estimate(self, memory: MemoryT) -> Any:
        """Return the noise estimated so far, by sensor a list of them; None for models that estimate nothing."""
        return None

    def predict(self, memory: MemoryT, view: Affine, noise_cov: Array | None, t: Array) -> tuple[Array | None, MemoryT]:
        """Return the Q to use in the prediction, and the memory after it.

        Args:
            memory: after the last measurement.
            view: affine approximation of the dynamics under the belief.
            noise_cov: Q of the model, a matrix, variances, or None for zero.
            t: number of measurements so far.
        """
        return noise_cov, memory

    def predict_measurement(
        self, memory: MemoryT, view: Affine, belief: Belief, dynamics: "LinearMap | Bound", noise_cov: Array | None
    ) -> tuple[Affine, PyTree]:
        """Add the predictable part of the noise to an observation, where the noise is autocorrelated.

        Args:
            memory: as returned by `predict`.
            view: affine approximation of the observation function, with its Jacobian written out.
            belief: predicted.
            dynamics: of the model at this step.
            noise_cov: Q of the model, as in `predict`.

        Returns:
            The approximation to use, and the value of `UpdateContext.predicted_measurement`.
        """
        return view, None

    def shared_memory(self, memory: MemoryT) -> PyTree:
        """Return the part of a memory that several sensors share; None by default."""
        return None

    def with_shared_memory(self, memory: MemoryT, shared: PyTree) -> MemoryT:
        """Return a memory with its shared part replaced."""
        return memory

    def snapshot(self, memory: MemoryT) -> PyTree:
        """Return the part of a memory to restore when rejected measurements turn out to be a jump; () by default."""
        return ()

    def after_jump(self, memory: MemoryT, snapshot: PyTree, rejected: Array) -> MemoryT:
        """Return the memory to continue with after a jump of the state.

        Args:
            memory: current, updated by rejected measurements that were no outliers.
            snapshot: from before the first of them.
            rejected: number of rejected measurements since then, by sensor, (S,).
        """
        return memory

    def screen(self, memory: MemoryT, y: "Measurement") -> tuple["Measurement", MemoryT]:
        """Return the measurement to use, without the coordinates that the noise model removes, and the memory after it.

        Args:
            memory: as returned by `predict`.
            y: the measurement; returned as it is where nothing is ever removed.
        """
        return y, memory

    def after_unusable(self, memory: MemoryT, unusable: Array) -> MemoryT | None:
        """Return the memory after infinite numbers, which count as outliers; None for models that count none.

        Args:
            memory: after the usable coordinates of the measurement.
            unusable: which coordinates are infinite or too large to square, (M,).
        """
        return None

    def sensor_slices(self, size: int) -> list[Any]:
        """Return the coordinates of each sensor that is weighted by itself; by default all of them as one.

        Args:
            size: number of coordinates M.
        """
        return [slice(None)]

    def sensor_numbers(self, count: int) -> list[int]:
        """Return the numbers by which sensors are reported, 0, 1, ... by default.

        Args:
            count: number of sensors.
        """
        return list(range(count))

    def loo_information_root(self, context: "UpdateContext[MemoryT]") -> Array:
        """Return W, (M, M), with information Wᵀ W for a measurement given the leave-one-out belief about it.

        Args:
            context: the measurement, with the cavity distribution of H x as the belief.
        """
        update = self(context).update
        weight = update.as_weight(context.belief.cov).weight if isinstance(update, MixtureUpdate) else update.weight
        if weight.ndim == 2:
            return weight
        whitening = linalg.cholesky(context.obs_cov).half(linalg.eye(len(context.residual), context.obs_cov))
        return whitening * weight

    def __call__(self, context: "UpdateContext[MemoryT]") -> "UpdateDecision[MemoryT]":
        """Decide how one measurement updates the belief."""
        ...


class State(Protocol):
    """State of a filter, carried from step to step."""

    @property
    def mean(self) -> Any:
        """Mean of the state, (D,)."""
        ...

    @property
    def cov(self) -> Any:
        """Covariance, (D, D); None for a filter without one."""
        ...

    @property
    def variances(self) -> Any:
        """Variances, (D,); None for a filter without uncertainty."""
        ...

    @property
    def t(self) -> Any:
        """Number of measurements so far."""
        ...


@runtime_checkable
class Filter(Protocol[StateT]):
    """One time step of a filter: the type of `wolf.filter(method=...)`; see `wolf.filters`.

    Subclass it and implement `init`, `predict` and `update`; the rest has defaults. A filter around another one passes
    on its requirements and checks.
    """

    @property
    def requirements(self) -> Requirements:
        """Requirements on the run."""
        return Requirements()

    @property
    def linearization(self) -> Linearization | None:
        """Linearization that smoothing and forecasts use; None without a Gaussian belief."""
        return None

    @property
    def noise(self) -> NoiseModel[Any] | None:
        """Noise model; None if measurements are not weighted by one."""
        return None

    def check(self, model: Model) -> None:
        """Raise ValueError for a state-space model that the filter does not support."""
        return

    def suited(self, model: Model) -> "Filter[StateT]":
        """Return this filter in the numerical form that is accurate for a model."""
        return self

    def init(self, model: Any, key: Array | None = None) -> StateT:
        """Return the state of the model's prior."""
        ...

    def predict(self, now: Any, state: StateT, u: Array | None, key: Array | None = None) -> StateT:
        """Predict one time step with the model `now` of this step and its input u."""
        ...

    def update(
        self, now: Any, state: StateT, y: "Measurement", u: Array | None, key: Array | None = None
    ) -> tuple[StateT, "StepInfo"]:
        """Update the state with one measurement."""
        ...


class Measurement(NamedTuple):
    """One preprocessed measurement; what does not depend on the state is computed once, outside the filter loop.

    Attributes:
        value: (M,), zero where there is no usable number.
        observed: (M,), 1 where there is a usable number, 0 elsewhere.
        num_observed: number of usable coordinates.
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


class UpdateContext(NamedTuple, Generic[MemoryT]):
    """Input of a noise model at one measurement.

    Attributes:
        residual: `y - prediction`, (M,), zero where y is missing.
        view: affine approximation of the observation function; its rows are zero where y is missing.
        belief: predicted.
        obs_cov: R, (M, M), with independent unit variance where y is missing.
        observed: (M,), 1 where there is a number, 0 elsewhere.
        innovation: factor of the innovation covariance S.
        memory: of the noise model, after the prediction.
        t: number of measurements so far.
        predicted_measurement: second result of `NoiseModel.predict_measurement`.
    """

    residual: Array
    view: Affine
    belief: Any
    obs_cov: Array
    observed: Array
    innovation: Cholesky
    memory: MemoryT = ()  # type: ignore[assignment]
    t: Any = None
    predicted_measurement: PyTree = None


class UpdateDecision(NamedTuple, Generic[MemoryT]):
    """Result of a noise model at one measurement.

    Attributes:
        update: how the measurement changes the belief: `wolf.beliefs.updates.WeightedUpdate(w)`, or another kind.
        memory: of the noise model, after the measurement.
        outlier: outlier probability; None to derive it from the weight.
        inflation: factor on the predicted covariance where the state jumped; None stands for 1.
        scales: scale of ordinary noise relative to R, () or (M,), and factor on Q, as used for this measurement; None
            for noise models that estimate no scales.
    """

    update: Update
    memory: MemoryT = ()  # type: ignore[assignment]
    outlier: Array | None = None
    inflation: Array | None = None
    scales: tuple[Array, Array] | None = None


class StepInfo(NamedTuple):
    """Diagnostics of one step; None where a filter has none.

    Attributes:
        predicted: mean and covariance before the measurement; inflated where the state jumped.
        residual: `y - prediction`, (M,), zero where y is missing.
        innovation_cov: covariance S of the residual under the nominal model, (M, M).
        weight: w, one number or one for each coordinate; 0 where nothing was used.
        outlier: True where a measurement is present and `w² < 1/2`, or its outlier probability exceeds 1/2.
        nis: `eᵀ S⁻¹ e` over the measured coordinates.
        log_likelihood: log density of y under the predictive Gaussian.
        weighted_log_likelihood: `log ∫ p(y|x)^{w²} p(x) dx`, the evidence of generalised Bayes. Not a score for
            tuning: a weight of zero always costs nothing.
        outlier_probability: of noise models that estimate it.
        inflation: factor on the predicted covariance; above 1 where the state jumped.
        noise_scale: scale of ordinary noise relative to R, () or (M,), of noise models that estimate it.
        dynamics_scale: factor on Q in the prediction, of noise models that estimate it.
        stuck: coordinates that repeat a value of a stuck sensor and were treated as missing, (M,) bool.
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
    stuck: Any = None
