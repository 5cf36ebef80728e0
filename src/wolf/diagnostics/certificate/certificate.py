"""Certificate of robustness: named entries with their basis, as a table, a figure and JSON."""

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wolf.interfaces import Filter
from wolf.results.views import html
from wolf.runtime.checkpoints import atomic
from wolf.statespace import Model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASIS_DESCRIPTIONS = {
    "exact": "computed exactly, up to a one-dimensional search",
    "searched": "largest value found by a search in all dimensions: a lower bound",
    "simulated": "estimated from simulated trials on the model; reproducible by the seed",
}


def format_number(number: float, digits: int = 3) -> str:
    """Format a number with few digits, and without an exponent unless it is very large or small.

    Example:
        >>> format_number(3448.2), format_number(0.026123), format_number(1.5e9)
        ('3450', '0.0261', '1.5e+09')
    """
    return f"{float(f'{number:.{digits}g}'):g}"


@dataclasses.dataclass(frozen=True)
class CertificateEntry:
    """One row of a certificate.

    Attributes:
        name: name of the quantity.
        value: value of the quantity; infinite if it is unbounded.
        unit: unit of the value.
        basis: "exact", "searched" or "simulated".
        description: meaning of the value, and where it is attained.
        error: standard error of a simulated mean.
        trials: number of simulated trials.
        seed: seed that reproduces the trials.
        details: further values, by name.
    """

    name: str
    value: float
    unit: str
    basis: str
    description: str
    error: float | None = None
    trials: int | None = None
    seed: str | None = None
    details: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def bounded(self) -> bool:
        """Whether the value is finite."""
        return math.isfinite(self.value)

    def value_text(self) -> str:
        """Format the value with its unit."""
        if not self.bounded:
            return "unbounded"
        number, unit = (100 * self.value, "%") if self.unit == "share" else (self.value, self.unit)
        if self.error is None:
            return f"{format_number(number, 3 if self.basis == 'simulated' else 4)} {unit}"
        error = 100 * self.error if self.unit == "share" else self.error
        return f"{format_number(number, 4)} ± {error:.1g} {unit}"


@dataclasses.dataclass(frozen=True, repr=False)
class Certificate:
    """Robustness of a method on a model.

    Attributes:
        entries: entries by name, in the order of the table; `certificate["influence"]` is one of them.
        model: model as passed to `certify`.
        method: certified method.
        title: lines that name the method, the model and the operating point.
        remarks: entries that are missing, and why.
        curves: arrays of the figure, by name.
    """

    entries: dict[str, CertificateEntry]
    model: Model
    method: Filter
    title: tuple[str, ...]
    remarks: tuple[str, ...]
    curves: dict[str, Any]

    def __getitem__(self, name: str) -> CertificateEntry:
        """Return an entry by its name."""
        if name not in self.entries:
            raise KeyError(f"no entry named {name!r}; available entries: {', '.join(self.entries)}")
        return self.entries[name]

    def __iter__(self) -> Iterator[CertificateEntry]:
        """Iterate over the entries."""
        return iter(self.entries.values())

    def __len__(self) -> int:
        """Count the entries."""
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        """Return whether an entry of that name exists."""
        return name in self.entries

    def __repr__(self) -> str:
        """Format the entries as a table."""
        rows = [(entry.name, entry.value_text(), entry.basis, entry.description) for entry in self]
        widths = [max(len(row[k]) for row in rows) + 2 for k in range(3)]
        lines = [self.title[0], *(f"  {line}" for line in self.title[1:]), ""]
        for row in rows:
            lines.append("  " + "".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)) + row[3])
        if self.remarks:
            lines += ["", *(f"  {remark}" for remark in self.remarks)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Format the entries as an HTML table for notebooks."""
        rows = [(entry.name, entry.value_text(), entry.basis, entry.description) for entry in self]
        return html.page(self.title[0], rows, notes=(*self.title[1:], *self.remarks))

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the entries as JSON, and write them to a file if a path is given; unbounded values are null.

        Args:
            path: path of the file.
        """
        described = {
            "about": list(self.title),
            "entries": {e.name: _to_json_value(dataclasses.asdict(e)) | {"bounded": e.bounded} for e in self},
            "basis": {basis: text for basis, text in BASIS_DESCRIPTIONS.items() if any(e.basis == basis for e in self)},
            "remarks": list(self.remarks),
        }
        text = json.dumps(described, indent=2, ensure_ascii=False, allow_nan=False)
        if path is not None:
            with atomic(Path(path)) as file:
                file.write(f"{text}\n".encode())
        return text

    def plot(self) -> "Figure":
        """Draw the certificate as a `matplotlib.figure.Figure`."""
        from wolf.plots.certificate_plot import certificate

        return certificate(self)


def _to_json_value(value: object) -> Any:
    """Convert arrays to lists, and non-finite numbers to null."""
    if isinstance(value, dict):
        return {key: _to_json_value(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_to_json_value(each) for each in value]
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
