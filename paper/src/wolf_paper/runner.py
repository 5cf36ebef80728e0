"""Run experiments into a folder: parts that are finished stay finished, and every file appears whole.

For each experiment NAME there are in the folder:

    NAME/parts/PART.csv, PART.json    the rows of a part, and what it was run with
    NAME/rows.csv                     all rows
    NAME/FIGURE.png, FIGURE.svg
    NAME/manifest.json                settings, seed, versions, machine, wall time
    NAME/results.json                 the figures of merit and their verdicts

A part counts as finished if settings, seed, version and data folder are the same. Code that changed under one version
number is not seen: whoever changes an experiment chooses another folder.
"""

import dataclasses
import datetime
import hashlib
import io
import json
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import click

from wolf.cli.progress import progress_bar
from wolf.execution.validate import package_version
from wolf.plots.style import MISSING_MATPLOTLIB
from wolf_paper import provenance, verdict
from wolf_paper import rows as files
from wolf_paper.protocol import Experiment, NoData, Rows, Task
from wolf_paper.verdict import Verdict

DPI = 150  # of a picture
SCALES = ("small", "paper")


@dataclass(frozen=True)
class Request:
    """What to run and where.

    Attributes:
        out: folder of the results.
        scale: "small" or "paper".
        seed: of all random numbers.
        trials: instead of those of the scale.
        data: folder of the regression sets.
    """

    out: Path
    scale: str = "small"
    seed: int = 314
    trials: int | None = None
    data: Path | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of an experiment.

    Attributes:
        name: of the experiment.
        measured: its figures of merit.
        verdicts: one for each entry of ``expected.toml``.
        seconds: wall time of all parts, also of those that were run before.
        missing: parts without data.
        fresh: parts that were run now.
        pictures: names of the figures.
    """

    name: str
    measured: dict[str, float]
    verdicts: list[Verdict]
    seconds: float
    missing: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Say whether a figure differs and nobody knows why."""
        return any(each.status == verdict.UNEXPLAINED for each in self.verdicts)


def reproduce(
    experiment: Experiment, request: Request, say: Callable[[str], None] = click.echo, quiet: bool = False
) -> Outcome:
    """Run an experiment, draw it and judge it.

    Args:
        experiment: from the registry.
        request: what to run and where.
        say: told what happens.
        quiet: show no progress.
    """
    config = configure(experiment, request)
    folder = request.out / experiment.name
    ran = _run_parts(experiment, config, request, folder, say, quiet)
    found = experiment.measure(ran.rows, config) if ran.rows else {}
    measured = {name: float(value) for name, value in found.items()}
    same = request.trials is None or config == experiment.settings[request.scale]
    verdicts = verdict.judge(experiment.name, measured, request.scale, complete=not ran.missing, sized=same)
    files.write(folder / "rows.csv", [{"part": part} | row for part, rows in ran.rows.items() for row in rows])
    files.replace(folder / "manifest.json", _json(_manifest(experiment, config, request, ran)))
    pictures = _draw(experiment, ran.rows, config, folder, say) if ran.rows else ()
    spent, missing, fresh = sum(ran.seconds.values()), tuple(ran.missing), tuple(ran.fresh)
    outcome = Outcome(experiment.name, measured, verdicts, spent, missing, fresh, pictures)
    files.replace(folder / "results.json", _json(dataclasses.asdict(outcome)))
    return outcome


class _Ran(NamedTuple):
    """The rows and the wall time of each part; which had no data, and which were run now."""

    rows: dict[str, Rows]
    seconds: dict[str, float]
    missing: list[str]
    fresh: list[str]


def _run_parts(
    experiment: Experiment, config: Any, request: Request, folder: Path, say: Callable[[str], None], quiet: bool
) -> _Ran:
    """Run what is not finished, in order; each part is kept before the next begins."""
    ran = _Ran({}, {}, [], [])
    for part in experiment.parts(config):
        key = fingerprint(experiment, config, part, request)
        kept = _finished(folder, part, key)
        if kept is None:
            started = time.perf_counter()
            try:
                rows = _run(experiment, Task(config, part, request.seed, request.data, earlier=dict(ran.rows)), quiet)
            except NoData as reason:
                say(f"  {part}: no data. {reason}")
                ran.missing.append(part)
                continue
            _keep(folder, part, key, rows, time.perf_counter() - started)
            ran.fresh.append(part)
            kept = _finished(folder, part, key)  # as written: rows of a fresh run are those of a resumed one
        assert kept is not None
        ran.rows[part], ran.seconds[part] = kept
    return ran


def configure(experiment: Experiment, request: Request) -> Any:
    """Take the settings of the scale, with the number of trials that was asked for."""
    if request.scale not in experiment.settings:
        raise ValueError(f"{experiment.name} has the scales {', '.join(experiment.settings)}; got {request.scale!r}")
    config = experiment.settings[request.scale]
    if request.trials is None or not hasattr(config, "trials"):
        return config
    return dataclasses.replace(config, trials=request.trials)


def fingerprint(experiment: Experiment, config: Any, part: str, request: Request) -> str:
    """Name what a part was run with: settings, seed and version; where data are read, also their folder."""
    told = {
        "experiment": experiment.name,
        "part": part,
        "settings": dataclasses.asdict(config),
        "seed": request.seed,
        "wolf": package_version(),
        "data": str(request.data.resolve()) if experiment.requirements and request.data else None,
    }
    return _digest(_json(told).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _run(experiment: Experiment, task: Task, quiet: bool) -> Rows:
    with progress_bar(f"  {experiment.name}: {task.part}", quiet=quiet) as bar:

        def tell(done: int, of: int) -> None:
            bar.total = of
            bar.update(done - bar.n)

        try:
            return experiment.run(dataclasses.replace(task, tell=tell))
        except (FileNotFoundError, ConnectionError) as error:
            if experiment.requirements:
                raise NoData(str(error)) from error
            raise


def _part(folder: Path, part: str, suffix: str) -> Path:
    """Find the file of a part; its name is kept as far as a file system takes it."""
    return folder / "parts" / f"{re.sub(r'[^A-Za-z0-9._+-]', '-', part)}.{suffix}"


def _keep(folder: Path, part: str, key: str, found: Rows, seconds: float) -> None:
    """Write the rows first and what vouches for them last."""
    _part(folder, part, "json").unlink(missing_ok=True)
    table = _part(folder, part, "csv")
    files.write(table, found)
    told = {"part": part, "key": key, "seconds": seconds, "sha256": _digest(table.read_bytes())}
    files.replace(_part(folder, part, "json"), _json(told))


def _finished(folder: Path, part: str, key: str) -> tuple[Rows, float] | None:
    try:
        told, table = json.loads(_part(folder, part, "json").read_bytes()), _part(folder, part, "csv")
        digest = _digest(table.read_bytes())
        same = told["key"] == key and told["part"] == part and told["sha256"] == digest
        return (files.read(table), float(told["seconds"])) if same else None
    except (OSError, ValueError, KeyError, TypeError):  # not there, or not whole: run it
        return None


def _draw(
    experiment: Experiment, done: dict[str, Rows], config: Any, folder: Path, say: Callable[[str], None]
) -> tuple[str, ...]:
    try:
        figures = experiment.draw(done, config)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("matplotlib"):
            raise
        say(f"  {experiment.name}: no pictures. {MISSING_MATPLOTLIB}")
        return ()
    for name, figure in figures.items():
        for kind in ("png", "svg"):
            files.replace(folder / f"{name}.{kind}", _picture(figure, kind))
    return tuple(figures)


def _picture(figure: Any, kind: str) -> bytes:
    """Draw a figure into bytes: without a date and with fixed names inside, the same rows give the same file."""
    from matplotlib import rc_context

    picture = io.BytesIO()
    with rc_context({"svg.hashsalt": "wolf"}):
        figure.savefig(picture, format=kind, dpi=DPI, metadata={"Date": None} if kind == "svg" else {})
    return picture.getvalue()


def _manifest(experiment: Experiment, config: Any, request: Request, ran: _Ran) -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "shows": experiment.shows,
        "scale": request.scale,
        "seed": request.seed,
        "settings": dataclasses.asdict(config),
        "seconds": ran.seconds | {"total": sum(ran.seconds.values())},
        "parts_without_data": ran.missing,
        "versions": provenance.versions(),
        "machine": provenance.machine(),
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _json(value: Any) -> str:
    """Write JSON that every reader takes: a number that is none becomes null."""
    return json.dumps(_plain(value), indent=2, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
