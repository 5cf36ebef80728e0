"""The Gaussian filter: any moments, any noise rule, any numerical form. KF, EKF, iterated EKF and their WoLF versions.

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
from wolf.beliefs.gaussian import FORMS, JOSEPH_UP_TO, Inflated
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
    is_a,
)
from wolf.numerics import linalg
from wolf.numerics.linalg import Cholesky
from wolf.numerics.pytree import pytree, static
from wolf.statespace import Model, ParameterModel, prior_width

WIDEST = 1e9  # prior over noise, both of a measurement, from which variances are off by some 1e-6 unless by roots
OUTLIER_POWER = 0.5  # a measurement with w² below this is called an outlier


class GaussianState(NamedTuple):
    """A belief about the state, the number of measurements seen so far, and what the noise rule remembers."""

    belief: Belief
    t: Array
    memory: Any = ()

    @property
    def mean(self) -> Array:
        """Mean."""
        return self.belief.mean

    @property
    def cov(self) -> Array:
        """Covariance."""
        return self.belief.cov

    @property
    def variances(self) -> Array:
        """Variances."""
        return linalg.diagonal(self.cov)

    def project(self, jac: Array) -> Array:
        """Give the covariance of `jac θ`, (M, M)."""
        return self.belief.signal(Affine(None, jac))


@pytree
class GaussianFilter(Filter):
    """Carry one Gaussian through predict and update.

    Args:
        linearization: how a function is seen by a belief.
        noise: how much a measurement is believed.
        form: "joseph", "symmetric", "sqrt", or "auto" (Joseph up to 16 states, symmetric above; for models of many
            parameters the covariance is brought up to date only now and then, see `wolf.beliefs.lazy_gaussian`; the
            doors of `wolf` take square roots where the prior of a linear model is 1e9 times wider than its noise).
        iterations: how often to take the tangent of the observation function; above 1 an iterated EKF. The weight
            stays the one of the first look, at the prediction: chosen again at each iterate it could lock on to an
            outlier.
    """

    linearization: Linearization = Taylor()
    noise: NoiseModel = Weighted(Unweighted())
    form: Form = static(default="auto")
    iterations: int = static(default=1)

    def __post_init__(self) -> None:
        """Check the choices."""
        if not is_a(self.linearization, Linearization):
            got = validation.short_repr(self.linearization)
            raise ValueError(f"moments must be a value from wolf.linearization, as Unscented(); got {got}")
        if not is_a(self.noise, NoiseModel):
            words = "as StudentNoise(); wolf.WoLF(weight) takes a weight"
            raise ValueError(f"noise must be a rule from wolf.noise, {words}; got {validation.short_repr(self.noise)}")
        validation.choice("form", self.form, FORMS)
        validation.count("iterations", self.iterations)

    @property
    def requirements(self) -> Requirements:
        """What moments and noise rule need together."""
        return self.linearization.requirements | self.noise.requirements

    def check(self, model: Model) -> None:
        """Let the noise rule refuse a model that it does not suit."""
        self.noise.check(model)

    def suited(self, model: Model) -> "GaussianFilter":
        """Take square roots by itself where a prior is so wide that a covariance loses digits that matter.

        A rule that doubts the dynamics makes it so, as wide as an error is.
        """
        doubted = self.noise.revises_prior and model.state_dim <= JOSEPH_UP_TO
        limit = mixture_sqrt_update.WIDE if self.noise.is_mixture and model.obs_dim > 1 else WIDEST
        wide = self.form == "auto" and (doubted or prior_width(model) > limit)
        return dataclasses.replace(self, form="sqrt") if wide else self

    def init(self, model: Model, key: Array | None = None) -> GaussianState:
        """Start from the model's prior."""
        belief = self._start(model, Gaussian(*map(jnp.asarray, model.prior)))
        return GaussianState(belief, jnp.zeros((), jnp.int32), self.noise.start(model))

    def _start(self, model: Model, prior: Gaussian) -> Belief:
        """Put the prior into the form of the run."""
        if self.form == "sqrt":
            short = jnp.asarray(model.cov) if isinstance(model, ParameterModel) else prior.cov
            return SqrtGaussian(prior.mean, root_of(short, prior.cov))
        if (
            self.form == "auto"
            and isinstance(model, ParameterModel)
            and lazy_gaussian.is_faster(model.state_dim, model.obs_dim)
        ):
            return LazyGaussian.start(prior, model.step_cov, model.obs_dim)
        return prior

    def predict(self, now: Model, state: GaussianState, u: Array | None, key: Array | None = None) -> GaussianState:
        """Go forward one step in time.

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
        """Learn from one measurement.

        Args:
            now: the model at this step.
            state: predicted.
            y: cleaned measurement.
            u: input of this step.
            key: not used.
        """
        predicted: Any = state.belief
        obs_cov = hide_noise(now.obs_cov_at(predicted.mean, u), y.observed)
        projection = now.projection(u)

        def look(at: Array | None) -> tuple[Affine, Array, Any]:
            view = self.linearization(projection, predicted, at).with_jac()
            view, foreseen = self.noise.predict_measurement(
                state.memory, view, predicted, now.transition(u), now.step_cov
            )
            return view, y.observed * now.subtract(y.value, view.mean), foreseen

        view, residual, foreseen = look(None)
        hidden = view.hide(y.observed)
        large = isinstance(predicted, Gaussian) and self._is_large(min(len(residual), len(predicted.mean)))
        if large:  # what is hidden counts nothing anywhere, so that one product with a large covariance is enough
            view = hidden
        factor = predicted.innovation(view, obs_cov, y.observed)
        seen = UpdateContext(residual, hidden, predicted, obs_cov, y.observed, factor, state.memory, state.t, foreseen)
        believed = self.noise(seen)
        weight = believed.update.readable(obs_cov, y.observed)
        if believed.inflation is not None:
            inflation = jnp.where(_usable(weight, y) & jnp.isfinite(believed.inflation), believed.inflation, 1.0)
            predicted = Inflated(predicted.mean, predicted.cov, inflation) if large else predicted.inflate(inflation)
        update = believed.update.masked(y.observed)
        posterior, log_weighted = self._learn(predicted, view, residual, obs_cov, update, look)
        # A row without a usable measurement, or an update that broke down, leaves the prediction bit for bit.
        used = _usable(weight, y) & jnp.isfinite(posterior.mean.sum(0))
        belief = posterior.where(used, state.belief)
        weight = jnp.where(used, weight, 0.0)
        info = _describe(predicted, residual, factor, weight, y, obs_cov, jnp.where(used, log_weighted, 0.0))
        if believed.outlier is not None:
            info = _say_outlier(info, believed.outlier, used, y)
        if believed.inflation is not None:
            info = info._replace(inflation=inflation)
        if believed.scales is not None:
            info = info._replace(noise_scale=believed.scales[0], dynamics_scale=believed.scales[1])
        memory = jax.tree.map(lambda new, old: jnp.where(used, new, old), believed.memory, state.memory)
        return GaussianState(belief, state.t + 1, memory), info

    def _is_large(self, size: int) -> bool:
        """Say whether matrices of this size are multiplied as seldom as can be.

        Straight-line code finds by itself what is computed twice, and a rule that asks for no product of its own has
        nothing to share.
        """
        return linalg.library_matmul(size) or (size > linalg.SMALL and self.noise.is_mixture)

    def _learn(
        self, predicted: Belief, view: Affine, residual: Array, obs_cov: Array, update: Update, look: Callable
    ) -> tuple[Belief, Array]:
        """Update, as often as the filter iterates."""
        posterior, log_weighted = update.apply(predicted, view, residual, obs_cov, self.form)
        for _ in range(self.iterations - 1):
            view, residual_at, _ = look(posterior.mean)
            posterior, log_weighted = update.apply(predicted, view, residual_at, obs_cov, self.form)
        return posterior, log_weighted


def _usable(weight: Array, y: Measurement) -> Array:
    """Say whether to learn from a row.

    An infinite value has the weight of a huge one, 0: of the whole row if there is one weight for it, of its own
    coordinate otherwise.
    """
    joint = weight.ndim == y.wild.ndim
    return (y.num_observed > 0) & ~y.wild if joint else y.num_observed > 0


def _say_outlier(info: StepInfo, probability: Array, used: Array, y: Measurement) -> StepInfo:
    """Report the probability of being an outlier; it is 1 for what came and cannot be used."""
    joint = probability.ndim == y.wild.ndim
    came, usable = (y.came, used) if joint else (y.present, used & (y.observed > 0))
    probability = jnp.where(usable, probability, came.astype(probability.dtype))
    return info._replace(outlier=came & (probability > 0.5), outlier_probability=probability)


def _describe(
    predicted: Belief,
    residual: Array,
    factor: Cholesky,
    weight: Array,
    y: Measurement,
    obs_cov: Array,
    log_weighted: Array,
) -> StepInfo:
    came = y.present if weight.ndim == y.value.ndim else y.came
    constant = weigh_constant(weight * y.observed, obs_cov)
    return StepInfo(
        predicted=Gaussian(predicted.mean, predicted.cov),
        residual=residual,
        innovation_cov=factor.product(),
        weight=jnp.minimum(weight, 1.0),  # noise below R tells more than R says; a weight that people read is at most 1
        outlier=came & (weight**2 < OUTLIER_POWER),
        nis=linalg.sum_leading(factor.half(residual) ** 2),
        log_likelihood=log_density(residual, factor, y.num_observed),
        weighted_log_likelihood=jnp.where(y.num_observed > 0, log_weighted + constant, 0.0),
    )
