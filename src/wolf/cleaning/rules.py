"""Rules for readings: a range, a largest rate of change, and a longest time at one value, for each column.

They are the gross range, rate of change and flat line tests of QARTOD (U.S. IOOS). A reading that violates a rule is a
fault, whatever the model expects.

    rules = {"temperature": {"min": -20, "max": 45, "max_rate": "5/h", "flat_for": "6h"}}

The same as a table of a TOML file:

    [rules.temperature]
    min = -20
    max_rate = "5/h"
"""

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wolf import validation
from wolf.cleaning import durations
from wolf.numerics.runs import runs_of

ALL_COLUMNS = ""  # key of rules that apply to every column
NAMES = ("min", "max", "max_rate", "flat_for")
RATE = re.compile(r"\s*([0-9.eE+-]+)\s*/\s*([0-9.]*)\s*([A-Za-z]+)\s*")
TOLERANCE = 1e-9  # relative, of a rate: readings at the limit are within it
EXAMPLE = "{'temperature': {'min': -20, 'max': 45, 'max_rate': '5/h', 'flat_for': '6h'}}"


class Rule(NamedTuple):
    """Limits of the readings of one column.

    Attributes:
        min: smallest reading.
        max: largest reading.
        max_rate: largest change, and the duration or number of rows that it refers to.
        flat_for: time, or number of rows, that readings may stay at exactly one value.
    """

    min: float = -np.inf
    max: float = np.inf
    max_rate: tuple[float, str | float] | None = None
    flat_for: str | float | None = None


class Violations(NamedTuple):
    """Rows of one column that violate its rule, (T,) of bool each.

    Attributes:
        range: outside of the smallest and largest reading.
        rate: that change too fast, and return within the longest fault.
        flat: repeats of one value for too long, without the first.
        jump: first readings after a change that is too fast and stays; they are suspect, and no faults.
    """

    range: np.ndarray
    rate: np.ndarray
    flat: np.ndarray
    jump: np.ndarray


def parse(rules: Any) -> dict[str, Rule]:
    """Convert rules to one `Rule` per column.

    Args:
        rules: mapping of columns to mappings with `min`, `max`, `max_rate` and `flat_for`; or one such mapping for
            every column; or a TOML file with a table `rules`; or None.

    Example:
        >>> parse({"t": {"min": -20, "max_rate": "5/h"}})
        {'t': Rule(min=-20.0, max=inf, max_rate=(5.0, '1h'), flat_for=None)}
    """
    if rules is None:
        return {}
    if isinstance(rules, str | PathLike):
        rules = read_toml(rules).get("rules", {})
    if not isinstance(rules, Mapping):
        raise ValueError(
            f"rules must be a mapping such as {EXAMPLE}, or a TOML file; got {validation.short_repr(rules)}"
        )
    if rules and not any(isinstance(each, Mapping) for each in rules.values()):
        rules = {ALL_COLUMNS: rules}
    return {str(column): _parse_one(str(column), limits) for column, limits in rules.items()}


def read_toml(path: str | PathLike[str]) -> dict[str, Any]:
    """Read a TOML file; a `ValueError` names the line of an error."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from error


def _parse_one(column: str, limits: Any) -> Rule:
    of = f" of {column!r}" if column else ""
    if not isinstance(limits, Mapping):
        raise ValueError(f"rules{of} must be a mapping such as {{'min': -20, 'max': 45}}; got {limits!r}")
    unknown = [str(name) for name in limits if name not in NAMES]
    if unknown:
        raise ValueError(f"there is no rule {unknown[0]!r}{of}; the rules are {', '.join(NAMES)}")
    ends: dict[str, float] = {}
    for name in ("min", "max"):
        if limits.get(name) is not None:
            ends[name] = _number(f"{name}{of}", limits[name])
    if ends.get("min", -np.inf) > ends.get("max", np.inf):
        raise ValueError(f"min{of} is {ends['min']:g}, which is larger than max, {ends['max']:g}")
    rate = limits.get("max_rate")
    durations.check(f"flat_for{of}", limits.get("flat_for"), min_rows=2)
    return Rule(
        **ends,
        max_rate=None if rate is None else _parse_rate(f"max_rate{of}", rate),
        flat_for=limits.get("flat_for"),
    )


def _number(name: str, given: Any) -> float:
    try:
        number = float("nan") if isinstance(given, bool) else float(given)
    except (TypeError, ValueError):
        number = float("nan")
    if not np.isfinite(number):
        raise ValueError(f"{name} must be a number; got {given!r}")
    return number


def _parse_rate(name: str, given: Any) -> tuple[float, str | float]:
    """Parse a rate such as 5/h, 0.2/15min or 3/row; a number alone is per row."""
    found = RATE.fullmatch(given) if isinstance(given, str) else None
    try:
        number = float(given if found is None else found[1])
        if isinstance(given, bool) or not 0.0 < number < np.inf:
            raise ValueError
    except (TypeError, ValueError):
        message = f"{name} must be a positive number per duration, such as 5/h, 0.2/15min or 3/row; got {given!r}"
        raise ValueError(message) from None
    if found is None or found[3].lower() in ("row", "rows"):
        return number, float(found[2] or 1) if found else 1.0
    duration = (found[2] or "1") + found[3]
    durations.check(name, duration)
    return number, duration


def check_columns(rules: Mapping[str, Rule], names: list[str]) -> None:
    """Raise an error for a rule of a column that is not filtered."""
    for column in rules:
        if column != ALL_COLUMNS and column not in names:
            close = get_close_matches(column, names, n=1, cutoff=0.4)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            listed = ", ".join(map(repr, names))
            raise ValueError(f"there is a rule for {column!r}, which is not filtered.{hint} Value columns: {listed}")


def rule_of(rules: Mapping[str, Rule], column: str) -> Rule | None:
    """Return the rule of a column, with that of every column where it sets no limit; None without.

    Example:
        >>> rule_of({"": Rule(min=0.0, max=9.0), "t": Rule(max=5.0)}, "t")
        Rule(min=0.0, max=5.0, max_rate=None, flat_for=None)
    """
    own, common = rules.get(column), rules.get(ALL_COLUMNS)
    if own is None or common is None:
        return own or common
    given = {name: value for name, value in own._asdict().items() if value != Rule._field_defaults[name]}
    return common._replace(**given)


def violations(
    rule: Rule,
    values: np.ndarray,
    place: np.ndarray,
    unit: float,
    dated: bool,
    longest: int,
    causal: bool = False,
) -> Violations:
    """Find the readings of one column that violate its rule.

    Args:
        rule: limits.
        values: (T,), NaN where missing.
        place: time of each row, in typical steps, (T,), increasing.
        unit: typical step, in the unit of the times.
        dated: whether times are those of a clock.
        longest: rows of the longest fault; readings that change too fast and stay for longer are a jump.
        causal: judge each reading by those before it.

    Example:
        >>> rule = parse({"min": 0.0, "max_rate": "2/row"})[""]
        >>> values = np.array([1.0, 2.0, 9.0, 3.0, -1.0])
        >>> found = violations(rule, values, np.arange(5.0), 1.0, False, 3)
        >>> found.range.tolist(), found.rate.tolist()
        ([False, False, False, False, True], [False, False, True, False, False])
    """
    with np.errstate(invalid="ignore"):
        beyond = (values < rule.min) | (values > rule.max)
    left = np.where(beyond | ~np.isfinite(values), np.nan, values)
    flat = np.zeros(len(values), bool)
    if rule.flat_for is not None:
        steps = durations.steps_in("flat_for", rule.flat_for, unit, dated)
        steps -= 1.0 if durations.is_rows("flat_for", rule.flat_for) else 0.0
        flat = _flat_rows(left, place, steps, causal)
        left[flat] = np.nan
    rate = jump = np.zeros(len(values), bool)
    if rule.max_rate is not None:
        change, duration = rule.max_rate
        limit = change / durations.steps_in("max_rate", duration, unit, dated)
        rate, jump = (_causal_rate_rows if causal else _rate_rows)(left, place, limit, longest)
    return Violations(beyond, rate, flat, jump)


def _flat_rows(values: np.ndarray, place: np.ndarray, steps: float, causal: bool) -> np.ndarray:
    """Find repeats of one value for at least so many steps, without the first of them; if causal, from there on."""
    known = np.flatnonzero(np.isfinite(values))
    found = np.zeros(len(values), bool)
    for first, stop in (
        runs_of(np.concatenate([[False], values[known][1:] == values[known][:-1]])) if known.size else []
    ):
        if place[known[stop - 1]] - place[known[first - 1]] >= steps * (1.0 - TOLERANCE):
            late = place[known[first:stop]] - place[known[first - 1]] >= steps * (1.0 - TOLERANCE)
            found[known[first:stop]] = late if causal else True
    return found


def _rate_rows(values: np.ndarray, place: np.ndarray, limit: float, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the fewest readings without which no change is faster than a limit per step.

    Readings i and j are consistent if |y_j - y_i| <= r |t_j - t_i|, which is r t + y and r t - y both in order. So the
    largest consistent subset is a longest non-decreasing subsequence of one, sorted by the other.
    """
    known = np.flatnonzero(np.isfinite(values))
    rate, jump = np.zeros(len(values), bool), np.zeros(len(values), bool)
    y, t = values[known], limit * (1.0 + TOLERANCE) * place[known]
    fast = np.concatenate([[False], np.abs(np.diff(y)) > np.diff(t)]) if known.size else np.zeros(0, bool)
    if not fast.any():
        return rate, jump
    upper, lower = t + y, t - y
    order = np.lexsort((upper, lower))
    kept = np.zeros(len(known), bool)
    kept[order[_longest_chain(upper[order].tolist())]] = True
    for first, stop in runs_of(~kept):
        if stop - first <= longest:
            rate[known[first:stop]] = True
        else:
            jump[known[first : stop + 1]] |= fast[first : stop + 1]
    return rate, jump


def _causal_rate_rows(
    values: np.ndarray, place: np.ndarray, limit: float, longest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Find readings that change too fast since the last one that did not; more of them in a row are a jump."""
    rate, jump = np.zeros(len(values), bool), np.zeros(len(values), bool)
    limit *= 1.0 + TOLERANCE
    last, rejected = -1, 0
    for row in np.flatnonzero(np.isfinite(values)).tolist():
        fast = last >= 0 and abs(values[row] - values[last]) > limit * (place[row] - place[last])
        if fast and rejected < longest:
            rate[row], rejected = True, rejected + 1
        else:
            jump[row], last, rejected = fast, row, 0
    return rate, jump


def _longest_chain(numbers: list[float]) -> list[int]:
    """Return the indices of a longest non-decreasing subsequence (patience sorting)."""
    tails: list[float] = []
    last: list[int] = []  # index of the end of the best chain of each length
    before = [-1] * len(numbers)
    for i, number in enumerate(numbers):
        k = bisect_right(tails, number)
        before[i] = last[k - 1] if k else -1
        if k == len(tails):
            tails.append(number)
            last.append(i)
        else:
            tails[k], last[k] = number, i
    chain = []
    i = last[-1] if last else -1
    while i >= 0:
        chain.append(i)
        i = before[i]
    return chain[::-1]
