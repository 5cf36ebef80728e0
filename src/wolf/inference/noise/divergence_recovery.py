"""Divergence recovery: consistent rejected measurements are accepted as a jump of the state.

A filter that rejects measurements far from its prediction cannot follow a target that really jumped: it goes on
rejecting. But outliers are inconsistent with one another, while measurements of a target at another place agree. The
jump test therefore compares the residuals of rejected measurements. With z and G the residual and the predicted
covariance in coordinates where R = I, and r the scale of ordinary noise,

    e is consistent with an offset c of drift b per step if  |e - c|² or |e - c - b|²  in the metric (G + 2 r I)⁻¹
        is below the 99 % quantile of χ²

After k consistent rejections, the patience, the covariance is inflated by the factor κ of
`wolf.inference.noise.jump_update`, and the measurement is used with ordinary noise. One accepted measurement ends
the run of rejections.

A state of several components, such as a season, can diverge so far by false and by true jumps that residuals are never
consistent: they oscillate with the wrong season. But then measurements are close to one another and all of them far
from their predictions, unlike those of a faulty sensor. A rejected measurement y is close to the one rejected before
it, y', if

    |y - y'|² < |y - h(m)|² / 10  in the metric R⁻¹

and after 4 k more of those than of all others the filter has diverged: the covariance is inflated to its limit, which
re-initialises the belief from the measurements. A season may be wrong at some hours only: measurements that are
accepted after several consecutive inconsistent rejections count a tenth.

By chance, outliers are accepted in about T (1 - ε) ε^k of T steps, if a share ε of all measurements is consistent
outliers. A patience that grows as ln 0.05 / ln ε keeps that rate at its value for 5 % of outliers. Small outliers may
have been attributed to the noise, so that ε is underestimated at first: it is taken to be at least 0.085, which is one
rejection more, unless the run began with the first measurement, where the prior may be wrong. Past runs inform more: ε
is also at least the share of their rejections that were consistent, which is zero for unrelated outliers.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import validation
from wolf.beliefs.affine import hide_noise
from wolf.beliefs.updates import PosteriorUpdate, WeightedUpdate
from wolf.inference.noise.delegating import DelegatingNoise, select
from wolf.inference.noise.jump_evidence import JumpEvidence as JumpEvidence
from wolf.inference.noise.jump_evidence import add_rejection, end_run
from wolf.inference.noise.jump_update import prior_inflation, retained_information, with_ordinary_noise
from wolf.inference.noise.noise_estimate import NoiseEstimate
from wolf.inference.noise.per_sensor import restrict_to_sensor
from wolf.inference.noise.repeated_values import RepeatedValues
from wolf.inference.noise.whitened import Whitened, whiten
from wolf.interfaces import Measurement, NoiseModel, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.linalg import sum_leading
from wolf.numerics.pytree import PyTree, pytree, static
from wolf.statespace import Model

REJECTED_BELOW = 0.2  # share of the information of a measurement that is used; less counts as a rejection
MAX_RUN_RATIO = 2.0  # of run lengths; a sensor whose run is longer than others' by this factor is faulty by itself
NOMINAL_OUTLIER_RATE = 0.05  # up to which the patience need not grow
MIN_OUTLIER_RATE = 0.085  # assumed after a first acceptance: small outliers may have been attributed to the noise
MAX_OUTLIER_RATE = 0.5  # beyond which the patience grows no more
MAX_PATIENCE_GROWTH = float(np.log(NOMINAL_OUTLIER_RATE) / np.log(MAX_OUTLIER_RATE))
DIVERGED_AFTER = 4.0  # times the patience: clustered rejections, minus others, until a filter has diverged
MAX_JUMP_DEVIATIONS = 1e8  # in standard deviations of ordinary noise; larger residuals are never accepted


@pytree
class JumpRecovery(DelegatingNoise[JumpEvidence]):
    """Accept rejected measurements that are consistent with one another.

    Args:
        base: any noise model; one that never rejects is unchanged.
        patience: k, the number of consecutive consistent rejections after which a jump is accepted: an outlier that
            repeats k times is accepted too. A true jump is followed about k steps late.
        grows: whether the patience grows with the estimated outlier rate.
        detect_stuck: whether values that a stuck sensor repeats are treated as missing, see
            `wolf.inference.noise.repeated_values`.
    """

    base: NoiseModel[Any]
    patience: float | Array = 5
    grows: bool = static(default=False)
    detect_stuck: bool = static(default=False)

    def __post_init__(self) -> None:
        """Validate the patience."""
        if isinstance(self.patience, jax.core.Tracer):
            return
        if not np.all(validation.nonempty("patience", self.patience) >= 2):
            got = validation.short_repr(self.patience)
            raise ValueError(f"patience must be at least 2: one measurement agrees with itself; got {got}")
        if isinstance(self.patience, int):
            object.__setattr__(self, "patience", float(self.patience))

    def start(self, model: Model) -> JumpEvidence:
        """Return the initial memory, without rejections."""
        nothing = jnp.zeros(model.obs_dim, jnp.asarray(model.prior.mean).dtype)
        count, memory = nothing[: len(self.base.sensor_slices(model.obs_dim))], self.base.start(model)
        counts = (count, count, count)
        past = (count + self.patience, count, count) if self.grows else ()
        evidence = JumpEvidence(memory, *counts, nothing, nothing, count, nothing, self.base.snapshot(memory), *past)
        return evidence._replace(repeats=RepeatedValues.start(nothing)) if self.detect_stuck else evidence

    def base_memory(self, memory: JumpEvidence) -> PyTree:
        """Return the memory of the wrapped noise model."""
        return memory.base

    def with_base_memory(self, memory: JumpEvidence, base_memory: PyTree) -> JumpEvidence:
        """Return the evidence with the memory of the wrapped noise model replaced."""
        return memory._replace(base=base_memory)

    def screen(self, memory: JumpEvidence, y: Measurement) -> tuple[Measurement, JumpEvidence]:
        """Remove the values that a stuck sensor repeats; those of another sensor for this step are kept."""
        if not self.detect_stuck or len(memory.repeats.last) != len(y.value):
            return y, memory
        kept, repeats = memory.repeats.screen(y)
        return kept, memory._replace(repeats=repeats)

    def loo_information_root(self, context: UpdateContext[JumpEvidence]) -> Array:
        """Return W of the wrapped noise model: given the future measurements, no filter diverges."""
        return self.base.loo_information_root(context._replace(memory=context.memory.base))

    def __call__(self, context: UpdateContext[JumpEvidence]) -> UpdateDecision[JumpEvidence]:
        """Follow the wrapped noise model, unless the jump test accepts the measurement."""
        return self.decide(context)

    def decide(
        self, context: UpdateContext[JumpEvidence], after_jump: Array | None = None, barred: Array | bool = False
    ) -> UpdateDecision[JumpEvidence]:
        """Follow the wrapped noise model, unless the measurement is accepted by the test or by known jumps.

        Args:
            context: the measurement.
            after_jump: whether it is the first after a jump of the state, (); None if no jumps are known.
            barred: whether it is known to be an outlier, which the test must not accept, ().
        """
        evidence, sensors = context.memory, self.base.sensor_slices(len(context.residual))
        decision = self.base(context._replace(memory=evidence.base))
        ordinary = self._ordinary_scales(evidence.base, context)
        if isinstance(decision.update, PosteriorUpdate):
            return self._test_sensors(context, decision, decision.update, sensors, ordinary, after_jump, barred)
        # White coordinates of many numbers take a factor and two products, which only a rejection needs.
        later = decision.outlier is not None and linalg.library_matmul(len(context.residual))
        early = None if later else whiten(context)
        rejected = retained_information(decision, slice(None), early, ordinary[0]) < REJECTED_BELOW
        own = evidence.of_sensor(0, slice(None))
        ended = end_run(evidence)._replace(base=decision.memory)
        unchanged = decision._replace(memory=ended, inflation=jnp.ones_like(ordinary[0]))
        if len(own.offset) != len(context.residual):  # another sensor for this step: it may end a run, and has none
            count = jnp.where(rejected, evidence.consistent, 0.0)
            return unchanged._replace(memory=ended._replace(consistent=count))

        def test() -> UpdateDecision[JumpEvidence]:
            begun, white = self._begin_run(evidence, context.t), whiten(context) if early is None else early
            counted, accepted = self._test(own, context, white, ordinary[0], self._patience(begun, 0))
            accepted = accepted if after_jump is None else (accepted & ~barred) | after_jump
            return self._accept(context, decision, begun, counted, accepted, white, ordinary[0])

        # A branch, not a choice between two results: most measurements are not rejected, and cost nothing.
        return jax.lax.cond(rejected if after_jump is None else rejected | after_jump, test, lambda: unchanged)

    def _test_sensors(
        self,
        context: UpdateContext[JumpEvidence],
        decision: UpdateDecision,
        update: PosteriorUpdate,
        sensors: list[np.ndarray],
        ordinary: list[Array],
        after_jump: Array | None,
        barred: Array | bool,
    ) -> UpdateDecision[JumpEvidence]:
        """Test each sensor by itself; the run of one that did not measure is kept."""
        evidence, counted, accepted = self._begin_run(context.memory, context.t), [], []
        for i, rows in enumerate(sensors):
            part = restrict_to_sensor(context, rows, context.belief)
            white = whiten(part)
            rejected = retained_information(decision, rows, white, ordinary[i]) < REJECTED_BELOW
            own = evidence.of_sensor(i, rows)
            new, accept = self._test(own, part, white, ordinary[i], self._patience(evidence, i))
            any_observed = white.num_observed > 0
            new = select(any_observed, select(rejected, new, end_run(own)), own)
            counted.append(new)
            if after_jump is not None:  # of a known jump, sensors without a run of their own are accepted
                accept = (accept & ~barred) | (after_jump & (own.consistent == 0))
            accepted.append(rejected & accept & any_observed)
        # A stuck sensor has been consistent for long, and not only since the others' residuals changed.
        runs = [jnp.where(accept, each.consistent, jnp.inf) for accept, each in zip(accepted, counted, strict=True)]
        shortest = jnp.stack(runs).min()
        accepted = [
            accept & (each.consistent <= MAX_RUN_RATIO * shortest)
            for accept, each in zip(accepted, counted, strict=True)
        ]
        return self._accept_by_majority(context, decision, update, evidence, counted, accepted, sensors, ordinary)

    def _test(
        self, own: JumpEvidence, context: UpdateContext, white: Whitened, ordinary: Array, patience: Array | float
    ) -> tuple[JumpEvidence, Array]:
        """Add a rejected residual to the evidence, and return whether it is accepted as a jump."""
        counted, agrees = add_rejection(own, context, white, ordinary)
        near = sum_leading(white.residual**2) < ordinary * MAX_JUMP_DEVIATIONS**2
        return counted, near & ((agrees & (counted.consistent >= patience)) | self._diverged(counted.clustered))

    def _diverged(self, clustered: Array) -> Array:
        """Return whether so many clustered rejections show that the filter has diverged."""
        return clustered >= DIVERGED_AFTER * self.patience

    def _begin_run(self, evidence: JumpEvidence, t: Array) -> JumpEvidence:
        """Store a snapshot and the patience where no run is under way: this measurement may begin one."""
        fresh = linalg.all_leading(evidence.consistent == 0)
        snapshot = select(fresh, self.base.snapshot(evidence.base), evidence.snapshot)
        if not self.grows:
            return evidence._replace(snapshot=snapshot)
        estimates = _listed(self.base.noise_estimate(evidence.base))
        least = jnp.where(t == 0, NOMINAL_OUTLIER_RATE, MIN_OUTLIER_RATE)
        consistent = evidence.consistent_share
        rates = [
            jnp.clip(jnp.maximum(estimate.possible_share, consistent[i]), least, MAX_OUTLIER_RATE)
            for i, estimate in enumerate(estimates)
        ]
        growth = [float(np.log(NOMINAL_OUTLIER_RATE)) / jnp.log(rate) for rate in rates]
        grown = self.patience * jnp.stack(growth) if estimates else evidence.patience
        patience = jnp.where(evidence.consistent == 0, grown.astype(evidence.consistent.dtype), evidence.patience)
        return evidence._replace(snapshot=snapshot, patience=patience)

    def _patience(self, evidence: JumpEvidence, i: int) -> Array | float:
        # Counts are whole numbers: to reach k rounded is to reach k - 1/2.
        return evidence.patience[i] - 0.5 if self.grows else self.patience

    def _ordinary_scales(self, memory: PyTree, context: UpdateContext) -> list[Array]:
        """Return the scale of ordinary noise relative to R, for each sensor."""
        estimates = _listed(self.base.noise_estimate(memory))
        if not estimates:
            return [jnp.ones_like(context.residual[0])] * len(self.base.sensor_slices(len(context.residual)))
        return [estimate.ordinary for estimate in estimates]

    def _accept(
        self,
        context: UpdateContext,
        decision: UpdateDecision,
        evidence: JumpEvidence,
        counted: JumpEvidence,
        accepted: Array,
        white: Whitened,
        ordinary: Array,
    ) -> UpdateDecision[JumpEvidence]:
        """Use the measurement, as one sensor, with an inflated prior if it is accepted."""
        inflation = prior_inflation(context, white, ordinary, self._diverged(counted.clustered))
        return decision._replace(
            update=with_ordinary_noise(decision.update, accepted, white, ordinary, inflation),
            inflation=jnp.where(accepted, inflation, 1.0),
            memory=self._next_memory(evidence, decision.memory, [counted], accepted),
            outlier=None if decision.outlier is None else jnp.where(accepted, 0.0, decision.outlier),
        )

    def _accept_by_majority(
        self,
        context: UpdateContext,
        decision: UpdateDecision,
        update: PosteriorUpdate,
        evidence: JumpEvidence,
        counted: list[JumpEvidence],
        accepted: list[Array],
        sensors: list[np.ndarray],
        ordinary: list[Array],
    ) -> UpdateDecision[JumpEvidence]:
        """Use the accepted sensors, and no other, if they are more than half of those that measured."""
        used, noise = jnp.zeros_like(context.residual), jnp.ones_like(context.residual)
        for rows, accept, scale in zip(sensors, accepted, ordinary, strict=True):
            used = used.at[rows].set(jnp.where(accept, context.observed[rows], 0.0))
            noise = noise.at[rows].set(jnp.sqrt(scale))
        present = jnp.stack([context.observed[rows].max() for rows in sensors]).sum()
        jumped = 2 * jnp.stack(accepted).sum() > present
        # The measurement of the accepted sensors, with the ordinary noise of each of them.
        obs_cov = hide_noise(context.obs_cov * linalg.outer(noise, noise), used)
        part = context._replace(
            view=context.view.hide(used), residual=used * context.residual, obs_cov=obs_cov, observed=used
        )
        diverged = self._diverged(jnp.stack([each.clustered for each in counted]).max())
        inflation = jnp.where(jumped, prior_inflation(part, whiten(part), jnp.ones_like(noise[0]), diverged), 1.0)
        posterior, log_density = WeightedUpdate(used).apply(
            context.belief.inflate(inflation), part.view, part.residual, obs_cov
        )
        return decision._replace(
            update=PosteriorUpdate(
                posterior.where(jumped, update.belief),
                jnp.where(jumped, log_density, update.log_density),
                jnp.where(jumped, used / noise, update.weight),
            ),
            inflation=inflation,
            memory=self._next_memory(evidence, decision.memory, counted, jumped, sensors),
            outlier=None if decision.outlier is None else jnp.where(jumped, 1.0 - used, decision.outlier),
        )

    def _next_memory(
        self,
        evidence: JumpEvidence,
        updated: PyTree,
        counted: list[JumpEvidence],
        accepted: Array,
        sensors: list[np.ndarray] | None = None,
    ) -> JumpEvidence:
        """Return the memory after a test; an accepted jump ends the run, and does not change the noise estimate."""
        fields = [each._asdict() for each in counted]
        offset, drift, last = counted[0].offset, counted[0].drift, counted[0].last
        if sensors is not None:
            order, names = np.argsort(np.concatenate(sensors)), ("offset", "drift", "last")
            offset, drift, last = (jnp.concatenate([each[n] for each in fields])[order] for n in names)
        counts = {name: jnp.stack([each[name] for each in fields]) for name in evidence.counters}
        for name in ("consistent", "rejected", "inconsistent", "clustered"):
            counts[name] = jnp.where(accepted, 0.0, counts[name])
        rejected = jnp.where(evidence.consistent > 0, evidence.rejected, 0.0)
        after = self.base.after_jump(evidence.base, evidence.snapshot, rejected)
        base = select(accepted, after, updated)
        return evidence._replace(base=base, offset=offset, drift=drift, last=last, **counts)


def _listed(estimates: NoiseEstimate | list[NoiseEstimate] | None) -> list[NoiseEstimate]:
    """Return noise estimates as a list: of one sensor, of several, or of none."""
    return [] if estimates is None else estimates if isinstance(estimates, list) else [estimates]
