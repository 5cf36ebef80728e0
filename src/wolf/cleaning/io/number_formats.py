"""Number formats: decimal comma or point, grouped thousands, currency and per cent signs."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from wolf.cleaning.io.table import pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

MISSING_WORDS = (  # contents of a missing cell
    *("", "na", "n/a", "n.a.", "nan", "null", "(null)", "none", "nil", "missing", "?", "<na>", "nat", "nd", "n.d."),
    *("-", "--", "---", "----", "-----", "*", "**", "***", "-.-", "--.-", "..", "..."),
    *("#n/a", "#na", "#n/v", "#div/0!", "#value!", "#ref!", "#num!", "#name?", "#null!"),
)
NUMBER = r"^[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|infinity|Inf|Infinity|INF)$"
MIN_VALID_SHARE = 0.5  # of the cells of a column, for the others to be bad cells
SIGNS = "$€£¥₹%‰"
BLANKS = " \u00a0\u2009\u202f'’"  # between thousands, besides the mark that is not the decimal one
CELL = re.compile(
    rf"[+\-−]?\s*(?P<before>[{SIGNS}]?)\s*[+\-−]?(?P<body>\d[\d.,{BLANKS}]*|[.,]\d+)(?:[eE][+-]?\d+)?\s*"
    rf"(?P<after>[{SIGNS}]|EUR|USD|GBP|CHF)?"
)
GROUP = r"\d{1,3}[,.]\d{3}"  # a number above one thousand, or three decimals


class NumberFormat(NamedTuple):
    """Format of the numbers of a column.

    Attributes:
        decimal: "." or ",".
        grouped: whether thousands are grouped.
        unit: sign that every cell has, such as "%" or "$".
        sure: False if the sample could have thousands as well as decimals.
    """

    decimal: str = "."
    grouped: bool = False
    unit: str = ""
    sure: bool = True

    @property
    def plain(self) -> bool:
        """Whether this is the format of programming languages."""
        return self.decimal == "." and not self.grouped and not self.unit

    def __str__(self) -> str:
        """Describe the format."""
        parts = ["decimal commas"] if self.decimal == "," else []
        parts += ["grouped thousands"] if self.grouped else []
        parts += [f"the sign {self.unit}"] if self.unit else []
        return " and ".join(parts) or "plain numbers"


def infer_format(cells: Sequence[str], delimiter: str = ",", decimal: str | None = None) -> NumberFormat:
    """Infer the format of numbers.

    Args:
        cells: sample of a column.
        delimiter: of the file; if it is no comma, a comma is more likely a decimal mark than a group separator.
        decimal: decimal mark, if known.

    Example:
        >>> infer_format(["1.234,5", "7"])
        NumberFormat(decimal=',', grouped=True, unit='', sure=True)
        >>> infer_format(["$1,200.5", "$7"])
        NumberFormat(decimal='.', grouped=True, unit='$', sure=True)
    """
    present = [cell.strip() for cell in cells if cell is not None and cell.strip().lower() not in MISSING_WORDS]
    found = [match for cell in present if (match := CELL.fullmatch(cell))]
    if len(found) <= MIN_VALID_SHARE * len(present):
        return NumberFormat(decimal or ".")
    units = {match["before"] or match["after"] or "" for match in found}
    bodies = [match["body"].strip() for match in found]
    sure = True
    if decimal is None:
        decimal, sure = _decimal(bodies, delimiter)
    mark = "." if decimal == "," else ","
    grouped = any(re.fullmatch(rf"\d{{1,3}}(?:[{BLANKS}{mark}]\d{{3}})+(?:\{decimal}\d*)?", body) for body in bodies)
    return NumberFormat(decimal, grouped, units.pop() if len(units) == 1 else "", sure)


def _decimal(bodies: list[str], delimiter: str) -> tuple[str, bool]:
    """Infer the decimal mark, and whether it is unambiguous."""
    comma = any(
        (body.count(",") == 1 and "." not in body and not re.fullmatch(GROUP, body))
        or 0 <= body.rfind(".") < body.rfind(",")
        or body.count(".") > 1
        for body in bodies
    )
    point = any(
        (body.count(".") == 1 and "," not in body and not re.fullmatch(GROUP, body))
        or 0 <= body.rfind(",") < body.rfind(".")
        or body.count(",") > 1
        for body in bodies
    )
    either = any("," in body for body in bodies)
    if comma == point and not either:
        return ".", True
    if comma != point:
        return ("," if comma else "."), True
    return ("," if delimiter != "," and not point else "."), point


def parse(column: "pa.ChunkedArray", style: NumberFormat) -> tuple["pa.ChunkedArray", list[int]]:
    """Parse text as numbers; other cells become null, and their rows are returned."""
    parsed, bad, first = [], [], 0
    for chunk in column.chunks:
        numbers, rows = _parse_chunk(chunk, style)
        parsed.append(numbers)
        bad += [first + row for row in rows]
        first += len(chunk)
    return pyarrow().chunked_array(parsed, pyarrow().float64()), bad


def _parse_chunk(chunk: "pa.Array", style: NumberFormat) -> tuple["pa.Array", list[int]]:
    from pyarrow import compute

    arrow = pyarrow()
    if style.plain:
        try:
            return compute.cast(chunk, arrow.float64()), []
        except arrow.ArrowInvalid:  # some cells are no plain numbers: parse each cell
            pass
    trimmed = compute.utf8_trim_whitespace(chunk)
    written = trimmed if style.plain else _plain(trimmed, style)
    good = compute.match_substring_regex(written, NUMBER)
    parsed = compute.cast(only(good, written), arrow.float64())
    bad = compute.and_(compute.invert(good), compute.invert(is_absent(trimmed)))
    return parsed, compute.indices_nonzero(bad).to_pylist()


def _plain(text: "pa.Array", style: NumberFormat) -> "pa.Array":
    """Rewrite numbers in plain format; cells in another format become invalid."""
    from pyarrow import compute

    text = compute.replace_substring(text, "−", "-")
    if style.unit:
        unit = re.escape(style.unit)
        text = compute.replace_substring_regex(text, rf"^([+-]?)\s*{unit}\s*|\s*{unit}$", r"\1")
    decimal, mark = re.escape(style.decimal), re.escape("." if style.decimal == "," else ",")
    between = f"[{BLANKS}{mark}]"
    grouped = compute.match_substring_regex(text, rf"^[+-]?\d{{1,3}}(?:{between}\d{{3}})+(?:{decimal}\d*)?$")
    text = compute.if_else(grouped, compute.replace_substring_regex(text, between, ""), text)
    if style.decimal == ",":
        wrong = compute.match_substring(text, ".")
        text = compute.if_else(wrong, "x", compute.replace_substring(text, ",", "."))
    return text


def is_absent(trimmed: "pa.Array") -> "pa.BooleanArray":
    """Find the cells that mark a missing value."""
    from pyarrow import compute

    words = "|".join(map(re.escape, MISSING_WORDS))
    return compute.match_substring_regex(trimmed, f"^(?:{words})$", ignore_case=True)


def only(chosen: "pa.Array", column: "pa.Array") -> "pa.Array":
    """Keep the selected cells; the others become null."""
    from pyarrow import compute

    return compute.if_else(chosen, column, pyarrow().nulls(len(column), column.type))
