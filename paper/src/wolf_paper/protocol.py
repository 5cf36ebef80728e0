"""What an experiment is: settings, parts that run alone, rows, figures and figures of merit.

An experiment says *what* to run. Files, resumption, progress, manifests and verdicts are the
runner's: an experiment never writes to disk, so every one of them is a pure function of its
settings, its seed and its data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = dict[str, Any]  # plain values; None and "" are left out when rows go through a file, so read with row.get
Rows = list[Row]


class NoData(Exception):  # noqa: N818
    """The data that a part needs are not there: it is left out, and the verdict says so.

    A part of an experiment with `requirements` may also let FileNotFoundError and ConnectionError pass: they mean the
    same.
    """


@dataclass(frozen=True)
class Task:
    """What one part of an experiment is given.

    Attributes:
        config: The experiment's frozen settings.
        part: Which part to run, one of the names that ``Experiment.parts`` gave.
        seed: Every random number of the part follows from it (and from the part's own meaning).
        data: Folder of the regression sets, or None.
        tell: ``tell(done, of)`` moves the progress bar of the part.
        earlier: Rows of the parts that ran before (tuned values, say), by the part's name.
    """

    config: Any
    part: str
    seed: int
    data: Path | None = None
    tell: Callable[[int, int], None] = lambda done, of: None
    earlier: Mapping[str, Rows] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """One artefact of the paper, or several that come from the same runs.

    Attributes:
        name: What ``wolf reproduce NAME`` takes.
        title: One line for ``--list`` and the report.
        shows: What of the paper it regenerates, in the paper's own numbering or captions.
        settings: Frozen dataclasses of plain values (they go into the manifest) by scale,
            ``"small"`` and ``"paper"``; with a field ``trials`` where trials make sense.
        parts: The names of the parts, in order. A finished part is not run again.
        run: Runs one part, returns tidy rows (one observation a row, plain values).
        measure: The numbers that ``expected.toml`` speaks of, by name, from all rows.
        draw: Figures by name, from all rows (matplotlib figures; it never runs a filter).
        requirements: ``("uci",)`` where the regression sets are needed; at the small scale they may be made up.
        on_request: Whether it is run only if it is named: another quarter of an hour, or hours.
        remarks: Sentences for the report: what was seen, where the paper's text and what was
            run differ, and how to repeat it.
    """

    name: str
    title: str
    shows: str
    settings: Mapping[str, Any]
    parts: Callable[[Any], Sequence[str]]
    run: Callable[[Task], Rows]
    measure: Callable[[Mapping[str, Rows], Any], dict[str, float]]
    draw: Callable[[Mapping[str, Rows], Any], dict[str, Any]]
    requirements: tuple[str, ...] = ()
    on_request: bool = False
    remarks: tuple[str, ...] = ()
