"""`explain`: what each refused measurement of a finished run was, with the evidence for it.

What one step cannot tell, later steps can. A doubtful measurement is compared with what the measurements after it say
(`windows.py`): if they agree with it and not with those before, the state jumped; if those before and after agree with
each other and not with it, it was false, and then its neighbours tell whether it was alone, or the sensor stuck or
biased for a while. Where the filter lets refused measurements vote, what they won is known from
`wolf.backend.jump_backdating`: jumps where they began, and bursts that came back. A sensor that repeats one value is
stuck, refused or not.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from wolf.api import backdate_jumps
from wolf.diagnostics.faults.explanation import ALONE, causes, single_outliers
from wolf.diagnostics.faults.innovations import BROKEN, Run, Stretch, bias, consistent, read, returns
from wolf.diagnostics.faults.result import Explanation, Finding
from wolf.diagnostics.faults.two_sided_test import TwoSidedTest, ask
from wolf.numerics.precision import precision
from wolf.results import Filtered

BRIDGE = 2  # steps that may lie between two refused measurements of one stretch
LONGEST = 1000  # steps of a stretch; a longer one is cut
PARTNERS = 6  # later stretches that may be the end of an excursion that begins with one
EXCURSION = 100  # steps that an excursion may last


class Verdict(NamedTuple):
    """A stretch, what was found in it, and by how much the state seems to have moved at its start, (D,)."""

    stretch: Stretch
    findings: list[Finding]
    moved: np.ndarray


def explain(out: Filtered) -> Explanation:
    """Say of every refused measurement of a run what it was.

    Args:
        out: one series, from `wolf.filter` with `save="all"`, by a Gaussian filter.

    Returns:
        A finding for each, with its evidence; print it for a table.

    Example:
        >>> import numpy as np, wolf
        >>> model = wolf.models.local_level(level_var=0.01, obs_var=1.0)
        >>> ys = np.random.default_rng(0).normal(size=60)
        >>> ys[20] += 30.0
        >>> ys[40:] += 30.0
        >>> found = wolf.explain(wolf.filter(model, ys, method="WoLF-TMD"))
        >>> found[0].step, found[0].kind, found[1].step, found[1].kind
        (20, 'outlier', 40, 'jump')
    """
    _check(out)
    out = backdate_jumps(out.model, out)
    dtype = out.settings["dtype"]
    with precision(dtype):
        run = read(out, dtype)
        single = single_outliers(run, out)
        stretches = [Stretch(j, *ends) for j in run.channels for ends in _stretches(run, j, single)]
        verdicts = _close_excursions(run, _judge_all(run, stretches))
    findings = [
        *_alone(run, single),
        *_missing(run),
        *(finding for one in verdicts for finding in one.findings),
        *_jumps(run, out),
    ]
    findings += _stuck(run, {(finding.step, finding.sensor) for finding in findings})
    order = sorted(findings, key=lambda f: (f.step, -1 if f.sensor is None else f.sensor))
    return Explanation(tuple(order), len(out), tuple(causes(run, out, order, single)))


def _check(out: object) -> None:
    if not isinstance(out, Filtered):
        raise ValueError(f"explain takes what wolf.filter returned; got {type(out).__name__}")
    if out.num_series is not None:
        raise ValueError("explain takes one series; pick one of many, as out[0]")
    if out.settings["save"] != "all":
        raise ValueError(f'explain needs the predictions: filter with save="all", not save={out.settings["save"]!r}')
    if "slice" in out.settings:
        raise ValueError("a slice lacks what came after it; explain the whole result")
    if int(out.final.t) != out.settings["steps"]:
        raise ValueError("explain takes a whole series; this is a later chunk of one")
    if out.method.linearization is None:
        raise ValueError(f"explain needs a Gaussian filter, such as method='WoLF'; got {type(out.method).__name__}")


def _missing(run: Run) -> Iterator[Finding]:
    """List what did not come: whole measurements, or single coordinates."""
    gone = np.isnan(run.ys)
    for t in np.flatnonzero(gone.all(axis=1)):
        yield Finding(int(t), None, "missing", np.nan, (int(t), int(t)), "nothing was measured", {})
    for t, j in np.argwhere(gone & ~gone.all(axis=1, keepdims=True)):
        yield Finding(int(t), int(j), "missing", np.nan, (int(t), int(t)), "this coordinate was not measured", {})


def _jumps(run: Run, out: Filtered) -> Iterator[Finding]:
    """List the jumps that refused measurements voted for, each at the step where their vote began."""
    inflations = out.saved.get("inflations", np.ones(len(out)))
    frozen = run.repeats.max(axis=1) > 0  # one value, again and again, agrees with itself
    for t in np.flatnonzero((inflations > 1.0) & ~frozen).tolist():
        moved = out.means[t] - out.predicted_means[t]
        words = f"measurements from here on agree with each other: the state moved by ({_numbers(moved)})"
        size = float(np.sqrt(run.nis[t])) if np.isfinite(run.nis[t]) else np.nan
        yield Finding(t, None, "jump", size, (t, t), words, {"inflation": float(inflations[t])})


def _stuck(run: Run, known: set[tuple[int, int | None]]) -> Iterator[Finding]:
    """List values that a sensor repeated and that were believed; they may look right for long."""
    for channel in run.channels:
        repeats = run.repeats[:, run.all_columns(channel)].max(axis=1)
        groups = np.split(np.arange(len(repeats)), np.flatnonzero(np.diff(repeats) != 0) + 1)
        for group in groups:
            ends = (int(group[0]), int(group[-1]))
            for t in group[repeats[group] > 0].tolist():
                if (t, channel) not in known:
                    words = f"the same value for {repeats[t]} steps"
                    yield Finding(
                        t, channel, "stuck", run.size(channel, t), ends, words, {"repeats": float(repeats[t])}
                    )


def _alone(run: Run, single: np.ndarray) -> Iterator[Finding]:
    """List outliers that need no further look."""
    for channel in run.channels:
        for t in np.flatnonzero(single[:, run.all_columns(channel)].any(axis=1)).tolist():
            yield Finding(t, channel, "outlier", run.size(channel, t), (t, t), ALONE, {"stretch": 1.0})


def _stretches(run: Run, channel: int | None, known: np.ndarray) -> Iterator[tuple[int, int]]:
    """Put refused steps together that lie close to each other, what is missing or known between them not counted."""
    mine = run.all_columns(channel)
    present = np.flatnonzero((~np.isnan(run.ys[:, mine]) & ~known[:, mine]).any(axis=1))
    places = np.flatnonzero(run.refused(channel)[present])
    if not len(places):
        return
    breaks = np.flatnonzero(np.diff(places) > BRIDGE + 1)
    for part in np.split(present[places], breaks + 1):
        for first in range(0, len(part), LONGEST):
            some = part[first : first + LONGEST]
            yield int(some[0]), int(some[-1])


def _judge_all(run: Run, stretches: list[Stretch]) -> list[Verdict]:
    """Smooth stretches again, and judge what was refused in them."""
    return [Verdict(one.stretch, list(_judge(run, one)), one.moved) for one in ask(run, stretches)]


def _close_excursions(run: Run, verdicts: list[Verdict]) -> list[Verdict]:
    """Take together two jumps, or a fault and a jump, if before the first and after the second all is as it was.

    A filter that gives in to a sensor's bias is carried off, and the end of the bias looks like a jump back.
    """
    pairs = []
    for i, one in enumerate(verdicts):
        for k in range(i + 1, min(i + 1 + PARTNERS, len(verdicts))):
            other = verdicts[k]
            near = other.stretch.channel == one.stretch.channel and other.stretch.first - one.stretch.last <= EXCURSION
            if near and any(finding.kind == "jump" for finding in other.findings):
                pairs.append((i, k, Stretch(one.stretch.channel, one.stretch.first, other.stretch.last)))
    found: dict[int, tuple[int, Verdict]] = {}
    for (i, k, whole), asked in zip(pairs, ask(run, [whole for _, _, whole in pairs]), strict=True):
        if i not in found and returns(run, whole, asked.later, verdicts[k].moved):
            found[i] = k, Verdict(whole, list(_judge(run, asked)), verdicts[i].moved)
    closed: list[Verdict] = []
    done = -1
    for i, one in enumerate(verdicts):
        if i > done:
            done, one = found.get(i, (i, one))
            closed.append(one)
    return closed


def _judge(run: Run, asked: TwoSidedTest) -> Iterator[Finding]:
    """Decide what each refused measurement of a stretch was."""
    channel, first, last = asked.stretch
    steps, broken = asked.steps, asked.broken
    wrong = steps[~asked.in_line]
    biased, offset = bias(run, asked.stretch, wrong, asked.both)
    lasting = asked.itself is not None and consistent(run, asked.stretch, steps, asked.itself)
    rows = (steps, asked.in_line, asked.agrees, asked.away, asked.informed)
    for t, in_line, agrees, away, informed in zip(*(row.tolist() for row in rows), strict=True):
        repeats = int(run.repeats[t, run.all_columns(channel)].max())
        if not np.isfinite(run.ys[t, run.columns(channel, t, wild=True)]).all():
            kind, words = "outlier", "not a finite number, or too large for one"
        elif repeats:
            kind, words = "stuck", f"the same value for {repeats} steps"
        elif lasting:
            kind = "jump"
            words = f"since step {first} measurements agree with each other and not with the filter, up to the end"
        elif not informed:
            kind, words = "unclear", "too little after it to compare with"
        elif broken < BROKEN and agrees:
            kind = "jump"
            words = f"{away:.2g} sd from what later measurements say: the state moved by ({_numbers(asked.moved)})"
        elif broken < BROKEN:
            kind, words = "outlier", f"{away:.3g} sd from what later measurements say, too; the state moved near it"
        elif in_line:
            kind, words = "false alarm", "agrees with before and after: by chance, or the filter had been carried off"
        elif biased:
            kind, words = "biased", f"off by {offset:.3g} for {len(wrong)} measurements, then back"
        else:
            kind, words = "outlier", f"{away:.3g} sd from later measurements, which agree with those before it"
        numbers = {"after": away, "probability": broken, "stretch": float(len(steps)), "repeats": float(repeats)}
        yield Finding(t, channel, kind, run.size(channel, t), (first, last), words, numbers)


def _numbers(values: np.ndarray, limit: int = 4) -> str:
    return ", ".join(f"{value:.3g}" for value in values[:limit]) + (", ..." if len(values) > limit else "")
