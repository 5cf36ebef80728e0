"""Implementation of `wolf inspect`: the columns of a file, and how `wolf filter` will interpret it."""

import shlex
from typing import Any

import numpy as np

from wolf.cleaning import column_roles, io
from wolf.cleaning.sampling import Order, describe_step, gaps_of
from wolf.cli.options import load

Facts = dict[str, Any]  # of a file, for JSON

MAX_SERIES = 1000  # labels of a column that may identify series
KINDS = {
    "time": "dates",
    "clock": "times of day",
    "text": "text",
    "reading": "numbers",
    "latitude": "latitudes",
    "longitude": "longitudes",
}
DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


def inspect_file(source: str, options: dict[str, Any]) -> Facts:
    """Describe the columns of a file and the plan of `wolf filter` for it.

    Args:
        source: path; standard input cannot be read a second time.
        options: of the command.
    """
    if source == "-":
        raise ValueError("wolf inspect reads a file, not standard input, which can be read only once")
    given = {"skip": options["skip"], "comment": options["comment"], "ragged": "missing"}
    table = io.read_table(source, not options["no_header"], **given)
    columns = column_roles.describe(table, options["decimal"])
    found: Facts = {
        "file": source,
        "kind": table.kind,
        "rows": table.data.num_rows,
        "encoding": table.encoding if table.kind == "csv" else None,
        "delimiter": table.delimiter if table.kind == "csv" else None,
        "lines_above": table.above - int(not options["no_header"]) if table.kind == "csv" else None,
        "columns": [_column(table, column, options["decimal"]) for column in columns],
    }
    try:
        found["plan"] = _plan(source, options, table, columns)
    except ValueError as error:
        found["plan"] = {"problem": str(error), "notes": list(table.notes)}
    return found


def _column(table: io.Table, column: column_roles.Column, decimal: str | None) -> Facts:
    facts: Facts = {"name": column.name, "kind": column.kind, "example": column.example}
    if column.kind in ("reading", "latitude", "longitude", "constant", "count", "flag", "identifier", "calendar"):
        numbers = io.number_column(table, column.name, "missing", decimal)
        present = numbers.values[np.isfinite(numbers.values)]
        facts |= {"missing": int(np.isnan(numbers.values).sum()), "not_numbers": len(numbers.bad)}
        facts |= {"min": float(present.min()), "max": float(present.max()), "written": str(numbers.style)}
    elif column.kind == "text":
        facts["different"] = len(table.data.column(column.name).unique())
    return facts


def _plan(source: str, options: dict[str, Any], table: io.Table, columns: list[column_roles.Column]) -> Facts:
    loaded = load(source, options | {"quiet": True})  # the progress bar is that of the whole command
    plan: Facts = {
        "time": loaded.time,
        "clock": loaded.clock,
        "parts": list(loaded.parts),
        "values": loaded.names,
        "by": loaded.by,
    }
    rows = None
    if loaded.times is not None:
        order = Order(loaded.times)
        rows = order(None)
        times = loaded.times if rows is None else loaded.times[rows]
        if loaded.groups is None:
            unit, gaps = gaps_of(times)
            plan |= {
                "step": unit,
                "even": gaps is None,
                "dates": loaded.axis is not None and loaded.axis.origin is not None,
            }
        order.report(loaded.notes.append if loaded.groups is None else lambda note: None)
    if loaded.groups is None and not loaded.place:
        values = loaded.values if rows is None else loaded.values[rows]
        loaded.notes.extend(_resolution_notes(loaded.names, values, plan.get("even", True)))
    candidates = [] if loaded.by else _series_columns(table, columns)
    plan |= {"identifies_series": candidates, "notes": loaded.notes}
    named = [("--time", name) for name in loaded.time_names] + [("--value", name) for name in loaded.names]
    named += [("--by", loaded.by or candidates[0])] if loaded.by or candidates else []
    plan["command"] = shlex.join(["wolf", "filter", source, *(word for pair in named for word in pair)])
    return plan


def _resolution_notes(names: list[str], values: np.ndarray, even: bool) -> list[str]:
    """Note quantised and interpolated columns."""
    from wolf.fitting.select import interpolated_rows, quantization, summary

    notes = []
    for name, column in zip(names, values.T, strict=True):
        step = quantization.step_of(column)
        notes += [
            f"{name}: {note}"
            for note in summary.coarse(step, interpolated_rows.every_of(column) if even and not step else 1)
        ]
    return notes


def _series_columns(table: io.Table, columns: list[column_roles.Column]) -> list[str]:
    """List columns that may identify series: repeated words or identifiers."""
    found = []
    for column in columns:
        if column.kind in ("text", "identifier"):
            count = len(table.data.column(column.name).unique())
            if 1 < count <= min(MAX_SERIES, table.data.num_rows // 4):
                found.append(column.name)
    return found


def format_text(found: Facts) -> str:
    """Format the description as text."""
    lines = [f"{found['file']}: {found['rows']:,} rows, {len(found['columns'])} columns ({_describe(found)})", ""]
    width = max(len(column["name"]) for column in found["columns"]) + 2
    for column in found["columns"]:
        lines.append(f"  {column['name']:<{width}}{_describe_column(column)}")
    plan = found["plan"]
    lines.append("")
    if "problem" in plan:
        lines.append(f"  wolf filter would fail: {plan['problem']}")
    else:
        step = ""
        if "step" in plan:
            step = f", {'every' if plan['even'] else 'uneven, typically'} {describe_step(plan['step'], plan['dates'])}"
        held = plan["parts"] or filter(None, [plan["time"], plan["clock"]])
        time = " and ".join(held) or "none: rows are treated as even steps"
        lines.append(f"  time      {time}{step}")
        lines.append(f"  values    {', '.join(plan['values'])}")
        if plan["identifies_series"]:
            lines.append(f"  series    may be identified by {', '.join(plan['identifies_series'])}: --by")
    lines += [f"  note      {note}" for note in plan["notes"]]
    return "\n".join([*lines, *(["", plan["command"]] if "command" in plan else [])])


def _describe(found: Facts) -> str:
    if found["kind"] != "csv":
        return str(found["kind"])
    return f"csv, separated by {DELIMITER_NAMES.get(found['delimiter'], found['delimiter'])}, {found['encoding']}"


def _describe_column(column: Facts) -> str:
    kind = KINDS.get(column["kind"]) or column_roles.NOT_FILTERED[column["kind"]]
    parts = [kind]
    if "min" in column:
        parts.append(f"{column['min']:g} to {column['max']:g}")
        parts += [f"{column['missing']:,} missing"] if column["missing"] else []
        parts += [f"{column['not_numbers']:,} not numeric"] if column["not_numbers"] else []
        parts += [f"written with {column['written']}"] if column["written"] != "plain numbers" else []
    elif "different" in column:
        parts.append(f"{column['different']:,} distinct")
    if column["example"]:
        parts.append(f"as {column['example'][:40]!r}")
    return ", ".join(parts)
