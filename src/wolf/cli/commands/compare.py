"""Implementation of `wolf compare` and `wolf tune`: scores of one-step predictions, which need no truth."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from wolf.cleaning import CleanedSeries, Options, clean
from wolf.cleaning.load import LoadedTable
from wolf.cleaning.sampling import gaps_of
from wolf.cli.commands import filter
from wolf.fitting import student_score, tuning
from wolf.inference import registry
from wolf.models.registry import parse
from wolf.numerics.jax_compat import enable_x64

DEVIATIONS_95 = 1.959964  # half width of a 95 % interval of a Gaussian


class MethodScore(NamedTuple):
    """Score of one method on all series.

    Attributes:
        name: of the method.
        score: mean Student-t log density of a measured row; higher is better.
        error: median absolute prediction error, in predicted standard deviations.
        coverage: share of measurements that are no outliers inside their 95 % prediction interval.
        flagged: share of rows that are outliers.
    """

    name: str
    score: float
    error: float
    coverage: float
    flagged: float


class Comparison(NamedTuple):
    """Result of a comparison: file, number of rows, name of the model, scores of the methods, remarks."""

    file: str
    rows: int
    model: str
    methods: list[MethodScore]
    notes: list[str]


def compare(
    loaded: LoadedTable, model: str, settings: tuple[str, ...], names: tuple[str, ...], bar: tqdm
) -> Comparison:
    """Run methods with the same fitted noise, and score their one-step predictions.

    Args:
        loaded: the input.
        model: name, or a file.
        settings: known variances, as NAME=NUMBER.
        names: of the methods. Default: `DEFAULT_METHODS`.
        bar: progress bar.
    """
    known = filter.parse_settings(settings)
    options = Options(model=model, parameters=known, causal=True)
    fitted = filter.clean_series(loaded, options, lambda rows: None)
    rows = []
    names = names or tuple(row.name for row in registry.rows() if row.compared)
    bar.set_description("Comparing")
    bar.reset(len(names))
    for name in names:
        method = filter.parse_method(name)
        done = [_run_method(loaded, each, method) for each in fitted]
        rows.append(_score(name, done))
        bar.update()
    return Comparison(loaded.table.name, len(loaded.values), fitted[0].model, rows, loaded.notes)


def tune(
    loaded: LoadedTable, source: str, model: str, settings: tuple[str, ...], method: str, bar: tqdm
) -> tuple[tuning.TuningResult, str]:
    """Tune the threshold of a method on the longest series; return it with the command that uses it."""
    known = filter.parse_settings(settings)
    options = Options(model=model, parameters=known, causal=True)
    fitted = filter.clean_series(loaded, options, lambda rows: None)
    longest = max(fitted, key=lambda each: len(each.values))
    first, last = longest.fit_rows
    values = longest.values[first:last]
    gaps = gaps_of(longest.times)[1]
    named = parse(longest.model)
    prior = named.start(values, float(np.nanvar(np.diff(values, axis=0))) or 1.0)
    build = named.builder(None if gaps is None else gaps[first:last], prior, len(longest.columns))
    bar.set_description("Tuning")
    tuned = tuning.tune(build(**longest.parameters), values, method)
    return tuned, f"wolf filter {source} --model {longest.model} --method {method}:{tuned.name}={tuned.value:.4g}"


def _run_method(loaded: LoadedTable, each: CleanedSeries, method: object) -> CleanedSeries:
    """Filter one series by a method, with the fitted noise."""
    options = Options(model=each.model, method=method, parameters=dict(each.parameters), causal=True)
    names = [loaded.names[j] for j in each.columns]
    return clean(each.values, each.times, options, names=names)[0]


def _score(name: str, done: list[CleanedSeries]) -> MethodScore:
    nis, log_density, count, errors, inside, flags = [], [], [], [], [], []
    for each in done:
        measured = np.isfinite(each.values)
        with np.errstate(invalid="ignore"):
            nis.append(np.where(measured.any(1), each.nis, 0.0))
        log_density.append(each.log_density)
        count.append(measured.sum(1).astype(float))
        errors.append(np.abs(each.standardised[measured]))
        inside.append((np.abs(each.standardised) <= DEVIATIONS_95)[measured & ~each.outliers_by_column])
        flags.append(each.outlier.ravel())
    with enable_x64(True):
        log_student = np.asarray(
            student_score.log_student(jnp.concatenate(log_density), jnp.concatenate(nis), jnp.concatenate(count))
        )
    rows = max(int((np.concatenate(count) > 0).sum()), 1)
    middle = float(np.median(np.concatenate(errors)))
    return MethodScore(
        name,
        float(log_student.sum() / rows),
        middle,
        float(np.concatenate(inside).mean()) if np.concatenate(inside).size else float("nan"),
        float(np.concatenate(flags).mean()),
    )


def facts(found: Comparison) -> dict[str, object]:
    """Convert a comparison for JSON."""
    best = max(found.methods, key=lambda row: row.score)
    return found._asdict() | {"methods": [row._asdict() for row in found.methods], "best": best.name}


def table(found: Comparison) -> str:
    """Format a comparison as a text table."""
    rows = found.methods
    best = max(rows, key=lambda row: row.score)
    width = max(len(row.name) for row in rows) + 2
    lines = [f"{found.file}: {found.rows:,} rows, model {found.model}, the same noise for all methods"]
    lines += [f"note: {note}" for note in found.notes] + [""]
    lines.append(f"{'method':<{width}}{'score':>10}{'error':>9}{'coverage':>11}{'flagged':>10}")
    for row in rows:
        mark = "  best" if row is best else ""
        numbers = f"{row.score:>10.4f}{row.error:>9.3f}{row.coverage:>11.1%}{row.flagged:>10.1%}"
        lines.append(f"{row.name:<{width}}{numbers}{mark}")
    lines += [
        "",
        "score     mean log predictive density (Student-t, 4 degrees of freedom); higher is better",
        "error     median absolute prediction error, in predicted standard deviations (0.674 if calibrated)",
        "coverage  share of measurements that are no outliers inside their 95 % prediction interval",
        "flagged   share of rows that are outliers",
    ]
    return "\n".join(lines)
