"""Columns of times."""

import numpy as np
import pyarrow as pa
from tests.attack.made import LEVEL, ROWS, dated, one, run, table, text
from tests.attack.tables import UNSUPPORTED

for where in (3, 0, ROWS - 1):
    run(f"30 February in row {where + 1}", {"in.csv": dated(where, "2024-02-30")}, words=f"row {where + 1} ")
for named in ([], ["--time", "time"]):
    how = " by name" if named else ""
    run(f"29 February of 2023{how}", {"in.csv": dated(3, "2023-02-29")}, *named, words="row 4 (line 5 of the file)")
    run(f"31 April{how}", {"in.csv": dated(3, "2024-04-31")}, *named, words="row 4 (line 5 of the file)")
    run(
        f"a leap second{how}",
        {"in.csv": dated(3, "2024-05-04 23:59:60")},
        *named,
        words="row 4 (line 5 of the file)",
    )
    run(f"a month 13{how}", {"in.csv": dated(3, "2024-13-01")}, *named, words="row 4 (line 5 of the file)")
    run(f"a word among dates{how}", {"in.csv": dated(3, "yesterday")}, *named, words="'yesterday'")
    run(f"a date without one{how}", {"in.csv": dated(3, "")}, *named, words="row 4 has no time stamp")
    run(f"a zone among none{how}", {"in.csv": dated(3, "2024-05-04T00:00:00Z")}, *named, words="zone")
    zoned = dated(3, "2024-05-04T00:00:00", "2024-05-{:02d}T00:00:00Z")
    run(f"none among zones{how}", {"in.csv": zoned}, *named, words="zone")
    run(f"a year 1600{how}", {"in.csv": dated(3, "1600-01-01")}, *named, words="row 4 (line 5 of the file)")
    run(f"a year 9999{how}", {"in.csv": dated(3, "9999-01-01")}, *named, words="row 4 (line 5 of the file)")
    run(f"a word among numbers{how}", {"in.csv": one(3, "noon", 0)}, *named, words="row 4 (line 5 of the file)")
    run(f"no number among numbers{how}", {"in.csv": one(3, "", 0)}, *named, words="row 4 has no time stamp")
    run(f"infinity among times{how}", {"in.csv": one(3, "inf", 0)}, *named, words="row 4")
    far = {"in.csv": one(ROWS - 1, "1e300", 0)}
    run(f"a time of 1e300{how}", far, *named, words="got 1e+300 in row 30")
offsets = dated(3, "2024-05-04T01:00:00+01:00", "2024-05-{:02d}T00:00:00Z")
run("two offsets of one moment", {"in.csv": offsets}, code=0, words="every 86400 s")
american = text([f"01/{i + 1:02d}/2015,{y}" for i, y in enumerate(LEVEL)])
run("American dates", {"in.csv": american}, code=0, words="time, every 86400 s")
unclear = text([f"01/{i % 3 + i // 3 + 1:02d}/2015,{y}" for i, y in enumerate(LEVEL)])
run("dates in either order", {"in.csv": unclear}, "--value", "value", words="--day-first or --month-first")
run("dates in either order, given", {"in.csv": unclear}, "--month-first", code=0, words="sorted for filtering")
TIMES = {
    "date32": pa.array(range(ROWS), pa.date32()),
    "date64": pa.array([86_400_000 * i for i in range(ROWS)], pa.date64()),
    "timestamp[s]": pa.array(range(ROWS), pa.timestamp("s")),
    "timestamp[ns, tz]": pa.array(range(ROWS), pa.timestamp("ns", "Europe/Berlin")),
    "nanoseconds": pa.array([1_700_000_000_000_000_000 + 10**9 * i for i in range(ROWS)]),
    "float": pa.array(np.arange(ROWS) / 7),
    "text": pa.array([f"2024-05-{i + 1:02d}" for i in range(ROWS)]),
    "dictionary": pa.array([f"2024-05-{i + 1:02d}" for i in range(ROWS)]).dictionary_encode(),
    "decimal": pa.array([float(i) for i in range(ROWS)]).cast(pa.decimal128(20, 3)),
}
NO_TIMES = {
    "struct": UNSUPPORTED["struct"],
    "list": UNSUPPORTED["list"],
    "bool": UNSUPPORTED["bool"],
    "time of day": pa.array(range(ROWS), pa.time32("s")),
    "far dates": pa.array([10**6 * i for i in range(ROWS)], pa.date32()),
    "null": pa.nulls(ROWS),
    "missing dates": pa.array([None] * ROWS, pa.timestamp("s")),
}
for suffix in (".parquet", ".arrow"):
    for name, column in TIMES.items():
        run(
            f"time of {name} in {suffix}",
            {f"in{suffix}": table(when=column)},
            "--time",
            "when",
            "--value",
            "value",
            code=0,
            words="when, every",
            written=(f"in-clean{suffix}",),
        )
    run(
        f"looking ahead from date64 in {suffix}",
        {f"in{suffix}": table(when=TIMES["date64"])},
        "--time",
        "when",
        "--value",
        "value",
        "--forecast",
        "3",
        code=0,
    )
    for name, column in NO_TIMES.items():
        run(
            f"time of {name} in {suffix}",
            {f"in{suffix}": table(when=column)},
            "--time",
            "when",
            "--value",
            "value",
            words="time",
        )
within = {"in.arrow": table(when=pa.array(range(ROWS), pa.date64()))}
run("time of date64 within a day", within, "--time", "when", "--value", "value", code=0, written=("in-clean.arrow",))
