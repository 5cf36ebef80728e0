"""Files that hold no table, and tables with odd lines, cells and columns."""

import numpy as np
import pyarrow as pa
from tests.attack.made import GOOD, IN, LEVEL, ROWS, add, folder, link, one, packed, run, table, text, twice

# files that hold no table

EMPTY = {
    "nothing": (b"", "is empty"),
    "a newline": (b"\n", "is empty"),
    "newlines": (b"\n\r\n\n", "is empty"),
    "blanks": (b"   \t\n", "is empty"),
    "a mark": (b"\xef\xbb\xbf", "is empty"),
    "a mark and a newline": (b"\xef\xbb\xbf\n", "is empty"),
    "a header": (b"time,value\n", "no rows"),
    "a header without a newline": (b"time,value", "no rows"),
    "one name without a newline": (b"value", "no rows"),
    "a header and a newline": (b"time,value\n\n", "no rows"),
    "a header that ends in CR": (b"time,value\r", "no rows"),
    "only delimiters": (b",,\n1,2,3\n", "two columns called ''"),
    "zeros": (b"\0" * 64, "not a csv table"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "not a csv table"),
    "JSON lines": (b'{"t": 1, "y": 2.5}\n{"t": 2, "y": 2.6}\n', "JSON"),
    "JSON": (b'[{"t": 1, "y": 2.5},\n {"t": 2, "y": 2.6}]\n', "JSON"),
    "HTML": (b"<!DOCTYPE html>\n<html><body>1,2</body></html>\n", "HTML"),
    "an Excel file": (b"PK\x03\x04\x14\x00\x06\x00" + bytes(64), "Excel"),
    "numbers only": (b"1,2\n3,4\n", "--no-header"),
    "ragged rows": (b"a,b\n1,2\n3,4,5\n", "Expected 2 columns, got 3"),
    "short rows": (b"a,b\n1,2\n3\n", "Expected 2 columns, got 1"),
    "an open quote": (b'a,b\n1,"2\n3,4\n', ""),
}
for name, (content, words) in EMPTY.items():
    run(f"a file of {name}", {"in.csv": content}, words=words)
    run(f"standard input of {name}", {}, stdin=content, words=words)
for suffix in (".parquet", ".arrow"):
    for name, content in {"nothing": b"", "a newline": b"\n", "text": GOOD.encode(), "zeros": bytes(64)}.items():
        run(f"{suffix} of {name}", {f"in{suffix}": content}, words="is empty" if not content else "not a")
    run(f"{suffix} without rows", {f"in{suffix}": table().slice(0, 0)}, words="no rows")
    run(f"{suffix} with two columns of one name", {f"in{suffix}": twice()}, words="two columns called 'value'")
    run(f"{suffix} without columns", {f"in{suffix}": pa.table({})}, words="no ")
run("parquet that was cut", {"in.parquet": b"PAR1" + bytes(30)}, words="not a parquet")
run("arrow that was cut", {"in.arrow": b"ARROW1\0\0" + bytes(30)}, words="not a arrow")
run("gzip", {"in.csv.gz": packed(GOOD)}, code=0, written=("in.csv-clean.csv",))
run("gzip that was cut", {"in.csv.gz": packed(GOOD)[:30]})
run("gzip that is text", {"in.csv.gz": GOOD})
run("gzip of nothing", {"in.csv.gz": packed("")}, words="is empty")
run("a folder as input", {"in.csv": folder}, words="is a folder")
run("no such file", {}, "--by", "x", words="is empty")
add("no such name", {}, "filter", "nowhere.csv", words="there is no file nowhere.csv")
add("an empty name", {}, "filter", "", words="there is no file")
add("a long name", {}, "filter", "x" * 300, words="too long")
add("a name with a zero", {}, "filter", "x\0y", words="null")
run("a link to nothing as input", {"in.csv": link("gone")}, words="there is no file")
add("/dev/null as input", {}, "filter", "/dev/null", "--out", "x.csv", words="is empty")
for command in ("compare", "tune"):
    add(f"{command} of a newline", {"in.csv": "\n"}, command, "in.csv", words="is empty")
    add(f"{command} of two names", {"in.arrow": twice()}, command, "in.arrow", words="two columns")
    add(f"{command} by no column", IN, command, "in.csv", "--by", "x", words="no column 'x'")

# lines, cells, columns

for name, end in {"LF": "\n", "CRLF": "\r\n", "CR": "\r"}.items():
    run(f"lines end in {name}", {"in.csv": text(end=end)}, code=0, written=("in-clean.csv",), words="30 rows")
    run(f"lines of one column end in {name}", {"in.csv": text(map(str, LEVEL), "value", end)}, code=0, words="30 rows")
run("no newline at the end", {"in.csv": GOOD.rstrip()}, code=0, words="30 rows")
run("a mark in front", {"in.csv": "\ufeff" + GOOD}, "--time", "time", code=0, words="30 rows")
for name, mark in {"semicolons": ";", "tabs": "\t", "bars": "|"}.items():
    run(f"columns apart by {name}", {"in.csv": GOOD.replace(",", mark)}, code=0, words="time, every 1")
run("two columns of one name", {"in.csv": text(["1,2"], "a,a")}, words="two columns called 'a'")
run("a value called mean", {"in.csv": text(header="time,mean")}, code=0, written=("in-clean.csv",))
run("a column called wolf_mean", {"in.csv": text(header="mean,wolf_mean")}, "--value", "mean", code=0)
for cell in ("1e300", "-1e300", "1e308", "1e-300", "inf", "-Infinity", "1e200", "1e5000"):
    run(f"a value of {cell}", {"in.csv": one(7, cell)}, code=0, written=("in-clean.csv",))
    run(f"a first value of {cell}", {"in.csv": one(0, cell)}, code=0, written=("in-clean.csv",))
    run(f"a value of {cell} in between, fitted", {"in.csv": one(7, cell)}, code=0, known=False)
for cell in ("1e300", "inf"):
    run(f"all values {cell}", {"in.csv": text([f"{i},{cell}" for i in range(9)])}, "--value", "value", known=False)
run("values of 1e300 in Parquet", {"in.parquet": table(pa.array([1e300, *LEVEL[1:]]))}, code=0)
run("alternating 1e300, fitted", {"in.csv": text([f"{i},{'-' * (i % 2)}1e300" for i in range(9)])}, known=False)
for cell in ("1,5", '"1,5"', "1.2.3", "0x10", "1_000", "12%", "$3", "--5", "1e", "true", "٣"):
    held = (
        one(7, cell)
        if "," not in cell
        else text([f"{i};{cell if i == 7 else y}" for i, y in enumerate(LEVEL)], "time;value")
    )
    run(f"a cell {cell}", {"in.csv": held}, words="row 8 (line 9 of the file)")
for cell in ("", "NA", "nan", "NULL", "-", "?", "n/a", "None", "missing"):
    run(f"a missing cell {cell!r}", {"in.csv": one(7, cell)}, code=0, words="1 of 30 values")
run("a cell 1 000", {"in.csv": one(7, "1 000")}, code=0, words="grouped thousands")
commas = text([f"{i};{str(y).replace('.', ',')}" for i, y in enumerate(LEVEL)], "time;value")
run("decimal commas", {"in.csv": commas}, code=0, words="decimal commas")
run("decimal commas by name", {"in.csv": commas}, "--value", "value", code=0, words="decimal commas")
run("percentages", {"in.csv": text([f"{i},{y}%" for i, y in enumerate(LEVEL)])}, code=0, words="the sign %")
run("money", {"in.csv": text([f'{i},"$1,{100 + 7 * i % 5:03d}"' for i in range(ROWS)])}, code=0, words="the sign $")
run("words", {"in.csv": text([f"{i},x" for i in range(9)])}, words="'x'")
run("all values missing", {"in.csv": text([f"{i}," for i in range(9)])}, "--value", "value", words="missing")

WHOLE = np.round(LEVEL).astype(int)
VALUES = {
    "int8": pa.array(WHOLE, pa.int8()),
    "uint64": pa.array(WHOLE, pa.uint64()),
    "float16": pa.array(np.asarray(LEVEL, np.float16)),
    "float32": pa.array(LEVEL, pa.float32()),
    "decimal128": pa.array(LEVEL).cast(pa.decimal128(20, 3)),
    "text": pa.array(map(str, LEVEL)),
    "large text": pa.array(map(str, LEVEL), pa.large_string()),
    "dictionary": pa.array(LEVEL).dictionary_encode(),
    "dictionary of text": pa.array(map(str, LEVEL)).dictionary_encode(),
    "numbers above 2**53": pa.array([2**60 + i for i in range(ROWS)]),
}
UNSUPPORTED = {
    "bool": pa.array([True, False] * 15),
    "struct": pa.array([{"a": y} for y in LEVEL]),
    "list": pa.array([[y] for y in LEVEL]),
    "map": pa.array([[("a", y)] for y in LEVEL], pa.map_(pa.string(), pa.float64())),
    "binary": pa.array([b"1"] * ROWS),
    "date64": pa.array(range(ROWS), pa.date64()),
    "null": pa.nulls(ROWS),
    "duration": pa.array(range(ROWS), pa.duration("s")),
    "timestamp": pa.array(range(ROWS), pa.timestamp("s")),
    "dictionary of words": pa.array(["x", "y"] * 15).dictionary_encode(),
}
for suffix in (".parquet", ".arrow"):
    for name, column in VALUES.items():
        if (suffix, name) != (".parquet", "float16"):
            run(
                f"values of {name} in {suffix}",
                {f"in{suffix}": table(column)},
                "--value",
                "value",
                code=0,
                words="30 rows",
                written=(f"in-clean{suffix}",),
            )
    for name, column in UNSUPPORTED.items():
        if (suffix, name) == (".parquet", "duration"):
            continue
        there = {f"in{suffix}": table(column)}
        run(f"values of {name} in {suffix}", there, "--value", "value", words="number")
        run(f"a column of {name} in {suffix} beside", {f"in{suffix}": table(other=column)}, code=0)

# series apart

GROUPS = {
    "text": pa.array(["a", "b"] * 15),
    "missing text": pa.array(["a", None] * 15),
    "int": pa.array([1, 2] * 15),
    "bool": pa.array([True, False] * 15),
    "dictionary": pa.array(["a", "b"] * 15).dictionary_encode(),
    "dictionary with a gap": pa.array(["a", None] * 15).dictionary_encode(),
    "dictionary with one word twice": pa.DictionaryArray.from_arrays([0, 1] * 15, ["a", "a"]),
    "date": pa.array([1, 2] * 15, pa.date32()),
    "null": pa.nulls(ROWS),
    "binary": pa.array([b"a", b"b"] * 15),
    "float": pa.array([1.5, 2.5] * 15),
}
for suffix in (".parquet", ".arrow"):
    for name, column in GROUPS.items():
        run(
            f"by {name} in {suffix}",
            {f"in{suffix}": table(key=column)},
            "--by",
            "key",
            "--value",
            "value",
            code=0,
            words="by key",
        )
        run(
            f"by {name} in {suffix}, looking ahead",
            {f"in{suffix}": table(key=column)},
            "--by",
            "key",
            "--value",
            "value",
            "--forecast",
            "2",
            code=0,
        )
    for name in ("struct", "list", "map"):
        run(
            f"by {name} in {suffix}",
            {f"in{suffix}": table(key=UNSUPPORTED[name])},
            "--by",
            "key",
            words="cannot identify series",
        )
run("by the value", IN, "--by", "value", "--value", "value", words="--by")
run("by the time", IN, "--by", "time", "--time", "time", words="--by")
run("the time as value", IN, "--time", "value", "--value", "value", words="--time")
