"""Rows in files: what was written is what is read back, so that a part that was run before counts like a fresh one."""

import csv
import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from wolf.runtime.checkpoints import atomic
from wolf_paper.protocol import Row, Rows


def write(path: Path, rows: Rows) -> None:
    """Write rows as CSV; columns are the union of what the rows have.

    Args:
        path: of the file, which appears whole or not at all.
        rows: plain values; floats keep all their digits.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    table.writerows({name: _plain(value) for name, value in row.items()} for row in rows)
    replace(path, text.getvalue())


def read(path: Path) -> Rows:
    """Read rows back: a column is of truth values, whole numbers, numbers or words; an empty cell is left out."""
    with path.open(newline="", encoding="utf-8") as file:
        header, *lines = list(csv.reader(file)) or [[]]
    columns = [_typed([line[j] for line in lines]) for j in range(len(header))]
    rows: Rows = []
    for i in range(len(lines)):
        row: Row = {name: column[i] for name, column in zip(header, columns, strict=True) if column[i] is not None}
        rows.append(row)
    return rows


def replace(path: Path, text: str | bytes) -> None:
    """Put a file in place in one move: whoever reads it sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as file:
        file.write(text if isinstance(text, bytes) else text.encode())


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return repr(value) if isinstance(value, float) else value


def _typed(cells: Iterable[str]) -> list[Any]:
    cells = list(cells)
    present = [cell for cell in cells if cell]
    kinds: tuple[Callable[[str], Any], ...] = (_truth, int, float)
    for kind in kinds:
        try:
            for cell in present:
                kind(cell)
        except (ValueError, KeyError):
            continue
        return [kind(cell) if cell else None for cell in cells]
    return [cell or None for cell in cells]


def _truth(cell: str) -> bool:
    return {"True": True, "False": False}[cell]
