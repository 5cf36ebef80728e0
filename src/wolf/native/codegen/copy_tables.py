"""Copies of many numbers between places in memory: a loop over a table of places.

One instruction to load each number and one to store it are most of the code of a large step, and most of the time to
compile it. Numbers copied from memory to memory need neither.
"""

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from wolf.native.codegen.llvm_writer import Writer

MIN_NUMBERS = 200  # numbers of an array from which a loop is faster: fewer stay in registers
RUN_LENGTH = 8  # contiguous numbers that are copied at once


class Home(NamedTuple):
    """Location of a number in memory: an offset in numbers behind an address."""

    base: str
    place: int


def move(out: "Writer", target: str, pairs: Iterable[tuple[int, Home]]) -> None:
    """Copy numbers to places behind an address, from wherever they are in memory.

    Args:
        out: the writer.
        target: the destination address.
        pairs: destination offset and source location of each number.
    """
    by_base: dict[str, list[tuple[int, int]]] = {}
    for place, home in pairs:
        by_base.setdefault(home.base, []).append((place, home.place))
    for base, found in by_base.items():
        runs, singles = _contiguous_runs(found) if out.lanes == 1 else ([], found)
        for count, table in ((RUN_LENGTH, runs), (1, singles)):
            if table:
                _call(out, target, base, count, table)


def _contiguous_runs(pairs: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Find runs of numbers that are contiguous at both ends; return their beginnings, and the other numbers."""
    runs, singles, first = [], [], 0
    while first < len(pairs):
        candidates = pairs[first : first + RUN_LENGTH]
        (to, origin), count = candidates[0], len(candidates)
        if count == RUN_LENGTH and candidates == [(to + i, origin + i) for i in range(RUN_LENGTH)]:
            runs.append(candidates[0])
            first += RUN_LENGTH
        else:
            singles.append(candidates[0])
            first += 1
    return runs, singles


def _call(out: "Writer", target: str, base: str, count: int, table: list[tuple[int, int]]) -> None:
    """Write the call, its table, and the loop over the table."""
    entries = ", ".join(f"i32 {number}" for pair in table for number in pair)
    name = f"@places_{hashlib.sha256(entries.encode()).hexdigest()[:16]}"
    out.used.add(f"{name} = private constant [{2 * len(table)} x i32] [{entries}]")
    out.used.add(_function(out.number, out.types["f"], count))
    out.add(f"call void @move_{count}(ptr {target}, ptr {base}, ptr {name}, i64 {len(table)})")


def _function(number: str, one: str, count: int) -> str:
    """Write the loop that copies as many numbers, or registers, at a time."""
    unit = one if count == 1 else f"<{count} x {number}>"
    return f"""define internal void @move_{count}(ptr %to, ptr %from, ptr noalias %table, i64 %count) noinline {{
entry:
  br label %again
again:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  %entry.at = getelementptr {{ i32, i32 }}, ptr %table, i64 %i
  %other.at = getelementptr i32, ptr %entry.at, i64 1
  %there = load i32, ptr %entry.at
  %here = load i32, ptr %other.at
  %target = getelementptr {one}, ptr %to, i32 %there
  %source = getelementptr {one}, ptr %from, i32 %here
  %value = load {unit}, ptr %source, align 8
  store {unit} %value, ptr %target, align 8
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %again, label %end
end:
  ret void
}}"""
