"""A certificate: entries that say what was found, where, and how it is known; a table, a picture, JSON."""

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wolf.results.views import html
from wolf.runtime.checkpoints import atomic

HOW = {
    "exact": "solved for, up to a search in one dimension",
    "searched": "the largest that a search in all dimensions found: a lower bound",
    "simulated": "from trials on your model; the seed repeats them",
}


def neat(number: float, digits: int = 3) -> str:
    """Write a number with few digits, and without an exponent as long as it is not very large or small.

    Example:
        >>> neat(3448.2), neat(0.026123), neat(1.5e9)
        ('3450', '0.0261', '1.5e+09')
    """
    return f"{float(f'{number:.{digits}g}'):g}"


@dataclasses.dataclass(frozen=True)
class Entry:
    """One line of a certificate.

    Attributes:
        name: of what was found.
        value: infinite if there is no bound.
        unit: of the value.
        how: "exact", "searched" or "simulated".
        words: where and what for.
        error: standard error of a simulated mean.
        trials: of a simulated entry.
        seed: that repeats them.
        details: further numbers, by name.
    """

    name: str
    value: float
    unit: str
    how: str
    words: str
    error: float | None = None
    trials: int | None = None
    seed: str | None = None
    details: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def bounded(self) -> bool:
        """Whether the value is finite."""
        return math.isfinite(self.value)

    def written(self) -> str:
        """Write the value with its unit."""
        if not self.bounded:
            return "unbounded"
        number, unit = (100 * self.value, "%") if self.unit == "share" else (self.value, self.unit)
        if self.error is None:
            return f"{neat(number, 3 if self.how == 'simulated' else 4)} {unit}"
        error = 100 * self.error if self.unit == "share" else self.error
        return f"{neat(number, 4)} ± {error:.1g} {unit}"


@dataclasses.dataclass(frozen=True, repr=False)
class Certificate:
    """How robust a method is on a model.

    Attributes:
        entries: by name, in the order of the table; `certificate["influence"]` is one of them.
        model: as given.
        method: as certified.
        title: what it is about.
        remarks: what is missing, and why.
        curves: what the picture shows, arrays by name.
    """

    entries: dict[str, Entry]
    model: Any
    method: Any
    title: tuple[str, ...]
    remarks: tuple[str, ...]
    curves: dict[str, Any]

    def __getitem__(self, name: str) -> Entry:
        """Find an entry by its name."""
        if name not in self.entries:
            raise KeyError(f"no entry is called {name!r}; there are {', '.join(self.entries)}")
        return self.entries[name]

    def __iter__(self) -> Iterator[Entry]:
        """Go through the entries."""
        return iter(self.entries.values())

    def __len__(self) -> int:
        """Count the entries."""
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        """Say whether there is an entry of that name."""
        return name in self.entries

    def __repr__(self) -> str:
        """Lay the entries out as a table."""
        rows = [(entry.name, entry.written(), entry.how, entry.words) for entry in self]
        widths = [max(len(row[k]) for row in rows) + 2 for k in range(3)]
        lines = [self.title[0], *(f"  {line}" for line in self.title[1:]), ""]
        for row in rows:
            lines.append("  " + "".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)) + row[3])
        if self.remarks:
            lines += ["", *(f"  {remark}" for remark in self.remarks)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Lay the entries out as a table of a notebook."""
        rows = [(entry.name, entry.written(), entry.how, entry.words) for entry in self]
        return html.page(self.title[0], rows, notes=(*self.title[1:], *self.remarks))

    def to_json(self, path: str | Path | None = None) -> str:
        """Write the entries as JSON, to a file as well if one is named; what is unbounded is null.

        Args:
            path: of the file.
        """
        described = {
            "about": list(self.title),
            "entries": {entry.name: _plain(dataclasses.asdict(entry)) | {"bounded": entry.bounded} for entry in self},
            "how": {how: words for how, words in HOW.items() if any(entry.how == how for entry in self)},
            "remarks": list(self.remarks),
        }
        text = json.dumps(described, indent=2, ensure_ascii=False, allow_nan=False)
        if path is not None:
            with atomic(Path(path)) as file:
                file.write(f"{text}\n".encode())
        return text

    def plot(self) -> Any:
        """Draw the certificate; a `matplotlib.figure.Figure`."""
        from wolf.plots.certificate_plot import certificate

        return certificate(self)


def _plain(value: Any) -> Any:
    """Turn arrays into lists, and what is not finite into null."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
