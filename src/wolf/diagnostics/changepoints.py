"""Changepoints: where in a series the state began anew, by the evidence of a model for every piece of it.

A series is pieces. At the start of each the state is drawn anew from the model's prior, and within a piece the model
holds. A piece of n steps has the probability c (1 - c)^(n - m) for n ≥ m, the shortest; c is the chance of a change.
One filter from each possible start s gives log p(y_s ... y_{s+n-1}) for all n. Of all ways to cut the series, the sum

    B(t) = log Σ_n p(y_t ... y_{t+n-1}) P(n) exp B(t + n)

and its mirror image A(t) give the exact probability of a change at t, exp(A(t) + B(t) - B(0)) (Fearnhead 2006), and
the maximum in place of the sum the most probable cut (Jackson et al. 2005).

A measurement may be an outlier: then it has the same density wherever it lies, whatever the state, as false detections
of a radar have (Bar-Shalom & Tse 1975), so no outlier is a reason to change, however far it is off. The evidence is
that of a filter which matches moments; without outliers it is exact for linear models.
"""

import dataclasses
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np

from wolf import api, validation
from wolf.beliefs.density import LOG_2PI
from wolf.engine.measurements import is_unusable
from wolf.execution import validate
from wolf.inference.noise.contaminated_gaussian import CERTAIN, match_moments
from wolf.inference.registry import EKF
from wolf.interfaces import NoiseModel, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.pytree import pytree
from wolf.statespace import Model, ParameterModel, time_axes
from wolf.statespace.array_fields import count

SPREAD = 6.0  # standard deviations of the prior prediction over which outliers are spread
BLOCK = 256  # starts that are filtered together
TOLD = 8  # changes in a line
MOST = 4_000_000  # numbers of evidence: more steps need `longest`


@dataclasses.dataclass(frozen=True, repr=False)
class Changepoints:
    """Where a series changed.

    Attributes:
        at: first steps of new pieces, of the most probable cut.
        probabilities: that a new piece began at each step, over all cuts, (T,); 0 for the first.
        log_evidence: of the series, over all cuts.
    """

    at: np.ndarray
    probabilities: np.ndarray
    log_evidence: float

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """First step of each piece, and the first after it."""
        ends = [0, *self.at.tolist(), len(self.probabilities)]
        return list(pairwise(ends))

    def __repr__(self) -> str:
        """Tell how many changes there are, and the first of them with their probabilities."""
        told = [f"{at} ({self.probabilities[at]:.0%})" for at in self.at[:TOLD].tolist()]
        more = ", ..." if len(self.at) > TOLD else ""
        where = f" at {', '.join(told)}{more}" if told else ""
        return f"Changes: {count(len(self.at), 'change')} in {count(len(self.probabilities), 'step')}{where}"


def changepoints(
    model: Model,
    ys: Any,
    *,
    chance: float = 0.01,
    shortest: int = 5,
    longest: int | None = None,
    outliers: float = 0.02,
) -> Changepoints:
    """Find where the state of a series began anew.

    Args:
        model: of a piece, the same in all of them; its prior says how large changes are.
        ys: (T, M), or (T,) if one thing is measured; NaN where nothing came.
        chance: that a piece ends at a step, once it is long enough; 1 / chance is about the length of a piece.
        shortest: steps of a piece. What lasts shorter is outliers.
        longest: steps of a piece; without it every piece may be as long as the series, at T² steps of a filter.
        outliers: share of measurements that are.

    Example:
        >>> import wolf
        >>> level = wolf.models.local_level(0.0, obs_var=1.0, prior=wolf.Gaussian([0.0], [[100.0]]))
        >>> ys = np.r_[np.tile([0.5, -0.5], 10), np.tile([9.5, 10.5], 10)]
        >>> ys[[5, 30]] = 60.0
        >>> changepoints(level, ys).at.tolist()
        [20]
    """
    _check(model, chance, outliers)
    ys = validation.measurements(ys, model.obs_dim)
    ys = np.where(is_unusable(ys), np.nan, ys)  # says nothing, wherever pieces begin
    shortest = validation.integer("shortest", shortest, 1)
    reach = len(ys) if longest is None else min(validation.integer("longest", longest, shortest), len(ys))
    if len(ys) * reach > MOST:
        raise ValueError(
            f"{len(ys)} steps with pieces of up to {reach} are {len(ys) * reach:.1e} numbers, more than {MOST:.0e}: "
            f"give longest= at most {MOST // len(ys)}, the steps of the longest piece, or take fewer steps"
        )
    evidence = _evidence(model, ys, reach, outliers)
    ended, lasted = _lengths(chance, shortest, reach, longest is not None)
    backward = _fold(evidence, ended, lasted, np.logaddexp.reduce)[0]
    forward = _forward(evidence, ended)
    probabilities = np.exp(np.minimum(forward + backward - backward[0], 0.0))[:-1]
    probabilities[0] = 0.0
    return Changepoints(_best(evidence, ended, lasted), probabilities, float(backward[0]))


def _check(model: Any, chance: float, outliers: float) -> None:
    validate.check_model(model)
    if isinstance(model, ParameterModel):
        raise ValueError("changepoints are for models of a series, as wolf.models.local_level; got a ParameterModel")
    if varying := time_axes(model):
        raise ValueError(
            f"a piece may start at any step, so the model must be the same at all of them; {', '.join(varying)} vary "
            "with time. Give a model without a time axis"
        )
    validation.probability("chance", chance)
    if outliers != 0.0:
        validation.probability("outliers", outliers)


@pytree
class Clutter(NoiseModel):
    """Believe a measurement as far as it is likely to be no outlier, which has the same density everywhere.

    Args:
        share: probability of an outlier.
        log_densities: of one, for each measured coordinate, (M,).
    """

    share: Any
    log_densities: Any

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Match the moments of the two possible posteriors."""
        whitened = context.innovation.half(context.residual)
        count = context.observed.sum(0)
        good = -0.5 * (linalg.sum_leading(whitened**2) + context.innovation.log_det() + count * LOG_2PI)
        bad = linalg.sum_leading(context.observed * jnp.asarray(self.log_densities, good.dtype))
        odds = jnp.log1p(-self.share) - jnp.log(self.share) + good - bad
        return match_moments(context, whitened, jnp.clip(odds, -CERTAIN, CERTAIN))


def _told(state: Any, info: Any) -> dict[str, Any]:
    return {"log_density": info.log_likelihood}


def _evidence(model: Any, ys: np.ndarray, reach: int, share: float) -> np.ndarray:
    """Find log p(y_s ... y_{s+n}) for every start s and n < reach, (T, reach); -inf beyond the end."""
    steps = len(ys)
    method, logs = EKF(), _outlier_densities(model)
    if share:
        method = dataclasses.replace(method, noise=Clutter(share, logs))
    padded = np.concatenate([ys, np.full((reach - 1, ys.shape[1]), np.nan)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=0).transpose(0, 2, 1)
    found = np.empty((steps, reach))
    for first in range(0, steps, BLOCK):
        some = windows[first : first + BLOCK]
        scores = api.filter_many(model, some, method=method, save=_told).saved["log_density"]
        if share:
            came = np.isfinite(some)
            bad = np.log(share) + came @ logs
            scores = np.where(came.any(-1), np.logaddexp(np.log1p(-share) + scores, bad), 0.0)
        found[first : first + BLOCK] = np.cumsum(scores, axis=1)
    found[np.arange(steps)[:, None] + np.arange(reach) >= steps] = -np.inf
    return found


def _outlier_densities(model: Any) -> np.ndarray:
    """Spread outliers over where the first measurement of a piece may lie, (M,), as logarithms."""
    first = api.filter(model, np.zeros((1, model.obs_dim)), method=EKF())
    return -np.log(SPREAD * np.sqrt(np.diag(first.innovation_covs[0])))


def _lengths(chance: float, shortest: int, reach: int, bounded: bool) -> tuple[np.ndarray, np.ndarray]:
    """Log probabilities that a piece has n + 1 steps, and that it has at least as many, n < reach."""
    beyond = np.arange(1, reach + 1) - shortest
    mass = np.where(beyond >= 0, chance * (1.0 - chance) ** np.maximum(beyond, 0), 0.0)
    tail = 0.0 if bounded else 1.0 - mass.sum()
    mass = mass / mass.sum() if bounded and mass.any() else mass
    with np.errstate(divide="ignore"):
        return np.log(mass), np.log(np.cumsum(mass[::-1])[::-1] + tail)


def _fold(evidence: np.ndarray, ended: np.ndarray, lasted: np.ndarray, join: Any) -> tuple[np.ndarray, np.ndarray]:
    """Go from the end to the start: what the steps from each on say if a piece begins there, and its likeliest end."""
    steps, reach = evidence.shape
    after, ends = np.zeros(steps + 1), np.full(steps, steps)
    for t in range(steps - 1, -1, -1):
        size = min(reach, steps - t)
        ways = evidence[t, :size] + ended[:size] + after[t + 1 : t + 1 + size]
        if t + size == steps:  # the last piece need not have ended
            ways[-1] = evidence[t, size - 1] + lasted[size - 1]
        after[t], ends[t] = join(ways), t + 1 + np.argmax(ways)
    return after, ends


def _forward(evidence: np.ndarray, ended: np.ndarray) -> np.ndarray:
    """Go from the start: what the steps before each say if a piece ends there."""
    steps, reach = evidence.shape
    before = np.zeros(steps + 1)
    for t in range(1, steps + 1):
        size = min(reach, t)
        starts = np.arange(t - size, t)
        ways = before[starts] + evidence[starts, t - 1 - starts] + ended[t - 1 - starts]
        before[t] = np.logaddexp.reduce(ways)
    return before


def _best(evidence: np.ndarray, ended: np.ndarray, lasted: np.ndarray) -> np.ndarray:
    """Walk along the most probable cut."""
    ends = _fold(evidence, ended, lasted, np.max)[1]
    found, t = [], int(ends[0])
    while t < len(ends):
        found.append(t)
        t = int(ends[t])
    return np.array(found, dtype=int)
