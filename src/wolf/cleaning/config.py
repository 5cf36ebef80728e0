"""Configuration of a cleaning run in a TOML file, and the record of a run in the same form.

    model = "local-level"
    max_gap = "3h"
    maintenance = "visits.csv"

    [rules.temperature]
    min = -20
    max = 45
    max_rate = "5/h"
    flat_for = "6h"

The keys are keyword options of `wolf.filter_frame`. File names are relative to the folder of the configuration. A
record adds a table `record` with the results, which is ignored when it is read.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wolf.cleaning import rules
from wolf.cleaning.options import CleaningOptions
from wolf.cleaning.result import CleanedSeries, FittedSeries

FILES = ("labels", "maintenance")
RECORD = "record"  # table that is ignored


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the options of a configuration.

    Args:
        path: of the TOML file.
    """
    found = rules.read_toml(path)
    found.pop(RECORD, None)
    unknown = sorted(found.keys() - CleaningOptions.__annotations__.keys())
    if unknown:
        known = ", ".join(CleaningOptions.__annotations__)
        raise ValueError(f"{path} has the unknown key {unknown[0]!r}; expected one of {known}")
    for name in FILES:
        if name in found:
            if not isinstance(found[name], str):
                raise ValueError(f"{path}: {name} must be the name of a file; got {found[name]!r}")
            found[name] = os.path.join(os.path.dirname(path), found[name])
    if not isinstance(found.get("parameters", {}), dict):
        raise ValueError(f"{path}: parameters must be a table such as [parameters] with obs_var = 1.0")
    rules.parse(found.get("rules"))
    return found


def write_record(
    path: str, options: Mapping[str, Any], results: Mapping[str, Any], series: Sequence[FittedSeries]
) -> None:
    """Write the options of a run and its results.

    Args:
        path: of the TOML file.
        options: that were given, by the names of `CleaningOptions`.
        results: facts about the run.
        series: prepared or cleaned.
    """
    from wolf.runtime.checkpoints import atomic

    shown = {name: value for name, value in options.items() if value not in (None, (), {}, False)}
    for name in FILES:
        if name in shown:
            shown[name] = os.path.relpath(shown[name], os.path.dirname(os.path.abspath(path)))
    lines = [f"# Record of `wolf filter {results['file']}`; --config reads it."]
    lines += [f"{name} = {_toml(value)}" for name, value in shown.items() if not isinstance(value, Mapping)]
    for name, table in shown.items():
        if isinstance(table, Mapping):
            lines += _tables(name, table)
    lines += _tables(RECORD, results)
    for each in series:
        own = {"label": each.label, "model": each.model, "method": each.method, "missing": each.num_missing}
        own |= {"outliers": each.num_outliers, "parameters": dict(each.parameters), "faults": _count_faults(each)}
        lines += ["", f"[[{RECORD}.series]]", *(f"{name} = {_toml(value)}" for name, value in own.items())]
    with atomic(Path(path)) as file:
        file.write(("\n".join(lines) + "\n").encode())


def _count_faults(each: FittedSeries) -> dict[str, int]:
    """Count the rows of each fault, if they are known as a whole."""
    if not isinstance(each, CleanedSeries) or each.fault is None:
        return {}
    return {kind: count for kind, count in Counter(each.fault.tolist()).items() if kind}


def _tables(name: str, table: Mapping[str, Any]) -> list[str]:
    """Format a table, and tables in it."""
    nested = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    flat = [f"{_key(key)} = {_toml(value)}" for key, value in table.items() if key not in nested]
    lines = ["", f"[{name}]", *flat] if flat or not nested else []
    for key, value in nested.items():
        lines += _tables(f"{name}.{_key(key)}", value)
    return lines


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)


def _toml(value: Any) -> str:
    """Format a value as TOML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(str(key))} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        text = repr(float(value))
        return text if any(mark in text for mark in ".en") else f"{text}.0"
    return json.dumps(str(value), ensure_ascii=False)
