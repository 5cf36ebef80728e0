"""Numbers of several series on their way between memory, where each has its own, and registers of all of them."""

from collections.abc import Iterable

from wolf.native.codegen.llvm_writer import Writer

LONG = 12  # numbers of a lane from which they are moved by a loop: a line for each takes LLVM long to compile


def load(out: Writer, pointers: list[str], offsets: Iterable[int], kind: str, memory: str) -> dict[int, str]:
    """Load numbers of each lane; from one pointer, the same for all.

    Args:
        out: what is written.
        pointers: of each lane, or one.
        offsets: which numbers.
        kind: of number.
        memory: type that they have in memory.

    Returns:
        The name of each, by offset.
    """
    wanted = sorted(set(offsets))
    if kind != "f" or len(pointers) == 1 or len(wanted) <= LONG:
        return {offset: _load_one(out, pointers, offset, memory, kind) for offset in wanted}
    near = bring(out, pointers, wanted[-1] + 1)
    places = {offset: out.define(f"getelementptr {out.types['f']}, ptr {near}, i64 {offset}") for offset in wanted}
    return {offset: out.define(f"load {out.types['f']}, ptr {place}, align 8") for offset, place in places.items()}


def bring(out: Writer, pointers: list[str], count: int) -> str:
    """Put the first numbers of each lane into memory of all of them, and say where that is.

    Args:
        out: what is written.
        pointers: of each lane, or one for all.
        count: of numbers.
    """
    near = out.matrix(1, count)
    out.used.add(_mover(out.number, out.lanes, together=True))
    for lane, pointer in enumerate(pointers * (out.lanes // len(pointers))):
        at = out.define(f"getelementptr {out.number}, ptr {near}, i64 {lane}")
        out.add(f"call void @gather(ptr {at}, ptr {pointer}, i64 {count})")
    return near


def take(out: Writer, pointers: list[str], near: str, count: int) -> None:
    """Put numbers that lie in memory of all lanes where each has its own.

    Args:
        out: what is written.
        pointers: of each lane.
        near: where those of all lanes lie.
        count: of numbers.
    """
    out.used.add(_mover(out.number, out.lanes, together=False))
    for lane, pointer in enumerate(pointers):
        at = out.define(f"getelementptr {out.number}, ptr {near}, i64 {lane}")
        out.add(f"call void @scatter(ptr {at}, ptr {pointer}, i64 {count})")


def store(out: Writer, pointers: list[str], values: dict[int, str], kind: str, memory: str) -> None:
    """Store numbers of each lane.

    Args:
        out: what is written.
        pointers: of each lane.
        values: names of the numbers, by offset.
        kind: of number.
        memory: type that they have in memory.
    """
    count = len(values)
    if kind != "f" or len(pointers) == 1 or count <= LONG or set(values) != set(range(count)):
        for offset, value in values.items():
            _store_one(out, pointers, offset, value, kind, memory)
        return
    near = out.matrix(1, count)
    for offset, value in values.items():
        place = out.define(f"getelementptr {out.types['f']}, ptr {near}, i64 {offset}")
        out.add(f"store {out.types['f']} {value}, ptr {place}, align 8")
    take(out, pointers, near, count)


def _load_one(out: Writer, pointers: list[str], offset: int, memory: str, kind: str) -> str:
    numbers = []
    for pointer in pointers:
        at = out.define(f"getelementptr {memory}, ptr {pointer}, i64 {offset}")
        value = out.define(f"load {memory}, ptr {at}")
        if kind == "b":
            value = out.define(f"icmp ne {memory} {value}, 0")
        numbers.append(value)
    scalar = {"f": out.number, "i": "i32", "b": "i1"}[kind]
    if len(numbers) == 1:
        return out.splat(numbers[0], scalar)
    whole = "poison"
    for lane, value in enumerate(numbers):
        whole = out.define(f"insertelement {out.types[kind]} {whole}, {scalar} {value}, i32 {lane}")
    return whole


def _store_one(out: Writer, pointers: list[str], offset: int, value: str, kind: str, memory: str) -> None:
    scalar = {"f": out.number, "i": "i32", "b": "i1"}[kind]
    for lane, pointer in enumerate(pointers):
        one = value if out.lanes == 1 else out.define(f"extractelement {out.types[kind]} {value}, i32 {lane}")
        if kind == "b":
            one = out.define(f"zext i1 {one} to {memory}")
        elif memory != scalar:
            one = out.define(f"sext {scalar} {one} to {memory}")
        at = out.define(f"getelementptr {memory}, ptr {pointer}, i64 {offset}")
        out.add(f"store {memory} {one}, ptr {at}")


def _mover(number: str, lanes: int, together: bool) -> str:
    """Write the function that moves the numbers of one lane to where those of all lanes lie, or back from there.

    `%near` is where this lane begins among all of them, `%own` is where it has its numbers to itself.
    """
    name, source, target = ("gather", "%mine", "%among") if together else ("scatter", "%among", "%mine")
    return f"""define internal void @{name}(ptr noalias %near, ptr noalias %own, i64 %count) {{
entry:
  br label %again
again:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  %far = mul i64 %i, {lanes}
  %among = getelementptr {number}, ptr %near, i64 %far
  %mine = getelementptr {number}, ptr %own, i64 %i
  %value = load {number}, ptr {source}
  store {number} %value, ptr {target}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %again, label %end
end:
  ret void
}}"""
