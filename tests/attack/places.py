"""Where results are written: never onto what is read, nor onto each other."""

from tests.attack.made import GOOD, IN, KNOWN, add, folder, hard, link, run, table

# nothing is lost

SAME = "is the same file as"
LINKS = {"name": None, "dot": None, "symlink": link("in.csv"), "hard link": hard("in.csv")}
for how, made in LINKS.items():
    other = {"name": "in.csv", "dot": "./in.csv"}.get(how, "other.csv")
    there = IN if made is None else IN | {"other.csv": made}
    run(f"out is the input by {how}", there, "--out", other, words=SAME)
    run(f"report is the input by {how}", there, "--report", other, words=SAME)
    model = {"m.toml": 'model = "local-level"\n'}
    meets = {"name": "m.toml", "dot": "./m.toml"}.get(how, "other.toml")
    there = model if made is None else model | {"other.toml": link("m.toml") if how == "symlink" else hard("m.toml")}
    run(f"report is the model by {how}", IN | there, "--model", "m.toml", "--report", meets, words=SAME)
    add(
        f"certificate is the model by {how}",
        there,
        *("certify", "m.toml", *KNOWN, "--trials", "0", "--out", meets),
        words=SAME,
    )
run("the usual output is a link to the input", IN | {"in-clean.csv": link("in.csv")}, words=SAME)
run("the usual output is a hard link to the input", IN | {"in-clean.csv": hard("in.csv")}, words=SAME)
run(
    "out is the input by a link to a link", IN | {"b": link("in.csv"), "c.csv": link("b")}, "--out", "c.csv", words=SAME
)
run("out is the input through a folder", IN | {"d": link(".")}, "--out", "d/in.csv", words=SAME)
run("the input is a link to out", {"a.csv": link("b.csv"), "b.csv": GOOD}, "--out", "b.csv", words=SAME)
for name, content in {"in.parquet": table(), "in.arrow": table()}.items():
    run(f"out is the input, {name}", {name: content}, "--out", name, words=SAME)
    run(f"report is the input, {name}", {name: content}, "--report", name, words=SAME)
run("report and out are one name", IN, "--out", "x.csv", "--report", "x.csv", words=SAME)
run("report and out are one new name", IN, "--out", "x.csv", "--report", "./x.csv", words=SAME)
run("report is a link to out", IN | {"r.html": link("x.csv")}, "--out", "x.csv", "--report", "r.html", words=SAME)
run(
    *("report is a hard link to out", IN | {"x.csv": "old", "r.html": hard("x.csv")}),
    *("--out", "x.csv", "--report", "r.html"),
    words=SAME,
)
run("report is the usual output", IN, "--report", "in-clean.csv", words=SAME)
add(
    "picture and numbers are one",
    {},
    "certify",
    "local-level",
    *KNOWN,
    "--out",
    "x.png",
    "--plot",
    "x.png",
    words=SAME,
)
add(
    *("picture is a link to numbers", {"x.png": link("y.json")}),
    *("certify", "local-level", *KNOWN, "--out", "y.json", "--plot", "x.png"),
    words=SAME,
)
add(
    "simulated onto the model",
    {"m.csv": 'model = "local-level"\n', "m.toml": link("m.csv")},
    *("simulate", "--model"),
    *("m.toml", "--out", "m.csv"),
    words=SAME,
)
run(
    "out is a link to another file, which stays a link",
    IN | {"x.csv": link("y.csv"), "y.csv": "old"},
    "--out",
    "x.csv",
    code=0,
    written=("y.csv",),
)
run("out is a link to nothing yet", IN | {"x.csv": link("y.csv")}, "--out", "x.csv", code=0, written=("y.csv",))
run(
    "out is a hard link to another file",
    IN | {"y.csv": "old", "x.csv": hard("y.csv")},
    "--out",
    "x.csv",
    code=0,
    written=("x.csv",),
)
run("out is a circle of links", IN | {"a.csv": link("b.csv"), "b.csv": link("a.csv")}, "--out", "a.csv")
run("an old output is replaced", IN | {"in-clean.csv": "old"}, code=0, written=("in-clean.csv",))

# places to write

for suffix in (".csv", ".tsv", ".txt", ".parquet", ".pq", ".arrow", ".feather", ".ipc", ".CSV", ".Parquet", ""):
    run(f"out as x{suffix}", IN, "--out", f"x{suffix}", code=0, written=(f"x{suffix}",))
for suffix in (".json", ".xlsx", ".gz", ".csv.gz", ".html", ".h5", ".par", ".", ".cvs"):
    run(f"out as x{suffix}", IN, "--out", f"x{suffix}", words=".csv, .tsv, .txt, .parquet, .pq, .arrow")
    if suffix in (".json", ".xlsx"):
        add(f"simulated as x{suffix}", {}, "simulate", "--out", f"x{suffix}", words=".parquet")
run("out is /dev/null", IN, "--out", "/dev/null", code=0)
run("report is /dev/null", IN, "--report", "/dev/null", code=0, written=("in-clean.csv",))
run("out and report are /dev/null", IN, "--out", "/dev/null", "--report", "/dev/null", code=0)
run("out is full", IN, "--out", "/dev/full", words="No space left")
run("parquet to /dev/null", {"in.parquet": table()}, "--out", "/dev/null", code=0)
run("arrow to /dev/null", {"in.arrow": table()}, "--out", "/dev/null", code=0)
add("simulated to /dev/null", {}, "simulate", "--steps", "10", "--out", "/dev/null", code=0)
run("a link to /dev/null", IN | {"x.csv": link("/dev/null")}, "--out", "x.csv", code=0)
for option in ("--out", "--report"):
    run(f"{option} is a folder", IN | {"sub": folder}, option, "sub", words="is a folder")
    run(f"{option} in no folder", IN, option, "nowhere/x.csv", words="does not exist")
    run(f"{option} below a file", IN, option, "in.csv/x.csv", words="does not exist")
    run(f"{option} is empty", IN, option, "", words="must not be empty")
    run(f"{option} has a long name", IN, option, "x" * 300 + ".csv", words="too long")
    run(f"{option} has a zero in it", IN, option, "x\0.csv", words="null")
run("out has an odd name", IN, "--out", "ä b'\".csv", code=0, written=("ä b'\".csv",))
run("the input has an odd name", {"ä b'\".csv": GOOD}, code=0, written=("ä b'\"-clean.csv",))
run("the input has no suffix", {"in": GOOD}, code=0, written=("in-clean.csv",))
run("the input has a strange suffix", {"in.dat": GOOD}, code=0, written=("in-clean.csv",))
