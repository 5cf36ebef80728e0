"""What `wolf inspect` says: what a file holds, and what `wolf filter` would do with it."""

import shlex
from typing import Any

import numpy as np

from wolf.cleaning import column_roles as finding
from wolf.cleaning import io
from wolf.cleaning.sampling import Order, describe_step, gaps_of
from wolf.cli import options as shared

MOST_SERIES = 1000  # labels that a column may have to tell series apart
KINDS = {
    "time": "dates",
    "clock": "times of day",
    "text": "text",
    "reading": "numbers",
    "latitude": "latitudes",
    "longitude": "longitudes",
}
MARKS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


def inspect_file(source: str, options: dict[str, Any]) -> dict[str, Any]:
    """Describe the columns of a file and the plan of `wolf filter` for it.

    Args:
        source: path; standard input cannot be read a second time.
        options: of the command.
    """
    if source == "-":
        raise ValueError("wolf inspect reads a file, not standard input: what it saw there would be gone")
    given = {"skip": options["skip"], "comment": options["comment"], "ragged": "missing"}
    table = io.read_table(source, not options["no_header"], **given)
    columns = finding.describe(table, options["decimal"])
    seen: dict[str, Any] = {
        "file": source,
        "kind": table.kind,
        "rows": table.data.num_rows,
        "encoding": table.encoding if table.kind == "csv" else None,
        "delimiter": table.delimiter if table.kind == "csv" else None,
        "lines_above": table.above - int(not options["no_header"]) if table.kind == "csv" else None,
        "columns": [_column(table, column, options["decimal"]) for column in columns],
    }
    try:
        seen["plan"] = _plan(source, options, table, columns)
    except ValueError as error:
        seen["plan"] = {"problem": str(error), "notes": list(table.notes)}
    return seen


def _column(table: io.Table, column: finding.Column, decimal: str | None) -> dict[str, Any]:
    told: dict[str, Any] = {"name": column.name, "kind": column.kind, "example": column.example}
    if column.kind in ("reading", "latitude", "longitude", "constant", "count", "flag", "identifier", "calendar"):
        numbers = io.number_column(table, column.name, "missing", decimal)
        present = numbers.values[np.isfinite(numbers.values)]
        told |= {"missing": int(np.isnan(numbers.values).sum()), "not_numbers": len(numbers.bad)}
        told |= {"least": float(present.min()), "most": float(present.max()), "written": str(numbers.style)}
    elif column.kind == "text":
        told["different"] = len(table.data.column(column.name).unique())
    return told


def _plan(source: str, options: dict[str, Any], table: io.Table, columns: list[finding.Column]) -> dict[str, Any]:
    read = shared.load(source, options | {"quiet": True})  # one line of progress: that of the whole look
    plan: dict[str, Any] = {
        "time": read.time,
        "clock": read.clock,
        "parts": list(read.parts),
        "values": read.names,
        "by": read.by,
    }
    rows = None
    if read.times is not None:
        order = Order(read.times)
        rows = order(None)
        times = read.times if rows is None else read.times[rows]
        if read.groups is None:
            unit, gaps = gaps_of(times)
            plan |= {
                "step": unit,
                "even": gaps is None,
                "dates": read.axis is not None and read.axis.origin is not None,
            }
        order.tell(read.notes.append if read.groups is None else lambda words: None)
    if read.groups is None and not read.place:
        values = read.values if rows is None else read.values[rows]
        read.notes.extend(_coarse(read.names, values, plan.get("even", True)))
    maybe = [] if read.by else _series(table, columns)
    plan |= {"tells_series_apart": maybe, "notes": read.notes}
    named = [("--time", name) for name in read.time_names] + [("--value", name) for name in read.names]
    named += [("--by", read.by or maybe[0])] if read.by or maybe else []
    plan["command"] = shlex.join(["wolf", "filter", source, *(word for pair in named for word in pair)])
    return plan


def _coarse(names: list[str], values: np.ndarray, even: bool) -> list[str]:
    """Say which columns tell less than they seem to."""
    from wolf.fitting.select import interpolated_rows, quantization, summary

    found = []
    for name, column in zip(names, values.T, strict=True):
        step = quantization.step_of(column)
        found += [
            f"{name}: {words}"
            for words in summary.coarse(step, interpolated_rows.every_of(column) if even and not step else 1)
        ]
    return found


def _series(table: io.Table, columns: list[finding.Column]) -> list[str]:
    """List columns that may tell series apart: words or identifiers that come again and again."""
    found = []
    for column in columns:
        if column.kind in ("text", "identifier"):
            count = len(table.data.column(column.name).unique())
            if 1 < count <= min(MOST_SERIES, table.data.num_rows // 4):
                found.append(column.name)
    return found


def words(seen: dict[str, Any]) -> str:
    """Lay out what was seen."""
    lines = [f"{seen['file']}: {seen['rows']:,} rows, {len(seen['columns'])} columns ({_describe(seen)})", ""]
    width = max(len(column["name"]) for column in seen["columns"]) + 2
    for column in seen["columns"]:
        lines.append(f"  {column['name']:<{width}}{_describe_column(column)}")
    plan = seen["plan"]
    lines.append("")
    if "problem" in plan:
        lines.append(f"  wolf filter would stop: {plan['problem']}")
    else:
        step = ""
        if "step" in plan:
            step = f", {'every' if plan['even'] else 'uneven, typically'} {describe_step(plan['step'], plan['dates'])}"
        held = plan["parts"] or filter(None, [plan["time"], plan["clock"]])
        time = " and ".join(held) or "none: rows are taken as even steps"
        lines.append(f"  time      {time}{step}")
        lines.append(f"  values    {', '.join(plan['values'])}")
        if plan["tells_series_apart"]:
            lines.append(f"  series    may be told apart by {', '.join(plan['tells_series_apart'])}: --by")
    lines += [f"  note      {note}" for note in plan["notes"]]
    return "\n".join([*lines, *(["", plan["command"]] if "command" in plan else [])])


def _describe(seen: dict[str, Any]) -> str:
    if seen["kind"] != "csv":
        return str(seen["kind"])
    return f"csv, cells apart by {MARKS.get(seen['delimiter'], seen['delimiter'])}, {seen['encoding']}"


def _describe_column(column: dict[str, Any]) -> str:
    kind = KINDS.get(column["kind"]) or finding.WORDS[column["kind"]]
    parts = [kind]
    if "least" in column:
        parts.append(f"{column['least']:g} to {column['most']:g}")
        parts += [f"{column['missing']:,} missing"] if column["missing"] else []
        parts += [f"{column['not_numbers']:,} of them no numbers"] if column["not_numbers"] else []
        parts += [f"written with {column['written']}"] if column["written"] != "plain numbers" else []
    elif "different" in column:
        parts.append(f"{column['different']:,} different")
    if column["example"]:
        parts.append(f"as {column['example'][:40]!r}")
    return ", ".join(parts)
