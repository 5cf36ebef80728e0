"""Date formats other than ISO 8601; the order of day, month and year is inferred from the dates."""

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wolf.cleaning.io.arrow_numpy import nulls, numbers
from wolf.cleaning.io.number_formats import MISSING_WORDS
from wolf.cleaning.io.table import pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

CLOCK = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"(?:\s?(?P<half>[AaPp])\.?[Mm]\.?)?"
)
REST = rf"(?:(?:\s*[T,]\s*|\s+){CLOCK})?"
YEAR, DAY, MONTH, NAME = (
    r"(?P<year>\d{4}|\d{2})",
    r"(?P<day>\d{1,2})",
    r"(?P<month>\d{1,2})",
    r"(?P<name>[A-Za-z]{3,9})",
)
COMPACT = r"(?P<year>(?:18|19|20|21)\d{2})(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])"
FORMATS = {  # name -> pattern for parsing, and strftime format for writing
    "year first": (rf"(?P<year>\d{{4}})[./-]{MONTH}[./-]{DAY}{REST}", "%Y-%m-%d"),
    "month": (r"(?P<year>\d{4})[./-](?P<month>\d{1,2})", "%Y-%m"),
    "day first": (rf"{DAY}[./-]{MONTH}[./-]{YEAR}{REST}", "%d-%m-%Y"),
    "month first": (rf"{MONTH}[./-]{DAY}[./-]{YEAR}{REST}", "%m-%d-%Y"),
    "named month": (rf"{DAY}[ .-]+{NAME}[ .,-]+{YEAR}{REST}", "%d-%b-%Y"),
    "named month first": (rf"{NAME}\.? {DAY},? {YEAR}{REST}", "%b-%d-%Y"),
    "compact": (
        rf"{COMPACT}(?:[T ]?(?P<hour>[01]\d|2[0-3])(?P<minute>[0-5]\d)(?P<second>[0-5]\d)?)?",
        "%Y%m%d",
    ),
}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
PIVOT_YEAR = 69  # smaller two-digit years are of this century, as in POSIX
PARTS = ("hour", "minute", "second")
AMBIGUOUS = ("day first", "month first")
AMBIGUITY_ERROR = "could be day or month first; add --day-first or --month-first"


class DateFormat(NamedTuple):
    """Format of the dates of a column.

    Attributes:
        kind: one of `FORMATS`.
        strftime: format for writing dates.
    """

    kind: str
    strftime: str


def infer_format(cells: list[str], day_first: bool | None = None, whole: "pa.Array | None" = None) -> DateFormat | None:
    """Infer the format of dates; None if they are no dates, or have different formats.

    Args:
        cells: sample of a column.
        day_first: order of day and month where both are possible; None to infer it.
        whole: the column, a `pyarrow.Array`, used if the sample is ambiguous.

    Raises:
        LookupError: if the order is ambiguous.

    Example:
        >>> infer_format(["31.1.2015 10:00", "1.2.2015 11:00"])
        DateFormat(kind='day first', strftime='%d.%m.%Y %H:%M')
    """
    present = [
        str(cell).strip() for cell in cells if cell is not None and str(cell).strip().lower() not in MISSING_WORDS
    ]
    if not present:
        return None
    fitting = [kind for kind in FORMATS if all(_matches(kind, cell) for cell in present)]
    if set(AMBIGUOUS) <= set(fitting):
        kind = AMBIGUOUS[0 if day_first else 1] if day_first is not None else None
        kind = kind or _possible_order(whole) or _infer_order(present)
        if kind is None:
            raise LookupError(AMBIGUITY_ERROR)
        return DateFormat(kind, _strftime(kind, present[0]))
    return DateFormat(fitting[0], _strftime(fitting[0], present[0])) if fitting else None


def _possible_order(whole: "pa.Array | None") -> str | None:
    """Find the order in which fewer dates of a column are invalid; None if both are equal."""
    if whole is None:
        return None
    wrong = [int(np.isnat(parse(whole, kind)).sum()) for kind in AMBIGUOUS]
    return None if wrong[0] == wrong[1] else AMBIGUOUS[int(wrong[1] < wrong[0])]


def _matches(kind: str, cell: str) -> bool:
    match = re.fullmatch(FORMATS[kind][0], cell)
    if match is None:
        return False
    found = match.groupdict()
    month = MONTHS.index(found["name"][:3].lower()) + 1 if found.get("name", "")[:3].lower() in MONTHS else None
    month = int(found["month"]) if found.get("month") else month
    return month is not None and 1 <= month <= 12 and 1 <= int(found.get("day") or 1) <= 31


def _infer_order(cells: list[str]) -> str | None:
    """Infer the order of day and month: points imply day first; otherwise the order with even steps."""
    if re.match(r"\d{1,2}\.", cells[0]):
        return AMBIGUOUS[0]
    even = []
    for kind in AMBIGUOUS:
        stamps = parse(pyarrow().array(cells), kind)
        gaps = np.unique(np.diff(stamps).astype(np.int64))
        if len(cells) > 2 and not np.isnat(stamps).any() and len(gaps) == 1 and gaps[0] != 0:
            even.append(kind)
    return even[0] if len(even) == 1 else None


def _strftime(kind: str, cell: str) -> str:
    """Build the strftime format of a cell."""
    match = re.fullmatch(FORMATS[kind][0], cell)
    assert match is not None
    found, pattern = match.groupdict(), FORMATS[kind][1]
    if kind not in ("compact", "named month first"):
        mark = re.search(r"[./ -]", cell)
        pattern = pattern.replace("-", mark[0] if mark else "-")
    if kind == "named month first":
        pattern = "%b %d, %Y" if "," in cell else "%b %d %Y"
    if len(found.get("year") or "") == 2:
        pattern = pattern.replace("%Y", "%y")
    if not found.get("hour"):
        return pattern
    if kind == "compact":
        return (
            pattern + ("T" if "T" in cell else " " if " " in cell else "") + ("%H%M%S" if found["second"] else "%H%M")
        )
    clock = ("%I" if found["half"] else "%H") + (":%M:%S" if found["second"] else ":%M") + " %p" * bool(found["half"])
    return pattern + ("T" if "T" in cell else " ") + clock


def parse(column: "pa.ChunkedArray", kind: str) -> np.ndarray:
    """Parse text as dates, (rows,) of datetime64[ns]; NaT where it is no date.

    Args:
        column: a `pyarrow.Array` of text.
        kind: one of `FORMATS`.
    """
    from pyarrow import compute

    found = compute.extract_regex(compute.utf8_trim_whitespace(column), f"^{FORMATS[kind][0]}$")
    text = {field.name: found.field(field.name) for field in found.type}
    valid, zeros = ~nulls(found), np.zeros(len(column), np.int64)
    year = _integers(text["year"])
    short = numbers(compute.utf8_length(text["year"]), "int64", 0) == 2
    year = np.where(short, year + np.where(year < PIVOT_YEAR, 2000, 1900), year)
    month = _integers(text["month"]) if "month" in text else _month_numbers(text["name"])
    day = _integers(text["day"]) if "day" in text else zeros + 1
    hour, minute, second = (_integers(text[part]) if part in text else zeros for part in PARTS)
    if "half" in text:
        half = compute.utf8_lower(text["half"])
        late, early = (numbers(compute.cast(compute.equal(half, one), "int8"), "int64", 0) == 1 for one in "pa")
        valid &= ~(late | early) | ((hour >= 1) & (hour <= 12))
        hour = np.where(late | early, hour % 12 + 12 * late, hour)
    valid &= (month >= 1) & (month <= 12) & (hour < 24) & (minute < 60) & (second < 60) & (year >= 1678) & (year < 2262)
    months = np.where(valid, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1).astype("timedelta64[D]")
    valid &= (day >= 1) & (days.astype("datetime64[M]") == months)  # there is no 30 February
    stamps = days.astype("datetime64[ns]") + (3600 * hour + 60 * minute + second).astype("timedelta64[s]")
    if "fraction" in text:
        stamps = stamps + _integers(compute.utf8_rpad(text["fraction"], 9, "0")).astype("timedelta64[ns]")
    return np.where(valid, stamps, np.datetime64("NaT"))


def _month_numbers(names: "pa.ChunkedArray") -> np.ndarray:
    """Convert names of months to numbers; 0 for other words."""
    from pyarrow import compute

    start = compute.utf8_slice_codeunits(compute.utf8_lower(names), 0, 3)
    places = compute.index_in(start, value_set=pyarrow().array(MONTHS))
    return numbers(places, "int64", -1) + 1


def _integers(text: "pa.ChunkedArray") -> np.ndarray:
    from pyarrow import compute

    filled = compute.if_else(compute.equal(text, ""), "0", text)
    return numbers(compute.cast(compute.fill_null(filled, "0"), pyarrow().int64()), "int64", 0)
