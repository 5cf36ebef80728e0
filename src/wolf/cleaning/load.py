"""Loading of a file as numbers: parse it, infer the role of each column, and note what was inferred."""

from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wolf.cleaning import column_roles, io
from wolf.diagnostics.faults import sentinel_values
from wolf.models.exogenous import read_exogenous

if TYPE_CHECKING:
    import pyarrow as pa

HOUR = 3600.0
SUNDAY = 6
CLOCK_CHANGE_MONTHS = (3, 4, 9, 10, 11)  # in which clocks are put forward or back
CLOCK_CHANGE_HOUR = 4  # before this hour of the day


class ReadOptions(NamedTuple):
    """Options of reading a file.

    Attributes:
        on_bad_cell: "error" or "missing", for cells that are no numbers and rows with too many or too few cells.
        header: whether a CSV file starts with column names.
        skip: number of lines above the table; None to infer it.
        comment: prefix of comment lines; None to infer it.
        missing: codes of missing values, such as -999 or ERR.
        decimal: decimal mark "." or ","; None to infer it.
        day_first: order of dates such as 01/02/2024; None to infer it.
        zone: time zone of dates without one.
    """

    on_bad_cell: str = "error"
    header: bool = True
    skip: int | None = None
    comment: str | None = None
    missing: tuple[str, ...] = ()
    decimal: str | None = None
    day_first: bool | None = None
    zone: str | None = None


class LoadedTable(NamedTuple):
    """Measurements of one or many sensors, with the table that they are from.

    Attributes:
        table: the file, without its rows: they are text, need more memory than everything else, and can be read again.
        quoted: whether a text cell needs quotes.
        time: name of the time column; None for even steps.
        axis: its times; None for even steps.
        names: of the value columns.
        values: (rows, M).
        by: name of the column that identifies the series.
        groups: series number of each row.
        labels: of the series.
        keys: of the series, in the type of the column, a `pyarrow.ChunkedArray`.
        notes: remarks about the data.
        clock: column of the time of day, if `time` has only the date.
        failed: series that could not be filtered: label -> reason.
        place: positions, if the columns are such: latitude, longitude, and optionally altitude and accuracy, (rows,)
            each. They are then filtered in metres on a plane.
        parts: columns of year, month and so on, if dates are in several columns; `time` is then the first.
        decimal: decimal mark of the values, in which results are written too.
        exog: exogenous variables, (rows, K); None without.
        sd: reported accuracy of each row, (rows,); None without.
    """

    table: io.Table
    quoted: bool
    time: str | None
    axis: io.TimeAxis | None
    names: list[str]
    values: np.ndarray
    by: str | None
    groups: np.ndarray | None
    labels: list[str] | None
    keys: "pa.ChunkedArray | None"
    notes: list[str]
    clock: str | None
    failed: dict[str, str]
    place: dict[str, np.ndarray] | None = None
    parts: tuple[str, ...] = ()
    decimal: str = "."
    exog: np.ndarray | None = None
    sd: np.ndarray | None = None

    @property
    def time_names(self) -> list[str]:
        """Names of the columns of the times."""
        return list(self.parts) or [name for name in (self.time, self.clock) if name is not None]

    @property
    def times(self) -> np.ndarray | None:
        """Time stamps as numbers."""
        return None if self.axis is None else self.axis.stamps


def load(
    source: str,
    time: tuple[str, ...] = (),
    values: tuple[str, ...] = (),
    by: str | None = None,
    how: ReadOptions = ReadOptions(),
    exog: tuple[str, ...] = (),
    sd: str | None = None,
) -> LoadedTable:
    """Read a file and find its columns.

    Args:
        source: path, or "-".
        time: name of the time column, or of the columns with date and time of day, or with the parts of a date.
            Default: inferred.
        values: names of the value columns. Default: inferred.
        by: name of the column that identifies the series.
        how: options of reading.
        exog: names of the columns of exogenous variables.
        sd: name of the column with the accuracy of each row.
    """
    table = io.read_table(source, how.header, skip=how.skip, comment=how.comment, ragged=how.on_bad_cell)
    notes: list[str] = list(table.notes)
    parts = time if column_roles.are_parts(time) else ()
    accuracy = () if sd is None else (sd,)
    if len(time) > 2 and not parts:
        expected = "one column, one with dates and one with times of day, or year, month, day and so on"
        raise ValueError(f"--time names {expected}; got {', '.join(time)}")
    keys_of = () if by is None else (by,)
    for name in (*time, *keys_of, *values, *exog, *accuracy):
        _check_name(table, name)
    _check_roles({"--time": time, "--by": keys_of, "--value": values, "--exog": exog, "--sd": accuracy})
    others = {by, *values, *exog, *accuracy}
    columns = column_roles.describe(table, how.decimal)
    dated = time[0] if time else column_roles.find_time(table, columns, others, notes)
    clock = time[1] if len(time) > 1 else None if time else column_roles.find_clock(table, columns, dated, others)
    if dated is None:
        parts = column_roles.find_parts(columns, others)
    dated, clock = (parts[0], None) if parts else (dated, clock)
    places = column_roles.find_place(columns, values)
    names = list(dict.fromkeys(values))
    if not names and places:
        names = [places["latitude"], places["longitude"]]
    names = names or [column_roles.find_value(table, columns, {dated, clock, *parts, *others}, notes)]
    groups, labels, keys = (None, None, None) if by is None else io.group_column(table, by)
    stacked, decimal = _value_columns(table, names, how, notes, groups)
    axis = None
    if parts:
        axis = io.parts_axis(table, parts, how.zone, groups)
    elif dated is not None:
        axis = io.time_column(table, dated, clock, day_first=how.day_first, zone=how.zone, groups=groups)
    if axis is not None:
        _note_clock_change(axis, groups, notes)
    quoted = io.needs_quotes(table.data, table.delimiter)
    found = (dated, axis, names, stacked, by, groups, labels, keys, notes, clock)
    place = {kind: _numbers(table, name, how, notes).values for kind, name in places.items()} if places else None
    if place:
        described = " and ".join(f"{name!r} as {kind}" for kind, name in places.items())
        notes.append(f"positions ({described}) are cleaned in metres on a plane")
    noise = _accuracy(table, sd, how, notes, place)
    regressors = _regressors(table, exog, how, place)
    return LoadedTable(table.without_rows(), quoted, *found, {}, place, parts, decimal, regressors, noise)


def _value_columns(
    table: io.Table, names: list[str], how: ReadOptions, notes: list[str], groups: np.ndarray | None
) -> tuple[np.ndarray, str]:
    """Read the value columns, (rows, M), and their decimal mark."""
    columns = [_numbers(table, name, how, notes, groups) for name in names]
    decimal = "," if any(column.style.decimal == "," for column in columns) else "."
    return np.stack([column.values for column in columns], axis=1), decimal


def _accuracy(
    table: io.Table, name: str | None, how: ReadOptions, notes: list[str], place: dict[str, np.ndarray] | None
) -> np.ndarray | None:
    """Read the accuracy of each row, (rows,), and add it to that of positions."""
    if name is None:
        return None
    found = _numbers(table, name, how, notes).values
    if place:
        place["accuracy"] = found
    return found


def _regressors(
    table: io.Table, names: tuple[str, ...], how: ReadOptions, place: dict[str, np.ndarray] | None
) -> np.ndarray | None:
    """Read exogenous variables, (rows, K)."""
    if not names:
        return None
    if place:
        raise ValueError("--exog goes with measurements, not with positions: name a column with --value")
    columns = [_numbers(table, name, how, []).values for name in names]
    return read_exogenous(np.stack(columns, axis=1), names, "--exog").values


def _numbers(
    table: io.Table, name: str, how: ReadOptions, notes: list[str], groups: np.ndarray | None = None
) -> io.Numbers:
    """Read the numbers of a column, and add remarks about them to the notes."""
    codes, words = _split_missing(how.missing)
    found = io.number_column(table, name, how.on_bad_cell, how.decimal, words)
    if found.absent:
        listed = ", ".join(f"{word!r} ({count:,})" for word, count in found.absent.most_common(3))
        notes.append(f"{found.absent.total():,} cells of {name!r} are marked as missing: {listed}")
    if found.bad:
        rows = ", ".join(str(row + 1) for row in found.bad[:5]) + (", ..." if len(found.bad) > 5 else "")
        notes.append(f"{len(found.bad)} cells of {name!r} are no numbers and treated as missing (rows {rows})")
    if not found.style.plain:
        notes.append(f"{name!r} is written with {found.style}")
    if not found.style.sure:
        other = "." if found.style.decimal == "," else ","
        notes.append(
            f"{name!r} could also be read with --decimal {other}: thousands and decimals cannot be distinguished"
        )
    marked = np.isin(found.values, codes) if codes else np.zeros(len(found.values), bool)
    if marked.any():
        notes.append(f"{int(marked.sum()):,} values of {name!r} are treated as missing, by --missing")
    values = np.where(marked, np.nan, found.values) if marked.any() else found.values
    suspected = sentinel_values.codes(values)
    for code, count in suspected.items():
        notes.append(
            f"{code:g} occurs {count:,} times in {name!r}, far from all other values: if it marks missing values, "
            f"add --missing {code:g}"
        )
    moving = values if groups is None else values[~_in_constant(values, groups)]
    for limit, count in sentinel_values.limits(moving[~np.isin(moving, list(suspected))]).items():
        notes.append(
            f"{count:,} values of {name!r} are exactly {limit:g}, the limit of its range: "
            "the true value may be beyond it"
        )
    return found._replace(values=values)


def _in_constant(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Find the rows of constant series, whose value is no limit of the range of the others, (T,)."""
    least, most = np.full(groups.max(initial=0) + 1, np.inf), np.full(groups.max(initial=0) + 1, -np.inf)
    known = np.isfinite(values)
    np.minimum.at(least, groups[known], values[known])
    np.maximum.at(most, groups[known], values[known])
    return np.asarray((least == most)[groups])


def _split_missing(given: tuple[str, ...]) -> tuple[list[float], tuple[str, ...]]:
    """Separate numeric codes from words."""
    codes, words = [], []
    for cell in given:
        try:
            codes.append(float(cell))
        except ValueError:
            words.append(cell)
    return codes, tuple(words)


def _note_clock_change(axis: io.TimeAxis, groups: np.ndarray | None, notes: list[str]) -> None:
    """Add a note if the clock seems to have been put back at the end of daylight saving time."""
    if axis.origin is None or axis.zoned or axis.zone or groups is not None or len(axis.stamps) < 2:
        return
    steps = np.diff(axis.stamps)
    back = np.flatnonzero(steps <= 0)
    if not back.size or steps[back].min() < -HOUR:
        return
    moments = np.datetime64(axis.origin, "ns") + (axis.stamps[back] * 1e9).astype("timedelta64[ns]")
    days = moments.astype("datetime64[D]")
    sundays = (days.astype(np.int64) + 3) % 7 == SUNDAY  # 1970 began on a Thursday
    months = moments.astype("datetime64[M]").astype(np.int64) % 12 + 1
    hours = (moments - days).astype("timedelta64[h]").astype(np.int64)
    if np.all(sundays & np.isin(months, CLOCK_CHANGE_MONTHS) & (hours < CLOCK_CHANGE_HOUR)):
        notes.append(
            "the clock seems to have been put back for winter time: give the time zone, such as --zone Europe/Berlin"
        )


def _check_name(table: io.Table, name: str) -> None:
    names = table.data.column_names
    if name in names:
        return
    close = get_close_matches(name.lower(), [known.lower() for known in names], n=1, cutoff=0.4)
    near = [known for known in names if close and known.lower() == close[0]]
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{table.name} has no column {name!r}.{hint} Its columns are {', '.join(map(repr, names))}")


def _check_roles(given: dict[str, tuple[str, ...]]) -> None:
    """Raise an error for a column with two roles; names by option."""
    for name in {name for names in given.values() for name in names}:
        options = [option for option, names in given.items() if name in names]
        if len(options) > 1:
            raise ValueError(f"column {name!r} cannot be both {' and '.join(options)}")
