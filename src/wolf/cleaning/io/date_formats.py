"""How people write dates, other than in ISO 8601: the order of day, month and year, found from the dates themselves."""

import re
from typing import Any, NamedTuple

import numpy as np

from wolf.cleaning.io.arrow_numpy import nulls, numbers
from wolf.cleaning.io.number_formats import ABSENT
from wolf.cleaning.io.table import pyarrow

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
SHAPES = {  # how a date looks -> how it is written again
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
PIVOT = 69  # two digits up to here are of this century, as POSIX has it
PARTS = ("hour", "minute", "second")
EITHER = ("day first", "month first")
ASK = "could be day or month first; add --day-first or --month-first"


class Shape(NamedTuple):
    """How the dates of a column are written.

    Attributes:
        kind: one of `SHAPES`.
        again: for `strftime`, to write more of them.
    """

    kind: str
    again: str


def find_shape(cells: list[Any], day_first: bool | None = None, whole: Any = None) -> Shape | None:
    """Find how dates are written; None if they are no dates, or not all in one way.

    Args:
        cells: some of a column.
        day_first: where both are possible, whether the day stands before the month; None to tell from the dates.
        whole: the column, a `pyarrow.Array`, which is asked where some cells do not tell.

    Raises:
        LookupError: if both are possible, and nothing tells which.

    Example:
        >>> find_shape(["31.1.2015 10:00", "1.2.2015 11:00"])
        Shape(kind='day first', again='%d.%m.%Y %H:%M')
    """
    present = [str(cell).strip() for cell in cells if cell is not None and str(cell).strip().lower() not in ABSENT]
    if not present:
        return None
    fitting = [kind for kind in SHAPES if all(_fits(kind, cell) for cell in present)]
    if set(EITHER) <= set(fitting):
        kind = EITHER[0 if day_first else 1] if day_first is not None else None
        kind = kind or _possible(whole) or _told_apart(present)
        if kind is None:
            raise LookupError(ASK)
        return Shape(kind, _again(kind, present[0]))
    return Shape(fitting[0], _again(fitting[0], present[0])) if fitting else None


def _possible(whole: Any) -> str | None:
    """Say which order all dates of a column can have, if it is one only."""
    if whole is None:
        return None
    wrong = [int(np.isnat(parse(whole, kind)).sum()) for kind in EITHER]
    return None if wrong[0] == wrong[1] else EITHER[int(wrong[1] < wrong[0])]


def _fits(kind: str, cell: str) -> bool:
    match = re.fullmatch(SHAPES[kind][0], cell)
    if match is None:
        return False
    found = match.groupdict()
    month = MONTHS.index(found["name"][:3].lower()) + 1 if found.get("name", "")[:3].lower() in MONTHS else None
    month = int(found["month"]) if found.get("month") else month
    return month is not None and 1 <= month <= 12 and 1 <= int(found.get("day") or 1) <= 31


def _told_apart(cells: list[str]) -> str | None:
    """Tell day first from month first: points mean the day, and steps are even in one reading only."""
    if re.match(r"\d{1,2}\.", cells[0]):
        return EITHER[0]
    even = []
    for kind in EITHER:
        stamps = parse(pyarrow().array(cells), kind)
        gaps = np.unique(np.diff(stamps).astype(np.int64))
        if len(cells) > 2 and not np.isnat(stamps).any() and len(gaps) == 1 and gaps[0] != 0:
            even.append(kind)
    return even[0] if len(even) == 1 else None


def _again(kind: str, cell: str) -> str:
    """Say how to write a date as a cell is written."""
    match = re.fullmatch(SHAPES[kind][0], cell)
    assert match is not None
    found, pattern = match.groupdict(), SHAPES[kind][1]
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


def parse(column: Any, kind: str) -> np.ndarray:
    """Turn text into dates, (rows,) of datetime64[ns]; NaT where it is none.

    Args:
        column: a `pyarrow.Array` of text.
        kind: one of `SHAPES`.
    """
    from pyarrow import compute

    found = compute.extract_regex(compute.utf8_trim_whitespace(column), f"^{SHAPES[kind][0]}$")
    text = {field.name: found.field(field.name) for field in found.type}
    there, zeros = ~nulls(found), np.zeros(len(column), np.int64)
    year = _whole(text["year"])
    short = numbers(compute.utf8_length(text["year"]), "int64", 0) == 2
    year = np.where(short, year + np.where(year < PIVOT, 2000, 1900), year)
    month = _whole(text["month"]) if "month" in text else _named(text["name"])
    day = _whole(text["day"]) if "day" in text else zeros + 1
    hour, minute, second = (_whole(text[part]) if part in text else zeros for part in PARTS)
    if "half" in text:
        half = compute.utf8_lower(text["half"])
        late, early = (numbers(compute.cast(compute.equal(half, one), "int8"), "int64", 0) == 1 for one in "pa")
        there &= ~(late | early) | ((hour >= 1) & (hour <= 12))
        hour = np.where(late | early, hour % 12 + 12 * late, hour)
    there &= (month >= 1) & (month <= 12) & (hour < 24) & (minute < 60) & (second < 60) & (year >= 1678) & (year < 2262)
    months = np.where(there, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1).astype("timedelta64[D]")
    there &= (day >= 1) & (days.astype("datetime64[M]") == months)  # there is no 30 February
    stamps = days.astype("datetime64[ns]") + (3600 * hour + 60 * minute + second).astype("timedelta64[s]")
    if "fraction" in text:
        stamps = stamps + _whole(compute.utf8_rpad(text["fraction"], 9, "0")).astype("timedelta64[ns]")
    return np.where(there, stamps, np.datetime64("NaT"))


def _named(names: Any) -> np.ndarray:
    """Turn the names of months into their numbers; 0 for other words."""
    from pyarrow import compute

    start = compute.utf8_slice_codeunits(compute.utf8_lower(names), 0, 3)
    places = compute.index_in(start, value_set=pyarrow().array(MONTHS))
    return numbers(places, "int64", -1) + 1


def _whole(text: Any) -> np.ndarray:
    from pyarrow import compute

    filled = compute.if_else(compute.equal(text, ""), "0", text)
    return numbers(compute.cast(compute.fill_null(filled, "0"), pyarrow().int64()), "int64", 0)
