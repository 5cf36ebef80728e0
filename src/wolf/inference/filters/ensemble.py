"""Ensemble Kalman filter, with independent choices of analysis, inflation, localisation and weight.

Evensen (1994); Burgers, van Leeuwen & Evensen (1998). The weights are those of Duran-Martin et al. (2024): in every
analysis of `wolf.ensembles` except those as published, a weight raises the likelihood of an observation to the power
w².
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.inference.ensembles.analysis import Stochastic, Taper
from wolf.inference.ensembles.as_published import ErrorWeight, perturbed
from wolf.inference.ensembles.inflation import Inflation, Multiplicative
from wolf.inference.ensembles.interfaces import Analysis, Localisation
from wolf.inference.ensembles.observation_ensemble import (
    ObservationEnsemble,
    innovation_scores,
    log_likelihood,
    observe_ensemble,
)
from wolf.inference.ensembles.robust_weights import SCOPES, median_residual_size, weigh
from wolf.inference.filters.gaussian import OUTLIER_POWER
from wolf.inference.weights import Unweighted
from wolf.interfaces import Filter, Measurement, Requirements, StepInfo, WeightFunction, is_a
from wolf.numerics import linalg
from wolf.numerics.pytree import PyTree, function, pytree, static
from wolf.statespace import Model, own_noise

DIVERGED_RESIDUAL_SIZE = 1.2  # median normalised residual above which, for `patience` steps, the ensemble has diverged
DEFAULT_PATIENCE = 3  # steps; shorter runs of outlying rows are rejected
MAX_TAPER_ENTRIES = 10**8  # of a taper matrix: 800 MB
DEFAULT_MEMBERS = 100  # the sampling error of a standard deviation is then 7 %


class EnsembleState(NamedTuple):
    """Members and the state of the adaptive parts.

    Attributes:
        members: (N, D).
        t: number of measurements processed.
        sizes: median normalised residuals of the last `patience` steps.
        memory: state of the inflation.
    """

    members: Array
    t: Array
    sizes: Array
    memory: PyTree = ()

    @property
    def mean(self) -> Array:
        """Mean of the members."""
        return self.members.mean(0)

    @property
    def cov(self) -> None:
        """None: the members represent the covariance."""
        return None

    @property
    def variances(self) -> Array:
        """Sample variance of each state, (D,)."""
        return ((self.members - self.members.mean(0)[None]) ** 2).sum(0) / (self.members.shape[0] - 1)


@pytree
class EnsembleFilter(Filter):
    """Ensemble Kalman filter. Needs a `key`.

    Args:
        num_members: N, at least 2.
        analysis: from `wolf.ensembles`: update of the members with a measurement.
        inflation: from `wolf.ensembles`: correction of the underestimated spread.
        localisation: from `wolf.ensembles`: `Ring`, `Grid` or `Distances`; None for none.
        weight: from `wolf.weights`, or any `weight(residual, obs_cov, innovation_cov)`; for the published analyses also
            `wolf.ensembles.AveragedParticle`, `PerParticle` or `Clipped`.
        scope: "observation" for one weight per observation, "pooled" for a single weight, "member" for one weight per
            observation and member.
        patience: number of consecutive steps with too large residuals after which a robust filter treats the ensemble
            and not the sensors as wrong (see `wolf.inference.ensembles.robust_weights`); 0 disables this.

    Example:
        >>> import wolf
        >>> method = EnsembleFilter(20, wolf.ensembles.ETKF(), weight=wolf.MahalanobisIMQ(metric="S"))
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> wolf.filter(model, [1.0, 2.0, 1e9, float("nan")], method=method, key=0).outliers[:, 0].tolist()
        [False, False, True, False]
    """

    num_members: int = static(default=DEFAULT_MEMBERS)
    analysis: Analysis = Stochastic()
    inflation: Inflation = Multiplicative()
    localisation: Localisation | None = None
    weight: WeightFunction | ErrorWeight = function(default=Unweighted())
    scope: str = static(default="observation")
    patience: int = static(default=DEFAULT_PATIENCE)

    def __post_init__(self) -> None:
        """Validate that the choices are compatible."""
        validation.integer("num_members", self.num_members, least=2)
        validation.choice("scope", self.scope, SCOPES)
        validation.integer("patience", self.patience)
        validation.weight(self.weight)
        name = type(self.analysis).__name__
        if not isinstance(self.analysis, Analysis):
            raise ValueError(f"analysis must be one of wolf.ensembles, such as ETKF(); got {self.analysis!r}")
        if not isinstance(self.inflation, Inflation):
            raise ValueError(
                f"inflation must be one of wolf.ensembles, as RTPS(); got {validation.short_repr(self.inflation)}"
            )
        if self.localisation is not None and not is_a(self.localisation, Localisation):
            got = validation.short_repr(self.localisation)
            raise ValueError(f"localisation must be one of wolf.ensembles, as Ring(radius=4.0); got {got}")
        needs = self.analysis.requirements
        if self.localisation is not None and needs.geometry == "none":
            raise ValueError(f"{name} has no local form; use LETKF, Stochastic, DEnKF or EnSRF with a localisation")
        if self.localisation is None and needs.geometry == "observations":
            raise ValueError(f"{name} needs a localisation, such as wolf.ensembles.Ring(radius=4.0)")
        if self.scope == "member" and not needs.per_member:
            raise ValueError(f'{name} applies one transform to all members; scope="member" needs Stochastic')
        if isinstance(self.weight, ErrorWeight) and not needs.error_weights:
            raise ValueError(f"{self.weight!r} belongs to the filters as published: use analysis=SampledGain()")

    @property
    def requirements(self) -> Requirements:
        """Random numbers, and covariances as variances where they are diagonal."""
        return Requirements(key=True, variances=True, covariances=False)

    def check(self, model: Model) -> None:
        """Validate that the choices are compatible with a model."""
        state_dim, obs_dim = model.state_dim, model.obs_dim
        name, needs = type(self.analysis).__name__, self.analysis.requirements
        if model.obs_cov.ndim > 1 and needs.independent:
            raise ValueError(f"{name} needs independent noise: obs_cov as variances (M,), or a fixed diagonal matrix")
        if self.localisation is None:
            return
        if needs.geometry == "observations":
            self.localisation.near(state_dim, obs_dim)
        elif obs_dim * max(state_dim, obs_dim) > MAX_TAPER_ENTRIES:
            raise ValueError(f"{name} tapers {obs_dim} x {state_dim} and {obs_dim} x {obs_dim} matrices; use LETKF")
        else:
            self.localisation.cross(state_dim, obs_dim)
            self.localisation.between(state_dim, obs_dim)

    def init(self, model: Model, key: Array | None = None) -> EnsembleState:
        """Draw members from the prior."""
        if key is None:
            raise ValueError("an ensemble draws random numbers: pass key=, a seed or a JAX key")
        mean, cov = jnp.asarray(model.prior.mean), jnp.asarray(model.prior.cov)
        white = jax.random.normal(_own_key(key, 0), (self.num_members, mean.shape[0]), mean.dtype)
        members = mean[None] + _colour(cov, white)
        sizes = jnp.ones(self.patience, mean.dtype)
        return EnsembleState(members, jnp.zeros((), jnp.int32), sizes, self.inflation.start(mean))

    def predict(self, now: Model, state: EnsembleState, u: Array | None, key: Array | None = None) -> EnsembleState:
        """Propagate every member and add a draw of the dynamics noise.

        Args:
            now: the model at this step.
            state: after the previous measurement.
            u: input of this step.
            key: of this step.
        """
        move_key, draw = _own_key(key, 1), own_noise(now)
        if draw is not None:
            members = jax.vmap(draw)(state.members, jax.random.split(move_key, self.num_members))
            return state._replace(members=members)
        moved = jax.vmap(now.transition(u))(state.members)
        noise_cov = jnp.asarray(now.dynamics_cov)

        def add_noise(moved: Array) -> Array:
            return moved + _colour(noise_cov, jax.random.normal(move_key, moved.shape, moved.dtype))

        # Models without noise are common here, and the draws would cost more than the rest of the step.
        return state._replace(members=jax.lax.cond(jnp.any(noise_cov != 0), add_noise, lambda moved: moved, moved))

    def update(
        self, now: Model, state: EnsembleState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[EnsembleState, StepInfo]:
        """Update with one measurement.

        Args:
            now: the model at this step.
            state: predicted.
            y: cleaned measurement.
            u: input of this step.
            key: of this step.
        """
        mean = state.members.mean(0)
        before = state.members - mean[None]
        stretch = self.inflation.prior(state.memory)
        prior = before if isinstance(stretch, float) else stretch * before
        sight = observe_ensemble(now, mean[None] + prior, y, u)
        draw_key, turn_key = _own_key(key, 2), _own_key(key, 3)
        draws = None
        if self.analysis.requirements.perturbed:
            draws = jax.random.normal(draw_key, sight.deviations.shape, prior.dtype)
        sizes, scale = self._scale(sight, state.sizes)
        weight = self._weigh(sight, draws, scale)
        local = (
            None
            if self.localisation is None
            else self._localise(self.localisation, mean.shape[0], y.value.shape[0], mean)
        )
        new_mean, after = self.analysis(mean, prior, sight, weight, draws, turn_key, local)
        offset = after.mean(0)
        inflated = self.inflation.posterior(prior, after - offset[None])
        members = (new_mean + offset)[None] + inflated
        # Without a usable measurement, or after a non-finite update, the prediction is kept bit for bit.
        readable = weight if weight.ndim == 1 else jnp.sqrt((weight**2).mean(0))
        used = self._usable(y) & jnp.isfinite(members).all()
        members = jnp.where(used, members, state.members)
        memory = self._update_inflation(state.memory, sight, readable, used)
        info = _describe(mean, sight, jnp.where(used, readable, 0.0), y)
        return EnsembleState(members, state.t + 1, jnp.where(used, sizes, state.sizes), memory), info

    def _scale(self, sight: ObservationEnsemble, before: Array) -> tuple[Array, Array | float]:
        """Record the median residual size and return the unit of residuals.

        The unit is the smallest recent size, or the present one if all recent sizes were large.
        """
        if self.patience == 0 or isinstance(self.weight, Unweighted | ErrorWeight):
            return before, 1.0
        now, least = median_residual_size(sight), before.min()
        return jnp.append(before[1:], now), jnp.where(least > DIVERGED_RESIDUAL_SIZE, now, jnp.minimum(now, least))

    def _usable(self, y: Measurement) -> Array:
        """Return whether a row is used; with a pooled weight an infinite value rejects the whole row."""
        return (y.num_observed > 0) & ~y.non_finite if self.scope == "pooled" else y.num_observed > 0

    def _weigh(self, sight: ObservationEnsemble, draws: Array | None, scale: Array | float) -> Array:
        if isinstance(self.weight, ErrorWeight):
            weight = self.weight(perturbed(sight, jnp.asarray(draws)))
            return weight * (sight.observed if weight.ndim == 1 else sight.observed[None])
        return weigh(self.weight, self.scope, sight, scale)

    def _localise(self, geometry: Localisation, state_dim: int, obs_dim: int, like: Array) -> tuple:
        """Compute the tapers or neighbourhoods that this kind of analysis needs."""
        if self.analysis.requirements.geometry == "observations":
            numbers, distances = geometry.near(state_dim, obs_dim)
            return jnp.asarray(numbers, jnp.int32), jnp.sqrt(geometry.taper(distances, like))
        pairs = geometry.cross(state_dim, obs_dim), geometry.between(state_dim, obs_dim)
        return Taper(*(geometry.taper(distance, like) for distance in pairs))

    def _update_inflation(self, memory: PyTree, sight: ObservationEnsemble, weight: Array, used: Array) -> PyTree:
        error = sight.residual / jnp.sqrt(sight.noise.variances)
        updated = self.inflation.learn(memory, error, sight.variances() / sight.noise.variances, weight)
        return jax.tree.map(lambda new, old: jnp.where(used, new, old), updated, memory)


def _describe(mean: Array, sight: ObservationEnsemble, weight: Array, y: Measurement) -> StepInfo:
    nis, log_det = innovation_scores(sight)
    return StepInfo(
        predicted=Gaussian(mean, None),
        residual=sight.residual,
        weight=jnp.minimum(weight, 1.0),
        outlier=y.present & (weight**2 < OUTLIER_POWER),
        nis=nis,
        log_likelihood=log_likelihood(nis, log_det, y.num_observed),
    )


def _colour(cov: Array, white: Array) -> Array:
    """Transform rows of standard normal numbers (N, D) to a given covariance, or variances."""
    if cov.ndim == 1:
        return jnp.sqrt(jnp.maximum(cov, 0.0))[None] * white
    return linalg.matmul(white, linalg.psd_root(cov).T)


def _own_key(key: Array | None, use: int) -> Array:
    """Derive a key for one use, distinct from the keys that the run derives from the step number."""
    if key is None:
        raise ValueError("an ensemble draws random numbers: pass key=, a seed or a JAX key")
    return jax.random.fold_in(key, 2**31 + use)
