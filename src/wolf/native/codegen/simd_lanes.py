"""Transfer of numbers between the memory of each series and registers that hold several series."""

from collections.abc import Iterable

from wolf.native.codegen.llvm_writer import Writer

MIN_NUMBERS_FOR_LOOP = 12  # per lane; LLVM takes long to compile one instruction for each


def load(out: Writer, pointers: list[str], offsets: Iterable[int], kind: str, memory: str) -> dict[int, str]:
    """Load numbers of each lane; from a single pointer, the same number for all lanes.

    Args:
        out: the writer.
        pointers: of each lane, or one.
        offsets: offsets of the numbers.
        kind: of number.
        memory: their type in memory.

    Returns:
        The name of each number, by offset.
    """
    wanted = sorted(set(offsets))
    if kind != "f" or len(pointers) == 1 or len(wanted) <= MIN_NUMBERS_FOR_LOOP:
        return {offset: _load_one(out, pointers, offset, memory, kind) for offset in wanted}
    interleaved = gather_lanes(out, pointers, wanted[-1] + 1)
    places = {
        offset: out.define(f"getelementptr {out.types['f']}, ptr {interleaved}, i64 {offset}") for offset in wanted
    }
    return {offset: out.define(f"load {out.types['f']}, ptr {place}, align 8") for offset, place in places.items()}


def gather_lanes(out: Writer, pointers: list[str], count: int) -> str:
    """Copy the first numbers of each lane to interleaved memory, and return its address.

    Args:
        out: the writer.
        pointers: of each lane, or one for all.
        count: how many numbers.
    """
    interleaved = out.matrix(1, count)
    out.used.add(_copy_function(out.number, out.lanes, together=True))
    for lane, pointer in enumerate(pointers * (out.lanes // len(pointers))):
        at = out.define(f"getelementptr {out.number}, ptr {interleaved}, i64 {lane}")
        out.add(f"call void @gather(ptr {at}, ptr {pointer}, i64 {count})")
    return interleaved


def scatter_lanes(out: Writer, pointers: list[str], interleaved: str, count: int) -> None:
    """Copy interleaved numbers to the memory of each lane.

    Args:
        out: the writer.
        pointers: of each lane.
        interleaved: address of the interleaved numbers.
        count: how many numbers.
    """
    out.used.add(_copy_function(out.number, out.lanes, together=False))
    for lane, pointer in enumerate(pointers):
        at = out.define(f"getelementptr {out.number}, ptr {interleaved}, i64 {lane}")
        out.add(f"call void @scatter(ptr {at}, ptr {pointer}, i64 {count})")


def store(out: Writer, pointers: list[str], values: dict[int, str], kind: str, memory: str) -> None:
    """Store numbers of each lane.

    Args:
        out: the writer.
        pointers: of each lane.
        values: names of the numbers, by offset.
        kind: of number.
        memory: their type in memory.
    """
    count = len(values)
    if kind != "f" or len(pointers) == 1 or count <= MIN_NUMBERS_FOR_LOOP or set(values) != set(range(count)):
        for offset, value in values.items():
            _store_one(out, pointers, offset, value, kind, memory)
        return
    interleaved = out.matrix(1, count)
    for offset, value in values.items():
        place = out.define(f"getelementptr {out.types['f']}, ptr {interleaved}, i64 {offset}")
        out.add(f"store {out.types['f']} {value}, ptr {place}, align 8")
    scatter_lanes(out, pointers, interleaved, count)


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


def _copy_function(number: str, lanes: int, together: bool) -> str:
    """Write the function that copies the numbers of one lane to or from interleaved memory.

    `%near` is the first number of this lane in interleaved memory, `%own` its memory of its own.
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
