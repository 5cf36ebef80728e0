"""What `wolf reproduce` does: run experiments one after the other, then lay out how they compare with the paper."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import click

from wolf.cli.options import echo_summary
from wolf_paper import registry, runner, verdict
from wolf_paper.runner import Outcome, Request

SHORT = {
    verdict.AGREES: "agrees",
    verdict.AFTERWARDS: verdict.AFTERWARDS,
    verdict.DIFFERS: "differs, and why is known",
    verdict.UNEXPLAINED: "differs, unexplained",
    verdict.NO_NUMBER: "no number in the paper",
    verdict.NO_DATA: "not run: no data",
}


def listing() -> str:
    """List the experiments with what they show."""
    known = registry.experiments()
    width = max(map(len, known)) + 2
    return "\n".join(
        f"{name:<{width}}{each.title}{' (only if named)' if each.on_request else ''}" for name, each in known.items()
    )


def reproduce(
    names: tuple[str, ...],
    scale: str,
    trials: int | None,
    seed: int,
    out: Path,
    data: Path | None,
    as_json: bool = False,
    quiet: bool = False,
) -> int:
    """Run the experiments and print a table; 1 if a figure differs and no reason is recorded, else 0."""
    silent = quiet or as_json
    chosen = registry.choose(names)
    out.mkdir(parents=True, exist_ok=True)
    request = Request(out, scale, seed, trials, data)
    outcomes = []
    try:
        for number, experiment in enumerate(chosen, 1):
            if not silent:
                click.echo(f"[{number}/{len(chosen)}] {experiment.name}: {experiment.title}")
            say = (lambda words: None) if silent else click.echo
            outcomes.append(runner.reproduce(experiment, request, say, quiet))
    except KeyboardInterrupt:
        click.echo(f"\nInterrupted. Finished parts are kept in {out}; the same command goes on from there.", err=True)
        return 130  # as a shell reports an interrupt
    words = [table(outcomes)]
    if trials is not None:
        words.append("With --trials, figures that hold at one scale only were not judged.")
    words.append(f"Rows, figures and manifests: {out}")
    echo_summary("\n".join(words), facts(outcomes, out), as_json, quiet)
    return int(any(outcome.failed for outcome in outcomes))


def facts(outcomes: list[Outcome], out: Path) -> dict[str, Any]:
    """Say how the experiments compare with the paper in numbers, for programs."""
    told = [
        {"name": each.name, "seconds": each.seconds, "figures": [vars(found) for found in each.verdicts]}
        for each in outcomes
    ]
    return {"experiments": told, "failed": [each.name for each in outcomes if each.failed], "wrote": str(out)}


def table(outcomes: list[Outcome]) -> str:
    """Lay out how many figures agree, and name those that do not."""
    width = max(len(each.name) for each in outcomes) + 2
    lines = ["", f"{'experiment':<{width}}{'time':>8}  verdicts"]
    lines.append("-" * (width + 34))
    for each in outcomes:
        counts = Counter(found.status for found in each.verdicts)
        words = ", ".join(f"{counts[status]} {SHORT[status]}" for status in SHORT if counts[status])
        lines.append(f"{each.name:<{width}}{_duration(each.seconds):>8}  {words or 'nothing to compare with'}")
    lines.append("")
    for each in outcomes:
        for found in each.verdicts:
            if found.status in (verdict.DIFFERS, verdict.UNEXPLAINED):
                lines += [_difference(each.name, found)]
    return "\n".join(lines)


def _difference(name: str, found: verdict.Verdict) -> str:
    if found.expected == "holds":
        head = f"{name}, {found.name}: not so here; so says {found.source}"
    else:
        ours = "nothing" if math.isnan(found.measured) else f"{found.measured:.4g}"
        head = f"{name}, {found.name}: {ours} here, {found.expected} in {found.source}"
    return f"{head}.\n    {found.text[0].upper()}{found.text[1:]}{'' if found.text.endswith('.') else '.'}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
