"""Interacting multiple model filter (Blom & Bar-Shalom 1988).

Each mode has its own model or scales of R and Q, and a probability that it is active. Before a step the beliefs of the
modes are mixed by the transition probabilities; after it the modes are weighted by their likelihoods. The standard tool
for manoeuvring targets, and for outliers as a mode with more noise.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.beliefs.gaussian import JOSEPH_UP_TO
from wolf.inference.filters.covariance_reset import CovarianceReset
from wolf.inference.filters.gaussian import OUTLIER_POWER, GaussianFilter, GaussianState
from wolf.interfaces import Filter, Measurement, Number, Requirements, StepInfo
from wolf.numerics import linalg
from wolf.numerics.pytree import pytree
from wolf.statespace import Model

SWITCH_PROBABILITY = 0.05  # default probability that the first mode is not active, shared by the others


@pytree
class Mode:
    """Mode of the system: scales of the noise, or another model.

    Args:
        obs_scale: factor on the measurement noise R.
        dynamics_scale: factor on the dynamics noise Q.
        model: another model, with the same numbers of states and measured coordinates.
    """

    obs_scale: Number = 1.0
    dynamics_scale: Number = 1.0
    model: Model | None = None

    def __post_init__(self) -> None:
        """Validate the factors."""
        validation.positive("obs_scale", self.obs_scale)
        validation.positive("dynamics_scale", self.dynamics_scale)

    def model_at(self, now: Model, t: Array) -> Model:
        """Return the model of this mode at this step."""
        model = now if self.model is None else self.model.at(t)
        return model.scaled(self.dynamics_scale, self.obs_scale)


class ImmState(NamedTuple):
    """Belief of each mode, probabilities of the modes, and number of measurements processed."""

    modes: tuple[GaussianState, ...]
    probabilities: Array
    t: Array

    @property
    def mean(self) -> Array:
        """Mean of the mixture, (D,)."""
        return _blend(self.modes, self.probabilities).mean

    @property
    def cov(self) -> Array:
        """Covariance of the mixture, within and between the modes, (D, D)."""
        return _blend(self.modes, self.probabilities).cov

    @property
    def variances(self) -> Array:
        """Variances of the mixture, (D,)."""
        return linalg.diagonal(self.cov)


@pytree
class IMM(Filter):
    """Interacting multiple model filter: one filter per mode, mixed at every step.

    Args:
        modes: `Mode` values, the most frequent first. By default the noise covariances are R, 10 R and 1000 R.
        transition: (K, K), row i has the transition probabilities from mode i. By default every mode is followed by
            the first with probability 0.95.
        filter: of each mode.

    Example:
        >>> IMM((Mode(), Mode(dynamics_scale=100.0))).transition.tolist()
        [[0.95, 0.05], [0.95, 0.05]]
    """

    modes: tuple[Mode, ...] = (Mode(), Mode(obs_scale=10.0), Mode(obs_scale=1000.0))
    transition: Any = None
    filter: GaussianFilter | CovarianceReset = GaussianFilter()

    def __post_init__(self) -> None:
        """Validate the modes and set the default transition probabilities."""
        listed = isinstance(self.modes, tuple | list) and len(self.modes) > 0
        if not listed or not all(isinstance(mode, Mode) for mode in self.modes):
            raise ValueError(f"modes must be a list of Mode, at least one; got {self.modes!r}")
        if not isinstance(self.filter, GaussianFilter | CovarianceReset):
            raise ValueError(f"IMM takes a filter with a Gaussian belief, as wolf.WoLF(); got {self.filter!r}")
        size = len(self.modes)
        transition = self.transition
        if transition is None:
            others = [SWITCH_PROBABILITY / (size - 1)] * (size - 1) if size > 1 else []
            transition = np.tile([1.0 - SWITCH_PROBABILITY * (size > 1), *others], (size, 1))
        if not isinstance(transition, jax.Array):  # arrays of JAX keep their dtype, and may be traced
            transition = np.asarray(transition, np.float64)
        if not isinstance(transition, jax.core.Tracer):
            valid = transition.shape == (size, size) and np.allclose(transition.sum(1), 1.0) and np.all(transition >= 0)
            if not valid:
                raise ValueError(f"transition must be ({size}, {size}) with rows of probabilities; got {transition}")
        object.__setattr__(self, "modes", tuple(self.modes))
        object.__setattr__(self, "transition", transition)

    @property
    def requirements(self) -> Requirements:
        """Requirements of the filter of each mode, one series at a time."""
        return self.filter.requirements | Requirements()

    def check(self, model: Model) -> None:
        """Validate the model of each mode for its filter."""
        for mode in self.modes:
            self.filter.check(mode.model or model)

    def suited(self, model: Model) -> "IMM":
        """Return a copy whose filter has a numerical form that is adequate for all modes.

        Modes that disagree about an error give a mixed prior as wide as the error, so small states use square roots.
        """
        inner = self.filter
        for mode in self.modes:
            inner = inner.suited(mode.model or model)
        if isinstance(inner, GaussianFilter) and inner.form == "auto" and model.state_dim <= JOSEPH_UP_TO:
            inner = dataclasses.replace(inner, form="sqrt")
        return dataclasses.replace(self, filter=inner)

    def init(self, model: Model, key: Array | None = None) -> ImmState:
        """Return the initial state: the prior of each mode, with the probabilities of the first row."""
        states = tuple(self.filter.init(mode.model or model, key) for mode in self.modes)
        probabilities = jnp.asarray(self.transition)[0].astype(states[0].mean.dtype)
        return ImmState(states, probabilities, jnp.zeros((), jnp.int32))

    def predict(self, now: Model, state: ImmState, u: Array | None, key: Array | None = None) -> ImmState:
        """Mix the beliefs, then predict each with its own model."""
        joint = state.probabilities[:, None] * self.transition
        ahead = linalg.sum_leading(joint)
        predicted = []
        for j, mode in enumerate(self.modes):
            mixed = _blend(state.modes, joint[:, j] / jnp.where(ahead[j] > 0, ahead[j], 1.0))
            mixed_state = state.modes[j]._replace(belief=state.modes[j].belief.replaced(mixed))
            predicted.append(self.filter.predict(mode.model_at(now, state.t), mixed_state, u, key))
        return ImmState(tuple(predicted), ahead, state.t)

    def update(
        self, now: Model, state: ImmState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[ImmState, StepInfo]:
        """Update each mode, then the probabilities of the modes."""
        models = [mode.model_at(now, state.t) for mode in self.modes]
        pairs = [self.filter.update(model, each, y, u, key) for model, each in zip(models, state.modes, strict=True)]
        infos = [info for _, info in pairs]
        log_joint = _log(state.probabilities) + jnp.stack([info.log_likelihood for info in infos])
        evidence = logsumexp(log_joint)
        used = (y.num_observed > 0) & ~y.non_finite
        probabilities = jnp.where(used, jnp.exp(log_joint - evidence), state.probabilities)
        new = ImmState(tuple(each for each, _ in pairs), probabilities, state.t + 1)
        return new, self._describe(state, new, infos, evidence, y)

    def _describe(
        self, before: ImmState, after: ImmState, infos: list[StepInfo], evidence: Array, y: Measurement
    ) -> StepInfo:
        predicted = before.probabilities
        residuals = jnp.stack([info.residual for info in infos])
        residual = linalg.sum_leading(predicted[:, None] * residuals)
        around = residuals - residual[None]
        covs = jnp.stack([info.innovation_cov for info in infos]) + around[:, :, None] * around[:, None, :]
        innovation_cov = linalg.sum_leading(predicted[:, None, None] * covs)
        # The likelihood of a mode with s R is the nominal one to the power 1/s.
        powers = [_joint(info.weight, y) ** 2 / mode.obs_scale for info, mode in zip(infos, self.modes, strict=True)]
        weight = linalg.safe_sqrt(linalg.sum_leading(after.probabilities * jnp.stack(powers)))
        return StepInfo(
            predicted=_blend(before.modes, predicted),
            residual=residual,
            innovation_cov=innovation_cov,
            weight=jnp.minimum(weight, 1.0),
            outlier=y.any_present & (weight**2 < OUTLIER_POWER),
            nis=linalg.sum_leading(linalg.cholesky(innovation_cov).half(residual) ** 2),
            log_likelihood=jnp.where(y.num_observed > 0, evidence, 0.0),
        )


def _blend(states: tuple[GaussianState, ...], probabilities: Array) -> Gaussian:
    """Compute the mean and covariance of a mixture."""
    xp = linalg.array_namespace(probabilities)
    means = xp.stack([state.mean for state in states])
    mean = linalg.sum_leading(probabilities[:, None] * means)
    around = means - mean[None]
    covs = xp.stack([state.cov for state in states]) + around[:, :, None] * around[:, None, :]
    return Gaussian(mean, linalg.sum_leading(probabilities[:, None, None] * covs))


def _joint(weight: Array, y: Measurement) -> Array:
    """Reduce a weight per coordinate to a scalar, the mean over the measured coordinates."""
    return weight if weight.ndim == 0 else linalg.sum_leading(weight) / jnp.maximum(y.num_observed, 1.0)


def _log(x: Array) -> Array:
    return jnp.log(jnp.maximum(x, jnp.finfo(x.dtype).tiny))
