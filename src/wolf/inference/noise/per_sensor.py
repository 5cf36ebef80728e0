"""Independent sensors, processed one after the other, each with a noise model memory of its own.

One weight for all sensors would reject the good ones with a faulty one. With R block diagonal over the sensors,
sequential updates equal the joint update; each sensor is then weighted given a belief that includes those before it.

A bias of a sensor that lasts looks like the state, and what is left is small: its noise is estimated far below R, and
intervals are too narrow. The sign of it: innovations with a significant lag-1 autocorrelation ρ, and a scale s of the
noise below R. The likelihood of such a sensor is raised to the power s^ρ (1 - ρ) / (1 + ρ): s^ρ takes back the part of
R that was learned away, the rest is the ratio of effective to actual sample size of an AR(1) series. Its measurements
do not determine r and q, and do not change them; r returns to 1.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import validation
from wolf.beliefs import Affine, Belief
from wolf.beliefs.updates import PosteriorUpdate, Update
from wolf.inference.noise.delegating import DelegatingNoise, select
from wolf.inference.noise.noise_scale_rml import ScaleEstimates
from wolf.interfaces import NoiseModel, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.linalg import matvec
from wolf.numerics.pytree import PyTree, pytree, static
from wolf.statespace import Bound, LinearMap, Model

FORGETTING = 0.998  # of the autocorrelation, per measurement
MAX_STANDARDISED = 3.0  # standard deviations at which innovations are clipped before they are correlated
MIN_STANDARD_ERRORS = 3.0  # of the autocorrelation that are subtracted from it
MAX_AUTOCORRELATION = 0.9
RETURN_RATE = 0.02  # by which ln r returns to 0, per measurement of a sensor with autocorrelated errors
TINY = 1e-30  # instead of a division by 0
MAX_SCALE = 0.8  # of R: above it innovations are autocorrelated because Q is too small, not because errors are


class SensorMemory(NamedTuple):
    """Memory of one sensor.

    Attributes:
        noise: memory of its noise model.
        last: standardised innovations of its last measurement that was no outlier, (M,); 0 before.
        moments: discounted sums of products of successive innovations, of their squares, and of ones, (3,).
    """

    noise: PyTree
    last: Array
    moments: Array

    @property
    def autocorrelation(self) -> Array:
        """Lag-1 autocorrelation of the innovations, less three standard errors, at least 0."""
        cross, square, count = self.moments
        found = cross / jnp.maximum(square, TINY) - MIN_STANDARD_ERRORS / jnp.sqrt(jnp.maximum(count, 1.0))
        return jnp.clip(found, 0.0, MAX_AUTOCORRELATION)

    def observe(self, noise: PyTree, standardised: Array, inlier: Array) -> "SensorMemory":
        """Return the memory after a measurement.

        Args:
            noise: memory of its noise model after it.
            standardised: innovations over their standard deviations, (M,); 0 where not observed.
            inlier: whether the measurement is no outlier.
        """
        now = jnp.clip(standardised, -MAX_STANDARDISED, MAX_STANDARDISED)
        one = jnp.where(inlier & (self.last**2).any(0), 1.0, 0.0).astype(now.dtype)
        products = jnp.stack([(self.last * now).mean(0), 0.5 * (self.last**2 + now**2).mean(0), jnp.ones_like(one)])
        moments = jnp.where(one > 0, FORGETTING * self.moments + products, self.moments)
        return SensorMemory(noise, jnp.where(inlier, now, self.last), moments)


@pytree
class PerSensorNoise(DelegatingNoise[tuple]):
    """Apply a noise model to each of several independent sensors.

    Args:
        base: any noise model.
        sensors: number of the sensor of each coordinate of the measurement, as (0, 0, 1); None for one sensor each.

    Example:
        >>> from wolf.inference.noise import AdaptiveScaleMixture
        >>> PerSensorNoise(AdaptiveScaleMixture(), sensors=(0, 0, 1)).sensors
        (0, 0, 1)
    """

    base: NoiseModel[Any]
    sensors: tuple[int, ...] | None = static(default=None)

    def __post_init__(self) -> None:
        """Validate the sensor numbers, and make them hashable."""
        if self.sensors is not None:
            object.__setattr__(self, "sensors", validation.groups("sensors", self.sensors))

    def sensor_slices(self, size: int) -> list[np.ndarray]:
        """Return the coordinates of each sensor."""
        numbers = range(size) if self.sensors is None else self.sensors
        return [np.flatnonzero(np.equal(numbers, each)) for each in dict.fromkeys(numbers)]

    def sensor_numbers(self, count: int) -> list[int]:
        """Return the numbers given to the sensors, in the order of their first coordinates; else 0, 1, ...

        Args:
            count: number of sensors.

        Example:
            >>> from wolf.inference.noise import AdaptiveScaleMixture
            >>> PerSensorNoise(AdaptiveScaleMixture(), sensors=(5, 5, 2)).sensor_numbers(2)
            [5, 2]
        """
        numbers = [] if self.sensors is None else list(dict.fromkeys(self.sensors))
        return numbers if len(numbers) == count else list(range(count))

    def check(self, model: Model) -> None:
        """Raise ValueError for sensors that the model lacks or whose noise is correlated."""
        super().check(model)
        size = model.obs_dim
        if self.sensors is not None and len(self.sensors) != size:
            raise ValueError(
                f"sensors must name the sensor of each of the {size} coordinates of a measurement; "
                f"got {len(self.sensors)}, {self.sensors}"
            )
        noise_cov = np.asarray(model.obs_cov)
        numbers = np.arange(size) if self.sensors is None else np.asarray(self.sensors)
        if noise_cov.ndim > 1 and np.any(noise_cov * (numbers[:, None] != numbers) != 0.0):
            raise ValueError("sensors must be independent: their noise in R is correlated; put those into one sensor")

    def start(self, model: Model) -> tuple:
        """Return the initial memory of each sensor; the first one holds the shared part."""
        first, *others = (self.base.start(model) for _ in self.sensor_slices(model.obs_dim))
        first = self.base.with_shared_memory(first, self.base.shared_memory(first))
        noises = [first, *(self.base.with_shared_memory(each, None) for each in others)]
        zero = jnp.zeros(model.obs_dim, jnp.asarray(model.prior.mean).dtype)
        slices = self.sensor_slices(model.obs_dim)
        nothing = jnp.zeros(3, zero.dtype)
        return tuple(SensorMemory(each, zero[rows], nothing) for each, rows in zip(noises, slices, strict=True))

    def each(self, memory: tuple) -> list:
        """Return the memory of each sensor's noise model, complete with the shared part."""
        shared = self.base.shared_memory(memory[0].noise)
        return [self.base.with_shared_memory(each.noise, shared) for each in memory]

    def noise_estimate(self, memory: tuple) -> list | None:
        """Return the noise estimate of each sensor."""
        estimates = [self.base.noise_estimate(each) for each in self.each(memory)]
        return None if any(estimate is None for estimate in estimates) else estimates

    def base_memory(self, memory: tuple) -> PyTree:
        """Return the memory of the first sensor, which holds the shared part."""
        return memory[0].noise

    def with_base_memory(self, memory: tuple, base_memory: PyTree) -> tuple:
        """Return the memories with that of the first sensor replaced."""
        return (memory[0]._replace(noise=base_memory), *memory[1:])

    def predict_measurement(
        self, memory: tuple, view: Affine, belief: Belief, dynamics: LinearMap | Bound, noise_cov: Array | None
    ) -> tuple[Affine, PyTree]:
        """Return the observation unchanged: sequential sensors have no predictable noise."""
        return view, None

    def snapshot(self, memory: tuple) -> tuple:
        """Return a snapshot of each sensor's memory."""
        return tuple(self.base.snapshot(each.noise) for each in memory)

    def after_jump(self, memory: tuple, snapshot: tuple, rejected: Array) -> tuple:
        """Return each sensor's memory after a jump."""
        counts = jnp.split(rejected, len(memory))
        return tuple(
            each._replace(noise=self.base.after_jump(each.noise, past, count))
            for each, past, count in zip(memory, snapshot, counts, strict=True)
        )

    def after_unusable(self, memory: tuple, unusable: Array) -> tuple | None:
        """Return the memories, with infinite numbers counted by their own sensors."""
        sensors = self.sensor_slices(len(unusable))
        counted = [self.base.after_unusable(one.noise, unusable[r]) for one, r in zip(memory, sensors, strict=True)]
        if any(each is None for each in counted):
            return None
        return tuple(
            old._replace(noise=select(unusable[rows].any(), new, old.noise))
            for rows, new, old in zip(sensors, counted, memory, strict=True)
        )

    def loo_information_root(self, context: UpdateContext[tuple]) -> Array:
        """Return W, (M, M), block diagonal over the sensors."""
        root = jnp.zeros_like(context.obs_cov)
        for rows, memory in zip(self.sensor_slices(len(context.residual)), self.each(context.memory), strict=True):
            part = restrict_to_sensor(context, rows, context.belief)._replace(memory=memory)
            root = root.at[jnp.ix_(rows, rows)].set(self.base.loo_information_root(part))
        return root

    def __call__(self, context: UpdateContext[tuple]) -> UpdateDecision[tuple]:
        """Update with one sensor after the other."""
        belief, log_weighted, memories = context.belief, jnp.zeros_like(context.residual[0]), []
        weights, outliers = jnp.zeros_like(context.residual), jnp.zeros_like(context.residual)
        sensors = self.sensor_slices(len(context.residual))
        if len(sensors) != len(context.memory):
            raise ValueError(
                f"each of the model's {len(context.memory)} sensors has noise of its own, and this step has "
                f"{len(sensors)}: write NaN for a sensor that did not measure, instead of another H and R"
            )
        shared, scales, q = self.base.shared_memory(context.memory[0].noise), jnp.zeros_like(context.residual), None
        for rows, own in zip(sensors, context.memory, strict=True):
            memory = self.base.with_shared_memory(own.noise, shared)
            part = restrict_to_sensor(context, rows, belief)._replace(memory=memory)
            decision = self.base(part)
            any_observed = part.observed.sum() > 0
            update = decision.update.masked(part.observed)
            autocorrelation = jnp.where(self._ordinary(part) < MAX_SCALE, own.autocorrelation, 0.0)
            posterior, log_density = self._condition(part, update, autocorrelation)
            belief = posterior.where(any_observed & jnp.isfinite(posterior.mean.sum()), belief)
            log_weighted = log_weighted + jnp.where(any_observed, log_density, 0.0)
            weights = weights.at[rows].set(decision.update.readable(part.obs_cov, part.observed))
            if decision.outlier is not None:
                outliers = outliers.at[rows].set(decision.outlier * part.observed)
            if decision.scales is not None:
                scales = scales.at[rows].set(decision.scales[0])
                q = decision.scales[1] if q is None else q
            memory = select(any_observed, decision.memory, memory)
            shared = hold_scales(autocorrelation > 0.0, shared, self.base.shared_memory(memory))
            inlier = any_observed if decision.outlier is None else any_observed & (decision.outlier < 0.5)
            standardised = self._standardised(part)
            memories.append(own.observe(self.base.with_shared_memory(memory, None), standardised, inlier))
        memories[0] = memories[0]._replace(noise=self.base.with_shared_memory(memories[0].noise, shared))
        outlier = None if decision.outlier is None else outliers
        noise_scales = None if q is None else (scales, q)
        return UpdateDecision(
            PosteriorUpdate(belief, log_weighted, weights), tuple(memories), outlier, scales=noise_scales
        )

    def _condition(self, part: UpdateContext, update: Update, autocorrelation: Array) -> tuple[Belief, Array]:
        """Condition the belief on a sensor, by less than its likelihood if its errors are autocorrelated."""

        def whole() -> tuple[Belief, Array]:
            return update.apply(part.belief, part.view, part.residual, part.obs_cov)

        def tempered() -> tuple[Belief, Array]:
            learned_away = jnp.minimum(self._ordinary(part), 1.0) ** autocorrelation
            weight = jnp.sqrt(learned_away * (1.0 - autocorrelation) / (1.0 + autocorrelation))
            root = None if part.view.root is None else weight * part.view.root
            view = Affine(weight * part.view.mean, weight * part.view.jac, root)
            factor = part.belief.innovation(view, part.obs_cov, part.observed)
            weighted = part._replace(view=view, residual=weight * part.residual, innovation=factor)
            decision = self.base(weighted)
            partial = decision.update.masked(part.observed)
            posterior, _ = partial.apply(part.belief, view, weighted.residual, part.obs_cov)
            return posterior, whole()[1]

        return jax.lax.cond(autocorrelation > 0.0, tempered, whole)

    def _ordinary(self, part: UpdateContext) -> Array | float:
        """Return the estimated scale of the ordinary noise of a sensor, relative to R."""
        estimate = self.base.noise_estimate(part.memory)
        return 1.0 if estimate is None or isinstance(estimate, list) else estimate.ordinary

    def _standardised(self, part: UpdateContext) -> Array:
        """Return the innovations of a sensor over their standard deviations with its estimated noise, (M,)."""
        noise = (self._ordinary(part) - 1.0) * linalg.diagonal(part.obs_cov)
        variances = linalg.diagonal(part.innovation.product()) + noise
        return part.observed * part.residual / jnp.sqrt(jnp.maximum(variances, TINY))


def hold_scales(hold: Array, old: PyTree, new: PyTree) -> PyTree:
    """Return new estimates of r and q; where `hold`, q as before and r closer to 1."""
    if not isinstance(new, ScaleEstimates):
        return new
    kept = old._replace(sensitivities=new.sensitivities, log_noise=(1.0 - RETURN_RATE) * old.log_noise)
    return select(hold, kept, new)


def restrict_to_sensor(context: UpdateContext, rows: np.ndarray, belief: Belief) -> UpdateContext:
    """Restrict a measurement to one sensor, given a belief that may include others.

    Args:
        context: of all sensors.
        rows: coordinates of the sensor.
        belief: over the state; the affine approximation of the observation function is kept.
    """
    root = None if context.view.root is None else context.view.root[rows]
    view = Affine(context.view.mean[rows], context.view.jac[rows], root)
    observed, obs_cov = context.observed[rows], context.obs_cov[np.ix_(rows, rows)]
    residual = context.residual[rows] - observed * matvec(view.jac, belief.mean - context.belief.mean)
    factor = belief.innovation(view, obs_cov, observed)
    return UpdateContext(residual, view, belief, obs_cov, observed, factor)
