"""What `wolf compare` and `wolf tune` do: judge methods by how well they predict, without knowing the truth."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from wolf.cleaning import Options, Series, clean
from wolf.cleaning.load import Readings
from wolf.cleaning.sampling import gaps_of
from wolf.cli.commands import filter
from wolf.cli.progress import Progress
from wolf.fitting import student_score, tuning
from wolf.models.registry import parse
from wolf.numerics.jax_compat import enable_x64

USUAL = ("KF", "Adaptive", "Learned", "WoLF", "WoLF-IMQ", "WoLF-TMD", "WoLF-Welsch", "WoLF-Huber", "WoLF-StudentT")
REACH = 1.959964  # standard deviations of a 95 % interval


class MethodScore(NamedTuple):
    """One method on all series.

    Attributes:
        name: of the method.
        score: mean Student-t log density of a measured row; higher is better.
        error: median distance of a reading from its prediction.
        coverage: share of unflagged readings inside their predicted 95 % interval.
        flagged: share of rows called outliers.
    """

    name: str
    score: float
    error: float
    coverage: float
    flagged: float


class Comparison(NamedTuple):
    """What came of a comparison: the file, its rows, the model by name, the methods, and what a person should know."""

    file: str
    rows: int
    model: str
    methods: list[MethodScore]
    notes: list[str]


def compare(
    readings: Readings, model: str, settings: tuple[str, ...], names: tuple[str, ...], progress: Progress
) -> Comparison:
    """Run methods with the same noise, and say how well each predicts.

    Args:
        readings: as read.
        model: by name, or a file.
        settings: variances that are known.
        names: of the methods; the usual ones without any.
        progress: to tell.
    """
    known = filter.parse_settings(settings)
    fitted = filter.run(readings, Options(model=model, parameters=known, causal=True), _silent)
    rows = []
    progress.say("Comparing", len(names or USUAL))
    for name in names or USUAL:
        method = filter.parse_method(name)
        done = [_again(readings, each, method) for each in fitted]
        rows.append(_judge(name, done))
        progress(1)
    return Comparison(readings.table.name, len(readings.values), fitted[0].model, rows, readings.notes)


def tune(
    readings: Readings, source: str, model: str, settings: tuple[str, ...], method: str, progress: Progress
) -> tuple[tuning.TuningResult, str]:
    """Choose the threshold of a method for the longest series; return it, and the command that uses it."""
    known = filter.parse_settings(settings)
    fitted = filter.run(readings, Options(model=model, parameters=known, causal=True), _silent)
    longest = max(fitted, key=lambda each: len(each.values))
    first, last = longest.fit_rows
    some = longest.values[first:last]
    gaps = gaps_of(longest.times)[1]
    named = parse(longest.model)
    prior = named.start(some, float(np.nanvar(np.diff(some, axis=0))) or 1.0)
    build = named.builder(None if gaps is None else gaps[first:last], prior, len(longest.columns))
    progress.say("Tuning")
    tuned = tuning.tune(build(**longest.parameters), some, method)
    return tuned, f"wolf filter {source} --model {longest.model} --method {method}:{tuned.name}={tuned.value:.4g}"


def _again(readings: Readings, each: Series, method: object) -> Series:
    """Run one series with its noise already known."""
    options = Options(model=each.model, method=method, parameters=dict(each.parameters), causal=True)
    names = [readings.names[j] for j in each.columns]
    return clean(each.values, each.times, options, names=names)[0]


def _judge(name: str, done: list[Series]) -> MethodScore:
    nis, log_density, count, errors, inside, flags = [], [], [], [], [], []
    for each in done:
        measured = np.isfinite(each.values)
        with np.errstate(invalid="ignore"):
            nis.append(np.where(measured.any(1), each.nis, 0.0))
        log_density.append(each.log_density)
        count.append(measured.sum(1).astype(float))
        outlier = each.outlier if each.outlier.ndim == 2 else each.outlier[:, None]
        errors.append(np.abs(each.standardised[measured]))
        inside.append((np.abs(each.standardised) <= REACH)[measured & ~outlier])
        flags.append(each.outlier.ravel())
    with enable_x64(True):
        told = np.asarray(
            student_score.log_student(jnp.concatenate(log_density), jnp.concatenate(nis), jnp.concatenate(count))
        )
    rows = max(int((np.concatenate(count) > 0).sum()), 1)
    middle = float(np.median(np.concatenate(errors)))
    return MethodScore(
        name,
        float(told.sum() / rows),
        middle,
        float(np.concatenate(inside).mean()) if np.concatenate(inside).size else float("nan"),
        float(np.concatenate(flags).mean()),
    )


def facts(found: Comparison) -> dict[str, Any]:
    """Say what came of a comparison in numbers, for programs."""
    best = max(found.methods, key=lambda row: row.score)
    return found._asdict() | {"methods": [row._asdict() for row in found.methods], "best": best.name}


def table(found: Comparison) -> str:
    """Lay a comparison out as a table."""
    rows = found.methods
    best = max(rows, key=lambda row: row.score)
    width = max(len(row.name) for row in rows) + 2
    lines = [f"{found.file}: {found.rows:,} rows, model {found.model}, one noise for all methods"]
    lines += [f"note: {words}" for words in found.notes] + [""]
    lines.append(f"{'method':<{width}}{'score':>10}{'error':>9}{'coverage':>11}{'flagged':>10}")
    for row in rows:
        mark = "  best" if row is best else ""
        numbers = f"{row.score:>10.4f}{row.error:>9.3f}{row.coverage:>11.1%}{row.flagged:>10.1%}"
        lines.append(f"{row.name:<{width}}{numbers}{mark}")
    lines += [
        "",
        "score     mean log density of the next reading (Student-t, 4 degrees of freedom); higher is better",
        "error     median distance of a reading from its prediction, in predicted standard deviations (0.674 is right)",
        "coverage  readings that were not flagged and lie in their predicted 95 % interval",
        "flagged   rows called outliers",
    ]
    return "\n".join(lines)


def _silent(done: int) -> None:
    """Say nothing."""
