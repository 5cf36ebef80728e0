"""Changepoints: Bayesian segmentation of a series, with the evidence of a state space model for every segment.

At the start of each segment the state is drawn from the model's prior, and within a segment the model holds. A segment
of n steps has the probability c (1 - c)^(n - m) for n >= m, where m is the minimum length and c the hazard, i.e. the
probability of a change per step. One filter from each possible start s gives log p(y_s ... y_{s+n-1}) for all n. Summed
over all segmentations,

    B(t) = log Σ_n p(y_t ... y_{t+n-1}) P(n) exp B(t + n)

and its mirror image A(t) give the exact probability of a change at t, exp(A(t) + B(t) - B(0)) (Fearnhead 2006); the
maximum in place of the sum gives the most probable segmentation (Jackson et al. 2005).

An outlier has the same density everywhere, whatever the state, like false detections of a radar (Bar-Shalom & Tse
1975), so the distance of an outlier is no evidence for a change. The evidence is that of a filter which matches
moments; without outliers it is exact for linear models.
"""

import dataclasses
from collections.abc import Callable
from itertools import pairwise
from typing import cast

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf import api, validation
from wolf.beliefs.density import LOG_2PI
from wolf.diagnostics import segment_regression
from wolf.engine.measurements import is_unusable
from wolf.execution import validate
from wolf.inference.noise.contaminated_gaussian import CERTAIN, match_moments
from wolf.inference.registry import EKF
from wolf.interfaces import NoiseModel, Number, StepInfo, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.pytree import PyTree, pytree
from wolf.statespace import Model, ParameterModel, time_axes
from wolf.statespace.array_fields import count

OUTLIER_RANGE_STDS = 6.0  # standard deviations of the prior prediction over which outliers are uniform
DEFAULT_HAZARD = 0.01
MAX_STEPS_WITHOUT_MODEL = 1_000  # steps that are segmented without a model; of a longer series, medians
EXPECTED_CHANGES = 1.0  # of a series without a model
STARTS_PER_BATCH = 256  # segment starts that are filtered in one batch
MAX_CHANGES_IN_REPR = 8  # changes listed by `repr`
MAX_EVIDENCE_ENTRIES = 4_000_000  # entries of the (T, length) evidence matrix; longer series need `max_length`


@dataclasses.dataclass(frozen=True, repr=False)
class Changepoints:
    """Changepoints of a series.

    Attributes:
        at: first steps of the segments after the first, in the most probable segmentation.
        probabilities: probability that a segment starts at each step, over all segmentations, (T,); 0 for the first.
        log_evidence: log evidence of the series, over all segmentations.
    """

    at: np.ndarray
    probabilities: np.ndarray
    log_evidence: float

    @property
    def segments(self) -> list[tuple[int, int]]:
        """First step of each segment, and the step after its last."""
        ends = [0, *self.at.tolist(), len(self.probabilities)]
        return list(pairwise(ends))

    def __repr__(self) -> str:
        """Return the number of changes, and the first of them with their probabilities."""
        changes = [f"{at} ({self.probabilities[at]:.0%})" for at in self.at[:MAX_CHANGES_IN_REPR].tolist()]
        more = ", ..." if len(self.at) > MAX_CHANGES_IN_REPR else ""
        where = f" at {', '.join(changes)}{more}" if changes else ""
        return f"Changepoints: {count(len(self.at), 'change')} in {count(len(self.probabilities), 'step')}{where}"


def changepoints(
    model: Model | ArrayLike,
    ys: ArrayLike | None = None,
    *,
    hazard: float | None = None,
    min_length: int = 5,
    max_length: int | None = None,
    outliers: float = 0.02,
) -> Changepoints:
    """Find the changepoints of a series: the steps at which its state is redrawn from the prior.

    `changepoints(ys)`, without a model, has a level or a line in each segment, with noise of its own variance, selected
    from the data (`wolf.diagnostics.segment_regression`).

    Args:
        model: model of one segment, the same for all of them; its prior determines the size of changes. Or the
            measurements, to select one from the data.
        ys: measurements, (T, M), or (T,) if M = 1; NaN where missing.
        hazard: probability that a segment ends at a step, once it has the minimum length; segments are about 1 / hazard
            steps longer than that on average. Default: 0.01; without a model, one change in the series.
        min_length: minimum number of steps of a segment. Shorter deviations are outliers.
        max_length: maximum number of steps of a segment; the default is the series, at T² filter steps.
        outliers: share of measurements that are outliers.

    Example:
        >>> import wolf
        >>> level = wolf.models.local_level(0.0, obs_var=1.0, prior=wolf.Gaussian([0.0], [[100.0]]))
        >>> ys = np.r_[np.tile([0.5, -0.5], 10), np.tile([9.5, 10.5], 10)]
        >>> ys[[5, 30]] = 60.0
        >>> changepoints(level, ys).at.tolist(), changepoints(ys).at.tolist()
        ([20], [20])
    """
    if ys is None:
        return _without_model(cast(ArrayLike, model), hazard, min_length, max_length)
    hazard = DEFAULT_HAZARD if hazard is None else hazard
    model = cast(Model, model)
    _check_arguments(model, hazard, outliers)
    ys = validation.measurements(ys, model.obs_dim)
    ys = np.where(is_unusable(ys), np.nan, ys)  # no information, wherever segments start
    min_length = validation.integer("min_length", min_length, 1)
    max_steps = len(ys)
    if max_length is not None:
        max_steps = min(validation.integer("max_length", max_length, min_length), len(ys))
    if len(ys) * max_steps > MAX_EVIDENCE_ENTRIES:
        raise ValueError(
            f"{len(ys)} steps with segments of up to {max_steps} steps need {len(ys) * max_steps:.1e} entries, more "
            f"than {MAX_EVIDENCE_ENTRIES:.0e}: pass max_length= of at most {MAX_EVIDENCE_ENTRIES // len(ys)} steps, or "
            "fewer measurements"
        )
    evidence = _segment_evidence(model, ys, max_steps, outliers)
    log_ends, log_survives = _length_log_probabilities(hazard, min_length, max_steps, max_length is not None)
    backward = _backward(evidence, log_ends, log_survives, np.logaddexp.reduce)[0]
    forward = _forward(evidence, log_ends)
    probabilities = np.exp(np.minimum(forward + backward - backward[0], 0.0))[:-1]
    probabilities[0] = 0.0
    return Changepoints(
        _most_probable_segmentation(evidence, log_ends, log_survives), probabilities, float(backward[0])
    )


def _without_model(ys: ArrayLike, hazard: float | None, min_length: int, max_length: int | None) -> Changepoints:
    """Find changepoints with a level or a line in each segment, whichever has the larger evidence."""
    array = validation.number_array("ys", ys)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or not len(array):
        raise ValueError(f"ys must have shape (T,), or (T, M) for several columns; got {array.shape}")
    if hazard is not None:
        validation.probability("hazard", hazard)
    min_length = validation.integer("min_length", min_length, 1)
    # A longer series is represented by medians of consecutive steps.
    every = -(-len(array) // MAX_STEPS_WITHOUT_MODEL) if max_length is None else 1
    short = _block_medians(np.where(np.isfinite(array), array, np.nan), every)
    steps = len(short)
    max_steps = steps if max_length is None else min(validation.integer("max_length", max_length, min_length), steps)
    columns = [segment_regression.prepare(column) for column in short.T]
    shortest = max(1, min_length // every)
    rate = EXPECTED_CHANGES / max(steps, 2) if hazard is None else hazard
    logs = log_ends, log_survives = _length_log_probabilities(rate, shortest, max_steps, max_length is not None)
    best: tuple[float, np.ndarray, np.ndarray] | None = None
    for line in (False, True):
        for correlation in segment_regression.AUTOCORRELATIONS:
            evidence = np.sum(
                [segment_regression.segment_evidence(column, max_steps, correlation, line) for column in columns],
                axis=0,
            )
            after = _backward(evidence, *logs, np.logaddexp.reduce)[0]
            if best is None or after[0] > best[0]:
                best = float(after[0]), evidence, after
    assert best is not None
    log_evidence, evidence, after = best
    probabilities = np.zeros(len(array))
    found = np.exp(np.minimum(_forward(evidence, log_ends) + after - after[0], 0.0))[:-1]
    probabilities[::every] = found
    probabilities[0] = 0.0
    return Changepoints(
        every * _most_probable_segmentation(evidence, log_ends, log_survives), probabilities, log_evidence
    )


def _block_medians(values: np.ndarray, every: int) -> np.ndarray:
    """Compute medians of consecutive rows, (T / every, M)."""
    if every == 1:
        return values
    padded = np.pad(values, ((0, -len(values) % every), (0, 0)), constant_values=np.nan)
    blocks = padded.reshape(-1, every, values.shape[1])
    known = np.isfinite(blocks).any(1)
    return np.where(known, np.nanmedian(np.where(known[:, None], blocks, 0.0), axis=1), np.nan)


def _check_arguments(model: Model, hazard: float, outliers: float) -> None:
    validate.check_model(model)
    if isinstance(model, ParameterModel):
        raise ValueError("changepoints needs a state space model such as wolf.models.local_level; got a ParameterModel")
    if varying := time_axes(model):
        raise ValueError(
            f"a segment may start at any step, so the model must not depend on time; {', '.join(varying)} vary "
            "with time. Pass a model without a time axis"
        )
    validation.probability("hazard", hazard)
    if outliers != 0.0:
        validation.probability("outliers", outliers)


@pytree
class ClutterMixture(NoiseModel):
    """Noise model of a measurement that may be an outlier with a density independent of the state.

    Args:
        share: probability of an outlier.
        log_densities: log density of an outlier, for each measured coordinate, (M,).
    """

    share: Number
    log_densities: PyTree

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Match the moments of the mixture of the posteriors with and without the measurement."""
        whitened = context.innovation.half(context.residual)
        count = context.observed.sum(0)
        good = -0.5 * (linalg.sum_leading(whitened**2) + context.innovation.log_det() + count * LOG_2PI)
        bad = linalg.sum_leading(context.observed * jnp.asarray(self.log_densities, good.dtype))
        odds = jnp.log1p(-self.share) - jnp.log(self.share) + good - bad
        return match_moments(context, whitened, jnp.clip(odds, -CERTAIN, CERTAIN))


def _record_log_density(state: PyTree, info: StepInfo) -> dict[str, Array]:
    return {"log_density": info.log_likelihood}


def _segment_evidence(model: Model, ys: np.ndarray, max_steps: int, share: float) -> np.ndarray:
    """Compute log p(y_s ... y_{s+n}) for every start s and n < max_steps, (T, max_steps); -inf beyond the end."""
    steps = len(ys)
    method, logs = EKF(), _outlier_densities(model)
    if share:
        method = dataclasses.replace(method, noise=ClutterMixture(share, logs))
    padded = np.concatenate([ys, np.full((max_steps - 1, ys.shape[1]), np.nan)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, max_steps, axis=0).transpose(0, 2, 1)
    found = np.empty((steps, max_steps))
    for first in range(0, steps, STARTS_PER_BATCH):
        batch = windows[first : first + STARTS_PER_BATCH]
        scores = api.filter_many(model, batch, method=method, save=_record_log_density).saved["log_density"]
        if share:
            present = np.isfinite(batch)
            bad = np.log(share) + present @ logs
            scores = np.where(present.any(-1), np.logaddexp(np.log1p(-share) + scores, bad), 0.0)
        found[first : first + STARTS_PER_BATCH] = np.cumsum(scores, axis=1)
    found[np.arange(steps)[:, None] + np.arange(max_steps) >= steps] = -np.inf
    return found


def _outlier_densities(model: Model) -> np.ndarray:
    """Compute the log density of an outlier in each coordinate, (M,): uniform over the prior prediction."""
    first = api.filter(model, np.zeros((1, model.obs_dim)), method=EKF())
    return -np.log(OUTLIER_RANGE_STDS * np.sqrt(np.diag(first.innovation_covs[0])))


def _length_log_probabilities(
    hazard: float, min_length: int, max_steps: int, bounded: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Compute log probabilities that a segment has n + 1 steps, and at least n + 1 steps, n < max_steps."""
    beyond = np.arange(1, max_steps + 1) - min_length
    mass = np.where(beyond >= 0, hazard * (1.0 - hazard) ** np.maximum(beyond, 0), 0.0)
    tail = 0.0 if bounded else 1.0 - mass.sum()
    mass = mass / mass.sum() if bounded and mass.any() else mass
    with np.errstate(divide="ignore"):
        return np.log(mass), np.log(np.cumsum(mass[::-1])[::-1] + tail)


def _backward(
    evidence: np.ndarray, log_ends: np.ndarray, log_survives: np.ndarray, join: Callable
) -> tuple[np.ndarray, np.ndarray]:
    """Run the backward recursion B(t), with `join` as the sum; also return the most probable end of each segment."""
    steps, max_steps = evidence.shape
    after, ends = np.zeros(steps + 1), np.full(steps, steps)
    for t in range(steps - 1, -1, -1):
        size = min(max_steps, steps - t)
        terms = evidence[t, :size] + log_ends[:size] + after[t + 1 : t + 1 + size]
        if t + size == steps:  # the last segment may continue beyond the series
            terms[-1] = evidence[t, size - 1] + log_survives[size - 1]
        after[t], ends[t] = join(terms), t + 1 + np.argmax(terms)
    return after, ends


def _forward(evidence: np.ndarray, log_ends: np.ndarray) -> np.ndarray:
    """Run the forward recursion A(t): log evidence of the steps before t if a segment ends there."""
    steps, max_steps = evidence.shape
    before = np.zeros(steps + 1)
    for t in range(1, steps + 1):
        size = min(max_steps, t)
        starts = np.arange(t - size, t)
        terms = before[starts] + evidence[starts, t - 1 - starts] + log_ends[t - 1 - starts]
        before[t] = np.logaddexp.reduce(terms)
    return before


def _most_probable_segmentation(evidence: np.ndarray, log_ends: np.ndarray, log_survives: np.ndarray) -> np.ndarray:
    """Follow the most probable ends from the first step (the Viterbi path)."""
    ends = _backward(evidence, log_ends, log_survives, np.max)[1]
    found, t = [], int(ends[0])
    while t < len(ends):
        found.append(t)
        t = int(ends[t])
    return np.array(found, dtype=int)
