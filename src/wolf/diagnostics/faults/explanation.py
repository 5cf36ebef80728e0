"""What happened to a series: causes, each with its first and last step, from one Kalman filter without weights.

A robust filter hides what it refuses, and gives in to what lasts; its own errors do not tell. So the model's Kalman
filter goes over the series once more. First what needs no model is taken out: missing values, and values that a sensor
repeats. Then stretches with another spread are found (`spreads.py`), and then everything that has a pattern
(`searching.py`). Levels of noise that the robust filter has learned may have been learned from the faults themselves:
they are used if what is left without the faults speaks for them.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from wolf import api
from wolf.diagnostics.faults.edge_pairing import Hit
from wolf.diagnostics.faults.greedy_search import Search
from wolf.diagnostics.faults.innovations import Run
from wolf.diagnostics.faults.result import Cause, Finding
from wolf.diagnostics.faults.signatures import Responses
from wolf.diagnostics.faults.variance_changes import Spread, changes, runs_of
from wolf.engine.jump_backdating import MAX_BURST_LENGTH
from wolf.results import Filtered
from wolf.statespace import LinearModel, with_matrices
from wolf.statespace.array_fields import varies

BRIDGE = 2  # steps that may lie between two false measurements of one burst
AROUND = BRIDGE + 1  # steps around noise that is larger for a while
SHORT = ("outlier", "burst")
OUTLIER, FITS = 6.0, 3.0  # deviations from which one refused measurement is false, and within which later ones fit
LATER = 2  # measurements after it that must fit
MOST_NUMBERS = 32  # measured numbers and states together, beyond which nothing is looked for
ALONE = "those before and after it agree, and not with it"
AS_IS = (1.0, 1.0)  # levels of Q and R
FEWEST = 20  # measurements of a series that has a usual spread


def can_tell(out: Filtered) -> bool:
    """Say whether the model has fixed matrices and few enough numbers."""
    model = out.model
    fixed = isinstance(model, LinearModel) and model.residual is None
    return fixed and not any(map(varies, (model.F, model.H, model.Q, model.R))) and (
        model.state_dim + model.obs_dim <= MOST_NUMBERS
    )  # fmt: skip


def causes(run: Run, out: Filtered, findings: list[Finding], single: np.ndarray) -> list[Cause]:
    """Find what happened to a series, in the order of time.

    Args:
        run: laid out.
        out: of a filter.
        findings: about single measurements.
        single: what `single_outliers` found, (T, M) of bool.
    """
    stuck = _stuck(run)
    ys = np.where(np.isfinite(run.ys), run.ys, np.nan)
    for cause in stuck:
        ys[cause.first : cause.last + 1, cause.sensor] = np.nan
    wild = [
        Cause("outlier", int(t), int(t), int(j), np.inf, "not a finite number, or too large for one")
        for t, j in np.argwhere(np.isinf(run.ys))
    ]
    found = [*_missing(run), *stuck, *wild]
    if not can_tell(out):
        found += _grouped(findings)
    elif np.isfinite(ys).all(axis=1).sum() >= FEWEST:
        found += _patterns(run, out, ys, single)
    return sorted(found, key=lambda cause: (cause.first, cause.last))


def _patterns(run: Run, out: Filtered, ys: np.ndarray, single: np.ndarray) -> list[Cause]:
    """Find what has a pattern, and where the noise changed."""
    outliers = _alone(run, single)
    ys = np.where(single, np.nan, ys)
    base = with_matrices(out.model)
    tried = [_look(base.scaled(*levels), out, ys) for levels in dict.fromkeys([AS_IS, _levels(out)])]
    model, answers, errors, scale, found, _ = max(tried, key=lambda look: look.score)
    spreads = [one for one in changes(errors, np.isfinite(ys).any(axis=1)) if not _refuted(one, found.hits, found.rest)]
    if spreads:
        for one in spreads:
            errors[one.first : one.stop] /= np.sqrt(max(one.factor, 1.0))
        found.again(errors, [(one.first, one.stop) for one in spreads])
    deviations = np.sqrt(np.diagonal(np.asarray(model.R)))
    hits = [hit._replace(size=scale * hit.size) for hit in found.hits]
    named = [_named(hit, deviations, model, len(ys), answers) for hit in hits]
    loud = np.zeros(len(ys), bool)  # where single outliers are explained by noise that was larger for a while
    for one in spreads:
        loud[max(one.first - AROUND, 0) : one.stop + AROUND] |= one.factor > 1.0
    named = [
        cause for cause in [*outliers, *named] if not (cause.kind in SHORT and loud[cause.first : cause.last + 1].all())
    ]
    return _merge_bursts(named) + [_spread_cause(one) for one in spreads]


class _Look(NamedTuple):
    """What a Kalman filter with some levels of noise finds.

    Attributes:
        model: with these levels.
        answers: of its errors to faults.
        errors: white, (T, M).
        scale: their spread before it was made 1.
        found: the faults.
        score: log density of what is left without the faults, less what each of them costs.
    """

    model: LinearModel
    answers: Responses
    errors: np.ndarray
    scale: float
    found: Search
    score: float


def _look(model: LinearModel, out: Filtered, ys: np.ndarray) -> _Look:
    """Look for faults with a model's levels of noise."""
    answers = Responses(model)
    errors, scale, volume = _white_errors(model, out, ys)
    found = Search(errors, answers)
    left = 0.5 * np.minimum(found.rest**2, FITS**2).sum()
    return _Look(model, answers, errors, scale, found, -left - volume - len(found.hits) * np.log(len(ys)))


def single_outliers(run: Run, out: Filtered) -> np.ndarray:
    """Find refused measurements, one or two in a row, after which all is as predicted before them, (T, M) of bool."""
    if not can_tell(out):
        return np.zeros(run.flags.shape, bool)
    model, refused = out.model, run.refused(None)
    dynamics = np.eye(model.state_dim) if model.F is None else np.asarray(model.F)
    driven = None if out.inputs is None else out.predicted_means[1:] - out.means[:-1] @ dynamics.T  # B u, whenever
    close = run.nis <= OUTLIER**2 if run.joint else np.any(run.flags & (run.distances <= OUTLIER), axis=1)
    good = np.isfinite(run.ys).any(axis=1) & ~refused
    found = np.zeros(len(refused), bool)
    for length in (1, 2):
        last = len(refused) - length - LATER + 1
        first = np.arange(1, max(last, 1))
        inside = np.logical_and.reduce([refused[first + k] & ~close[first + k] for k in range(length)])
        later = np.logical_and.reduce([good[first + length + k] for k in range(LATER)])
        first = first[inside & later & good[first - 1]]
        foreseen, fits = run.predicted.mean[first], np.ones(len(first), bool)  # what was known before the first of them
        for k in range(1, length + LATER):
            foreseen = foreseen @ dynamics.T + (0.0 if driven is None else driven[first + k - 1])
            off = np.abs(run.ys[first + k] - foreseen @ np.asarray(model.H).T) / run.deviations[first]
            fits &= (k < length) | (~np.isfinite(off) | (off < FITS)).all(axis=1)
        for k in range(length):
            found[first[fits] + k] = True
    return found[:, None] & run.flags


def _alone(run: Run, single: np.ndarray) -> list[Cause]:
    """List outliers that need no further look, of one sensor where sensors are weighed by themselves."""
    found = []
    for t in np.flatnonzero(single.any(axis=1)).tolist():
        sensors = [None] if run.joint else np.flatnonzero(single[t]).tolist()
        size = max(run.size(j, t) for j in sensors)
        found.append(Cause("outlier", t, t, sensors[0] if len(sensors) == 1 else None, size, ALONE))
    return found


def _refuted(spread: Spread, hits: list[Hit], rest: np.ndarray) -> bool:
    """Say whether a few faults explain all that looked like a change of the noise."""
    inside = [hit for hit in hits if spread.first - BRIDGE <= hit.spot.step < spread.stop]
    squares = (rest[spread.first : spread.stop] ** 2).sum(axis=1)
    calm = float(np.median(squares)) < np.sqrt(spread.factor) * rest.shape[1]
    return calm and len(inside) <= 1 + (spread.stop - spread.first) / FEWEST


def _levels(out: Filtered) -> tuple[float, float]:
    """Factors on Q and R that the method has learned, in the middle of their paths."""
    found = []
    for name in ("dynamics_scales", "noise_scales"):
        path = out.saved.get(name)
        found.append(1.0 if path is None else float(np.median(path)))
    return found[0], found[1]


def _white_errors(model: Any, out: Filtered, ys: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Filter without weights: white errors, (T, M), of usual spread 1, 0 where nothing was measured.

    Returns:
        These, the spread that they had, and the logarithm of what their density was divided by for both.
    """
    from scipy.special import gammaincinv

    again = api.filter(model, ys, method="KF", inputs=out.inputs, update_first=out.update_first)
    came = np.isfinite(ys)
    both = came[:, :, None] & came[:, None, :]
    covs = np.where(both, again.innovation_covs, 0.0) + np.eye(ys.shape[1]) * ~came[:, :, None]
    errors = np.where(came, again.residuals, 0.0)
    factors = np.linalg.cholesky(covs)
    white = np.linalg.solve(factors, errors[:, :, None])[:, :, 0]
    squares = (white[came.all(axis=1)] ** 2).sum(axis=1)
    usual = 2.0 * float(gammaincinv(0.5 * ys.shape[1], 0.5))
    scale = max(float(np.sqrt(np.median(squares) / usual)), 1e-300)
    volume = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum() + came.sum() * np.log(scale)
    return white / scale, scale, float(volume)


def _named(hit: Hit, deviations: np.ndarray, model: Any, steps: int, answers: Responses) -> Cause:
    """Give a pattern its name."""
    spot, size = hit.spot, hit.size
    family, length = spot.pattern
    first, last = spot.step, min(spot.step + max(length, 1), steps) - 1
    if family == "jump":
        moved = np.abs(np.asarray(model.H) @ size) / deviations
        if answers.stays(size):
            which = int(np.abs(np.asarray(model.H) @ size / deviations).argmax())
            off = float((np.asarray(model.H) @ size)[which])
            return Cause("level shift", first, first, None, float(moved.max()), f"moved by {off:.3g}, for good")
        words = f"the state moved by ({', '.join(f'{value:.3g}' for value in size[:4])})"
        return Cause("jump", first, first, None, float(moved.max()), words)
    which = int(np.abs(size / deviations).argmax())
    off, large = float(size[which]), float(np.abs(size / deviations)[which])
    if family == "step":
        follows = answers.follows_steps
        if follows[spot.sensor] if spot.sensor is not None else follows.all():
            return Cause("level shift", first, first, spot.sensor, large, f"moved by {off:.3g}, for good")
        return Cause("bias", first, steps - 1, spot.sensor, large, f"off by {off:.3g}, up to the end")
    if family in ("ramp", "slope"):
        ending = "then back" if family == "ramp" else "and stayed there"
        return Cause("drift", first, last, spot.sensor, large, f"drifted off by {off:.3g}, {ending}")
    kind = "outlier" if length == 1 else "burst" if length <= MAX_BURST_LENGTH else "bias"
    return Cause(kind, first, last, spot.sensor, large, f"off by {off:.3g}, then back")


def _spread_cause(spread: Spread) -> Cause:
    length = spread.stop - spread.first
    times = float(np.sqrt(spread.factor))
    if times > 1.0 and length <= MAX_BURST_LENGTH + BRIDGE:
        return Cause("burst", spread.first, spread.stop - 1, None, times, "false in many ways, then back")
    words = f"errors spread {times:.2g} times as far as elsewhere"
    return Cause("noise change", spread.first, spread.stop - 1, None, times, words)


def _merge_bursts(found: list[Cause]) -> list[Cause]:
    """Take false measurements that lie next to each other for one burst."""
    rest = [cause for cause in found if cause.kind not in SHORT]
    short = sorted((cause for cause in found if cause.kind in SHORT), key=lambda cause: cause.first)
    groups: list[list[Cause]] = []
    end = -np.inf
    for cause in short:
        if cause.first <= end + BRIDGE:
            groups[-1].append(cause)
        else:
            groups.append([cause])
        end = max(end, cause.last)
    for group in groups:
        if len(group) == 1:
            rest.append(group[0])
            continue
        first, last = group[0].first, max(one.last for one in group)
        sensors = {one.sensor for one in group}
        kind = "outlier" if last == first else "burst"
        sensor = sensors.pop() if len(sensors) == 1 else None
        rest.append(
            Cause(kind, first, last, sensor, max(one.size for one in group), "false in several ways, then back")
        )
    return rest


def _missing(run: Run) -> list[Cause]:
    """List gaps: stretches without a measurement, of all or of one coordinate."""
    gone = np.isnan(run.ys)
    whole = gone.all(axis=1)
    found = [Cause("missing", a, b - 1, None, np.nan, "nothing was measured") for a, b in runs_of(whole)]
    for j in range(gone.shape[1]):
        words = "this coordinate was not measured"
        found += [Cause("missing", a, b - 1, j, np.nan, words) for a, b in runs_of(gone[:, j] & ~whole)]
    return found


def _stuck(run: Run) -> list[Cause]:
    """List stretches in which a sensor repeats one value."""
    found = []
    for j, repeats in enumerate(run.repeats.T):
        edges = [0, *(np.flatnonzero(np.diff(repeats)) + 1).tolist(), len(repeats)]
        for a, b in pairwise(edges):
            if repeats[a]:
                found.append(Cause("stuck", a, b - 1, j, np.nan, f"the same value for {repeats[a]} steps"))
    return found


def _grouped(findings: list[Finding]) -> list[Cause]:
    """Put what was found of single measurements together, by stretch; of models whose matrices are not fixed."""
    groups: dict[tuple[str, int | None, tuple[int, int]], list[Finding]] = {}
    for one in findings:
        if one.kind in ("outlier", "jump", "biased") and np.isfinite(one.size):
            groups.setdefault((one.kind, one.sensor, one.stretch), []).append(one)
    found = []
    for (kind, sensor, _), some in groups.items():
        first, last = some[0].step, some[-1].step
        if kind == "biased":
            kind = "burst" if len(some) <= MAX_BURST_LENGTH else "bias"
        elif kind == "jump":
            last = first
        elif len(some) > 1:
            kind = "burst"
        found.append(Cause(kind, first, last, sensor, max(one.size for one in some), some[0].sentence))
    return found
