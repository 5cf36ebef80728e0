"""Options of the command, and models in files."""

from tests.attack.made import IN, add, folder, link, run

# options

for steps in (10**7, 10**12, 10**30):
    run(f"{steps} steps ahead", IN, "--forecast", str(steps), words="at most 1,000,000")
for steps in ("-1", "1e3", "x", "nan"):
    run(f"{steps} steps ahead", IN, "--forecast", steps, words="--forecast")
run("some steps ahead", IN, "--forecast", "5", code=0, written=("in-clean.csv",))
for level in ("0", "1", "nan", "-1", "95", "inf", "x"):
    run(f"a level of {level}", IN, "--level", level, words="level")
for method in ("OGD", "ETKF", "EnKF", "LETKF", "WoLF-EnKF"):
    run(f"method {method}", IN, "--method", method, words="returns no covariances")
run("method PF", IN, "--method", "PF", code=0, written=("in-clean.csv",))
METHODS = [
    "",
    "nonsense",
    "KF:c=1",
    "KF:form=x",
    "WoLF-TMD:c",
    "WoLF-TMD:c=x",
    "WoLF-TMD:c=-1",
    "WoLF-TMD:c=nan",
    "WoLF:x=1",
]
for method in METHODS:
    run(f"method {method!r}", IN, "--method", method)
for setting in (
    "obs_var",
    "obs_var=",
    "obs_var=x",
    "=1",
    "obs_var=-1",
    "obs_var=0",
    "obs_var=nan",
    "obs_var=inf",
    "q=1",
):
    run(f"set {setting}", IN, "--set", setting)
MODELS = [
    "",
    "x",
    "seasonal",
    "seasonal:0",
    "seasonal:1",
    "seasonal:inf",
    "seasonal:nan",
    "seasonal:24:0",
    "seasonal:x",
]
MODELS += [
    "seasonal:-3",
    "cycle:inf",
    "cycle:nan",
    "cycle:1",
    "cycle:11:0",
    "cycle:11:2",
    "cycle:11:nan",
    "level+",
    "+",
]
MODELS += [
    "seasonal:1e9",
    "seasonal:100000",
    "seasonal:24:13",
    "trend+local-level",
    "level:3",
    "seasonal:7.5",
    "x.toml",
]
for model in MODELS:
    run(f"model {model!r}", IN, "--model", model, known=False)
    if model != "x.toml":
        add(f"certificate of {model!r}", {}, "certify", model, "--trials", "0")
        add(f"simulated {model!r}", {}, "simulate", "--model", model, "--steps", "3")

# models in files

SQUARE = "F = [[1.0]]\nH = [[1.0]]\nQ = [[0.1]]\nR = [[1.0]]\nmean = [20.0]\ncov = [[10.0]]\n"
TOML = {
    "nothing": "",
    "text": "hello",
    "half": "a = [",
    "not UTF-8": b"a = '\xff'",
    "an unknown name": "x = 1\n",
    "a model that is a number": "model = 3\n",
    "a model that is a list": 'model = ["level"]\n',
    "a model that is empty": 'model = ""\n',
    "a model and parts": 'model = "local-level"\n[[parts]]\nkind = "level"\n',
    "a model of another file": 'model = "m.toml"\n',
    "parts that are a number": "parts = 3\n",
    "parts that are a text": 'parts = "level"\n',
    "parts that are a table": '[parts]\nkind = "level"\n',
    "no parts": "parts = []\n",
    "parts of numbers": "parts = [1, 2]\n",
    "parts of texts": 'parts = ["level"]\n',
    "parts of lists": "parts = [[1]]\n",
    "a part without a kind": "[[parts]]\nperiod = 3\n",
    "a kind that is a number": "[[parts]]\nkind = 3\n",
    "a kind that is a list": '[[parts]]\nkind = ["level"]\n',
    "a kind that is a table": "[[parts]]\nkind = {a = 1}\n",
    "an unknown kind": '[[parts]]\nkind = "season"\n',
    "a season without a period": '[[parts]]\nkind = "seasonal"\n',
    **{
        f"a period of {value}": f'[[parts]]\nkind = "seasonal"\nperiod = {value}\n'
        for value in ("0", "1", "-3", "inf", "nan", '"x"', "[3]", "true", "2024-01-01", "1e300", "10000000")
    },
    **{
        f"harmonics of {value}": f'[[parts]]\nkind = "seasonal"\nperiod = 24\nharmonics = {value}\n'
        for value in ("0", "-1", "13", "1.5", '"x"', "[1]", "true", "inf")
    },
    "waves": '[[parts]]\nkind = "seasonal"\nperiod = 24\nwaves = 0\n',
    **{
        f"a cycle of {value}": f'[[parts]]\nkind = "cycle"\nperiod = {value}\n'
        for value in ("0", "2", "inf", "nan", '"x"', "[11]", "true")
    },
    **{
        f"damping of {value}": f'[[parts]]\nkind = "cycle"\nperiod = 11\ndamping = {value}\n'
        for value in ("0", "2", "nan", '"x"', "[1]", "true")
    },
    **{
        f"a variance of {value}": f'model = "local-level"\nobs_var = {value}\n'
        for value in ("0", "-1", "nan", "inf", '"x"', "[1]", "true", "2024-01-01", "{a = 1}")
    },
    "a level variance of a text": '[[parts]]\nkind = "level"\nlevel_var = "often"\n',
    "F only": "F = [[1.0]]\n",
    "F of three dimensions": SQUARE.replace("F = [[1.0]]", "F = [[[1.0]], [[1.0]]]"),
    "H of three dimensions": SQUARE.replace("H = [[1.0]]", "H = [[[1.0]], [[1.0]]]"),
    "Q of three dimensions": SQUARE.replace("Q = [[0.1]]", "Q = [[[0.1]], [[0.1]]]"),
    "R of three dimensions": SQUARE.replace("R = [[1.0]]", "R = [[[1.0]], [[1.0]]]"),
    "F of one dimension": SQUARE.replace("F = [[1.0]]", "F = [1.0]"),
    "F that is a number": SQUARE.replace("F = [[1.0]]", "F = 1.0"),
    "F that is a text": SQUARE.replace("F = [[1.0]]", 'F = "x"'),
    "F of texts": SQUARE.replace("F = [[1.0]]", 'F = [["x"]]'),
    "F of dates": SQUARE.replace("F = [[1.0]]", "F = [[2024-01-01]]"),
    "F that is a table": SQUARE.replace("F = [[1.0]]", "F = {a = 1}"),
    "ragged F": SQUARE.replace("F = [[1.0]]", "F = [[1.0], [1.0, 2.0]]"),
    "empty F": SQUARE.replace("F = [[1.0]]", "F = []"),
    "infinite F": SQUARE.replace("F = [[1.0]]", "F = [[inf]]"),
    "F of another size": SQUARE.replace("F = [[1.0]]", "F = [[1.0, 0.0], [0.0, 1.0]]"),
    "H of another size": SQUARE.replace("H = [[1.0]]", "H = [[1.0, 0.0]]"),
    "negative R": SQUARE.replace("R = [[1.0]]", "R = [[-1.0]]"),
    "R of zero": SQUARE.replace("R = [[1.0]]", "R = [[0.0]]"),
    "infinite mean": SQUARE.replace("mean = [20.0]", "mean = [inf]"),
    "mean that is a number": SQUARE.replace("mean = [20.0]", "mean = 20.0"),
    "negative cov": SQUARE.replace("cov = [[10.0]]", "cov = [[-1.0]]"),
    "matrices and something else": SQUARE + "x = 1\n",
    "matrices and parts": SQUARE + '[[parts]]\nkind = "level"\n',
    "matrices of two columns": (
        "F = [[1.0]]\nH = [[1.0], [1.0]]\nQ = [[0.1]]\nR = [[1.0, 0.0], [0.0, 1.0]]\nmean = [20.0]\ncov = [[10.0]]\n"
    ),
}
for name, content in TOML.items():
    run(f"a model file of {name}", IN | {"m.toml": content}, "--model", "m.toml", known=False)
run("a model file that is a folder", IN | {"m.toml": folder}, "--model", "m.toml", known=False)
run("a model file of matrices", IN | {"m.toml": SQUARE}, "--model", "m.toml", code=0, known=False, words="m.toml")
named = 'model = "local-level"\nlevel_var = 0.1\nobs_var = 1\n'
run("a model file by name", IN | {"m.toml": named}, "--model", "m.toml", code=0, known=False)
run("a model file by a link", IN | {"n.txt": named, "m.toml": link("n.txt")}, "--model", "m.toml", code=0, known=False)
