"""Several filters that take turns: the interacting multiple model filter (Blom & Bar-Shalom 1988).

Each mode has its own model or noise levels, and a probability that it is the one at work. Before a step the modes mix
their beliefs by how likely they switch; after it they are weighed by how well they foresaw the measurement. The
standard tool for targets that manoeuvre, and for outliers as a mode with more noise.
"""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.beliefs.gaussian import JOSEPH_UP_TO
from wolf.inference.filters.covariance_reset import CovarianceReset
from wolf.inference.filters.gaussian import OUTLIER_POWER, GaussianFilter, GaussianState
from wolf.interfaces import Filter, Measurement, Requirements, StepInfo
from wolf.numerics import linalg
from wolf.numerics.pytree import pytree
from wolf.statespace import Model

LEAVE = 0.05  # chance that the usual mode is not at work, shared by the others


@pytree
class Mode:
    """One way in which the world may work.

    Args:
        obs_scale: factor on the measurement noise R.
        dynamics_scale: factor on the dynamics noise Q.
        model: another model altogether, with as many states and measured coordinates.
    """

    obs_scale: Any = 1.0
    dynamics_scale: Any = 1.0
    model: Any = None

    def __post_init__(self) -> None:
        """Check the factors."""
        validation.positive("obs_scale", self.obs_scale)
        validation.positive("dynamics_scale", self.dynamics_scale)

    def at_work(self, now: Model, t: Array) -> Model:
        """Give the model of this mode at this step."""
        mine = now if self.model is None else self.model.at(t)
        return mine.scaled(self.dynamics_scale, self.obs_scale)


class ImmState(NamedTuple):
    """A belief for each mode, the probabilities of the modes, and the number of measurements seen so far."""

    modes: tuple[GaussianState, ...]
    probabilities: Array
    t: Array

    @property
    def mean(self) -> Array:
        """Mean over the modes."""
        return _blend(self.modes, self.probabilities).mean

    @property
    def cov(self) -> Array:
        """Covariance over the modes, with what they disagree by."""
        return _blend(self.modes, self.probabilities).cov

    @property
    def variances(self) -> Array:
        """Variances."""
        return linalg.diagonal(self.cov)


@pytree
class IMM(Filter):
    """Run a filter for each mode, and let the modes mix.

    Args:
        modes: from `Mode`, the usual one first. The default has noise levels R, 10 R and 1000 R.
        transition: (K, K), row i the probabilities of going from mode i to each. By default every mode is followed by
            the first with probability 0.95.
        filter: of each mode.

    Example:
        >>> IMM((Mode(), Mode(dynamics_scale=100.0))).transition.tolist()
        [[0.95, 0.05], [0.95, 0.05]]
    """

    modes: Any = (Mode(), Mode(obs_scale=10.0), Mode(obs_scale=1000.0))
    transition: Any = None
    filter: GaussianFilter | CovarianceReset = GaussianFilter()

    def __post_init__(self) -> None:
        """Check the modes, and fill in the transition."""
        listed = isinstance(self.modes, tuple | list) and len(self.modes) > 0
        if not listed or not all(isinstance(mode, Mode) for mode in self.modes):
            raise ValueError(f"modes must be a list of Mode, at least one; got {self.modes!r}")
        if not isinstance(self.filter, GaussianFilter | CovarianceReset):
            raise ValueError(f"IMM takes a filter with a Gaussian belief, as wolf.WoLF(); got {self.filter!r}")
        size = len(self.modes)
        transition = self.transition
        if transition is None:
            others = [LEAVE / (size - 1)] * (size - 1) if size > 1 else []
            transition = np.tile([1.0 - LEAVE * (size > 1), *others], (size, 1))
        transition = np.asarray(transition, np.float64)
        if transition.shape != (size, size) or not np.allclose(transition.sum(1), 1.0) or np.any(transition < 0):
            raise ValueError(f"transition must be ({size}, {size}) with rows of probabilities; got {transition}")
        object.__setattr__(self, "modes", tuple(self.modes))
        object.__setattr__(self, "transition", transition)

    @property
    def requirements(self) -> Requirements:
        """What the filter of each mode needs, one series at a time."""
        return self.filter.requirements | Requirements()

    def check(self, model: Model) -> None:
        """Refuse what the filter of a mode refuses."""
        for mode in self.modes:
            self.filter.check(mode.model or model)

    def suited(self, model: Model) -> "IMM":
        """Put the filter of the modes into the form that holds for all of them.

        Modes that disagree about an error make a prior that is as wide as the error is: they take square roots.
        """
        inner = self.filter
        for mode in self.modes:
            inner = inner.suited(mode.model or model)
        if isinstance(inner, GaussianFilter) and inner.form == "auto" and model.state_dim <= JOSEPH_UP_TO:
            inner = dataclasses.replace(inner, form="sqrt")
        return dataclasses.replace(self, filter=inner)

    def init(self, model: Model, key: Array | None = None) -> ImmState:
        """Start every mode from its prior, with the probabilities of the first row."""
        states = tuple(self.filter.init(mode.model or model, key) for mode in self.modes)
        probabilities = jnp.asarray(self.transition)[0].astype(states[0].mean.dtype)
        return ImmState(states, probabilities, jnp.zeros((), jnp.int32))

    def predict(self, now: Model, state: ImmState, u: Array | None, key: Array | None = None) -> ImmState:
        """Mix the beliefs, then send each forward by its own model."""
        joint = state.probabilities[:, None] * self.transition
        ahead = linalg.sum_leading(joint)
        moved = []
        for j, mode in enumerate(self.modes):
            mixed = _blend(state.modes, joint[:, j] / jnp.where(ahead[j] > 0, ahead[j], 1.0))
            started = state.modes[j]._replace(belief=state.modes[j].belief.replaced(mixed))
            moved.append(self.filter.predict(mode.at_work(now, state.t), started, u, key))
        return ImmState(tuple(moved), ahead, state.t)

    def update(
        self, now: Model, state: ImmState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[ImmState, StepInfo]:
        """Learn in each mode, then weigh the modes."""
        works = [mode.at_work(now, state.t) for mode in self.modes]
        pairs = [self.filter.update(work, each, y, u, key) for work, each in zip(works, state.modes, strict=True)]
        told = [info for _, info in pairs]
        log_joint = _log(state.probabilities) + jnp.stack([info.log_likelihood for info in told])
        evidence = logsumexp(log_joint)
        used = (y.num_observed > 0) & ~y.non_finite
        probabilities = jnp.where(used, jnp.exp(log_joint - evidence), state.probabilities)
        new = ImmState(tuple(each for each, _ in pairs), probabilities, state.t + 1)
        return new, self._describe(state, new, told, evidence, y)

    def _describe(
        self, before: ImmState, after: ImmState, told: list[StepInfo], evidence: Array, y: Measurement
    ) -> StepInfo:
        foreseen = before.probabilities
        residuals = jnp.stack([info.residual for info in told])
        residual = linalg.sum_leading(foreseen[:, None] * residuals)
        around = residuals - residual[None]
        covs = jnp.stack([info.innovation_cov for info in told]) + around[:, :, None] * around[:, None, :]
        innovation_cov = linalg.sum_leading(foreseen[:, None, None] * covs)
        # A mode with s R believes a measurement to the power 1/s.
        powers = [_joint(info.weight, y) ** 2 / mode.obs_scale for info, mode in zip(told, self.modes, strict=True)]
        weight = linalg.safe_sqrt(linalg.sum_leading(after.probabilities * jnp.stack(powers)))
        return StepInfo(
            predicted=_blend(before.modes, foreseen),
            residual=residual,
            innovation_cov=innovation_cov,
            weight=jnp.minimum(weight, 1.0),
            outlier=y.any_present & (weight**2 < OUTLIER_POWER),
            nis=linalg.sum_leading(linalg.cholesky(innovation_cov).half(residual) ** 2),
            log_likelihood=jnp.where(y.num_observed > 0, evidence, 0.0),
        )


def _blend(states: tuple[GaussianState, ...], probabilities: Array) -> Gaussian:
    """Match the mean and covariance of a mixture."""
    xp = linalg.array_namespace(probabilities)
    means = xp.stack([state.mean for state in states])
    mean = linalg.sum_leading(probabilities[:, None] * means)
    around = means - mean[None]
    covs = xp.stack([state.cov for state in states]) + around[:, :, None] * around[:, None, :]
    return Gaussian(mean, linalg.sum_leading(probabilities[:, None, None] * covs))


def _joint(weight: Array, y: Measurement) -> Array:
    """Take one number of a weight that may be one for each coordinate."""
    return weight if weight.ndim == 0 else linalg.sum_leading(weight) / jnp.maximum(y.num_observed, 1.0)


def _log(x: Array) -> Array:
    return jnp.log(jnp.maximum(x, jnp.finfo(x.dtype).tiny))
