"""Gaussian filter: any linearization, noise model and numerical form. KF, EKF, iterated EKF and their WoLF versions.

Kalman (1960); for the weighted update Duran-Martin et al. (2024), Algorithm 1; for the iteration Bell & Cathey (1993).
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from wolf import validation
from wolf.beliefs import Affine, Belief, Gaussian, LazyGaussian, SqrtGaussian, lazy_gaussian, mixture_sqrt_update
from wolf.beliefs.affine import hide_noise
from wolf.beliefs.density import log_density, weigh_constant
from wolf.beliefs.gaussian import FORMS, JOSEPH_UP_TO, InflatedGaussian
from wolf.beliefs.sqrt_gaussian import root_of
from wolf.beliefs.updates import Update
from wolf.inference.linearization import Taylor
from wolf.inference.noise import Weighted
from wolf.inference.weights import Unweighted
from wolf.interfaces import (
    Filter,
    Form,
    Linearization,
    Measurement,
    NoiseModel,
    Requirements,
    StepInfo,
    UpdateContext,
    UpdateDecision,
    is_a,
)
from wolf.numerics import linalg
from wolf.numerics.linalg import Cholesky
from wolf.numerics.pytree import PyTree, pytree, static
from wolf.statespace import Model, ParameterModel, prior_width

MAX_PRIOR_RATIO = 1e9  # prior over noise variance of a measurement; beyond, covariance forms have errors of about 1e-6
STUCK_OUTLIER_VARIANCES = 9.0  # of a prediction: a stuck value farther away is reported as an outlier
OUTLIER_POWER = 0.5  # a measurement with w² below this is reported as an outlier


class GaussianState(NamedTuple):
    """Belief about the state, number of measurements processed, and memory of the noise model."""

    belief: Belief
    t: Array
    memory: PyTree = ()

    @property
    def mean(self) -> Array:
        """Mean of the state, (D,)."""
        return self.belief.mean

    @property
    def cov(self) -> Array:
        """Covariance of the state, (D, D)."""
        return self.belief.cov

    @property
    def variances(self) -> Array:
        """Variances of the state, (D,)."""
        return linalg.diagonal(self.cov)

    def project(self, jac: Array) -> Array:
        """Compute the covariance of `jac θ`, (M, M)."""
        return self.belief.signal(Affine(None, jac))


@pytree
class GaussianFilter(Filter):
    """Filter with one Gaussian belief.

    Args:
        linearization: affine approximation of functions under a belief.
        noise: noise model, which determines the weight of a measurement.
        form: "joseph", "symmetric", "sqrt", or "auto" (Joseph up to 16 states, symmetric above; for models of many
            parameters the covariance is updated in blocks, see `wolf.beliefs.lazy_gaussian`; the public functions of
            `wolf` use square roots where the prior of a linear model is 1e9 times wider than its noise).
        iterations: number of linearizations of the observation function; above 1 an iterated EKF. The weight is that
            of the first one, at the prediction: recomputed at each iterate it could converge to an outlier.
    """

    linearization: Linearization = Taylor()
    noise: NoiseModel = Weighted(Unweighted())
    form: Form = static(default="auto")
    iterations: int = static(default=1)

    def __post_init__(self) -> None:
        """Validate the options."""
        if not is_a(self.linearization, Linearization):
            got = validation.short_repr(self.linearization)
            raise ValueError(f"linearization must be a value from wolf.linearization, as Unscented(); got {got}")
        if not is_a(self.noise, NoiseModel):
            words = "as StudentNoise(); wolf.WoLF(weight) takes a weight"
            raise ValueError(f"noise must be a model from wolf.noise, {words}; got {validation.short_repr(self.noise)}")
        validation.choice("form", self.form, FORMS)
        validation.count("iterations", self.iterations)

    @property
    def requirements(self) -> Requirements:
        """Requirements of the linearization and the noise model together."""
        return self.linearization.requirements | self.noise.requirements

    def check(self, model: Model) -> None:
        """Validate the model for the noise model."""
        self.noise.check(model)

    def suited(self, model: Model) -> "GaussianFilter":
        """Select the square-root form where the prior is so wide that covariance forms lose significant digits.

        A noise model that revises the prior can make it as wide as an error.
        """
        revised = self.noise.revises_prior and model.state_dim <= JOSEPH_UP_TO
        use_components = self.noise.is_mixture and model.obs_dim > 1
        limit = mixture_sqrt_update.WIDE_PRIOR_RATIO if use_components else MAX_PRIOR_RATIO
        wide = self.form == "auto" and (revised or prior_width(model) > limit)
        return dataclasses.replace(self, form="sqrt") if wide else self

    def init(self, model: Model, key: Array | None = None) -> GaussianState:
        """Return the initial state from the model's prior."""
        belief = self._initial_belief(model, Gaussian(*map(jnp.asarray, model.prior)))
        return GaussianState(belief, jnp.zeros((), jnp.int32), self.noise.start(model))

    def _initial_belief(self, model: Model, prior: Gaussian) -> Belief:
        """Convert the prior to the numerical form of the filter."""
        if self.form == "sqrt":
            cov = jnp.asarray(model.cov) if isinstance(model, ParameterModel) else prior.cov
            return SqrtGaussian(prior.mean, root_of(cov, prior.cov))
        if (
            self.form == "auto"
            and isinstance(model, ParameterModel)
            and lazy_gaussian.is_faster(model.state_dim, model.obs_dim)
        ):
            return LazyGaussian.start(prior, model.step_cov, model.obs_dim)
        return prior

    def predict(self, now: Model, state: GaussianState, u: Array | None, key: Array | None = None) -> GaussianState:
        """Predict one step ahead.

        Args:
            now: the model at this step.
            state: after the previous measurement.
            u: input of this step.
            key: not used.
        """
        view = self.linearization(now.transition(u), state.belief)
        noise_cov, memory = self.noise.predict(state.memory, view, now.step_cov, state.t)
        return GaussianState(state.belief.propagate(view, noise_cov), state.t, memory)

    def update(
        self, now: Model, state: GaussianState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[GaussianState, StepInfo]:
        """Update with one measurement.

        Args:
            now: the model at this step.
            state: predicted.
            y: cleaned measurement.
            u: input of this step.
            key: not used.
        """
        measured = y
        y, memory = self.noise.screen(state.memory, y)
        state = state._replace(memory=memory)
        predicted: Any = state.belief  # a belief, or an `InflatedGaussian` below
        obs_cov = hide_noise(now.obs_cov_at(predicted.mean, u), y.observed)
        projection = now.projection(u)

        def linearize(at: Array | None) -> tuple[Affine, Array, PyTree]:
            view = self.linearization(projection, predicted, at).with_jac()
            view, prediction = self.noise.predict_measurement(
                state.memory, view, predicted, now.transition(u), now.step_cov
            )
            return view, y.observed * now.subtract(y.value, view.mean), prediction

        view, residual, prediction = linearize(None)
        jac, hidden = view.jac, view.hide(y.observed)
        large = isinstance(predicted, Gaussian) and self._is_large(min(len(residual), len(predicted.mean)))
        if large:  # hidden rows contribute nothing anywhere, so one product with a large covariance is enough
            view = hidden
        factor = predicted.innovation(view, obs_cov, y.observed)
        context = UpdateContext(
            residual, hidden, predicted, obs_cov, y.observed, factor, state.memory, state.t, prediction
        )
        decision = self.noise(context)
        weight = decision.update.readable(obs_cov, y.observed)
        if decision.inflation is not None:
            inflation = jnp.where(_usable(weight, y) & jnp.isfinite(decision.inflation), decision.inflation, 1.0)
            predicted = (
                InflatedGaussian(predicted.mean, predicted.cov, inflation) if large else predicted.inflate(inflation)
            )
        update = decision.update.masked(y.observed)
        posterior, log_weighted = self._apply(predicted, view, residual, obs_cov, update, linearize)
        # Without a usable measurement, or after a non-finite update, the prediction is kept bit for bit.
        used = _usable(weight, y) & jnp.isfinite(posterior.mean.sum(0))
        belief = posterior.where(used, state.belief)
        weight = jnp.where(used, weight, 0.0)
        info = _describe(predicted, residual, factor, weight, y, obs_cov, jnp.where(used, log_weighted, 0.0))
        info = _with_estimates(info, decision, used, y)
        if y is not measured:
            whole = measured.observed * now.subtract(measured.value, view.mean)
            noise = linalg.diagonal(now.obs_cov_at(predicted.mean, u))
            info = _with_stuck(info, whole, jac, noise, measured.observed - y.observed)
        if decision.inflation is not None:
            info = info._replace(inflation=inflation)
        memory = jax.tree.map(lambda new, old: jnp.where(used, new, old), decision.memory, state.memory)
        counted = self.noise.after_unusable(memory, y.present & (measured.observed == 0.0))
        if counted is not None:
            memory = jax.tree.map(lambda new, old: jnp.where(y.non_finite, new, old), counted, memory)
        return GaussianState(belief, state.t + 1, memory), info

    def _is_large(self, size: int) -> bool:
        """Return whether products with matrices of this size are shared between the noise model and the update.

        In straight-line code common subexpressions are eliminated, and a noise model without products of its own has
        nothing to share.
        """
        return linalg.library_matmul(size) or (size > linalg.SMALL and self.noise.is_mixture)

    def _apply(
        self, predicted: Belief, view: Affine, residual: Array, obs_cov: Array, update: Update, linearize: Callable
    ) -> tuple[Belief, Array]:
        """Apply the update, with a new linearization in each further iteration."""
        posterior, log_weighted = update.apply(predicted, view, residual, obs_cov, self.form)
        for _ in range(self.iterations - 1):
            view, residual_at, _ = linearize(posterior.mean)
            posterior, log_weighted = update.apply(predicted, view, residual_at, obs_cov, self.form)
        return posterior, log_weighted


def _usable(weight: Array, y: Measurement) -> Array:
    """Return whether a row is used.

    An infinite value has weight 0: for the whole row if it has a single weight, for its own coordinate otherwise.
    """
    joint = weight.ndim == y.non_finite.ndim
    return (y.num_observed > 0) & ~y.non_finite if joint else y.num_observed > 0


def _with_estimates(info: StepInfo, decision: UpdateDecision, used: Array, y: Measurement) -> StepInfo:
    """Add what a noise model estimates."""
    if decision.outlier is not None:
        info = _with_outlier_probability(info, decision.outlier, used, y)
    if decision.scales is not None:
        info = info._replace(noise_scale=decision.scales[0], dynamics_scale=decision.scales[1])
    return info


def _with_outlier_probability(info: StepInfo, probability: Array, used: Array, y: Measurement) -> StepInfo:
    """Add the outlier probability, which is 1 for measurements that are present and cannot be used."""
    joint = probability.ndim == y.non_finite.ndim
    came, usable = (y.any_present, used) if joint else (y.present, used & (y.observed > 0))
    probability = jnp.where(usable, probability, came.astype(probability.dtype))
    return info._replace(outlier=came & (probability > 0.5), outlier_probability=probability)


def _with_stuck(info: StepInfo, residual: Array, jac: Array, noise: Array, stuck: Array) -> StepInfo:
    """Add which coordinates are stuck; they are outliers where they are far from the prediction.

    Args:
        info: of the other coordinates.
        residual: of all coordinates, (M,).
        jac: H, with the rows of stuck coordinates, (M, D).
        noise: diagonal of R, (M,).
        stuck: 1 where a coordinate is stuck, (M,).
    """
    spread = linalg.sum_leading(linalg.transpose(jac) ** 2 * linalg.diagonal(info.predicted.cov)[:, None])
    far = jnp.where(residual**2 > STUCK_OUTLIER_VARIANCES * (spread + noise), stuck, 0.0)
    info = info._replace(residual=residual, stuck=stuck > 0)
    if info.outlier_probability is None:
        return info
    if info.outlier_probability.ndim == 0:
        others = jnp.where(info.weight > 0.0, info.outlier_probability, 0.0)
        probability = jnp.where(stuck.any(0), jnp.maximum(others, far.max(0)), info.outlier_probability)
        return info._replace(outlier=probability > 0.5, outlier_probability=probability)
    probability = jnp.where(stuck > 0, far, info.outlier_probability)
    return info._replace(outlier=probability > 0.5, outlier_probability=probability)


def _describe(
    predicted: Belief,
    residual: Array,
    factor: Cholesky,
    weight: Array,
    y: Measurement,
    obs_cov: Array,
    log_weighted: Array,
) -> StepInfo:
    came = y.present if weight.ndim == y.value.ndim else y.any_present
    constant = weigh_constant(weight * y.observed, obs_cov)
    return StepInfo(
        predicted=Gaussian(predicted.mean, predicted.cov),
        residual=residual,
        innovation_cov=factor.product(),
        weight=jnp.minimum(weight, 1.0),  # an estimated R below the nominal one gives w > 1; reported is at most 1
        outlier=came & (weight**2 < OUTLIER_POWER),
        nis=linalg.sum_leading(factor.half(residual) ** 2),
        log_likelihood=log_density(residual, factor, y.num_observed),
        weighted_log_likelihood=jnp.where(y.num_observed > 0, log_weighted + constant, 0.0),
    )
