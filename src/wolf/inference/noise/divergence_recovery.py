"""The vote that ends a lock-out.

A filter that rejects what lies far from its prediction cannot follow a target that really jumped: it goes on rejecting.
But outliers disagree with each other, while measurements of a target that is somewhere else agree. So rejected
residuals vote. With z and G the residual and the predicted covariance where the noise R is white, r the size of
ordinary noise,

    e agrees with a place c moving by b per step if  |e - c|² or |e - c - b|²  in the metric (G + 2 r I)⁻¹
        is below the 99 % quantile of χ²

After k votes, the patience, the covariance is inflated by κ = (zᵀ G z - r tr G) / tr G², the factor that makes the
residual an ordinary one, and the measurement is believed. One accepted measurement ends the vote. κ never makes the
belief more than 1e9 times as wide as the noise: that goes to within 1e-9 of where the votes point, and a covariance has
digits for it.

A state of many parts, as a season, can be led so far astray by lies that won and truth that won back that residuals
never agree: they swing with the season that is believed. But then measurements lie beside each other, and all of them
far from their predictions, which those of a broken sensor do not. A rejected measurement y is beside the one rejected
before it, y', if

    |y - y'|² < |y - h(m)|² / 10  in the metric R⁻¹

and after 4 k more of those than of all others the filter is lost: the belief is made as wide as it may be, and starts
anew with what is measured. A season may be wrong at some hours only, and right at all others: measurements that are
accepted after several in a row that were refused, and did not agree, count a tenth.

Outliers win by chance in about T (1 - ε) ε^k of T steps, if a share ε of all measurements is wrong in one way. A
patience that grows as ln 0.05 / ln ε keeps that rate what it is with 5 % of outliers. Lies that were near may have been
taken for noise, so that at first ε is found too small when they lie apart: ε counts as at least 0.085, which is one
vote more, unless the vote began with the first measurement, when it may be the prior that is off. Votes that were lost
say more: ε is also at least the share of those that agreed in them, as outliers that have nothing in common never do.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import validation
from wolf.beliefs import Affine, LazyGaussian
from wolf.beliefs.affine import hide_noise
from wolf.beliefs.mixture_sqrt_update import MixtureComponents
from wolf.beliefs.updates import InformationRoots, KnownTerms, MixtureUpdate, PosteriorUpdate, Update, WeightedUpdate
from wolf.inference.noise.jump_evidence import JumpEvidence as JumpEvidence
from wolf.inference.noise.jump_evidence import cast, end
from wolf.inference.noise.per_sensor import look
from wolf.inference.noise.whitened import Whitened, whiten
from wolf.interfaces import NoiseModel, Requirements, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, matvec, sum_leading
from wolf.numerics.pytree import pytree, static
from wolf.statespace import Model

REJECTED = 0.2  # a measurement of which less than this share is believed votes
LONGER = 2.0  # times as many votes as another winner has, and a sensor votes on something else
USUAL_SHARE = 0.05  # of outliers, up to which patience need not grow
LEAST_SHARE = 0.085  # of outliers that is reckoned with once one was accepted: lies may have been taken for noise
MOST_SHARE = 0.5  # of outliers, beyond which it grows no more
MOST_GROWTH = float(np.log(USUAL_SHARE) / np.log(MOST_SHARE))
WIDEST = {8: 1e9, 4: 1e4}  # variance over that of ordinary noise that no inflation exceeds, by the bytes of a number
LOST = 4.0  # times the patience: how many of those, less others, until a filter is lost
FARTHEST = 1e8  # standard deviations of ordinary noise; nothing that far away is gone to


@pytree
class JumpRecovery(NoiseModel):
    """Let rejected measurements that agree with each other win.

    Args:
        base: any noise rule; one that never rejects never votes.
        patience: k, how many have to agree. In other words: a sensor that lies in the same way for k measurements
            is believed. More patience, later recovery: k is about what a true jump costs.
        grows: whether the patience grows with the share of outliers that the rule has learned.
    """

    base: Any
    patience: Any = 5
    grows: bool = static(default=False)

    def __post_init__(self) -> None:
        """Check the patience."""
        if isinstance(self.patience, jax.core.Tracer):
            return
        if not np.all(validation.nonempty("patience", self.patience) >= 2):
            got = validation.short_repr(self.patience)
            raise ValueError(f"patience must be at least 2: one measurement agrees with itself; got {got}")
        if isinstance(self.patience, int):
            object.__setattr__(self, "patience", float(self.patience))

    @property
    def requirements(self) -> Requirements:
        """What the rule needs, one series at a time."""
        return self.base.requirements | Requirements()

    @property
    def is_mixture(self) -> bool:
        """Whether the rule does."""
        return self.base.is_mixture

    @property
    def revises_prior(self) -> bool:
        """Whether the rule does."""
        return self.base.revises_prior

    def start(self, model: Model) -> JumpEvidence:
        """Start without a vote."""
        nothing = jnp.zeros(model.obs_dim, jnp.asarray(model.prior.mean).dtype)
        votes, memory = nothing[: len(self.base.sensor_slices(model.obs_dim))], self.base.start(model)
        counts = (votes, votes, votes)
        growing = (votes + self.patience, votes, votes) if self.grows else ()
        return JumpEvidence(memory, *counts, nothing, nothing, votes, nothing, self.base.snapshot(memory), *growing)

    def check(self, model: Model) -> None:
        """Let the rule check."""
        self.base.check(model)

    def noise_estimate(self, memory: JumpEvidence) -> Any:
        """Say what the rule learned about the noise."""
        return self.base.noise_estimate(memory.base)

    def predict(self, memory: JumpEvidence, view: Affine, noise_cov: Any, t: Any) -> tuple[Any, JumpEvidence]:
        """Let the rule look on."""
        noise_cov, rule = self.base.predict(memory.base, view, noise_cov, t)
        return noise_cov, memory._replace(base=rule)

    def predict_measurement(
        self, memory: JumpEvidence, view: Affine, belief: Any, dynamics: Any, noise_cov: Any
    ) -> tuple[Affine, Any]:
        """Let the rule say what will be measured."""
        return self.base.predict_measurement(memory.base, view, belief, dynamics, noise_cov)

    def sensor_slices(self, size: int) -> list[Any]:
        """List those that vote: each sensor, or the measurement as one."""
        return self.base.sensor_slices(size)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Follow the rule, unless the vote is won."""
        return self.judge(context)

    def judge(self, context: UpdateContext, after_jump: Array | None = None, barred: Any = False) -> UpdateDecision:
        """Follow the rule, unless the vote is won, or it is known that the state jumped.

        Args:
            context: the measurement.
            after_jump: whether it is the first after a jump of the state, (); None if nothing is known.
            barred: whether it is known to lie, so that no vote is won by it, ().
        """
        ballot, sensors = context.memory, self.base.sensor_slices(len(context.residual))
        believed = self.base(context._replace(memory=ballot.base))
        ordinary = self._ordinary(ballot.base, context)
        if isinstance(believed.update, PosteriorUpdate):
            return self._ask_all(context, believed, believed.update, sensors, ordinary, after_jump, barred)
        # White coordinates of many numbers take a factor and two products, which only those need who vote.
        later = believed.outlier is not None and linalg.library_matmul(len(context.residual))
        early = None if later else whiten(context)
        rejected = _kept(believed, slice(None), early, ordinary[0]) < REJECTED
        mine = ballot.of(0, slice(None))
        over = end(ballot)._replace(base=believed.memory)
        quiet = believed._replace(memory=over, inflation=jnp.ones_like(ordinary[0]))
        if len(mine.place) != len(context.residual):  # another sensor, for this step: it may end the vote, and has none
            return quiet._replace(memory=over._replace(votes=jnp.where(rejected, ballot.votes, 0.0)))

        def vote() -> UpdateDecision:
            begun, white = self._begun(ballot, context.t), whiten(context) if early is None else early
            counted, won = self._count(mine, context, white, ordinary[0], self._patience(begun, 0))
            won = won if after_jump is None else (won & ~barred) | after_jump
            return self._decide(context, believed, begun, counted, won, white, ordinary[0])

        # A branch, not a choice between two results: most measurements are not rejected, and pay nothing.
        return jax.lax.cond(rejected if after_jump is None else rejected | after_jump, vote, lambda: quiet)

    def _ask_all(
        self,
        context: UpdateContext,
        believed: UpdateDecision,
        followed: PosteriorUpdate,
        sensors: list[np.ndarray],
        ordinary: list[Array],
        after_jump: Array | None,
        barred: Any,
    ) -> UpdateDecision:
        """Let each sensor vote; one that did not measure goes on with its vote later."""
        ballot, counted, wins = self._begun(context.memory, context.t), [], []
        for i, rows in enumerate(sensors):
            part = look(context, rows, context.belief)
            white = whiten(part)
            rejected = _kept(believed, rows, white, ordinary[i]) < REJECTED
            mine = ballot.of(i, rows)
            new, won = self._count(mine, part, white, ordinary[i], self._patience(ballot, i))
            came = white.num_observed > 0
            new = jax.tree.map(lambda yes, no, rejected=rejected: jnp.where(rejected, yes, no), new, end(mine))
            new = jax.tree.map(lambda now, before, came=came: jnp.where(came, now, before), new, mine)
            counted.append(new)
            if after_jump is not None:  # of a jump that is known, those speak that had no other vote going
                won = (won & ~barred) | (after_jump & (mine.votes == 0))
            wins.append(rejected & won & came)
        # A sensor that is stuck has agreed with itself for long, and not on what the others found just now.
        fewest = jnp.stack([jnp.where(win, each.votes, jnp.inf) for win, each in zip(wins, counted, strict=True)]).min()
        wins = [win & (each.votes <= LONGER * fewest) for win, each in zip(wins, counted, strict=True)]
        return self._decide_by_majority(context, believed, followed, ballot, counted, wins, sensors, ordinary)

    def _count(
        self, mine: JumpEvidence, context: UpdateContext, white: Whitened, ordinary: Array, patience: Array
    ) -> tuple[JumpEvidence, Array]:
        """Let a rejected residual vote, and say whether the vote is won."""
        counted, agrees = cast(mine, context, white, ordinary)
        near = sum_leading(white.residual**2) < ordinary * FARTHEST**2
        return counted, near & ((agrees & (counted.votes >= patience)) | (counted.astray >= LOST * self.patience))

    def _begun(self, ballot: JumpEvidence, t: Any) -> JumpEvidence:
        """Mark what is known where no vote is under way: this measurement may begin one."""
        fresh = linalg.all_leading(ballot.votes == 0)
        now = self.base.snapshot(ballot.base)
        marked = jax.tree.map(lambda new, old: jnp.where(fresh, new, old), now, ballot.snapshot)
        if not self.grows:
            return ballot._replace(snapshot=marked)
        estimates = self.base.noise_estimate(ballot.base)
        estimates = [] if estimates is None else estimates if isinstance(estimates, list) else [estimates]
        least = jnp.where(t == 0, USUAL_SHARE, LEAST_SHARE)
        alike = ballot.share_alike
        shares = [
            jnp.clip(jnp.maximum(estimate.possible_share, alike[i]), least, MOST_SHARE)
            for i, estimate in enumerate(estimates)
        ]
        longer = [float(np.log(USUAL_SHARE)) / jnp.log(share) for share in shares]
        grown = self.patience * jnp.stack(longer) if estimates else ballot.patience
        patience = jnp.where(ballot.votes == 0, grown.astype(ballot.votes.dtype), ballot.patience)
        return ballot._replace(snapshot=marked, patience=patience)

    def _patience(self, ballot: JumpEvidence, i: int) -> Array:
        # Votes are whole numbers: to reach k rounded is to reach k - 1/2.
        return ballot.patience[i] - 0.5 if self.grows else self.patience

    def _ordinary(self, memory: Any, context: UpdateContext) -> list[Array]:
        """Ask the rule for the size of ordinary noise, as a multiple of R."""
        estimates = self.base.noise_estimate(memory)
        if estimates is None:
            return [jnp.ones_like(context.residual[0])] * len(self.base.sensor_slices(len(context.residual)))
        return [estimate.ordinary for estimate in (estimates if isinstance(estimates, list) else [estimates])]

    def _decide(
        self,
        context: UpdateContext,
        believed: UpdateDecision,
        ballot: JumpEvidence,
        counted: JumpEvidence,
        won: Array,
        white: Whitened,
        ordinary: Array,
    ) -> UpdateDecision:
        """Believe the measurement as one if it has won."""
        inflation = _inflation(context, white, ordinary, counted.astray >= LOST * self.patience)
        return believed._replace(
            update=_trusting(believed.update, won, white, ordinary, inflation),
            inflation=jnp.where(won, inflation, 1.0),
            memory=self._remember(ballot, believed.memory, [counted], won),
            outlier=None if believed.outlier is None else jnp.where(won, 0.0, believed.outlier),
        )

    def _decide_by_majority(
        self,
        context: UpdateContext,
        believed: UpdateDecision,
        followed: PosteriorUpdate,
        ballot: JumpEvidence,
        counted: list[JumpEvidence],
        wins: list[Array],
        sensors: list[np.ndarray],
        ordinary: list[Array],
    ) -> UpdateDecision:
        """Believe those sensors that won, and no other, if they are more than half of those that measured."""
        winners, noise = jnp.zeros_like(context.residual), jnp.ones_like(context.residual)
        for rows, won, size in zip(sensors, wins, ordinary, strict=True):
            winners = winners.at[rows].set(jnp.where(won, context.observed[rows], 0.0))
            noise = noise.at[rows].set(jnp.sqrt(size))
        present = jnp.stack([context.observed[rows].max() for rows in sensors]).sum()
        won = 2 * jnp.stack(wins).sum() > present
        # What the winners see, with the noise that is ordinary for each of them.
        obs_cov = hide_noise(context.obs_cov * linalg.outer(noise, noise), winners)
        heard = context._replace(
            view=context.view.hide(winners), residual=winners * context.residual, obs_cov=obs_cov, observed=winners
        )
        lost = jnp.stack([each.astray for each in counted]).max() >= LOST * self.patience
        inflation = jnp.where(won, _inflation(heard, whiten(heard), jnp.ones_like(noise[0]), lost), 1.0)
        jumped, log_jumped = WeightedUpdate(winners).apply(
            context.belief.inflate(inflation), heard.view, heard.residual, obs_cov
        )
        return believed._replace(
            update=PosteriorUpdate(
                jumped.where(won, followed.belief),
                jnp.where(won, log_jumped, followed.log_density),
                jnp.where(won, winners / noise, followed.weight),
            ),
            inflation=inflation,
            memory=self._remember(ballot, believed.memory, counted, won, sensors),
            outlier=None if believed.outlier is None else jnp.where(won, 1.0 - winners, believed.outlier),
        )

    def _remember(
        self,
        ballot: JumpEvidence,
        learned: Any,
        counted: list[JumpEvidence],
        won: Array,
        sensors: list[np.ndarray] | None = None,
    ) -> JumpEvidence:
        """Go on with the count; a vote that is won ends it, and teaches nothing about the noise."""
        place, slope, last = counted[0].place, counted[0].slope, counted[0].last
        if sensors is not None:
            order, names = np.argsort(np.concatenate(sensors)), ("place", "slope", "last")
            place, slope, last = (jnp.concatenate([getattr(c, n) for c in counted])[order] for n in names)
        counts = {name: jnp.stack([getattr(c, name) for c in counted]) for name in ballot.counted}
        counts |= {name: jnp.where(won, 0.0, counts[name]) for name in ("votes", "refused", "apart", "astray")}
        taught = jnp.where(ballot.votes > 0, ballot.refused, 0.0)
        after = self.base.after_jump(ballot.base, ballot.snapshot, taught)
        rule = jax.tree.map(lambda old, new: jnp.where(won, old, new), after, learned)
        return ballot._replace(base=rule, place=place, slope=slope, last=last, **counts)


def _kept(believed: UpdateDecision, rows: Any, white: Whitened | None, ordinary: Array) -> Array:
    """Say which share of what a measurement with ordinary noise tells the rule keeps, `r tr(R Wᵀ W) / M`."""
    if believed.outlier is not None:
        return 1.0 - (believed.outlier if believed.outlier.ndim == 0 else believed.outlier[rows].max())
    assert white is not None, "without an outlier's probability the share is found in white coordinates"
    size = jnp.maximum(white.num_observed, 1.0)
    if isinstance(believed.update, MixtureUpdate):
        return ordinary * sum_leading(linalg.diagonal(believed.update.information())) / size
    weight = believed.update.weight
    if weight.ndim == 0:
        return ordinary * weight**2
    if weight.ndim == 1:
        return ordinary * sum_leading(weight[rows] ** 2) / size
    return ordinary * (matmul(weight, white.noise.matrix()) ** 2).sum() / size


def _trusting(update: Update, won: Array, white: Whitened, ordinary: Array, inflation: Array) -> Update:
    """Believe a measurement that won, with ordinary noise, in the rule's kind of update."""
    identity = linalg.eye(white.signal.shape[0], white.signal)
    if isinstance(update, MixtureUpdate):  # with noise r I, S = κ G + r I
        factor = linalg.cholesky(inflation * white.signal + ordinary * identity)
        inverse = factor.solve(identity)
        trusted = update._replace(
            gain=linalg.symmetrise(inverse), rest=ordinary * inverse, doubt=jnp.zeros_like(inverse)
        )
        if update.sizes is not None:  # all of the sizes are r
            each = jnp.ones_like(update.sizes.scales)
            trusted = trusted._replace(
                sizes=MixtureComponents(ordinary * each, each / len(each), jnp.zeros_like(ordinary))
            )
        if update.roots is not None:
            trusted = trusted._replace(
                roots=InformationRoots(identity / jnp.sqrt(ordinary), jnp.zeros_like(update.roots.doubt))
            )
        if update.told is not None:
            log_rest = len(identity) * jnp.log(ordinary) - factor.log_det()
            trusted = trusted._replace(told=KnownTerms(log_rest, white.num_observed / ordinary))
        return jax.tree.map(lambda new, old: jnp.where(won, new, old), trusted, update)
    power = 1.0 / jnp.sqrt(ordinary)
    weight = power if update.weight.ndim < 2 else power * white.noise.half(identity)
    update = update._replace(weight=jnp.where(won, weight, update.weight))
    if isinstance(update, WeightedUpdate) and update.spread is not None:
        return update._replace(spread=jnp.where(won, 0.0, update.spread))
    return update


def _inflation(context: UpdateContext, white: Whitened, ordinary: Array, lost: Array) -> Array:
    """Find κ such that κ G + r I explains z zᵀ, measured by G itself: it need not have full rank.

    A filter that is lost knows nothing any more: then it is as large as it may be.
    """
    surplus = sum_leading(white.residual * matvec(white.signal, white.residual)) - ordinary * sum_leading(
        linalg.diagonal(white.signal)
    )
    tiny = jnp.finfo(surplus.dtype).tiny
    needed = surplus / jnp.maximum((white.signal**2).sum((0, 1)), tiny)
    enough = WIDEST[surplus.dtype.itemsize] * ordinary / jnp.maximum(_width(context, white), tiny)
    return jnp.maximum(1.0, jnp.where(lost, enough, jnp.minimum(needed, enough)))


def _width(context: UpdateContext, white: Whitened) -> Array:
    """Compare the belief with the noise of a measurement, `tr(R⁻¹ H diag(P) Hᵀ)`: also where variances cancel in G."""
    if isinstance(context.belief, LazyGaussian):
        return sum_leading(linalg.diagonal(white.signal))
    variances = linalg.diagonal(context.belief.cov)
    return (white.noise.half(context.view.jac) ** 2 * variances[None]).sum((0, 1))
