"""The ensemble filter: a belief carried by members, with separate choices of analysis, inflation, localisation, weight.

Evensen (1994); Burgers, van Leeuwen & Evensen (1998). The weights are those of Duran-Martin et al. (2024): in every
analysis of `wolf.ensembles` but the printed ones, a weight raises the likelihood of an observation to the power w².
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.inference.ensembles.analysis import Stochastic, Taper
from wolf.inference.ensembles.as_published import ErrorWeight, perturbed
from wolf.inference.ensembles.inflation import Inflation, Multiplicative
from wolf.inference.ensembles.interfaces import Analysis
from wolf.inference.ensembles.observation_ensemble import ObservationEnsemble, innovation_scores, log_likelihood, look
from wolf.inference.ensembles.robust_weights import SCOPES, typical_size, weigh
from wolf.inference.filters.gaussian import OUTLIER_POWER
from wolf.inference.weights import Unweighted
from wolf.interfaces import Filter, Measurement, Requirements, StepInfo
from wolf.numerics import linalg
from wolf.numerics.pytree import function, pytree, static
from wolf.statespace import Model, own_noise

LOST = 1.2  # typical size of residuals above which the members are lost, if it lasts
PATIENCE = 3  # steps; bad rows that come in spells of fewer than this are refused
LARGEST_TAPER = 10**8  # entries of a matrix of tapers: 800 MB
MEMBERS = 100  # the default: the sampling error of a standard deviation is then 7 %


class EnsembleState(NamedTuple):
    """Members (N, D), and what the filter remembers.

    Attributes:
        members: (N, D).
        t: number of measurements seen so far.
        sizes: typical sizes of the residuals in the last steps, in units of what the members expected.
        memory: of the inflation.
    """

    members: Array
    t: Array
    sizes: Array
    memory: Any = ()

    @property
    def mean(self) -> Array:
        """Mean of the members."""
        return self.members.mean(0)

    @property
    def cov(self) -> None:
        """None: members stand for it."""
        return None

    @property
    def variances(self) -> Array:
        """Variance of each state over the members."""
        return ((self.members - self.members.mean(0)[None]) ** 2).sum(0) / (self.members.shape[0] - 1)


@pytree
class EnsembleFilter(Filter):
    """Carry an ensemble through predict and update. Needs a `key`.

    Args:
        num_members: N, at least 2.
        analysis: from `wolf.ensembles`: how members learn from a measurement.
        inflation: from `wolf.ensembles`: how lost spread is given back.
        localisation: from `wolf.ensembles`: `Ring`, `Grid` or `Distances`; None for none.
        weight: from `wolf.weights`, or any `weight(residual, obs_cov, innovation_cov)`; for the printed analyses also
            `wolf.ensembles.AveragedParticle`, `PerParticle` or `Clipped`.
        scope: "observation" weighs each observation by itself, "pooled" all by one number, "member" each observation
            for each member.
        patience: for how many steps in a row residuals must be too large before a robust filter blames its members
            and not the sensors (see `wolf.inference.ensembles.robust_weights`); 0 never does.

    Example:
        >>> import wolf
        >>> method = EnsembleFilter(20, wolf.ensembles.ETKF(), weight=wolf.MahalanobisIMQ(metric="S"))
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> wolf.filter(model, [1.0, 2.0, 1e9, float("nan")], method=method, key=0).outliers[:, 0].tolist()
        [False, False, True, False]
    """

    num_members: int = static(default=MEMBERS)
    analysis: Analysis = Stochastic()
    inflation: Any = Multiplicative()
    localisation: Any = None
    weight: Any = function(default=Unweighted())
    scope: str = static(default="observation")
    patience: int = static(default=PATIENCE)

    def __post_init__(self) -> None:
        """Check that the choices go together."""
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
        if self.localisation is not None and not hasattr(self.localisation, "cross"):
            got = validation.short_repr(self.localisation)
            raise ValueError(f"localisation must be one of wolf.ensembles, as Ring(radius=4.0); got {got}")
        needs = self.analysis.requirements
        if self.localisation is not None and needs.geometry == "none":
            raise ValueError(f"{name} has no local form; use LETKF, Stochastic, DEnKF or EnSRF with a localisation")
        if self.localisation is None and needs.geometry == "observations":
            raise ValueError(f"{name} needs a localisation, such as wolf.ensembles.Ring(radius=4.0)")
        if self.scope == "member" and not needs.per_member:
            raise ValueError(f'{name} moves all members by one transform; scope="member" needs Stochastic')
        if isinstance(self.weight, ErrorWeight) and not needs.error_weights:
            raise ValueError(f"{self.weight!r} belongs to the printed filters: use analysis=SampledGain()")

    @property
    def requirements(self) -> Requirements:
        """Random numbers, and variances instead of matrices; it makes no matrix itself."""
        return Requirements(key=True, variances=True, covariances=False)

    def check(self, model: Model) -> None:
        """Check at the door that the choices suit a model."""
        state_dim, obs_dim = model.state_dim, model.obs_dim
        name, needs = type(self.analysis).__name__, self.analysis.requirements
        if model.obs_cov.ndim > 1 and needs.independent:
            raise ValueError(f"{name} needs independent noise: obs_cov as variances (M,), or a fixed diagonal matrix")
        if self.localisation is None:
            return
        if needs.geometry == "observations":
            self.localisation.near(state_dim, obs_dim)
        elif obs_dim * max(state_dim, obs_dim) > LARGEST_TAPER:
            raise ValueError(f"{name} tapers {obs_dim} x {state_dim} and {obs_dim} x {obs_dim} matrices; use LETKF")
        else:
            self.localisation.cross(state_dim, obs_dim)

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
        """Send every member forward and add a draw of the noise to each.

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

        def shake(moved: Array) -> Array:
            return moved + _colour(noise_cov, jax.random.normal(move_key, moved.shape, moved.dtype))

        # A model without noise is common here, and its draws would cost more than the rest of the step.
        return state._replace(members=jax.lax.cond(jnp.any(noise_cov != 0), shake, lambda moved: moved, moved))

    def update(
        self, now: Model, state: EnsembleState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[EnsembleState, StepInfo]:
        """Learn from one measurement.

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
        sight = look(now, mean[None] + prior, y, u)
        draw_key, turn_key = _own_key(key, 2), _own_key(key, 3)
        draws = None
        if self.analysis.requirements.perturbed:
            draws = jax.random.normal(draw_key, sight.deviations.shape, prior.dtype)
        sizes, scale = self._scale(sight, state.sizes)
        weight = self._weigh(sight, draws, scale)
        local = None if self.localisation is None else self._near(mean.shape[0], y.value.shape[0], mean)
        new_mean, after = self.analysis(mean, prior, sight, weight, draws, turn_key, local)
        middle = after.mean(0)
        inflated = self.inflation.posterior(prior, after - middle[None])
        members = (new_mean + middle)[None] + inflated
        # A row without a usable measurement, or an update that broke down, leaves the prediction bit for bit.
        readable = weight if weight.ndim == 1 else jnp.sqrt((weight**2).mean(0))
        used = self._usable(y) & jnp.isfinite(members).all()
        members = jnp.where(used, members, state.members)
        memory = self._learn(state.memory, sight, readable, used)
        info = _describe(mean, sight, jnp.where(used, readable, 0.0), y)
        return EnsembleState(members, state.t + 1, jnp.where(used, sizes, state.sizes), memory), info

    def _scale(self, sight: ObservationEnsemble, before: Array) -> tuple[Array, Array | float]:
        """Remember how large residuals are, and find their unit: the smallest of late, or this if all were large."""
        if self.patience == 0 or isinstance(self.weight, Unweighted | ErrorWeight):
            return before, 1.0
        now, least = typical_size(sight), before.min()
        return jnp.append(before[1:], now), jnp.where(least > LOST, now, jnp.minimum(now, least))

    def _usable(self, y: Measurement) -> Array:
        """Say whether to learn from a row; pooled, an infinite value has the weight of a huge one, for everybody."""
        return (y.num_observed > 0) & ~y.non_finite if self.scope == "pooled" else y.num_observed > 0

    def _weigh(self, sight: ObservationEnsemble, draws: Array | None, scale: Array | float) -> Array:
        if isinstance(self.weight, ErrorWeight):
            weight = self.weight(perturbed(sight, jnp.asarray(draws)))
            return weight * (sight.observed if weight.ndim == 1 else sight.observed[None])
        return weigh(self.weight, self.scope, sight, scale)

    def _near(self, state_dim: int, obs_dim: int, like: Array) -> Any:
        """Ask the geometry for what this kind of analysis needs."""
        place = self.localisation
        if self.analysis.requirements.geometry == "observations":
            numbers, distances = place.near(state_dim, obs_dim)
            return jnp.asarray(numbers, jnp.int32), jnp.sqrt(place.taper(distances, like))
        distances = place.cross(state_dim, obs_dim), place.between(state_dim, obs_dim)
        return Taper(*(place.taper(distance, like) for distance in distances))

    def _learn(self, memory: Any, sight: ObservationEnsemble, weight: Array, used: Array) -> Any:
        error = sight.residual / jnp.sqrt(sight.noise.variances)
        learned = self.inflation.learn(memory, error, sight.variances() / sight.noise.variances, weight)
        return jax.tree.map(lambda new, old: jnp.where(used, new, old), learned, memory)


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
    """Give rows of standard normal numbers (N, D) a covariance, or variances."""
    if cov.ndim == 1:
        return jnp.sqrt(jnp.maximum(cov, 0.0))[None] * white
    return linalg.matmul(white, linalg.psd_root(cov).T)


def _own_key(key: Array | None, use: int) -> Array:
    """Derive a key for one use, apart from those that the run folds the clock into."""
    if key is None:
        raise ValueError("an ensemble draws random numbers: pass key=, a seed or a JAX key")
    return jax.random.fold_in(key, 2**31 + use)
